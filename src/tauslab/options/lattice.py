"""The settings of a lattice run, checked, and what follows from them."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, ModelError, TauslabError
from tauslab.base.option_names import assigned, at_command_line, opt, warn
from tauslab.model.lattice.parts import MAX_HOP
from tauslab.options import python_values
from tauslab.options.keywords import PointsKeywords, device_option
from tauslab.options.places import Device, Name, Output, check_threads
from tauslab.options.sweep import Design, Sweep, column_of, share_of, task_of
from tauslab.options.values.checks import number, whole, word
from tauslab.options.values.definition import Stored, check_values, declared, option
from tauslab.options.values.recurring import comm_option, quiet_option, task_option
from tauslab.options.values.texts import assignments, count

if TYPE_CHECKING:
    from tauslab.kernels.lattice.lowering import LoweredLattice
    from tauslab.kernels.lattice.planes import LatticeEngineName
    from tauslab.model.lattice.lattice import Lattice
    from tauslab.model.lattice.values import LatticeValues
    from tauslab.options.hook_view import LatticeView

Hook: TypeAlias = "Callable[[LatticeView], None]"
Halo: TypeAlias = Literal["auto", "self", "peer", "shared", "host", "mpi"]
HALOS: tuple[str, ...] = get_args(Halo)
Engine: TypeAlias = Literal["auto", "planes", "slots"]
ENGINES: tuple[str, ...] = get_args(Engine)

MOST_REPLICAS = 1 << 16  # a replica's number has 16 bits in the address of a draw
MOST_RUNS = 1 << 24  # points times replicas
MOST_STEPS = 1 << 48
_MOST_SAID = 4  # different warnings of a model
# Times the end that was asked for: what whole steps of a model without a step, or with one, may
# make of it in silence.
_LONGER = 1.5, 1.01
_STILL = 1e-3  # hops of a particle in a run, below which a unit is likely to be wrong
_SAMPLES = 1000  # about as many by default
_UNCOUNTED = 0.03  # of a run, after the last counts, above which a warning says so
_COPIES = 3  # of the particles on a device: before and after hops, and of the start of a batch
_FRAMES = 2  # copies of the particles that are on their way to the file
_FRAME = 1024  # bytes of one of an empty lattice
_PLACING = 40  # bytes of a site while the host places particles
_PLACING_THERE = 8  # the same of the device that does it
_POINT_STREAM = 3  # second word of the key: 1 and 2 place particles, see model/lattice/placement.py


@declared
@dataclass(frozen=True, kw_only=True)
class LatticeChoices:
    """Options that a job of a lattice takes as they are."""

    t_end: float | None = option(
        None, "end time, in seconds", flag="--t-end", group="sampling", type=float, metavar="T",
        unit="s", stored=Stored(separate=True),
        check=number(lambda t: math.isfinite(t) and t > 0, "a finite number above 0"),
        doc="End time; by default the model's end time.",
    )  # fmt: skip
    count_every: int | None = option(
        None, "steps between counts (1/1000 of the run)", flag="--count-every", group="sampling",
        type=count, metavar="N", stored=Stored(always=True),
        check=whole(1, MOST_STEPS, " of time steps"),
        doc="Number of time steps between two counts (by default about 1000 counts per run).",
    )  # fmt: skip
    frame_every: int = option(
        0, "steps between frames (none)", flag="--frame-every", group="sampling", type=count,
        metavar="N", stored=Stored(always=True), check=whole(0, MOST_STEPS, " of time steps"),
        doc="Number of time steps between two frames, which store all particles (by default "
        "none).",
    )  # fmt: skip
    replicas: int = option(
        1, "independent runs (1)", flag="--replicas", group="sampling", type=count, metavar="R",
        stored=Stored(always=True), check=whole(1, MOST_REPLICAS),
        doc="Number of independent runs.",
    )  # fmt: skip
    first_replica: int = option(
        0, "number of the first replica (0)", flag="--first-replica", group="sampling", type=count,
        metavar="N", stored=Stored(absent=0), check=whole(0, MOST_REPLICAS - 1),
        doc="Number of the first replica, to divide a run among jobs.",
    )  # fmt: skip
    task: str | tuple[int, int] | None = task_option("replicas")
    max_hop: float = option(
        MAX_HOP, "maximum hop probability (1/6)", flag="--max-hop", group="method", type=float,
        metavar="Q", stored=Stored(always=True), check=number(lambda _: True, "a number"),
        doc="Maximum probability of a hop to one side (1/6), below 1/2. Steps with larger "
        "probabilities are divided into passes.",
    )  # fmt: skip
    seed: int | None = option(
        None, "64-bit seed; drawn and stored by default", flag="--seed", group="sampling", type=int,
        metavar="S", stored=Stored(always=True), check=whole(0, 2**64 - 1),
        doc="64-bit seed: the same seed gives the same bits on any device. By default drawn and "
        "stored in the result.",
    )  # fmt: skip
    slabs: int | None = option(
        None, "ranks that share each lattice (automatic)", flag="--slabs", group="cluster",
        type=count, metavar="N", check=whole(1, MOST_STEPS),
        doc="Ranks that share each lattice; by default chosen by size.",
    )  # fmt: skip
    engine: Engine = option(
        "auto", "storage of the lattice (auto: by the model)", flag="--engine", choices=ENGINES,
        check=word(*ENGINES), group="method",
        doc="Storage of the lattice, which determines the bits: ``planes`` (bit planes of "
        "counts), ``slots``, or ``auto`` (docs/rdme.md).",
    )  # fmt: skip
    halo: Halo = option(
        "auto", "transport of edge planes between ranks (auto)", flag="--halo", choices=HALOS,
        check=word(*HALOS),
        doc="Transport of edge planes between ranks: ``auto``, ``self`` (one rank), ``peer``, "
        "``shared``, ``host``, ``mpi``. Does not change results.",
    )  # fmt: skip
    halo_depth: int = option(
        0, "lattice planes per message (chosen by size and transport)",
        flag="--halo-depth", type=count,
        metavar="K", check=whole(0, MOST_STEPS),
        doc="Number of planes per message; 0: chosen by size and transport. Does not change "
        "results.",
    )  # fmt: skip
    rebalance_every: float | None = option(
        None, "seconds between load balancing (at checkpoints); 0: never",
        flag="--rebalance-every", type=float, metavar="S", unit="s",
        check=number(lambda s: s >= 0, "a number of 0 or more"),
        doc="Wall-clock time between load balancing; 0: never. By default at checkpoints.",
    )  # fmt: skip
    checkpoint_every: float = option(
        600.0, "seconds between checkpoints (600)", flag="--checkpoint-every", group="output",
        type=float, metavar="S", unit="s",
        check=number(lambda s: s >= 60, "seconds, no longer minutes, and 60 or more"),
        doc="Time between checkpoints, at least 60; frames serve as checkpoints too.",
    )  # fmt: skip
    checkpoint_steps: int = option(
        0, "steps between checkpoints (none)",
        flag="--checkpoint-steps", group="output", type=count, metavar="N",
        check=whole(0, MOST_STEPS),
        doc="Steps between checkpoints; 0: none.",
    )  # fmt: skip
    resume: bool = option(
        False, "complete an unfinished file", flag="--resume", group="output",
        action="store_true",
        doc="Complete an unfinished file.",
    )  # fmt: skip
    keep_state: bool = option(
        False, "store the last state, from which --extend continues", flag="--keep-state",
        group="output", action="store_true", stored=Stored(),
        doc="Store the last state, from which `extend` continues; about as large as a frame.",
    )  # fmt: skip
    extend: Any = option(
        None, "continue this finished result to a later --t-end", flag="--extend",
        group="sampling", type=Path, metavar="FILE",
        doc="A finished `LatticeResult` or its path, to continue to a later `t_end` with the bits "
        "of one longer run (docs/rdme.md).",
    )  # fmt: skip
    quiet: bool | None = quiet_option()


@declared
@dataclass(frozen=True, kw_only=True)
class LatticeKeywords(PointsKeywords, LatticeChoices):
    """The keywords of `tauslab.run` for a lattice."""

    set: Mapping[str, float] | None = option(
        None, "value of a parameter, or initial number of particles",
        flag="--set", group="model", action="append", metavar="NAME=VALUE", read=assignments,
        doc="Values of parameters and initial numbers of particles by name.",
    )  # fmt: skip
    hooks: Sequence[tuple[int, Hook]] = option(
        (),
        doc="Pairs ``(steps, function)``: each rank calls the function with a `LatticeView` after "
        "every `steps` steps, and with `at_start` also at t = 0.",
    )  # fmt: skip
    at_start: bool = option(
        False, doc="Call hooks at t = 0 too, after its sample and its frame.",
    )  # fmt: skip
    device: Device = device_option()
    output: Name | Output | None = option(
        None, "result file (the name of MODEL with .h5)",
        flag=("-o", "--output"), group="output", type=Path,
        metavar="OUT.h5",
        doc="Result file (HDF5), or `tauslab.Output`; by default a temporary file.",
    )  # fmt: skip
    stop: Callable[[], bool] | None = option(
        None,
        doc="Function that is called twice a second. If it returns True on any rank, the run "
        "writes a checkpoint and raises `StoppedEarly`; ``resume=True`` continues. Without "
        "`output` nothing is stored.",
    )  # fmt: skip
    comm: Any = comm_option()


@dataclass(frozen=True, kw_only=True)
class LatticeOptions(LatticeChoices):
    """Everything a user may choose for ``tauslab rdme``, checked: `LatticeChoices`, and these.

    Parameters
    ----------
    hooks
        Functions and the number of steps before each of their calls.
    at_start
        Whether they are called at t = 0 too.
    share_gpu
        Whether two ranks may use the same GPU.
    sweep
        Points at which other values hold; a design becomes points when the seed is known.
    all_replicas
        Number of replicas of all tasks of an array (`--task I/N`); 0 in a run that is no task.

    Raises
    ------
    ConfigError
        A value outside what is allowed.
    """

    set: Mapping[str, float] = field(default_factory=dict)
    sweep: Sweep | Design | None = None
    all_replicas: int = 0
    hooks: Sequence[tuple[int, Hook]] = ()
    at_start: bool = False
    share_gpu: bool = False
    device: str = "auto"
    threads: int = 0
    output: Path | None = None
    overwrite: bool = False
    command: str = ""

    def __post_init__(self) -> None:
        """Check what needs no model; a seed may be written as 1e6."""
        object.__setattr__(self, "seed", python_values.whole(self.seed))
        check_values(self)
        check_threads("threads", self.threads)
        if self.task is not None:
            self._take_share()
        if self.first_replica + self.replicas > MOST_REPLICAS:
            raise ConfigError(
                f"{opt('first_replica', self.first_replica)} and {opt('replicas', self.replicas)}: "
                f"replicas have numbers below {MOST_REPLICAS}"
            )
        if self.sweep is not None:
            self._check_sweep(self.sweep)
        for one in self.hooks:
            pair = (
                isinstance(one, tuple | list)
                and len(one) == 2
                and isinstance(one[0], int | np.integer)
            )
            if not pair or one[0] < 1 or not callable(one[1]):
                raise ConfigError("hooks: each is (steps, function), with 1 whole step or more")

    def _take_share(self) -> None:
        """Set the replicas of a task of an array, and clear `task`."""
        task = task_of(self.task)
        assert task is not None
        if self.seed is None or self.first_replica:
            raise ConfigError(
                f"{opt('task')} needs {opt('seed')}, the same for all tasks of an array, and sets "
                f"the numbers of replicas: leave out {opt('first_replica')}"
            )
        first, end = share_of(task, self.replicas, "replicas")
        own = {"all_replicas": self.replicas, "replicas": end - first, "first_replica": first}
        for name, value in {**own, "task": None}.items():
            object.__setattr__(self, name, value)

    def _check_sweep(self, sweep: Sweep | Design) -> None:
        if self.runs > MOST_RUNS:
            raise ConfigError(
                f"{opt('replicas', self.replicas)} at {sweep.points} points are {self.runs} runs: "
                f"at most {MOST_RUNS}"
            )
        for name in self.set:
            if name in sweep.names:
                raise ConfigError(f"{name} has one value for all points and is swept: choose one")

    @property
    def runs(self) -> int:
        """Replicas of all points together."""
        return self.replicas * (1 if self.sweep is None else self.sweep.points)


@dataclass(frozen=True)
class LatticeTask:
    """A lattice run, ready to be driven.

    steps: of the model, of `passes` passes of hops each; `--count-every` and `--frame-every` count
    these, and times are multiples of their length.

    In a sweep the replicas of all points are numbered as one row, those of point 0 first: a *run*
    is one of them. `lattice` is that of point `point`; all points have the same steps, and each its
    own passes of hops and of reactions, `passes_at` ``[point, 2]``.
    """

    model: Lattice
    lattice: LoweredLattice
    options: LatticeOptions
    steps: int
    count_every: int
    passes_at: npt.NDArray[np.int64]
    point: int = 0

    @cached_property
    def engine(self) -> LatticeEngineName:
        """Representation of the lattice.

        Raises
        ------
        ModelError
            It was to be in planes, which lack something that it has.
        """
        from tauslab.kernels.lattice.planes import LatticeEngineName, engine_of, missing_in_planes

        requested = self.options.engine
        if requested == "planes" and (missing := missing_in_planes(self.lattice)):
            raise ModelError(f"{self.model.name}: {opt('engine', 'planes')}: {missing}")
        if requested != "auto":
            return LatticeEngineName(requested)
        return engine_of(self.lattice)

    @property
    def hooked(self) -> bool:
        """Return whether hooks or moving objects change lattices between steps."""
        return bool(self.options.hooks or self.model.objects)

    @property
    def sweep(self) -> Sweep | None:
        """The points; None without a sweep."""
        assert not isinstance(self.options.sweep, Design)
        return self.options.sweep

    @property
    def runs(self) -> int:
        """Replicas of all points together."""
        return self.options.runs

    def place(self, run: int) -> tuple[int, int]:
        """Point and replica of a run."""
        return divmod(run, self.options.replicas)

    def number_of(self, run: int) -> int:
        """The number of a run's replica that its draws know."""
        return self.options.first_replica + self.place(run)[1]

    def of_run(self, run: int) -> LatticeTask:
        """The task with the lattice of the point to which a run belongs."""
        point = self.place(run)[0]
        if point == self.point:
            return self
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it was said when the task was made
            values = _numbers_at(self.model, self.options, point)
            lattice = _lattice_at(self.model, self.options, point, self.lattice.step, values)
        return replace(self, lattice=lattice, point=point)

    def passes_of(self, run: int) -> int:
        """Steps of the engine in a step of the model, in a run."""
        return int(self.passes_at[self.place(run)[0], 0])

    def seed_of(self, point: int) -> int:
        """The seed of a point: that of a run without a sweep that gives the same bits."""
        assert self.options.seed is not None
        return point_seed(self.options.seed, point)

    @cached_property
    def canonical(self) -> str:
        """The normal form of the model; its sites are read for it."""
        from tauslab.model.lattice.canonical import lattice_canonical_text

        return lattice_canonical_text(self.model)

    @cached_property
    def sha256(self) -> str:
        """The digest of that."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    @property
    def samples(self) -> int:
        """Sample times of a replica."""
        return self.steps // self.count_every + 1

    @property
    def frames(self) -> int:
        """Frames of a replica."""
        every = self.options.frame_every
        return self.steps // every + 1 if every else 0

    @property
    def least_bytes(self) -> int:
        """Bytes of the file at least: of the counts of all samples, and what no frame lacks."""
        lattice = self.lattice
        types, species = len(lattice.site_types), len(lattice.species)
        row = (types + 1) * species + len(lattice.reactions) + 1
        return self.runs * (8 * row * self.samples + _FRAME * self.frames)

    def host_bytes(self, slabs: int, *, computes: bool) -> int:
        """Host memory of a rank, where as many share a lattice, at its most.

        Parameters
        ----------
        computes
            Whether the device's memory is the host's.
        """
        from tauslab.kernels.lattice.placing import are_many, planes_at_once
        from tauslab.kernels.lattice.planes import LatticeEngineName, bytes_of_site
        from tauslab.kernels.lattice.state import Slab

        (nz, ny, nx), start = self.lattice.shape, self.lattice.start
        planes = placed = -(-nz // slabs)
        particles = self.lattice.slots * np.dtype(self.lattice.particle_type).itemsize
        before, during = 2 * particles, _COPIES * particles
        if self.engine is LatticeEngineName.PLANES:
            placed = min(planes, planes_at_once(self.lattice, planes))
            before = during = bytes_of_site(self.lattice)
        on_device = are_many(start, Slab(0, placed))
        placing = 0 if not start.spread_types else _PLACING_THERE * computes
        if not on_device:
            placing = particles + (_PLACING if start.spread_types else 0)
        written = bool(self.frames) or self.options.output is not None
        begins = planes * computes * before + placed * placing
        goes_on = planes * (computes * during + _FRAMES * written * particles)
        return ny * nx * (max(begins, goes_on) + planes) + 16 * (self.samples + self.frames)

    @property
    def passes(self) -> int:
        """Steps of the engine in a step of the model."""
        return self.lattice.diffusion_substeps

    @cached_property
    def times(self) -> FloatArray:
        """Sample times ``[sample]`` in seconds."""
        numbers = np.arange(0, self.steps + 1, self.count_every, dtype=np.float64)
        return np.multiply(numbers, self.lattice.step, dtype=np.float64)

    @cached_property
    def frame_times(self) -> FloatArray:
        """Times of frames ``[frame]``; empty without."""
        every = self.options.frame_every
        last = self.steps + 1 if every else 0
        numbers = np.arange(0, last, every or 1, dtype=np.float64)
        return np.multiply(numbers, self.lattice.step, dtype=np.float64)


def point_seed(seed: int, point: int) -> int:
    """Seed of a point of a sweep: the run's own at point 0, else a word of NumPy's Philox."""
    if point == 0:
        return seed
    words = np.random.Philox(
        key=np.array([seed, _POINT_STREAM], np.uint64),
        counter=np.array([0, point, 0, 0], np.uint64),
    )
    return int(words.random_raw())


def set_parameters(model: Lattice, given: Mapping[str, float]) -> dict[str, float] | None:
    """Values of ``--set``, None if there are none; ConfigError where the model has no such name."""
    _require_names(model, given, "set")
    return {name: float(value) for name, value in given.items()} or None


def _require_names(model: Lattice, names: Iterable[str], origin: str) -> None:
    """Refuse what is neither a parameter nor a species."""
    from tauslab.model.lattice.values import is_start

    for name in sorted(set(names) - set(model.parameters)):
        if not is_start(model, name):
            known = ", ".join(model.parameters) or "none"
            reaction = any(one.name == name for one in model.reactions)
            raise ConfigError(
                f"{column_of(origin, name)}: {model.name} has no parameter or species of "
                f"that name; parameters: {known}; species: {', '.join(model.species)}"
                + f"; {name} is a reaction: make its rate a parameter"
                * reaction
            )


def prepare_lattice(model: Lattice, options: LatticeOptions) -> LatticeTask:
    """Apply the options to the model.

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; named in one sentence.
    """
    if options.set or options.sweep is not None:
        model.validate()  # else the values of the only point do
    if isinstance(options.sweep, Design):
        assert options.seed is not None  # drawn before
        options = replace(options, sweep=options.sweep.draw(options.seed))
    set_parameters(model, options.set)
    if isinstance(options.sweep, Sweep):
        _require_names(model, options.sweep.names, options.sweep.origin)
    lattice, passes = _lattices(model, options)
    t_end = options.t_end if options.t_end is not None else model.t_end
    if t_end is None:
        raise ModelError(
            f"{model.name} has no end time: give one, for instance {assigned('t_end')}10"
        )
    wanted = t_end / lattice.step * (1 - 1e-12)
    if not wanted * int(passes[:, 0].max()) < MOST_STEPS - 1:
        raise ConfigError(
            f"{assigned('t_end')}{t_end:g}: these are {wanted:.3g} steps of {lattice.step:.3g} s; "
            "at most 2^48 are done"
        )
    steps = max(1, math.ceil(wanted))
    if steps > _LONGER[model.step is not None] * wanted:
        warn(
            f"{model.name}: a step is {lattice.step:.3g} s, so the run ends at "
            f"{steps * lattice.step:.3g} s, not at "
            + ("the model's end, " if options.t_end is None else assigned("t_end"))
            + f"{t_end:g}"
            + "; is the spacing in metres, and D in m^2/s?" * (lattice.step > 1)
        )
    hops = 6 * float(lattice.hop.max(initial=0.0)) * lattice.diffusion_substeps * steps
    if 0 < hops < _STILL:
        warn(
            f"{model.name}: the fastest particle is expected to hop {hops:.2g} times in the run: "
            f"is the spacing, {model.spacing:g}, in metres, and D in m^2/s?"
        )
    _warn_of_intervals(model.name, options, steps)
    every = options.count_every or max(1, steps // _SAMPLES)
    task = LatticeTask(model, lattice, options, steps, every, passes)
    assert task.engine  # refuses what planes lack
    return task


def hook_name(hook: Hook) -> str:
    """Name of a hook in messages and files: that of the function, or of the object's class."""
    while isinstance(hook, partial):
        hook = hook.func
    return str(getattr(hook, "__name__", type(hook).__name__))


def _warn_of_intervals(name: str, options: LatticeOptions, steps: int) -> None:
    """Counts or frames so far apart that the start alone has one."""
    run = f"the run has {steps} step" + "s" * (steps > 1)
    for field_name, what in (("count_every", "counts are"), ("frame_every", "a frame is")):
        every = getattr(options, field_name)
        if every is not None and every > steps:
            warn(f"{name}: {assigned(field_name)}{every}: {run}, so {what} made at t = 0 alone")
    every = options.count_every or 1
    if steps % every > _UNCOUNTED * steps and every <= steps and not at_command_line():
        warn(
            f"{name}: {assigned('count_every')}{every}: {run}, so the last counts are made "
            f"{steps % every} steps before the end"
        )
    for every, hook in options.hooks:
        if every > steps and not options.at_start:
            called = hook_name(hook)
            warn(f"{name}: hooks=[({every}, {called})]: {run}, so {called} is never called")


def _lattices(
    model: Lattice, options: LatticeOptions
) -> tuple[LoweredLattice, npt.NDArray[np.int64]]:
    """The lattice of the first point, and the passes of hops and reactions at all ``[point, 2]``.

    All points take one step: the model's, or the shortest that one of them would choose.
    """
    points = 1 if options.sweep is None else options.sweep.points
    step = None
    if model.step is None and points > 1:
        shortest = min(_own_step(model, options, point) for point in range(points))
        step = shortest if math.isfinite(shortest) else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        values = _numbers_at(model, options, 0)
        first = _lattice_at(model, options, 0, step, values)
        passes, worst = np.zeros((points, 2), np.int64), first
        for point in range(points):
            one = first
            if point > 0:
                values = _numbers_at(model, options, point)
                one = _lattice_at(model, options, point, step, values)
            if one.tracked != first.tracked:
                raise ConfigError(
                    f"{model.name}: the numbers of its objects at t = 0 must be the same at all "
                    "points of a sweep, as their positions are recorded"
                )
            passes[point] = one.diffusion_substeps, one.reaction_substeps
            worst = max(worst, one, key=lambda lattice: lattice.splitting.error)
            for sentence in _model_warnings(model, options, point, one.splitting.hop, values):
                warn(f"{model.name}: {sentence}")
    message = list(dict.fromkeys(str(each.message) for each in caught))  # most are of each point
    for sentence in message[:_MOST_SAID]:
        warn(sentence)
    if len(message) > _MOST_SAID:
        warn(
            f"{model.name}: {len(message) - _MOST_SAID} more warnings, which `tauslab check` lists"
        )
    reported = worst.splitting_warning()
    if reported is not None:
        warn(reported)
    return first, passes


def _model_warnings(
    model: Lattice, options: LatticeOptions, point: int, hop: float, values: LatticeValues
) -> list[str]:
    from tauslab.model.lattice.diagnosis.check import model_warnings

    given, hooks = _values_at(options, point), bool(options.hooks)
    return model_warnings(model, given, hooks=hooks, hop=hop, values=values)


def _own_step(model: Lattice, options: LatticeOptions, point: int) -> float:
    """Seconds of the step that a point alone would take; infinite where nothing diffuses."""
    from tauslab.model.lattice.diagnosis.time_step import choose_time_step, fastest_hop

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is said when the lattice is made
        values = _numbers_at(model, options, point)
        if fastest_hop(model, values) == 0:
            return math.inf
        with _of_point(options, point):
            return choose_time_step(model, values, max_hop=options.max_hop).step


def _numbers_at(model: Lattice, options: LatticeOptions, point: int) -> LatticeValues:
    """The model in numbers with the values of a point."""
    from tauslab.model.lattice.values import lattice_values

    with _of_point(options, point):
        return lattice_values(model, _values_at(options, point))


def _lattice_at(
    model: Lattice, options: LatticeOptions, point: int, step: float | None, values: LatticeValues
) -> LoweredLattice:
    """The lattice with the `values` of a point, where a step has so many seconds."""
    from tauslab.kernels.lattice.lowering import lower_lattice

    with _of_point(options, point):
        return lower_lattice(model, max_hop=options.max_hop, step=step, values=values)


def _values_at(options: LatticeOptions, point: int) -> dict[str, float] | None:
    """Values of parameters and numbers of particles at a point; None if none are given."""
    values = dict(options.set)
    if isinstance(options.sweep, Sweep):
        values |= dict(zip(options.sweep.names, options.sweep.values[point].tolist(), strict=True))
    return values or None


@contextmanager
def _of_point(options: LatticeOptions, point: int) -> Iterator[None]:
    """Inside, an error in a sweep names the point."""
    try:
        yield
    except TauslabError as error:
        if options.sweep is None:
            raise
        error.args = (f"point {point} of the sweep: {error}",)
        raise

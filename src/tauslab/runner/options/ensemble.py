"""The settings of a run as frozen dataclasses; an error names option, value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tauslab.kernels.backends import backend_names
from tauslab.kernels.ensemble.launch import MAX_STEPS
from tauslab.kernels.exact.selectors import SELECTORS
from tauslab.kernels.exact.table_network import TEAMS
from tauslab.kernels.ode.engine import OdeSettings
from tauslab.model.errors import ConfigError, one_of
from tauslab.runner.options.dask import DaskOptions
from tauslab.runner.options.sampling import Sampling
from tauslab.runner.options.summary import PREFIX, SummarySpec
from tauslab.runner.options.sweep import Design, Sweep
from tauslab.runner.output.format.layout import SAMPLED, HistogramSpec

FloatArray = npt.NDArray[np.float64]

DEFAULT_POINTS = 101
MOST_POINTS = 10_000_000
METHODS = ("ssa", "tau", "auto", "ode")
DEFAULT_METHOD = "ssa"  # exact: leaps are for those who ask for them
DEFAULT_EPSILON = 0.03
PYTHON_COMMAND = "tauslab.run"  # in place of a command line
NO_LEAPS = "--epsilon is the error of leaps: use it with --method tau or auto"
MOST_TRAJECTORIES = 2**40  # a trajectory's id has 40 bits in the random counter
MOST_TOTAL = 2**53  # of all points together
WRITERS = ("auto", "parts", "mpio")
_WORDS = ("trajectories", "statistics", "final", SAMPLED)


@dataclass(frozen=True)
class Record:
    """What a run keeps: samples, sums over them, histograms, summaries, what ``--sample`` drew."""

    trajectories: bool = False
    statistics: bool = False
    final: bool = False
    histograms: tuple[HistogramSpec, ...] = ()
    summaries: tuple[SummarySpec, ...] = ()
    sampled: bool = False

    @classmethod
    def parse(cls, text: str | Sequence[str]) -> Record:
        """Read ``trajectories,statistics,final,histogram:SPECIES:LO:HI:BINS,summary:...``.

        Raises
        ------
        ConfigError
            A word that is not one of these, a histogram without a range, or a summary that is
            not known or given twice.
        """
        words = text.split(",") if isinstance(text, str) else list(text) or [""]
        histograms = tuple(_histogram(w) for w in words if w.startswith("histogram"))
        summaries = tuple(SummarySpec.parse(w) for w in words if w.startswith(PREFIX))
        for word in words:
            if word not in _WORDS and not word.startswith(("histogram", PREFIX)):
                raise ConfigError(
                    f"--record {word!r} is not known; allowed are {', '.join(_WORDS)}, "
                    "histogram:SPECIES:LO:HI:BINS and summary:KIND:SPECIES[:...]"
                )
        for index, summary in enumerate(summaries):
            if summary in summaries[:index]:
                raise ConfigError(f"--record {PREFIX}{summary.name} is given twice")
        chosen = {word: word in words for word in _WORDS}
        return cls(histograms=histograms, summaries=summaries, **chosen)

    @property
    def reduced(self) -> bool:
        """Whether only numbers per trajectory are kept of samples: summaries, and histograms."""
        return bool(self.summaries) and not (self.trajectories or self.statistics or self.final)


def _histogram(word: str) -> HistogramSpec:
    parts = word.split(":")
    try:
        name, species, low, high, bins = parts
        spec = HistogramSpec(species, float(low), float(high), int(bins))
    except ValueError:
        raise ConfigError(
            f"--record {word!r}: write histogram:SPECIES:LO:HI:BINS, "
            "for instance histogram:X:0:800:100"
        ) from None
    if name != "histogram" or not spec.low < spec.high or not math.isfinite(spec.high - spec.low):
        raise ConfigError(f"--record {word!r}: LO must be less than HI, and both finite")
    if not 1 <= spec.bins <= 2**20:
        raise ConfigError(f"--record {word!r}: the number of bins must be 1 to {2**20}")
    return spec


@dataclass(frozen=True)
class Portion:
    """Which part of a longer run this is; by default all of it.

    Parameters
    ----------
    before
        Trajectories that each point has from earlier runs: numbers go on from there.
    group
        Trajectories whose sums are kept apart; 0 for one sum over all.
    run
        Identity of the run that it belongs to.
    """

    before: int = 0
    group: int = 0
    run: str | None = None


@dataclass(frozen=True)
class Options:
    """Everything a user may choose for ``tauslab run``, checked.

    Parameters
    ----------
    n
        Number of trajectories; with a sweep, at each of its points.
    times
        Sample times ``[time]``, in the model's time unit.
    seed
        64 bits; None lets rank 0 draw one.
    set
        Values of parameters, and initial amounts of species: a number for all trajectories, or an
        array ``[n]`` with a value for each.
    sweep
        Points at which other values hold; a design becomes points when the seed is known.
    species
        Names of the species to record; None for all.
    record
        What to keep; None decides by size.
    method
        ``ssa``, ``tau``, ``ode``, or ``auto``, which chooses ``ssa`` or ``tau`` by a pilot that
        counts work and judges the error of leaps.
    method_left_open
        Whether nobody chose `method`: a file that is completed or added to then keeps its own.
    epsilon
        Of ``tau``: bound on the expected relative change of every propensity in a leap.
    post_leap_check
        Of ``tau``: check every leap after it was made, and shorten those that changed too much.
    selector
        Of ``ssa``: how the next reaction is found; None chooses by the network and its pilot.
    team
        Of large networks: threads that run one trajectory, 1, 8, 32 or 128; 0 chooses by device
        and number of trajectories. Changes no result.
    presimulation
        Of large networks: events of a pilot trajectory that orders reactions and species by how
        often they fire and change; 0 for no pilot, None decides by network and number of
        trajectories.
    max_steps
        Steps (events, for ``tau`` also leaps) after which a trajectory is given up (status
        ``step_limit``).
    integration
        Of ``ode``: how equations are integrated.
    sample
        Of ``ode``: distributions of parameters and initial amounts.
    threads
        CPU threads of this rank; 0 for all it may use.
    block
        Trajectories in a storage block; None decides by size.
    dask
        Where Dask workers run the launches; None runs them on the ranks of this launch.
    output
        Result file; None keeps the result in memory.
    append
        Trajectories to add, at each point, to the finished result in `output`; `n` is then theirs.
    until
        Add trajectories until this holds, `n` at most: see `tauslab.runner.ensemble.convergence`.
    writer
        ``parts`` or ``mpio``, how several ranks write; ``auto`` takes mpio where h5py has it.
    hints
        Of ``mpio``: hints to MPI-IO by name.
    compress
        Level of gzip, 1 to 9; 0 writes plain numbers.

    Raises
    ------
    ConfigError
        A value outside what is allowed.
    """

    times: FloatArray
    n: int = 1000
    seed: int | None = None
    method: str = DEFAULT_METHOD
    method_left_open: bool = False
    set: Mapping[str, float | FloatArray] = field(default_factory=dict)
    sweep: Sweep | Design | None = None
    species: tuple[str, ...] | None = None
    record: Record | None = None
    epsilon: float = DEFAULT_EPSILON
    post_leap_check: bool = False
    selector: str | None = None
    team: int = 0
    presimulation: int | None = None
    max_steps: int = MAX_STEPS
    integration: OdeSettings = field(default_factory=OdeSettings)
    sample: Sampling = field(default_factory=Sampling)
    device: str = "auto"
    threads: int = 0
    block: int | None = None
    dask: DaskOptions | None = None
    output: Path | None = None
    overwrite: bool = False
    resume: bool = False
    quiet: bool = False
    command: str = ""
    append: int | None = None
    until: str | None = None
    writer: str = "auto"
    hints: Mapping[str, str] = field(default_factory=dict)
    compress: int = 0
    portion: Portion = Portion()

    def __post_init__(self) -> None:
        """Check every value that needs no model."""
        _within("-n", self.n, 1, MOST_TRAJECTORIES)
        _within("--max-steps", self.max_steps, 1, MAX_STEPS)
        _within("--threads", self.threads, 0, 4096)
        if self.seed is not None:
            seed_of(self.seed)
        if self.block is not None:
            _within("--block", self.block, 1, 2**31 - 1)
        self._check_method()
        one_of("--device", self.device, ("auto", *backend_names()))
        if self.species is not None and not self.species:
            raise ConfigError("--species needs at least one name")
        if self.output is None and self.resume:
            raise ConfigError("--resume needs the output file of the run to go on with")
        one_of("--writer", self.writer, WRITERS)
        _within("--compress", self.compress, 0, 9)
        if self.method == "ode" and (self.append is not None or self.until is not None):
            raise ConfigError("--append and --until need --method ssa, tau or auto, not ode")
        if self.append is not None:
            self._check_append(self.append)
        for name, values in self.set.items():
            self._check_values(name, values)
        if self.sweep is not None:
            self._check_sweep(self.sweep)

    @property
    def total(self) -> int:
        """Number of trajectories at all points together."""
        return self.n * (1 if self.sweep is None else self.sweep.points)

    @property
    def from_python(self) -> bool:
        """Whether a program called, which shows no progress unless it is told to."""
        return self.command == PYTHON_COMMAND

    def _check_append(self, number: int) -> None:
        _within("--append", number, 1, MOST_TRAJECTORIES)
        if self.output is None or self.overwrite or self.until is not None:
            what = "needs the finished file to add to" if self.output is None else (
                "and --overwrite exclude each other" if self.overwrite else
                "and --until exclude each other"
            )  # fmt: skip
            raise ConfigError(f"--append {what}")
        if any(np.ndim(values) for values in self.set.values()):
            raise ConfigError("--append needs the same values for all trajectories")

    def _check_method(self) -> None:
        one_of("--method", self.method, METHODS)
        if not (isinstance(self.epsilon, int | float | np.number) and 0 < self.epsilon <= 1):
            raise ConfigError(f"--epsilon {self.epsilon} is not allowed: above 0, at most 1")
        if self.post_leap_check and self.method in ("ssa", "ode"):
            raise ConfigError(
                f"--post-leap-check has nothing to check with --method {self.method}: "
                "use it with tau or auto"
            )
        if self.selector is not None:
            one_of("--selector", self.selector, SELECTORS)
            if self.method in ("tau", "ode"):
                raise ConfigError("--selector is a choice of exact simulation: use --method ssa")
        if self.presimulation is not None:
            _within("--presimulation", self.presimulation, 0, 2**31 - 1)
        if self.sample.names and self.method != "ode":
            raise ConfigError("--sample needs --method ode")
        for name in self.sample.names:
            if name in self.set or (self.sweep is not None and name in self.sweep.names):
                raise ConfigError(f"{name} is drawn by --sample and also set or swept: choose one")
        if self.team not in (0, *TEAMS):
            raise ConfigError(
                f"--team {self.team} is not allowed; allowed are {', '.join(map(str, TEAMS))}"
            )

    def _check_sweep(self, sweep: Sweep | Design) -> None:
        if self.total > MOST_TOTAL:
            raise ConfigError(
                f"-n {self.n} at {sweep.points} points gives {self.total} trajectories: "
                f"at most {MOST_TOTAL}"
            )
        for name, values in self.set.items():
            if np.ndim(values):
                raise ConfigError(f"{name}: values per trajectory and a sweep exclude each other")
            if name in sweep.names:
                raise ConfigError(f"{name} has one value for all points and is swept: choose one")

    def _check_values(self, name: str, values: float | FloatArray) -> None:
        array = np.asarray(values, np.float64)
        if array.shape not in ((), (self.n,)):
            raise ConfigError(
                f"{name}: give one value or one per trajectory ({self.n}), "
                f"not an array of shape {array.shape}"
            )
        if not np.isfinite(array).all():
            bad = array[~np.isfinite(array)].flat[0]
            raise ConfigError(f"{name} cannot be {bad}: values must be finite")


def sample_times(
    times: Sequence[float] | FloatArray | None = None,
    t_end: float | None = None,
    points: int | None = None,
    *,
    model_t_end: float | None = None,
) -> FloatArray:
    """Sample times: as given, or `points` of them from 0 to the end, both included.

    Raises
    ------
    ConfigError
        Times that are not increasing finite numbers of 0 or above, an end that is not above 0,
        fewer than 2 points, both forms at once, or no end time anywhere.
    """
    if times is not None:
        if t_end is not None or points is not None:
            raise ConfigError("give either the sample times, or --t-end and --points, not both")
        return _given_times(times)
    end = t_end if t_end is not None else model_t_end
    if end is None:
        raise ConfigError("the model has no end time of its own: give one, for example --t-end 10")
    if not isinstance(end, int | float | np.number) or isinstance(end, bool):
        raise ConfigError(f"--t-end {end!r} is not allowed: a number")
    try:
        end = float(end)
    except OverflowError:
        end = math.inf
    if not (math.isfinite(end) and end > 0):
        raise ConfigError(f"--t-end {end:g} is not allowed: a finite time above 0")
    count = DEFAULT_POINTS if points is None else points
    _within("--points", count, 2, MOST_POINTS)
    return np.linspace(0.0, end, count)


def _given_times(times: Sequence[float] | FloatArray) -> FloatArray:
    try:
        array = np.array(times, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError("sample times must be numbers") from None
    if array.ndim != 1 or array.size < 1:
        raise ConfigError("sample times must be a list of one or more numbers")
    if not np.isfinite(array).all() or array[0] < 0:
        bad = array[~(np.isfinite(array) & (array >= 0))][0]
        raise ConfigError(f"sample time {bad:g} is not allowed: finite and 0 or above")
    steps = np.diff(array)
    if not (steps > 0).all():
        k = int(np.flatnonzero(~(steps > 0))[0])
        raise ConfigError(
            f"sample times must increase: {array[k + 1]:g} (number {k + 2}) follows {array[k]:g}"
        )
    return array


def _within(option: str, value: int, low: int, high: int) -> None:
    allowed = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not allowed or not low <= value <= high:
        shown = repr(value) if isinstance(value, str) else value
        raise ConfigError(f"{option} {shown} is not allowed: a whole number from {low} to {high}")


def seed_of(value: int) -> int:
    """The seed itself; a ConfigError where it is not a whole number of 64 bits."""
    _within("--seed", value, 0, 2**64 - 1)
    return int(value)

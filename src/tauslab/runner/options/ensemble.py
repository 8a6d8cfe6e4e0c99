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
from tauslab.kernels.ode.engine import OdeSettings
from tauslab.model.errors import ConfigError, one_of
from tauslab.runner.options.dask import DaskOptions
from tauslab.runner.options.methods import DEFAULT_EPSILON as DEFAULT_EPSILON  # noqa: PLC0414
from tauslab.runner.options.methods import (
    DEFAULT_METHOD,
    METHODS,
    check_epsilon,
    check_presimulation,
    check_selector,
    check_team,
)
from tauslab.runner.options.places import WRITERS, check_compress, check_threads
from tauslab.runner.options.sampling import Sampling
from tauslab.runner.options.summary import PREFIX, SummarySpec
from tauslab.runner.options.sweep import Design, Sweep
from tauslab.runner.options.values.checks import seed_of, within
from tauslab.runner.output.format.layout import SAMPLED, HistogramSpec

FloatArray = npt.NDArray[np.float64]

PYTHON_COMMAND = "tauslab.run"  # in place of a command line
MOST_TRAJECTORIES = 2**40  # a trajectory's id has 40 bits in the random counter
MOST_TOTAL = 2**53  # of all points together
_WORDS = ("trajectories", "statistics", "final", SAMPLED)
_DEFAULT_N = 1000


def default_n(method: str, settings: Mapping[str, float | FloatArray], sample: Sampling) -> int:
    """Trajectories at each point where nobody said how many: one where all would be the same.

    >>> default_n("ode", {"k": 0.5}, Sampling()), default_n("ssa", {}, Sampling())
    (1, 1000)
    """
    alike = method == "ode" and not sample.names and not any(map(np.ndim, settings.values()))
    return 1 if alike else _DEFAULT_N


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
    verbose
        Say why each choice was made.
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
    n: int = _DEFAULT_N
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
    verbose: bool = False
    command: str = ""
    append: int | None = None
    until: str | None = None
    writer: str = "auto"
    hints: Mapping[str, str] = field(default_factory=dict)
    compress: int = 0
    portion: Portion = Portion()

    def __post_init__(self) -> None:
        """Check every value that needs no model."""
        within("-n", self.n, 1, MOST_TRAJECTORIES)
        within("--max-steps", self.max_steps, 1, MAX_STEPS)
        check_threads(self.threads)
        if self.seed is not None:
            seed_of(self.seed)
        if self.block is not None:
            within("--block", self.block, 1, 2**31 - 1)
        self._check_method()
        one_of("--device", self.device, ("auto", *backend_names()))
        if self.species is not None and not self.species:
            raise ConfigError("--species needs at least one name")
        if self.output is None and self.resume:
            raise ConfigError("--resume needs the output file of the run to go on with")
        one_of("--writer", self.writer, WRITERS)
        check_compress(self.compress)
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
        within("--append", number, 1, MOST_TRAJECTORIES)
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
        check_epsilon(self.epsilon)
        if self.post_leap_check and self.method in ("ssa", "ode"):
            raise ConfigError(
                f"--post-leap-check has nothing to check with --method {self.method}: "
                "use it with tau or auto"
            )
        check_selector(self.selector)
        if self.selector is not None and self.method in ("tau", "ode"):
            raise ConfigError("--selector is a choice of exact simulation: use --method ssa")
        check_presimulation(self.presimulation)
        if self.sample.names and self.method != "ode":
            raise ConfigError("--sample needs --method ode")
        for name in self.sample.names:
            if name in self.set or (self.sweep is not None and name in self.sweep.names):
                raise ConfigError(f"{name} is drawn by --sample and also set or swept: choose one")
        check_team(self.team)

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

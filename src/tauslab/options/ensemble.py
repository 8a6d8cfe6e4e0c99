"""The settings of a run as frozen dataclasses; an error names option, value and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, one_of
from tauslab.base.files.extras import require_h5py
from tauslab.base.option_names import opt
from tauslab.kernels.backends import backend_names
from tauslab.kernels.ode.settings import OdeSettings
from tauslab.options.dask import DaskOptions
from tauslab.options.keywords import CommonChoices, EnsembleChoices
from tauslab.options.methods import ODE, SSA, Langevin, Method, Partitioned, given_in
from tauslab.options.places import check_compress, check_threads, check_writer
from tauslab.options.record import Record
from tauslab.options.sampling import Sampling
from tauslab.options.sweep import MOST_POINTS, Design, Sweep
from tauslab.options.values.checks import within
from tauslab.options.values.definition import check_values

PYTHON_COMMAND = "tauslab.run"  # in place of a command line
MOST_TRAJECTORIES = 2**40  # a trajectory's id has 40 bits in the random counter
MOST_TOTAL = 2**53  # of all points together
_DEFAULT_N = 1000


def default_n(
    method: Method,
    settings: Mapping[str, float | FloatArray],
    sample: Sampling,
    *,
    equations_alone: bool = False,
) -> int:
    """Trajectories at each point by default: as many as values have rows, one if all are equal.

    Parameters
    ----------
    equations_alone
        The model has rate rules and no reactions, so that no method draws anything.

    >>> default_n(ODE(), {"k": 0.5}, Sampling()), default_n(SSA(), {}, Sampling())
    (1, 1000)
    """
    for value in settings.values():
        if np.ndim(value) == 1:
            return len(np.asarray(value))
    drawn = bool(sample.names)
    return 1 if (equations_alone or isinstance(method, ODE)) and not drawn else _DEFAULT_N


@dataclass(frozen=True)
class Portion:
    """The part that a run is of a longer one; by default all of it.

    Parameters
    ----------
    group
        Trajectories whose sums are kept apart; 0 for one sum over all.
    run
        Identity of the run that it belongs to.
    """

    group: int = 0
    run: str | None = None


@dataclass(frozen=True)
class Options(CommonChoices, EnsembleChoices):
    """Everything a user may choose for ``tauslab run``, checked: what its bases say, and this.

    Parameters
    ----------
    times
        Sample times ``[time]``, in the model's time unit.
    method
        The settings of the method. `Auto` is replaced by what a pilot chooses, which counts work
        and judges the error of leaps.
    given
        Options that the user gave, by field, with options of the method: a file that is
        completed or added to says the others. None: all that have not their defaults.
    set
        Values of parameters, and initial amounts of species: a number for all trajectories, or an
        array ``[n]`` with a value for each.
    sweep
        Points at which other values hold; a design becomes points when the seed is known.
    species
        Names of the species to record; None for all.
    record
        What to keep; None decides by size.
    sample
        Of `ODE`: distributions of parameters and initial amounts.
    device, threads
        Where to compute; threads of this rank, 0 for all that it may use.
    dask
        Where Dask workers run the launches; None runs them on the ranks of this launch.
    output
        Result file; None keeps the result in memory.
    writer
        ``parts`` or ``mpio``, how several ranks write; ``auto`` takes mpio where h5py has it.
    verbose
        Say why each choice was made.
    hints
        Of ``mpio``: hints to MPI-IO by name.
    compress
        Level of gzip, 1 to 9; 0 writes plain numbers.
    extend
        A finished result, or its path, that this run continues to the later ones of `times`.

    Raises
    ------
    ConfigError
        A value outside what is allowed.
    """

    times: FloatArray
    n: int = _DEFAULT_N
    method: Method = field(default_factory=SSA)
    given: Mapping[str, Any] | None = None
    set: Mapping[str, float | FloatArray] = field(default_factory=dict)
    sweep: Sweep | Design | None = None
    species: tuple[str, ...] | None = None
    record: Record | None = None
    sample: Sampling = field(default_factory=Sampling)
    device: str = "auto"
    threads: int = 0
    dask: DaskOptions | None = None
    output: Path | None = None
    overwrite: bool = False
    verbose: bool = False
    command: str = ""
    writer: str = "auto"
    hints: Mapping[str, str] = field(default_factory=dict)
    compress: int = 0
    portion: Portion = Portion()
    extend: Any = None

    def __post_init__(self) -> None:
        """Check every value that needs no model."""
        within("n", self.n, 1, MOST_TRAJECTORIES)
        check_values(self)
        check_threads("threads", self.threads)
        self._check_sample()
        one_of("device", self.device, ("auto", *backend_names()))
        if self.species is not None and not self.species:
            raise ConfigError(f"{opt('species')} needs at least one name")
        if self.output is None and self.resume:
            raise ConfigError(f"{opt('resume')} needs the output file of the unfinished run")
        if self.output is not None:
            require_h5py(self.output)
        check_writer("writer", self.writer)
        if self.hints and self.writer == "parts":
            raise ConfigError(
                f"{opt('mpi_hints')} is for {opt('writer', 'mpio')}, not {self.writer}"
            )
        check_compress("compress", self.compress)
        within("first", self.first, 0, MOST_TRAJECTORIES - self.n)
        amounts = isinstance(self.method, ODE | Partitioned | Langevin)
        if amounts and (self.grows or self.until is not None):
            raise ConfigError(
                f"{opt('append')} and {opt('until')} need {opt('method', 'ssa')}, "
                f"tau or auto, not {self.method.word}"
            )
        if isinstance(self.method, ODE) and self.first:
            raise ConfigError(f"{opt('first')} needs {opt('method', 'ssa')}, tau or auto, not ode")
        if self.common:
            self._check_common()
        self._check_extend()
        if self.grows:
            self._check_append()
        if self.first_point and (self.sweep is None or self.until is not None):
            raise ConfigError(
                f"{opt('first_point')} numbers the points of a sweep, and is not for "
                f"{opt('until')}: leave it out"
            )
        for name, values in self.set.items():
            self._check_values(name, values)
        if self.sweep is not None:
            self._check_sweep(self.sweep)

    def with_method(self, method: Method) -> Options:
        """The options with a method that was chosen; themselves where they have it."""
        return self if self.method == method else replace(self, method=method)

    @property
    def integration(self) -> OdeSettings:
        """The settings of the integrator of equations."""
        return self.method.settings() if isinstance(self.method, ODE) else OdeSettings()

    @property
    def asked(self) -> Mapping[str, Any]:
        """`given`, also where nobody said what that is."""
        if self.given is not None:
            return self.given
        plain = [*fields(CommonChoices), *fields(EnsembleChoices)]
        own = {one.name: (getattr(self, one.name), one.default) for one in plain}
        result = {name: value for name, (value, default) in own.items() if value != default}
        return {**result, **given_in(self.method), "n": self.n, "method": self.method.word}

    @property
    def total(self) -> int:
        """Number of trajectories at all points together."""
        return self.n * (1 if self.sweep is None else self.sweep.points)

    @property
    def from_python(self) -> bool:
        """Return whether a program called, which shows no progress unless it asks for it."""
        return self.command == PYTHON_COMMAND

    def _check_common(self) -> None:
        if not isinstance(self.method, SSA):
            raise ConfigError(
                f"{opt('common')} needs {opt('method', 'ssa')}, not {self.method.word}"
            )
        if self.method.selector not in (None, "linear") or self.method.presimulation:
            raise ConfigError(f"{opt('common')} has its own selector: leave out {opt('selector')}")

    @property
    def grows(self) -> bool:
        """Return whether trajectories are added to a finished file."""
        return self.append is not None or self.append_to is not None

    def _check_extend(self) -> None:
        if self.extend is not None and (self.grows or self.until or self.resume or self.dask):
            raise ConfigError(
                f"{opt('extend')} continues a result on the ranks of this launch: leave out "
                f"{opt('append')}, {opt('until')}, {opt('resume')} and {opt('executor')}"
            )

    def _check_append(self) -> None:
        if self.append is not None and self.append_to is not None:
            raise ConfigError(f"{opt('append')} and {opt('append_to')} exclude each other")
        name = "append" if self.append_to is None else "append_to"
        within(name, getattr(self, name), 1, MOST_TRAJECTORIES)
        if self.output is None or self.overwrite or self.until is not None:
            what = "needs the finished file to add to" if self.output is None else (
                f"and {opt('overwrite')} exclude each other" if self.overwrite else
                f"and {opt('until')} exclude each other"
            )  # fmt: skip
            raise ConfigError(f"{opt(name)} {what}")
        if any(np.ndim(values) for values in self.set.values()):
            raise ConfigError(f"{opt(name)} needs the same values for all trajectories")

    def _check_sample(self) -> None:
        if self.sample.names and self.method.word != ODE.word:
            raise ConfigError(f"{opt('sample')} needs {opt('method', 'ode')}")
        for name in self.sample.names:
            if name in self.set or (self.sweep is not None and name in self.sweep.names):
                raise ConfigError(
                    f"{name} is drawn by {opt('sample')} and also set or swept: choose one"
                )

    def _check_sweep(self, sweep: Sweep | Design) -> None:
        if isinstance(sweep, Sweep) and sweep.share is not None:
            object.__setattr__(self, "first_point", sweep.share.first)
        within("first_point", self.first_point, 0, MOST_POINTS - sweep.points)
        if self.total > MOST_TOTAL:
            raise ConfigError(
                f"{opt('n', self.n)} at {sweep.points} points gives {self.total} trajectories: at "
                f"most {MOST_TOTAL}"
            )
        for name, values in self.set.items():
            if np.ndim(values):
                raise ConfigError(f"{name}: values per trajectory and a sweep exclude each other")
            if name in sweep.names:
                raise ConfigError(f"{name} has one value for all points and is swept: choose one")

    def _check_values(self, name: str, values: float | FloatArray) -> None:
        array = np.asarray(values, np.float64)
        if array.shape not in ((), (self.n,)):
            of_chains = "; draws() of a result of inference makes one row of chains"
            raise ConfigError(
                f"{name}: give one value or one per trajectory ({self.n}), "
                f"not an array of shape {array.shape}{of_chains * (array.ndim == 2)}"
            )
        if not np.isfinite(array).all():
            bad = array[~np.isfinite(array)].flat[0]
            raise ConfigError(f"{name} cannot be {bad}: values must be finite")

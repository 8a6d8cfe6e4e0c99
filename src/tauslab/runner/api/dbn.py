"""The Python interface to dynamic Bayesian networks and to model checking."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.kernels.ode.engine import OdeSettings
from tauslab.model.errors import ConfigError
from tauslab.model.network.network import Network
from tauslab.model.network.properties import horizon, parse_property
from tauslab.model.readers import read as readers
from tauslab.runner.api.api import Values, ranks, run_ensemble
from tauslab.runner.dbn.build import build_network
from tauslab.runner.dbn.lane import DbnLane, engine_of
from tauslab.runner.dbn.plan import with_seed
from tauslab.runner.dbn.task import DbnTask, prepare_dbn
from tauslab.runner.ensemble.ode_task import integration
from tauslab.runner.options.dbn import DEFAULT_INTERVALS, DEFAULT_SAMPLES, DbnOptions
from tauslab.runner.options.ensemble import sample_times
from tauslab.runner.ranks.job import open_backend
from tauslab.runner.results.dbn.model_checking import MOST_SAMPLES, SequentialTest, Verdict, check
from tauslab.runner.results.dbn.network import DynamicNetwork, FloatArray

BATCH = 256  # trajectories that are made at a time for a sequential test


def build(  # noqa: PLR0913 - as the command has
    model: Network | str | os.PathLike[str],
    *,
    unknown: Sequence[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    samples: int = DEFAULT_SAMPLES,
    t_end: float | None = None,
    points: int | None = None,
    times: Sequence[float] | FloatArray | None = None,
    ode_solver: str | None = None,
    substeps: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    precision: str | None = None,
    intervals: int | Mapping[str, int] = DEFAULT_INTERVALS,
    output: str | os.PathLike[str] | None = None,
    **options: Any,
) -> DynamicNetwork | None:
    """Make a dynamic Bayesian network from sampled trajectories of a model's equations.

    Under ``mpirun`` all ranks count; rank 0 gets the network, the others None.

    Parameters
    ----------
    model
        A network, or a model file.
    unknown
        Parameters, and species whose initial amounts are unknown.
    ranges
        Of unknowns, which are drawn uniformly; half to twice the model's value by default. Of
        variables: what is cut into intervals, by default the range of a pilot of 4096 trajectories.
    samples
        Number of trajectories.
    t_end, points, times
        Time points, as for `tauslab.run`.
    ode_solver, substeps, rtol, atol, precision
        ``dopri5`` or ``rosenbrock``, whose steps keep errors within `rtol` and `atol`, or ``rk4``
        with `substeps` from one time point to the next; ``double`` or ``single``.
    intervals
        Intervals of every node, or by name (5 for the others).
    output
        File to write.
    options
        ``spacing`` of intervals, ``"equal"`` or ``"quantile"``; ``edges``, an array of increasing
        edges of intervals by name; ``sample``, other distributions of unknowns as a tuple of texts
        such as ``"k1=lognormal(1,0.3)"``; ``set``, values by name; ``block``, the trajectories that
        a rank takes at once; ``counting``, who counts on a GPU; ``seed``, ``device``, ``threads``,
        ``overwrite``, ``resume``, ``quiet`` as for `tauslab.run`.

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; one sentence says what is.
    DeviceError, DeviceFailed, KernelCompileError, OutputError
        The machine lacks something, or failed.
    """
    network = _network(model)
    own = intervals if isinstance(intervals, Mapping) else {}
    every = DEFAULT_INTERVALS if isinstance(intervals, Mapping) else intervals
    chosen = DbnOptions(
        times=sample_times(times, t_end, points, model_t_end=network.t_end),
        unknown=_listed("unknown", unknown),
        ranges=_by_name("ranges", ranges),
        samples=samples,
        integration=_integration(
            solver=ode_solver, substeps=substeps, rtol=rtol, atol=atol, precision=precision
        ),
        intervals=every,
        own_intervals=own,
        output=None if output is None else _path(output),
        **options,
    )
    return build_network(network, chosen, ranks())


def check_property(  # noqa: PLR0913
    model: Network | str | os.PathLike[str],
    formula: str,
    test: SequentialTest,
    *,
    method: str = "ode",
    unknown: Sequence[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    t_end: float | None = None,
    points: int | None = None,
    times: Sequence[float] | FloatArray | None = None,
    ode_solver: str | None = None,
    substeps: int | None = None,
    set: Mapping[str, Values] | None = None,  # noqa: A002 - as in run
    seed: int | None = None,
    device: str = "auto",
    threads: int = 0,
    most: int = MOST_SAMPLES,
) -> Verdict:
    """Test whether trajectories have a property with a probability of at least ``test.p``.

    Trajectories are made 256 at a time, up to the last time that the property looks at, until
    Wald's test has decided (Younes and Simmons 2006; Palaniappan et al. 2013). Every rank does all.

    Parameters
    ----------
    model
        A network, or a model file.
    formula
        As ``F[0,10](X > 3) & G[20,50](Y < 1)``; see `tauslab.dbn.parse_property`.
    test
        The probability to be tested, and the errors that are accepted.
    method
        ``ode``, with unknowns drawn for each trajectory; or ``ssa``, ``tau``.
    unknown, ranges, ode_solver, substeps
        Of ``ode``, as for `build`.
    t_end, points, times, set, seed, device, threads
        As for `tauslab.run`.
    most
        Trajectories at most.

    Raises
    ------
    ConfigError, ModelError
        The property, the model or an option is not allowed.
    """
    network, parsed = _network(model), parse_property(formula)
    at = sample_times(times, t_end, points, model_t_end=network.t_end)
    ahead = at[0] + horizon(parsed)
    needed = int(np.searchsorted(at, ahead * (1 - 1e-12)))
    at = at[: max(2, needed + 1)]
    if method != "ode":
        runs = _StochasticRuns(network, method, at, set or {}, _drawn(seed), device, threads)
        return check(parsed, test, at, runs.simulate, batch=BATCH, most=most)
    options = DbnOptions(
        times=at, unknown=_listed("unknown", unknown), ranges=_by_name("ranges", ranges),
        integration=integration("ode", "dopri5", solver=ode_solver, substeps=substeps),
        set={name: float(np.asarray(value)) for name, value in (set or {}).items()},
        seed=_drawn(seed), device=device, threads=threads,
    )  # fmt: skip
    backend = open_backend(device, threads, ranks())
    try:
        runs_of_equations = _EquationRuns(prepare_dbn(network, options), backend)
        return check(parsed, test, at, runs_of_equations.simulate, batch=BATCH, most=most)
    finally:
        backend.close()


class _EquationRuns:
    """Samples of trajectories of equations."""

    def __init__(self, task: DbnTask, backend: Any) -> None:
        self._names = task.structure.names
        self._lane = DbnLane(task, engine_of(task, backend), BATCH)

    def simulate(self, first: int, count: int) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        self._lane.start(first, first + count)
        values, parameters = self._lane.to_host()
        for sample in values:
            yield dict(zip(self._names, [*sample, *parameters], strict=True))


class _StochasticRuns:
    """Samples of runs with a seed of its own for each batch."""

    def __init__(
        self,
        network: Network,
        method: str,
        times: FloatArray,
        settings: Mapping[str, Values],
        seed: int,
        device: str,
        threads: int,
    ) -> None:
        self._network, self._seed, self._times = network, seed, times
        self._options: dict[str, Any] = {
            "method": method, "set": settings, "device": device, "threads": threads,
            "record": "trajectories",
        }  # fmt: skip

    def simulate(self, first: int, count: int) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        words = hashlib.sha256(f"{self._seed} {first}".encode()).digest()
        seed = int.from_bytes(words[:8], "little")
        result = run_ensemble(self._network, n=count, times=self._times, seed=seed, **self._options)
        columns = {name: result.counts(name) for name in result.species}
        for index, name in enumerate(result.observables):
            columns[name] = result.data["observables"][:, :, index]
        for k in range(len(self._times)):
            yield {name: column[:, k] for name, column in columns.items()}


def _listed(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Several names; one text would be taken for a list of its letters."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ConfigError(f"{name} = {texts!r}: a list of names is expected")
    return tuple(texts)


def _integration(**given: Any) -> OdeSettings:
    try:
        return integration("ode", "dopri5", **given)
    except (TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        told = ", ".join(
            f"{name} = {value!r}" for name, value in given.items() if value is not None
        )
        raise ConfigError(f"{told}: a number or a name is of a wrong kind") from None


def _path(output: str | os.PathLike[str]) -> Path:
    try:
        return Path(output)
    except TypeError:
        raise ConfigError(f"output = {output!r}: the name of a file is expected") from None


def _by_name(name: str, values: Mapping[str, Any] | None) -> dict[str, Any]:
    if values is not None and not isinstance(values, Mapping):
        raise ConfigError(f"{name} = {values!r}: pairs of numbers by name are expected")
    return dict(values or {})


def _network(model: Network | str | os.PathLike[str]) -> Network:
    return model if isinstance(model, Network) else readers.read_network(Path(model))


def _drawn(seed: int | None) -> int:
    return with_seed(seed, None, ranks())

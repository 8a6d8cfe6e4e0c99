"""The Python interface to dynamic Bayesian networks and to model checking."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.analysis.dbn.build import build_network
from tauslab.analysis.dbn.lane import DbnLane, engine_of
from tauslab.analysis.dbn.plan import with_seed
from tauslab.analysis.dbn.results.model_checking import MOST_SAMPLES, SequentialTest, Verdict, check
from tauslab.analysis.dbn.results.network import DynamicNetwork
from tauslab.analysis.dbn.task import DbnTask, prepare_dbn
from tauslab.api.api import run_ensemble
from tauslab.api.model_reading import network_of
from tauslab.api.typed import chosen, takes
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.base.unknown import checks_keywords
from tauslab.decomposition.ranks.all_ranks import Comm, ranks_of
from tauslab.decomposition.ranks.job import devices
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.model.network.network import Network
from tauslab.model.network.properties import horizon, parse_property
from tauslab.options.dbn import DEFAULT_INTERVALS, DbnChoices, DbnKeywords, DbnOptions
from tauslab.options.keywords import Numbers, Values
from tauslab.options.methods import ODE, Method, MethodWord, method_of
from tauslab.options.places import Device, device_settings, file_settings
from tauslab.options.python_values import one_number_each
from tauslab.options.values.sample_times import sample_times

BATCH = 256  # trajectories that are made at a time for a sequential test


@takes(DbnKeywords)
def build(model: Network | str | os.PathLike[str], **options: Any) -> DynamicNetwork | None:
    """Make a dynamic Bayesian network from sampled trajectories of a model's equations.

    Under ``mpirun`` all ranks count; rank 0 gets the network, the others None.

    Parameters
    ----------
    model
        A network, or a model file.
    {options}

    Raises
    ------
    ModelError, ConfigError
        The model or an option is not allowed; one sentence says what is.
    DeviceError, DeviceFailed, KernelCompileError, OutputError
        The machine lacks something, or failed.
    """
    given = chosen(DbnKeywords, options, "dbn.build")
    ranks = ranks_of(given.comm, "dbn.build", model=model, **options)
    network = network_of(model, "dbn.build")
    intervals = given.intervals
    settings = DbnOptions(
        times=sample_times(given.times, given.t_end, given.points, model_t_end=network.t_end),
        unknown=_listed("unknown", given.unknown),
        ranges=_by_name("ranges", given.ranges),
        sample=_texts(given.sample),
        set={} if given.set is None else given.set,
        method=_equations(given.method),
        intervals=DEFAULT_INTERVALS if isinstance(intervals, Mapping) else intervals,
        own_intervals=intervals if isinstance(intervals, Mapping) else {},
        edges=_edges(given.edges),
        **device_settings(given.device),
        **file_settings(given.output),
        **{one.name: getattr(given, one.name) for one in fields(DbnChoices)},
    )
    return build_network(network, settings, ranks)


@checks_keywords
def check_property(  # noqa: PLR0913
    model: Network | str | os.PathLike[str],
    formula: str,
    test: SequentialTest,
    *,
    method: MethodWord | Method = "ode",
    unknown: Sequence[str] = (),
    ranges: Mapping[str, tuple[float, float]] | None = None,
    t_end: float | None = None,
    points: int | None = None,
    times: Numbers | None = None,
    set: Mapping[str, Values] | None = None,  # noqa: A002 - as in run
    seed: int | None = None,
    device: Device = "auto",
    most: int = MOST_SAMPLES,
    comm: Comm = "world",
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
        ``ode``, with unknowns drawn for each trajectory; or ``ssa``, ``tau``; or the settings of
        one.
    unknown, ranges
        Of ``ode`` alone, as for `build`.
    t_end, points, times, set, seed, device, comm
        As for `tauslab.run`.
    most
        Trajectories at most.

    Raises
    ------
    ConfigError, ModelError
        The property, the model or an option is not allowed.
    """
    ranks = ranks_of(
        comm, "dbn.check_property", model=model, formula=formula, test=test, method=method,
        unknown=unknown, ranges=ranges, t_end=t_end, points=points, times=times, set=set, seed=seed,
        most=most,
    )  # fmt: skip
    network, parsed = network_of(model, "dbn.check_property"), parse_property(formula)
    at = sample_times(times, t_end, points, model_t_end=network.t_end)
    ahead = at[0] + horizon(parsed)
    needed = int(np.searchsorted(at, ahead * (1 - 1e-12)))
    at = at[: max(2, needed + 1)]
    equations = method_of(method)
    if not isinstance(equations, ODE):
        if unknown or ranges:
            raise ConfigError(
                f"{opt('unknown')} and {opt('ranges')} are of {opt('method', 'ode')}: every "
                f"trajectory of {equations.word} has the model's values, or {opt('set')}"
            )
        values = one_number_each("set", set, "all trajectories")
        runs = _StochasticRuns(
            network, equations, at, values, with_seed(seed, None, ranks), device, ranks
        )
        return check(parsed, test, at, runs.simulate, batch=BATCH, most=most)
    options = DbnOptions(
        times=at, unknown=_listed("unknown", unknown), ranges=_by_name("ranges", ranges),
        method=_equations(equations),
        set={name: float(np.asarray(value)) for name, value in (set or {}).items()},
        seed=with_seed(seed, None, ranks), **device_settings(device),
    )  # fmt: skip
    with devices(options.device, options.threads, ranks) as backend:
        runs_of_equations = _EquationRuns(prepare_dbn(network, options), backend)
        return check(parsed, test, at, runs_of_equations.simulate, batch=BATCH, most=most)


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
        method: Method,
        times: FloatArray,
        settings: Mapping[str, Values],
        seed: int,
        device: Device,
        comm: Communicator,
    ) -> None:
        self._network, self._seed, self._times = network, seed, times
        self._options: dict[str, Any] = {
            "method": method, "set": settings, "device": device, "record": "trajectories",
            "comm": comm,
        }  # fmt: skip

    def simulate(self, first: int, count: int) -> Iterator[Mapping[str, npt.NDArray[Any]]]:
        words = hashlib.sha256(f"{self._seed} {first}".encode()).digest()
        seed = int.from_bytes(words[:8], "little")
        result = run_ensemble(self._network, n=count, times=self._times, seed=seed, **self._options)
        columns: dict[str, FloatArray] = {}
        for name in result.species:
            counts = result.counts(name)  # NaN after an early end satisfies no comparison
            columns[name] = np.where(counts < 0, np.nan, counts)
        for index, name in enumerate(result.observables):
            columns[name] = result.data["observables"][:, :, index]
        for k in range(len(self._times)):
            yield {name: column[:, k] for name, column in columns.items()}


def _listed(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Several names; one text would be taken for a list of its letters."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ConfigError(f"{name}={texts!r}: a list of names is expected")
    return tuple(texts)


def _equations(method: object) -> ODE:
    if method is not None and not isinstance(method, ODE):
        raise ConfigError(f"method={method!r} is not allowed: ts.ODE(...)")
    return method or ODE()


def _texts(sample: Sequence[str]) -> tuple[str, ...]:
    """Distributions; `DbnOptions` refuses one text in place of several, and what is no text."""
    if isinstance(sample, str) or not isinstance(sample, Iterable):
        return sample  # type: ignore[return-value]
    return tuple(sample)


def _edges(edges: Any) -> Any:
    """Lists of any kind as arrays of doubles; `DbnOptions` refuses what are no numbers."""
    if not isinstance(edges, Mapping):
        return {} if edges is None else edges
    return {name: _doubles(own) for name, own in edges.items()}


def _doubles(values: Any) -> Any:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return values


def _by_name(name: str, values: Mapping[str, Any] | None) -> dict[str, Any]:
    if values is not None and not isinstance(values, Mapping):
        raise ConfigError(f"{name}={values!r}: pairs of numbers by name are expected")
    return dict(values or {})

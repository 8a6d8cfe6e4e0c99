"""Finite differences of pairs of trajectories, summed over ranks as integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.analysis.sensitivity.certainty import certain, errors_of
from tauslab.analysis.sensitivity.outputs import with_outputs
from tauslab.analysis.sensitivity.result import SensitivityResult
from tauslab.analysis.sensitivity.steps import Step, side_rows
from tauslab.analysis.sensitivity.summing import Report, Summing, groups, portions, silent, summed
from tauslab.base.arrays import Array, FloatArray, IntArray, UintArray
from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.kernels.coupled.pairs import PAIR_COLUMNS, CommonPairs, CoupledPairs, Pairs
from tauslab.kernels.ensemble.launch import SampleBuffers
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.record import Record
from tauslab.options.sweep import MOST_POINTS
from tauslab.runner.ensemble.task import NetworkTask, prepare
from tauslab.store.format.layout import Accumulators
from tauslab.store.format.statistics import moments_of_sums


@dataclass(frozen=True)
class Differences:
    """Sums over pairs: of the differences, and of both sides.

    `value`, `standard_error`, `informative` and `sides_variance` f64 ``[condition, step, time,
    output]``, `mean` over all sides ``[condition, time, output]``, `valid` int64 ``[condition,
    step, time]``.
    """

    value: FloatArray
    standard_error: FloatArray
    informative: FloatArray
    sides_variance: FloatArray
    mean: FloatArray
    valid: IntArray


def finite_differences(
    network: Network,
    steps: Sequence[Step],
    outputs: Sequence[str],
    options: Options,
    method: str,
    backend: Backend,
    comm: Communicator,
    report: Report = silent,
) -> SensitivityResult:
    """Derivatives by ``coupled`` or ``common`` pairs. Collective.

    Parameters
    ----------
    options
        With times, number of pairs, seed and `max_steps`.
    report
        Told how many more pairs this rank has simulated.
    """
    found = differences(network, steps, outputs, options, method, backend, comm, report=report)
    return SensitivityResult(
        model=network.name,
        method=method,
        seed=options.seed or 0,
        n=options.n,
        time=options.times,
        parameters=tuple(step.name for step in steps),
        outputs=tuple(outputs),
        values=np.array([step.value for step in steps]),
        low=np.array([step.low for step in steps]),
        high=np.array([step.high for step in steps]),
        value=found.value[0],
        standard_error=found.standard_error[0],
        informative=found.informative[0],
        mean=found.mean[0],
        sides_variance=found.sides_variance[0],
        valid=found.valid[0],
    )


def differences(  # noqa: PLR0913 - the last two have defaults
    network: Network,
    steps: Sequence[Step],
    outputs: Sequence[str],
    options: Options,
    method: str,
    backend: Backend,
    comm: Communicator,
    conditions: Mapping[str, FloatArray] | None = None,
    *,
    report: Report = silent,
) -> Differences:
    """Finite differences under one condition or several, in the same launches. Collective.

    Parameters
    ----------
    conditions
        Values of other names ``[condition]``.
    """
    rows = side_rows(steps, conditions)
    task = _task(network, rows, outputs, options)
    means, variances, valid = _moments(task, steps, options.n, method, backend, comm, report)
    lead = (len(means) // len(steps), len(steps), len(options.times))
    n = valid.reshape(lead)
    parts = (part.reshape(*lead, -1) for part in (means, variances))
    (difference, first, second, square), (spread, first_spread, second_spread, square_spread) = (
        np.split(part, PAIR_COLUMNS, axis=-1) for part in parts
    )
    width = np.array([step.width for step in steps])[:, None, None]
    known = certain(network, [step.name for step in steps], outputs, options.times)
    error, informative = errors_of(spread, square, square_spread, n[..., None], known)
    return Differences(
        difference / width,
        error / width,
        informative,
        first_spread + second_spread,
        np.add.reduce((first + second) / 2, axis=1) / len(steps),
        n,
    )


def _task(
    network: Network, rows: Mapping[str, FloatArray], outputs: Sequence[str], options: Options
) -> NetworkTask:
    """The network with its outputs, and rows of inputs: two for each point."""
    extended, recorded = with_outputs(network, outputs)
    both = Options(
        times=options.times,
        n=len(next(iter(rows.values()))),
        set=rows,
        species=recorded,
        record=Record(trajectories=True),
        seed=options.seed,
        max_steps=options.max_steps,
    )
    return prepare(extended, both)


def _moments(
    task: NetworkTask,
    steps: Sequence[Step],
    pairs: int,
    method: str,
    backend: Backend,
    comm: Communicator,
    report: Report,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Means and variances ``[point, time, 4 * output]``, and pairs that reached each time."""
    times, columns = len(task.options.times), PAIR_COLUMNS * len(task.observables)
    points = task.options.n // 2
    numbers = _numbers(task.network, steps, points)
    initial, constants = _sided(task.initial, points), _sided(task.constants, points)
    found: list[tuple[Array, Array, Array]] = []
    for some in groups(points, times * columns, backend):
        engine: Pairs
        if method == "coupled":
            engine = CoupledPairs(
                backend, task.lowered, task.options.times.tolist(), initial[some],
                constants[some], numbers[some],
            )  # fmt: skip
        else:
            engine = CommonPairs(
                backend, task.lowered, task.options.times.tolist(), initial[some], constants[some]
            )
        sums = _sums(
            engine, len(numbers[some]), (times, columns), task, pairs, backend, comm, report
        )
        found.append((*moments_of_sums(sums), sums["obs_n"]))
    mean, variance, n = (np.concatenate(part) for part in zip(*found, strict=True))
    return mean, variance, n.min(axis=-1).astype(np.int64)


def _numbers(network: Network, steps: Sequence[Step], points: int) -> UintArray:
    """Numbers of points in the address of draws: a parameter's does not depend on the others.

    Raises
    ------
    ConfigError
        There are more than the address has bits for.
    """
    names = [*network.parameters, *network.species]
    own = np.array([names.index(step.name) for step in steps], np.uint64)
    conditions = np.arange(points // len(steps), dtype=np.uint64)[:, None]
    numbers = (conditions * np.uint64(len(names)) + own).ravel()
    if int(numbers.max()) >= MOST_POINTS:
        raise ConfigError(
            f"{len(conditions)} conditions of {len(names)} parameters and species are more than "
            f"{MOST_POINTS} points"
        )
    return numbers


def _sums(
    engine: Pairs,
    points: int,
    shape: tuple[int, int],
    task: NetworkTask,
    pairs: int,
    backend: Backend,
    comm: Communicator,
    report: Report,
) -> Accumulators:
    """Sums over all pairs of all ranks."""
    summing = Summing(backend, points, *shape)
    seed, bytes_each = task.options.seed, 8 * shape[0] * shape[1]
    assert seed is not None

    def start(first: int, each: int, outputs: Any, buffers: SampleBuffers, stream: Any) -> None:
        engine.run(
            first, each, outputs, buffers, stream, seed=seed, max_steps=task.options.max_steps
        )

    for first, each in portions(pairs, points, bytes_each, backend, comm):
        summing.add(first, each, engine.rows(each), start)
        report(points * each)
    return summed(summing, comm, task.network.name, pairs)


def _sided(inputs: Array, points: int) -> Array:
    """Inputs ``[point, 2, column]`` of rows for every side, or of one row for all."""
    return np.broadcast_to(inputs, (2 * points, inputs.shape[1])).reshape(points, 2, -1)

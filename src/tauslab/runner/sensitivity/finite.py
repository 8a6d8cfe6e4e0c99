"""Finite differences of pairs of trajectories, summed over ranks as integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tauslab.kernels.backends import Backend
from tauslab.kernels.coupled.pairs import CommonPairs, CoupledPairs, Pairs
from tauslab.kernels.ensemble.launch import SampleBuffers
from tauslab.model.arrays import Array, FloatArray, IntArray
from tauslab.model.network.network import Network
from tauslab.runner.ensemble.task import Task, prepare
from tauslab.runner.options.ensemble import Options
from tauslab.runner.options.record import Record
from tauslab.runner.output.format.layout import Accumulators
from tauslab.runner.output.format.statistics import moments_of_sums
from tauslab.runner.ranks.mpi import Communicator
from tauslab.runner.sensitivity.outputs import with_outputs
from tauslab.runner.sensitivity.result import SensitivityResult
from tauslab.runner.sensitivity.steps import Step, side_rows
from tauslab.runner.sensitivity.summing import Summing, portions, room_for, summed


def finite_differences(
    network: Network,
    steps: Sequence[Step],
    outputs: Sequence[str],
    options: Options,
    method: str,
    backend: Backend,
    comm: Communicator,
) -> SensitivityResult:
    """Derivatives by ``coupled`` or ``common`` pairs. Collective.

    Parameters
    ----------
    options
        With times, number of pairs, seed and `max_steps`.
    """
    task = _task(network, steps, outputs, options)
    means, variances, valid = _moments(task, steps, options.n, method, backend, comm)
    width = np.array([step.width for step in steps])[:, None, None]
    n = np.maximum(valid, 1)[:, :, None]
    difference, first, second = np.split(means, 3, axis=-1)
    spread, first_spread, second_spread = np.split(variances, 3, axis=-1)
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
        value=difference / width,
        standard_error=np.sqrt(spread / n) / width,
        mean=np.add.reduce((first + second) / 2, axis=0) / len(steps),
        sides_variance=first_spread + second_spread,
        valid=valid,
    )


def _task(
    network: Network, steps: Sequence[Step], outputs: Sequence[str], options: Options
) -> Task:
    """The network with its outputs, and rows of inputs: two for each step."""
    extended, recorded = with_outputs(network, outputs)
    both = Options(
        times=options.times,
        n=2 * len(steps),
        set=side_rows(steps),
        species=recorded,
        record=Record(trajectories=True),
        seed=options.seed,
        max_steps=options.max_steps,
    )
    return prepare(extended, both)


def _moments(
    task: Task,
    steps: Sequence[Step],
    pairs: int,
    method: str,
    backend: Backend,
    comm: Communicator,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Means and variances ``[step, time, 3 * output]``, and pairs that reached each time."""
    times, columns = len(task.options.times), 3 * len(task.observables)
    names = [*task.network.parameters, *task.network.species]
    numbers = np.array([names.index(step.name) for step in steps], np.uint64)
    initial = _sided(task.initial, len(steps))
    constants = _sided(task.constants, len(steps))
    found: list[tuple[Array, Array, Array]] = []
    for some in _groups(len(steps), times * columns, backend):
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
        sums = _sums(engine, len(numbers[some]), (times, columns), task, pairs, backend, comm)
        found.append((*moments_of_sums(sums), sums["obs_n"]))
    mean, variance, n = (np.concatenate(part) for part in zip(*found, strict=True))
    return mean, variance, n.min(axis=-1).astype(np.int64)


def _sums(
    engine: Pairs,
    points: int,
    shape: tuple[int, int],
    task: Task,
    pairs: int,
    backend: Backend,
    comm: Communicator,
) -> Accumulators:
    """Sums over all pairs of all ranks."""
    summing = Summing(backend, points, *shape)
    seed, bytes_each = task.options.seed, 8 * shape[0] * shape[1]
    assert seed is not None

    def start(first: int, each: int, outputs: Any, buffers: SampleBuffers, stream: Any) -> None:
        engine.start(
            first, each, outputs, buffers, stream, seed=seed, max_steps=task.options.max_steps
        )

    for first, each in portions(pairs, points, bytes_each, room_for(backend), comm):
        summing.add(first, each, engine.rows(each), start)
    return summed(summing, comm, task.network.name)


def _sided(inputs: Array, points: int) -> Array:
    """Inputs ``[point, 2, column]`` of rows for every side, or of one row for all."""
    return np.broadcast_to(inputs, (2 * points, inputs.shape[1])).reshape(points, 2, -1)


def _groups(points: int, cells: int, backend: Backend) -> Iterator[slice]:
    """Points that one launch runs together: all, unless a pair of each has too many samples."""
    most = max(1, room_for(backend) // (8 * cells))
    for start in range(0, points, most):
        yield slice(start, min(points, start + most))

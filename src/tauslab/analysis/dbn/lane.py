"""Trajectories of a model's equations for counting: launches on a device, two at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tauslab.analysis.dbn.task import DbnTask
from tauslab.base.arrays import FloatArray
from tauslab.kernels.backends.base import Backend, Event, Stream
from tauslab.kernels.dbn.count_tables import CountTables
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.ode.engine import Ode

LANES = 2
_LANE_BYTES = 8 << 30  # samples of a lane on the device


def engine_of(task: DbnTask, backend: Backend, trajectories: int = 0, planes: int = 0) -> Ode:
    """The compiled equations on this rank's device, for so many trajectories, 0 for very many.

    With `planes` of bins it may count samples too.
    """
    settings, times = task.options.integration, task.options.times.tolist()
    return Ode(
        backend, task.system, times, settings, priors=task.sampling.priors, wide=False,
        trajectories=trajectories, planes=planes,
    )  # fmt: skip


class DbnLane:
    """Buffers for the samples of up to `rows` trajectories at all time points.

    With `tables` the engine counts samples there, and leaves bins for tables that grow.
    """

    def __init__(
        self, task: DbnTask, engine: Ode, rows: int, tables: CountTables | None = None
    ) -> None:
        self._engine, backend = engine, engine.backend
        self._times, self._variables = len(task.options.times), len(task.structure.variables)
        self._parameters, self._seed = len(task.structure.parameters), task.options.seed
        self._inputs = backend.upload(task.inputs)
        samples, self._tables, self.planes = self._times * self._variables, tables, None
        self._samples: Any = None
        if tables is None:
            self._samples = backend.empty((samples * rows,), engine.sample_dtype)
        elif tables.grows:
            self.planes = backend.empty((self._parameters + samples, rows), np.uint8)
        self._drawn = backend.empty((max(1, len(task.sampling.names)) * rows,), np.float64)
        self._buffers = SampleBuffers.of(
            backend, rows, reals=self._samples, scratch=engine.scratch(rows), drawn=self._drawn
        )
        self._stream = backend.stream()
        self.rows, self._integrated, self._freed = 0, self._stream.record(), self._stream.record()

    def start(self, first: int, end: int) -> None:
        """Integrate trajectories ``first .. end - 1``, when what was counted before is done."""
        assert self._seed is not None
        self.rows = end - first
        self._stream.wait_for(self._freed)
        launch = Launch(first, self.rows, None, self._inputs, seed=self._seed)
        counting = None if self._tables is None else self._tables.arguments(self.planes)
        self._engine.start_columns(launch, self._buffers, self._stream, counting)
        self._integrated = self._stream.record()

    @property
    def counts(self) -> bool:
        """Return whether trajectories are in tables when they are integrated."""
        return self._tables is not None

    def integrated(self) -> Event:
        """An event of the device, after which the samples are there."""
        return self._integrated

    def values(self, time: int) -> Any:
        """Variables at a time point, reals ``[variable, rows]``."""
        size = self._variables * self.rows
        return self._samples[time * size : (time + 1) * size]

    def parameters(self) -> Any:
        """Unknown parameters, doubles ``[parameter, rows]``."""
        return self._drawn[: self._parameters * self.rows]

    def release(self, stream: Stream) -> None:
        """The buffers may be used again after what was given to the stream."""
        self._freed = stream.record()

    def freed(self) -> bool:
        """Return whether `start` would begin at once."""
        return self._freed.done()

    def to_host(self) -> tuple[FloatArray, FloatArray]:
        """Samples ``[time, variable, row]`` and drawn parameters ``[parameter, row]``."""
        backend, result = self._engine.backend, []
        for buffer, shape in (
            (self._samples, (self._times, self._variables, self.rows)),
            (self._drawn, (self._parameters, self.rows)),
        ):
            mirror, size = backend.mirror(buffer), int(np.prod(shape))
            if size:
                backend.download(buffer, mirror, size, self._stream)
                self._stream.record().wait()
            result.append(mirror[:size].reshape(shape).astype(np.float64))
        return result[0], result[1]


def lane_capacity(task: DbnTask, backend: Backend, itemsize: int) -> int:
    """Trajectories that a lane may hold."""
    times, variables = len(task.options.times), len(task.structure.variables)
    row_bytes = itemsize * times * variables + 8 * len(task.sampling.names) + 1
    space = min(_LANE_BYTES, backend.free_memory() // (4 * LANES))
    return max(1, space // row_bytes)


def pilot_samples(
    task: DbnTask, engine: Ode, trajectories: int, *, extremes: bool
) -> list[FloatArray]:
    """Finite samples of each node over the first trajectories; with `extremes` only the outermost.

    In as many launches as memory makes it take, which changes nothing.
    """
    space = min(lane_capacity(task, engine.backend, 8), trajectories)
    lane = DbnLane(task, engine, space)
    result: list[list[FloatArray]] = [[] for _ in task.structure.names]
    for first in range(0, trajectories, space):
        lane.start(first, min(first + space, trajectories))
        values, parameters = lane.to_host()
        for kept, own in zip(result, [*np.moveaxis(values, 1, 0), *parameters], strict=True):
            finite = own[np.isfinite(own)]
            few = np.array([finite.min(), finite.max()]) if extremes and len(finite) else finite
            kept.append(few)
    return [np.concatenate(kept) for kept in result]


def nominal_values(task: DbnTask, backend: Backend) -> FloatArray:
    """Variables over time with the model's own values ``[time, variable]``, in doubles."""
    settings = replace(task.options.integration, precision="double")
    times = task.options.times.tolist()
    engine = Ode(backend, task.system, times, settings)  # draws nothing: inputs as they are
    lane = DbnLane(task, engine, 1)
    lane.start(0, 1)
    values: FloatArray = lane.to_host()[0][:, :, 0]
    return values


def count_lane(lane: DbnLane, tables: CountTables, time: int, stream: Stream) -> None:
    """Count one time point of a lane, its parameters before the first; or what is left of it."""
    if time == 0:
        stream.wait_for(lane.integrated())
    if lane.counts:
        if time and lane.planes is not None:
            tables.add_binned(lane.planes, time, lane.rows, stream)
        return
    if time == 0:
        tables.begin(lane.parameters(), lane.rows, stream)
    tables.add(lane.values(time), time, lane.rows, stream)

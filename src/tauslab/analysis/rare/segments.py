"""Exact trajectories on a grid of times, from any states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tauslab.analysis.particles.motions.motion import DeviceRows
from tauslab.base.arrays import Array, FloatArray, Int32Array
from tauslab.base.errors import ModelError
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble.task import NetworkTask, prepare

_MOST_BYTES = 1 << 28  # of samples of one launch


class Segments:
    """Moves states by whole steps of one length; a rank moves its share and sends it to the others.

    Attributes
    ----------
    fired
        Reactions that fired so far, on all ranks.
    step
        Length of a step, in the unit of the model.
    """

    def __init__(
        self, network: Network, values: Mapping[str, float], options: Options, step: float,
        backend: Backend, comm: Communicator,
    ) -> None:  # fmt: skip
        self._backend, self._comm, self.step = backend, comm, step
        options = replace(options, n=1, times=np.array([step]), set=dict(values))
        self.task: NetworkTask = prepare(network, options)
        if self.task.lowered.dynamics is not None:
            raise ModelError(
                f"{network.name}: its events, or rate laws that time changes, cannot be split: "
                "counts alone must say what happens next"
            )
        self.start: Int32Array = self.task.initial[0]
        self._rows = DeviceRows(backend, comm)
        self._engine = self.task.engine(backend, goes_on=True)
        self._constants = backend.upload(self.task.constants)
        self._fired = 0

    @property
    def fired(self) -> int:
        """Reactions that fired so far, on all ranks. Collective."""
        return sum(self._comm.allgather(self._fired))

    def times(self, steps: int) -> FloatArray:
        """Times f64 ``[step]`` after each of so many steps."""
        return np.asarray(self.step * np.arange(1, steps + 1), np.float64)

    def go_on(self, fired: int) -> None:
        """Count on from so many firings of all ranks."""
        self._fired = fired if self._comm.rank == 0 else 0

    def move(self, states: Int32Array, turn: int, seed: int) -> tuple[Int32Array, Array]:
        """Move states by a step: counts int32 ``[row, species]``, -1 where it ended, and status."""
        del turn  # all rounds are one step
        n, rank, size = len(states), self._comm.rank, self._comm.size
        first, last = n * rank // size, n * (rank + 1) // size
        result, status = (
            np.empty((last - first, states.shape[1]), np.int32),
            np.empty(last - first, np.uint8),
        )
        most = max(1, _MOST_BYTES // (4 * max(1, states.shape[1])))
        for start in range(first, last, most):
            end = min(start + most, last)
            own = slice(start - first, end - first)
            result[own], status[own] = self._launch(states[start:end], start, seed)
        if size == 1:
            return result, status
        parts = self._comm.allgather((result, status))
        return np.concatenate([p for p, _ in parts]), np.concatenate([s for _, s in parts])

    def _launch(self, states: Int32Array, first: int, seed: int) -> tuple[Int32Array, Array]:
        backend, engine, rows = self._backend, self._engine, len(states)
        recorded = list(self.task.lowered.recorded)
        counts = backend.empty((rows, 1, len(recorded)), np.int32)
        buffers = SampleBuffers.of(backend, rows, counts=counts, scratch=engine.scratch(rows))
        initial = backend.upload(np.ascontiguousarray(states, np.int32))
        most = self.task.options.max_steps
        launch = Launch(first, rows, initial, self._constants, seed=seed, max_steps=most)
        engine.start(launch, buffers, self._rows.stream)
        self._rows.stream.record().wait()
        self._fired += int(self._rows.host(buffers.work)[0])
        moved = self._rows.host(counts)[:, 0]
        result = states.copy()  # of what the kernel leaves out, too
        result[(moved < 0).any(axis=1)] = -1
        result[:, recorded] = moved
        return result, self._rows.host(buffers.status)

"""Particles on a device: their counts, which engines of runs move, and rows in another order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.ensemble.gather import Gather
from tauslab.kernels.ensemble.launch import CONTROL_WORDS, WORK, Launch, SampleBuffers
from tauslab.model.arrays import Array, FloatArray, Int32Array, IntArray
from tauslab.model.errors import ConfigError, DeviceError, ModelError
from tauslab.model.host_memory import in_bytes
from tauslab.model.network.network import Network
from tauslab.runner.ensemble.run import build_engine
from tauslab.runner.ensemble.task import Task, prepare
from tauslab.runner.options.ensemble import Options
from tauslab.runner.options.methods import SSA, TauLeaping
from tauslab.runner.ranks.mpi import Communicator

_MOST_ENGINES = 8  # of different durations; a compiled kernel is kept on disk


class Motion:
    """Counts int32 ``[particle, species]`` on the device of this rank, and what moves them.

    All ranks hold all particles. A rank advances its share and tells the others; one rank alone
    leaves counts on the device from one advance to the next.
    """

    def __init__(
        self,
        network: Network,
        options: Options,
        rows: Mapping[str, Any],
        backend: Backend,
        comm: Communicator,
    ) -> None:
        self._network, self._options = network, options
        self._backend, self._comm = backend, comm
        self._stream = backend.stream()
        self._gather = Gather(backend)
        self._engines: dict[float, Engine] = {}
        self.task: Task
        self.prepare(rows, options.n)
        self._require_room(options.n)
        self.counts = backend.upload(self.first_counts())

    @property
    def n(self) -> int:
        """Number of particles."""
        return int(self.counts.shape[0])

    def prepare(self, rows: Mapping[str, Any], n: int) -> None:
        """Take values of parameters, one per particle or one for all."""
        lowered = self.task.lowered if hasattr(self, "task") else None
        options = replace(self._options, n=n, set=dict(rows))
        self.task = prepare(self._network, options)
        if self.task.lowered.dynamics is not None:
            raise ModelError(
                f"{self._network.name}: ts.Ensemble moves counts from time to time, and forgets "
                "events that wait and values that they set; ts.run(method='ssa') can run it"
            )
        if lowered is not None and _told(lowered) != _told(self.task.lowered):
            self._engines = {}
        self._constants = self._backend.upload(self.task.constants)

    def first_counts(self) -> Int32Array:
        """Initial counts ``[particle, species]`` as the model and its values say."""
        initial = self.task.initial
        n = self.task.options.n
        return np.ascontiguousarray(np.broadcast_to(initial, (n, initial.shape[1])))

    def advance(self, duration: float, seed: int) -> Array:
        """Move all particles; how each ended, u8 ``[particle]`` as in /status."""
        own = self._share()
        counts, status, _ = self._launch(duration, seed, own)
        if self._comm.size == 1:
            self.counts = counts
            return self._host(status)
        parts = self._comm.allgather((self._host(counts), self._host(status)))
        self.counts = self._backend.upload(np.concatenate([part for part, _ in parts]))
        return np.concatenate([part for _, part in parts])

    def observe(self) -> FloatArray:
        """Observables ``[particle, observable]`` now."""
        own = self._share()
        _, _, observables = self._launch(0.0, 0, own)
        parts = self._comm.allgather(self._host(observables))
        return np.concatenate(parts)[:, 0]

    def take(self, ancestors: IntArray) -> None:
        """Make particle i what particle ``ancestors[i]`` was."""
        self._require_room(len(ancestors))
        index = self._backend.upload(ancestors)
        target = self._backend.empty((len(ancestors), self.counts.shape[1]), np.int32)
        self._gather.start(self.counts, index, target, self._stream)
        self._stream.record().wait()
        self.counts = target

    def put(self, counts: Int32Array) -> None:
        """Replace the counts of all particles."""
        self._require_room(len(counts))
        self.counts = self._backend.upload(np.ascontiguousarray(counts, np.int32))

    def host_counts(self) -> Int32Array:
        """A copy of the counts on the host."""
        return self._host(self.counts)

    def _share(self) -> slice:
        """The particles of this rank."""
        size, rank = self._comm.size, self._comm.rank
        return slice(self.n * rank // size, self.n * (rank + 1) // size)

    def _launch(self, duration: float, seed: int, own: slice) -> tuple[Any, Any, Any]:
        backend, task = self._backend, self.task
        rows, species = own.stop - own.start, self.counts.shape[1]
        counts = backend.empty((rows, species), np.int32)
        status = backend.empty((rows,), np.uint8)
        observed = len(task.observables) if duration == 0 else 0
        observables = backend.empty((rows, 1, observed), np.float64)
        if not rows:
            return counts, status, observables
        engine = self._engine(duration)
        buffers = SampleBuffers(
            counts=None,
            observables=observables if observed else None,
            final=counts,
            status=status,
            row_counter=backend.upload(np.zeros(CONTROL_WORDS, np.uint64)),
            work=backend.empty((len(WORK),), np.uint64),
            scratch=engine.scratch(rows),
        )
        each = len(task.constants) > 1
        constants = self._constants[own] if each else self._constants
        initial = self.counts[own]
        launch = Launch(own.start, rows, initial, constants)
        engine.start(launch, buffers, self._stream, seed=seed, max_steps=task.options.max_steps)
        self._stream.record().wait()
        return counts, status, observables

    def _engine(self, duration: float) -> Engine:
        if duration not in self._engines:
            if len(self._engines) >= _MOST_ENGINES:
                self._engines.pop(next(iter(self._engines)))
            options = replace(self.task.options, times=np.array([duration]))
            task = replace(self.task, options=options)
            self._engines[duration] = build_engine(task, self._backend, None)
        return self._engines[duration]

    def _host(self, buffer: Any) -> Array:
        if not buffer.shape[0]:
            return np.zeros(buffer.shape, buffer.dtype)
        mirror = self._backend.mirror(buffer)
        self._backend.download(buffer, mirror, buffer.shape[0], self._stream)
        self._stream.record().wait()
        return mirror.copy()

    def _require_room(self, n: int) -> None:
        # Counts before and after, and of those that are copied.
        needed = n * 12 * len(self.task.species)
        free = self._backend.free_memory()
        if needed > free:
            raise DeviceError(
                f"{n} particles of {self._network.name} take {in_bytes(needed)} on the device, "
                f"and {in_bytes(free)} are free"
            )


def _told(lowered: Any) -> tuple[Any, ...]:
    """What kernels are made from."""
    return (lowered.reactions, lowered.constants, lowered.observables)


def require_method(options: Options) -> None:
    """Refuse methods that no ensemble has."""
    if not isinstance(options.method, SSA | TauLeaping):
        raise ConfigError(
            f"--method {options.method.word} is not for an ensemble of particles: ssa or tau"
        )

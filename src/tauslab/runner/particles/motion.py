"""Particles on a device: their states, which engines of runs move, and rows in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.ensemble.gather import Gather
from tauslab.kernels.ensemble.launch import CONTROL_WORDS, WORK, Launch, SampleBuffers
from tauslab.kernels.events.codegen import shape
from tauslab.kernels.events.divide import Divide
from tauslab.kernels.events.tables import kept_words
from tauslab.kernels.network.lowering import has_dynamics
from tauslab.model.arrays import Array, FloatArray, Int32Array, IntArray
from tauslab.model.errors import ConfigError, DeviceError
from tauslab.model.host_memory import in_bytes
from tauslab.model.network.network import Network
from tauslab.model.option_names import opt
from tauslab.runner.ensemble.run import build_engine
from tauslab.runner.ensemble.task import Task, prepare
from tauslab.runner.options.ensemble import Options
from tauslab.runner.options.methods import SSA, TauLeaping
from tauslab.runner.particles.shares import Shares
from tauslab.runner.ranks.mpi import Communicator


class Motion:
    """States of the particles of this rank on its device, and what moves them.

    A state is counts int32 ``[particle, species]``; of a network with events or rate rules also
    `kept`, f64 ``[particle, words]``, which holds quantities that are not whole, triggers and
    executions that wait. Rank r of R has the particles from n r / R to n (r + 1) / R. Rows go to
    another rank where an ancestor is there.
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
        self._engine: Engine | None = None
        self._divide: Divide | None = None
        self.shares = Shares(options.n, comm)
        self.task: Task
        self.prepare(rows, options.n)
        self._require_room(options.n)
        self.counts: Any = backend.upload(self.first_counts())
        self.kept: Any = None  # before the first launch counts alone are known

    @property
    def n(self) -> int:
        """Number of particles of all ranks."""
        return self.shares.n

    @property
    def reals(self) -> Mapping[str, int]:
        """Quantities that hold any number, by name, with their place in `kept`."""
        dynamics = self.task.lowered.dynamics
        found = dynamics.reals if dynamics is not None else ()
        return {self.task.lowered.species[number]: number for number, _ in found}

    @property
    def words(self) -> int:
        """Doubles of a row of `kept`; 0 where counts are the whole state."""
        dynamics = self.task.lowered.dynamics
        if dynamics is None:
            return 0
        shapes = [shape(event) for event in dynamics.events]
        return kept_words(len(self.task.lowered.species), shapes)

    def prepare(self, rows: Mapping[str, Any], n: int) -> None:
        """Take values of parameters, one per particle or one for all."""
        lowered = self.task.lowered if hasattr(self, "task") else None
        options = replace(self._options, n=n, set=dict(rows))
        self.task = prepare(self._network, options)
        dynamics = self.task.lowered.dynamics
        if dynamics is not None and dynamics.drawn:
            raise ConfigError(
                f"{self._network.name} draws initial amounts from distributions, which particles "
                "do not do yet: give them, as in initial={'X': 'poisson(50)'} of a filter"
            )
        delayed = [r.name for r in self.task.lowered.reactions if r.delay is not None]
        if delayed:
            raise ConfigError(
                f"reaction {delayed[0]}: delays of reactions are not for particles, which keep no "
                "queue of them; ts.run simulates them"
            )
        if lowered is not None and _told(lowered) != _told(self.task.lowered):
            self._engine = None
        self._upload_constants(n)

    def first_counts(self) -> Int32Array:
        """Initial counts ``[particle of this rank, species]`` as the model and its values say."""
        initial = self.task.initial[:, list(self.task.lowered.recorded)]
        own = self.shares.own
        rows = initial[own] if len(initial) > 1 else initial
        size = (own.stop - own.start, initial.shape[1])
        return np.ascontiguousarray(np.broadcast_to(rows, size))

    def begin(self, counts: Int32Array | None = None) -> None:
        """Put all particles at the start, with counts ``[particle, species]`` where given."""
        self.kept = None
        if counts is None:
            self.counts = self._backend.upload(self.first_counts())
        else:
            self.put(counts)

    def advance(
        self, start: float, end: float, seed: int, *, first: int = 0, halt: int = -1
    ) -> Array:
        """Move all particles; how each ended, u8 ``[particle]`` as in /status.

        Parameters
        ----------
        first
            Number of the first particle, of which its draws are made.
        halt
            Place of the quantity that halts a particle; -1 for none.
        """
        status = self._launch(start, end, seed, first, halt)
        return np.asarray(self.shares.joined(self._host(status)))

    def observe(self, now: float) -> FloatArray:
        """Observables ``[particle, observable]``."""
        return np.asarray(self.shares.joined(self.observe_own(now)))

    def observe_own(self, now: float) -> FloatArray:
        """Observables ``[particle of this rank, observable]``."""
        return self._host(self._observables(now))[:, 0]

    def take(self, ancestors: IntArray) -> None:
        """Make particle i what particle ``ancestors[i]`` was; their number may change."""
        self._require_room(len(ancestors))
        sources = [self.counts] if self.kept is None else [self.counts, self.kept]
        order, wanted = self.shares.route(ancestors)
        moved = [self._moved(source, order, wanted) for source in sources]
        self.shares = Shares(len(ancestors), self._comm)
        self.counts = moved[0]
        if self.kept is not None:
            self.kept = moved[1]

    def put(self, counts: Int32Array) -> None:
        """Replace the counts ``[particle, species]`` of all particles."""
        self._require_room(len(counts))
        own = np.ascontiguousarray(counts[self.shares.own], np.int32)
        self.counts = self._backend.upload(own)
        if self.kept is not None:
            kept = self._host(self.kept)
            kept[:, list(self.task.lowered.recorded)] = own
            self.kept = self._backend.upload(kept)

    def put_real(self, name: str, values: FloatArray) -> None:
        """Replace a quantity ``[particle]`` that holds any number, once particles have begun."""
        kept = self._host(self.kept)
        kept[:, self.reals[name]] = values[self.shares.own]
        self.kept = self._backend.upload(kept)

    def put_kept(self, kept: FloatArray | None) -> None:
        """Replace the rows ``[particle, word]`` of all particles."""
        if kept is not None:
            kept = self._backend.upload(np.ascontiguousarray(kept[self.shares.own]))
        self.kept = kept

    def rows_of(self, which: IntArray) -> FloatArray:
        """Values of all species and the time ``[row, species + 1]`` of particles `which`.

        Their numbers increase.
        """
        own = self.shares.own
        here = which[(which >= own.start) & (which < own.stop)] - own.start
        species = self.task.initial.shape[1]
        found = self._host(self._gathered(self.kept, here.astype(np.int64)))[:, : species + 1]
        return np.asarray(self.shares.joined(np.ascontiguousarray(found)))

    def divide(
        self, side: Array, mother: IntArray, part: FloatArray, share: Array, *, seed: int, halt: int
    ) -> None:
        """Let copies of mothers take the parts of daughters: see `Divide.start`, for all ranks."""
        if self._divide is None:
            self._divide = Divide(self._backend)
        own = self.shares.own
        self._divide.start(
            self.kept, side[own], mother[own], part[own], share, self._stream, seed=seed, halt=halt
        )

    def host_counts(self) -> Int32Array:
        """A copy of the counts ``[particle, species]`` on the host."""
        return np.asarray(self.shares.joined(self.own_counts()))

    def own_counts(self) -> Int32Array:
        """A copy of the counts ``[particle of this rank, species]`` on the host."""
        return self._host(self.counts)

    def host_kept(self) -> FloatArray | None:
        """A copy of the rows ``[particle, word]`` of all particles."""
        return None if self.kept is None else self.shares.joined(self._host(self.kept))

    def _moved(self, source: Any, order: IntArray, wanted: Sequence[IntArray]) -> Any:
        """Rows of this rank after a move: those of `wanted` that are here, then what others send.

        `wanted` are rows of this rank that each rank needs, `order` which of all that arrive
        becomes which row.
        """
        rank = self._comm.rank
        if self._comm.size == 1:
            return self._gathered(source, order)
        sent = {
            other: self._host(self._gathered(source, rows)) if len(rows) else None
            for other, rows in enumerate(wanted)
            if other != rank
        }
        arrived = self.shares.exchange(sent, source.dtype, source.shape[1])
        here = self._gathered(source, wanted[rank])
        if not sum(len(part) for part in arrived):
            return self._gathered(here, order)
        parts = [part for part in arrived if len(part)]
        pool = self._backend.empty(
            (len(wanted[rank]) + sum(len(part) for part in parts), source.shape[1]), source.dtype
        )
        at = len(wanted[rank])
        if at:
            self._backend.copy(here, pool[:at], self._stream)
        uploads = [self._backend.upload(part) for part in parts]  # held until they are copied
        for part in uploads:
            self._backend.copy(part, pool[at : at + len(part)], self._stream)
            at += len(part)
        return self._gathered(pool, order)

    def _gathered(self, source: Any, index: IntArray) -> Any:
        target = self._backend.empty((len(index), source.shape[1]), source.dtype)
        if len(index):
            self._gather.start(source, self._backend.upload(index), target, self._stream)
            self._stream.record().wait()
        return target

    def _launch(self, start: float, end: float, seed: int, first: int, halt: int) -> Any:
        backend, lowered = self._backend, self.task.lowered
        rows = self.counts.shape[0]
        counts = backend.empty(self.counts.shape, np.int32)
        status = backend.empty((rows,), np.uint8)
        keep = None
        if lowered.dynamics is not None:
            keep = self.kept
            if keep is None:
                keep = backend.empty((rows, self.words), np.float64)
        if rows:
            time = end if lowered.dynamics is not None else end - start
            buffers = self._buffers(status, final=counts, keep=keep)
            self._start(time, seed, buffers, first, halt)
        self.counts, self.kept = counts, keep
        return status

    def _observables(self, now: float) -> Any:
        backend, task = self._backend, self.task
        rows = self.counts.shape[0]
        found = backend.empty((rows, 1, len(task.observables)), np.float64)
        if rows and task.observables:
            status = backend.empty((rows,), np.uint8)
            buffers = self._buffers(status, observables=found)
            self._start(now if task.lowered.dynamics is not None else 0.0, 0, buffers)
        return found

    def _start(
        self, time: float, seed: int, buffers: SampleBuffers, first: int = 0, halt: int = -1
    ) -> None:
        backend, task, own = self._backend, self.task, self.shares.own
        launch = Launch(
            first + own.start, own.stop - own.start, self._initial(), self._constants,
            times=backend.upload(np.array([time])), kept=self.kept, halt=halt,
        )  # fmt: skip
        engine = self._compiled()
        buffers.scratch = engine.scratch(launch.rows)
        engine.start(launch, buffers, self._stream, seed=seed, max_steps=task.options.max_steps)
        self._stream.record().wait()

    def _buffers(self, status: Any, **given: Any) -> SampleBuffers:
        backend = self._backend
        return SampleBuffers(
            counts=None,
            observables=given.get("observables"),
            final=given.get("final"),
            status=status,
            row_counter=backend.upload(np.zeros(CONTROL_WORDS, np.uint64)),
            work=backend.empty((len(WORK),), np.uint64),
            keep=given.get("keep"),
        )

    def _initial(self) -> Any:
        """Counts of all species, of which those that hold any number have none."""
        recorded = list(self.task.lowered.recorded)
        species = self.task.initial.shape[1]
        if self.kept is not None or len(recorded) == species:
            return self.counts
        initial = np.zeros((self.counts.shape[0], species), np.int32)
        initial[:, recorded] = self._host(self.counts)
        return self._backend.upload(initial)

    def _compiled(self) -> Engine:
        if self._engine is None:
            task = replace(self.task, options=replace(self.task.options, times=np.zeros(1)))
            self._engine = build_engine(task, self._backend, None)
        return self._engine

    def _upload_constants(self, n: int) -> None:
        own = Shares(n, self._comm).own
        table = self.task.constants
        self._constants = self._backend.upload(
            np.ascontiguousarray(table[own]) if len(table) > 1 else table
        )

    def _host(self, buffer: Any) -> Array:
        if not buffer.shape[0] or not all(buffer.shape):
            return np.zeros(buffer.shape, buffer.dtype)
        mirror = self._backend.mirror(buffer)
        self._backend.download(buffer, mirror, buffer.shape[0], self._stream)
        self._stream.record().wait()
        return mirror.copy()

    def _require_room(self, n: int) -> None:
        # Counts before and after, and of those that are copied; whole states before and after.
        each = 12 * len(self.task.species) + 16 * self.words
        needed = -(-n // self._comm.size) * each
        free = self._backend.free_memory()
        if needed > free:
            raise DeviceError(
                f"{n} particles of {self._network.name} take {in_bytes(needed)} on the device, "
                f"and {in_bytes(free)} are free"
            )


def _told(lowered: Any) -> tuple[Any, ...]:
    """What kernels are made from."""
    return (lowered.reactions, lowered.constants, lowered.observables, lowered.dynamics)


def require_method(options: Options, network: Network) -> None:
    """Refuse methods that no ensemble of the network has."""
    if not isinstance(options.method, SSA | TauLeaping):
        raise ConfigError(
            f"{opt('method', options.method.word)} is not for an ensemble of particles: ssa or tau"
        )
    if isinstance(options.method, TauLeaping) and has_dynamics(network):
        raise ConfigError(
            f"{opt('method', 'tau')} is not for particles of {network.name}, which has events, "
            "rate rules or laws of the time: leave it out, ssa moves them"
        )

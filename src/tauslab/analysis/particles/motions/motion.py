"""What an ensemble asks of those who move its particles, and rows that go between ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tauslab.analysis.particles.shares import Shares
from tauslab.base.arrays import Array, FloatArray, IntArray
from tauslab.base.errors import DeviceError
from tauslab.base.host import in_bytes
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.gather import Gather
from tauslab.store.state import State


class Motion(Protocol):
    """States of the particles of this rank, and what moves them.

    Rank r of R has the particles from n r / R to n (r + 1) / R. Where nothing else is said, arrays
    ``[particle]`` are of all ranks.
    """

    shares: Shares
    missing: float  # in place of the counts of a particle that has ended

    @property
    def n(self) -> int:
        """Number of particles of all ranks."""

    @property
    def species(self) -> tuple[str, ...]:
        """Names of the columns of counts."""

    @property
    def observables(self) -> tuple[str, ...]:
        """Names of what is computed from a state."""

    @property
    def counts(self) -> Any:
        """Counts, or amounts, ``[particle of this rank, species]`` on the device."""

    @property
    def draws(self) -> bool:
        """Whether initial amounts are drawn, by a round to time 0."""

    @property
    def waits(self) -> bool:
        """Whether something is still to happen at the present time: events at time 0."""

    @property
    def looks(self) -> bool:
        """Whether new values may set off events at once."""

    def prepare(self, rows: Mapping[str, Any], n: int) -> None:
        """Take values of parameters, one per particle or one for all."""

    def begin(self, seed: int, first: int) -> None:
        """Put all particles at the start; the first has this number."""

    def place(self, columns: Mapping[str, IntArray], seed: int, first: int) -> None:
        """The same with initial counts ``[particle]`` of some species."""

    def holds(self, name: str) -> bool:
        """Whether a name is part of the state, and not a value with which it moves."""

    def put(self, columns: Mapping[str, FloatArray], now: float = 0.0) -> None:
        """Replace parts of the state by name, ``[particle]``, at the time `now`.

        A ConfigError says which cannot be. After new values of parameters it is called, too, with
        no columns.
        """

    def advance(self, start: float, end: float, seed: int, *, first: int = 0) -> Array:
        """Move all particles; how each ended, u8 ``[particle]`` as in /status."""

    def observe_own(self, now: float) -> FloatArray:
        """Observables ``[particle of this rank, observable]``."""

    def own_counts(self) -> Array:
        """A copy of the counts ``[particle of this rank, species]`` on the host."""

    def own_count(self, number: int) -> Array:
        """A copy of one column of them."""

    def take(self, ancestors: IntArray) -> None:
        """Make particle i what particle ``ancestors[i]`` was; their number may change."""

    def stored(self) -> dict[str, Array]:
        """Whole states of all particles by name. Collective."""

    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave; an `InputFileError` says what does not fit."""


class Rows:
    """Rows of device memory, one for each particle of this rank."""

    def __init__(self, backend: Backend, comm: Communicator) -> None:
        self.backend, self.comm = backend, comm
        self.stream = backend.stream()
        self._gather = Gather(backend)

    def taken(self, shares: Shares, sources: Sequence[Any], ancestors: IntArray) -> list[Any]:
        """Sources after a move in which row i becomes row ``ancestors[i]``, of all ranks."""
        order, wanted = shares.route(ancestors)
        return [self.moved(shares, source, order, wanted) for source in sources]

    def moved(
        self, shares: Shares, source: Any, order: IntArray, wanted: Sequence[IntArray]
    ) -> Any:
        """Rows that this rank holds after a move. Collective.

        ``wanted[r]`` are the rows of this rank that rank r needs. Rows that arrive form a pool:
        first this rank's own, then those of the other ranks in order. Particle i becomes row
        ``order[i]`` of the pool. Both come from `Shares.route`.
        """
        backend, rank = self.backend, self.comm.rank
        if self.comm.size == 1:
            return self.gathered(source, order)
        sent = {
            other: self.host(self.gathered(source, rows)) if len(rows) else None
            for other, rows in enumerate(wanted)
            if other != rank
        }
        arrived = shares.exchange(sent, source.dtype, source.shape[1])
        here = self.gathered(source, wanted[rank])
        if not sum(len(part) for part in arrived):
            return self.gathered(here, order)
        parts = [part for part in arrived if len(part)]
        at = len(wanted[rank])
        pool = backend.empty((at + sum(len(part) for part in parts), source.shape[1]), source.dtype)
        if at:
            backend.copy(here, pool[:at], self.stream)
        uploads = [backend.upload(part) for part in parts]  # held until they are copied
        for part in uploads:
            backend.copy(part, pool[at : at + len(part)], self.stream)
            at += len(part)
        return self.gathered(pool, order)

    def gathered(self, source: Any, index: IntArray) -> Any:
        """A copy of some rows."""
        target = self.backend.empty((len(index), source.shape[1]), source.dtype)
        if len(index):
            self._gather.start(source, self.backend.upload(index), target, self.stream)
            self.stream.record().wait()
        return target

    def host(self, buffer: Any) -> Array:
        """A copy of device memory on the host."""
        if not buffer.shape[0] or not all(buffer.shape):
            return np.zeros(buffer.shape, buffer.dtype)
        mirror = self.backend.mirror(buffer)
        self.backend.download(buffer, mirror, buffer.shape[0], self.stream)
        self.stream.record().wait()
        return mirror.copy()

    def column(self, source: Any, number: int) -> Array:
        """A copy of one column of device memory on the host."""
        found = self.backend.empty((source.shape[0], 1), source.dtype)
        found[...] = source[:, number : number + 1]
        self.backend.upload(np.zeros(1))  # waits for array operations
        return self.host(found)[:, 0]

    def require_room(self, n: int, each: int, name: str, more: int = 0) -> None:
        """Refuse n particles of all ranks that take so many bytes each, and `more` on each rank."""
        needed = -(-n // self.comm.size) * each + more
        free = self.backend.free_memory()
        if needed > free:
            raise DeviceError(
                f"{n} particles of {name} take {in_bytes(needed)} on the device, "
                f"and {in_bytes(free)} are free"
            )

"""The motion that an ensemble asks for, and rows of device memory that go between ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tauslab.analysis.particles.shares import Copies, Shares
from tauslab.base.arrays import Array, BoolArray, FloatArray, IntArray
from tauslab.base.errors import ConfigError, DeviceError
from tauslab.base.host import in_bytes
from tauslab.decomposition.ranks.mpi import Communicator, Parcel
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.ensemble.gather import Ends, Gather
from tauslab.kernels.ensemble.launch import CONTROL_WORDS
from tauslab.store.state import State

_FEW = 4096  # particles
_FEW_STATUSES = 1 << 16  # that a GPU copies faster than it looks at them


class Motion(ABC):
    """States of the particles of this rank on its device, and what moves them.

    Rank r of R has the particles from n r / R to n (r + 1) / R. Where nothing else is said, arrays
    ``[particle]`` are of all ranks. A row goes to another rank where an ancestor of a particle is
    there.

    Attributes
    ----------
    missing
        In place of the counts of a particle that has ended.
    apart
        Parameters that kernels read also where all particles have one value, with the number that
        the model has for them.
    in_kernels
        Names whose values stay numbers of the kernels where all particles have one value.
    none
        What `advance` gives where no particle has ended, u8 ``[particle]``.
    beside, meanwhile, afterwards
        Work of the host while the device moves particles: a GPU does the first beside the move,
        the second after it, and the third where nobody waits for it any more. Collective.
    """

    missing = -1.0
    in_kernels: frozenset[str] = frozenset()

    def __init__(self, n: int, backend: Backend, comm: Communicator) -> None:
        self._backend, self._comm = backend, comm
        self._rows = DeviceRows(backend, comm)
        self.shares = Shares(n, comm)
        self.apart: dict[str, float | None] = {}
        self._scratch: tuple[Engine, int, Any] | None = None  # of few particles, kept
        self.none: Array = np.zeros(0, np.uint8)
        self._on_host: Any = None  # the table of states on the host, if it was asked for
        self._arrived: list[Array] = []
        self.beside: Callable[[], None] | None = None
        self.meanwhile: Callable[[], None] | None = None
        self.afterwards: Callable[[], None] | None = None

    @property
    def n(self) -> int:
        """Number of particles of all ranks."""
        return self.shares.n

    @property
    def stream(self) -> Any:
        """On which rows are copied."""
        return self._rows.copies

    @property
    @abstractmethod
    def species(self) -> tuple[str, ...]:
        """Names of the columns of counts."""

    @property
    @abstractmethod
    def observables(self) -> tuple[str, ...]:
        """Names of what is computed from a state."""

    @property
    def reaction_names(self) -> tuple[str, ...]:
        """Names of the columns of firings; none where they are not counted."""
        return ()

    def own_fired(self) -> IntArray:
        """Firings int64 ``[particle of this rank, reaction]`` since the last call."""
        own = self.shares.own
        return np.zeros((own.stop - own.start, 0), np.int64)

    @property
    def draws(self) -> bool:
        """Return whether initial amounts are drawn, by a round to time 0."""
        return False

    @property
    def by_chance(self) -> bool:
        """Return whether `advance` draws."""
        return True

    @property
    def waits(self) -> bool:
        """Return whether something is still to happen at the present time: events at time 0."""
        return False

    @property
    def looks(self) -> bool:
        """Return whether new values may set off events at once."""
        return False

    @abstractmethod
    def device_counts(self) -> Any:
        """Counts, or amounts, ``[particle of this rank, species]`` on the device."""

    @abstractmethod
    def prepare(self, rows: Mapping[str, Any], n: int) -> None:
        """Take values of parameters, one per particle or one for all."""

    def read_as_inputs(self, names: Iterable[str]) -> None:  # noqa: B027 - of lattices they always do
        """Let kernels read these parameters from now on, so that a new value needs no new one."""

    @abstractmethod
    def begin(self, seed: int, first: int) -> None:
        """Put all particles at the start; the first has this number."""

    def foresee(self, end: float) -> None:  # noqa: B027 - most choose nothing by it
        """Make choices for moves up to the time `end`. Collective."""

    def place(self, columns: Mapping[str, IntArray], seed: int, first: int) -> None:
        """Put all particles at the start, with initial counts ``[particle]`` of some species."""
        self.begin(seed, first)
        self.put(columns)

    def draw(
        self, initial: Mapping[str, FloatArray], seed: int, size: int, group: int, purpose: int
    ) -> bool:
        """Put all particles at the start, and draw initial counts of some species on the device.

        Parameters
        ----------
        initial
            Probabilities ``[count]`` by species.
        seed, size, group, purpose
            Of the random words; particles of a group, and the number of the first group.

        Returns
        -------
        False where the motion takes what the host draws, by `place`.
        """
        del initial, seed, size, group, purpose
        return False

    @abstractmethod
    def holds(self, name: str) -> bool:
        """Return whether a name is part of the state, and not a value with which it moves."""

    def put(self, columns: Mapping[str, Any], now: float = 0.0) -> None:
        """`put_table` of values by name, one for all or ``[particle]``."""
        self.put_table(tuple(columns), beside(columns, self.n), now)

    def expect(self, names: Sequence[str]) -> None:  # noqa: B027 - most have nothing to make ready
        """Make ready what `put_table` of these names needs, so that the first takes no longer."""

    @abstractmethod
    def put_table(self, names: tuple[str, ...], values: FloatArray, now: float) -> None:
        """Replace parts of the state, ``[1 or particle, name]``, at the time `now`.

        A ConfigError says which cannot be. After new values of parameters it is called, too, with
        no names.
        """

    def change(self, names: tuple[str, ...], values: FloatArray) -> bool:
        """Give parameters new values ``[particle, name]``, where kernels read these as columns.

        Returns
        -------
        False, and nothing has changed, where `prepare` has to do it.
        """
        del names, values
        return False

    def refused(self, names: tuple[str, ...], values: FloatArray) -> BoolArray:
        """Which particles cannot move with these values of parameters, bool ``[particle]``."""
        del names
        return np.zeros(len(values), bool)

    @abstractmethod
    def advance(self, start: float, end: float, seed: int, *, first: int = 0) -> Array:
        """Move all particles; how each ended, u8 ``[particle]`` as in /status.

        The particles have numbers from `first` on, of which their draws are made.
        """

    @abstractmethod
    def observe_own(self, now: float) -> FloatArray:
        """Observables ``[particle of this rank, observable]``."""

    @abstractmethod
    def own_counts(self) -> Array:
        """A copy of the counts ``[particle of this rank, species]`` on the host."""

    def own_columns(self, columns: IntArray) -> FloatArray:
        """A copy of some columns of them, f64."""
        return np.take(self.own_counts(), columns, axis=1).astype(np.float64)

    @abstractmethod
    def own_count(self, number: int) -> Array:
        """A copy of one column of them."""

    @abstractmethod
    def take(self, ancestors: IntArray) -> None:
        """Make particle i what particle ``ancestors[i]`` was; their number may change."""

    @abstractmethod
    def copy(self, copies: Copies) -> None:
        """Do as `take` with ancestors of which each rank knows its own. Collective."""

    def begin_copy(self, copies: Copies) -> Callable[[], None]:
        """Launch what `copy` needs; what is returned does it. Collective."""
        return partial(self.copy, copies)

    def ancestors_on_host(self, copies: Copies) -> IntArray:
        """Ancestors ``[particle]``. Collective."""
        own = self._rows.host(copies.rows) + self.shares.own.start
        result: IntArray = self.shares.gathered(own, copies.sizes)
        return result

    def copied(self, values: Array, copies: Copies) -> Array:
        """Small whole numbers ``[particle]`` after a move. Collective."""
        own = values[self.shares.own, None].astype(np.int32)
        moved = self._rows.copied(self.shares, self._backend.upload(own), copies)
        result: Array = self.shares.joined(self._rows.host(moved)[:, 0].astype(values.dtype))
        return result

    @abstractmethod
    def stored(self) -> dict[str, Array]:
        """Whole states of all particles by name. Collective."""

    @abstractmethod
    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave; an `InputFileError` says what does not fit."""

    def close(self) -> None:  # noqa: B027 - most hold nothing outside the device
        """Give back what other ranks reach. Collective."""

    def _upload_own(self, table: Array, n: int) -> Any:
        """Rows of this rank's particles, of n in all, or the one row of all."""
        own = Shares(n, self._comm).own
        return self._backend.upload(np.ascontiguousarray(own_rows(table, own)))

    def _scratch_of(self, engine: Engine, rows: int) -> Any:
        """Memory of an engine for a launch; of few particles once, as finding its size takes long.

        So few take little of it.
        """
        if rows > _FEW:
            return engine.scratch(rows)
        if self._scratch is None or self._scratch[:2] != (engine, rows):
            self._scratch = engine, rows, engine.scratch(rows)
        return self._scratch[2]

    def _launched(self) -> None:
        """Let copies come after a move, but for what a GPU does beside it."""
        beside, self.beside = self.beside, None
        if beside and self._backend.style.warp > 1:
            beside()
            beside = None
        self._rows.follow()
        if beside:
            beside()

    def _ends(self, status: Any, *tables: Any) -> Array:
        """Statuses of all particles, from a buffer of this rank. Collective.

        Tables on the device come to `_arrived` with the same wait.
        """
        if self.meanwhile:
            self.meanwhile()
        own, self._arrived = self._rows.ends(status, tables, self.afterwards)
        if self.shares.any(own is not None):
            return np.asarray(
                self.shares.joined(np.zeros(status.shape, np.uint8) if own is None else own)
            )
        if len(self.none) != self.n:
            self.none = np.zeros(self.n, np.uint8)
            self.none.flags.writeable = False
        return self.none


def beside(columns: Mapping[str, Any], n: int) -> FloatArray:
    """Columns side by side, each one for all or ``[particle]``: ``[1 or particle, name]``."""
    if not any(getattr(column, "ndim", 0) for column in columns.values()):
        return np.array([list(columns.values())], np.float64)
    table = np.empty((n, len(columns)))
    for place, column in enumerate(columns.values()):
        table[:, place] = column
    return table


def require_each(good: BoolArray, names: Iterable[str], what: str) -> None:
    """Refuse values ``[1 or particle, name]`` that are not `good`: an error has the first name."""
    if not good.all():
        name = list(names)[int(good.all(axis=0).argmin())]
        raise ConfigError(f"{name}: {what}")


def own_rows(table: Array, own: slice) -> Array:
    """Rows of this rank's particles, or the one row of all."""
    return table[own] if len(table) > 1 else table


class DeviceRows:
    """Rows of device memory, one for each particle of this rank."""

    def __init__(self, backend: Backend, comm: Communicator) -> None:
        self.backend, self.comm = backend, comm
        self.stream = backend.stream()
        self.copies = backend.stream(waited=True)
        self._gather = Gather(backend)
        self._ends: Ends | None = None
        self._control: Any = None
        self._arriving: list[Any] = []  # host memory that `copies` may still read

    def taken(self, shares: Shares, sources: Sequence[Any], ancestors: IntArray) -> list[Any]:
        """Sources after a move in which row i becomes row ``ancestors[i]``, of all ranks."""
        order, wanted = shares.route(ancestors)
        return [self.moved(shares, source, order, wanted) for source in sources]

    def copied(self, shares: Shares, source: Any, copies: Copies) -> Any:
        """Rows of this rank's particles after a move, for later work on its streams. Collective."""
        backend, own, rank = self.backend, shares.own, shares.rank
        target = backend.empty((own.stop - own.start, source.shape[1]), source.dtype)
        others = [other for other in range(shares.ranks) if other != rank]

        def given(to: int) -> Any:
            to_rank = copies.common(rank, shares.of(to))
            return copies.rows[to_rank.start - first : to_rank.stop - first]

        def taken(by: int) -> Any:
            local = copies.common(by, own)
            return target[local.start - own.start : local.stop - own.start]

        first, parcels = copies.bounds[rank], []
        for other in others:
            if len(rows := given(other)):
                sent = backend.empty((len(rows), source.shape[1]), source.dtype)
                self._gather.start(source, rows, sent, self.copies)
                parcels.append(Parcel(other, self._mirrored(sent), sent=True))
        ready = self.copies.record()
        self._gather.start(source, given(rank), taken(rank), self.copies)
        arriving = [(backend.mirror(taken(other)), other) for other in others if len(taken(other))]
        parcels += [Parcel(other, mirror, sent=False) for mirror, other in arriving]
        if parcels:
            ready.wait()
            self.comm.exchange(parcels)
        for mirror, other in arriving:
            backend.upload_mirror(mirror, taken(other), self.copies)
        self._arriving += arriving  # until they are copied
        self.stream.wait_for(self.copies.record())
        return target

    def moved(
        self, shares: Shares, source: Any, order: IntArray, wanted: Sequence[IntArray]
    ) -> Any:
        """Rows that this rank holds after a move. Collective.

        ``wanted[r]`` are the rows of this rank that rank r needs. Rows that arrive form a pool:
        first this rank's own, then rows of the other ranks in order. Particle i becomes row
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
        local = self.gathered(source, wanted[rank])
        if not sum(len(part) for part in arrived):
            return self.gathered(local, order)
        parts = [part for part in arrived if len(part)]
        at = len(wanted[rank])
        pool = backend.empty((at + sum(len(part) for part in parts), source.shape[1]), source.dtype)
        if at:
            backend.copy(local, pool[:at], self.copies)
        uploads = [backend.upload(part) for part in parts]  # held until they are copied
        for part in uploads:
            backend.copy(part, pool[at : at + len(part)], self.copies)
            at += len(part)
        return self.gathered(pool, order)

    def follow(self) -> None:
        """Let copies, and all that is taken to the host, come after what was launched so far."""
        self.copies.wait_for(self.stream.record())

    def filled(self, row: Array, size: int) -> Any:
        """Device memory ``[size, column]`` with one row ``[1, column]`` of 4 or 8 bytes in all."""
        source = self.backend.upload(np.ascontiguousarray(row))
        target = self.backend.empty((size, source.shape[1]), source.dtype)
        self._gather.start(source, None, target, self.copies)
        self.copies.record().wait()
        return target

    def gathered(self, source: Any, index: Any) -> Any:
        """A copy of some rows, whose numbers int64 are on the host or on the device."""
        target = self.backend.empty((len(index), source.shape[1]), source.dtype)
        if len(index):
            index = self.backend.upload(index) if isinstance(index, np.ndarray) else index
            self._gather.start(source, index, target, self.copies)
            self.copies.record().wait()
        return target

    def host(self, buffer: Any, afterwards: Callable[[], None] | None = None) -> Array:
        """A copy of device memory on the host; `afterwards` launches work that comes later."""
        mirror: Array = buffer
        if not isinstance(buffer, np.ndarray):
            if not buffer.shape[0] or not all(buffer.shape):
                return np.zeros(buffer.shape, buffer.dtype)
            mirror = self._mirrored(buffer)
        copied = self.copies.record()
        if afterwards:
            afterwards()
        copied.wait()
        return mirror.copy()

    def _mirrored(self, buffer: Any) -> Array:
        """Host memory in which a copy of device memory will be."""
        mirror = self.backend.mirror(buffer)
        self.backend.download(buffer, mirror, buffer.shape[0], self.copies)
        return mirror

    def ends(
        self, status: Any, tables: Sequence[Any], afterwards: Callable[[], None] | None = None
    ) -> tuple[Array | None, list[Array]]:
        """Statuses u8 ``[row]`` on the host, None where all are 0: a GPU copies no large ones.

        And tables on the host, if there are rows. `afterwards` as of `host`.
        """
        beside = [self._mirrored(table) for table in tables if len(status)]
        in_brief, largest = self.backend.style.warp > 1 and len(status) > _FEW_STATUSES, status
        if in_brief:
            self._ends = self._ends or Ends(self.backend)
            largest = self._ends.start(status, self.copies)
        result = self.host(largest, afterwards)
        self._arriving.clear()
        if not result.view(np.bool_).any():
            return None, beside
        return (self.host(status) if in_brief else result), beside

    def row_counter(self) -> Any:
        """Control words of launches one after the other, of which each begins with zeros."""
        if self._control is None:
            self._control = self.backend.upload(np.zeros(CONTROL_WORDS, np.uint64))
        return self._control

    def column(self, source: Any, number: int) -> Array:
        """A copy of one column of device memory on the host."""
        result = self.backend.empty((source.shape[0], 1), source.dtype)
        result[...] = source[:, number : number + 1]
        return self.host(result)[:, 0]

    def require_memory(self, n: int, each: int, name: str, more: int = 0) -> None:
        """Refuse n particles of all ranks that take so many bytes each, and `more` on each rank."""
        needed = -(-n // self.comm.size) * each + more
        free = self.backend.free_memory()
        if needed > free:
            raise DeviceError(
                f"{n} particles of {name} take {in_bytes(needed)} on the device, "
                f"and {in_bytes(free)} are free"
            )

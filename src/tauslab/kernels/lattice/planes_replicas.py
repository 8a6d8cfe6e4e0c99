"""Many lattices of one model on one device, in bit planes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, BoolArray, DeviceArray, FloatArray, IntArray
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.lattice.changing import CANDIDATE
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.placing import are_many
from tauslab.kernels.lattice.planes import (
    PLANES_OF_SLOTS,
    LatticeEngineName,
    rate_tables,
    words_of,
)
from tauslab.kernels.lattice.planes_engine import PlanesEngine, planes_at_a_time
from tauslab.kernels.lattice.replicas import PLACED, LatticeReplicas, ManyReplicas, Replicas, Rest
from tauslab.kernels.lattice.state import counted_columns

_MOST_BESIDE = 1024  # lattices that share the device
_AT_ONCE = 1 << 28  # bytes of lattices whose launches follow one another without a look


class PlanesReplicas(ManyReplicas):
    """Lattices in bit planes; those that do not fill the device move beside each other."""

    _engine: PlanesEngine

    def __init__(self, backend: Backend, lattice: LoweredLattice) -> None:
        super().__init__(PlanesEngine(backend, lattice, seed=0))
        self._moving: PlanesEngine | None = None  # has the kernel that moves many
        self._tables: dict[str, Any] = {}  # of rates
        self._sizes: dict[int, int] = {}

    def use_rates(self, rates: FloatArray | None) -> None:
        """As of `Replicas`."""
        super().use_rates(rates)
        each = [rate_tables(self.lattice, own) for own in (() if rates is None else rates)]
        self._tables = {
            name: self.backend.upload(np.stack([tables[name] for tables in each]))
            for name in (each[0] if each else ())
        }

    @property
    def _beside(self) -> int:
        """Lattices that share the device at the same time."""
        n = len(self)
        if n not in self._sizes:  # to ask for the device's memory takes long
            size = planes_at_a_time(self.backend, self.lattice, n, _MOST_BESIDE)
            self._sizes = {n: size}
        return self._sizes[n]

    def _of_a_launch(self, n: int) -> int:
        """As of `ManyReplicas`."""
        if n < 2 or any(one is not None for one in self.rest.types):
            return 0
        whole = self.backend.style.warp > 1 and self._beside == 1
        return 0 if whole else max(self._beside, _AT_ONCE // self.bytes_each)

    def _mover(self, n: int) -> PlanesEngine:
        size = max(2, min(n, self._beside))  # a kernel of one has another text
        if self._moving is None or self._moving.sharing < size:
            self._room = {}
            self._moving = PlanesEngine(self.backend, self.lattice, seed=0, sharing=size)
        return self._moving

    def _new_room(self, n: int) -> dict[str, Any]:
        engine = self._mover(n)
        return engine.room(min(n, engine.sharing), n)

    def _try(
        self, marks: Sequence[int], rows: slice, rest: Rest, seed: int, numbers: Sequence[int],
        capacity: int,
    ) -> IntArray:  # fmt: skip
        n, lattice = rows.stop - rows.start, self.lattice
        engine = self._mover(n)
        counts = self.backend.empty((n, len(marks), counted_columns(lattice.sizes)), np.uint64)
        self.backend.clear(counts, engine.stream)
        engine.seed = seed
        engine.start_rows(marks, counts, min(n, self._beside), {
            "stayed": self.particles[rows],
            **{name: self._room[name] for name in ("moved", "more")},
            **{name: self._room[name][:n] for name in ("heads", "waiting", "work", "fired")},
            **{name: table[rows] for name, table in self._tables.items()},
            "capacity": capacity,
            "step": rest.steps[rows],
            "replica": np.asarray(numbers, np.int64),
        })  # fmt: skip
        shape = (n, len(marks), len(lattice.site_types), len(lattice.species))
        columns = shape[2] * shape[3]
        found = engine.host(counts)[:, :, :columns].astype(np.int64).reshape(shape)
        return np.asarray(found.swapaxes(0, 1))

    def in_slots(self, rows: slice) -> DeviceArray:
        """As of `Replicas`, made anew."""
        lattice, numbers = self.lattice, range(*rows.indices(len(self)))
        shape = (len(numbers), *lattice.shape, lattice.slots)
        cells = self.backend.empty(shape, lattice.particle_type)
        for place, row in enumerate(numbers):
            self.backend.copy(self._content(row), self._engine.content, self._engine.stream)
            self._engine.in_slots(cells[place])
        return cells

    def host_cells(self) -> Array:
        """As of `Replicas`; one lattice after another is put into slots."""
        lattice = self.lattice
        result = np.zeros((len(self), *lattice.shape, lattice.slots), lattice.particle_type)
        for row in range(len(self)):
            result[row] = self.host(self.in_slots(slice(row, row + 1)))[0]
        return result

    def take_up(self, cells: Array, rest: Rest) -> None:
        """As of `Replicas`."""
        self._empty(len(cells))
        self._fill(cells, 0)
        self.rest = rest

    def begin(self, starts: Sequence[tuple[LoweredLattice, int]], seed: int) -> None:
        """As of `Replicas`."""
        self._empty(len(starts))
        self.rest = self._none(len(starts))
        whole = self._engine.slab
        if any(are_many(lattice.start, whole) for lattice, _ in starts):  # the device places them
            for row, (lattice, number) in enumerate(starts):
                self._engine.place(lattice, seed, number)
                self.backend.copy(self._engine.content, self._content(row), self._engine.stream)
            self._engine.synchronize()
            return
        most = self._in_slots_at_once
        for begin in range(0, len(starts), most):
            placed = [
                lattice.particles(0, whole.end, seed, number)
                for lattice, number in starts[begin : begin + most]
            ]
            self._fill(np.stack(placed), begin)

    @property
    def _in_slots_at_once(self) -> int:
        """Lattices that are put into slots at a time."""
        return max(1, PLACED // (self.sites * self.lattice.slots))

    def _empty(self, n: int) -> None:
        self.particles = self.backend.empty((n, self.words), np.uint32)
        self.backend.clear(self.particles, self._engine.stream)

    def _fill(self, cells: Array, first: int) -> None:
        """Put lattices in slots, on the host, in the place of empty ones."""
        most = self._in_slots_at_once
        for begin in range(0, len(cells), most):
            some = self.backend.upload(np.ascontiguousarray(cells[begin : begin + most]))
            rows = range(first + begin, first + begin + len(some))
            self._engine.others_from_slots(some, [self._content(row) for row in rows])

    def _listed(self, numbers: IntArray, *, replica: int = 0, **draws: int) -> Array:
        parts = [np.zeros(0, CANDIDATE)]
        for row in np.flatnonzero(numbers.any(axis=1)).tolist():
            listed = self._engine.changing.candidates(
                self._content(row), numbers[row] > 0, each=self.sites, first=0,
                replica=replica + row, **draws,
            ).copy()  # fmt: skip
            listed["site"] += np.uint64(row * self.sites)
            parts.append(listed)
        return np.concatenate(parts)

    def _take(self, chosen: Array) -> None:
        for row, which in self._by_row(chosen["site"].astype(np.int64)):
            own = chosen[which]
            own["site"] -= np.uint64(row * self.sites)
            self._engine.changing.take(self._content(row), own)

    def _put(self, at: IntArray, particles: IntArray) -> BoolArray:
        left = np.zeros(len(at), bool)
        for row, which in self._by_row(at):
            left[which] = self._engine.changing.put(
                self._content(row), at[which] - row * self.sites, particles[which]
            )
        return left

    def _by_row(self, at: IntArray) -> Iterator[tuple[int, BoolArray]]:
        """Each lattice that has some of the sites of all, and which."""
        rows = at // self.sites
        for row in np.unique(rows).tolist():
            yield row, rows == row


def replicas_of(backend: Backend, lattice: LoweredLattice, engine: LatticeEngineName) -> Replicas:
    """Make no lattices yet, of a model, in the form of an engine."""
    made = PlanesReplicas if engine is LatticeEngineName.PLANES else LatticeReplicas
    return made(backend, lattice)


def bytes_of(lattice: LoweredLattice, engine: LatticeEngineName) -> int:
    """Device memory of a lattice in the form of an engine, about."""
    if engine is LatticeEngineName.PLANES:
        planes = len(lattice.species) * PLANES_OF_SLOTS[lattice.slots]
        return 4 * planes * words_of(lattice) * lattice.shape[0]
    return math.prod(lattice.shape) * lattice.slots * np.dtype(lattice.particle_type).itemsize

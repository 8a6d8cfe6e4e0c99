"""Many lattices of one model on one device, in bit planes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tauslab.base.arrays import Array, BoolArray, DeviceArray, IntArray
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.lattice.changing import CANDIDATE
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.planes import PLANES_OF_SLOTS, LatticeEngineName, words_of
from tauslab.kernels.lattice.planes_engine import PlanesEngine, planes_at_a_time
from tauslab.kernels.lattice.replicas import LatticeReplicas, Replicas, Rest


class PlanesReplicas(Replicas):
    """Lattices in bit planes; those that do not fill the device move beside each other."""

    _engine: PlanesEngine

    def __init__(self, backend: Backend, lattice: LoweredLattice) -> None:
        super().__init__(PlanesEngine(backend, lattice, seed=0))
        self._engines: list[PlanesEngine] = []  # that move beside each other

    def _of_a_launch(self, n: int) -> int:
        """Lattices that move beside each other; 1: one after another."""
        reshaped = any(one is not None for one in self.rest.types)
        return 1 if reshaped else planes_at_a_time(self.backend, self.lattice, n)

    def _move(
        self, marks: Sequence[int], rest: Rest, seed: int, numbers: Sequence[int], found: IntArray
    ) -> None:
        """As of `Replicas`, or some beside each other."""
        n = len(self)
        size = self._of_a_launch(n) if n else 1
        if size == 1:
            super()._move(marks, rest, seed, numbers, found)
            return
        if len(self._engines) < size:  # one kernel does all, whose teams follow from their number
            self._engines.clear()
            for _ in range(size):
                one = PlanesEngine(self.backend, self.lattice, seed=0, sharing=size)
                self._engines.append(one)
        for begin in range(0, n, size):
            rows = range(begin, min(n, begin + size))
            first, *others = engines = self._engines[: len(rows)]
            for engine, row in zip(engines, rows, strict=True):
                self._load(engine, row, rest, seed, numbers[row])
            ends = first.start_beside(others, marks)
            for engine, row, end in zip(engines, rows, ends, strict=True):
                found[:, row] = end().by_type
                if marks[-1]:
                    self._store(engine, row, rest)

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
        self.particles = self.backend.empty((len(cells), self.words), np.uint32)
        for row, one in enumerate(cells):
            self._engine.from_slots(self.backend.upload(np.ascontiguousarray(one)))
            self._keep(row)
        self.rest = rest

    def begin(self, starts: Sequence[tuple[LoweredLattice, int]], seed: int) -> None:
        """As of `Replicas`."""
        self.particles = self.backend.empty((len(starts), self.words), np.uint32)
        self.rest = self._none(len(starts))
        for row, (lattice, number) in enumerate(starts):
            self._engine.place(lattice, seed, number)
            self._keep(row)

    def _keep(self, row: int) -> None:
        """Make the engine's particles those of a lattice."""
        self.backend.copy(self._engine.content, self._content(row), self._engine.stream)
        self._engine.synchronize()

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

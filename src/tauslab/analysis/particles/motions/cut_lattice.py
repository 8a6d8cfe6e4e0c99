"""One lattice as the only particle of an ensemble, cut into slabs of which each rank has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, BoolArray, DeviceArray, IntArray
from tauslab.decomposition.halo.links import best_depth
from tauslab.decomposition.planes_run import PlanesSlab
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.slab import cut_planes, neighbours
from tauslab.decomposition.slab_run import HaloOptions, SlabEngine
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.changing import first_of
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.planes import LatticeEngineName
from tauslab.kernels.lattice.planes_engine import PlanesEngine
from tauslab.kernels.lattice.replicas import SUMMED, Replicas, Rest
from tauslab.kernels.lattice.state import WAITING, LatticeState
from tauslab.model.lattice.lattice import Lattice


def can_be_cut(model: Lattice, n: int, comm: Communicator) -> bool:
    """Return whether n lattices are one that has a plane for each of several ranks.

    One with objects of several sites is whole on a rank.
    """
    return not model.objects and n == 1 and 1 < comm.size <= model.shape[0]


class CutLattice(Replicas):
    """One lattice; all ranks make the same calls, and get the same answers.

    `rest` and all answers are of the whole lattice, `particles`, `cells` and `in_slots` of the
    planes of this rank. Results do not depend on the number of ranks.
    """

    def __init__(
        self,
        backend: Backend,
        lattice: LoweredLattice,
        engine: LatticeEngineName,
        comm: Communicator,
    ) -> None:
        planes = engine is LatticeEngineName.PLANES
        around = neighbours(comm.rank, comm.size, periodic=lattice.boundary[0] == "periodic")
        depth = 1 if planes else best_depth(backend, lattice, comm.native, around)
        made = PlanesSlab if planes else SlabEngine
        self._steps: PlanesSlab | SlabEngine = made(
            backend, lattice, comm.native, cut_planes(lattice.shape[0], comm.size, least=depth),
            seed=0, options=HaloOptions(depth=depth),
        )  # fmt: skip
        super().__init__(self._steps.engine)
        self._comm, self._gathers, self._open = comm, lambda *own: comm.allgather(own), True
        slab, plane = self._engine.slab, lattice.shape[1] * lattice.shape[2]
        self._own_sites = slice(slab.begin * plane, slab.end * plane)

    def close(self) -> None:
        """As of `Replicas`."""
        if self._open:
            self._steps.close()
        self._open = False

    def in_slots(self, rows: slice) -> DeviceArray:
        """As of `Replicas`, of the planes of this rank."""
        engine, lattice = self._engine, self.lattice
        shape = engine.slab.end - engine.slab.begin, *lattice.shape[1:], lattice.slots
        cells: Any = self.backend.empty((1, *shape), lattice.particle_type)
        self.backend.copy(self._content(0), engine.content, engine.stream)
        engine.in_slots(cells[0])
        engine.synchronize()
        result: DeviceArray = cells[rows]
        return result

    def host_cells(self) -> Array:
        """As of `Replicas`, of all planes. Collective."""
        slab, own = self._engine.slab, self.host(self.cells)[0]
        sizes = self._comm.allgather(slab.end - slab.begin)
        return self._comm.join(own, sizes)[None]

    def _of_planes(self, part: IntArray, axis: int) -> IntArray:
        parts = self._comm.allgather(part)
        return np.concatenate(parts, axis=1) if axis == 0 else np.asarray(sum(parts))

    def take_up(self, cells: Array, rest: Rest) -> None:
        """As of `Replicas`; `cells` are of all planes."""
        slab = self._engine.slab
        self._keep(LatticeState(cells[0, slab.begin : slab.end], *self._nothing()))
        self.rest = rest

    def begin(self, starts: Sequence[tuple[LoweredLattice, int]], seed: int) -> None:
        """As of `Replicas`."""
        ((lattice, number),) = starts
        engine, slab = self._engine, self._engine.slab
        if isinstance(engine, PlanesEngine):
            engine.place(lattice, seed, number)
            self._keep(None)
        else:
            cells = lattice.particles(slab.begin, slab.end, seed, number)
            self._keep(LatticeState(cells, *self._nothing()))
        self.rest = self._none(1)

    def _nothing(self) -> tuple[Array, int, IntArray, int]:
        """Return the other parts of an initial state: nothing waits, nothing has fired."""
        return np.zeros(0, WAITING), 0, np.zeros(len(self.lattice.reactions), np.int64), 0

    def _keep(self, state: LatticeState | None) -> None:
        """Make the particles of a state, or those that the engine has, the lattice's."""
        if state is not None:
            self._engine.load(state)
        self.particles = self.backend.empty((1, self.words), np.uint32)
        self.backend.copy(self._engine.content, self._content(0), self._engine.stream)
        self._engine.synchronize()

    # ---------------------------------------------------------------- changes

    def _listed(self, numbers: IntArray, *, replica: int = 0, **draws: int) -> Array:
        begin = self._own_sites.start
        own = self._engine.changing.candidates(
            self._content(0), numbers[0] > 0, each=self.sites, first=begin, replica=replica, **draws
        )
        own = first_of(own, numbers[0])  # no others can be the first of all
        own["site"] += np.uint64(begin)
        return np.concatenate(self._comm.allgather(own))

    def _take(self, chosen: Array) -> None:
        sites = chosen["site"].astype(np.int64)
        own = chosen[self._are_own(sites)]
        own["site"] -= np.uint64(self._own_sites.start)
        self._engine.changing.take(self._content(0), own)

    def _put(self, at: IntArray, particles: IntArray) -> BoolArray:
        own = self._are_own(at)
        left = self._engine.changing.put(
            self._content(0), at[own] - self._own_sites.start, particles[own]
        )
        return np.concatenate(self._comm.allgather(left))  # sites ascend, and so do slabs

    def _are_own(self, sites: IntArray) -> BoolArray:
        return np.asarray((sites >= self._own_sites.start) & (sites < self._own_sites.stop))

    # ---------------------------------------------------------------- steps

    def _load_alone(self, row: int, rest: Rest, seed: int, number: int) -> None:
        if isinstance(self._steps, SlabEngine):
            self._steps.forget_recordings()  # they keep seed and number
        waiting = rest.waiting[0]
        own = [waiting[self._are_own(waiting["site"].astype(np.int64))]]
        # Counts are of the whole lattice: the first slab continues them.
        counted = {name: getattr(rest, name) * (self._comm.rank == 0) for name in SUMMED}
        super()._load_alone(row, replace(rest, waiting=own, **counted), seed, number)

    def _store_alone(self, row: int, rest: Rest) -> None:
        super()._store_alone(row, rest)
        own = (rest.waiting[0], *(getattr(rest, name) for name in SUMMED))
        waiting, *counted = zip(*self._comm.allgather(own), strict=True)
        rest.waiting[0] = np.concatenate(waiting)
        for name, parts in zip(SUMMED, counted, strict=True):
            getattr(rest, name)[:] = sum(parts)

    def _sampled(self, marks: Sequence[int]) -> IntArray:
        own = self._steps.run_sampled(marks).by_type
        return self._comm.sum_uint64(own.astype(np.uint64)).astype(np.int64)

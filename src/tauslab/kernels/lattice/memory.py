"""Memory of a slab of a lattice on a device: particles, those that wait, counters."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, DeviceArray, FloatArray, IntArray
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.lattice.codegen import reaction_tables
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.placing import Placing, are_many, into_slots
from tauslab.kernels.lattice.plan import StepPlan
from tauslab.kernels.lattice.slab_memory import SlabMemory, seen
from tauslab.kernels.lattice.state import WAITING, LatticeState, Slab
from tauslab.kernels.lattice.tables import LatticeTables


class LatticeMemory(SlabMemory):
    """A slab of a lattice in slots on one device; its tiles are those of a plan.

    Attributes
    ----------
    filled
        Share of the tiles that hold particles, as far as is known.
    planes_each
        Planes of a block that goes through planes; 0: as `planes_of_a_block` says.
    """

    SLOTS_APART = False
    KEPT = ("particles", "_fired", "_heads", "work")

    def __init__(
        self, backend: Backend, lattice: LoweredLattice, plan: StepPlan, slab: Slab, *, seed: int,
        replica: int, capacity: int | None,
    ) -> None:  # fmt: skip
        nz, ny, nx = lattice.shape
        self.sites = slab.planes * ny * nx
        super().__init__(
            backend, lattice, slab, seed=seed, replica=replica, capacity=capacity, sites=self.sites
        )
        self.plan = plan
        self.wraps = slab == Slab(0, nz) and lattice.boundary[0] == "periodic"
        self.filled, self.planes_each = 1.0, 0
        shape = (slab.planes, ny, nx, lattice.slots)
        self.particles = backend.empty(shape, lattice.particle_type)
        self._moved = backend.empty(shape, lattice.particle_type)
        reactions = reaction_tables(lattice.reactions, len(lattice.species))
        self.tables = LatticeTables(
            backend, lattice, slab, plan.tile, reactions,
            host=partial(seen, backend, self.stream), closed=plan.lists_tiles,
        )  # fmt: skip
        self._make_tiles()

    def _make_tiles(self) -> None:
        shape, empty = (self.slab.planes, self.plan.tiles), self.backend.empty
        self._stamps = empty(shape, np.uint32)
        self._moved_stamps = empty(shape, np.uint32)
        self._heads = empty((2, *shape), np.int32)

    def cut(self, plan: StepPlan, lattice: LoweredLattice) -> None:
        """Go on with the tiles of another plan, for the same lattice with another crowding."""
        waiting, counted = self.waiting(), self._since_start()
        self.plan, self.lattice = plan, lattice
        self._make_tiles()
        self.tables.cut(plan.tile, closed=plan.lists_tiles)
        self._load_waiting(waiting, counted)

    def set_rates(self, reactions: IntArray, rates: FloatArray) -> str | None:
        """Give reactions other constants ``[reaction, site type]``: see `LatticeTables`."""
        self.synchronize()
        return self.tables.set_rates(reactions, rates, self.stream)

    @property
    def rates(self) -> FloatArray:
        """Stochastic constants ``[reaction, site type]`` per site; `set_rates` changes them."""
        return self.tables.rates

    @property
    def types(self) -> Any:
        """Site types ``[plane, y, x]`` on the device; None where there is one."""
        return self.tables.types

    def set_types(self, types: DeviceArray) -> None:
        """As of `SlabMemory`."""
        self.synchronize()
        self.tables.set_types(types)

    def load_start(self) -> None:
        """Put the model's particles at t = 0 on the device."""
        lattice, slab = self.lattice, self.slab
        fired = np.zeros(len(lattice.reactions), np.int64)
        state = LatticeState(np.zeros(0), np.zeros(0, WAITING), 0, fired, 0)
        if not are_many(lattice.start, slab):
            particles = lattice.particles(slab.begin, slab.end, self.seed, self.replica)
            self.load(replace(state, particles=particles))
            return
        self._empty()
        own = into_slots(self.particles[self.own])
        placing = Placing(self.backend, lattice.start, slab, own, self.stream)
        placing.run(self.seed, self.replica)
        self._take_up_rest(state)

    def load(self, state: LatticeState) -> None:
        """Go on from a state; planes beside the slab are the caller's to fill."""
        self.take_up(state, self.backend.upload(np.ascontiguousarray(state.particles)))

    def take_up(self, state: LatticeState, content: DeviceArray) -> None:
        """As of `SlabMemory`."""
        self._empty()
        self.particles[self.own] = content
        self._take_up_rest(state)

    def _empty(self) -> None:
        """Empty all sites."""
        self.synchronize()
        for buffer in (self.particles, self._moved):
            self.backend.clear(buffer, self.stream)
        self.synchronize()

    @property
    def content(self) -> DeviceArray:
        """Sites ``[plane, y, x, slot]`` of the own planes."""
        own: DeviceArray = self.particles[self.own]
        return own

    def in_slots(self, buffer: DeviceArray | None = None) -> DeviceArray:
        """As of `SlabMemory`."""
        if buffer is None:
            return self.content
        self.backend.copy(self.content, buffer, self.stream)
        return buffer

    def from_slots(self, cells: DeviceArray) -> None:
        """Do nothing: slots are the content."""

    def lists_of(self, sites: Array) -> IntArray:
        """As of `SlabMemory`."""
        tile = self.plan.tile
        return self.slab.tiles_of(sites, self.lattice.shape, tile.y, tile.x)

    def mark_all(self) -> None:
        """Take every tile for filled: after particles were changed from outside."""
        self._stamps[...] = np.uint32((self.step + 1) & 0xFFFFFFFF)
        self._moved_stamps[...] = np.uint32(self.step & 0xFFFFFFFF)
        super().mark_all()

    def arguments(self) -> dict[str, Any]:
        """Arguments of every kernel of the lattice: `LatticeArguments`, by name."""
        slab = self.slab
        nz, ny, nx = self.lattice.shape
        return {
            "state": self.particles, "moved": self._moved, "state_stamps": self._stamps,
            "moved_stamps": self._moved_stamps, **self.tables.arguments(), "fired": self._fired,
            "waiting": self._waiting, "heads": self._heads, "work": self.work,
            "capacity": self.capacity, "nx": nx, "ny": ny, "nz": nz, "planes": slab.planes,
            "first_plane": slab.begin - slab.below, "wraps": self.wraps, "own_begin": slab.below,
            "own_end": slab.below + slab.end - slab.begin, "seed": self.seed, "step": self.step,
            "replica": self.replica,
        }  # fmt: skip

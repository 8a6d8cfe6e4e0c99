"""Memory of a slab of a lattice on a device: particles, those that wait, counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, DeviceArray, FloatArray, IntArray
from tauslab.kernels.backends.base import Backend, Stream
from tauslab.kernels.lattice.codegen import reaction_tables
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.placing import Placing, are_many
from tauslab.kernels.lattice.plan import StepPlan
from tauslab.kernels.lattice.state import (
    SINCE_START,
    WAITING,
    WAITING_0,
    WORK,
    LatticeState,
    Slab,
    chained,
    first_entries,
    in_order,
)
from tauslab.kernels.lattice.tables import LatticeTables

_LEAST_CAPACITY = 4096
_SITES_PER_ENTRY = 64  # room at first for waiting particles: one in this many sites
_GROWTH = 4
_KEPT = ("particles", "_fired", "_waiting", "_heads", "work")  # of a batch that may be repeated


class LatticeMemory:
    """A slab of a lattice on one device; its tiles are those of a plan.

    Attributes
    ----------
    step
        Of the state, and of all draws; `seed` and `replica` are the others of their address.
    capacity
        Particles that can wait for a slot before a batch of steps is done again with more room.
    filled
        Share of the tiles that hold particles, as far as is known.
    planes_each
        Planes of a block that goes through planes; 0: as `planes_of_a_block` says.
    """

    def __init__(
        self,
        backend: Backend,
        lattice: LoweredLattice,
        plan: StepPlan,
        slab: Slab,
        *,
        seed: int,
        replica: int,
        capacity: int | None,
    ) -> None:
        self.backend, self.lattice, self.plan, self.slab = backend, lattice, plan, slab
        self.seed, self.replica, self.step = seed, replica, 0
        nz, ny, nx = lattice.shape
        self.wraps = slab == Slab(0, nz) and lattice.boundary[0] == "periodic"
        self.sites = slab.planes * ny * nx
        self.filled, self.planes_each = 1.0, 0
        self.stream: Stream = backend.stream()
        self._kept: dict[str, Any] = {}
        self._frames: dict[int, tuple[Any, Array, Stream]] = {}
        shape = (slab.planes, ny, nx, lattice.slots)
        self.particles = backend.empty(shape, lattice.particle_type)
        self._moved = backend.empty(shape, lattice.particle_type)
        self._fired = backend.empty((max(1, len(lattice.reactions)),), np.uint64)
        self.work = backend.empty((WORK,), np.uint64)
        self.capacity = capacity or max(_LEAST_CAPACITY, self.sites // _SITES_PER_ENTRY)
        self._waiting = self._room_to_wait(self.capacity)
        reactions = reaction_tables(lattice.reactions, len(lattice.species))
        self.tables = LatticeTables(
            backend, lattice, slab, plan.tile, reactions, closed=plan.together
        )
        self._make_tiles()

    def _room_to_wait(self, capacity: int) -> DeviceArray:
        return self.backend.empty((2, capacity, WAITING.itemsize // 8), np.uint64)

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
        self.tables.cut(plan.tile, closed=plan.together)
        self._load_waiting(waiting, counted)

    def set_rate(self, reaction: int, rates: npt.ArrayLike) -> None:
        """Give a reaction other stochastic constants ``[site type]`` per site, from now on."""
        self.synchronize()
        self.tables.set_rate(reaction, rates)

    def set_rates(self, reactions: IntArray, rates: FloatArray) -> str | None:
        """Give reactions other constants ``[reaction, site type]``: see `LatticeTables`."""
        self.synchronize()
        return self.tables.set_rates(reactions, rates)

    @property
    def rates(self) -> Array:
        """Stochastic constants ``[reaction, site type]`` per site; `set_rate` changes them."""
        return self.tables.rates

    @property
    def types(self) -> Any:
        """Site types ``[plane, y, x]`` on the device; None where there is one."""
        return self.tables.types

    def load_start(self) -> None:
        """Put the model's particles at t = 0 on the device."""
        lattice, slab = self.lattice, self.slab
        fired = np.zeros(len(lattice.reactions), np.int64)
        state = LatticeState(np.zeros(0), np.zeros(0, WAITING), 0, fired, 0)
        if not are_many(lattice.start, slab):
            particles = lattice.particles(slab.begin, slab.end, self.seed, self.replica)
            self.load(replace(state, particles=particles))
            return
        self._make_room(state)
        placing = Placing(self.backend, lattice.start, slab, self.particles[self._own], self.stream)
        placing.run(self.seed, self.replica)
        self._take_up_rest(state)

    def load(self, state: LatticeState) -> None:
        """Go on from a state; planes beside the slab are the caller's to fill."""
        self.take_up(state, self.backend.upload(np.ascontiguousarray(state.particles)))

    def take_up(self, state: LatticeState, particles: DeviceArray) -> None:
        """Go on from a state whose particles are on the device; those of `state` are not read."""
        self._make_room(state)
        self.particles[self._own] = particles
        self._take_up_rest(state)

    @property
    def _own(self) -> slice:
        """The slab's own planes among those in memory."""
        slab = self.slab
        return slice(slab.below, slab.below + slab.end - slab.begin)

    def _make_room(self, state: LatticeState) -> None:
        """Empty all sites."""
        backend = self.backend
        self.synchronize()
        if len(state.waiting) > self.capacity // 2:
            self._waiting = backend.empty((2, 4 * len(state.waiting), 3), np.uint64)
            self.capacity = 4 * len(state.waiting)
        for buffer in (self.particles, self._moved, self._waiting):
            backend.clear(buffer, self.stream)
        self.synchronize()

    def _take_up_rest(self, state: LatticeState) -> None:
        """Go on from a state whose particles stand in the sites."""
        backend = self.backend
        self.step = state.step
        fired = np.zeros(self._fired.shape, np.uint64)
        fired[: len(state.fired)] = state.fired
        self._fired[...] = backend.upload(fired)
        self._load_waiting(state.waiting, state.since_start)
        self.mark_all()

    def _since_start(self) -> dict[str, int]:
        """The numbers of `SINCE_START` so far."""
        counted = self.host(self.work)[[*SINCE_START.values()]].tolist()
        return dict(zip(SINCE_START, counted, strict=True))

    def _load_waiting(self, waiting: Array, counted: Mapping[str, int]) -> None:
        """Put waiting particles in the list that the next step reads."""
        work = np.zeros(WORK, np.uint64)
        current = self.step & 1
        work[WAITING_0 + current] = len(waiting)
        for name, count in counted.items():
            work[SINCE_START[name]] = count
        tile = self.plan.tile
        where = self.slab.tiles_of(waiting["site"], self.lattice.shape, tile.y, tile.x)
        entries, tiles = chained(waiting, where)
        heads = np.full(self._heads.shape, -1, np.int32)
        heads[current].reshape(-1)[tiles] = first_entries(entries, tiles)
        upload = self.backend.upload
        self._heads[...] = upload(heads)
        self.work[...] = upload(work)
        if len(entries):
            words = entries.view(np.uint64).reshape(-1, 3)
            self._waiting[current, : len(entries)] = upload(words)

    def replace_waiting(self, waiting: Array, added: int) -> None:
        """Put other particles on the list of those that wait; `added` of them are new."""
        counted = self._since_start()
        counted["spills"] += added
        while self.capacity < 2 * len(waiting):
            self.capacity *= _GROWTH
            self._waiting = self.backend.empty((2, self.capacity, 3), np.uint64)
        self._load_waiting(waiting, counted)
        self.mark_all()

    def mark_all(self) -> None:
        """Take every tile for filled: after particles were changed from outside."""
        self._stamps[...] = np.uint32((self.step + 1) & 0xFFFFFFFF)
        self._moved_stamps[...] = np.uint32(self.step & 0xFFFFFFFF)
        self.wait_for_arrays()

    def wait_for_arrays(self) -> None:
        """Wait for array operations from outside: CuPy runs them on a stream of its own."""
        self.backend.upload(np.zeros(1))

    def synchronize(self) -> None:
        """Wait until all steps that were asked for are done."""
        self.stream.record().wait()

    def save(self) -> LatticeState:
        """The state on the host."""
        self.synchronize()
        return replace(self.rest(), particles=self.host(self.particles[self._own]))

    def rest(self) -> LatticeState:
        """The state on the host, with no particles in sites: these stay on the device."""
        self.synchronize()
        fired = self.host(self._fired)[: len(self.lattice.reactions)].astype(np.int64)
        none = np.zeros((0, 0, 0, 0), self.lattice.particle_type)
        return LatticeState(none, self.waiting(), self.step, fired, **self._since_start())

    def save_later(self, place: int) -> Callable[[], LatticeState]:
        """Save while later steps run: the particles travel to the host beside them.

        Returns what waits for them and gives the state, to be called by any thread. Its particles
        lie in buffers of `place` (0, 1, ...), which the next call with that place uses again.
        """
        backend, own = self.backend, self.particles[self._own]
        if place not in self._frames:
            buffer = backend.empty(own.shape, own.dtype)
            self._frames[place] = (buffer, backend.mirror(buffer), backend.stream())
        buffer, mirror, copies = self._frames[place]
        backend.copy(own, buffer, self.stream)
        copies.wait_for(self.stream.record())
        backend.download(buffer, mirror, len(buffer), copies)
        arrived = copies.record()
        fired = self.host(self._fired)[: len(self.lattice.reactions)].astype(np.int64)
        counted, waiting, step = self._since_start(), self.waiting(), self.step

        def state() -> LatticeState:
            backend.use()
            arrived.wait()
            return LatticeState(mirror, waiting, step, fired, **counted)

        return state

    def waiting(self) -> Array:
        """Particles that wait for a slot, ordered by site and age."""
        self.synchronize()
        current = self.step & 1
        held = int(self.host(self.work)[WAITING_0 + current])
        if held == 0:
            return np.zeros(0, WAITING)
        words = np.ascontiguousarray(self.host(self._waiting[current, :held]))
        sites = self.lattice.shape[1] * self.lattice.shape[2]
        entries = words.view(WAITING).reshape(-1)
        return in_order(entries, self.slab.begin * sites, self.slab.end * sites)

    def host(self, buffer: DeviceArray) -> Array:
        """A copy of device memory on the host."""
        mirror = self.backend.mirror(buffer)
        self.backend.download(buffer, mirror, len(buffer), self.stream)
        self.synchronize()
        return mirror.copy()

    def arguments(self) -> dict[str, Any]:
        """Arguments of every kernel of the lattice: `LatticeArguments`, by name."""
        slab = self.slab
        nz, ny, nx = self.lattice.shape
        return {
            "state": self.particles,
            "moved": self._moved,
            "state_stamps": self._stamps,
            "moved_stamps": self._moved_stamps,
            **self.tables.arguments(),
            "fired": self._fired,
            "waiting": self._waiting,
            "heads": self._heads,
            "work": self.work,
            "capacity": self.capacity,
            "nx": nx,
            "ny": ny,
            "nz": nz,
            "planes": slab.planes,
            "first_plane": slab.begin - slab.below,
            "wraps": self.wraps,
            "own_begin": slab.below,
            "own_end": slab.below + slab.end - slab.begin,
            "seed": self.seed,
            "step": self.step,
            "replica": self.replica,
        }

    def snapshot(self) -> dict[str, Any]:
        """Copies with which a batch that is done again begins."""
        copies: dict[str, Any] = {"step": self.step}
        for name in _KEPT:
            buffer = getattr(self, name)
            if name not in self._kept or self._kept[name].shape != buffer.shape:
                self._kept[name] = self.backend.empty(buffer.shape, buffer.dtype)
            self.backend.copy(buffer, self._kept[name], self.stream)
            copies[name] = self._kept[name]
        return copies

    def restore(self, before: dict[str, Any]) -> None:
        """Go back to a snapshot, with more room for waiting particles."""
        self.step = before["step"]
        for name in ("particles", "_fired", "_heads", "work"):
            self.backend.copy(before[name], getattr(self, name), self.stream)
        self.synchronize()
        capacity = _GROWTH * self.capacity
        self._waiting = self.backend.empty((2, capacity, 3), np.uint64)
        kept = before["_waiting"]  # of the first try
        self._waiting[:, : kept.shape[1]] = kept
        self.capacity = capacity
        self.mark_all()

"""The lattice engine: memory of a slab of planes on one device, and the launches of its steps.

A *step* here is one pass of hops along x, y and z with the reactions that follow it; a step of the
model is `LoweredLattice.diffusion_substeps` of these. `docs/rdme.md` tells the algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, IntArray
from tauslab.kernels.backends.arguments import KeptArguments
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid, Program, Stream
from tauslab.kernels.lattice.codegen import (
    SECTION,
    has_sections,
    lanes_of,
    lattice_header,
    may_be_sparse,
    reaction_tables,
    section_blocks,
    sparse_threads,
    tile_of,
    words_in_registers,
)
from tauslab.kernels.lattice.filling import BEYOND, Filling, filling_of
from tauslab.kernels.lattice.lines import DeviceLines, device_lines, in_lines
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.placing import Placing, are_many
from tauslab.kernels.lattice.segments import planes_of_a_block
from tauslab.kernels.lattice.state import (
    FULL,
    SINCE_START,
    WAITING_0,
    WORK,
    LatticeState,
    Samples,
    Slab,
    counted_columns,
)
from tauslab.kernels.lattice.tables import LatticeTables
from tauslab.kernels.lattice.waiting import WAITING, chained, first_entries, in_order

Range = tuple[int, int]  # of planes: the first, and the one after the last
NO_HOLE: Range = (0, 0)

_OF_LAUNCH = slice(7, 10)  # words of `work` that are zero when many steps are launched together
_LEAST_CAPACITY = 4096
_SITES_PER_ENTRY = 64  # room at first for waiting particles: one in this many sites
_GROWTH = 4
TALL_FROM = 1 << 24  # sites of a device, see `tile_of`
_MOST_TOGETHER = 1 << 30  # steps of a launch; lattice/sparse/sections.cc counts them in 32 bits


class Steps(Protocol):
    """What runs the steps of a slab: the engine itself, or a rank that shares the lattice."""

    def run(self, steps: int) -> None:
        """Put steps on the stream."""

    def must_repeat(self) -> bool:
        """Whether the last steps found too little room, and have to be done again."""


class LatticeEngine:
    """A slab of a lattice on one device.

    Parameters
    ----------
    seed, replica
        With the number of the step, the address of all draws.
    slab
        By default the whole lattice.
    capacity
        Particles that can wait for a slot before a batch of steps is done again with more room.
    together
        Whether a launch does many steps; by default up to `Backend.sites_together`, and of a
        sparse lattice at any size.
    sharing
        How many engines take steps at the same time, each on its share of the device.
    tall
        As of `tile_of`, the same for all slabs; by default by the size of a lattice that is whole.
    sparse
        Whether a launch of many steps looks for the sites that hold particles, by default as
        `Filling` says, and on a CPU where the sites of a step take less time than a launch: this
        launch also counts at many times, where others need two launches for each.
    lines
        Whether blocks of a launch of many steps keep lines of sites, by default as `device_lines`
        says.
    sections
        Whether blocks of a sparse lattice do sections of it, with one barrier a step, by default
        on a GPU where `has_sections` says so.
    follows
        Whether the choice of `sparse`, where none is given, is made again with the lattice's
        particles as they change.
    """

    def __init__(  # noqa: PLR0913
        self,
        backend: Backend,
        lattice: LoweredLattice,
        *,
        seed: int,
        replica: int = 0,
        slab: Slab | None = None,
        capacity: int | None = None,
        together: bool | None = None,
        sharing: int = 1,
        tall: bool | None = None,
        sparse: bool | None = None,
        lines: bool | None = None,
        sections: bool | None = None,
        follows: bool = True,
    ) -> None:
        self.backend, self.lattice, self.seed, self.replica = backend, lattice, seed, replica
        nz, ny, nx = lattice.shape
        self.slab = slab or Slab(0, nz)
        self._whole = self.slab == Slab(0, nz)
        self.wraps = self._whole and lattice.boundary[0] == "periodic"
        self.step = 0
        self.filled = 1.0  # share of the tiles that hold particles, as far as is known
        self._sharing = sharing
        self.planes_each = 0  # of a block of a large lattice; 0: as `planes_of_a_block` says
        self._kept: dict[str, Any] = {}
        self._marks: Any = None
        self._frames: dict[int, tuple[Any, Array, Stream]] = {}
        self._sites = self.slab.planes * ny * nx
        if sparse is None and not backend.style.warps:
            sparse = self._sites * backend.site_seconds < backend.step_seconds or None
        self._wanted = (together, sparse, sections, lines)
        self._tall = self._whole and self._sites >= TALL_FROM if tall is None else tall
        self._reactions = reaction_tables(lattice.reactions, len(lattice.species))
        changes = backend.style.warps or (sparse is None and may_be_sparse(lattice))
        self._follows = follows and changes and self._whole and together is None
        self._density: float | None = lattice.start.density  # of the state, if it is known
        self._closest = lattice.start.crowding  # as of `LoweredLattice.crowding`, of the state
        self.filling = filling_of(lattice.start.density)
        self.stream: Stream = backend.stream()
        self._choose()
        self._make_memory(capacity or max(_LEAST_CAPACITY, self._sites // _SITES_PER_ENTRY))
        self._make_tiles()
        self.tables = LatticeTables(
            backend, lattice, self.slab, self.tile, self._reactions, closed=self._together
        )
        if self._lines:
            self._lines.types = self.types

    def _choose(self) -> None:
        """Choose how steps are done, by how full the lattice is, and compile it."""
        backend, lattice, filling = self.backend, self.lattice, self.filling
        together, sparse, sections, lines = self._wanted
        wants = self._whole and may_be_sparse(lattice, wanted=sparse)
        wants = wants and (filling < Filling.MANY if sparse is None else sparse)
        few = wants and filling == Filling.FEW
        small = self._sites <= backend.sites_together or few if together is None else together
        self._together = self._whole and small
        self._sparse = self._together and wants
        self._small = self._sparse or (self._together and backend.style.warps)
        self._rows_known = False  # which sites hold particles, on the device
        # More of a tile's sites than a warp has lanes: two warps do it, if there are enough.
        self._crowded = not few
        if sections is None:
            at_once = backend.multiprocessors * section_blocks() // self._sharing
            sections = few and backend.style.warps
            sections = sections and has_sections(lattice, self._reactions, at_once)
        self._section = SECTION if self._sparse and sections else 0
        self._lines: DeviceLines | None = None
        if self._together and backend.style.warps and not self._sparse:
            self._lines = device_lines(backend, lattice, sharing=self._sharing, wanted=lines)
        self._compile()

    def _compile(self) -> None:
        """The programs of the steps and of counting."""
        backend, lattice, lines = self.backend, self.lattice, self._lines
        small, tall = self._small, self._tall
        _, ny, nx = lattice.shape
        header = lattice_header(
            lattice, self._reactions, small=small, tall=tall, together=self._together,
            section=self._section, more=lines.plan.sizes() if lines else None,
        )  # fmt: skip
        self.header = {"model.h": header}
        self.tile = tile_of(lattice, small=small, tall=tall)
        lanes = lanes_of(lattice, small=small, tall=tall)
        self._warps, rows = lanes if backend.style.warps else (1, 1)
        self.tiles = -(-ny // self.tile.y) * -(-nx // self.tile.x)
        self.columns = -(-self.tiles * rows // self._warps)  # of a block, in a plane
        self._threads, memory = self.tile.threads, 0
        if lines:
            file, kernels = "lattice/lines/steps.cc", ("rdme_line_steps",)
            self._threads, memory = lines.plan.threads, lines.plan.bytes
        elif self._sparse:
            file, kernels = "lattice/sparse/steps.cc", ("rdme_sparse_steps",)
            if self._section:
                file, kernels = "lattice/sparse/sections.cc", ("rdme_sparse_sections",)
            self._threads = sparse_threads(lattice, self._section)
        else:
            file = "lattice/rdme.cc"
            kernels = ("rdme_xy", "rdme_z", *(("rdme_steps",) if self._together else ()))
        source = KernelSource(file, kernels, self.header, block_bytes=memory)
        self.program: Program = backend.compile(source)
        self._arguments = KeptArguments(self.program)
        self._resident = self.program.resident_blocks(kernels[-1], self._threads)
        if lines and self._resident // self._sharing < lines.blocks:
            self._lines = None
            self._compile()
            return
        self._counter: Program = backend.compile(
            KernelSource("lattice/count.cc", ("rdme_count", "rdme_filled_tiles"), self.header)
        )
        self._counting = self._counter.resident_blocks("rdme_count", self.tile.threads)

    # ---------------------------------------------------------------- memory

    def _make_memory(self, capacity: int) -> None:
        backend, lattice = self.backend, self.lattice
        _, ny, nx = lattice.shape
        shape = (self.slab.planes, ny, nx, lattice.slots)
        self.particles = backend.empty(shape, lattice.particle_type)
        self._moved = backend.empty(shape, lattice.particle_type)
        self._fired = backend.empty((max(1, len(lattice.reactions)),), np.uint64)
        self.work = backend.empty((WORK,), np.uint64)
        self._waiting = backend.empty((2, capacity, WAITING.itemsize // 8), np.uint64)
        self.capacity = capacity

    def _make_tiles(self) -> None:
        """Memory whose size is that of tiles, and of blocks."""
        backend, lattice, planes = self.backend, self.lattice, self.slab.planes
        _, ny, nx = lattice.shape
        self._stamps = backend.empty((planes, self.tiles), np.uint32)
        self._moved_stamps = backend.empty((planes, self.tiles), np.uint32)
        self._heads = backend.empty((2, planes, self.tiles), np.int32)
        bits = np.uint16 if lattice.slots <= 16 else np.uint32  # one for each slot
        self._z_moves = self._listed = self._rows = self._room = None
        if self._section:
            room = (self._section_blocks(), self._section + 2, self.tile.y * self.tile.x)
            self._room = backend.empty((*room, lattice.slots), lattice.particle_type)
            self._z_moves = backend.empty((*room, 2), bits)
            self._rows = backend.empty((2, planes, self.tiles, self.tile.y), np.uint16)
        elif self._sparse:
            self._z_moves = backend.empty((planes, ny, nx, 2), bits)
            self._rows = backend.empty((4, planes, self.tiles, self.tile.y), np.uint16)
        elif self._together and not self._lines:
            self._make_lists()

    def follow(self) -> None:
        """Choose again how steps are done, by the particles that the lattice has now.

        A few numbers decide, which are counts of the state and so the same on every device; the
        choice changes no bit.
        """
        if not self._follows:
            return
        if self._density is None:
            self.count()
        density, filling = self._density or 0.0, self.filling
        if may_be_sparse(self.lattice, wanted=self._wanted[1]):
            filling = filling_of(density, filling)
        lattice = self._crowded_by(self._closest)
        if filling == self.filling and lattice is self.lattice:
            return
        self.filling, self.lattice = filling, lattice
        waiting, counted = self.waiting(), self._since_start()
        self._choose()
        self._make_tiles()
        self.tables.cut(self.tile, closed=self._together)
        self._load_waiting(waiting, counted)
        self.mark_all()

    def _crowded_by(self, held: float) -> LoweredLattice:
        """The lattice, told that it is so full if lanes of a warp are to keep other sites then."""

        def kept(particles: float) -> tuple[int, bool]:
            told = replace(self.lattice, crowded=particles)
            return words_in_registers(told), in_lines(told)

        now = kept(self.lattice.crowding)
        near = (held / BEYOND, held, held * BEYOND)
        if not self.backend.style.warps or now in map(kept, near):
            return self.lattice
        return replace(self.lattice, crowded=held)

    def _make_lists(self) -> None:
        """What launches of many steps need beside."""
        planes, (_, ny, nx) = self.slab.planes, self.lattice.shape
        bits = np.uint16 if self.lattice.slots <= 16 else np.uint32  # one for each slot
        self._z_moves = self.backend.empty((planes, ny, nx, 2), bits)
        self._listed = self.backend.empty((6, planes, self.tiles), np.int32)

    def set_rate(self, reaction: int, rates: npt.ArrayLike) -> None:
        """Give a reaction other stochastic constants ``[site type]`` per site, from now on."""
        self.synchronize()
        self.tables.set_rate(reaction, rates)

    @property
    def together(self) -> bool:
        """Whether a launch does many steps."""
        return self._together

    @property
    def rates(self) -> Array:
        """Stochastic constants ``[reaction, site type]`` per site; `set_rate` changes them."""
        return self.tables.rates

    @property
    def types(self) -> Any:
        """Site types ``[plane, y, x]`` on the device; None where there is one."""
        return self.tables.types

    # ---------------------------------------------------------------- state

    def load_start(self) -> None:
        """Put the model's particles at t = 0 on the device."""
        lattice, slab = self.lattice, self.slab
        fired = np.zeros(len(lattice.reactions), np.int64)
        state = LatticeState(np.zeros(0), np.zeros(0, WAITING), 0, fired, 0)
        if not are_many(lattice.start, slab):
            particles = lattice.particles(slab.begin, slab.end, self.seed, self.replica)
            self.load(replace(state, particles=particles))
            self._begins_anew()
            return
        self._make_room(state)
        placing = Placing(self.backend, lattice.start, slab, self.particles[self._own], self.stream)
        placing.run(self.seed, self.replica)
        self._take_up_rest(state)
        self._begins_anew()

    def _begins_anew(self) -> None:
        """Note how full the lattice is at t = 0."""
        start = self.lattice.start
        self._density, self._closest = start.density, start.crowding

    def load(self, state: LatticeState) -> None:
        """Go on from a state; planes beside the slab are the caller's to fill."""
        self.take_up(state, self.backend.upload(np.ascontiguousarray(state.particles)))

    def take_up(self, state: LatticeState, particles: Any) -> None:
        """As `load`, with the slab's particles on the device; those of `state` are not read."""
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
        self._density = None
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
        where = self.slab.tiles_of(waiting["site"], self.lattice.shape, self.tile.y, self.tile.x)
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
        self._rows_known = False
        if self._lines:
            self._lines.forget()
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
        """As `save`, but the particles travel to the host while later steps run.

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

    def host(self, buffer: Any) -> Array:
        """A copy of device memory on the host."""
        mirror = self.backend.mirror(buffer)
        self.backend.download(buffer, mirror, len(buffer), self.stream)
        self.synchronize()
        return mirror.copy()

    # ---------------------------------------------------------------- steps

    def arguments(self) -> dict[str, Any]:
        """What every kernel of the lattice is given: `LatticeArguments`, by name."""
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

    def hop_in_planes(
        self,
        begin: int,
        end: int,
        hole: Range = NO_HOLE,
        *,
        opens: bool = True,
        stream: Stream | None = None,
    ) -> None:
        """Hops along x and y in stored planes without a hole; `opens` in one launch of a step."""
        hole = hole if hole[0] < hole[1] else (end, end)
        tiles = (end - begin - hole[1] + hole[0]) * self.tiles
        grid = LaunchGrid(-(-tiles // self._warps), self.tile.threads)
        planes = _range(begin, end, hole)
        arguments = self._arguments.of(
            "rdme_xy", lattice=self.arguments(), planes=planes, opens=opens
        )
        self.program.launch_blocks("rdme_xy", grid, arguments, stream or self.stream)

    def finish_planes(
        self, begin: int, end: int, hole: Range = NO_HOLE, *, stream: Stream | None = None
    ) -> None:
        """The rest of the step in stored planes whose neighbours' `hop_in_planes` are done."""
        hole = hole if hole[0] < hole[1] else (end, end)
        segment = self._segment(end - begin - hole[1] + hole[0])
        pieces = -(-(hole[0] - begin) // segment) - (-(end - hole[1]) // segment)
        grid = LaunchGrid(self.columns * pieces, self.tile.threads)
        planes = _range(begin, end, hole)
        arguments = self._arguments.of(
            "rdme_z", lattice=self.arguments(), planes=planes, segment=segment
        )
        self.program.launch_blocks("rdme_z", grid, arguments, stream or self.stream)

    def _segment(self, planes: int) -> int:
        """Planes of a block."""
        chosen = planes_of_a_block(planes, self.columns, self._resident, self.filled)
        return max(1, min(self.planes_each or chosen, planes))

    def run(self, steps: int) -> None:
        """Put steps on the stream. Ask `must_repeat` before the result is used."""
        for done in range(0, steps if self._together else 0, _MOST_TOGETHER):
            self._run_together(min(steps - done, _MOST_TOGETHER), [])
        for _ in range(0 if self._together else steps):
            self.hop_in_planes(0, self.slab.planes)
            self.finish_planes(0, self.slab.planes)
            self.step += 1

    def _run_together(self, steps: int, marks: Sequence[int], counts: Any = None) -> None:
        if self.step >> 31 != (self.step + steps) >> 31:  # long before a tile's stamp comes round
            self.synchronize()
            self.mark_all()
        self.backend.clear(self.work[_OF_LAUNCH], self.stream)
        if self._lines and not self._lines.update(self.types, self.particles, self.host):
            self._lines = None
            self._compile()
            self._make_lists()
            self.mark_all()
        if self._lines:
            self._run_lines(self._lines, steps)
        elif self._section:
            self._run_sections(steps, marks, counts)
        elif self._sparse:
            self._run_sparse(steps, marks, counts)
        else:
            self._run_listed(steps)
        self.step += steps

    def _run_lines(self, lines: DeviceLines, steps: int) -> None:
        """Blocks keep lines of sites."""
        arguments = self._arguments.of(
            "rdme_line_steps", lattice=self.arguments(), **lines.arguments(steps)
        )
        grid = LaunchGrid(lines.blocks, lines.plan.threads, together=True)
        self.program.launch_blocks("rdme_line_steps", grid, arguments, self.stream)

    def _run_listed(self, steps: int) -> None:
        """Blocks share out the tiles that may hold particles."""
        planes, (_, ny, nx) = self.slab.planes, self.lattice.shape
        most = max(1, planes * ny * nx // self.backend.sites_of_a_block)
        if self._sharing > 1:
            most = min(most, max(1, self._resident // self._sharing))
        grid = LaunchGrid(min(most, planes * self.tiles), self.tile.threads, together=True)
        arguments = self._arguments.of(
            "rdme_steps",
            lattice=self.arguments(),
            z_moves=self._z_moves,
            listed=self._listed,
            steps=steps,
        )
        self.program.launch_blocks("rdme_steps", grid, arguments, self.stream)

    def _run_sparse(self, steps: int, marks: Sequence[int], counts: Any) -> None:
        """Warps share out the tiles, and their lanes the sites that hold particles.

        The lattice is counted at `marks`, into the rows of `counts`.
        """
        self._marks = self.backend.upload(np.array(marks, np.int64)) if marks else None
        planes, (_, ny, nx) = self.slab.planes, self.lattice.shape
        tiles, warps = planes * self.tiles, self._threads // 32 if self.backend.style.warps else 1
        resident = max(1, self._resident // self._sharing)
        halves = self._crowded and 2 * tiles <= resident * warps
        pieces = (1 + halves) * tiles
        wanted = max(-(-pieces // warps), min(pieces, self.backend.multiprocessors))
        most = planes * ny * nx // self.backend.sites_of_a_block
        blocks = max(1, min(wanted, most, resident))
        arguments = self._arguments.of(
            "rdme_sparse_steps",
            lattice=self.arguments(),
            z_moves=self._z_moves,
            rows=self._rows,
            anew=not self._rows_known,
            parts=1 + halves,
            steps=steps,
            marks=self._marks,
            n_marks=len(marks),
            counts=counts,
            columns=counted_columns(self.lattice.sizes),
        )
        grid = LaunchGrid(blocks, self._threads, together=True)
        self.program.launch_blocks("rdme_sparse_steps", grid, arguments, self.stream)
        self._rows_known = True

    def _section_blocks(self) -> int:
        sections = -(-self.slab.planes // self._section) * self.tiles
        return min(sections, max(1, self._resident // self._sharing))

    def _run_sections(self, steps: int, marks: Sequence[int], counts: Any) -> None:
        """As `_run_sparse`, but blocks share out sections of the lattice."""
        self._marks = self.backend.upload(np.array(marks, np.int64)) if marks else None
        arguments = self._arguments.of(
            "rdme_sparse_sections",
            lattice=self.arguments(),
            sites=self._room,
            z_moves=self._z_moves,
            rows=self._rows,
            anew=not self._rows_known,
            steps=steps,
            marks=self._marks,
            n_marks=len(marks),
            counts=counts,
            columns=counted_columns(self.lattice.sizes),
        )
        grid = LaunchGrid(self._section_blocks(), self._threads, together=True)
        self.program.launch_blocks("rdme_sparse_sections", grid, arguments, self.stream)
        self._rows_known = True

    def run_sampled(self, marks: Sequence[int], steps: Steps | None = None) -> Samples:
        """Run until each of `marks` in turn, steps from now, ascending, and count there.

        Where the list of waiting particles is full, all is done again with more room. `steps` does
        them, by default the engine itself.
        """
        steps = steps or self
        if steps is self:
            self.follow()
        before = self._snapshot()
        while True:
            values = self.host(self._start_sampled(marks, steps))
            if not steps.must_repeat():
                return self._samples(values)
            self._restore(before)

    def _start_sampled(self, marks: Sequence[int], steps: Steps) -> Any:
        """Put the steps and counts of `run_sampled` on the stream; the memory of the counts."""
        rows = self.backend.empty((len(marks), counted_columns(self.lattice.sizes)), np.uint64)
        self.backend.clear(rows, self.stream)
        # The kernel counts once after a step, and not before the first.
        at_once = 0 < marks[0] <= marks[-1] <= _MOST_TOGETHER and len({*marks}) == len(marks)
        if self._sparse and steps is self and at_once:
            self._run_together(marks[-1], marks, rows)
            return rows
        done = 0
        for index, mark in enumerate(marks):
            steps.run(mark - done)
            done = mark
            self._count(rows[index])
        return rows

    def start_sampled(self, marks: Sequence[int]) -> Callable[[], Samples]:
        """As `run_sampled` of the engine alone, while others do so too: call the answer for it."""
        self.follow()
        before = self._snapshot()
        rows = self._start_sampled(marks, self)

        def finish() -> Samples:
            values = self.host(rows)
            if not self.must_repeat():
                return self._samples(values)
            self._restore(before)
            return self.run_sampled(marks)

        return finish

    def must_repeat(self) -> bool:
        """Whether the list of waiting particles was full."""
        return bool(self.host(self.work)[FULL])

    def count(self) -> Samples:
        """Count now."""
        rows = self.backend.empty((1, counted_columns(self.lattice.sizes)), np.uint64)
        self.backend.clear(rows, self.stream)
        self._count(rows[0])
        return self._samples(self.host(rows))

    def filled_tiles(self) -> IntArray:
        """How many tiles of each of the slab's own planes hold particles in slots."""
        own, (_, ny, nx) = self.particles[self._own], self.lattice.shape
        counts = self.backend.upload(np.zeros(len(own), np.uint64))
        threads = self.tile.threads
        grid = LaunchGrid(min(-(-len(own) * self.tiles // threads), self._counting), threads)
        arguments = self._counter.arguments(
            "rdme_filled_tiles", sites=own, planes=len(own), ny=ny, nx=nx, counts=counts
        )
        self._counter.launch_blocks("rdme_filled_tiles", grid, arguments, self.stream)
        return self.host(counts).astype(np.int64)

    def _count(self, row: Any) -> None:
        slab = self.slab
        _, ny, nx = self.lattice.shape
        own = np.s_[slab.below : slab.below + slab.end - slab.begin]
        sites = (slab.end - slab.begin) * ny * nx
        grid = LaunchGrid(min(-(-sites // self.tile.threads), self._counting), self.tile.threads)
        arguments = self._counter.arguments(
            "rdme_count",
            sites=self.particles[own],
            types=None if self.types is None else self.types[own],
            n_sites=sites,
            fired=self._fired,
            waiting=self._waiting,
            work=self.work,
            capacity=self.capacity,
            list=self.step & 1,
            first_site=slab.begin * ny * nx,
            counts=row,
        )
        self._counter.launch_blocks("rdme_count", grid, arguments, self.stream)

    def _samples(self, rows: Array) -> Samples:
        samples = Samples.of_rows(rows, self.lattice.sizes)
        self._density, self._closest = self._crowding(samples.by_type[-1].sum(axis=1))
        return samples

    def _crowding(self, held: IntArray) -> tuple[float, float]:
        """Particles a site, of particles ``[site type]``.

        On average where a particle is, and in the kind of site that holds most.
        """
        sites = self.lattice.site_map.per_plane.sum(axis=0)[: len(held)]
        density = held / np.maximum(sites, 1)
        return float((held * density).sum() / max(1, held.sum())), float(density.max(initial=0.0))

    # ---------------------------------------------------------------- doing a batch again

    def _snapshot(self) -> dict[str, Any]:
        copies: dict[str, Any] = {"step": self.step}
        for name in ("particles", "_fired", "_waiting", "_heads", "work"):
            buffer = getattr(self, name)
            if name not in self._kept or self._kept[name].shape != buffer.shape:
                self._kept[name] = self.backend.empty(buffer.shape, buffer.dtype)
            self.backend.copy(buffer, self._kept[name], self.stream)
            copies[name] = self._kept[name]
        return copies

    def _restore(self, before: dict[str, Any]) -> None:
        """Go back to a snapshot, with more room for waiting particles."""
        self.step = before["step"]
        for name in ("particles", "_fired", "_heads", "work"):
            self.backend.copy(before[name], getattr(self, name), self.stream)
        self.synchronize()
        if self._lines:
            self._lines.apart = False
        capacity = _GROWTH * self.capacity
        self._waiting = self.backend.empty((2, capacity, 3), np.uint64)
        kept = before["_waiting"]  # of the first try
        self._waiting[:, : kept.shape[1]] = kept
        self.capacity = capacity
        self.mark_all()


def _range(begin: int, end: int, hole: Range) -> dict[str, int]:
    """`PlaneRange` of csrc/lattice/rdme.cc."""
    return {"begin": begin, "end": end, "hole_begin": hole[0], "hole_end": hole[1]}

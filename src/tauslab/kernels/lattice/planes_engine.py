"""The engine of lattices in bit planes: memory of a slab on one device, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, IntArray
from tauslab.kernels.backends.arguments import KeptArguments
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid, Program, Stream
from tauslab.kernels.lattice.codegen import reaction_tables
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.placing import Placing, are_many
from tauslab.kernels.lattice.planes import (
    WORD,
    hop_tables,
    is_masked,
    pass_chances,
    planes_header,
    reaction_masks,
    teams_of,
    words_of,
)
from tauslab.kernels.lattice.state import (
    FULL,
    SINCE_START,
    WAITING,
    WAITING_0,
    WORK,
    LatticeState,
    Samples,
    Slab,
    chained,
    counted_columns,
    first_entries,
    in_order,
)

PLANES_OF_SLOTS = {8: 4, 16: 5, 32: 6}
_ENTRIES = ("planes_steps", "planes_pass", "planes_count", "planes_from_slots", "planes_to_slots",
            "planes_masks")  # fmt: skip
_LEAST_CAPACITY = 4096
_SITES_PER_ENTRY = 64  # room at first for waiting particles: one in this many sites
_GROWTH = 4
_ALIGNED = 32  # words of a warp, or of vectors
_SLOT_BYTES = 1 << 28  # of planes that are put into slots at a time
_KEPT = ("_stayed", "_fired", "_waiting", "_heads", "work")  # of a batch that may be repeated


def planes_program(backend: Backend, lattice: LoweredLattice) -> Program:
    """Return the kernels of a lattice in bit planes."""
    header = {"model.h": planes_header(lattice)}
    return backend.compile(KernelSource("lattice/planes/planes.cc", _ENTRIES, header))


class PlanesMemory:
    """A slab of a lattice on one device, as counts in bit planes.

    Attributes
    ----------
    rows_together
        Whether threads that go together have whole rows along x: then two passes make a step.
    step
        Of the state, and of all draws; `seed` and `replica` are the others of their address.
    capacity
        Particles that can wait for a slot before a batch of steps is done again with more room.
    rates
        Stochastic constants ``[reaction, site type]`` per site; `set_rate` changes them.
    """

    def __init__(
        self,
        backend: Backend,
        lattice: LoweredLattice,
        slab: Slab,
        *,
        seed: int,
        replica: int,
        capacity: int | None,
    ) -> None:
        self.backend, self.lattice, self.slab = backend, lattice, slab
        self.seed, self.replica, self.step = seed, replica, 0
        self.stream: Stream = backend.stream()
        self.program: Program = planes_program(backend, lattice)
        self._arguments = KeptArguments(self.program)
        self._kept: dict[str, Any] = {}
        self._frames: dict[int, tuple[Any, Array, Stream]] = {}
        self._own_planes = slab.end - slab.begin
        self.plane_words = words_of(lattice)
        self.words = self._own_planes * self.plane_words
        row = self.plane_words // lattice.shape[1]
        self.rows_together = backend.style.warp > 1 and backend.style.warp % row == 0
        self._make_memory(capacity)
        self._make_tables()

    def _make_memory(self, capacity: int | None) -> None:
        empty, species = self.backend.empty, len(self.lattice.species)
        planes = PLANES_OF_SLOTS[self.lattice.slots]
        self._stride = _aligned(self.words)
        self._moved_stride = self._stride + 2 * _aligned(self.plane_words)
        self._stayed = empty((species, planes, self._stride), np.uint32)
        self.moved = empty((2, 2, species, planes, self._moved_stride), np.uint32)
        sets = species if self.backend.style.warp > 1 else 1
        self.more = empty((2, sets, self._moved_stride), np.uint32)
        self._heads = empty((2, self._stride), np.int32)
        self._fired = empty((max(1, len(self.lattice.reactions)),), np.uint64)
        self.work = empty((WORK,), np.uint64)
        sites = self._own_planes * self.lattice.shape[1] * self.lattice.shape[2]
        self.capacity = capacity or max(_LEAST_CAPACITY, sites // _SITES_PER_ENTRY)
        self._waiting = self._room_to_wait()
        for buffer in (self.moved, self.more):
            self.backend.clear(buffer, self.stream)

    def _room_to_wait(self) -> Any:
        return self.backend.empty((2, self.capacity, WAITING.itemsize // 8), np.uint64)

    def _make_tables(self) -> None:
        backend, lattice = self.backend, self.lattice
        hops, types = hop_tables(lattice), len(lattice.site_types)
        tables = reaction_tables(lattice.reactions, len(lattice.species))
        self._hop_bits = backend.upload(hops.bits if hops.bits.size else np.zeros(1, np.uint32))
        self._reactions = backend.upload(
            tables.array if len(tables.array) else np.zeros(1, np.int32)
        )
        self.rates = np.array([r.rates for r in lattice.reactions], np.float64).reshape(-1, types)
        self._doors = self._type_sites = None
        self._use_rates()
        if not is_masked(lattice):
            return
        classes = len(hops.bits)
        doors = backend.empty((max(1, 6 * classes), self._stride), np.uint32)
        type_sites = backend.empty((types, self._stride), np.uint32) if types > 1 else None
        stored = None if types == 1 else backend.upload(self._stored_types())
        self._launch(
            "planes_masks", types=stored, types_below=self.slab.below,
            class_of=backend.upload(hops.class_of), doors=doors, type_sites=type_sites,
        )  # fmt: skip
        self.synchronize()
        self._doors, self._type_sites = doors, type_sites

    def _stored_types(self) -> Array:
        """Site types of the slab's planes and of those beside it."""
        nz, slab, sites = self.lattice.shape[0], self.slab, self.lattice.sites
        around = [z % nz for z in range(slab.begin - slab.below, slab.begin)]
        beyond = [z % nz for z in range(slab.end, slab.end + slab.above)]
        parts = [*(sites(z, z + 1) for z in around), sites(slab.begin, slab.end),
                 *(sites(z, z + 1) for z in beyond)]  # fmt: skip
        return np.ascontiguousarray(np.concatenate(parts))

    def _use_rates(self) -> None:
        chance = pass_chances(self.lattice, self.rates)
        masks, upload = reaction_masks(self.lattice, chance), self.backend.upload
        self._chances = upload(chance if chance.size else np.zeros(1))
        self._cause_types = upload(masks.cause_types if masks.cause_types.size
                                   else np.zeros(1, np.uint32))  # fmt: skip
        self._thinned, self._thinning = upload(masks.thinned), upload(masks.thinning)

    def set_rate(self, reaction: int, rates: npt.ArrayLike) -> None:
        """Give a reaction other stochastic constants ``[site type]`` per site, from now on."""
        self.synchronize()
        self.rates[reaction] = rates
        self._use_rates()

    def arguments(self) -> dict[str, Any]:
        """Return `PlaneArguments` of csrc/lattice/planes/planes.h, by name."""
        slab, (nz, ny, nx) = self.slab, self.lattice.shape
        whole = not (slab.below or slab.above)
        return {
            "stayed": self._stayed,
            "moved": self.moved,
            "more": self.more,
            "doors": self._doors,
            "type_sites": self._type_sites,
            "hop_bits": self._hop_bits,
            "tables": self._reactions,
            "chances": self._chances,
            "cause_types": self._cause_types,
            "thinned": self._thinned,
            "thinning": self._thinning,
            "fired": self._fired,
            "waiting": self._waiting,
            "heads": self._heads,
            "work": self.work,
            "capacity": self.capacity,
            "nx": nx,
            "ny": ny,
            "nz": nz,
            "words": self.words,
            "stride": self._stride,
            "moved_stride": self._moved_stride,
            "planes": self._own_planes,
            "first_plane": slab.begin,
            "below": slab.below,
            "above": slab.above,
            "wraps": whole and self.lattice.boundary[0] == "periodic",
            "rows_together": self.rows_together,
            "seed": self.seed,
            "step": self.step,
            "replica": self.replica,
        }

    def _launch(self, entry: str, items: int | None = None, **values: Any) -> None:
        """Launch a kernel with an item for each word."""
        arguments = self.program.arguments(entry, lattice=self.arguments(), **values)
        self.program.launch(entry, items or self.words, arguments, self.stream)

    # ---------------------------------------------------------------- states

    def load_start(self) -> None:
        """Put the model's particles at t = 0 on the device."""
        lattice, slab, start = self.lattice, self.slab, self.lattice.start
        self._empty()
        for begin, end in self._parts():
            part = Slab(slab.begin + begin, slab.begin + end)
            if are_many(start, part):
                slots = self._slots_of(end - begin)
                self.backend.clear(slots, self.stream)
                placing = Placing(self.backend, start, part, slots, self.stream)
                placing.run(self.seed, self.replica)
            else:
                placed = lattice.particles(part.begin, part.end, self.seed, self.replica)
                slots = self.backend.upload(np.ascontiguousarray(placed))
            self._convert("planes_from_slots", slots, begin)
        fired = np.zeros(len(lattice.reactions), np.int64)
        self._take_up_rest(LatticeState(np.zeros(0), np.zeros(0, WAITING), 0, fired, 0))

    def load(self, state: LatticeState) -> None:
        """Go on from a state of the slab's own planes."""
        self._empty()
        for begin, end in self._parts():
            slots = self.backend.upload(np.ascontiguousarray(state.particles[begin:end]))
            self._convert("planes_from_slots", slots, begin)
        self._take_up_rest(state)

    def _empty(self) -> None:
        self.synchronize()
        self.backend.clear(self._stayed, self.stream)

    def _parts(self) -> list[tuple[int, int]]:
        """Own planes of which the slots are made at a time."""
        _, ny, nx = self.lattice.shape
        each = max(1, _SLOT_BYTES // (ny * nx * self.lattice.slots))
        ends = [*range(each, self._own_planes, each), self._own_planes]
        return list(zip([0, *ends[:-1]], ends, strict=True))

    def _slots_of(self, planes: int) -> Any:
        _, ny, nx = self.lattice.shape
        return self.backend.empty((planes, ny, nx, self.lattice.slots), np.uint8)

    def _convert(self, entry: str, slots: Any, begin: int) -> None:
        """Put own planes from `begin` on into slots, or the other way, and wait for it."""
        words = len(slots) * self.plane_words
        self._launch(entry, words, slots=slots, first=begin * self.plane_words, words=words)
        self.synchronize()

    def _take_up_rest(self, state: LatticeState) -> None:
        self.step = state.step
        fired = np.zeros(self._fired.shape, np.uint64)
        fired[: len(state.fired)] = state.fired
        self._fired[...] = self.backend.upload(fired)
        while self.capacity < 2 * len(state.waiting):
            self.capacity *= _GROWTH
            self._waiting = self._room_to_wait()
        work, current = np.zeros(WORK, np.uint64), self.step & 1
        work[WAITING_0 + current] = len(state.waiting)
        for name, count in state.since_start.items():
            work[SINCE_START[name]] = count
        heads = np.full(self._heads.shape, -1, np.int32)
        entries, words = chained(state.waiting, self._words_of(state.waiting["site"]))
        heads[current, words] = first_entries(entries, words)
        upload = self.backend.upload
        self._heads[...], self.work[...] = upload(heads), upload(work)
        if len(entries):
            self._waiting[current, : len(entries)] = upload(entries.view(np.uint64).reshape(-1, 3))
        self.wait_for_arrays()

    def _words_of(self, sites: Array) -> IntArray:
        """Own words of numbered sites of the lattice."""
        z, y, x = np.unravel_index(sites.astype(np.int64), self.lattice.shape)
        row = -(-self.lattice.shape[2] // WORD)
        return np.asarray((z - self.slab.begin) * self.plane_words + y * row + x // WORD)

    def save(self) -> LatticeState:
        """Return the state on the host."""
        slots = self._slots_of(self._own_planes)
        self._convert("planes_to_slots", slots, 0)
        return replace(self._rest(), particles=self.host(slots))

    def _rest(self) -> LatticeState:
        """Return the state without particles in sites."""
        self.synchronize()
        fired = self.host(self._fired)[: len(self.lattice.reactions)].astype(np.int64)
        counted = self.host(self.work)[[*SINCE_START.values()]].tolist()
        none = np.zeros((0, 0, 0, 0), np.uint8)
        since = dict(zip(SINCE_START, counted, strict=True))
        return LatticeState(none, self.waiting(), self.step, fired, **since)

    def save_later(self, place: int) -> Callable[[], LatticeState]:
        """As `save`, but the particles travel to the host while later steps run.

        Returns what waits for them and gives the state, to be called by any thread. Its particles
        lie in buffers of `place` (0, 1, ...), which the next call with that place uses again.
        """
        backend = self.backend
        if place not in self._frames:
            slots = self._slots_of(self._own_planes)
            self._frames[place] = (slots, backend.mirror(slots), backend.stream())
        slots, mirror, copies = self._frames[place]
        self._convert("planes_to_slots", slots, 0)
        copies.wait_for(self.stream.record())
        backend.download(slots, mirror, len(slots), copies)
        arrived, rest = copies.record(), self._rest()

        def state() -> LatticeState:
            backend.use()
            arrived.wait()
            return replace(rest, particles=mirror)

        return state

    def waiting(self) -> Array:
        """Return the particles that wait for a slot, ordered by site and age."""
        self.synchronize()
        current = self.step & 1
        held = int(self.host(self.work)[WAITING_0 + current])
        if held == 0:
            return np.zeros(0, WAITING)
        words = np.ascontiguousarray(self.host(self._waiting[current, :held]))
        sites = self.lattice.shape[1] * self.lattice.shape[2]
        entries = words.view(WAITING).reshape(-1)
        return in_order(entries, self.slab.begin * sites, self.slab.end * sites)

    def wait_for_arrays(self) -> None:
        """Wait for array operations from outside: CuPy runs them on a stream of its own."""
        self.backend.upload(np.zeros(1))

    def synchronize(self) -> None:
        """Wait until all steps that were asked for are done."""
        self.stream.record().wait()

    def host(self, buffer: Any) -> Array:
        """Return a copy of device memory on the host."""
        mirror = self.backend.mirror(buffer)
        self.backend.download(buffer, mirror, len(buffer), self.stream)
        self.synchronize()
        return mirror.copy()

    def snapshot(self) -> dict[str, Any]:
        """Keep what a batch that is done again begins with."""
        for name in _KEPT:
            buffer = getattr(self, name)
            if name not in self._kept or self._kept[name].shape != buffer.shape:
                self._kept[name] = self.backend.empty(buffer.shape, buffer.dtype)
            self.backend.copy(buffer, self._kept[name], self.stream)
        return {"step": self.step, **{name: self._kept[name] for name in _KEPT}}

    def restore(self, before: dict[str, Any]) -> None:
        """Go back to a snapshot, with more room for waiting particles."""
        self.step = before["step"]
        for name in set(_KEPT) - {"_waiting"}:
            self.backend.copy(before[name], getattr(self, name), self.stream)
        self.synchronize()
        self.capacity *= _GROWTH
        kept = before["_waiting"]  # of the first try
        self._waiting = self._room_to_wait()
        self._waiting[:, : kept.shape[1]] = kept
        self.wait_for_arrays()


class PlanesEngine(PlanesMemory):
    """A slab of a lattice on one device, in bit planes, and its steps.

    Parameters
    ----------
    seed, replica
        With the number of the step, the address of all draws.
    slab
        By default the whole lattice.
    capacity
        Particles that can wait for a slot before a batch of steps is done again with more room.
    sharing
        How many engines take steps at the same time, each on its share of the device.
    """

    def __init__(
        self,
        backend: Backend,
        lattice: LoweredLattice,
        *,
        seed: int,
        replica: int = 0,
        slab: Slab | None = None,
        capacity: int | None = None,
        sharing: int = 1,
    ) -> None:
        slab = slab or Slab(0, lattice.shape[0])
        super().__init__(backend, lattice, slab, seed=seed, replica=replica, capacity=capacity)
        self.threads, each = 1, max(1, backend.sites_of_a_block // WORD)
        if backend.style.warp > 1:
            teams = teams_of(lattice)
            self.threads, each = WORD * len(lattice.species) * teams, WORD * teams
        resident = self.program.resident_blocks("planes_steps", self.threads)
        self.blocks = max(1, min(resident // sharing, -(-self.words // each)))

    def run(self, steps: int) -> None:
        """Put steps on the stream. Ask `must_repeat` before the result is used."""
        self._run(steps, ())

    def _run(self, steps: int, marks: Sequence[int], rows: Any = None) -> None:
        """Put steps on the stream, and counts after `marks` of them."""
        if steps <= 0:
            return
        self.backend.clear(self.work[7:8], self.stream)  # the cell of barriers
        self._marks = self.backend.upload(np.array(marks, np.int64)) if len(marks) else None
        self._start(
            "planes_steps", steps=steps, marks=self._marks, n_marks=len(marks), counts=rows,
            columns=counted_columns(self.lattice.sizes),
        )  # fmt: skip
        self.step += steps

    def _start(self, entry: str, **values: Any) -> None:
        arguments = self._arguments.of(entry, lattice=self.arguments(), **values)
        grid = LaunchGrid(self.blocks, self.threads, together=entry == "planes_steps")
        self.program.launch_blocks(entry, grid, arguments, self.stream)

    def start_pass(self, arrives: int, departs: int, buffer: int) -> None:
        """Put a pass on the stream: see `Pass` of csrc/lattice/planes/planes.cc; -1: no axis."""
        self._start("planes_pass", arrives=arrives, departs=departs, buffer=buffer)

    def run_sampled(self, marks: Sequence[int], steps: Any = None) -> Samples:
        """Run until each of `marks` in turn, steps from now, ascending, and count there.

        Where the list of waiting particles is full, all is done again with more room. `steps` does
        them, by default the engine itself.
        """
        steps = steps or self
        before = self.snapshot()
        while True:
            values = self.host(self._start_sampled(marks, steps))
            if not steps.must_repeat():
                return Samples.of_rows(values, self.lattice.sizes)
            self.restore(before)

    def _start_sampled(self, marks: Sequence[int], steps: Any) -> Any:
        """Put the steps and counts of `run_sampled` on the stream; return the counts' memory."""
        rows = self.backend.empty((len(marks), counted_columns(self.lattice.sizes)), np.uint64)
        self.backend.clear(rows, self.stream)
        if steps is self and marks[0] > 0 and len({*marks}) == len(marks):
            self._run(marks[-1], marks, rows)
            return rows
        done = 0
        for index, mark in enumerate(marks):
            steps.run(mark - done)
            done = mark
            self._start("planes_count", counts=rows[index], filled=None)
        return rows

    def start_sampled(self, marks: Sequence[int]) -> Callable[[], Samples]:
        """As `run_sampled` of the engine alone, while others do so too: call the answer for it."""
        before = self.snapshot()
        rows = self._start_sampled(marks, self)

        def finish() -> Samples:
            values = self.host(rows)
            if not self.must_repeat():
                return Samples.of_rows(values, self.lattice.sizes)
            self.restore(before)
            return self.run_sampled(marks)

        return finish

    def must_repeat(self) -> bool:
        """Return whether the list of waiting particles was full."""
        return bool(self.host(self.work)[FULL])

    def count(self) -> Samples:
        """Count now."""
        return self._count(None)

    def filled_words(self) -> IntArray:
        """Return how many words of each own plane hold particles."""
        filled = self.backend.upload(np.zeros(self._own_planes, np.uint64))
        self._count(filled)
        return self.host(filled).astype(np.int64)

    def _count(self, filled: Any) -> Samples:
        rows = self.backend.empty((1, counted_columns(self.lattice.sizes)), np.uint64)
        self.backend.clear(rows, self.stream)
        self._start("planes_count", counts=rows[0], filled=filled)
        return Samples.of_rows(self.host(rows), self.lattice.sizes)


def _aligned(words: int) -> int:
    return -(-words // _ALIGNED) * _ALIGNED

"""The engine of lattices in bit planes: memory of a slab on one device, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, DeviceArray, FloatArray, IntArray
from tauslab.kernels.backends.arguments import Arguments, KeptArguments
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid, Program
from tauslab.kernels.lattice.codegen import reaction_tables
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.placing import Placing, are_many, planes_at_once
from tauslab.kernels.lattice.planes import (
    PLANES_OF_SLOTS,
    WORD,
    bytes_of_site,
    ghost_thresholds,
    hop_tables,
    is_masked,
    pass_chances,
    planes_header,
    planes_in_slots,
    rate_tables,
    teams_of,
    words_of,
)
from tauslab.kernels.lattice.planes_changing import PlanesChanging
from tauslab.kernels.lattice.rates import RateBounds, RateJudge
from tauslab.kernels.lattice.slab_memory import SlabMemory
from tauslab.kernels.lattice.state import (
    WAITING,
    LatticeState,
    Samples,
    Slab,
    counted_columns,
)

_ENTRIES = ("planes_steps", "planes_pass", "planes_wait", "planes_count", "planes_from_slots",
            "planes_to_slots", "planes_masks")  # fmt: skip
_NO_EDGES: dict[str, Any] = {
    **dict.fromkeys(("to_below", "to_above", "from_below", "from_above", "below_signal",
                     "above_signal", "from_below_signal", "from_above_signal", "counter")),
    "apart": 0, "number": 0,
}  # fmt: skip
_ALIGNED = 32  # words of a warp, or of vectors
_MOST_ENGINES = 64  # of a launch
_MOST_WATCHED = 1024  # words of a plane: in larger ones all blocks wait for each other


def planes_program(
    backend: Backend, lattice: LoweredLattice, *, cut: bool = False, sharing: int = 1
) -> Program:
    """Return the kernels of a lattice in bit planes, of its slabs, or of some at the same time."""
    lattices = sharing if backend.style.warp > 1 else 1
    header = {"model.h": planes_header(lattice, cut=cut, lattices=lattices)}
    return backend.compile(KernelSource("lattice/planes/planes.cc", _ENTRIES, header))


class PlanesMemory(SlabMemory):
    """A slab of a lattice on one device, as counts in bit planes.

    Attributes
    ----------
    axes_together
        Along how many axes threads that go together have whole lines: with x two passes make a
        step; with x and y one does, as long as no particle waits.
    may_wait
        Whether particles may wait for a slot. Where the launches of a GPU are faster without, a
        batch of steps in which one has to wait is done again, and from then on they may.
    """

    SLOTS_APART = True
    KEPT = ("_stayed", "_fired", "_heads", "work")

    def __init__(
        self,
        backend: Backend,
        lattice: LoweredLattice,
        slab: Slab,
        *,
        seed: int,
        replica: int,
        capacity: int | None,
        sharing: int,
    ) -> None:
        self._own_planes = slab.end - slab.begin
        sites = self._own_planes * lattice.shape[1] * lattice.shape[2]
        super().__init__(
            backend, lattice, slab, seed=seed, replica=replica, capacity=capacity, sites=sites
        )
        cut = bool(slab.below or slab.above)
        self.program: Program = planes_program(backend, lattice, cut=cut, sharing=sharing)
        self._arguments = KeptArguments(self.program)
        self.plane_words = words_of(lattice)
        self.words = self._own_planes * self.plane_words
        warp, whole, self.sharing = backend.style.warp, not cut, sharing
        self._row = self.plane_words // lattice.shape[1]
        lines = (self._row, self.plane_words)[: 1 + whole]
        self.axes_together = sum(warp % words == 0 for words in lines) if warp > 1 else 0
        self._teams = teams_of(lattice, sharing)
        self._teamed = warp > 1 and self._teams.warps > 1
        few = self.plane_words <= _MOST_WATCHED
        self.may_wait = not (self._teamed and whole and few) and self.axes_together < 2
        self._make_memory()
        self._make_tables()

    def _make_memory(self) -> None:
        empty, species = self.backend.empty, len(self.lattice.species)
        planes = PLANES_OF_SLOTS[self.lattice.slots]
        sets = species if self._teamed else 1
        buffers = 4 if self._teamed and not (self.slab.below or self.slab.above) else 2
        self._stride = _aligned(self.words)
        self._moved_stride = self._stride + 2 * _aligned(self.plane_words)
        self._stayed = empty((species, planes, self._stride), np.uint32)
        self.moved = empty((buffers, 2, species, planes, self._moved_stride), np.uint32)
        self.more = empty((buffers, sets, self._moved_stride), np.uint32)
        self._heads = empty((2, self._stride), np.int32)
        for buffer in (self._stayed, self.moved, self.more):
            self.backend.clear(buffer, self.stream)

    def room(self, moving: int, lists: int) -> dict[str, Any]:
        """Memory for other lattices: for so many that move at the same time, and their lists."""
        result = {
            name: self.backend.empty((moving, *buffer.shape), buffer.dtype)
            for name, buffer in (("moved", self.moved), ("more", self.more))
        }
        for buffer in result.values():  # words after the last hold no particle
            self.backend.clear(buffer, self.stream)
        return result | {"heads": self.backend.empty((lists, *self._heads.shape), np.int32)}

    def _make_tables(self) -> None:
        backend, lattice = self.backend, self.lattice
        hops, types = hop_tables(lattice), len(lattice.site_types)
        tables = reaction_tables(lattice.reactions, len(lattice.species))
        self._hop_bits = backend.upload(hops.bits if hops.bits.size else np.zeros(1, np.uint32))
        self._reactions = backend.upload(
            tables.array if len(tables.array) else np.zeros(1, np.int32)
        )
        self._rates = np.array([r.rates for r in lattice.reactions], np.float64).reshape(-1, types)
        self._ghost_rows: Any = None
        self._ghost_bits: Any = None
        if "held" in lattice.boundary:
            ghosts = ghost_thresholds(lattice)
            self._ghost_rows = backend.upload(ghosts.rows)
            self._ghost_bits = backend.upload(
                ghosts.bits if ghosts.bits.size else np.zeros((1, 64), np.uint32)
            )
        self._doors: Any = None
        self._type_sites: Any = None
        self._types: Any = None
        self._use_rates()
        if is_masked(lattice):
            classes = max(1, 6 * len(hops.bits))
            self._class_of = backend.upload(hops.class_of)
            self._doors = backend.empty((classes, self._stride), np.uint32)
            if types > 1:
                self._type_sites = backend.empty((types, self._stride), np.uint32)
            self._make_masks(None if types == 1 else backend.upload(self._stored_types()))

    def _make_masks(self, types: DeviceArray | None) -> None:
        """Find the sites of each type, and where particles can hop."""
        self._launch(
            "planes_masks", types=types, types_below=self.slab.below, class_of=self._class_of,
            doors=self._doors, type_sites=self._type_sites,
        )  # fmt: skip
        self.synchronize()

    @property
    def types(self) -> Any:
        """As of `SlabMemory`; made when they are first asked for."""
        if self._types is None and self._type_sites is not None:
            self._types = self.backend.upload(self._stored_types())
        return self._types

    def set_types(self, types: DeviceArray) -> None:
        """As of `SlabMemory`."""
        self.synchronize()
        self._types = types
        self._make_masks(self._types)

    def _stored_types(self) -> Array:
        """Site types of the slab's planes and of those beside it."""
        nz, slab, sites = self.lattice.shape[0], self.slab, self.lattice.sites
        around = [z % nz for z in range(slab.begin - slab.below, slab.begin)]
        beyond = [z % nz for z in range(slab.end, slab.end + slab.above)]
        parts = [*(sites(z, z + 1) for z in around), sites(slab.begin, slab.end),
                 *(sites(z, z + 1) for z in beyond)]  # fmt: skip
        return np.ascontiguousarray(np.concatenate(parts))

    def _use_rates(self) -> None:
        tables = rate_tables(self.lattice, self._rates)
        self._rate_tables = {name: self.backend.upload(table) for name, table in tables.items()}

    @property
    def rates(self) -> FloatArray:
        """Stochastic constants ``[reaction, site type]`` per site; `set_rates` changes them."""
        return self._rates

    def set_rates(self, reactions: IntArray, rates: FloatArray) -> str | None:
        """As of `SlabMemory`."""
        self.synchronize()
        self._rates[reactions] = rates
        self._use_rates()
        groups, sums = self._bounds.update(pass_chances(self.lattice, self._rates), reactions)
        totals = sums * (self.lattice.diffusion_substeps / self.lattice.step)
        return self._judge.sentence(self._rates, reactions, groups, totals)

    @cached_property
    def _bounds(self) -> RateBounds:
        bounds = RateBounds(self.lattice)
        bounds.update(pass_chances(self.lattice, self._rates))
        return bounds

    @cached_property
    def _judge(self) -> RateJudge:
        return RateJudge(self.lattice, self._bounds.groups)

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
            "ghost_rows": self._ghost_rows,
            "ghost_bits": self._ghost_bits,
            "tables": self._reactions,
            **self._rate_tables,
            "fired": self._fired,
            "waiting": self._waiting,
            "heads": self._heads,
            "work": self.work,
            "capacity": self.capacity,
            "nx": nx,
            "ny": ny,
            "nz": nz,
            "row": self._row,
            "plane": self.plane_words,
            "by_row": _divisor(self._row),
            "by_ny": _divisor(ny),
            "words": self.words,
            "stride": self._stride,
            "moved_stride": self._moved_stride,
            "planes": self._own_planes,
            "first_plane": slab.begin,
            "below": slab.below,
            "above": slab.above,
            "wraps": whole and self.lattice.boundary[0] == "periodic",
            "axes_together": self.axes_together,
            "may_wait": self.may_wait,
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
        self.place(self.lattice, self.seed, self.replica)
        fired = np.zeros(len(self.lattice.reactions), np.int64)
        self._take_up_rest(LatticeState(np.zeros(0), np.zeros(0, WAITING), 0, fired, 0))

    def place(self, lattice: LoweredLattice, seed: int, replica: int) -> None:
        """Make the content the particles at t = 0 of a model, which may have other numbers."""
        slab, start = self.slab, lattice.start
        self._empty()
        for begin, end in self._parts(planes_at_once(lattice, self._own_planes)):
            part = Slab(slab.begin + begin, slab.begin + end)
            if are_many(start, part):
                into = self._from_site(begin * lattice.shape[1] * lattice.shape[2])
                Placing(self.backend, start, part, into, self.stream).run(seed, replica)
                continue
            placed = lattice.particles(part.begin, part.end, seed, replica)
            slots = self.backend.upload(np.ascontiguousarray(placed))
            self._convert("planes_from_slots", slots, begin)

    def load(self, state: LatticeState) -> None:
        """Go on from a state of the slab's own planes."""
        self._empty()
        for begin, end in self._parts(planes_in_slots(self.lattice)):
            slots = self.backend.upload(np.ascontiguousarray(state.particles[begin:end]))
            self._convert("planes_from_slots", slots, begin)
        self._take_up_rest(state)

    def take_up(self, state: LatticeState, content: DeviceArray) -> None:
        """As of `SlabMemory`."""
        self.synchronize()
        self.backend.copy(content, self._stayed, self.stream)
        self._take_up_rest(state)

    def _empty(self) -> None:
        self.synchronize()
        self.backend.clear(self._stayed, self.stream)

    def _from_site(self, first: int) -> dict[str, Any]:
        """Counts of sites from one on, as a target of `Placing`; `place_in_planes` says where."""
        planes = PLANES_OF_SLOTS[self.lattice.slots]
        warp = self.backend.style.warp > 1
        return {
            "planes": self._stayed, "each": planes, "nx": self.lattice.shape[2], "first": first,
            "apart": WORD if warp else self._stride,
            "more": warp * WORD * (len(self.lattice.species) * planes - 1),
        }  # fmt: skip

    def _parts(self, each: int) -> list[tuple[int, int]]:
        """Own planes, so many at a time."""
        ends = [*range(each, self._own_planes, each), self._own_planes]
        return list(zip([0, *ends[:-1]], ends, strict=True))

    def _convert(self, entry: str, slots: Any, begin: int) -> None:
        """Put own planes from `begin` on into slots, or the other way, and wait for it."""
        words = len(slots) * self.plane_words
        self._launch(entry, words, slots=slots, first=begin * self.plane_words, words=words)
        self.synchronize()

    def _load_waiting(self, waiting: Array, counted: Mapping[str, int]) -> None:
        if len(waiting):
            self.let_wait()
        super()._load_waiting(waiting, counted)

    def restore(self, before: dict[str, Any]) -> None:
        """As of `SlabMemory`: some particles have to wait."""
        self.let_wait()
        super().restore(before)

    def let_wait(self) -> None:
        """Let particles wait for a slot from now on."""
        self.may_wait, self.axes_together = True, min(1, self.axes_together)

    def lists_of(self, sites: Array) -> IntArray:
        """As of `SlabMemory`."""
        z, y, x = np.unravel_index(sites.astype(np.int64), self.lattice.shape)
        return np.asarray((z - self.slab.begin) * self.plane_words + y * self._row + x // WORD)

    # ---------------------------------------------------------------- changes between two steps

    @cached_property
    def changing(self) -> PlanesChanging:
        """Kernels that change counts."""
        return PlanesChanging(self.backend, self.lattice, self.stream, self.arguments)

    @property
    def content(self) -> DeviceArray:
        """Counts, as csrc/lattice/planes/planes.h has them."""
        own: DeviceArray = self._stayed
        return own

    def in_slots(self, buffer: DeviceArray | None = None) -> DeviceArray:
        """As of `SlabMemory`: the particles of a site by species."""
        slots = self._empty_slots(self._own_planes) if buffer is None else buffer
        self._convert("planes_to_slots", slots, 0)
        return slots

    def from_slots(self, cells: DeviceArray) -> None:
        """As of `SlabMemory`."""
        self._convert("planes_from_slots", cells, 0)

    def others_from_slots(self, cells: DeviceArray, contents: Sequence[DeviceArray]) -> None:
        """Do so for other lattices ``[lattice, z, y, x, slot]``, whose `contents` are 0."""
        entry, kept, lattice = "planes_from_slots", KeptArguments(self.program), self.arguments()
        for row, content in enumerate(contents):
            own = lattice | {"stayed": content}
            arguments = kept.of(entry, lattice=own, slots=cells[row], first=0, words=self.words)
            self.program.launch(entry, self.words, arguments, self.stream)
        self.synchronize()


def planes_at_a_time(
    backend: Backend, lattice: LoweredLattice, runs: int, limit: int = _MOST_ENGINES
) -> int:
    """Return how many of `runs` lattices gain speed beside each other, and fit: at most `limit`.

    On a CPU each has a thread. On a GPU they have about as many words as its threads.
    """
    words, most = words_of(lattice) * lattice.shape[0], backend.concurrent_lattices
    if backend.style.warp > 1:
        teams = teams_of(lattice, 1 << 30)
        blocks = backend.multiprocessors * teams.blocks
        most = min(limit, blocks, -(-blocks * teams.threads // words))
    fit = backend.free_memory() // (2 * bytes_of_site(lattice) * WORD * words)
    most = max(1, min(runs, most, fit))
    return -(-runs // -(-runs // most))


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
        super().__init__(
            backend, lattice, slab, seed=seed, replica=replica, capacity=capacity, sharing=sharing
        )
        self.threads, each = 1, max(1, backend.sites_of_a_block // WORD)
        if backend.style.warp > 1:
            self.threads, each = self._teams.threads, WORD * self._teams.number
        self._most_blocks = -(-self.words // each)
        self.blocks = self._blocks_of_each(sharing)
        self._chunk = -(-self.plane_words // WORD)
        self._chunks = max(1, self.words // (WORD * self._chunk))
        cells = -(-self.words // WORD) if self._teamed else self._chunks + 4
        self._progress = backend.empty((cells,), np.uint32)

    def run(self, steps: int) -> None:
        """Put steps on the stream. Ask `must_repeat` before the result is used."""
        if steps > 0:
            self._run(steps, (), None)

    def _counts_while(self, steps: int) -> bool:  # noqa: ARG002 - as every engine
        return True

    def _run_counting(self, marks: Sequence[int], rows: DeviceArray) -> None:
        self._run(marks[-1], marks, rows)

    def _run(
        self,
        steps: int,
        marks: Sequence[int],
        rows: DeviceArray | None,
        edges: Mapping[str, Any] = _NO_EDGES,
    ) -> None:
        arguments = self._of_steps(steps, marks, rows, edges)
        self._launch_steps(arguments, self._structs([arguments]) if self.sharing > 1 else None)

    def _of_steps(
        self, steps: int, marks: Sequence[int], rows: DeviceArray | None, edges: Mapping[str, Any]
    ) -> Arguments:
        """Arguments of the kernel of steps, good until the next call; the steps count as made."""
        self.backend.clear(self.work[7:9], self.stream)  # the cell of barriers, and words taken
        self._marks = self.backend.upload(np.array(marks, np.int64), self.stream)
        self.backend.clear(self._progress, self.stream)
        arguments = self._arguments.of(
            "planes_steps", lattice=self.arguments(), steps=steps, marks=self._marks,
            n_marks=len(marks), counts=rows, columns=counted_columns(self.lattice.sizes),
            progress=self._progress, chunks=self._chunks, chunk=self._chunk,
            by_chunk=_divisor(self._chunk), edges={**_NO_EDGES, **edges}, beside=None,
            lattices=1,
        )  # fmt: skip
        self.step += steps
        return arguments

    def _blocks_of_each(self, lattices: int) -> int:
        """Blocks of each of some lattices that share the device."""
        resident = self.program.resident_blocks("planes_steps", self.threads)
        return max(1, min(resident // lattices, self._most_blocks))

    def _structs(self, several: Sequence[Arguments]) -> DeviceArray:
        """Arguments of several lattices ``[lattice, word]``, on the device."""
        packed = np.frombuffer(b"".join([each.packed() for each in several]), np.uint64)
        self._beside = self.backend.upload(packed.reshape(len(several), -1), self.stream)
        return self._beside

    def _launch_steps(self, arguments: Arguments, several: DeviceArray | None) -> None:
        """Launch steps of this lattice, or of several, by the arguments of each."""
        blocks = self.blocks
        if several is not None:
            blocks = self._blocks_of_each(len(several)) * len(several)
            arguments.set(beside=several, lattices=len(several))
        grid = LaunchGrid(blocks, self.threads, together=True)
        self.program.launch_blocks("planes_steps", grid, arguments, self.stream)

    def start_rows(
        self, marks: Sequence[int], counts: DeviceArray, most: int, own: Mapping[str, Any]
    ) -> None:
        """Put steps of many lattices on the stream, at most so many at the same time.

        Parameters
        ----------
        counts
            u64 ``[lattice, mark, column]``, of 0.
        own
            Fields of `PlaneArguments` that differ, as `Arguments.packed_rows` takes them. Lattices
            that move at the same time have rows of their own of `moved` and `more`.
        """
        n, backend = len(counts), self.backend
        progress = backend.empty((n, *self._progress.shape), np.uint32)
        backend.clear(progress, self.stream)
        arguments = self._of_steps(marks[-1], marks, counts, _NO_EDGES)
        rows = {f"lattice.{name}": value for name, value in own.items()}
        rows |= {"counts": counts, "progress": progress}
        self._beside = backend.upload(arguments.packed_rows(n, rows), self.stream)
        self._rows_beside = progress  # which live as long
        # A kernel that replaces the first one may have room for fewer blocks, but for these.
        fit = self.program.resident_blocks("planes_steps", self.threads)
        most = min(most, fit, backend.multiprocessors * self._teams.blocks)
        for begin in range(0, n, most):
            self._launch_steps(arguments, self._beside[begin : begin + most])

    def start_beside(
        self, others: Sequence[Any], marks: Sequence[int]
    ) -> list[Callable[[], Samples]]:
        """As of `SlabMemory`, in one launch, of no more engines than share the device."""
        engines = (self, *others)
        if any(each.may_wait for each in engines):
            for each in engines:
                each.let_wait()
        prepared = [each.prepare(marks) for each in engines]
        for each in others:
            self.stream.wait_for(each.stream.record())
        self._launch_steps(prepared[0][0], self._structs([each for each, _ in prepared]))
        done = self.stream.record()
        for each in others:
            each.stream.wait_for(done)
        return [finish for _, finish in prepared]

    def prepare(self, marks: Sequence[int]) -> tuple[Arguments, Callable[[], Samples]]:
        """Prepare `run_sampled`: arguments of its launch, and what waits for its end."""
        before, rows = self.snapshot(), self._rows(len(marks))
        arguments = self._of_steps(marks[-1], marks, rows, _NO_EDGES)
        return arguments, partial(self._finish, marks, rows, before)

    def _start(self, entry: str, **values: Any) -> None:
        arguments = self._arguments.of(entry, lattice=self.arguments(), **values)
        grid = LaunchGrid(self.blocks, self.threads)
        self.program.launch_blocks(entry, grid, arguments, self.stream)

    def start_pass(self, arrives: int, departs: int, buffer: int, **edges: Any) -> None:
        """Put a pass on the stream: see `Pass` of csrc/lattice/planes/planes.cc; -1: no axis.

        `edges` are fields of `Edges` there, by default none.
        """
        self._start("planes_pass", arrives=arrives, departs=departs, buffer=buffer,
                    edges=_NO_EDGES | edges)  # fmt: skip

    def start_steps(self, steps: int, **edges: Any) -> None:
        """Put steps of a slab on the stream, whose `edges` kernels of neighbours reach."""
        self._run(steps, (), None, edges)

    def start_wait(self, number: int, signals: Sequence[Any]) -> None:
        """Let later work on the stream start when all signals of messages hold `number`."""
        below, above = signals
        arguments = self._arguments.of(
            "planes_wait", below_signal=below, above_signal=above, number=number
        )
        self.program.launch_blocks("planes_wait", LaunchGrid(1, WORD), arguments, self.stream)

    def filled_words(self) -> IntArray:
        """Return how many words of each own plane hold particles."""
        filled = self.backend.upload(np.zeros(self._own_planes, np.uint64))
        self._start("planes_count", counts=self._rows(1)[0], filled=filled)
        return self.host(filled).astype(np.int64)

    def _count(self, row: DeviceArray) -> None:
        self._start("planes_count", counts=row, filled=None)


def _aligned(words: int) -> int:
    return -(-words // _ALIGNED) * _ALIGNED


def _divisor(number: int) -> dict[str, int]:
    """`Divisor` of csrc/lattice/planes/planes.h, by name."""
    shift = 31 + (number - 1).bit_length()
    return {"factor": -(-(1 << shift) // number), "shift": shift}

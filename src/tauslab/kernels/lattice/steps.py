"""Launches of the steps of a plan: a class for each way, with the memory that only it needs."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar
from weakref import proxy

import numpy as np

from tauslab.base.arrays import DeviceArray
from tauslab.kernels.backends.arguments import KeptArguments
from tauslab.kernels.backends.base import KernelSource, LaunchGrid, Program, Stream
from tauslab.kernels.lattice.codegen import SECTION
from tauslab.kernels.lattice.lines import DeviceLines
from tauslab.kernels.lattice.memory import LatticeMemory
from tauslab.kernels.lattice.plan import StepPlan, Way
from tauslab.kernels.lattice.state import counted_columns

Range = tuple[int, int]  # of planes: the first, and the one after the last
NO_HOLE: Range = (0, 0)


class Steps(ABC):
    """The program of a plan, and its launches.

    Attributes
    ----------
    counts
        Whether a launch of many steps also counts the lattice after some of them.
    """

    FILE: ClassVar[str]
    ENTRIES: ClassVar[tuple[str, ...]]
    counts: ClassVar[bool] = False

    def __init__(self, memory: LatticeMemory, plan: StepPlan) -> None:
        self._memory: LatticeMemory = proxy(memory)  # which holds the steps
        self._backend, self.plan = memory.backend, plan
        source = KernelSource(self.FILE, self.ENTRIES, plan.header, block_bytes=plan.block_bytes)
        if plan.together:
            source = replace(source, first=source)
        self.program: Program = self._backend.compile(source)
        self._arguments = KeptArguments(self.program)
        self._resident = self._fitting()

    def _fitting(self) -> int:
        """Blocks that run at the same time, which change when a better kernel is compiled."""
        return self.program.resident_blocks(self.ENTRIES[-1], self.plan.threads)

    @property
    def fits(self) -> bool:
        """Return whether the device takes as many blocks as the plan has to have."""
        return True

    def ready(self) -> bool:
        """Return whether a launch can begin with the particles and site types of the moment."""
        return True

    def forget(self) -> None:  # noqa: B027 - most ways keep nothing
        """Particles were changed from outside."""

    def repeat(self) -> None:  # noqa: B027
        """The last batch is done again, since particles had no space."""

    @abstractmethod
    def launch(self, steps: int, marks: Sequence[int], counts: DeviceArray | None) -> None:
        """Put steps on the stream; where it `counts`, at `marks` into the rows of `counts`."""

    def _start(self, blocks: int, **values: Any) -> None:
        """Launch the last kernel, whose blocks wait for each other."""
        entry = self.ENTRIES[-1]
        arguments = self._arguments.of(entry, lattice=self._memory.arguments(), **values)
        grid = LaunchGrid(blocks, self.plan.threads, together=True)
        self.program.launch_blocks(entry, grid, arguments, self._memory.stream)

    def _bits(self, *shape: int) -> DeviceArray:
        """A bit for each slot of each of two directions of a site."""
        bits = np.uint16 if self._memory.lattice.slots <= 16 else np.uint32
        return self._backend.empty((*shape, 2), bits)


class PlaneSteps(Steps):
    """Two launches for a step: hops in planes, then along z with the reactions."""

    FILE = "lattice/rdme.cc"
    ENTRIES: ClassVar[tuple[str, ...]] = ("rdme_xy", "rdme_z")

    def launch(self, steps: int, marks: Sequence[int], counts: DeviceArray | None) -> None:
        """Put steps on the stream, one by one."""
        del marks, counts
        planes = self._memory.slab.planes
        for _ in range(steps):
            self.hop_in_planes(0, planes)
            self.finish_planes(0, planes)
            self._memory.step += 1

    def hop_in_planes(
        self, begin: int, end: int, hole: Range = NO_HOLE, *, opens: bool = True,
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        """Hops along x and y in stored planes without a hole; `opens` in one launch of a step."""
        hole = hole if hole[0] < hole[1] else (end, end)
        tiles = (end - begin - hole[1] + hole[0]) * self.plan.tiles
        blocks = -(-tiles // self.plan.warps)
        self._start_planes("rdme_xy", blocks, stream, planes=_range(begin, end, hole), opens=opens)

    def finish_planes(
        self, begin: int, end: int, hole: Range = NO_HOLE, *, stream: Stream | None = None
    ) -> None:
        """The rest of the step in stored planes whose neighbours' `hop_in_planes` are done."""
        hole = hole if hole[0] < hole[1] else (end, end)
        segment = self._segment(end - begin - hole[1] + hole[0])
        pieces = -(-(hole[0] - begin) // segment) - (-(end - hole[1]) // segment)
        blocks, planes = self.plan.columns * pieces, _range(begin, end, hole)
        self._start_planes("rdme_z", blocks, stream, planes=planes, segment=segment)

    def _start_planes(self, entry: str, blocks: int, stream: Stream | None, **values: Any) -> None:
        memory, grid = self._memory, LaunchGrid(blocks, self.plan.tile.threads)
        arguments = self._arguments.of(entry, lattice=memory.arguments(), **values)
        self.program.launch_blocks(entry, grid, arguments, stream or memory.stream)

    def _segment(self, planes: int) -> int:
        """Planes of a block."""
        memory = self._memory
        chosen = planes_of_a_block(planes, self.plan.columns, self._resident, memory.filled)
        return max(1, min(memory.planes_each or chosen, planes))


class ListedSteps(PlaneSteps):
    """Blocks share out the tiles that may hold particles."""

    ENTRIES = (*PlaneSteps.ENTRIES, "rdme_steps")

    def __init__(self, memory: LatticeMemory, plan: StepPlan) -> None:
        super().__init__(memory, plan)
        _, ny, nx = memory.lattice.shape
        self._z_moves = self._bits(memory.slab.planes, ny, nx)
        self._listed = self._backend.empty((6, memory.slab.planes, plan.tiles), np.int32)

    def launch(self, steps: int, marks: Sequence[int], counts: DeviceArray | None) -> None:
        """Put steps on the stream."""
        del marks, counts
        most = max(1, self._memory.sites // self._backend.sites_of_a_block)
        if self.plan.sharing > 1:
            most = min(most, max(1, self._fitting() // self.plan.sharing))
        blocks = min(most, self._memory.slab.planes * self.plan.tiles)
        self._start(blocks, z_moves=self._z_moves, listed=self._listed, steps=steps)


class SparseSteps(Steps):
    """Warps share out the tiles, and their lanes the sites that hold particles."""

    FILE = "lattice/sparse/steps.cc"
    ENTRIES = ("rdme_sparse_steps",)
    counts = True

    def __init__(self, memory: LatticeMemory, plan: StepPlan) -> None:
        super().__init__(memory, plan)
        self._marks: Any = None  # of the last launch, which reads them later
        self._known = False  # which sites hold particles, on the device
        self._make_room()

    def _make_room(self) -> None:
        memory, plan = self._memory, self.plan
        planes, ny, nx = memory.slab.planes, *memory.lattice.shape[1:]
        self._z_moves = self._bits(planes, ny, nx)
        self._rows = self._backend.empty((4, planes, plan.tiles, plan.tile.y), np.uint16)

    def forget(self) -> None:
        """Particles were changed from outside."""
        self._known = False

    def launch(self, steps: int, marks: Sequence[int], counts: DeviceArray | None) -> None:
        """Put steps on the stream, and counts at `marks`."""
        tiles = self._memory.slab.planes * self.plan.tiles
        warps = self.plan.threads // self.plan.lanes
        resident = max(1, self._fitting() // self.plan.sharing)
        halves = self.plan.halves and 2 * tiles <= resident * warps
        pieces = (1 + halves) * tiles
        wanted = max(-(-pieces // warps), min(pieces, self._backend.multiprocessors))
        most = self._memory.sites // self._backend.sites_of_a_block
        blocks = max(1, min(wanted, most, resident))
        self._start_counting(blocks, steps, marks, counts, parts=1 + halves)

    def _start_counting(
        self, blocks: int, steps: int, marks: Sequence[int], counts: DeviceArray | None,
        **values: Any,
    ) -> None:  # fmt: skip
        self._marks = self._backend.upload(np.array(marks, np.int64), self._memory.stream)
        self._start(
            blocks, z_moves=self._z_moves, rows=self._rows, anew=not self._known, steps=steps,
            marks=self._marks, n_marks=len(marks), counts=counts,
            columns=counted_columns(self._memory.lattice.sizes), **values,
        )  # fmt: skip
        self._known = True


class SectionSteps(SparseSteps):
    """Blocks share out sections of the lattice, else as `SparseSteps`."""

    FILE = "lattice/sparse/sections.cc"
    ENTRIES = ("rdme_sparse_sections",)

    def _make_room(self) -> None:
        memory, plan, lattice = self._memory, self.plan, self._memory.lattice
        space = (self._blocks, SECTION + 2, plan.tile.y * plan.tile.x)
        self._room = self._backend.empty((*space, lattice.slots), lattice.particle_type)
        self._z_moves = self._bits(*space)
        planes = memory.slab.planes
        self._rows = self._backend.empty((2, planes, plan.tiles, plan.tile.y), np.uint16)

    @property
    def _blocks(self) -> int:
        sections = -(-self._memory.slab.planes // SECTION) * self.plan.tiles
        return min(sections, max(1, self._resident // self.plan.sharing))

    def launch(self, steps: int, marks: Sequence[int], counts: DeviceArray | None) -> None:
        """Put steps on the stream, and counts at `marks`."""
        self._start_counting(self._blocks, steps, marks, counts, sites=self._room)


class LineSteps(Steps):
    """Blocks keep lines of sites."""

    FILE = "lattice/lines/steps.cc"
    ENTRIES = ("rdme_line_steps",)

    def __init__(self, memory: LatticeMemory, plan: StepPlan) -> None:
        super().__init__(memory, plan)
        assert plan.lines is not None
        self.lines = DeviceLines(memory.backend, memory.lattice, plan.lines)
        if memory.tables.of_model:
            self.lines.types = memory.types

    @property
    def fits(self) -> bool:
        """Return whether all blocks, which wait for each other, run at the same time."""
        return self._resident // self.plan.sharing >= self.lines.blocks

    def ready(self) -> bool:
        """List other lines where site types or particles ask for it; whether there is room."""
        memory = self._memory
        return self.lines.update(memory.types, memory.particles, memory.host)

    def forget(self) -> None:
        """Particles were changed from outside."""
        self.lines.forget()

    def repeat(self) -> None:
        """Let blocks wait for all others: they share a list of particles that wait."""
        self.lines.apart = False

    def launch(self, steps: int, marks: Sequence[int], counts: DeviceArray | None) -> None:
        """Put steps on the stream."""
        del marks, counts
        self._start(self.lines.blocks, **self.lines.arguments(steps))


_WAYS: dict[Way, type[Steps]] = {
    Way.PLANES: PlaneSteps,
    Way.LISTED: ListedSteps,
    Way.SPARSE: SparseSteps,
    Way.SECTIONS: SectionSteps,
    Way.LINES: LineSteps,
}


def steps_of(memory: LatticeMemory, plan: StepPlan) -> Steps:
    """The compiled steps of a plan."""
    return _WAYS[plan.way](memory, plan)


def _range(begin: int, end: int, hole: Range) -> dict[str, int]:
    """`PlaneRange` of csrc/lattice/rdme.cc."""
    return {"begin": begin, "end": end, "hole_begin": hole[0], "hole_end": hole[1]}


MOST_PLANES = 30  # a warp of a GPU looks up 32 at once, two of them beside those that it does
# What a march takes beside its planes, in planes: those below and above it are read and their hops
# drawn, and the sites in which more happens than hops are finished when it has ended.
_BESIDE = 5
_ENOUGH = 0.5  # of the blocks that fit; with fewer a device does not do more at the same time
# Share of the time in which blocks are waited for as if none went faster for those that have ended.
_UNEVEN = 0.2


@lru_cache(maxsize=1024)
def planes_of_a_block(planes: int, columns: int, resident: int, filled: float = 1.0) -> int:
    """Planes of a block with which a launch takes the least time by a simple count.

    A march costs as much as some planes beside its own, so long ones are good. But blocks that run
    at the same time should be enough, and end at the same time: best is a short last one.

    The constants are fitted to 260 times of 26 lattices and slabs on an H200 with 4 to 30 planes
    for a block (`scripts/benchmark.py --group planes`): the choice takes 0.3 % longer than the
    best on average, and at most 2 %.

    Parameters
    ----------
    planes
        Of the launch.
    columns
        Blocks that a plane gives work to.
    resident
        Blocks that the device runs at the same time.
    filled
        Share of the tiles that hold particles; blocks without any end at once.

    >>> [planes_of_a_block(planes, 512, 792) for planes in (256, 126, 62, 30)]
    [29, 29, 21, 30]
    >>> planes_of_a_block(62, 128, 792)
    16
    """
    working, resident = max(1, round(columns * filled)), max(1, resident)
    longest = min(MOST_PLANES, max(1, planes))

    def seconds(segment: int) -> float:
        marches = -(-planes // segment)
        mean = working / resident * (planes + marches * _BESIDE)
        last = _makespan(planes, segment, working, resident)
        return max(_ENOUGH * (segment + _BESIDE), (1 - _UNEVEN) * mean + _UNEVEN * last)

    return min(range(longest, 0, -1), key=seconds)


def _makespan(planes: int, segment: int, columns: int, resident: int) -> float:
    """Time when the last block ends, if each begins as soon as there is a place, in order."""
    free, times = {0: resident}, [0]  # places by when they are free
    end, left = 0, planes
    while left > 0:
        march = min(segment, left)
        left -= march
        blocks = columns
        while blocks > 0:
            begin = times[0]
            taken = min(free[begin], blocks)
            blocks -= taken
            free[begin] -= taken
            if not free[begin]:
                heapq.heappop(times)
                del free[begin]
            end = max(end, ended := begin + march + _BESIDE)
            if ended not in free:
                heapq.heappush(times, ended)
            free[ended] = free.get(ended, 0) + taken
    return end

"""Steps of several lattices on one device at the same time: replicas of one model.

A small lattice uses a part of a GPU, or one thread of a CPU. On a GPU the launches of a step are
for all lattices (csrc/lattice/replicas.cc); on a CPU each lattice has a thread. The bits are those
of each lattice alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.kernels.backends.arguments import KeptArguments
from tauslab.kernels.backends.base import Backend, Graph, LaunchGrid
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.segments import planes_of_a_block
from tauslab.kernels.lattice.state import Samples

_SITES = 1 << 23  # of all lattices of a launch: more gain nothing
_MOST = 64
_RECORDED_STEPS = 16
_COPIES = 4  # of the particles: before and after hops, of the start of a batch, and tables


def replicas_at_a_time(backend: Backend, lattice: LoweredLattice, runs: int) -> int:
    """How many of `runs` lattices to run at the same time: as many as gain speed and find room."""
    nz, ny, nx = lattice.shape
    sites = nz * ny * nx
    most = min(runs, _MOST, max(1, _SITES // sites))
    if not backend.style.warps:
        most = min(runs, backend.multiprocessors)
    elif sites > backend.sites_together:
        most = 1
    each = _COPIES * sites * (lattice.slots * np.dtype(lattice.particle_type).itemsize + 1)
    most = max(1, min(most, backend.free_memory() // 2 // each))
    rounds = -(-runs // most)
    return max(1, -(-runs // rounds))


class ReplicaStack:
    """Runs engines of lattices of one shape, all at the same step, at the same time.

    Parameters
    ----------
    engines
        Made with `one_of_several`; their stream becomes that of the first on a GPU.
    """

    def __init__(self, engines: Sequence[LatticeEngine]) -> None:
        self.engines = tuple(engines)
        first = self.engines[0]
        self._backend, self._program = first.backend, first.program
        self._stacked = first.backend.style.warps
        if self._stacked:
            self._open(first)

    def _open(self, first: LatticeEngine) -> None:
        backend, n = self._backend, len(self.engines)
        for engine in self.engines:
            engine.synchronize()  # what its stream still does, the other would not wait for
            engine.stream = first.stream
        self._stream = first.stream
        self._arguments = KeptArguments(self._program)
        self._before = backend.upload(np.zeros(1, np.uint64))
        self._lattices: Any = None
        self._given: list[list[Any]] = [[] for _ in range(n)]
        self._graph: Graph | None = None
        self._one_block = LaunchGrid(1, first.tile.threads)
        planes = first.slab.planes
        resident = max(1, self._program.resident_blocks("replicas_z", first.tile.threads) // n)
        self._segment = planes_of_a_block(planes, first.columns, resident, first.filled)
        tiles = -(-planes * first.tiles // first.tiles_of_a_block)
        columns = first.columns * -(-planes // self._segment)
        self._blocks = {"replicas_xy": tiles, "replicas_z": columns}

    @property
    def step(self) -> int:
        """Steps that all have done."""
        return self.engines[0].step

    def run(self, steps: int) -> None:
        """Put steps of all lattices on the streams."""
        if not self._stacked:
            for engine in self.engines:
                engine.run(steps)
            return
        self._put_arguments()
        left = steps if steps < 2 * _RECORDED_STEPS else self._replay(steps)
        for _ in range(left):
            self._launch_step(self.step)
            self._passed(1)

    def _passed(self, steps: int) -> None:
        for engine in self.engines:
            engine.step += steps

    def _launch_step(self, step: int) -> None:
        first, n = self.engines[0], len(self.engines)
        for entry, blocks in self._blocks.items():
            arguments = self._arguments.of(
                entry, lattices=self._lattices, before=self._before, step=step, replicas=n,
                blocks_each=blocks, segment=self._segment,
            )  # fmt: skip
            grid = LaunchGrid(n * blocks, first.tile.threads)
            self._program.launch_blocks(entry, grid, arguments, self._stream)

    def _put_arguments(self) -> None:
        """Give the device the arguments of engines of which a buffer is another than before."""
        for at, engine in enumerate(self.engines):
            values = {**engine.arguments(), "step": 0}
            buffers = [x for x in values.values() if hasattr(x, "shape") and x.shape]
            known = self._given[at]
            if len(known) == len(buffers) and all(map(_same, known, buffers)):
                continue
            self._given[at] = buffers
            if self._lattices is None:
                probe = self._program.arguments("replicas_put", lattice=values, lattices=None, at=0)
                words = -(-len(probe.packed()) // 8)
                self._lattices = self._backend.empty((len(self.engines), words), np.uint64)
            arguments = self._program.arguments(
                "replicas_put", lattice=values, lattices=self._lattices, at=at
            )
            self._program.launch_blocks("replicas_put", self._one_block, arguments, self._stream)

    def _replay(self, steps: int) -> int:
        """Run most steps by launches that were recorded once; returns how many are left."""
        if self._graph is None:
            self._launch_step(self.step)  # no kernel is launched for the first time while recorded
            self._advance(0)
            self._passed(1)
            steps -= 1
            self._graph = self._backend.record_launches(self._record, self._stream)
        if self._graph is None:
            return steps
        self._advance(self.step)
        while steps >= _RECORDED_STEPS:
            self._graph.launch(self._stream)
            self._passed(_RECORDED_STEPS)
            steps -= _RECORDED_STEPS
        self._advance(-self.step)
        return steps

    def _record(self) -> None:
        for step in range(_RECORDED_STEPS):
            self._launch_step(step)
        self._advance(_RECORDED_STEPS)

    def _advance(self, steps: int) -> None:
        arguments = self._arguments.of("replicas_advance", before=self._before, steps=steps % 2**64)
        self._program.launch_blocks("replicas_advance", self._one_block, arguments, self._stream)

    def run_sampled(self, marks: Sequence[int]) -> list[Samples]:
        """As `LatticeEngine.run_sampled`, of each engine.

        A lattice whose list of waiting particles was full does the batch again, without the others.
        """
        engines = self.engines
        rows = [engine.rows(len(marks)) for engine in engines]
        before = [engine.snapshot() for engine in engines]
        found: dict[int, Samples] = {}
        members, places = self, list(range(len(engines)))
        while True:
            for place in places:
                self._backend.clear(rows[place], engines[place].stream)
            done = 0
            for index, mark in enumerate(marks):
                members.run(mark - done)
                done = mark
                for place in places:
                    engines[place].count_into(rows[place][index])
            again = []
            for place in places:
                values = engines[place].host(rows[place])
                if engines[place].must_repeat():
                    engines[place].restore(before[place])
                    again.append(place)
                else:
                    found[place] = engines[place].samples(values)
            if not again:
                return [found[place] for place in range(len(engines))]
            places = again
            members = ReplicaStack([engines[place] for place in places])


def _same(a: Any, b: Any) -> bool:
    return a is b

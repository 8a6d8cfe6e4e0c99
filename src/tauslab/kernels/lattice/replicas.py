"""Steps of several lattices on one device at the same time: replicas of one model.

A small lattice uses a part of a GPU, or one thread of a CPU. `ReplicaStack` gives each of several
lattices some blocks of one launch, see csrc/lattice/replicas.cc; on a CPU a thread each. The bits
are those of each lattice alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.kernels.backends.arguments import KeptArguments
from tauslab.kernels.backends.base import Backend, LaunchGrid
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.state import Samples

_MOST = 32  # lattices; an H200 gains nothing by more
_SITES = 1 << 24  # of all lattices together
_COPIES = 4  # of the particles: before and after hops, of the start of a batch, and tables
_CELLS = 16  # CELLS_EACH of csrc/lattice/replicas.cc
_ROW = 3  # words of a ReplicaRow there


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


class ReplicaMemory:
    """Arrays of several lattices of one shape, those of a kind side by side."""

    def __init__(self, lattices: int) -> None:
        self.lattices = lattices
        self._arrays: list[Any] = []  # in the order in which an engine asks for them

    def place(self, at: int) -> ReplicaPlace:
        """That of one lattice."""
        return ReplicaPlace(self, at)

    def array(self, backend: Backend, number: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """The array of that number, of all lattices."""
        whole = (self.lattices, *shape)
        if number == len(self._arrays):
            self._arrays.append(backend.empty(whole, dtype))
        array = self._arrays[number]
        assert (array.shape, array.dtype) == (whole, np.dtype(dtype))
        return array


class ReplicaPlace:
    """`MemoryPlace` of one lattice in a `ReplicaMemory`."""

    def __init__(self, memory: ReplicaMemory, at: int) -> None:
        self._memory, self._at = memory, at

    def begin(self, backend: Backend) -> Callable[[tuple[int, ...], npt.DTypeLike], Any]:
        """What gives its arrays, one after another and always the same ones, by shape and type."""
        number = -1

        def empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
            nonlocal number
            number += 1
            return self._memory.array(backend, number, shape, dtype)[self._at]

        return empty


class ReplicaStack:
    """Runs engines of lattices at the same time.

    Parameters
    ----------
    engines
        Of one lattice and seed, in places of one memory that follow each other, at the same step.
        They use the stream of the first from now on.
    """

    def __init__(self, engines: Sequence[LatticeEngine]) -> None:
        self.engines = tuple(engines)
        first, n = self.engines[0], len(self.engines)
        self._backend, self._program, self._stream = first.backend, first.program, first.stream
        for engine in self.engines:
            engine.synchronize()  # what its stream still does, the other would not wait for
            engine.stream = first.stream
        self._arguments = KeptArguments(self._program)
        self._rows = self._backend.empty((n, _ROW), np.uint64)
        self._cells = self._backend.empty((n, _CELLS), np.uint64)
        self._given: list[Any] = [None] * n  # lists of waiting particles that rows tell of
        resident = self._program.resident_blocks("replicas_steps", first.tile.threads)
        tiles = first.slab.planes * first.tiles
        self._blocks_each = max(1, min(resident // n, tiles))

    def run(self, steps: int) -> None:
        """Put steps of all lattices on the stream."""
        if steps <= 0:
            return
        first, n = self.engines[0], len(self.engines)
        for at, engine in enumerate(self.engines):
            engine.renew_stamps(steps)
            self._put_row(at, engine)
        self._backend.clear(self._cells, self._stream)
        arguments = self._arguments.of(
            "replicas_steps", lattice=first.arguments(), rows=self._rows, z_moves=first.z_moves,
            listed=first.listed, cells=self._cells, lattices=n, blocks_each=self._blocks_each,
            steps=steps,
        )  # fmt: skip
        grid = LaunchGrid(n * self._blocks_each, first.tile.threads, together=True)
        self._program.launch_blocks("replicas_steps", grid, arguments, self._stream)
        for engine in self.engines:
            engine.step += steps

    def _put_row(self, at: int, engine: LatticeEngine) -> None:
        given = engine.arguments()
        if self._given[at] is given["waiting"]:
            return
        self._given[at] = given["waiting"]
        arguments = self._program.arguments(
            "replicas_put", waiting=given["waiting"], capacity=given["capacity"],
            replica=given["replica"], rows=self._rows, at=at,
        )  # fmt: skip
        grid = LaunchGrid(1, engine.tile.threads)
        self._program.launch_blocks("replicas_put", grid, arguments, self._stream)

    def run_sampled(self, marks: Sequence[int]) -> list[Samples]:
        """As `LatticeEngine.run_sampled`, of each lattice.

        One whose list of waiting particles was full does the batch again, alone.
        """
        rows = [engine.rows(len(marks)) for engine in self.engines]
        before = [engine.snapshot() for engine in self.engines]
        for row in rows:
            self._backend.clear(row, self._stream)
        done = 0
        for index, mark in enumerate(marks):
            self.run(mark - done)
            done = mark
            for engine, row in zip(self.engines, rows, strict=True):
                engine.count_into(row[index])
        found = []
        for engine, row, state in zip(self.engines, rows, before, strict=True):
            values = engine.host(row)
            if engine.must_repeat():
                engine.restore(state)
                found += ReplicaStack([engine]).run_sampled(marks)
            else:
                found.append(engine.samples(values))
        return found

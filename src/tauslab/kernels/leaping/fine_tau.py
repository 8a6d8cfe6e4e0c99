"""Tau-leaping with many threads to a trajectory: for networks of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid, Stream
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.ensemble.launch import LAUNCHES_IN_FLIGHT, MAX_STEPS, Launch, SampleBuffers
from tauslab.kernels.leaping.fine_tables import FineTables
from tauslab.kernels.network.codegen import table_header
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.kernels.network.tables import LANES, TableBook

# Threads of a block, the fewer of which have to meet the better, and blocks that fit on a
# processor at least, which limits registers.
LAYOUT = (512, 2)
ITEMS_PER_THREAD = 4  # reactions or species of a thread, where other trajectories fill the device
_BARRIER_WORDS = 32  # BARRIER_WORDS of csrc/leaping/fine/cooperative_grid.h
_CONTROL_WORDS = 32  # room for Control of csrc/leaping/fine/fine_tau.cc


class FineTau(NetworkEngine):
    """Tau-leaping of second order, one trajectory over as much of a GPU as its network fills.

    The steps are those of `tauslab.kernels.leaping.tau_leap.TauLeap` (Cao, Gillespie & Petzold
    2006), but the network is read from tables, and the threads of several blocks share out its
    reactions and species (Komarov, D'Souza & Tapia, PLoS ONE 7:e37370, 2012). On a CPU one thread
    does it all.

    Parameters
    ----------
    epsilon
        Bound on the expected relative change of every propensity in a leap, 0 to 1.
    blocks
        Blocks of a GPU that run one trajectory; 0 chooses. Changes no result.
    layout
        Threads of a GPU's block, and blocks that a processor must have room for. Nor does it.
    """

    def __init__(
        self,
        backend: Backend,
        network: LoweredNetwork,
        times: Sequence[float],
        epsilon: float,
        *,
        blocks: int = 0,
        layout: tuple[int, int] = LAYOUT,
    ) -> None:
        self._epsilon, self._given_blocks = epsilon, blocks
        self._block_threads = min(layout[0], backend.style.block)
        book, header = fine_header(network, (self._block_threads, layout[1]))
        self._items_of_network = max(len(network.species), len(network.reactions), 1)
        self._sizes = (2 * len(network.species), book["N_VALUES"], len(network.reactions))
        self._arrays = [backend.upload(array) for array in book.arrays()]
        source = KernelSource("leaping/fine/fine_tau.cc", ("fine_tau",), {"model.h": header})
        super().__init__(backend, times, source)

    @property
    def bytes_per_trajectory(self) -> int:
        """Device memory that one trajectory in flight takes."""
        counts, values, firings = self._sizes
        return 4 * counts + 8 * (values + firings + _BARRIER_WORDS + _CONTROL_WORDS)

    def _room(self) -> int:
        """Blocks that the device runs at the same time."""
        return self.program.resident_blocks(self.entry, self._block_threads)

    def blocks(self, rows: int) -> int:
        """Blocks that run one of `rows` trajectories together."""
        space = min(self._room(), self.backend.style.blocks_together)
        if self._given_blocks:
            return min(self._given_blocks, space)
        most = -(-self._items_of_network // self._block_threads)
        enough = -(-most // ITEMS_PER_THREAD)
        return max(1, min(space, most, max(enough, space // max(1, rows))))

    def _in_flight(self, rows: int, launches: int = LAUNCHES_IN_FLIGHT) -> int:
        """Trajectories in flight of a launch of `rows`."""
        space = self._room() // self.blocks(rows)
        # Half of the memory that is free, so that sample buffers fit beside it.
        share = self.backend.free_memory() // (2 * launches * self.bytes_per_trajectory)
        return max(1, min(rows, space, int(share)))

    def trajectories_in_flight(self, launches: int = 1) -> int:
        """Trajectories that run at the same time where there are many."""
        return self._in_flight(MAX_STEPS, launches)

    def scratch(self, rows: int) -> Any:
        """State of trajectories in flight: counts, sums, firings, barriers and control."""
        empty, grids = self.backend.empty, self._in_flight(rows)
        counts, values, firings = self._sizes
        return (
            empty((grids, counts), np.int32), empty((grids, values), np.float64),
            empty((grids, max(1, firings)), np.int64), empty((grids, _BARRIER_WORDS), np.uint64),
            empty((grids, _CONTROL_WORDS), np.uint64),
        )  # fmt: skip

    def start(self, launch: Launch, buffers: SampleBuffers, stream: Stream) -> None:
        """Put one launch on `stream`; the buffers are filled when the stream gets past it."""
        grids = min(launch.rows, int(buffers.scratch[0].shape[0]))
        blocks = self.blocks(grids)
        for buffer in buffers.scratch[3:]:
            self.backend.clear(buffer, stream)
        whole_tables, real_tables = self._arrays
        states, values, firings, barriers, controls = buffers.scratch
        arguments = self.program.arguments(
            self.entry,
            launch=self._sampling(launch, buffers, stream),
            epsilon=self._epsilon,
            whole_tables=whole_tables,
            real_tables=real_tables,
            states=states,
            values=values,
            firings=firings,
            barriers=barriers,
            controls=controls,
            blocks=blocks,
        )
        grid = LaunchGrid(grids * blocks, self._block_threads, together=True)
        self.program.launch_blocks(self.entry, grid, arguments, stream)


def fine_header(network: LoweredNetwork, layout: tuple[int, int]) -> tuple[TableBook, str]:
    """Tables of a network and `model.h`; blocks of one thread are those of a CPU."""
    book = FineTables(network).book
    book.constant("CONTROL_WORDS", _CONTROL_WORDS)
    book.constant("BLOCK_SIZE", layout[0])
    book.constant("BLOCKS_PER_MULTIPROCESSOR", layout[1])
    return book, table_header(network, book.header(), LANES if layout[0] > 1 else 1)

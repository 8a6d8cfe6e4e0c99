"""The exact engine of networks with events whose reactions are unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.base.errors import ConfigError
from tauslab.kernels.backends.arguments import Arguments
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid, Stream
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.ensemble.launch import LAUNCHES_IN_FLIGHT, Launch, SampleBuffers
from tauslab.kernels.events.codegen import (
    JUMP_COMPLETIONS,
    completions,
    events_header,
    in_tables,
    shape,
)
from tauslab.kernels.events.tables import DELAY_QUEUE, MOST_COMPLETIONS, kept_words
from tauslab.kernels.network.lowering import LoweredNetwork, jumps_within

# Warps of a multiprocessor before warps are full; its trajectories that fill whole blocks.
_WARPS, _FULL = 2, 128
WORDS_OF_A_DELAY = 2  # of 64 bits: the time of completion, and which reaction


class EventSsa(NetworkEngine):
    """Gillespie's direct method that stops for events, on one backend for one network.

    Raises
    ------
    ConfigError
        There are more delays of reactions than the kernel is made for.
    """

    def __init__(
        self,
        backend: Backend,
        network: LoweredNetwork,
        times: Sequence[float],
        delay_queue: int = DELAY_QUEUE,
    ) -> None:
        assert network.dynamics is not None
        shapes = [shape(event) for event in network.dynamics.events]
        self._kept_words = kept_words(len(network.species), shapes)
        ends = completions(network)
        jumps = len(network.dynamics.jumps)
        delays = len(network.reactions) + len(ends) + 1 + JUMP_COMPLETIONS * jumps
        if delays > MOST_COMPLETIONS:
            raise ConfigError(
                f"reactions of {MOST_COMPLETIONS} delays may wait, and {delays} would"
            )
        self._delays = bool(ends) or jumps > 0
        self._delay_queue = delay_queue
        tables = in_tables(network, backend.style)
        header = events_header(network, delay_queue, in_tables=tables)
        entry = "ssa_flow" if network.dynamics.moves else "ssa_events"
        self._within = jumps_within(network)
        if self._within:
            entry = "ssa_within"
        source = KernelSource(f"events/{entry}.cc", (entry,), {"model.h": header})
        super().__init__(backend, times, source)

    def trajectories_in_flight(self, launches: int = 1) -> int:
        """Trajectories that run at the same time; each takes a thread.

        Queues of delayed reactions take half of the memory that is free, at most.
        """
        resident = self.program.resident(self.entry)
        if not self._delays:
            return resident
        share = self.backend.free_memory() // (2 * launches)
        return max(1, min(resident, share // (WORDS_OF_A_DELAY * 8 * self._delay_queue)))

    @property
    def kept_words(self) -> int:
        """Doubles of the whole state of a trajectory."""
        return self._kept_words

    def scratch(self, rows: int) -> Any:
        """Queues of delayed reactions; None without, where local memory holds the state."""
        if not self._delays:
            return None
        items = min(rows, self.trajectories_in_flight(LAUNCHES_IN_FLIGHT))
        lanes = self.backend.launched_items(items)
        return self.backend.empty((lanes, WORDS_OF_A_DELAY * self._delay_queue), np.uint64)

    def _own_arguments(self, launch: Launch, buffers: SampleBuffers) -> dict[str, Any]:
        del launch
        return {"waiting": buffers.scratch}

    def _start(
        self, launch: Launch, buffers: SampleBuffers, arguments: Arguments, stream: Stream
    ) -> None:
        """Few trajectories, and jumps within steps, are in small blocks: all processors have some.

        Few are in blocks of a few threads: 1,000 trajectories of 90 reactions with events
        take 1.11 s in 8 blocks of 128 threads, 0.43 s in 32 of 32, 0.26 s in 125 of 8; 10,000 take
        1.40 s in blocks of 128, 1.10 s in blocks of 32 (one H200). With jumps within steps, fast
        memory holds the state of a warp, which is as large with one thread as with all: warps are
        few, and full before there are more of them. 10 s of the galactose switch take on an H200,
        in blocks of several warps and so: 0.23 and 0.13 s for 500 cells, 0.63 and 0.29 s for
        16,000, 2.0 and 1.7 s for 100,000.
        """
        style, processors, rows = self.backend.style, self.backend.multiprocessors, launch.rows
        items = self._items(rows, buffers.scratch)
        if style.warp > 1 and self._within:
            threads = min(style.warp, -(-rows // (_WARPS * processors)))
            blocks = min(-(-rows // threads), self.program.resident(self.entry) // style.warp)
        elif style.warp > 1 and items < _FULL * processors:
            threads = threads_of_few(items, processors, style.warp)
            blocks = -(-items // threads)
        else:
            super()._start(launch, buffers, arguments, stream)
            return
        self.program.launch_blocks(self.entry, LaunchGrid(blocks, threads), arguments, stream)

    def _items(self, rows: int, scratch: Any) -> int:
        resident = self.program.resident(self.entry)
        if scratch is not None:
            resident = min(resident, int(scratch.shape[0]))
        return self.backend.work_stealing_items(rows, resident)


def threads_of_few(items: int, processors: int, warp: int) -> int:
    """Threads of a block, a power of 2, where so many items give each processor one.

    >>> [threads_of_few(items, 132, 32) for items in (1, 1000, 10_000, 16_895)]
    [1, 8, 32, 32]
    """
    each: int = -(-items // processors)
    return min(warp, 1 << (each - 1).bit_length())

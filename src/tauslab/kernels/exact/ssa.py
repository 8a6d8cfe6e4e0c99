"""The exact SSA engine: which kernel a network gets, and how many threads run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.kernels.backends.base import Backend, KernelSource, Program, Stream, Style
from tauslab.kernels.ensemble.launch import (
    LAUNCHES_IN_FLIGHT,
    MAX_STEPS,
    Launch,
    Launcher,
    SampleBuffers,
)
from tauslab.kernels.exact.selectors import mean_dependents, selector_of
from tauslab.kernels.exact.table_network import NOTHING_KNOWN, Expected, LargeNetwork, team_of
from tauslab.kernels.network.codegen import unrolled_header
from tauslab.kernels.network.lane_codegen import fire_on_lanes
from tauslab.kernels.network.lowering import LoweredNetwork

# Trajectories for each thread from which vectors of them are faster, and two vectors than one.
FEWEST_ON_LANES, FEWEST_ON_TWO_VECTORS = 3, 24
# Trajectories for each lane that fits, from which on lanes take fewer each, and hand them over. One
# H200, Schlögl, 10 samples: 65,536 trajectories (0.43) take 0.099 s, with fewer each 0.077, handed
# over too 0.078; where half of them end at once 0.020, 0.014, 0.026; 100,000 0.112, 0.091, 0.089.
_FEWEST_SHARED, _FEWEST_PARKING = 0.4, 0.6
_MOST_PARKING = 1 << 19  # lanes of a launch that can hand over
_EACH = 16  # trajectories that a thread takes one after another, where a launch of a GPU has many


class ExactSsa:
    """Gillespie's direct method on one backend for one network.

    Parameters
    ----------
    selector
        How the next reaction is found; None chooses by the network.
    team
        Threads that run one trajectory; 0 chooses by device and trajectories. Changes no result.
    firings
        How often each reaction fired in a pilot, f64 ``[reaction]``, see
        `tauslab.kernels.exact.presimulation`; for large networks.
    pilot
        Of large networks: count firings, with the pilot's own random numbers.
    expected
        How many trajectories this device will run, and from which counts, where that is known.
    """

    def __init__(
        self,
        backend: Backend,
        network: LoweredNetwork,
        times: Sequence[float],
        *,
        selector: str | None = None,
        team: int = 0,
        firings: FloatArray | None = None,
        pilot: bool = False,
        expected: Expected = NOTHING_KNOWN,
    ) -> None:
        self.backend = backend
        self.selector = selector_of(network, selector)
        self.team = team if backend.style.warps else 1
        self._launcher = Launcher(backend, times)
        # PARKED_WORDS of csrc/ensemble/parking.h.
        self._parked_words = (8 + len(network.species)) // 2 * 2
        self._large: LargeNetwork | None = None
        if self.selector == "linear":
            vectors = vectors_of(backend, expected.trajectories)
            self.entry = "ssa_lanes" if vectors else "ssa"
            file = f"ensemble/{self.entry}.cc"
            header = unrolled_header(network, backend.style, numbers=backend.style.warps)
            if vectors:
                header = lanes_header(network, vectors)
            lane_bytes = 0
        else:
            many = 0 if self.selector == "rssa" else expected.trajectories
            self.team = self.team or team_of(
                backend.style, backend.multiprocessors, many, mean_dependents(network)
            )
            self._large = LargeNetwork(
                backend, network, self.selector, self.team,
                firings=firings, pilot=pilot, expected=expected,
            )  # fmt: skip
            self.entry, file = entry_of(self.selector), file_of(self.selector)
            header, lane_bytes = self._large.header, self._large.lane_bytes
        source = KernelSource(file, (self.entry,), {"model.h": header}, lane_bytes=lane_bytes)
        self.program: Program = backend.compile(source)

    @property
    def firings(self) -> Any:
        """Of a pilot: what it counts on the device, u64 ``[reaction + 2]``: see `LargeNetwork`."""
        return None if self._large is None else self._large.firings

    @property
    def bytes_per_trajectory(self) -> int:
        """Device memory that a trajectory in flight takes; 0 where registers hold its state."""
        return 0 if self._large is None else self._large.bytes_per_trajectory

    def resident(self, launches: int = 1) -> int:
        """Trajectories that run at the same time when `launches` share the device's memory."""
        most = self.program.resident(self.entry)
        if self._large is None:
            return most
        # Half of the memory that is free, so that sample buffers find room beside it.
        share = self.backend.free_memory() // (2 * launches)
        teams = min(most // self.team, share // self._large.bytes_per_trajectory)
        return max(1, int(teams)) * self.team

    def trajectories_in_flight(self, launches: int = 1) -> int:
        """Trajectories that run at the same time; each takes a team of threads."""
        return self.resident(launches) // self.team if self._large else self.resident(launches)

    def scratch(self, rows: int) -> Any:
        """State of at most `rows` trajectories in flight, or None where registers hold it.

        Of lanes that hand over trajectories: the queue of these, csrc/ensemble/parking.h.
        """
        if self._large is None:
            if not self.backend.style.warps:
                return None
            lanes = self.backend.launched_items(min(rows, self.program.resident(self.entry)))
            empty = self.backend.empty
            return empty((2 * lanes, self._parked_words), np.uint32), empty((2 * lanes,), np.uint8)
        items = min(rows * self.team, self.resident(LAUNCHES_IN_FLIGHT))
        return self._large.scratch(self.backend.launched_items(items) // self.team)

    def start(
        self,
        launch: Launch,
        buffers: SampleBuffers,
        stream: Stream,
        *,
        seed: int,
        max_steps: int = MAX_STEPS,
    ) -> None:
        """Put one launch on `stream`; the buffers are filled when the stream gets past it."""
        values = self._launcher.begin(launch, buffers, stream, seed=seed, max_steps=max_steps)
        if self._large is None:
            resident = self.program.resident(self.entry)
            can = bool(buffers.scratch) and resident < _MOST_PARKING
            # Where few blocks run, others would not go on faster if some of them ended.
            parks = can and launch.rows > _FEWEST_PARKING * resident
            queue, ready = buffers.scratch if parks else (None, None)
            shared = can and launch.rows > _FEWEST_SHARED * resident
            items = self.backend.work_stealing_items(launch.rows, resident, _EACH, parks=shared)
            if self.entry == "ssa":
                if ready is not None:
                    self.backend.clear(ready, stream)
                values = {"launch": values, "queue": queue, "ready": ready}
        else:
            values = {"launch": values, **self._large.arguments(buffers.scratch)}
            items = min(launch.rows, int(buffers.scratch[0].shape[0])) * self.team
        arguments = self.program.arguments(self.entry, **values)
        self.program.launch(self.entry, items, arguments, stream)


def vectors_of(backend: Backend, trajectories: int) -> int:
    """Vectors of trajectories that a thread runs side by side; 0: one trajectory at a time.

    `trajectories` is how many the device will run, 0 where nobody knows.
    """
    each = trajectories / backend.multiprocessors
    if not backend.style.lanes or 0 < each < FEWEST_ON_LANES:
        return 0
    return 1 if 0 < each < FEWEST_ON_TWO_VECTORS else 2


def lanes_header(network: LoweredNetwork, vectors: int) -> str:
    """`model.h` for the SIMD lanes of a CPU core."""
    return f"{unrolled_header(network, Style(branches=False))}{fire_on_lanes(network, vectors)}"


def entry_of(selector: str) -> str:
    """The kernel of a selector of large networks."""
    return "ssa_rejection" if selector == "rssa" else "ssa_table"


def file_of(selector: str) -> str:
    """The file of that kernel."""
    return f"tables/{'rejection/' if selector == 'rssa' else ''}{entry_of(selector)}.cc"

"""The engines of exact simulation, and which of them a network gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.kernels.backends.base import Backend, KernelSource, Program, Stream, Style
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.ensemble.launch import LAUNCHES_IN_FLIGHT, Launch, SampleBuffers
from tauslab.kernels.events.ssa import EventSsa
from tauslab.kernels.exact.selectors import mean_dependents, selector_of
from tauslab.kernels.exact.table_network import NOTHING_KNOWN, Expected, LargeNetwork, team_of
from tauslab.kernels.exact.table_selector import entry_of, file_of
from tauslab.kernels.network.codegen import unrolled_header
from tauslab.kernels.network.lane_codegen import fire_on_lanes
from tauslab.kernels.network.lowering import LoweredNetwork

# Trajectories for each thread from which vectors of them are faster, and two vectors than one.
FEWEST_ON_LANES, FEWEST_ON_TWO_VECTORS = 3, 24
# Trajectories for each lane that fits, from which on lanes take fewer each, and hand them over. One
# H200, Schlögl, 10 samples: 65,536 trajectories (0.43) take 0.099 s, with fewer each 0.077, handed
# over too 0.078; where half of them end at once 0.020, 0.014, 0.026; 100,000 0.112, 0.091, 0.089.
_FEWEST_SHARED, _FEWEST_PARKING = 0.4, 0.6
_EACH = 16  # trajectories that a thread takes one after another, where a launch of a GPU has many
# Trajectories from which on most are ended by a kernel that keeps no exact times. It lists those
# that it cannot end; where it lists one in so many, as where all have 8,192 firings, others follow.
_FEWEST_ENDS, _MOST_LISTED = 1 << 16, 16
FIRES_ALL = "constexpr bool FIRES_ALL = true;"
_KEEPS = "#define KEEPS_STATES\n"
_LANES, _WARPS = (32, 16, 8), 8  # that run one trajectory; of a multiprocessor, two for a scheduler


class UnrolledSsa(NetworkEngine):
    """Gillespie's direct method with a network's own code.

    A thread runs a trajectory, or `lanes` of a warp where there are few. Changes no result. With
    `keeps`, launches go on from states of an earlier one: csrc/ensemble/standing.h.
    """

    def __init__(
        self, backend: Backend, network: LoweredNetwork, times: Sequence[float], lanes: int = 1,
        *, keeps: bool = False, ends: bool = False,
    ) -> None:  # fmt: skip
        self._lanes = lanes
        self.takes_turns = lanes == 1  # with several all begin at once
        header = unrolled_header(
            network, backend.style, literals=backend.style.literals, lanes=lanes
        )
        header += _KEEPS if keeps else ""
        # PARKED_WORDS of csrc/ensemble/parking.h.
        self._parked_words = (9 + len(network.species)) // 2 * 2
        source = KernelSource("ensemble/ssa.cc", ("ssa",), {"model.h": header})
        super().__init__(backend, times, source)
        plain = not (network.observables or network.thinning or len(times) > 1 or lanes > 1)
        fits = ends and plain and FIRES_ALL in header and backend.style.warp > 1
        self._ends = Ends(backend, header) if fits else None

    def scratch(self, rows: int) -> Any:
        """The queue of trajectories that are handed over, csrc/ensemble/parking.h, or None."""
        resident = self.program.resident(self.entry)
        if resident >= self.backend.style.most_parking or self._lanes > 1:
            return None
        lanes = self.backend.launched_items(min(rows, resident))
        empty = self.backend.empty
        return empty((2 * lanes, self._parked_words), np.uint32), empty((2 * lanes,), np.uint8)

    def start(self, launch: Launch, buffers: SampleBuffers, stream: Stream) -> None:
        """Put one launch on `stream`; the buffers are filled when the stream gets past it."""
        if self._ends and self._ends.fits(launch, buffers):
            values = self._sampling(launch, buffers, stream)
            self._ends.start(values, launch.rows, stream)
            self.backend.clear(buffers.row_counter[:1], stream)  # and none of what else it counts
            given = self.program.arguments(
                self.entry, launch=values, queue=None, ready=None, **self._ends.listed
            )
            self.program.launch(self.entry, -(-launch.rows // _MOST_LISTED), given, stream)
            return
        # Where few blocks run, others would not go on faster if some of them ended.
        parks = launch.rows > _FEWEST_PARKING * self.program.resident(self.entry)
        queue, ready = buffers.scratch if buffers.scratch and parks else (None, None)
        if ready is not None:
            self.backend.clear(ready, stream)
        self._launch(launch, buffers, stream, queue=queue, ready=ready, listed=None, list=None)

    def _items(self, rows: int, scratch: Any) -> int:
        resident = self.program.resident(self.entry)
        if self._lanes > 1:
            return min(rows * self._lanes, resident)
        shared = bool(scratch) and rows > _FEWEST_SHARED * resident
        return self.backend.work_stealing_items(rows, resident, _EACH, parks=shared)


class Ends:
    """Final states of many trajectories by csrc/ensemble/ssa_ends.cc, which lists the others.

    Compiled by the first launch that it fits.

    Attributes
    ----------
    listed
        The list, by names of arguments of `ssa`.
    """

    def __init__(self, backend: Backend, header: str) -> None:
        self._backend = backend
        self._source = KernelSource("ensemble/ssa_ends.cc", ("ssa_ends",), {"model.h": header})
        self._program: Program | None = None
        self.listed: dict[str, Any] = {}
        self._rows = 0  # of the launch before
        self._n_listed = np.zeros(1, np.uint64)  # which listed so many, where it has ended

    def fits(self, launch: Launch, buffers: SampleBuffers) -> bool:
        """Return whether a launch gets final states sooner this way."""
        others = (buffers.counts, buffers.reals, buffers.keep, launch.kept)
        if not _FEWEST_ENDS <= launch.rows < 1 << 32 or any(one is not None for one in others):
            return False
        return self._rows == 0 or int(self._n_listed[0]) * _MOST_LISTED <= self._rows

    def start(self, values: dict[str, Any], rows: int, stream: Stream) -> None:
        """Put one launch on `stream`."""
        backend = self._backend
        if self._program is None:
            self._program = backend.compile(self._source)
            self.listed["listed"] = backend.empty((1,), np.uint64)
            self._n_listed = backend.mirror(self.listed["listed"])
            self._n_listed[0] = 0
        if self._rows != rows:
            self.listed["list"] = backend.empty((rows,), np.uint32)
            self._rows = rows
        backend.clear(self.listed["listed"], stream)
        arguments = self._program.arguments("ssa_ends", launch=values, **self.listed)
        resident = self._program.resident("ssa_ends")
        self._program.launch("ssa_ends", min(rows, resident), arguments, stream)
        backend.download(self.listed["listed"], self._n_listed, 1, stream)


class LanesSsa(NetworkEngine):
    """The direct method with a trajectory on each SIMD lane of a CPU core."""

    takes_turns = True

    def __init__(self, backend: Backend, times: Sequence[float], header: str) -> None:
        source = KernelSource("ensemble/ssa_lanes.cc", ("ssa_lanes",), {"model.h": header})
        super().__init__(backend, times, source)

    def start(self, launch: Launch, buffers: SampleBuffers, stream: Stream) -> None:
        """Put one launch on `stream`; the buffers are filled when the stream gets past it."""
        values = self._sampling(launch, buffers, stream)
        arguments = self.program.arguments(self.entry, **values)
        items = self._items(launch.rows, None)
        self.program.launch(self.entry, items, arguments, stream)


class TableSsa(NetworkEngine):
    """Exact simulation of a network in tables, with or without events.

    Parameters
    ----------
    selector
        A `TableSelector`, which chooses the next reaction.
    team
        Threads that run one trajectory; 0 chooses by device and trajectories. Changes no result.
    firings
        How often each reaction fired in a pilot, f64 ``[reaction]``, see
        `tauslab.kernels.exact.pilot`.
    pilot
        Count firings, with the pilot's own random numbers.
    expected
        How many trajectories this device will run, and from which counts, where that is known.

    Attributes
    ----------
    firings
        Of a pilot: what it counts on the device, u64 ``[reaction + 2]``: see `LargeNetwork`.
    bytes_per_trajectory
        Device memory that a trajectory in flight takes.
    """

    def __init__(
        self,
        backend: Backend,
        network: LoweredNetwork,
        times: Sequence[float],
        selector: str,
        *,
        team: int = 0,
        firings: FloatArray | None = None,
        pilot: bool = False,
        expected: Expected = NOTHING_KNOWN,
    ) -> None:
        self.selector = selector
        many = 0 if selector == "rssa" else expected.trajectories
        self.team = min(team, backend.style.block) or team_of(
            backend.style, backend.multiprocessors, many, mean_dependents(network)
        )
        self._network = LargeNetwork(
            backend, network, selector, self.team, firings=firings, pilot=pilot, expected=expected
        )
        self.firings = self._network.firings
        self.bytes_per_trajectory = self._network.bytes_per_trajectory
        source = KernelSource(
            file_of(selector), (entry_of(selector),), {"model.h": self._network.header},
            lane_bytes=self._network.lane_bytes,
        )  # fmt: skip
        super().__init__(backend, times, source)

    def trajectories_in_flight(self, launches: int = 1) -> int:
        """Trajectories that run at the same time when `launches` share the device's memory."""
        # Half of the memory that is free, so that sample buffers fit beside it.
        share = self.backend.free_memory() // (2 * launches)
        teams = self.program.resident(self.entry) // self.team
        return max(1, int(min(teams, share // self.bytes_per_trajectory)))

    def scratch(self, rows: int) -> Any:
        """State of at most `rows` trajectories in flight."""
        teams = min(rows, self.trajectories_in_flight(LAUNCHES_IN_FLIGHT))
        return self._network.scratch(self.backend.launched_items(teams * self.team) // self.team)

    def _own_arguments(self, launch: Launch, buffers: SampleBuffers) -> dict[str, Any]:
        del launch
        return self._network.arguments(buffers.scratch)

    def _items(self, rows: int, scratch: Any) -> int:
        return min(rows, int(scratch[0].shape[0])) * self.team


def exact_engine(
    backend: Backend,
    network: LoweredNetwork,
    times: Sequence[float],
    *,
    selector: str | None = None,
    team: int = 0,
    firings: FloatArray | None = None,
    expected: Expected = NOTHING_KNOWN,
    keeps: bool = False,
) -> UnrolledSsa | LanesSsa | TableSsa | EventSsa:
    """Exact simulation of a network: the kernel that selector, device and trajectories give.

    Parameters
    ----------
    selector
        What chooses the next reaction; None follows from the network.
    team, firings, expected
        As of `TableSsa`.
    keeps
        Whether launches keep states and go on from them; only what `can_resume_exactly` allows.
    """
    selector = selector_of(network, selector)
    if selector != "linear":
        return TableSsa(
            backend, network, times, selector, team=team, firings=firings, expected=expected
        )
    if network.dynamics is not None:
        return EventSsa(backend, network, times, expected.delay_queue)
    if vectors := vectors_of(backend, expected.trajectories):
        header = lanes_header(network, vectors)
        return LanesSsa(backend, times, header + _KEEPS if keeps else header)
    lanes = lanes_of(backend, expected.trajectories)
    return UnrolledSsa(backend, network, times, lanes, keeps=keeps, ends=expected.ends)


def can_resume_exactly(network: LoweredNetwork, selector: str) -> bool:
    """Return whether a kernel can keep where trajectories stand, and go on with the same draws."""
    return selector == "linear" and network.dynamics is None and network.thinning is None


def lanes_of(backend: Backend, trajectories: int) -> int:
    """Lanes of a warp that run one trajectory: several where there are too few for all.

    ns per firing of the slowest of 2,000 cells of the galactose switch (65 reactions) on an H200,
    where most that fire are among the last reactions: 643 by one lane, 212 by eight, 205 by
    sixteen; 186 by 32 of 500 cells.
    """
    space = backend.style.warp * _WARPS * backend.multiprocessors
    fits = [n for n in _LANES if n <= backend.style.warp and 0 < trajectories * n <= space]
    return max(fits, default=1)


def vectors_of(backend: Backend, trajectories: int) -> int:
    """Vectors of trajectories that a thread runs side by side; 0: one trajectory at a time.

    `trajectories` is how many the device will run, 0 where nobody knows.
    """
    each = trajectories / backend.multiprocessors
    return sum(backend.style.on_lanes(each, n) for n in (FEWEST_ON_LANES, FEWEST_ON_TWO_VECTORS))


def lanes_header(network: LoweredNetwork, vectors: int) -> str:
    """`model.h` for the SIMD lanes of a CPU core."""
    return f"{unrolled_header(network, Style(branches=False))}{fire_on_lanes(network, vectors)}"

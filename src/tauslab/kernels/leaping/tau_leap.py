"""The tau-leaping engine: one trajectory per thread, for networks of moderate size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tauslab.kernels.backends.base import Backend, KernelSource, Style
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.leaping.codegen import (
    LARGEST_IN_REGISTERS,
    channels,
    has_tables,
    leap_header,
    parked_words,
    shared_cells,
)
from tauslab.kernels.network.lowering import LoweredNetwork

# A leap is straight-line code over all reactions, which takes g++ 37 s for 300 of them: larger
# networks leap from tables (`tauslab.kernels.leaping.fine_tau`). Part of the method: bits differ.
LARGEST_LEAPING = 160

_SCHEDULERS = 4  # of a multiprocessor

# Trajectories that take turns on a lane of a GPU: with more to choose from, a warp finds more that
# do the same. Schlögl, 2^18 trajectories on an H200: 0.095 s with 1, 0.070 s with 2, 0.060 s with
# 4, 0.081 s with 8, which leaves half of the lanes without any.
MOST_PER_LANE = 4

# Rows of a lane's memory in csrc/leaping/known_firings.h: five, and two for each of 8 segments.
ROWS_AHEAD = 5 + 2 * 8
_MOST_BYTES = 1 << 30  # of all lanes together: more than 50,000 lanes in networks of 120 reactions

# Kernels, and files in csrc/leaping.
_LEAP, _CHECKED_LEAP, _LANES = "tau_leap", "tau_leap_checked", "tau_lanes"
_FOLDERS = {_LEAP: "leaping", _CHECKED_LEAP: "leaping", _LANES: "leaping/lanes"}

# Trajectories for each thread from which those on SIMD lanes are faster.
FEWEST_ON_LANES = 4


class TauLeap(NetworkEngine):
    """Tau-leaping of second order (Anderson & Koyama 2012, theta 1/2), with critical reactions.

    Steps are those of Cao, Gillespie & Petzold (2005, 2006), bounded by what is lost of a species
    too. The limit of a step is `bound` of csrc/leaping/leaps.h.

    Parameters
    ----------
    epsilon
        Bound on the expected relative change of every propensity in a leap, 0 to 1.
    trajectories
        How many this device will run, 0 where nobody knows. Changes no result.
    """

    def __init__(
        self,
        backend: Backend,
        network: LoweredNetwork,
        times: Sequence[float],
        epsilon: float,
        trajectories: int = 0,
    ) -> None:
        self._epsilon = epsilon
        self._trajectories = trajectories
        self._is_large = len(network.reactions) > LARGEST_IN_REGISTERS
        self._parked_words = parked_words(network)
        entry = _LANES if leaps_on_lanes(backend, trajectories) else _LEAP
        super().__init__(backend, times, _source(backend, network, entry))

    def trajectories_in_flight(self, launches: int = 1) -> int:
        """Trajectories that a launch has in flight: several for each lane."""
        del launches
        return MOST_PER_LANE * self.program.resident(self.entry)

    def scratch(self, rows: int) -> Any:
        """Memory for the trajectories that wait while others have their turn.

        A launch of fewer rows may have more threads: fewer lanes of each warp begin, or as all that
        the device runs it takes the whole device.
        """
        if self.entry == _LANES:
            return None
        launched, resident = self.backend.launched_items, self.program.resident(_LEAP)
        most = max(self._waiting(rows), launched(min(resident, self._warp * rows)))
        most += MOST_PER_LANE * launched(1)  # each turn may round to whole blocks
        return self.backend.empty((most, self._parked_words), np.uint32)

    def _waiting(self, rows: int) -> int:
        """Places that a launch of so many rows uses: one for each turn of all its threads."""
        return self.backend.launched_items(self._lanes(rows)) * self._per_lane(rows)

    def _own_arguments(self, launch: Launch, buffers: SampleBuffers) -> dict[str, Any]:
        own: dict[str, Any] = {"epsilon": self._epsilon}
        if self.entry == _LEAP:
            own |= {
                "seed": launch.seed, "parked": buffers.scratch,
                "per_lane": self._per_lane(launch.rows), "width": self._width(launch.rows),
            }  # fmt: skip
        return own

    def _items(self, rows: int, scratch: Any) -> int:
        del scratch
        return self._lanes(rows) if self.entry == _LEAP else rows

    def _lanes(self, rows: int) -> int:
        """Threads of a launch: all that fit, or with launches beside it half of them at least."""
        resident, width = self.program.resident(_LEAP), self._width(rows)
        if width < self._warp:
            return -(-rows // width) * self._warp
        least = resident if self._alone(rows) else resident // 2
        return min(rows, resident, max(-(-rows // MOST_PER_LANE), least))

    def _per_lane(self, rows: int) -> int:
        return min(MOST_PER_LANE, -(-rows // self._lanes(rows)))

    def _width(self, rows: int) -> int:
        """Lanes of a warp that begin trajectories: fewer if they are few.

        Lanes that do different things wait for each other; warps do not, but for their schedulers
        and for the program's text, of which large networks have more than a multiprocessor keeps.
        """
        if not self._alone(rows):
            return self._warp
        warps = self.program.resident(_LEAP) // self._warp
        if self._is_large:
            warps = min(warps, _SCHEDULERS * self.backend.multiprocessors)
        return min(self._warp, max(1, -(-rows // max(1, warps))))

    @property
    def _warp(self) -> int:
        return self.backend.style.warp

    def _alone(self, rows: int) -> bool:
        """Return whether so many are all that the device runs."""
        return 0 < self._trajectories <= rows


class CheckedTauLeap(NetworkEngine):
    """Tau-leaping that checks leaps after they were made (Anderson 2008).

    A leap in which a species changed by more than its limit is taken back, and a shorter one is
    made of the firings that it has shown, so that rejections bias nothing.  Its parameters are
    those of `TauLeap`.
    """

    def __init__(
        self, backend: Backend, network: LoweredNetwork, times: Sequence[float], epsilon: float
    ) -> None:
        super().__init__(backend, times, _source(backend, network, _CHECKED_LEAP))
        self._epsilon = epsilon
        self._memory = ROWS_AHEAD * len(channels(network))

    def trajectories_in_flight(self, launches: int = 1) -> int:
        """Trajectories that a launch has in flight: one for each lane."""
        del launches
        resident = self.program.resident(_CHECKED_LEAP)
        return max(1, min(resident, _MOST_BYTES // (8 * self._memory)))

    def scratch(self, rows: int) -> Any:
        """Memory of each lane for firings to come."""
        lanes = self.backend.launched_items(self._items(rows, None))
        return self.backend.empty((lanes, self._memory), np.float64)

    def _own_arguments(self, launch: Launch, buffers: SampleBuffers) -> dict[str, Any]:
        del launch
        return {"epsilon": self._epsilon, "memory": buffers.scratch}

    def _items(self, rows: int, scratch: Any) -> int:
        del scratch
        return self.backend.work_stealing_items(rows, self.trajectories_in_flight())


def _source(backend: Backend, network: LoweredNetwork, entry: str) -> KernelSource:
    """The kernel `entry` of the file of this name, for a network."""
    style = Style(branches=False) if entry == _LANES else backend.style
    header = leap_header(network, style, checked=entry == _CHECKED_LEAP)
    file, bytes_of_a_lane = f"{_FOLDERS[entry]}/{entry}.cc", 8 * shared_cells(network)
    source = KernelSource(file, (entry,), {"model.h": header}, lane_bytes=bytes_of_a_lane)
    if entry == _LEAP and has_tables(network, style):
        tables = {"model.h": leap_header(network, style, in_tables=True)}
        source = replace(source, first=replace(source, generated=tables))
    return source


def leaps_on_lanes(backend: Backend, trajectories: int) -> bool:
    """Return whether so many trajectories leap on SIMD lanes; 0: their number is not known."""
    return backend.style.on_lanes(trajectories / backend.multiprocessors, FEWEST_ON_LANES)

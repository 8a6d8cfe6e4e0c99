"""How many planes of a lattice a block marches through."""

from __future__ import annotations

import heapq
from functools import lru_cache

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
    """When the last block ends, if each begins as soon as there is a place, in order."""
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

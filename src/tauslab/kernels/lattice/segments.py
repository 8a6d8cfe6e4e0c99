"""How many planes a block of a lattice marches through: an even share for all blocks at once."""

from __future__ import annotations

import math

_MOST = 16  # planes
_READ = 0.6  # of a plane's time: the planes below and above a segment are read and their hops drawn


def planes_of_a_block(planes: int, tiles: int, resident: int, filled: float = 1.0) -> int:
    """Planes of a block with which a launch takes the least time by a simple count.

    A launch takes as many rounds as there are blocks for each of those that run at the same time,
    and a round as long as a block marches. Long segments read few planes twice; what is left over
    in the last round counts against them.

    Parameters
    ----------
    planes
        Of the launch.
    tiles
        Columns that a block marches through: tiles of a plane, or what a block's warps do of one.
    resident
        Blocks that the device runs at the same time.
    filled
        Share of the tiles that hold particles; blocks without any end at once.

    >>> planes_of_a_block(62, 128, 924), planes_of_a_block(126, 128, 924)
    (9, 9)
    >>> planes_of_a_block(62, 128, 924, filled=0.1)
    1
    """

    def rounds(segment: int) -> float:
        blocks = -(-planes // segment) * tiles * filled
        return max(1, math.ceil(blocks / max(1, resident))) * (segment + _READ)

    return min(range(1, max(1, min(_MOST, planes)) + 1), key=rounds)

"""Blocks of work that ranks share: each takes some from one counter until none is left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tauslab.decomposition.blocks import next_share


class SharedBlocks:
    """The blocks that are to be done, and how many of them a rank takes at once.

    Parameters
    ----------
    numbers
        Numbers of the blocks, the same on all ranks.
    smallest, room
        Blocks of a launch: the fewest that keep a device busy, and the most that it can take.
    largest
        The most that is taken at once before `size_launches` is called.
    """

    def __init__(
        self, numbers: npt.NDArray[np.intp], *, smallest: int, room: int, largest: int
    ) -> None:
        self._numbers, self._smallest, self._room = numbers, smallest, room
        self._largest, self._position = min(largest, room), 0

    @property
    def taken(self) -> int:
        """Blocks that all ranks had taken when this one took its last."""
        return min(self._position, len(self._numbers))

    @property
    def left(self) -> bool:
        """Whether there may be blocks that nobody has taken."""
        return self._position < len(self._numbers)

    def take(self, counter: Callable[[int], int], sharers: int, each: int) -> list[int]:
        """The next blocks; none where others have taken the last.

        Parameters
        ----------
        counter
            Adds to a number that ranks share, and returns what it was.
        sharers, each
            Ranks that share the blocks, and launches that each has in flight.
        """
        remaining = len(self._numbers) - self._position
        count = next_share(remaining, sharers, each, self._smallest, self._largest)
        position = counter(count)
        self._position = position + count
        return [int(b) for b in self._numbers[position : position + count]]

    def leave_rest(self, counter: Callable[[int], int]) -> None:
        """Let no rank take any more: what nobody has taken stays for a resumed run."""
        counter(len(self._numbers))

    def size_launches(self, blocks: float) -> None:
        """Take about so many at once; results do not depend on how blocks are cut."""
        self._largest = min(self._room, max(self._smallest, int(blocks)))

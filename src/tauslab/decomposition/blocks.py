"""Trajectories cut into blocks, and how ranks share them: pure integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import DecompositionError

STORAGE_BLOCK_BYTES = 1 << 20
_FINE_BLOCKS_PER_JOB = 1024
_BLOCKS_PER_JOB = 64  # small jobs are cut finer, so that ranks and threads share them evenly
_BLOCKS_PER_RANK = 4


@dataclass(frozen=True)
class Blocks:
    """`n` trajectories in storage blocks of `size`; the last may be smaller.

    >>> Blocks(10, 4).trajectories(2, 3)
    (8, 10)
    """

    n: int
    size: int

    def __post_init__(self) -> None:
        """Check the sizes."""
        if self.n < 1 or self.size < 1:
            raise DecompositionError(
                f"cannot cut {self.n} trajectories into blocks of {self.size}: "
                "both must be 1 or more"
            )

    @property
    def count(self) -> int:
        """Number of blocks."""
        return -(-self.n // self.size)

    def trajectories(self, first_block: int, end_block: int) -> tuple[int, int]:
        """First trajectory and end (exclusive) of blocks ``first_block .. end_block - 1``."""
        return first_block * self.size, min(self.n, end_block * self.size)


def storage_block_size(n: int, row_bytes: int, *, fine: bool = False, ranks: int = 1) -> int:
    """Trajectories in a storage block: about 1 MiB of samples, and at least 64 blocks a job.

    With `fine`, at least 1024: for runs that keep few bytes or none of a trajectory, whose blocks
    would take long, and a request to stop waits for the end of a block. And at least 4 for each of
    many ranks: those that get no block have nothing to do, those that get one more than others
    are waited for.

    >>> [storage_block_size(100_000, 400, ranks=ranks) for ranks in (1, 16, 1024)]
    [1563, 1562, 24]
    """
    by_size = max(1, STORAGE_BLOCK_BYTES // max(1, row_bytes))
    blocks = _FINE_BLOCKS_PER_JOB if fine else _BLOCKS_PER_JOB
    return max(1, min(by_size, -(-n // blocks), n // (_BLOCKS_PER_RANK * ranks)))


def sweep_block_size(
    points: int, n: int, row_bytes: int, *, fine: bool = False, ranks: int = 1
) -> int:
    """Trajectories in a storage block of a sweep: as without one, but so that points fit.

    Whole points, or an even fraction of one; where `n` has no divisor of about the right size the
    points are cut anywhere.

    >>> [sweep_block_size(100, n, 1 << 12) for n in (10, 1000, 1009)]
    [10, 250, 256]
    """
    size = storage_block_size(points * n, row_bytes, fine=fine, ranks=ranks)
    if size >= n:
        return size // n * n
    divisor = next(d for d in range(size, 0, -1) if n % d == 0)
    return divisor if 4 * divisor >= size else size


def next_share(remaining: int, n_ranks: int, lanes: int, smallest: int, largest: int) -> int:
    """Storage blocks that a rank should take now, of `remaining` that nobody has taken.

    Guided self-scheduling (Polychronopoulos & Kuck 1987): a fixed fraction of what is left, so
    that shares shrink towards the end and ranks finish together; never less than `smallest`, which
    keeps a device busy, unless that would be more than an even share; never more than `largest`.
    A rest of less than half of `smallest` is not left behind: it would run alone.

    >>> [next_share(n, 2, 3, 4, 20) for n in (1000, 100, 30, 5)]
    [20, 9, 4, 3]
    >>> next_share(5, 1, 3, 4, 20)
    5
    """
    if remaining < smallest + -(-smallest // 2):
        smallest = remaining
    guided = -(-remaining // (2 * n_ranks * lanes))
    even = -(-remaining // n_ranks)
    return max(1, min(max(guided, smallest), even, largest))


def runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Increasing numbers as runs of neighbours, (first, end).

    >>> list(runs([0, 1, 2, 5, 6]))
    [(0, 3), (5, 7)]
    """
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            yield numbers[start], numbers[i - 1] + 1
            start = i


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
        """Return whether there may be blocks that nobody has taken."""
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

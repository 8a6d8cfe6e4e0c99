"""Trajectories cut into blocks, and blocks gathered into launches: pure integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tauslab.model.errors import DecompositionError

STORAGE_BLOCK_BYTES = 1 << 20
_BLOCKS_PER_JOB = 64  # small jobs are cut finer, so that ranks and threads share them evenly


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
                f"cannot cut {self.n} trajectories into blocks of {self.size}: both must be 1 or more"
            )

    @property
    def count(self) -> int:
        """Number of blocks."""
        return -(-self.n // self.size)

    def trajectories(self, first_block: int, end_block: int) -> tuple[int, int]:
        """First trajectory and end (exclusive) of blocks ``first_block .. end_block - 1``."""
        return first_block * self.size, min(self.n, end_block * self.size)


def storage_block_size(n: int, row_bytes: int) -> int:
    """Trajectories in a storage block: about 1 MiB of samples, and at least 64 blocks a job."""
    by_size = max(1, STORAGE_BLOCK_BYTES // max(1, row_bytes))
    return max(1, min(by_size, -(-n // _BLOCKS_PER_JOB)))


def launch_blocks(blocks: Blocks, resident: int, most_rows: int, n_ranks: int) -> int:
    """Storage blocks in a launch.

    At least what keeps a device busy (`resident` rows), about six launches per rank otherwise, and
    never more than `most_rows` rows, which is what the buffers hold.
    """
    wanted = max(resident, blocks.n // (6 * n_ranks))
    rows = max(1, min(wanted, most_rows))
    return max(1, rows // blocks.size)


def plan_launches(done: Sequence[bool], per_launch: int) -> list[tuple[int, int]]:
    """Runs of blocks still to do, as (first, end) of at most `per_launch` blocks.

    >>> plan_launches([False, True, False, False, False], 2)
    [(0, 1), (2, 4), (4, 5)]
    """
    launches: list[tuple[int, int]] = []
    start = 0
    while start < len(done):
        if done[start]:
            start += 1
            continue
        end = start
        while end < len(done) and end - start < per_launch and not done[end]:
            end += 1
        launches.append((start, end))
        start = end
    return launches

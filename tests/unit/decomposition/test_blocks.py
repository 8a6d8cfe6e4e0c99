"""Blocks and how ranks share them: pure integers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tauslab import DecompositionError
from tauslab.decomposition.blocks import Blocks, next_share, runs, storage_block_size

counts = st.integers(1, 10**6)


@given(n=counts, size=st.integers(1, 10**5))
def test_blocks_cover_every_trajectory_once(n, size):
    blocks = Blocks(n, size)
    ends = [blocks.trajectories(b, b + 1) for b in (0, blocks.count - 1)]
    assert ends[0][0] == 0
    assert ends[1][1] == n
    assert blocks.trajectories(0, blocks.count) == (0, n)
    assert (blocks.count - 1) * size < n <= blocks.count * size


@given(n=counts, row_bytes=st.integers(0, 2**31))
def test_storage_blocks_are_about_a_mebibyte_and_never_empty(n, row_bytes):
    size = storage_block_size(n, row_bytes)
    assert 1 <= size <= n
    assert size == 1 or size * row_bytes <= 1 << 20
    assert Blocks(n, size).count >= min(n, 32)


@given(
    total=st.integers(1, 3000),
    n_ranks=st.integers(1, 8),
    smallest=st.integers(1, 50),
    largest=st.integers(1, 500),
)
def test_shares_end_and_are_within_bounds(total, n_ranks, smallest, largest):
    """However the ranks take turns, the shares add up to the job, with a small last one."""
    left, taken = total, []
    while left > 0:
        share = next_share(left, n_ranks, 3, smallest, largest)
        assert 1 <= share <= max(1, largest)
        taken.append(min(share, left))
        left -= share
    assert sum(taken) == total
    assert taken[0] <= -(-total // n_ranks), "the first rank leaves work for the others"


@given(st.lists(st.booleans(), max_size=60))
def test_runs_are_the_numbers_again(chosen):
    numbers = [i for i, wanted in enumerate(chosen) if wanted]
    pieces = list(runs(numbers))
    assert [i for first, end in pieces for i in range(first, end)] == numbers
    assert all(b[0] > a[1] for a, b in pairwise(pieces)), "runs are maximal"


@pytest.mark.parametrize(("n", "size"), [(0, 1), (1, 0), (-1, 5)])
def test_nothing_cannot_be_cut(n, size):
    with pytest.raises(DecompositionError, match="1 or more"):
        Blocks(n, size)

"""Ranks that share blocks take each once."""

from __future__ import annotations

import numpy as np

from tauslab.decomposition.blocks import SharedBlocks

NUMBERS = np.array([0, 1, 4, 5, 6, 9, 12, 13])


class Count:
    """A counter that ranks share."""

    def __init__(self):
        self.value = 0

    def __call__(self, more):
        before, self.value = self.value, self.value + more
        return before


def shared():
    return SharedBlocks(NUMBERS, smallest=1, room=3, largest=2)


def test_each_block_is_taken_once():
    counter, ranks, actual = Count(), [shared(), shared()], []
    while any(blocks.left for blocks in ranks):
        for blocks in ranks:
            actual += blocks.take(counter, len(ranks), 1) if blocks.left else []
    assert actual == NUMBERS.tolist()
    assert max(blocks.taken for blocks in ranks) == len(NUMBERS)


def test_after_a_stop_there_is_nothing_left_to_take():
    counter, one, other = Count(), shared(), shared()
    taken = one.take(counter, 2, 1)
    one.leave_rest(counter)
    assert taken == [0, 1]
    assert other.take(counter, 2, 1) == []


def test_launches_stay_between_what_fills_a_device_and_its_room():
    counter, blocks = Count(), shared()
    blocks.size_launches(100.0)
    assert len(blocks.take(counter, 1, 1)) == 3
    blocks.size_launches(0.0)
    assert len(blocks.take(counter, 1, 1)) == 1

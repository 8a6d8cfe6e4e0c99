"""How planes are shared out to the blocks of a device."""

from __future__ import annotations

import time
from itertools import product

import pytest
from sampling import ordinary

from tauslab.kernels.lattice.steps import MOST_PLANES, planes_of_a_block

H200 = 132 * 6  # blocks at the same time


# Planes of a launch, columns of a plane, and numbers of planes that took within 2 % of the least
# time of a step on an H200 (of 4, 6, ... 30): whole lattices of 256^3 and 256 x 128 x 128 sites and
# slabs of two, four and eight ranks.
@pytest.mark.parametrize(
    ("planes", "columns", "good"),
    [
        (256, 512, range(26, 31)),
        (126, 512, range(24, 31)),
        (62, 512, range(21, 28)),
        (30, 512, range(20, 31)),
        (256, 128, range(20, 31)),
        (126, 128, range(20, 31)),
        (62, 128, range(16, 21)),
        (512, 2048, range(26, 31)),
    ],
)
def test_the_segments_that_were_fastest_are_chosen(planes, columns, good):
    assert planes_of_a_block(planes, columns, H200) in good


@pytest.mark.parametrize("resident", ordinary([0, 1, 16, H200], 16, H200))
def test_segments_are_within_bounds(resident):
    for case in product([0, 1, 2, 5, 62, 256, 512], [1, 32, 512], [resident], [0.0, 0.2, 1.0]):
        assert 1 <= planes_of_a_block(*case) <= max(1, min(MOST_PLANES, case[0])), case


def test_few_filled_tiles_make_thin_segments():
    actual = [planes_of_a_block(62, 128, H200, filled) for filled in (0.1, 0.3, 1.0)]
    assert actual == sorted(actual)
    assert actual[0] < actual[-1]


def test_a_choice_takes_no_time():
    began = time.process_time()
    planes_of_a_block(8192, 4096, H200 + 1, 0.77)
    assert time.process_time() - began < 2

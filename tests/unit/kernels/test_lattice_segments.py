"""How planes are shared out to the blocks of a device."""

from __future__ import annotations

import math

import pytest

from tauslab.kernels.lattice.segments import planes_of_a_block

H200 = 132 * 7  # blocks at the same time


# Planes between the edges of a slab, tiles of a plane, and the segment that took the least time of
# three on H200s: 256 x 128 x 128 and 256^3 sites on four and two GPUs.
@pytest.mark.parametrize(
    ("planes", "tiles", "segment"), [(62, 32, 3), (62, 128, 9), (126, 32, 5), (126, 128, 9)]
)
def test_the_segments_that_were_fastest_are_chosen(planes, tiles, segment):
    assert planes_of_a_block(planes, tiles, H200) == segment


@pytest.mark.parametrize("planes", [1, 2, 5, 62, 256, 512])
@pytest.mark.parametrize("tiles", [1, 32, 512])
@pytest.mark.parametrize("filled", [0.0, 0.2, 1.0])
def test_segments_are_within_bounds_and_leave_no_round_nearly_empty(planes, tiles, filled):
    segment = planes_of_a_block(planes, tiles, H200, filled)
    assert 1 <= segment <= min(16, planes)
    rounds = math.ceil(-(-planes // segment) * tiles * filled / H200)
    thinner = [s for s in range(1, segment) if -(-planes // s) * tiles * filled / H200 <= rounds]
    assert not thinner, "a thinner segment takes as many rounds"


def test_few_filled_tiles_make_thin_segments():
    found = [planes_of_a_block(62, 128, H200, filled) for filled in (0.1, 0.3, 1.0)]
    assert found == sorted(found)
    assert found[0] < found[-1]

"""The depth of the halo that a run chooses."""

from __future__ import annotations

import pytest

from tauslab.decomposition.halo.depth import WAYS, Planes, Transport, choose_depth, step_seconds
from tauslab.decomposition.halo.links import TRANSPORTS
from tauslab.options.lattice import HALOS

PLANE = 8.2e-9 / 132  # seconds of a site on a GPU of 132 processors
SLAB = Planes(64, 256 * 256 * PLANE, 16 * 256 * 256)


@pytest.mark.parametrize("way", ["peer", "shared"])
def test_large_slabs_hide_their_messages_behind_their_own_planes(way):
    assert choose_depth(SLAB, WAYS[way]) == 1


def test_latency_makes_halos_deeper_up_to_what_a_slab_holds():
    small = Planes(16, 32 * 32 * PLANE, 16 * 32 * 32)
    depths = [
        choose_depth(small, Transport(latency, 1e10)) for latency in (0, 1e-6, 1e-5, 1e-4, 1e-3)
    ]
    assert depths == sorted(depths)
    assert depths[0] == 1
    assert depths[-1] == 4  # of 16 planes
    assert choose_depth(Planes(4, *_rest(small)), WAYS["host"]) == 1
    assert choose_depth(Planes(1, *_rest(small)), WAYS["host"]) == 1
    assert choose_depth(Planes(1000, *_rest(small)), Transport(1.0, 1e10)) == 8


def _rest(planes):
    return planes.seconds, planes.size


def test_slow_processors_do_not_repeat_planes():
    """On a core a plane of 64 x 64 sites takes longer than any message."""
    assert choose_depth(Planes(16, 64 * 64 * 1.2e-7, 16 * 64 * 64), WAYS["host"]) == 1


def test_bandwidth_is_no_reason_for_a_deeper_halo():
    assert choose_depth(Planes(16, 1e-6, 1e9), Transport(0, 1e10)) == 1


def test_the_depth_that_is_chosen_promises_the_shortest_step():
    slab = Planes(32, 64 * 64 * PLANE, 16 * 64 * 64)
    for way in WAYS.values():
        chosen = choose_depth(slab, way)
        times = [step_seconds(slab, way, depth) for depth in range(1, 9)]
        assert times[chosen - 1] <= min(times) / 0.95


def test_every_transport_can_be_chosen():
    assert set(HALOS) == {"self", *TRANSPORTS}

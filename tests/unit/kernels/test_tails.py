"""Few trajectories on a GPU share lanes, and firings compute what they change alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tauslab.kernels.backends.base import Style
from tauslab.kernels.exact.ssa import lanes_of
from tauslab.kernels.network.codegen import tails_of, unrolled_header
from tauslab.kernels.network.lowering import LoweredNetwork, lower
from tauslab.model.network.network import Network

STYLE = Style(branches=False, warp=32)


@dataclass
class Device:
    multiprocessors: int = 132
    style: Style = field(default_factory=lambda: STYLE)


def lowered(net: Network) -> LoweredNetwork:
    counts = {name: round(x) for name, x in net.initial_amounts(net.parameter_values()).items()}
    return lower(net, parameters=net.parameter_values(), counts=counts, varying=())


def slow_and_fast(slow: int) -> Network:
    """Reactions of species of their own, then a pair that goes back and forth."""
    net = Network("slow and fast")
    for i in range(slow):
        net.add_species(f"S{i}", 5)
        net.add_reaction(f"S{i} ->", rate=0.1)
    net.add_species("A", 100)
    net.add_species("B", 0)
    net.add_reaction("A -> B", rate=10.0)
    net.add_reaction("B -> A", rate=10.0)
    return net


def test_tails_change_nothing_before_them():
    network = lowered(slow_and_fast(20))
    tails = tails_of(network)
    assert tails
    for first, changed in tails:
        assert 0 < first < len(network.reactions)
        assert all(j >= changed for one in network.touched()[first:] for j in one)
    assert [list(one) for one in zip(*tails, strict=True)] == [
        sorted((one for one, _ in tails), reverse=True),
        sorted((one for _, one in tails), reverse=True),
    ]
    text = unrolled_header(network, STYLE, lanes=8)
    assert text.count("meanwhile();") == len(tails) + 1
    assert "LANES_OF_TRAJECTORY = 8" in text


def test_one_lane_has_no_tails():
    text = unrolled_header(lowered(slow_and_fast(20)), STYLE)
    assert text.count("meanwhile();") == 1
    assert "LANES_OF_TRAJECTORY = 1" in text


def test_reactions_that_all_change_all_have_no_tails():
    net = Network("together")
    net.add_species("X", 10)
    for i in range(8):
        net.add_reaction("X ->", rate=0.1, name=f"loss_{i}")
    assert not tails_of(lowered(net))


@pytest.mark.parametrize(
    ("trajectories", "lanes"),
    [(0, 1), (1, 32), (1056, 32), (1057, 16), (2112, 16), (2113, 8), (4225, 1)],
)
def test_lanes_for_few_trajectories(trajectories, lanes):
    assert lanes_of(Device(), trajectories) == lanes
    assert lanes_of(Device(style=Style(branches=True)), trajectories) == 1

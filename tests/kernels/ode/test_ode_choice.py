"""Where equations go, what they cost, and which layout is taken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ode_probe import CLOCK, system_of

from tauslab.kernels.ode.layouts.costs import PIPES
from tauslab.kernels.ode.layouts.layout_choice import (
    Wishes,
    choices,
    chosen,
    thread_choice,
    warps_choice,
)
from tauslab.kernels.ode.layouts.placement import Prices, place
from tauslab.model.errors import ConfigError
from tauslab.model.network.network import Network


def test_equations_are_balanced_and_complete():
    system = system_of(CLOCK)
    for warps in (2, 4):
        placement = place(system, warps, "single")
        together = sorted(v for group in placement.groups for v in group)
        assert together == list(range(len(system.variables)))
        assert placement.balance > 0.8


def test_as_many_equations_for_each_warp():
    system = system_of(CLOCK)
    groups = place(system, 3, "single", balance="equal").groups
    assert [len(group) for group in groups] == [5, 5, 6]
    assert sum(groups, ()) == tuple(range(16))
    by_cost = warps_choice(system, 3, Wishes("single"))
    assert by_cost.cost <= warps_choice(system, 3, Wishes("single", balance="equal")).cost


def test_a_cheap_equation_does_not_join_an_expensive_one():
    model = Network("uneven")
    for i in range(5):
        model.add_species(f"X{i}", 1.0)
        law = f"-X{i}" if i else "exp(X0) - pow(X0 + 0.5, 1.7) + sin(X0)"
        model.add_rate(f"X{i}", law)
    groups = place(system_of(model), 2, "double").groups
    assert (0,) in groups


def test_predictions_are_ordered_and_fit_the_device():
    system = system_of(CLOCK)
    found = choices(system, Wishes("single"))
    costs = [choice.cost for choice in found]
    assert costs == sorted(costs)
    assert {choice.warps for choice in found} == {1, 2, 4, 8, 16}
    for choice in found:
        assert 32 <= choice.trajectories <= 2048
        assert choice.trajectories // 32 * choice.warps <= 64
    assert (
        thread_choice(system, Wishes("single")).cost < thread_choice(system, Wishes("double")).cost
    )


def test_a_sequence_of_operations_costs_its_busiest_pipe():
    model = Network("busy")
    for name, law in (("X", "X * Y - Y"), ("Y", "1 / (1 + X)"), ("Z", "1 / (2 + Y)")):
        model.add_species(name, 1.0)
        model.add_rate(name, law)
    prices = Prices(system_of(model), "single")
    slots = prices.nodes([n for need in prices.needs for n in need], shared=False)
    assert slots[PIPES.index("special")] == 16  # an estimate of a reciprocal takes eight
    assert slots.max() == 16


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ({}, ("thread", 1, False)),
        ({"memory_warps": "on"}, ("thread", 1, True)),
        ({"layout": "warps", "warps": 5}, ("warps", 5, False)),
        ({"layout": "warps", "warps": 1, "memory_warps": "on"}, ("warps", 1, True)),
        ({"layout": "global"}, ("global", 1, False)),
    ],
)
def test_what_is_asked_for_is_taken(wishes, expected):
    choice = chosen(system_of(CLOCK), replace(Wishes("single"), **wishes))
    assert (choice.name, choice.warps, choice.memory) == expected
    assert 0 < choice.cost < 1000
    assert choice.name in str(choice)
    assert len(f"{choice.short}, measured 1.23e+04") <= 96  # what a file has room for
    if choice.in_blocks:
        assert 32 * choice.blocks <= choice.trajectories


def test_a_writing_warp_leaves_most_registers_to_the_others():
    alone, beside = (
        thread_choice(system_of(CLOCK), Wishes("single", memory_warps=m)) for m in ("off", "on")
    )
    assert 0.8 * alone.trajectories <= beside.trajectories < alone.trajectories
    assert beside.threads_of_a_block == beside.compute_threads + 32


def test_constants_that_registers_cannot_hold_go_to_shared_memory():
    model = Network("many")
    for i in range(100):
        model.add_parameter(f"k{i}", 1.0)
        model.add_species(f"X{i}", 1.0)
        model.add_rate(f"X{i}", f"-k{i} * X{i}")
    few, many = (system_of(model, varying=[f"k{i}" for i in range(n)]) for n in (5, 100))
    assert not chosen(few, Wishes("single", "thread")).shared_constants
    choice = chosen(many, Wishes("single", "thread"))
    assert choice.shared_constants
    assert choice.entry == "ode_threads"
    assert choice.bytes_of_a_block == 4 * 100 * choice.compute_threads


def test_few_trajectories_are_spread():
    """Where a multiprocessor gets one trajectory a lane, one warp would have it alone."""
    model = Network("wide")
    for i in range(120):
        model.add_species(f"X{i}", 1.0)
        model.add_rate(f"X{i}", f"1 / (1 + X{i} * X{i}) - X{i} * X{i} * X{i}")
    system = system_of(model)
    alone = chosen(system, Wishes("single", crowd=20))
    assert alone.name == "warps"
    assert alone.warps >= 4


def test_what_cannot_be_is_refused():
    system = system_of(CLOCK)
    with pytest.raises(ConfigError, match="there are 16 equations to spread"):
        chosen(system, Wishes("single", "warps", 17))
    model = Network("wide")
    for i in range(700):
        model.add_species(f"X{i}", 1.0)
        model.add_rate(f"X{i}", f"-X{i}")
    with pytest.raises(ConfigError, match="needs more shared memory"):
        chosen(system_of(model), Wishes("double", "warps", 4))
    with pytest.raises(ConfigError, match='with memory_warps="on" needs more shared memory'):
        chosen(system_of(model), Wishes("double", "thread", memory_warps="on"))

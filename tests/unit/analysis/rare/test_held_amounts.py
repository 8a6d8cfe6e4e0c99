"""Fixed species whose amounts are not whole, before and after those that react: rare events."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.analysis.rare.target import Target

AT = {"t_end": 1.0, "seed": 1, "device": "cpu"}


def made(*, first, amount=3.5):
    net = ts.Network("p")
    names = ("E", "X") if first else ("X", "E")
    for name in names:
        net.add_species(name, *((amount,) if name == "E" else (0,)), fixed=name == "E")
    net.add_reaction("E -> E + X", rate=2.0)
    return net


def tail(mean, least):
    return 1 - sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(least))


@pytest.mark.parametrize(
    ("first", "target", "least"),
    ordinary(
        [(True, "X >= 12", 12), (False, "X >= 3 * E + 1.5", 12), (False, "X >= 2 * E + 1.5", 9)],
        (False, "X >= 2 * E + 1.5", 9),
    ),
)
def test_rare_events_beside_an_amount_that_is_not_whole(target, first, least):
    exact = tail(7.0, least)
    actual = ts.weighted_ensemble(made(first=first), target=target, runs=8, **AT)
    assert abs(actual.estimate - exact) < 4 * actual.standard_error < exact


@pytest.mark.validate
def test_a_given_amount_is_that_of_the_target():
    net = made(first=True, amount=3)
    actual = ts.weighted_ensemble(net, target="X >= 3 * E + 1.5", set={"E": 3.5}, runs=8, **AT)
    assert abs(actual.estimate - tail(7.0, 12)) < 4 * actual.standard_error


def test_the_coordinate_of_a_function_is_told_the_amount():
    target = Target(made(first=True), "X >= 12", {})
    progress = target.coordinate(lambda values: values("X") * values("E"))
    assert progress(np.array([[0, 2]], np.int32)).tolist() == [7.0]
    with pytest.raises(ts.ConfigError, match=r"where E = 3\.5, X = 2"):
        target.coordinate(lambda values: values("X") * np.inf)(np.array([[0, 2]], np.int32))


def test_walkers_that_overflow_end_also_where_such_a_species_comes_first():
    net = ts.Network("overflow")
    net.add_species("E", 3.5, fixed=True)
    net.add_species("X", 2**31 - 2)
    net.add_reaction("E -> E + X", rate=20.0)
    with (
        pytest.warns(UserWarning, match="no walker reached"),
        pytest.warns(UserWarning, match="by overflow.*with 1 of the weight"),
    ):
        actual = ts.weighted_ensemble(net, target="X < 0", **AT)
    assert actual.estimate == 0

"""Runs that start from the last states of another one, and points of a sweep by their values."""

from __future__ import annotations

import pytest

import tauslab as ts
from tauslab.base.errors import ConfigError

HOW = {"device": "cpu", "times": [0.0, 1.0, 2.0], "quiet": True}


@pytest.mark.compiler
def test_equations_go_on_from_negative_values():
    """Values below 0 are no sign of a trajectory that ended, as counts are."""
    net = ts.Network("falling")
    net.add_species("V", 1.0)
    net.add_rate("V", "-2")
    first = ts.run(net, method="ode", **HOW)
    assert first["V"][0].tolist() == pytest.approx([1, -1, -3])
    again = ts.run(net, method="ode", initial=first, **HOW)
    assert again["V"][0].tolist() == pytest.approx([-3, -5, -7])


@pytest.mark.compiler
def test_what_waits_for_the_end_of_a_delay_is_not_lost_in_silence():
    """Molecules between two species, which no count of a last state has."""
    net = ts.Network("late")
    net.add_species("A", 10)
    net.add_species("B", 0)
    net.add_reaction("A -> B", rate=100.0, delay=5.0)
    net.add_event("feed", time=1.5, assignments={"B": 0})
    net.add_rule("before", "delay(A, 1)")
    first = ts.run(net, n=2, seed=1, **HOW)
    pending, past = "events that are still pending \\(R1\\)", "read \\(rule for before\\)"
    with pytest.warns(UserWarning, match=pending), pytest.warns(UserWarning, match=past):
        again = ts.run(net, n=2, seed=2, initial=first, **HOW)
    assert not again.final("A").any()
    assert not again.final("B").any()


@pytest.mark.compiler
@pytest.mark.parametrize("value", ["1", None, [1.0, 2.0], slice(0, 1)])
def test_a_point_is_chosen_by_one_number(value):
    pytest.importorskip("xarray")
    net = ts.Network("decay")
    net.add_species("X", 10)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    swept = ts.run(net, n=2, sweep={"k": [1.0, 2.0]}, seed=1, **HOW)
    with pytest.raises(ConfigError, match=r"k=.* is not allowed: one number"):
        swept.sel(k=value)
    assert swept.sel(k=swept.points["k"][1:].reshape(())).sizes["trajectory"] == 2

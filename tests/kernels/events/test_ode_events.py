"""Events of ordinary differential equations: found to the tolerance, in SBML's order."""

from __future__ import annotations

import numpy as np
import pytest
from event_models import everything
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError

TIMES = [0.0, 1.0, 2.0, 2.5, 2.999, 3.0, 4.0, 6.0, 6.5, 7.0]
TIGHT = {"rtol": 1e-9, "atol": 1e-12}


def run(net, times, solver="dopri5", n=1, **options):
    method = ts.ODE(solver=solver, **TIGHT)
    return ts.run(net, n=n, times=times, method=method, seed=1, device="cpu", **options)


def ball() -> ts.Network:
    """A ball that falls from 10 and keeps nine tenths of its speed when it bounces."""
    net = ts.Network("ball")
    net.add_species("h", 10)
    net.add_species("v", 0)
    net.add_rate("h", "v")
    net.add_rate("v", -9.81)
    net.add_event("bounce", trigger="h <= 0 && v < 0", assignments={"h": 0, "v": "-0.9 * v"})
    return net


def height(t: float) -> float:
    """Its height, by the formula."""
    g = 9.81
    bounced, v = np.sqrt(20 / g), 0.9 * np.sqrt(20 * g)
    if t <= bounced:
        return 10 - g * t * t / 2
    while bounced + 2 * v / g < t:
        bounced, v = bounced + 2 * v / g, 0.9 * v
    return float(v * (t - bounced) - g * (t - bounced) ** 2 / 2)


@pytest.mark.parametrize("solver", ordinary(["dopri5", "rosenbrock"], "rosenbrock"))
def test_triggers_are_found_to_the_tolerance(solver):
    times = np.linspace(0, 8, 17)
    actual = run(ball(), times, solver).amounts("h")[0]
    assert actual == pytest.approx([height(t) for t in times], abs=1e-7)


@pytest.fixture(scope="module")
def courses():
    return run(everything(), TIMES, n=200)


def test_order_delays_and_persistence(courses):
    def course(name):
        actual = courses.amounts(name)
        assert (actual == actual[0]).all()
        return actual[0].tolist()

    assert course("D") == [1, 1, 7, 7, 7, 10, 10, 10, 10, 10]
    assert course("D2") == [1, 1, 7, 7, 7, 70, 70, 70, 70, 70]
    assert course("T") == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    assert course("P") == [0] * 7 + [321] * 3
    assert course("S") == [100] * 7 + [101, 111, 111]


def test_equal_priorities_are_drawn_for_each_trajectory(courses):
    """One of the two alone: false alarms below 2^-198."""
    assert set(courses.amounts("Q")[:, -1].tolist()) == {1.0, 2.0}


def test_states_reset_at_their_triggers(courses):
    """X' = 9 from 0 to 10 and again; births and deaths that are washed out at 4."""
    t = np.array(TIMES)
    x = courses.amounts("X")[0] + 10 * courses.amounts("C")[0]
    assert x == pytest.approx(9 * t, abs=1e-7)
    a = np.where(t < 4, 11 * (1 - np.exp(-t / 2)), 40 * (1 - np.exp(-(t - 4) / 2)))
    assert courses.amounts("A")[0] == pytest.approx(a, abs=1e-6)


def test_a_trigger_that_is_left_at_once():
    """P falls from the value at which its trigger holds: it holds at 0 alone."""
    net = ts.Network("edge")
    net.add_species("p", 1)
    net.add_rate("p", -1)
    for name, initial in (("was", True), ("comes", False)):
        net.add_species(name, 0, fixed=True)
        net.add_event(name, trigger="p >= 1", assignments={name: 1}, initial=initial)
    actual = run(net, [0.0, 1.0])
    assert actual.amounts(["was", "comes"])[0].tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("times", [[0.0, 5.25, 6.0], [0.0, 6.0]])
def test_an_event_at_the_time_at_which_a_rate_jumps(times):
    """It comes at that time, not after it: a sample there sees it, and an instant is not missed."""
    net = ts.Network("jump")
    net.add_species("r", 0)
    net.add_rate("r", "if(time >= 5.25, 2, 1)")
    triggers = {"at": "time >= 5.25", "instant": "time == 5.25", "never": "r > 100"}
    for name, trigger in triggers.items():
        net.add_species(name, 0, fixed=True)
        net.add_event(name, trigger=trigger, assignments={name: "time"})
    actual = run(net, times).amounts(["at", "instant", "never"])[0]
    assert actual.tolist() == [[0, 0, 0], *[[5.25, 5.25, 0]] * (len(times) - 1)]


def test_fixed_steps_find_no_triggers():
    with pytest.raises(ConfigError, match=r'rk4" makes fixed steps .* use dopri5 or rosenbrock'):
        ts.run(ball(), n=1, times=[1.0], method=ts.ODE(solver="rk4"), device="cpu")

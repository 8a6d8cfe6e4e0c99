"""Models in which nothing reacts: rate rules, rules of the time, events."""

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.model.network.diagnosis.check import check_facts, report

STEPS = 1e-6  # the method allows 1e-7 a step


def decaying() -> ts.Network:
    """A decay, p' = -f p from -2.5; the event sets it to -3.5 when it has come up to -2."""
    net = ts.Network("decaying")
    net.add_species("p", -2.5)
    net.add_species("f", 0.3, fixed=True)
    net.add_rate("p", "-f * p")
    net.add_event("reset", trigger="p > -2", assignments={"p": "-3.5"})
    return net


def ran(net: ts.Network, **options: object) -> ts.Result:
    given = {"n": 2, "times": [0, 0.5, 1, 2], "record": "trajectories", "seed": 1, "device": "cpu"}
    return ts.run(net, **(given | options))


@pytest.mark.parametrize("method", ordinary(["ssa", "auto", "ode"], "ssa"))
def test_equations_and_an_event_are_solved(method: str) -> None:
    """The solution is exact: exponentials, and the event at log(2.5 / 2) / f."""
    result = ran(decaying(), method=method)
    times = np.array([0, 0.5, 1, 2])
    at = np.log(2.5 / 2) / 0.3
    want = np.where(times < at, -2.5 * np.exp(-0.3 * times), -3.5 * np.exp(-0.3 * (times - at)))
    assert np.asarray(result.mean("p")) == pytest.approx(want, rel=STEPS)
    assert np.asarray(result.mean("f")) == pytest.approx(0.3)
    assert (result.status == 0).all()


def test_values_may_be_swept_and_set() -> None:
    """A fixed quantity that is not whole is not rounded, however it is given."""
    net = decaying()
    net.events.clear()
    swept = ran(net, times=[0, 1], sweep={"f": [0.3, 0.6]}).mean("p")
    assert swept == pytest.approx(
        np.array([[-2.5, -2.5 * np.exp(-f)] for f in (0.3, 0.6)]), rel=1e-6
    )
    given = ran(net, times=[0, 1], set={"p": -1, "f": 0.5}).mean("p")
    assert given == pytest.approx([-1, -np.exp(-0.5)], rel=STEPS)


@pytest.mark.validate
@pytest.mark.parametrize("method", ["ssa", "ode"])
def test_a_sweep_moves_what_starts_with_its_parameter(method: str) -> None:
    """Also what nothing changes, wherever it is read; it may be negative or not whole."""
    net = ts.Network("led")
    net.add_parameter("k", 1)
    net.add_species("s", "-k", fixed=True)
    net.add_species("r", 0)
    net.add_species("v", 0, fixed=True)
    net.add_rate("r", "s")
    net.add_rule("twice", "2 * s")
    net.add_event("reads", trigger="time >= 1", assignments={"v": "3 * s"})
    swept = ran(net, method=method, times=[0, 2], sweep={"k": [1, 2.5, 5]})
    for name, factor in {"s": 1, "r": 2, "v": 3, "twice": 2}.items():
        assert swept.mean(name)[:, 1] == pytest.approx([-factor, -2.5 * factor, -5 * factor])


def test_one_trajectory_is_run_unless_more_are_asked_for() -> None:
    assert ran(decaying(), n=None).n == 1
    assert ran(decaying(), n=3).n == 3


def test_leaps_are_refused_and_the_check_says_what_runs() -> None:
    with pytest.raises(ts.ModelError, match="nothing leaps"):
        ran(decaying(), method="tau")
    assert check_facts(decaying())["methods"] == ["ssa", "ode"]
    assert any(line.startswith("nothing reacts") for line in report(decaying()))


@pytest.mark.parametrize("method", ordinary(["ssa", "auto", "ode"], "ode"))
@pytest.mark.parametrize("events", [0, 1])
def test_rules_of_the_time_need_no_species(method: str, events: int) -> None:
    net = ts.Network("none")
    net.add_parameter("k", 2.0)
    net.add_rule("y", "k * time")
    if events:
        net.add_event("nothing", trigger="y >= 1", assignments={})
    assert ran(net, method=method).mean("y") == pytest.approx([0, 1, 2, 4])
    assert {"ssa", "ode"} <= set(check_facts(net)["methods"])


def test_nothing_at_all_is_refused() -> None:
    net = ts.Network("none")
    net.add_event("nothing", trigger="time > 1", assignments={})
    with pytest.raises(ts.ModelError, match="no species"):
        ran(net)


def test_an_amount_that_rounds_to_nothing_counts_nothing() -> None:
    """Rounding errors of other programs, such as -1e-26, are no negative counts."""
    net = ts.Network("rounding")
    net.add_species("A", -1e-26)
    net.add_species("B", 5)
    net.add_reaction("B -> A", rate=1.0)
    with pytest.warns(UserWarning, match="rounded: A"):
        result = ran(net, times=[0, 1])
    assert result.mean("A")[0] == 0
    net = ts.Network("negative")
    net.add_species("A", -0.6)
    net.add_reaction("A ->", rate=1.0)
    with pytest.raises(ts.ModelError, match=r"initial amount -0\.6 is not allowed"):
        ran(net)

"""Triggers that are functions of the time which jump, or hold at single instants.

Every event counts how often it came; how often it has to is known without rounding.
"""

import numpy as np
import pytest

import tauslab as ts

TIMES = [0.0, 0.5, 3.0, 5.5, 6.0, 9.0, 10.5]  # some lie on jumps: a sample there is after the event
COUNTS = {
    "ceil(time / 3) >= 2": [0, 0, 0, 1, 1, 1, 1],  # just after 3
    "floor(time / 3) >= 2": [0, 0, 0, 0, 1, 1, 1],
    "time - 3 * floor(time / 3) == 1": [0, 0, 1, 2, 2, 3, 4],
    "time - 3 * floor(time / 3) == 0": [0, 0, 1, 1, 2, 3, 3],  # it holds at 0 from the beginning
    "time / 3 == floor(time / 3)": [0, 0, 1, 1, 2, 3, 3],
    "time / 0.1 == floor(time / 0.1)": [0, 5, 30, 55, 60, 90, 105],
    "time - 3 * floor(time / 3) != 1": [0, 0, 1, 2, 2, 3, 4],  # just after it
    "2 * (time - floor(time)) <= 0 && floor(time / 2) >= 1": [0, 0, 2, 4, 5, 8, 9],
    "abs(time - 4.00002) < 1e-9": [0, 0, 0, 1, 1, 1, 1],
    "sin(time) == 0.5": [0, 0, 2, 2, 2, 4, 4],
    "time > 0": [0, 1, 1, 1, 1, 1, 1],
    "sin(time) > 0": [0, 1, 1, 1, 1, 2, 2],
    "floor(time / 2) > Y": [0, 0, 1, 1, 1, 1, 1],
    # Changes of two periods that share a double: what holds after both of them counts.
    "floor(time / 0.1) - 3 * floor(time / 0.3) < 0": [0, 0, 0, 0, 0, 0, 0],
    "abs(floor(time / 0.1) - 3 * floor(time / 0.3)) == 1": [0, 2, 10, 19, 20, 30, 35],
    "time / 0.7 - floor(time / 0.7) > abs(time - 2.5)": [0, 0, 2, 2, 2, 2, 2],
}
METHODS = [
    "ssa",
    pytest.param("tau", marks=pytest.mark.validate),
    ts.ODE(solver="dopri5"),
    pytest.param(ts.ODE(solver="rosenbrock"), marks=pytest.mark.validate),
]


def counting() -> ts.Network:
    """An event for each trigger, with a counter; `Y` stays 0."""
    net = ts.Network("counting")
    net.add_species("X", 10)
    net.add_species("Y", 0)
    net.add_reaction("X ->", rate=0.1)
    for number, trigger in enumerate(COUNTS):
        net.add_species(f"d{number}", 0)
        net.add_event(f"e{number}", trigger=trigger, assignments={f"d{number}": f"d{number} + 1"})
    return net


@pytest.mark.parametrize("method", METHODS, ids=["ssa", "tau", "dopri5", "rosenbrock"])
def test_events_come_whenever_their_triggers_turn_true(method: str | ts.ODE) -> None:
    result = ts.run(counting(), n=1, times=TIMES, method=method, seed=1, device="cpu")
    for number, (trigger, counts) in enumerate(COUNTS.items()):
        assert result.mean(f"d{number}").tolist() == counts, trigger


def test_an_equality_whose_instants_are_not_known_names_its_event() -> None:
    net = ts.Network("unknown")
    net.add_species("X", 10)
    net.add_parameter("p", 3.0)
    net.add_reaction("X ->", rate=0.1)
    net.add_event("dose", trigger="time / p == floor(time / p)", assignments={"X": "X + 1"})
    with pytest.warns(UserWarning, match="event dose|differ between trajectories") as message:
        ts.run(net, n=1, times=[1.0], sweep={"p": [1.0, 2.0]}, seed=1, device="cpu")
    assert any("event dose" in str(one.message) for one in message)


def test_equations_compute_steps_of_the_time_as_the_host_does() -> None:
    """A rate that steps 100 times, each an exact integral; and 49 * (1 / 49) is below 1."""
    net = ts.Network("steps")
    net.add_species("X", 0)
    net.add_reaction("-> X", law="floor(time / 0.1)")
    net.add_rule("days", "floor(time / 49)")
    result = ts.run(net, times=[10.0, 49.0], method=ts.ODE(solver="dopri5"), device="cpu")
    assert result.mean("X")[0] == pytest.approx(495.0, rel=1e-12)
    assert np.array_equal(result["days"].ravel(), [0, 1])


@pytest.mark.parametrize("method", ["ssa", "tau", "ode"])
@pytest.mark.parametrize("event", [{"time": 29.0}, {"trigger": "time >= 29"}])
def test_a_sample_at_the_time_of_an_event_is_after_it_whatever_the_grid(method, event):
    """Sample 50 of 101 up to 58 is at 29; `numpy.linspace` gives 28.999999999999996."""
    assert np.linspace(0, 58, 101)[50] < 29
    net = ts.Network("dose")
    net.add_species("X", 0)
    net.add_reaction("X ->", rate=1e-9)
    net.add_event("dose", assignments={"X": 1000}, **event)
    given = {"n": 1, "seed": 1, "method": method, "device": "cpu"}
    result = ts.run(net, t_end=58, points=101, **given)
    assert result.times[50] == 29
    assert result.mean("X")[49:51] == pytest.approx([0, 1000])
    with pytest.warns(UserWarning, match="28.999999999999996 is before event dose at 29.0 by roun"):
        ts.run(net, times=np.linspace(0, 58, 101), **given)


@pytest.mark.parametrize("event", [{"time": "2 * d"}, {"trigger": "time >= w"}])
def test_samples_before_events_are_told_of_every_point(event):
    net = ts.Network("dose")
    net.add_species("X", 0)
    net.add_parameter("d", 14.5)
    net.add_parameter("w", "2 * d")
    net.add_reaction("X ->", rate=1e-9)
    net.add_event("dose", assignments={"X": 1000}, **event)
    given = {"times": np.linspace(0, 58, 101), "n": 1, "seed": 1, "device": "cpu"}
    with pytest.warns(UserWarning, match="event dose at 29.0 at points? 2, 4 by rounding alone"):
        ts.run(net, sweep={"d": [1.25, 3, 14.5, 20, 14.5]}, **given)
    with pytest.warns(UserWarning, match="event dose at 29.0 by rounding alone"):
        ts.run(net, **given)

"""Times at which what depends on the time alone jumps, or has a short pulse."""

import math

import numpy as np
import pytest

from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.infix import parse
from tauslab.model.network.diagnosis.moving_pulses import times_of_pulses
from tauslab.model.network.diagnosis.time_breaks import TimeBreaks, steps_of_time, time_breaks
from tauslab.model.network.network import Event, Network


def with_law(law: str) -> Network:
    net = Network("timed")
    net.add_species("X", 3)
    net.add_parameter("k", 2.0)
    net.add_reaction("-> X", law=law)
    return net


def found(law: str, end: float = 100.0) -> list[float]:
    net = with_law(law)
    return list(time_breaks(net, net.parameter_values(), end).times)


def test_jumps_of_floor_and_of_what_is_made_of_it() -> None:
    times = found("if(time - 10 * floor(time / 10) < 0.1, 100, 0)")
    expected = sorted([0.1 + 10 * k for k in range(10)] + [10.0 * k for k in range(1, 11)])
    assert np.allclose(np.unique(np.round(times, 9)), expected, rtol=0, atol=1e-12)
    assert max(times) < 100


def test_a_pulse_shorter_than_what_is_looked_at_is_found_by_its_floor() -> None:
    assert math.nextafter(40.0, 0) in found("1000 * (time - 40 * floor(time / 40) < 1e-5)")


@pytest.mark.parametrize(
    ("law", "times"),
    [
        ("X * (sin(time) > 0.5)", [math.pi / 6, 5 * math.pi / 6]),
        ("k * (k * time > 3)", [1.5]),  # a slope that is a parameter
        ("abs(time - 4) < 0.25", [3.75, 4.25]),
        ("if(floor(time) == 3, X, 0)", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ],
)
def test_the_last_times_before_jumps(law: str, times: list[float]) -> None:
    assert np.allclose(found(law, 6.0), times, rtol=0, atol=1e-12)


def test_of_many_jumps_those_that_are_seen_count() -> None:
    assert np.allclose(found("50 * (floor(time * 20) == 800)"), [40.0, 40.05], rtol=0, atol=1e-12)


def test_a_smooth_pulse_has_a_time_before_and_one_at_its_top() -> None:
    before, top = found("50 * exp(-((time - 50) / 0.1) ^ 2)")
    assert 49.3 < before < 49.7
    assert top == pytest.approx(50, abs=0.01)


@pytest.mark.parametrize(
    "law",
    [
        "k * (1 + sin(time))",
        "k * (1 + sin(300 * time))",
        "k * exp(-time)",
        "if(time < 3, k, 0) * X",  # linear: known without
        "k * time / (1 + time)",
        "1 / (1 + exp(-5 * (time - 50)))",  # no pulse: the other level is seen
        "k * X",
    ],
)
def test_nothing_is_added_where_steps_see_all(law: str) -> None:
    assert found(law) == []


def test_what_varies_is_unknown_and_its_known_parts_are_found() -> None:
    net = with_law("if(time - 10 * floor(time / 10) < k, 100, 0)")
    breaks = time_breaks(net, {}, 25.0)
    assert np.allclose(breaks.times, [10, 20], rtol=0, atol=1e-12)
    assert len(breaks.unknown) == 1
    assert len(steps_of_time(net)) == 2


def test_too_many_jumps_are_unknown() -> None:
    net = with_law("10 * (time - floor(time) < 0.5)")
    breaks = time_breaks(net, {}, 2000.0)
    assert breaks.times == ()
    assert len(breaks.unknown) == 1


@pytest.mark.parametrize(
    ("law", "times"),
    [
        ("1e5 * (abs(time - 71.23) < 1e-9)", [71.23 - 1e-9, 71.23 + 1e-9]),
        ("max(0, 1 - 1e9 * abs(time - 7))", [7 - 1e-9, 7.0, 7 + 1e-9]),  # it bends
        ("1e5 * ((time - 71.23) ^ 2 < 1e-12)", [71.229999, 71.230001]),
    ],
)
def test_pulses_shorter_than_the_grid(law: str, times: list[float]) -> None:
    assert found(law) == pytest.approx(times, rel=0, abs=2e-14)


def test_a_smooth_pulse_shorter_than_the_grid_has_a_step_that_ends_in_it() -> None:
    times = found("1e5 * exp(-((time - 71.23) / 1e-7) ^ 2)")
    assert any(abs(t - 71.23) < 2e-7 for t in times)


@pytest.mark.parametrize("end", [1e4, 1e5, 1e6])
def test_too_many_smooth_pulses_are_said(end: float) -> None:
    """Steps pass over them: 10 * max(0, sin(time) - 0.9) up to 1e4 made 0 events for 959."""
    for law in ("max(0, sin(time))", "10 * max(0, sin(time) - 0.9)", "max(0, 1 + 2 * sin(time))"):
        assert time_breaks(with_law(law), {}, end).unknown, law
    for law in ("1 + sin(time)", "exp(-time)", "1 / (1 + time)"):
        assert time_breaks(with_law(law), {}, end) == TimeBreaks(), law


def test_a_jump_right_after_0_has_no_subnormal_time() -> None:
    assert found("k * (ceil(time / 3) >= 2)", 10.0) == [0.0, 3.0, 6.0, 9.0]


def test_what_rounding_alone_parts_changes_at_one_double() -> None:
    """3 * 0.3 is below 0.9 in doubles: both relations together hold at one time or at none."""
    net = with_law("k")
    trigger = "time - 0.3 * floor(time / 0.3) == 0 && time - 0.9 * floor(time / 0.9) == 0"
    net.add_event("e", trigger=trigger, assignments={"X": "X + 1"})
    breaks = time_breaks(net, net.parameter_values(), 10.0)
    event = breaks.applied(net, all_tables=False).events[0]
    assert isinstance(event, Event)
    times = [t for k in range(1, 12) for t in _near(0.9 * k)]
    holds = [t for t in times if evaluate(event.trigger, {"time": t})]
    assert np.round(holds, 9).tolist() == [0.9 * k for k in range(1, 12)]


def _near(t: float) -> list[float]:
    """Doubles around a time."""
    actual = [t]
    for _ in range(12):
        actual = [math.nextafter(actual[0], 0), *actual, math.nextafter(actual[-1], math.inf)]
    return actual


def test_times_of_pulses_are_formulas_of_what_varies() -> None:
    def times(law: str, **values: float) -> list[float]:
        actual = times_of_pulses(parse(law), {"p", "w"}, {"a": 2.0})
        return sorted(evaluate(one, values) for one in actual)

    actual = times("a * w * exp(-((time - p) / w)^2) + time", p=50.0, w=0.1)
    assert actual[0] == pytest.approx(50 - 0.34, abs=0.05)
    assert actual[-1] == pytest.approx(50 + 0.34, abs=0.05)
    assert min(abs(t - 50) for t in actual) < 2e-3
    two = times("exp(-((time - p)^2 - 25)^2)", p=50.0)
    assert all(min(abs(t - top) for t in two) < 0.01 for top in (45, 55))
    for law in ("exp(-((time - p)^2 / w))", "1 / (1 + exp(p - time))", "sin(time - p)", "time / p"):
        assert not times_of_pulses(parse(law), {"p", "w"}, {})

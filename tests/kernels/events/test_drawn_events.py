"""A part of what fuzz_events.py does; and its interpreter of events, by the rules of SBML."""

from __future__ import annotations

import random
from fractions import Fraction

import fuzz_events
import numpy as np
import pytest
from fuzz_events import FALSE_ALARM, METHODS, Found, cases, fuzz, judge, largest_gap
from plain_events import (
    AmbiguousError,
    PlainEvent,
    PlainModel,
    PlainReaction,
    courses,
    one_solution,
)

TIMES = [Fraction(k, 2) for k in range(9)]


@pytest.mark.validate
def test_drawn_models(monkeypatch):
    """Another seed would raise a false alarm once in 1,000."""
    monkeypatch.setitem(fuzz_events.POINTS, "flow", 3)
    for kind in ("flow", "ties"):
        monkeypatch.setitem(fuzz_events.PARTS, kind, 4)
    actual = Found()
    fuzz(cases(5, ("ties", "flow"), 0, 1), METHODS, actual)
    assert actual.alarms() == []
    assert actual.models == {"ties": 16, "flow": 12}
    assert len(actual.chances) > 16
    assert actual.executions > 100


@pytest.mark.validate
def test_means_of_drawn_models(monkeypatch):
    """Means of one model with reactions, by `ssa` and `tau`."""
    monkeypatch.setitem(fuzz_events.PARTS, "reactions", 1)
    monkeypatch.setitem(fuzz_events.TRAJECTORIES, "reactions", 1000)
    monkeypatch.setattr(fuzz_events, "PLAIN_TRAJECTORIES", 60)
    actual = Found()
    fuzz(cases(5, ("reactions",), 0, 1), METHODS, actual)
    assert actual.alarms() == []
    assert len(actual.gaps) >= 8


def test_what_is_wrong_is_reported():
    """A course that is not allowed, and two that do not come as often as they should."""
    allowed = {((Fraction(1),),): Fraction(3, 4), ((Fraction(2),),): Fraction(1, 4)}
    actual = Found()
    judge(
        "even", np.repeat([1.0, 2.0], [300, 100])[:, None, None], allowed, exact=True, found=actual
    )
    assert actual.alarms() == []
    judge(
        "skewed",
        np.repeat([1.0, 2.0], [200, 200])[:, None, None],
        allowed,
        exact=True,
        found=actual,
    )
    judge("other", np.full((4, 1, 1), 3.0), allowed, exact=True, found=actual)
    assert [line.partition(":")[0] for line in actual.alarms()] == ["other", "skewed"]
    actual.gaps += [(largest_gap(2) - 0.1, "near"), (largest_gap(2) + 0.1, "far")]
    assert any(line.startswith("far") for line in actual.alarms())
    assert not any(line.startswith("near") for line in actual.alarms())
    assert largest_gap(1) == pytest.approx(3.29, abs=0.01)
    assert FALSE_ALARM == 1e-3


def solutions_of(*events: PlainEvent, rates=None, **start: float) -> dict[tuple[float, ...], float]:
    """Courses of ``x`` with their probabilities."""
    given = {name: Fraction(value) for name, value in start.items()}
    model = PlainModel({}, given, list(events), rates=rates or {})
    actual, _ = courses(model, TIMES, ["x"], counted=False)
    return {tuple(float(x) for (x,) in solution): float(p) for solution, p in actual.items()}


def event(name: str, trigger: object, to: object, **more: object) -> PlainEvent:
    return PlainEvent(name, trigger, (("x", to),), **more)


def test_equal_priorities_are_followed_with_their_probabilities():
    at = ("ge", "time", Fraction(1))
    three = [event(f"e{k}", at, Fraction(k)) for k in (1, 2, 3)]
    actual = solutions_of(*three, x=0)
    assert actual == {(0, 0, *[k] * 7): pytest.approx(1 / 3) for k in (1.0, 2.0, 3.0)}
    first = event("first", at, ("add", "x", Fraction(10)), priority=Fraction(1), early=False)
    late = event("late", at, ("mul", "x", Fraction(2)), early=False)
    assert solutions_of(late, first, x=1) == {(1, 1, *[22] * 7): 1}


def test_delays_values_and_events_that_are_taken_back():
    pulse = ("and", ("gt", "time", Fraction(1, 2)), ("lt", "time", Fraction(3, 2)))
    kept = event("kept", pulse, ("add", "x", Fraction(1)), delay=Fraction(5, 4))
    assert solutions_of(kept, x=0) == {(0, 0, 0, 0, *[1] * 5): 1}
    taken = event("taken", pulse, Fraction(9), delay=Fraction(5, 4), persistent=False)
    assert solutions_of(taken, x=0) == {(0,) * 9: 1}
    at = ("ge", "time", Fraction(1))
    sets = event("sets", ("ge", "time", Fraction(3, 2)), Fraction(5))
    for early, last in ((True, 2), (False, 10)):
        doubles = event("late", at, ("mul", "x", Fraction(2)), delay=Fraction(1), early=early)
        assert solutions_of(sets, doubles, x=1) == {(1, 1, 1, 5, *[last] * 5): 1}


def test_time_zero_just_after_and_what_moves():
    start = ("ge", "time", Fraction(0))
    assert solutions_of(event("was", start, Fraction(1)), x=0) == {(0,) * 9: 1}
    assert solutions_of(event("comes", start, Fraction(1), initial=False), x=0) == {(1,) * 9: 1}
    after = event("after", ("gt", "time", Fraction(1)), Fraction(1))
    assert solutions_of(after, x=0) == {(0, 0, 0, *[1] * 6): 1}
    falls = event("turns", ("le", "y", Fraction(1, 4)), Fraction(7))
    moving = solutions_of(falls, rates={"y": Fraction(-1)}, x=0, y=2)
    assert moving == {(0, 0, 0, 0, *[7] * 5): 1}
    # It crosses 1 where another event comes: with rounding either may be first.
    both = [event("one", ("le", "y", Fraction(1)), Fraction(1)),
            event("two", ("ge", "time", Fraction(1)), Fraction(2))]  # fmt: skip
    with pytest.raises(AmbiguousError, match="at a time that rounding enters"):
        solutions_of(*both, rates={"y": Fraction(-1)}, x=0, y=2)


def test_events_without_end_are_reported():
    flips = [event("up", ("lt", "x", Fraction(1)), Fraction(1), initial=False),
             event("down", ("ge", "x", Fraction(1)), Fraction(0))]  # fmt: skip
    with pytest.raises(AmbiguousError, match="without end"):
        solutions_of(*flips, x=0)


def test_the_plain_loop_draws_a_known_law():
    """Births at rate 4 until 2, washed out at 3: 400 means to 5 standard errors (6e-7)."""
    birth = PlainReaction("b", (("x", 1),), ("piecewise", 4.0, ("lt", "time", 2.0), 0.0))
    wash = PlainEvent("wash", ("ge", "time", 3.0), (("x", 0.0),))
    model = PlainModel({}, {"x": 0.0}, [wash], counts=frozenset("x"), reactions=[birth])
    dice = random.Random(1)
    actual = np.array([one_solution(model, [0.0, 1.0, 2.5, 3.0], ["x"], dice) for _ in range(400)])
    mean = actual[:, :, 0].mean(axis=0)
    assert mean[[0, 3]].tolist() == [0, 0]
    assert abs(mean[1] - 4) < 5 * 2 / 20
    assert abs(mean[2] - 8) < 5 * np.sqrt(8) / 20

"""Triggers of the time that jump, drawn at random, against an interpreter that shares no line."""

from __future__ import annotations

import random

import pytest
import timed_triggers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from timed_triggers import differences, drawn, table_differences


@settings(
    max_examples=6, derandomize=True, deadline=None, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.randoms(use_true_random=False))
def test_what_is_found_of_triggers(drawn_by):
    """Without a kernel: their values between all times at which something can happen."""
    assert table_differences(drawn(drawn_by, 6)) == []


@pytest.mark.validate
@pytest.mark.parametrize("seed", range(3))
def test_executions_of_drawn_triggers(seed):
    """Numbers of executions by `ssa`, `tau` and `ode`: a kernel each for 24 events.

    Not drawn by hypothesis, which finds delays that end where rounding decides.
    """
    assert differences(drawn(random.Random(seed), 24)) == []


def test_a_wrong_function_is_seen(monkeypatch):
    case = drawn(random.Random(1), 6)
    monkeypatch.setitem(timed_triggers._PLAIN, "floor", lambda x: x.__floor__() + 1)
    assert table_differences(case)

"""Bounds of functions in intervals hold what the functions are there."""

from __future__ import annotations

import numpy as np
import pytest

from tauslab.model.expressions.expression import FUNCTIONS
from tauslab.model.expressions.host_math import value_of
from tauslab.model.intervals import bounds_of_call

SPANS = (0.1, 1.0, 10.0, 300.0, 2000.0)
WIDTHS = (0.0, 1e-9, 0.1, 1.0, 10.0)
EXPONENTS = (2.0, 3.0, -1.0, -2.0, 0.5, 1.5, 0.0)


def interval(random, exponent):
    if exponent and random.random() < 0.6:
        return (float(random.choice(EXPONENTS)),) * 2
    span = float(random.choice(SPANS))
    low = float(random.uniform(-span, span))
    if random.random() < 0.2:
        low = round(low)
    return low, low + float(random.choice(WIDTHS)) * random.random()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_lie_within_bounds(function):
    random = np.random.default_rng(1)
    known = 0
    for _ in range(100):
        ends = [interval(random, function == "pow" and k) for k in range(FUNCTIONS[function])]
        low, high = bounds_of_call(function, *(tuple(map(np.array, zip(e))) for e in ends))
        if np.isnan(low[0]) or np.isnan(high[0]):
            continue
        known += 1
        for part in (0.0, 1.0, *random.random(4)):
            value = value_of(function, *(a + part * (b - a) if part < 1 else b for a, b in ends))
            assert low[0] <= value <= high[0], (function, ends, part)
    assert known > 5


def test_bounds_of_a_sine_hold_its_turning_points():
    low, high = bounds_of_call("sin", (np.array([0.0, 4.0, 1.0]), np.array([3.0, 5.0, 1e9])))
    assert (high[0], low[1], low[2], high[2]) == (1, -1, -1, 1)
    assert low[0] <= 0
    assert -0.7 > high[1] > -0.8

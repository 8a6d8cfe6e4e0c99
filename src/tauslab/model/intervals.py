"""Bounds of functions in intervals, for values that kernels compute in doubles.

Interval arithmetic (Moore 1966) on arrays.  What IEEE 754 rounds correctly, rounding included, is
monotonic: bounds of such an operation at the ends of its arguments hold for every computed value.
Of all other functions a kernel is at most 1 unit in the last place off
(docs/developers/portable-math.md) and the host here at most 3: their bounds are widened by
`_WIDER`, which is 8 units, powers by `_POWER`, sines by `_SINE`.  Bounds are the same bits on
every machine.  NaN stands for what is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.model.expressions.array_math import apply
from tauslab.model.portable import portable_exp, portable_log

Interval = tuple[FloatArray, FloatArray]  # least and most [interval]
Flags = npt.NDArray[np.bool_]

_WIDER = 2.0**-49  # of a value
_TINY = 2.0**-1060  # beside it, where values are not normal
_POWER = 2.0**-38  # of a power: exponents up to 745 carry the error of a logarithm
_SINE = 2.0**-46  # beside a sine, and what is made of exponentials
_LARGEST_ANGLE = 2.0**20  # beyond it a sine is anything from -1 to 1
_LARGEST_WHOLE_POWER = 16  # that kernels multiply out
# pi / 2 in three parts, the first two of 33 bits: multiples below 2^20 are exact.
_HALF_PI = (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624879595063154e-21)


def bounds_of_call(function: str, *arguments: Interval) -> Interval:
    """Least and most that a kernel computes for a function of arguments in intervals.

    >>> three = np.array([3.0])
    >>> low, high = bounds_of_call("mul", (np.array([-1.0]), np.array([2.0])), (three, three))
    >>> low.tolist(), high.tolist()
    ([-3.0], [6.0])
    """
    with np.errstate(all="ignore"):
        rule = _RULES.get(function)
        if rule is None:
            unknown = np.full_like(arguments[0][0], np.nan)
            return unknown, unknown
        return rule(*arguments)


def _widened(low: FloatArray, high: FloatArray, by: float = _WIDER) -> Interval:
    return low - (np.abs(low) * by + _TINY), high + (np.abs(high) * by + _TINY)


def _clipped(x: Interval, low: float, high: float) -> Interval:
    return np.clip(x[0], low, high), np.clip(x[1], low, high)


def _rising(function: Callable[[FloatArray], FloatArray], x: Interval) -> Interval:
    """Bound a non-decreasing function that IEEE 754 rounds correctly."""
    return function(x[0]), function(x[1])


def _rising_nearly(function: str, x: Interval) -> Interval:
    return _widened(apply(function, x[0]), apply(function, x[1]))


def _product(x: Interval, y: Interval) -> Interval:
    corners = [a * b for a in x for b in y]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _quotient(x: Interval, y: Interval) -> Interval:
    corners = [a / b for a in x for b in y]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    apart = (y[0] > 0) | (y[1] < 0)
    return np.where(apart, low, np.nan), np.where(apart, high, np.nan)


def _absolute(x: Interval) -> Interval:
    ends = np.abs(x[0]), np.abs(x[1])
    inside = (x[0] <= 0) & (x[1] >= 0)
    return np.where(inside, 0.0, np.minimum(*ends)), np.maximum(*ends)


def _exponential(x: Interval, by: float = _WIDER) -> Interval:
    low, high = (portable_exp(np.clip(end, -800.0, 800.0)) for end in x)
    low, high = _widened(low, high, by)
    return np.maximum(low, 0.0), high


def _logarithm(x: Interval) -> Interval:
    return _widened(portable_log(x[0]), portable_log(x[1]))


def _power(x: Interval, y: Interval) -> Interval:
    power = float(y[0].flat[0]) if y[0].size else 0.0
    whole = bool(np.all(y[0] == power) and np.all(y[1] == power)) and power == np.floor(power)
    if whole and abs(power) <= _LARGEST_WHOLE_POWER:
        base = _absolute(x) if power % 2 == 0 else x
        ends = _whole_power(base[0], int(abs(power))), _whole_power(base[1], int(abs(power)))
        ends = _widened(*ends, _POWER)  # an exponent that varies is not multiplied out
        return ends if power >= 0 else _quotient((np.ones_like(x[0]),) * 2, ends)
    exponents = [np.where(b == 0, 0.0, b * a) for a in map(portable_log, x) for b in y]
    ends = _exponential((np.minimum.reduce(exponents), np.maximum.reduce(exponents)), _POWER)
    known = x[0] >= 0
    return np.where(known, ends[0], np.nan), np.where(known, ends[1], np.nan)


def _whole_power(x: FloatArray, power: int) -> FloatArray:
    """By repeated squaring, as `tl_whole_power` of csrc/ensemble/rate_laws.h."""
    if power == 0:
        return np.ones_like(x)
    half = _whole_power(x, power // 2)
    return half * half if power % 2 == 0 else half * half * x


def _sine_at(x: FloatArray, quarters: int) -> FloatArray:
    """Sine of an angle plus `quarters` times pi / 2, to 1e-15."""
    number = np.rint(x / (_HALF_PI[0] + _HALF_PI[1]))
    r = ((x - number * _HALF_PI[0]) - number * _HALF_PI[1]) - number * _HALF_PI[2]
    square, sine, cosine = r * r, np.ones_like(x), np.ones_like(x)
    for k in range(18, 0, -2):
        sine = 1.0 - sine * square / (k * (k + 1.0))
        cosine = 1.0 - cosine * square / (k * (k - 1.0))
    quadrant = np.mod(number + quarters, 4.0)
    value = np.where(np.mod(quadrant, 2.0) == 1.0, cosine, sine * r)
    return np.where(quadrant >= 2.0, -value, value)


def _sine(quarters: int, x: Interval) -> Interval:
    small = (np.abs(x[0]) <= _LARGEST_ANGLE) & (np.abs(x[1]) <= _LARGEST_ANGLE)
    angles = np.where(small, x[0], 0.0), np.where(small, x[1], 0.0)
    ends = _sine_at(angles[0], quarters), _sine_at(angles[1], quarters)
    low, high = np.minimum(*ends) - _SINE, np.maximum(*ends) + _SINE
    low = np.where(small & ~_meets(x, 3 - quarters), low, -1.0)
    high = np.where(small & ~_meets(x, 1 - quarters), high, 1.0)
    known = np.isfinite(x[0]) & np.isfinite(x[1])
    ends = _clipped((low, high), -1.0, 1.0)
    return np.where(known, ends[0], np.nan), np.where(known, ends[1], np.nan)


def _meets(x: Interval, quarters: int, turn: float = 4.0) -> Flags:
    """Return whether `quarters` plus a multiple of `turn` (in pi / 2) may lie in between."""
    low, high = ((end / (_HALF_PI[0] + _HALF_PI[1]) - quarters) / turn for end in x)
    margin = 1e-9 * (1.0 + np.abs(high) + np.abs(low))
    return np.asarray(np.floor(high + margin) >= np.ceil(low - margin), np.bool_)


def _tangent(x: Interval) -> Interval:
    pole = _meets(x, 1, 2.0)
    low, high = _rising_nearly("tan", x)
    return np.where(pole, np.nan, low), np.where(pole, np.nan, high)


def _hyperbolic_tangent(x: Interval) -> Interval:
    low, high = (1.0 - 2.0 / (portable_exp(np.clip(2.0 * end, -800.0, 700.0)) + 1.0) for end in x)
    return _clipped((low - _SINE, high + _SINE), -1.0, 1.0)


def _cosh(x: Interval) -> Interval:
    low, high = _rising_nearly("cosh", _absolute(x))
    return np.maximum(low, 1.0), high


def _truth(yes: Flags, no: Flags) -> Interval:
    """1 where it is sure, 0 where it cannot be, and both elsewhere."""
    return np.where(yes, 1.0, 0.0), np.where(no, 0.0, 1.0)


def _less(x: Interval, y: Interval) -> Interval:
    return _truth(x[1] < y[0], x[0] >= y[1])


def _at_most(x: Interval, y: Interval) -> Interval:
    return _truth(x[1] <= y[0], x[0] > y[1])


def _equal(x: Interval, y: Interval) -> Interval:
    point = (x[0] == x[1]) & (y[0] == y[1]) & (x[0] == y[0])
    return _truth(point, (x[1] < y[0]) | (y[1] < x[0]))


def _not(x: Interval) -> Interval:
    return _truth((x[0] == 0) & (x[1] == 0), (x[0] > 0) | (x[1] < 0))


def _known(x: Interval) -> Interval:
    """A number as a truth."""
    return _not(_not(x))


def _and(x: Interval, y: Interval) -> Interval:
    (a, b), (c, d) = _known(x), _known(y)
    return np.minimum(a, c), np.minimum(b, d)


def _or(x: Interval, y: Interval) -> Interval:
    return _not(_and(_not(x), _not(y)))


def _unlike(x: Interval, y: Interval) -> Interval:
    (a, b), (c, d) = _known(x), _known(y)
    sure = (a == b) & (c == d)
    return _truth(sure & (a != c), sure & (a == c))


def _either(condition: Interval, yes: Interval, no: Interval) -> Interval:
    holds, may = _known(condition)
    low = np.where(holds == 1, yes[0], np.where(may == 0, no[0], np.minimum(yes[0], no[0])))
    high = np.where(holds == 1, yes[1], np.where(may == 0, no[1], np.maximum(yes[1], no[1])))
    return low, high


_RULES: Mapping[str, Callable[..., Interval]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "neg": lambda x: (-x[1], -x[0]),
    "mul": _product, "div": _quotient, "pow": _power, "abs": _absolute,
    "min": lambda x, y: (np.minimum(x[0], y[0]), np.minimum(x[1], y[1])),
    "max": lambda x, y: (np.maximum(x[0], y[0]), np.maximum(x[1], y[1])),
    "floor": partial(_rising, np.floor), "ceil": partial(_rising, np.ceil),
    "sqrt": partial(_rising, np.sqrt), "exp": _exponential, "log": _logarithm,
    "log10": partial(_rising_nearly, "log10"), "cbrt": partial(_rising_nearly, "cbrt"),
    "sin": partial(_sine, 0), "cos": partial(_sine, 1), "tan": _tangent,
    "asin": partial(_rising_nearly, "asin"), "atan": partial(_rising_nearly, "atan"),
    "acos": lambda x: _rising_nearly("acos", (x[1], x[0])),
    "sinh": partial(_rising_nearly, "sinh"), "cosh": _cosh, "tanh": _hyperbolic_tangent,
    "lt": _less, "le": _at_most, "gt": lambda x, y: _less(y, x), "ge": lambda x, y: _at_most(y, x),
    "eq": _equal, "ne": lambda x, y: _not(_equal(x, y)),
    "and": _and, "or": _or, "not": _not, "xor": _unlike, "if": _either,
}  # fmt: skip

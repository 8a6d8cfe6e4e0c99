"""Logarithms of arrays, each the double nearest to it: those of `host_math`, many at a time.

A number is m 2^k with m between sqrt(1/2) and sqrt(2), and log m = 2 artanh f with
f = (m - 1) / (m + 1). Pairs of doubles, whose sum is meant, give that to about 2^-85 (Dekker,
Numerische Mathematik 18, 1971). Where 2^-70 does not tell to which of two doubles the logarithm is
nearer, about once in 100,000 numbers, `host_math` computes it with 60 digits.
"""

from __future__ import annotations

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.model.expressions.host_math import value_of

# log(2) in three parts: the first two have 32 bits each, so that an exponent times one is exact.
_LN2 = (
    float.fromhex("0x1.62e42feep-1"),
    float.fromhex("0x1.a39ef356p-33"),
    float.fromhex("0x1.93c7673007e5fp-65"),
)
_SPLIT = 2.0**27 + 1
_TERMS = 17  # of the series: the first left out is below 2^-80 of the sum
_IN_PAIRS = 6  # of them; what follows is below 2^-22 of the sum
_ERROR = 2.0**-70
_FEW = 8  # numbers for which arrays are slower

Pair = tuple[FloatArray, FloatArray]


def rounded_log(x: FloatArray) -> FloatArray:
    """Natural logarithm of positive finite doubles, correctly rounded, f64 of the same shape."""
    flat = np.ascontiguousarray(x, np.float64).reshape(-1)
    if len(flat) < _FEW:
        return np.array([value_of("log", one) for one in flat.tolist()]).reshape(np.shape(x))
    high, low = _log(flat)
    margin = np.abs(high) * _ERROR
    out = high + (low - margin)
    for index in np.flatnonzero(out != high + (low + margin)).tolist():
        out[index] = value_of("log", float(flat[index]))
    return out.reshape(np.shape(x))


def _log(x: FloatArray) -> Pair:
    part, power = np.frexp(x)
    low = part < np.sqrt(0.5)
    m, k = np.where(low, 2 * part, part), np.where(low, power - 1, power).astype(np.float64)
    f = _quotient(_sum(m, -1.0), _sum(m, 1.0))
    square = _product(f, f)
    rest = np.full_like(x, 1.0 / (2 * _TERMS - 1))
    for term in range(_TERMS - 2, _IN_PAIRS - 1, -1):
        rest = rest * square[0] + 1.0 / (2 * term + 1)
    series: Pair = (rest, np.zeros_like(x))
    for term in range(_IN_PAIRS - 1, -1, -1):
        odd = 2.0 * term + 1.0
        one = 1.0 / odd
        # 1 / odd as a pair: the remainder of the division is exact.
        behind = _remainder(odd, one) / odd
        series = _add(_product(series, square), (np.full_like(x, one), np.full_like(x, behind)))
    value = _product((2 * f[0], 2 * f[1]), series)
    value = _add(value, (k * _LN2[2], np.zeros_like(x)))
    value = _add(value, (k * _LN2[1], np.zeros_like(x)))
    return _add(value, (k * _LN2[0], np.zeros_like(x)))


def _remainder(odd: float, one: float) -> float:
    """1 - odd * one, exactly."""
    high, low = _exact_product(np.array([odd]), np.array([one]))
    return float((1.0 - high[0]) - low[0])


def _sum(a: FloatArray, b: FloatArray | float) -> Pair:
    """The rounded sum and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _halves(a: FloatArray) -> Pair:
    """The upper and the lower 26 bits (Veltkamp)."""
    scaled = _SPLIT * a
    high = scaled - (scaled - a)
    return high, a - high


def _exact_product(a: FloatArray, b: FloatArray) -> Pair:
    """The rounded product and its rounding error (Dekker)."""
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _product(a: Pair, b: Pair) -> Pair:
    high, low = _exact_product(a[0], b[0])
    return _sum(high, low + (a[0] * b[1] + a[1] * b[0]))


def _add(a: Pair, b: Pair) -> Pair:
    high, low = _sum(a[0], b[0])
    high, low = _sum(high, low + (a[1] + b[1]))
    return high, low


def _quotient(a: Pair, b: Pair) -> Pair:
    first = a[0] / b[0]
    high, low = _exact_product(first, b[0])
    rest = ((a[0] - high) - low + a[1] - first * b[1]) / b[0]
    return _sum(first, rest)

"""Logarithms of arrays by IEEE operations alone, with the same bits on every machine."""

from __future__ import annotations

import numpy as np

from tauslab.base.arrays import FloatArray

_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 33 bits: its multiples by an exponent are exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_TERMS = 12  # of the series below sqrt(2): the first left out is below 2^-60
_HALF_LOG_2PI = float.fromhex("0x1.d67f1c864beb5p-1")
_SHIFT = 16  # what is added to arguments below it before Stirling's series
# B_2k / (2k (2k - 1)) for k = 1, 2, ... (Abramowitz and Stegun 6.1.41).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def portable_log(x: FloatArray) -> FloatArray:
    """Natural logarithm to 3 units in the last place; -inf of 0, NaN of negative numbers."""
    flat = np.ascontiguousarray(x, np.float64).reshape(-1)
    if len(flat) > 1 and np.isfinite(flat[0]) and (flat == flat[0]).all():
        return np.full(np.shape(x), _log(flat[:1])[0])  # a noise is often the same everywhere
    out = np.empty_like(flat)
    for begin in range(0, len(flat), _PIECE):
        out[begin : begin + _PIECE] = _log(flat[begin : begin + _PIECE])
    return out.reshape(np.shape(x))


_PIECE = 8192  # numbers whose intermediate results stay in a core's cache


def _log(x: FloatArray) -> FloatArray:
    part, power = np.frexp(np.where((x > 0) & np.isfinite(x), x, 1.0))
    low = part < np.sqrt(0.5)
    part, power = np.where(low, 2 * part, part), np.where(low, power - 1, power).astype(np.float64)
    f = (part - 1.0) / (part + 1.0)
    square = f * f
    total = np.zeros_like(f)
    for k in range(_TERMS, 0, -1):
        total += 1.0 / (2 * k + 1)
        total *= square
    value = power * _LN2_HIGH + (2.0 * f * (1.0 + total) + power * _LN2_LOW)
    value = np.where(np.isposinf(x), np.inf, value)
    return np.where(x > 0, value, np.where(x == 0, -np.inf, np.nan))


def portable_log_gamma(x: FloatArray) -> FloatArray:
    """Logarithm of the gamma function of positive numbers, by Stirling's series."""
    small = x < _SHIFT
    product = np.ones_like(x)
    for step in range(_SHIFT):
        product = np.where(small, product * (x + step), product)
    z = np.where(small, x + _SHIFT, x)
    square = 1.0 / (z * z)
    series = np.zeros_like(z)
    for coefficient in reversed(_STIRLING):
        series = series * square + coefficient
    value = (z - 0.5) * portable_log(z) - z + _HALF_LOG_2PI + series / z
    return value - portable_log(product)

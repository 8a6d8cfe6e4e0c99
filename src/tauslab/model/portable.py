"""Logarithms and exponentials of arrays that are the same bits on every machine.

They use integers, IEEE operations and `host_math` alone. Values of expressions are
`tauslab.model.expressions.host_math` and `array_math`. Kernels have the same functions in csrc/math
and csrc/random.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.model.expressions.host_math import value_of

_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # 33 bits: its multiples by an exponent are exact
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_LOG_TERMS = 12  # of the series below sqrt(2): the first left out is below 2^-60
_EXP_TERMS = 14  # of the series below ln(2) / 2: the first left out is below 2^-60
_PIECE = 8192  # numbers whose intermediate results stay in a core's cache
_HALF_LOG_2PI = float.fromhex("0x1.d67f1c864beb5p-1")
_SHIFT = 16  # what is added to arguments below it before Stirling's series
# B_2k / (2k (2k - 1)) for k = 1, 2, ... (Abramowitz and Stegun 6.1.41).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)

# Wichura's rational functions (algorithm AS 241): numerators and denominators, highest power first.
_CENTRE = (
    (
        2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
        13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608,
    ),
    (
        5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
        5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0,
    ),
)  # fmt: skip
_MIDDLE = (
    (
        7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
        1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
        4.6303378461565452959, 1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
        0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
        2.05319162663775882187, 1.0,
    ),
)  # fmt: skip
_TAIL = (
    (
        2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
        0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
        5.4637849111641143699, 6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
        7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
        0.59983220655588793769, 1.0,
    ),
)  # fmt: skip

# Of `rounded_log`: log(2) in three parts, the first two of 32 bits each, so that an exponent times
# one is exact.
_LN2 = (
    float.fromhex("0x1.62e42feep-1"),
    float.fromhex("0x1.a39ef356p-33"),
    float.fromhex("0x1.93c7673007e5fp-65"),
)
_SPLIT = 2.0**27 + 1
_PAIR_TERMS = 17  # of the series: the first left out is below 2^-80 of the sum
_IN_PAIRS = 6  # of them; what follows is below 2^-22 of the sum
_ERROR = 2.0**-70
_FEW = 8  # numbers for which arrays are slower

Pair = tuple[FloatArray, FloatArray]


def portable_log(x: FloatArray) -> FloatArray:
    """Natural logarithm to 3 units in the last place; -inf of 0, NaN of negative numbers."""
    flat = np.ascontiguousarray(x, np.float64).reshape(-1)
    if len(flat) > 1 and np.isfinite(flat[0]) and (flat == flat[0]).all():
        return np.full(np.shape(x), _log(flat[:1])[0])  # a noise is often the same everywhere
    return _in_pieces(_log, x)


def _log(x: FloatArray) -> FloatArray:
    part, power = np.frexp(np.where((x > 0) & np.isfinite(x), x, 1.0))
    low = part < np.sqrt(0.5)
    part, power = np.where(low, 2 * part, part), np.where(low, power - 1, power).astype(np.float64)
    f = (part - 1.0) / (part + 1.0)
    square = f * f
    total = np.zeros_like(f)
    for k in range(_LOG_TERMS, 0, -1):
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


def portable_exp(x: FloatArray) -> FloatArray:
    """Exponential by a series in IEEE operations, to 2 units in the last place."""
    return _in_pieces(_exp, x)


def normal_quantile(u: FloatArray) -> FloatArray:
    """Quantiles of the standard normal distribution at `u` in (0, 1), to about 1e-15 of each.

    Wichura, Applied Statistics 37, 477 (1988), algorithm AS 241.
    """
    return _in_pieces(_normal_quantile, u)


def _normal_quantile(u: FloatArray) -> FloatArray:
    q = u - 0.5
    result = q * _ratio(_CENTRE, 0.180625 - q * q)
    far = np.flatnonzero(np.abs(q) > 0.425)  # one number in seven
    root = np.sqrt(-_log(np.minimum(u[far], 1.0 - u[far])))
    tail = np.where(root <= 5.0, _ratio(_MIDDLE, root - 1.6), _ratio(_TAIL, root - 5.0))
    result[far] = np.where(q[far] < 0, -tail, tail)
    return result


def _ratio(polynomials: tuple[tuple[float, ...], tuple[float, ...]], x: FloatArray) -> FloatArray:
    above, below = (np.full_like(x, one[0]) for one in polynomials)
    for numerator, denominator in zip(polynomials[0][1:], polynomials[1][1:], strict=True):
        above *= x
        above += numerator
        below *= x
        below += denominator
    return above / below


def _in_pieces(function: Callable[[FloatArray], FloatArray], x: FloatArray) -> FloatArray:
    flat = np.ascontiguousarray(x, np.float64).reshape(-1)
    out = np.empty_like(flat)
    for begin in range(0, len(flat), _PIECE):
        out[begin : begin + _PIECE] = function(flat[begin : begin + _PIECE])
    return out.reshape(np.shape(x))


def _exp(x: FloatArray) -> FloatArray:
    power = np.rint(x / (_LN2_HIGH + _LN2_LOW))
    rest = (x - power * _LN2_HIGH) - power * _LN2_LOW
    total = np.ones_like(x)
    for k in range(_EXP_TERMS, 0, -1):
        total *= rest
        total /= k
        total += 1.0
    return np.ldexp(total, power.astype(np.int32))


def rounded_log(x: FloatArray) -> FloatArray:
    """Natural logarithm of positive finite doubles, correctly rounded, f64 of the same shape.

    These are the logarithms of `host_math`, many at a time.  A number is m 2^k with m between
    sqrt(1/2) and sqrt(2), and log m = 2 artanh f with f = (m - 1) / (m + 1).  Pairs of doubles,
    whose sum is meant, give that to about 2^-85 (Dekker, Numerische Mathematik 18, 1971).  Where
    2^-70 does not tell to which of two doubles the logarithm is nearer, about once in 100,000
    numbers, `host_math` computes it with 60 digits.
    """
    flat = np.ascontiguousarray(x, np.float64).reshape(-1)
    if len(flat) < _FEW:
        return np.array([value_of("log", one) for one in flat.tolist()]).reshape(np.shape(x))
    high, low = _log_pair(flat)
    margin = np.abs(high) * _ERROR
    out = high + (low - margin)
    for index in np.flatnonzero(out != high + (low + margin)).tolist():
        out[index] = value_of("log", float(flat[index]))
    return out.reshape(np.shape(x))


def _log_pair(x: FloatArray) -> Pair:
    part, power = np.frexp(x)
    low = part < np.sqrt(0.5)
    m, k = np.where(low, 2 * part, part), np.where(low, power - 1, power).astype(np.float64)
    f = _quotient(_sum(m, -1.0), _sum(m, 1.0))
    square = _product(f, f)
    rest = np.full_like(x, 1.0 / (2 * _PAIR_TERMS - 1))
    for term in range(_PAIR_TERMS - 2, _IN_PAIRS - 1, -1):
        rest = rest * square[0] + 1.0 / (2 * term + 1)
    series: Pair = (rest, np.zeros_like(x))
    for one in _one_over_odd():
        series = _add(_product(series, square), one)
    value = _product((2 * f[0], 2 * f[1]), series)
    for part_of_log in reversed(_LN2):
        value = _add(value, (k * part_of_log, 0.0))
    return value


@cache
def _one_over_odd() -> tuple[tuple[float, float], ...]:
    """1 / odd as pairs, from the last term to the first: the remainder of a division is exact."""
    result = []
    for term in range(_IN_PAIRS - 1, -1, -1):
        odd = 2.0 * term + 1.0
        one = 1.0 / odd
        high, low = _exact_product(np.array([odd]), np.array([one]))
        result.append((one, float((1.0 - high[0]) - low[0]) / odd))
    return tuple(result)


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


def _add(a: Pair, b: Pair | tuple[FloatArray | float, float]) -> Pair:
    high, low = _sum(a[0], b[0])
    high, low = _sum(high, low + (a[1] + b[1]))
    return high, low


def _quotient(a: Pair, b: Pair) -> Pair:
    first = a[0] / b[0]
    high, low = _exact_product(first, b[0])
    rest = ((a[0] - high) - low + a[1] - first * b[1]) / b[0]
    return _sum(first, rest)

"""Sums of real numbers as integers: exact in a window that the largest number places.

The axis of the powers of two is cut into places of 23 bits, from the lowest bit that a double can
have, 2^-1074. A finite double is a sum of at most four signed digits, one for each place that its
53 bits touch; its square, which 106 bits hold exactly, one of at most six. Digits of a place are
added as 64-bit integers, which 2^40 numbers, the most there can be, do not overflow. What is kept
for a quantity are the sums of the places in a window: of the numbers, the place of the highest bit
of the largest and the three below; of the squares, the seven that end where its square can.

The order of adding cannot matter. Which digits a number has is a function of that number alone,
where the window lies is a function of the largest alone, and nothing is carried from place to
place. A window moves up only: what leaves it below would be below the last window in any order.
The scheme is that of Demmel and Nguyen (2015, IEEE Trans. Comput. 64, 2060, "indexed" sums) with
integers for its bins.

A number loses what is below 2^-69 of the largest, a square what is below 2^-115 of the largest
square: equal numbers have the variance 0, and a number that loses anything is below 2^-16 of the
largest, so that their spread is large. So the mean of n numbers lacks at most n * 2^-67 of its own
standard error, and the variance n * 2^-66 of itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.kernels.ensemble.sums import DIGIT_BITS, SQUARE_DIGITS, SUM_DIGITS

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.object_]  # of Python

LOWEST_BIT = -1074  # exponent of the lowest bit of a double; places and bits are counted from it
_BITS = 1024 - LOWEST_BIT  # 2098: all that doubles have
_DIGIT = np.uint64((1 << DIGIT_BITS) - 1)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_FRACTION = np.uint64((1 << 52) - 1)
_SHIFTS = np.uint64(63)
_CELLS_AT_ONCE = 1 << 16
_VALUES_AT_ONCE = 1 << 14


def exponents(top: Words) -> IntArray:
    """Exponent of the unit of the lowest digit of a window with this `top`.

    A sum is that of ``digits[k] * 2^(exponent + 23 k)``, one of squares that of
    ``digits[k] * 2^(2 exponent + 23 + 23 k)``.
    """
    return DIGIT_BITS * (top.astype(np.int64) - SUM_DIGITS) + LOWEST_BIT


def tops(exponent: IntArray) -> Words:
    """The inverse of `exponents`."""
    return ((exponent - LOWEST_BIT) // DIGIT_BITS + SUM_DIGITS).astype(np.uint64)


def moved(digits: Words, up: Words) -> Words:
    """Digits ``[..., digit]`` in windows that lie `up` ``[...]`` places higher."""
    count = digits.shape[-1]
    if not up.any():
        return digits
    where = np.arange(count) + np.minimum(up, np.uint64(count)).astype(np.int64)[..., None]
    taken = np.take_along_axis(digits, np.minimum(where, count - 1), axis=-1)
    return np.where(where < count, taken, np.uint64(0))


def raised(sums: Words, squares: Words, top: Words, new: Words) -> tuple[Words, Words]:
    """Digits of windows with this `top` in windows with the top `new`, which is not lower."""
    up = new - top
    return moved(sums, up), moved(squares, up + up)


def moments(n: Words, top: Words, sums: Words, squares: Words) -> tuple[FloatArray, FloatArray]:
    """Mean and unbiased variance ``[...]``; NaN where `n` is 0, or below 2.

    Integers are divided once, so both are correctly rounded, unless they are below 2^-1022.

    Parameters
    ----------
    n, top
        Numbers that were added, and `top` of their window, ``[...]``.
    sums, squares
        Digits ``[..., 4]`` and ``[..., 7]``.
    """
    low, flat_sums = exponents(top).ravel(), sums.view(np.int64).reshape(-1, SUM_DIGITS)
    flat_squares = squares.reshape(-1, SQUARE_DIGITS)
    mean, variance = divided(
        n.ravel(), lambda cells: (whole(flat_sums[cells]), whole(flat_squares[cells]) << DIGIT_BITS)
    )
    with np.errstate(over="ignore", under="ignore"):
        mean, variance = np.ldexp(mean, low), np.ldexp(variance, 2 * low)
    return mean.reshape(n.shape), variance.reshape(n.shape)


def divided(
    n: Words, sums: Callable[[slice], tuple[Integers, Integers]]
) -> tuple[FloatArray, FloatArray]:
    """Mean and unbiased variance ``[cell]`` of `n` numbers, by exact sums and sums of squares.

    Numerators can pass 128 bits, so Python's integers divide them; a few cells at a time, since
    they take much memory.
    """
    mean, variance = np.full(n.size, np.nan), np.full(n.size, np.nan)
    for start in range(0, n.size, _CELLS_AT_ONCE):
        cells = slice(start, start + _CELLS_AT_ONCE)
        m, (s, q) = n[cells].astype(object), sums(cells)
        some, two = (np.flatnonzero(n[cells] > least) for least in (0, 1))
        mean[start + some] = (s[some] / m[some]).astype(np.float64)
        # What windows lost can make it negative where it is nearly 0.
        spread = np.maximum(m[two] * q[two] - s[two] * s[two], 0)
        variance[start + two] = (spread / (m[two] * (m[two] - 1))).astype(np.float64)
    return mean, variance


def whole(digits: npt.NDArray[Any]) -> Integers:
    """Sums ``[cell]`` of digits ``[cell, digit]``, in units of the lowest, as Python's integers."""
    parts = digits.astype(object)
    total: Integers = parts[:, -1]
    for k in range(digits.shape[1] - 2, -1, -1):
        total = (total << DIGIT_BITS) + parts[:, k]
    return total


def loses(top: Words, low: Words) -> npt.NDArray[np.bool_]:
    """Mask of sums whose values have bits below the window; `low` is as `add_reals` gives it."""
    lost: npt.NDArray[np.bool_] = (low > 0) & (1024 - low.astype(np.int64) < exponents(top))
    return lost


def add_reals(values: FloatArray, cuts: npt.NDArray[np.intp]) -> dict[str, Words]:
    """Sums as a device adds values ``[row, ...]``, for the rows from each cut to the next.

    Returns
    -------
    By name, each ``[cut, ...]``: ``n`` finite values; ``infinite`` ones; ``top``, 1 + the number
    of the highest place that a bit lies in; ``low``, 2098 - the number of the lowest bit that is
    set (both 0 where all values are 0); ``sum`` ``[cut, ..., 4]`` and ``sq`` ``[cut, ..., 7]``.
    """
    cells = math.prod(values.shape[1:])
    flat = np.ascontiguousarray(values, np.float64).reshape(len(values), cells)
    digits = {"sum": SUM_DIGITS, "sq": SQUARE_DIGITS}
    shapes: dict[str, tuple[int, ...]]
    shapes = {k: (len(cuts), cells) for k in ("n", "infinite", "top", "low")}
    shapes |= {name: (count, len(cuts), cells) for name, count in digits.items()}
    sums = {name: np.zeros(shape, np.uint64) for name, shape in shapes.items()}
    for rows, where, own in _pieces(flat, cuts):
        for name, part in _range(_Numbers(rows), own).items():
            np.maximum(sums[name][where], part, out=sums[name][where])
    for rows, where, own in _pieces(flat, cuts):
        size, lengths = _Numbers(rows), np.diff(own, append=len(rows))
        top = np.repeat(sums["top"][where], lengths, axis=0)
        for name, part in _digit_sums(size, top, own).items():
            sums[name][..., where, :] += part
    lead = (len(cuts), *values.shape[1:])
    return {
        name: np.moveaxis(part, 0, -1).reshape(*lead, -1) if name in digits else part.reshape(lead)
        for name, part in sums.items()
    }


class _Numbers:
    """Values as whole numbers below 2^53, zeros where not finite, times powers of two."""

    def __init__(self, values: FloatArray) -> None:
        bits = values.view(np.uint64)
        field = (bits >> np.uint64(52)).astype(np.int64) & 0x7FF
        self.finite = field < 0x7FF
        self.infinite = np.isinf(values)
        self.negative = np.signbit(values)
        whole = bits & _FRACTION
        whole += (field > 0).astype(np.uint64) << np.uint64(52)
        self.whole = whole * self.finite
        self.place = np.maximum(field - 1, 0)


def _pieces(
    values: FloatArray, cuts: npt.NDArray[np.intp]
) -> Iterator[tuple[FloatArray, slice, npt.NDArray[np.intp]]]:
    """Rows that a processor's cache holds, the cuts that they belong to, and where these begin."""
    step = max(1, _VALUES_AT_ONCE // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        stop = min(start + step, len(values))
        first, end = np.searchsorted(cuts, [start, stop - 1], side="right")
        yield (
            values[start:stop],
            slice(first - 1, end),
            np.maximum(cuts[first - 1 : end] - start, 0),
        )


def _range(numbers: _Numbers, cuts: npt.NDArray[np.intp]) -> dict[str, Words]:
    """The highest bits, which place the windows, and the lowest bits."""
    whole, place = numbers.whole, numbers.place
    top = (place + _exponent(whole)) // DIGIT_BITS + 1
    low = _BITS - place - _exponent(whole & (~whole + np.uint64(1)))
    largest = {"top": top * (whole > 0), "low": low * (whole > 0)}
    return {
        name: np.maximum.reduceat(part, cuts, axis=0).astype(np.uint64)
        for name, part in largest.items()
    }


def _digit_sums(numbers: _Numbers, top: Words, cuts: npt.NDArray[np.intp]) -> dict[str, Words]:
    """Numbers of values, and sums of digits in the windows of each row's `top`, digits first."""
    base = DIGIT_BITS * (top.astype(np.int64) - SUM_DIGITS)
    minus = ~numbers.negative.astype(np.uint64) + np.uint64(1)  # all bits where negative
    words = _moved(np.zeros_like(numbers.whole), numbers.whole, numbers.place - base)
    sums = [sum_rows((_digit(words, k) ^ minus) - minus, cuts) for k in range(SUM_DIGITS)]
    # A place of the numbers is two of squares, and the lowest is one above twice that of numbers.
    words = _moved(*_square(numbers.whole), 2 * (numbers.place - base) - DIGIT_BITS)
    squares = [sum_rows(_digit(words, k), cuts) for k in range(SQUARE_DIGITS)]
    counted = {"n": sum_rows(numbers.finite, cuts), "infinite": sum_rows(numbers.infinite, cuts)}
    return counted | {"sum": np.stack(sums), "sq": np.stack(squares)}


def sum_rows(values: npt.NDArray[Any], cuts: npt.NDArray[np.intp]) -> Words:
    """Sums modulo 2^64 over the rows from each cut to the next; other axes may be empty."""
    if not values.size:
        return np.zeros((len(cuts), *values.shape[1:]), np.uint64)
    return np.add.reduceat(values, cuts, axis=0, dtype=np.uint64)


def _exponent(number: Words) -> IntArray:
    """Place of the highest bit of whole numbers below 2^53, which a double holds; -1 for 0."""
    return np.frexp(number.astype(np.float64))[1].astype(np.int64) - 1


def _square(number: Words) -> tuple[Words, Words]:
    """Squares of whole numbers below 2^53, as their high and low words."""
    a, b = number >> _HALF, number & _LOW
    low = b * b
    middle = np.uint64(2) * a * b + (low >> _HALF)
    return a * a + (middle >> _HALF), (middle << _HALF) | (low & _LOW)


def _moved(high: Words, low: Words, shift: IntArray) -> tuple[Words, Words, Words]:
    """``high * 2^64 + low`` moved up by `shift` bits, or down, as three words, the lowest first."""
    down = np.clip(-shift, 0, 127).astype(np.uint64)
    low, high = np.where(down > 63, high, low), high * (down < 64)
    down &= _SHIFTS
    # Two shifts, since one by 64 bits is none.
    low = (low >> down) | (high << np.uint64(1) << (_SHIFTS - down))
    high >>= down
    low *= shift > -128
    up = np.clip(shift, 0, 127).astype(np.uint64)
    far = up > 63
    words = np.where(far, np.uint64(0), low), np.where(far, low, high), high * far
    up &= _SHIFTS
    lower = [word >> np.uint64(1) >> (_SHIFTS - up) for word in words[:2]]
    return words[0] << up, words[1] << up | lower[0], words[2] << up | lower[1]


def _digit(words: tuple[Words, Words, Words], k: int) -> Words:
    """Digit k."""
    first, bit = divmod(k * DIGIT_BITS, 64)
    digit = words[first] >> np.uint64(bit)
    if bit > 64 - DIGIT_BITS:
        digit |= words[first + 1] << np.uint64(64 - bit)
    return digit & _DIGIT

"""The times at which a run is sampled."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray, doubles
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.options.values.checks import within

DEFAULT_POINTS = 101
MOST_POINTS = 10_000_000
_FEW = 1024  # sample times that are kept for the next call
_EXACT = 1 << 52  # half of the numbers below which doubles are exact: a sum of two is exact too


def sample_times(
    times: npt.ArrayLike | None = None,
    t_end: float | None = None,
    points: int | None = None,
    *,
    model_t_end: float | None = None,
    decimal: bool = False,
) -> FloatArray:
    """Sample times: as given, one or several, or `points` of them from 0 to the end, both included.

    Parameters
    ----------
    decimal
        Whether events or rates of the model are at times that users write, so that samples at these
        times must be rounded in the same way: `even_times`.

    Raises
    ------
    ConfigError
        Times that are not increasing finite numbers of 0 or above, an end that is not above 0,
        fewer than 2 points, both forms at once, or no end time anywhere.
    """
    if times is not None:
        if t_end is not None or points is not None:
            raise ConfigError(
                f"give either the sample times, or {opt('t_end')} and {opt('points')}, not both"
            )
        return _given_times(times)
    end = t_end if t_end is not None else model_t_end
    if end is None:
        raise ConfigError(
            f"the model has no end time of its own: give one, for example {assigned('t_end')}10"
        )
    if isinstance(end, np.ndarray) and end.ndim == 0:
        end = end[()]
    if not isinstance(end, int | float | np.number) or isinstance(end, bool):
        raise ConfigError(f"{assigned('t_end')}{end!r} is not allowed: a number")
    try:
        end = float(end)
    except OverflowError:
        end = math.inf
    if not (math.isfinite(end) and end > 0):
        raise ConfigError(f"{assigned('t_end')}{end:g} is not allowed: a finite time above 0")
    count = DEFAULT_POINTS if points is None else points
    within("points", count, 2, MOST_POINTS)
    even = even_times if decimal else np.linspace
    result = _kept(even, end, count).copy() if count <= _FEW else even(0.0, end, count)
    if end / count < sys.float_info.min and not (np.diff(result) > 0).all():
        raise ConfigError(
            f"{assigned('t_end')}{end:g} is so near to 0 that {count} sample times up to it are "
            f"not all different: give fewer {opt('points')}, or time in a smaller unit"
        )
    return result


def even_times(first: float, last: float, count: int) -> FloatArray:
    """Times f64 ``[count]`` at equal intervals, both ends included, as a user writes them.

    Each is the double that is next to its decimal number, so that an event at 29 is at sample 50 of
    101 up to 58. `numpy.linspace` gives 28.999999999999996. It is used where whole numbers of 53
    bits do not hold the fractions.
    """
    (a, b), (c, d) = (Decimal(repr(float(t))).as_integer_ratio() for t in (first, last))
    if max(abs(a) * d, abs(c) * b, b * d) * count > _EXACT:
        return np.linspace(first, last, count)
    k = np.arange(count, dtype=np.float64)
    return np.asarray(((count - 1 - k) * (a * d) + k * (c * b)) / (b * d * (count - 1)))


@lru_cache(maxsize=16)
def _kept(even: Callable[..., FloatArray], end: float, count: int) -> FloatArray:
    return even(0.0, end, count)


def _given_times(times: npt.ArrayLike) -> FloatArray:
    try:
        array = doubles(times)
    except ValueError as error:
        raise ConfigError(f"sample times {error}") from None
    if array.ndim == 0:
        array = array[None]
    if array.ndim != 1 or array.size < 1:
        raise ConfigError("sample times must be a list of one or more numbers")
    if not np.isfinite(array).all() or array[0] < 0:
        bad = array[~(np.isfinite(array) & (array >= 0))][0]
        raise ConfigError(f"sample time {bad:g} is not allowed: finite and 0 or above")
    steps = np.diff(array)
    if not (steps > 0).all():
        k = int(np.flatnonzero(~(steps > 0))[0])
        raise ConfigError(
            f"sample times must increase: {array[k + 1]:g} (number {k + 2}) follows {array[k]:g}"
        )
    return array

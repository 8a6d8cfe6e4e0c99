"""From accumulators to the datasets of /statistics, and from recorded samples to accumulators."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.runner.output.layout import Accumulators, HistogramSpec, Layout

FloatArray = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_LIMIT = 2.0**47  # real quantities beyond are not counted, as on the device


def zero_accumulators(layout: Layout) -> Accumulators:
    """Accumulators that nothing was added to."""
    return {name: np.zeros(shape, np.uint64) for name, shape in layout.accumulator_shapes().items()}


def add_accumulators(total: Accumulators, more: Accumulators) -> None:
    """Add `more` to `total` in place, modulo 2^64."""
    for name, values in more.items():
        total[name] += values


def statistics_contents(layout: Layout, totals: Accumulators) -> dict[str, npt.NDArray[Any]]:
    """Arrays of all datasets under /statistics, by their names.

    The derived mean and variance are correctly rounded quotients of exact integers; the variance
    divides by n - 1. They are NaN where n is 0, or below 2.
    """
    contents: dict[str, npt.NDArray[Any]] = {}
    if layout.statistics:
        n, total = totals["n"], totals["sum"]
        high, low = _wide(totals["sq_low"], totals["sq_high"], np.zeros_like(total))
        contents |= {"n": n, "sum": total.view(np.int64), "sumsq_hi": high, "sumsq_lo": low}
        exact = _objects(np.zeros_like(total), total)  # counts are not negative, nor are their sums
        moments = _moments(n[:, None], exact, _objects(high, low), 0)
        contents["mean"], contents["variance"] = moments
    if layout.statistics and layout.observables:
        contents |= _observables(layout, totals)
    for spec in layout.histograms:
        contents[f"histogram/{spec.species}"] = totals[f"histogram/{spec.species}"]
    return {f"statistics/{name}": values for name, values in contents.items()}


def _observables(layout: Layout, totals: Accumulators) -> dict[str, npt.NDArray[Any]]:
    n = totals["obs_n"]
    rest = totals["obs_sum_high"]
    sign = (rest.view(np.int64) >> 63).view(np.uint64)
    sum_high, sum_low = _wide(totals["obs_sum_low"], rest, sign)
    square_high, square_low = _wide(totals["obs_sq0"], totals["obs_sq1"], np.zeros_like(n))
    square_high = square_high + totals["obs_sq2"]
    signed = sum_high.view(np.int64)
    scale = np.asarray(layout.observable_scale, np.int64)
    moments = _moments(n, _objects(signed, sum_low), _objects(square_high, square_low), scale)
    arrays = {
        "n": n,
        "sum_hi": signed,
        "sum_lo": sum_low,
        "sumsq_hi": square_high,
        "sumsq_lo": square_low,
        "mean": moments[0],
        "variance": moments[1],
    }
    return {f"observables/{name}": values for name, values in arrays.items()}


def _wide(low: Words, middle: Words, top: Words) -> tuple[Words, Words]:
    """``low + middle * 2^32 + top * 2^96`` as the high and low words of 128 bits."""
    words = low + (middle << _HALF)
    carry = (words < low).astype(np.uint64)
    return (middle >> _HALF) + (top << _HALF) + carry, words


def _objects(high: npt.NDArray[Any], low: Words) -> npt.NDArray[np.object_]:
    """128-bit integers as Python's; `high` may be signed."""
    wide: npt.NDArray[np.object_] = high.astype(object) * (1 << 64) + low.astype(object)
    return wide


def _moments(
    n: Words, total: npt.NDArray[np.object_], squares: npt.NDArray[np.object_], scale: Any
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance from exact sums; numerators can pass 128 bits, so Python's integers."""
    numbers = np.broadcast_to(n, total.shape)
    whole = numbers.astype(object)
    mean = np.full(total.shape, np.nan)
    variance = np.full(total.shape, np.nan)
    some, two = numbers > 0, numbers > 1
    mean[some] = (total[some] / whole[some]).astype(np.float64)
    spread = whole[two] * squares[two] - total[two] * total[two]
    variance[two] = (spread / (whole[two] * (whole[two] - 1))).astype(np.float64)
    return np.ldexp(mean, -scale), np.ldexp(variance, -2 * scale)


def accumulate(layout: Layout, arrays: dict[str, npt.NDArray[Any]]) -> Accumulators:
    """Accumulators of recorded samples, equal to those that a device adds up.

    Parameters
    ----------
    arrays
        ``counts`` i32 ``[m, time, species]``; ``observables`` f64 ``[m, time, observable]`` where
        there are any.
    """
    counts, sums = arrays["counts"], zero_accumulators(layout)
    if layout.statistics:
        valid = counts >= 0
        values = np.where(valid, counts, 0).astype(np.uint64)
        if layout.species:
            sums["n"] += valid[:, :, 0].sum(0, dtype=np.uint64)
        sums["sum"] += values.sum(0, dtype=np.uint64)
        values *= values
        sums["sq_low"] += (values & _LOW).sum(0, dtype=np.uint64)
        sums["sq_high"] += (values >> _HALF).sum(0, dtype=np.uint64)
    if layout.statistics and layout.observables:
        _add_reals(sums, arrays["observables"], np.asarray(layout.observable_scale, np.int64))
    for spec in layout.histograms:
        column = counts[:, :, layout.species.index(spec.species)]
        sums[f"histogram/{spec.species}"] += _cells(column, spec)
    return sums


def _add_reals(sums: Accumulators, values: FloatArray, scale: npt.NDArray[np.int64]) -> None:
    with np.errstate(over="ignore"):
        scaled = np.ldexp(values, scale)
    valid = np.abs(scaled) < _LIMIT
    whole = np.rint(np.where(valid, scaled, 0.0)).astype(np.int64)
    size = np.abs(whole).astype(np.uint64)
    top, rest = size >> _HALF, size & _LOW
    square = rest * rest
    cross = np.uint64(2) * top * rest + (square >> _HALF)
    parts = {
        "obs_n": valid.astype(np.uint64),
        "obs_sum_low": whole.view(np.uint64) & _LOW,
        "obs_sum_high": (whole >> 32).view(np.uint64),
        "obs_sq0": square & _LOW,
        "obs_sq1": cross & _LOW,
        "obs_sq2": top * top + (cross >> _HALF),
    }
    for name, part in parts.items():
        sums[name] += part.sum(0, dtype=np.uint64)


def _cells(column: npt.NDArray[np.int32], spec: HistogramSpec) -> Words:
    """Cells ``[time, bins + 2]`` of counts ``[m, time]``."""
    cells = np.searchsorted(spec.edges, column, side="right")
    width, times = spec.bins + 2, column.shape[1]
    index = (cells + np.arange(times) * width)[column >= 0]
    return np.bincount(index, minlength=times * width).reshape(times, width).astype(np.uint64)

"""From accumulators to the datasets of /statistics, and from recorded samples to accumulators."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.runner.output.layout import Accumulators, HistogramSpec, Layout, RealGroup

FloatArray = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_CELLS_AT_ONCE = 1 << 16
_LIMIT = 2.0**47  # real quantities beyond are not counted, as on the device


def zero_accumulators(layout: Layout) -> Accumulators:
    """Accumulators that nothing was added to."""
    return {name: np.zeros(shape, np.uint64) for name, shape in layout.accumulator_shapes().items()}


def add_accumulators(total: Accumulators, more: Accumulators, where: slice = slice(None)) -> None:
    """Add `more` to `total` in place, modulo 2^64; in a sweep, at the points `where`."""
    for name, values in more.items():
        total[name][where] += values


def statistics_contents(layout: Layout, totals: Accumulators) -> dict[str, npt.NDArray[Any]]:
    """Arrays of all datasets under /statistics, by their names.

    The derived mean and variance are correctly rounded quotients of exact integers; the variance
    divides by n - 1. They are NaN where n is 0, or below 2.
    """
    contents: dict[str, npt.NDArray[Any]] = {}
    if layout.statistics and layout.amounts:
        contents["n"] = totals["obs_n"].max(axis=-1)
    elif layout.statistics:
        n, total = totals["n"], totals["sum"]
        high, low = _wide(totals["sq_low"], totals["sq_high"], np.zeros_like(total))
        contents |= {"n": n, "sum": total.view(np.int64), "sumsq_hi": high, "sumsq_lo": low}
        contents["mean"], contents["variance"] = count_moments(n[..., None], total, high, low)
    for group in layout.real_groups if layout.statistics else ():
        contents |= _reals(layout, group, totals)
    for spec in layout.histograms:
        contents[f"histogram/{spec.species}"] = totals[f"histogram/{spec.species}"]
    return {f"statistics/{name}": values for name, values in contents.items()}


def count_moments(n: Words, total: Words, high: Words, low: Words) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of counts from exact sums; those of squares are ``high * 2^64 + low``.

    Where all numbers are below 2^53, doubles divide them as exactly as Python's integers do.
    """
    n = np.broadcast_to(n, total.shape)
    mean, variance = np.full(total.shape, np.nan), np.full(total.shape, np.nan)
    # Products of 64 bits wrap, so the sizes are first estimated in doubles.
    near = n.astype(np.float64) * np.maximum(low.astype(np.float64), n)
    small = (high == 0) & (near < 2.0**53) & (total < np.uint64(2**53))
    rest = ~small
    some, two = small & (n > 0), small & (n > 1)
    mean[some] = total[some].astype(np.float64) / n[some]
    spread = n[two] * low[two] - total[two] * total[two]  # at most n * low
    variance[two] = spread.astype(np.float64) / (n[two] * (n[two] - np.uint64(1)))
    wide = np.zeros_like(total[rest]), total[rest]  # counts are not negative, nor are their sums
    mean[rest], variance[rest] = _exact_moments(n[rest], wide, (high[rest], low[rest]))
    return mean, variance


def _reals(
    layout: Layout, group: RealGroup, all_totals: Accumulators
) -> dict[str, npt.NDArray[Any]]:
    totals = {k: v[..., group.where] for k, v in all_totals.items() if k.startswith("obs_")}
    n = totals["obs_n"]
    rest = totals["obs_sum_high"]
    sign = (rest.view(np.int64) >> 63).view(np.uint64)
    sum_high, sum_low = _wide(totals["obs_sum_low"], rest, sign)
    square_high, square_low = _wide(totals["obs_sq0"], totals["obs_sq1"], np.zeros_like(n))
    square_high = square_high + totals["obs_sq2"]
    signed = sum_high.view(np.int64)
    scale = np.asarray(layout.observable_scale[group.where], np.int64)
    mean, variance = _exact_moments(n, (signed, sum_low), (square_high, square_low))
    arrays = {
        "n": n,
        "sum_hi": signed,
        "sum_lo": sum_low,
        "sumsq_hi": square_high,
        "sumsq_lo": square_low,
        "mean": np.ldexp(mean, -scale),
        "variance": np.ldexp(variance, -2 * scale),
    }
    return {f"{group.name}/{name}": values for name, values in arrays.items()}


def _wide(low: Words, middle: Words, top: Words) -> tuple[Words, Words]:
    """``low + middle * 2^32 + top * 2^96`` as the high and low words of 128 bits."""
    words = low + (middle << _HALF)
    carry = (words < low).astype(np.uint64)
    return (middle >> _HALF) + (top << _HALF) + carry, words


def _exact_moments(
    n: Words, total: tuple[npt.NDArray[Any], Words], squares: tuple[Words, Words]
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance from exact sums of 128 bits, each its high and low words.

    Numerators can pass 128 bits, so Python's integers divide them; a few cells at a time, since
    those take much memory.
    """
    mean, variance = np.full(n.size, np.nan), np.full(n.size, np.nan)
    words = [part.ravel() for part in (n, *total, *squares)]
    for start in range(0, n.size, _CELLS_AT_ONCE):
        cells = slice(start, start + _CELLS_AT_ONCE)
        m, high, low, square_high, square_low = (part[cells].astype(object) for part in words)
        s, q = high * (1 << 64) + low, square_high * (1 << 64) + square_low
        some, two = (np.flatnonzero(words[0][cells] > least) for least in (0, 1))
        mean[start + some] = (s[some] / m[some]).astype(np.float64)
        spread = m[two] * q[two] - s[two] * s[two]
        variance[start + two] = (spread / (m[two] * (m[two] - 1))).astype(np.float64)
    return mean.reshape(n.shape), variance.reshape(n.shape)


def accumulate(layout: Layout, arrays: dict[str, npt.NDArray[Any]], start: int = 0) -> Accumulators:
    """Accumulators of recorded samples, equal to those that a device adds up.

    Parameters
    ----------
    arrays
        ``counts`` i32 ``[m, time, species]`` or ``amounts`` f64; ``observables`` f64
        ``[m, time, observable]`` where there are any.
    start
        Trajectory of the first row, which tells the points of a sweep.

    Returns
    -------
    Those of the layout; in a sweep of the points only that the rows belong to.
    """
    rows = len(arrays["amounts" if layout.amounts else "counts"])
    cuts = _point_cuts(layout, start, rows)
    counts = arrays.get("counts", np.zeros((rows, len(layout.times), 0), np.int32))
    sums: Accumulators = {}
    if layout.statistics:
        valid = counts >= 0
        values = np.where(valid, counts, 0).astype(np.uint64)
        if layout.counted:
            sums["n"] = _sum(valid[:, :, 0], cuts)
        else:
            sums["n"] = np.zeros((len(cuts), len(layout.times)), np.uint64)
        sums["sum"] = _sum(values, cuts)
        values *= values
        sums["sq_low"] = _sum(values & _LOW, cuts)
        sums["sq_high"] = _sum(values >> _HALF, cuts)
    if layout.statistics and layout.reals:
        scale = np.asarray(layout.observable_scale, np.int64)
        reals = np.concatenate([arrays[group.name] for group in layout.real_groups], axis=-1)
        sums |= _add_reals(reals, scale, cuts)
    for spec in layout.histograms:
        column = counts[:, :, layout.species.index(spec.species)]
        sums[f"histogram/{spec.species}"] = _cells(column, spec, cuts)
    return sums if layout.per_sum else {name: values[0] for name, values in sums.items()}


def _point_cuts(layout: Layout, start: int, rows: int) -> npt.NDArray[np.intp]:
    """Rows with which points begin, the first row included."""
    per = layout.per_sum
    if not per:
        return np.zeros(1, np.intp)
    begins = np.arange(start // per + 1, -(-(start + rows) // per)) * per - start
    return np.concatenate([[0], begins]).astype(np.intp)


def _sum(values: npt.NDArray[Any], cuts: npt.NDArray[np.intp]) -> Words:
    """Sums over the rows of each point; `values` may be empty along other axes."""
    if not values.size:
        return np.zeros((len(cuts), *values.shape[1:]), np.uint64)
    return np.add.reduceat(values, cuts, axis=0, dtype=np.uint64)


def _add_reals(
    values: FloatArray, scale: npt.NDArray[np.int64], cuts: npt.NDArray[np.intp]
) -> Accumulators:
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
    return {name: _sum(part, cuts) for name, part in parts.items()}


def _cells(column: npt.NDArray[np.int32], spec: HistogramSpec, cuts: npt.NDArray[np.intp]) -> Words:
    """Cells ``[point, time, bins + 2]`` of counts ``[m, time]``."""
    cells = np.searchsorted(spec.edges, column, side="right")
    width, times, points = spec.bins + 2, column.shape[1], len(cuts)
    point = np.repeat(np.arange(points), np.diff(cuts, append=len(column)))
    index = (cells + (point[:, None] * times + np.arange(times)) * width)[column >= 0]
    counted = np.bincount(index, minlength=points * times * width).astype(np.uint64)
    return counted.reshape(points, times, width)

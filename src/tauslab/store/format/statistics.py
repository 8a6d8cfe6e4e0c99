"""From accumulators to the datasets of /statistics, and from recorded samples to accumulators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.options.record import HistogramSpec
from tauslab.store.format import windows
from tauslab.store.format.layout import Accumulators, Layout, RealGroup
from tauslab.store.format.windows import add_reals, sum_rows

if TYPE_CHECKING:
    from tauslab.decomposition.ranks.mpi import Communicator

FloatArray = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_CELLS_AT_ONCE = 1 << 16
_GROUPS_AT_ONCE = 1 << 16  # of sums over groups, so that those of counts do not wrap
_LARGEST = ("obs_top", "obs_low")  # merged as maxima; other sums are added


def zero_accumulators(layout: Layout) -> Accumulators:
    """Accumulators that nothing was added to."""
    return {name: np.zeros(shape, np.uint64) for name, shape in layout.accumulator_shapes().items()}


def add_accumulators(total: Accumulators, more: Accumulators, where: slice = slice(None)) -> None:
    """Add `more` to `total` in place; in a sweep, at the points `where`.

    The order of such additions does not matter. Sums of counts are added modulo 2^64. Where `total`
    has room for more than 2^32 trajectories and `more` is of a launch, which has fewer, words of 64
    bits are cut into halves that are added apart: those of 2^31 launches fit.
    """
    if "sum_high" in total and "sum_high" not in more:
        more = _halves(more)
    if "obs_top" in more:
        more = _in_one_window(total, more, where)
    for name, values in more.items():
        cells = total[name][where]
        (np.maximum if name in _LARGEST else np.add)(cells, values, out=cells)


def add_groups(total: Accumulators, groups: Accumulators) -> None:
    """Add sums of groups of trajectories, the first axis of `groups`, to `total` in place."""
    for start in range(0, len(next(iter(groups.values()), ())), _GROUPS_AT_ONCE):
        sums = {name: values[start : start + _GROUPS_AT_ONCE] for name, values in groups.items()}
        if "obs_top" in sums:
            sums = _raised(sums, sums["obs_top"].max(axis=0))
        both = {
            name: values.max(axis=0) if name in _LARGEST else values.sum(axis=0, dtype=np.uint64)
            for name, values in sums.items()
        }
        add_accumulators(total, both)


def sum_over_ranks(comm: Communicator, sums: Accumulators) -> Accumulators:
    """Sums of all ranks together, on every rank. Collective."""
    if "obs_top" in sums:
        sums = _raised(sums, comm.max_uint64(sums["obs_top"]))
    return {
        name: (comm.max_uint64 if name in _LARGEST else comm.sum_uint64)(values)
        for name, values in sorted(sums.items())
    }


def _halves(sums: Accumulators) -> Accumulators:
    """Sums of a launch as those of a layout with room for more trajectories."""
    sums = dict(sums)
    total, low, high = (sums[name] for name in ("sum", "sq_low", "sq_high"))
    sums |= {"sum": total & _LOW, "sum_high": total >> _HALF}
    middle = (low >> _HALF) + (high & _LOW)
    return sums | {"sq_low": low & _LOW, "sq_high": middle, "sq_top": high >> _HALF}


def _in_one_window(total: Accumulators, more: Accumulators, where: slice) -> Accumulators:
    """`more`, after its windows and those of `total`, in place, were raised to the higher one."""
    own = {name: total[name][where] for name in ("obs_top", "obs_sum", "obs_sq")}
    top = np.maximum(own["obs_top"], more["obs_top"])
    if (top != own["obs_top"]).any():
        for name, values in _raised(own, top).items():
            own[name][...] = values
    return _raised(more, top) if (top != more["obs_top"]).any() else more


def _raised(sums: Accumulators, top: Words) -> Accumulators:
    """Sums with their windows at `top`, which is nowhere lower than theirs."""
    digits = windows.raised(sums["obs_sum"], sums["obs_sq"], sums["obs_top"], top)
    raised = np.broadcast_to(top, sums["obs_top"].shape)
    return sums | {"obs_top": raised, "obs_sum": digits[0], "obs_sq": digits[1]}


def statistics_contents(layout: Layout, totals: Accumulators) -> dict[str, npt.NDArray[Any]]:
    """Arrays of all datasets under /statistics, by their names.

    The derived mean and variance are correctly rounded quotients of exact integers; the variance
    divides by n - 1. They are NaN where n is 0, or below 2.
    """
    contents: dict[str, npt.NDArray[Any]] = {}
    if layout.statistics and layout.amounts:
        contents["n"] = totals["obs_n"].max(axis=-1)
    elif layout.statistics:
        contents |= _counts(totals)
    for group in layout.real_groups if layout.statistics else ():
        contents |= _reals(layout, group, totals)
    for spec in layout.histograms:
        contents[f"histogram/{spec.species}"] = totals[f"histogram/{spec.species}"]
    return {f"statistics/{name}": values for name, values in contents.items()}


def cancelled(layout: Layout, totals: Accumulators) -> list[str]:
    """Real quantities whose mean may lack more than 2^-40 of itself somewhere."""
    n, top, lowest, sums, squares = (
        totals[f"obs_{name}"] for name in ("n", "top", "low", "sum", "sq")
    )
    lost = windows.loses(top, lowest)
    if not lost.any():
        return []
    mean, _ = windows.moments(n[lost], top[lost], sums[lost], squares[lost])
    rough = np.zeros_like(lost)
    rough[lost] = np.abs(mean) < np.ldexp(1.0, windows.exponents(top[lost]) + 40)
    found = rough.reshape(-1, len(layout.reals)).any(axis=0)
    return [layout.reals[index] for index in np.flatnonzero(found)]


def _counts(totals: Accumulators) -> dict[str, npt.NDArray[Any]]:
    n, total, total_high = totals["n"], totals["sum"], None
    high, low = _wide(totals["sq_low"], totals["sq_high"])
    contents: dict[str, npt.NDArray[Any]] = {}
    if "sum_high" in totals:
        total_high, total = _wide(total, totals["sum_high"])
        high = high + totals["sq_top"]
        contents["sum_hi"] = total_high.view(np.int64)
    mean, variance = count_moments(n[..., None], total, high, low, total_high)
    contents |= {"n": n, "sum": total.view(np.int64), "sumsq_hi": high, "sumsq_lo": low}
    return contents | {"mean": mean, "variance": variance}


def count_moments(
    n: Words, total: Words, high: Words, low: Words, total_high: Words | None = None
) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of counts from exact sums; those of squares are ``high * 2^64 + low``.

    The sums are ``total_high * 2^64 + total``. Where all numbers are below 2^53, doubles divide
    them as exactly as Python's integers do.
    """
    n = np.broadcast_to(n, total.shape)
    total_high = np.zeros_like(total) if total_high is None else total_high
    mean, variance = np.full(total.shape, np.nan), np.full(total.shape, np.nan)
    # Products of 64 bits wrap, so the sizes are first estimated in doubles.
    near = n.astype(np.float64) * np.maximum(low.astype(np.float64), n)
    small = (high == 0) & (near < 2.0**53) & (total < np.uint64(2**53)) & (total_high == 0)
    rest = ~small
    some, two = small & (n > 0), small & (n > 1)
    mean[some] = total[some].astype(np.float64) / n[some]
    spread = n[two] * low[two] - total[two] * total[two]  # at most n * low
    variance[two] = spread.astype(np.float64) / (n[two] * (n[two] - np.uint64(1)))
    wide = total_high[rest], total[rest]  # counts are not negative, nor are their sums
    mean[rest], variance[rest] = _exact_moments(n[rest], wide, (high[rest], low[rest]))
    return mean, variance


def _reals(
    layout: Layout, group: RealGroup, all_totals: Accumulators
) -> dict[str, npt.NDArray[Any]]:
    where = (*[slice(None)] * len(layout.sum_lead), slice(None), group.where)
    n, infinite, top, lowest, sums, squares = (
        np.ascontiguousarray(all_totals[f"obs_{name}"][where])
        for name in ("n", "infinite", "top", "low", "sum", "sq")
    )
    mean, variance = windows.moments(n, top, sums, squares)
    arrays = {
        "n": n,
        "infinite": infinite,
        "exponent": windows.exponents(top),
        "lowest": 1024 - lowest.astype(np.int64),
        "sum": sums.view(np.int64),
        "sumsq": squares,
        "mean": mean,
        "variance": variance,
    }
    return {f"{group.name}/{name}": values for name, values in arrays.items()}


def _wide(low: Words, middle: Words) -> tuple[Words, Words]:
    """``low + middle * 2^32`` as the high and low words of 128 bits."""
    words = low + (middle << _HALF)
    return (middle >> _HALF) + (words < low).astype(np.uint64), words


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
    rows = len(
        next(arrays[name] for name in ("counts", "amounts", "observables") if name in arrays)
    )
    cuts = _point_cuts(layout, start, rows)
    counts = arrays.get("counts", np.zeros((rows, len(layout.times), 0), np.int32))
    sums: Accumulators = {}
    if layout.statistics:
        valid = counts >= 0
        values = np.where(valid, counts, 0).astype(np.uint64)
        if layout.counted:
            sums["n"] = sum_rows(valid[:, :, 0], cuts)
        else:
            sums["n"] = np.zeros((len(cuts), len(layout.times)), np.uint64)
        sums["sum"] = sum_rows(values, cuts)
        values *= values
        sums["sq_low"] = sum_rows(values & _LOW, cuts)
        sums["sq_high"] = sum_rows(values >> _HALF, cuts)
    if layout.statistics and layout.reals:
        reals = np.concatenate([arrays[group.name] for group in layout.real_groups], axis=-1)
        sums |= real_sums(reals, cuts)
    for spec in layout.histograms:
        column = counts[:, :, layout.species.index(spec.species)]
        sums[f"histogram/{spec.species}"] = _cells(column, spec, cuts)
    return sums if layout.per_sum else {name: values[0] for name, values in sums.items()}


def real_sums(values: FloatArray, cuts: npt.NDArray[np.intp]) -> Accumulators:
    """Accumulators ``[cut, ...]`` of real values ``[row, ...]``, over the rows from each cut on."""
    return {f"obs_{name}": part for name, part in add_reals(values, cuts).items()}


def moments_of_sums(sums: Accumulators) -> tuple[FloatArray, FloatArray]:
    """Mean and unbiased variance ``[...]`` of real quantities."""
    return windows.moments(*(sums[f"obs_{name}"] for name in ("n", "top", "sum", "sq")))


def _point_cuts(layout: Layout, start: int, rows: int) -> npt.NDArray[np.intp]:
    """Rows with which points begin, the first row included."""
    per = layout.per_sum
    if not per:
        return np.zeros(1, np.intp)
    begins = np.arange(start // per + 1, -(-(start + rows) // per)) * per - start
    return np.concatenate([[0], begins]).astype(np.intp)


def _cells(column: npt.NDArray[np.int32], spec: HistogramSpec, cuts: npt.NDArray[np.intp]) -> Words:
    """Cells ``[point, time, bins + 2]`` of counts ``[m, time]``."""
    cells = np.searchsorted(spec.edges, column, side="right")
    width, times, points = spec.bins + 2, column.shape[1], len(cuts)
    point = np.repeat(np.arange(points), np.diff(cuts, append=len(column)))
    index = (cells + (point[:, None] * times + np.arange(times)) * width)[column >= 0]
    counted = np.bincount(index, minlength=points * times * width).astype(np.uint64)
    return counted.reshape(points, times, width)

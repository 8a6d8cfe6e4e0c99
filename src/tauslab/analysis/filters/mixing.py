"""Convergence of chains: rank-normalised R-hat, and effective sizes of bulk and tails.

Vehtari, Gelman, Simpson, Carpenter and Bürkner, Bayesian Analysis 16, 667 (2021), as ArviZ and Stan
have them. Rows are chains ``[chain, step]``, which are cut in halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.model.portable import normal_quantile

_TAILS = (0.05, 0.95)
_FEWEST = 4  # steps of a chain that halves need


def rhat(rows: FloatArray) -> float:
    """Width of all chains over that of each: of places and of distances from the median.

    The larger of both. NaN where there are too few steps or none moved, infinite where chains stay
    at places of their own.
    """
    if not _enough(rows) or (rows == rows[0, 0]).all():
        return math.nan
    halves = _halves(rows)
    folded = np.abs(halves - np.median(halves))
    return float(np.fmax(_ratio(_normalised(halves)), _ratio(_normalised(folded))))


def bulk_size(rows: FloatArray) -> float:
    """Effective size of a mean of normalised ranks; NaN where a chain never moved."""
    return _size(_normalised(_halves(rows))) if _all_moved(rows) else math.nan


def tail_size(rows: FloatArray) -> float:
    """The smaller effective size of the 5 and 95 % quantiles.

    NaN where a chain never moved, and where no step lies above the 95 % quantile.
    """
    if not _all_moved(rows):
        return math.nan
    below = [(rows <= q).astype(np.float64) for q in np.quantile(rows, _TAILS)]
    return math.nan if below[1].all() else min(_size(_halves(one)) for one in below)


def mean_size(rows: FloatArray) -> float:
    """Independent draws with the same error of the mean; NaN where a chain never moved."""
    return _size(_halves(rows)) if _all_moved(rows) else math.nan


SIZES: Mapping[str, Callable[[FloatArray], float]] = {
    "bulk": bulk_size, "tail": tail_size, "mean": mean_size,
}  # fmt: skip


def _enough(rows: FloatArray) -> bool:
    return bool(rows.shape[1] >= _FEWEST)


def _all_moved(rows: FloatArray) -> bool:
    """Return whether each chain holds several values; rounding gives equal ones a variance."""
    moved = bool((rows != rows[:, :1]).any(axis=1).all())
    return _enough(rows) and moved


def _halves(rows: FloatArray) -> FloatArray:
    half = rows.shape[1] // 2
    return np.concatenate([rows[:, :half], rows[:, rows.shape[1] - half :]])


def _normalised(rows: FloatArray) -> FloatArray:
    """Normal quantiles of ranks among all steps; equal values share their mean rank."""
    _, place, counts = np.unique(rows, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * (counts - 1)
    levels = (ranks - 0.375) / (rows.size + 0.25)
    return np.asarray(normal_quantile(levels)[place.reshape(rows.shape)])


def _ratio(rows: FloatArray) -> float:
    n = rows.shape[1]
    if (rows == rows[:, :1]).all():
        return math.nan if (rows == rows[0, 0]).all() else math.inf
    within = float(rows.var(axis=1, ddof=1).mean())
    between = n * float(rows.mean(axis=1).var(ddof=1))
    return math.sqrt((n - 1) / n + between / (n * within))


def _size(rows: FloatArray) -> float:
    """Effective size of the mean of rows, by the initial monotone sequence (Geyer 1992)."""
    n = rows.shape[1]
    covariance = _autocovariance(rows).mean(axis=0)
    within = float(covariance[0]) * n / (n - 1)
    total = float(covariance[0]) + float(rows.mean(axis=1).var(ddof=1))
    correlation = np.append(1.0, 1.0 - (within - covariance[1:]) / total)
    pairs = max(1, (n - 1) // 2)
    even, odd = correlation[0 : 2 * pairs : 2], correlation[1 : 2 * pairs : 2]
    ends = np.flatnonzero(even + odd <= 0)
    end = int(ends[0]) if len(ends) else pairs - 1
    kept = np.minimum.accumulate((even + odd)[:end])
    time = 2.0 * float(kept.sum()) - 1.0 + max(float(even[end]), 0.0)
    return rows.size / max(time, 1.0 / math.log10(rows.size))


def _autocovariance(rows: FloatArray) -> FloatArray:
    """Autocovariances ``[chain, lag]``."""
    n = rows.shape[1]
    x = rows - rows.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(x, 2 * n, axis=1)) ** 2
    return np.asarray(np.fft.irfft(power, axis=1)[:, :n] / n)

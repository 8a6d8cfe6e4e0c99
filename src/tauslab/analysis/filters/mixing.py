"""Convergence of chains: effective sample sizes and R-hat."""

from __future__ import annotations

import math

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray


def effective_size(rows: FloatArray) -> float:
    """Independent draws with the same error of a mean, of chains ``[chain, step]``.

    Of one chain by the initial positive sequence (Geyer 1992). Of several, cut in halves, with what
    their means differ by counted in (Vehtari and others 2021, section 3.2): chains that stay at
    places of their own have a small one. NaN where a chain never moved.
    """
    if not _moved(rows).all():
        return math.nan
    parts = _halves(rows) if len(rows) > 1 and rows.shape[1] >= 4 else rows
    count, n = parts.shape
    covariance = _autocovariance(parts).mean(axis=0)
    if len(rows) > 1:  # how far draws of any chain are from each other on average
        within = float(parts.var(axis=1, ddof=1).mean())
        total = (n - 1) / n * within + float(parts.mean(axis=1).var(ddof=1))
        covariance = np.append(total, total - within + covariance[1:])
    pairs = covariance[0 : n - 1 : 2] + covariance[1:n:2]
    ends = np.flatnonzero(pairs <= 0)
    kept = pairs[: int(ends[0]) if len(ends) else len(pairs)]
    time = max(2 * float(kept.sum()) / float(covariance[0]) - 1, 1 / n)
    return float(min(count * n, count * n / time))


def rhat(rows: FloatArray) -> float:
    """Ratio of the width of all chains ``[chain, step]`` to that of each, cut in halves.

    Gelman and others, Bayesian Data Analysis, 3rd edition, section 11.4. NaN where there are too
    few steps or none moved, infinite where chains stay at places of their own.
    """
    halves = _halves(rows)
    half = halves.shape[1]
    if half < 2 or not _moved(halves).any():
        return math.inf if half > 1 and (halves != halves[0, 0]).any() else math.nan
    within = float(halves.var(axis=1, ddof=1).mean())
    between = half * float(halves.mean(axis=1).var(ddof=1))
    return math.sqrt((half - 1) / half + between / (half * within))


def _moved(rows: FloatArray) -> BoolArray:
    """Return whether chains hold several values; rounding gives equal ones a variance."""
    return np.asarray((rows != rows[:, :1]).any(axis=1))


def _halves(rows: FloatArray) -> FloatArray:
    half = rows.shape[1] // 2
    return np.concatenate([rows[:, :half], rows[:, rows.shape[1] - half :]])


def _autocovariance(rows: FloatArray) -> FloatArray:
    """Autocovariances ``[chain, lag]``."""
    n = rows.shape[1]
    x = rows - rows.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(x, 2 * n, axis=1)) ** 2
    return np.asarray(np.fft.irfft(power, axis=1)[:, :n] / n)

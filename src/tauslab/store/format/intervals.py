"""Intervals of 95 %, which hold also where few samples are informative.

Of n samples of which a few are far from all others, the mean is known as well as a count of these
few. How many they are is the `informative` number, and `widening` lengthens the normal interval by
what the skewness of so few can make. With ``h`` equal samples beside zeros the upper end is that of
a count of ``h``: h + z sqrt(h) + z, where Wilson's (1927) has z^2 / 2 = 1.92 for z = 1.96.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray

Z = 1.959963984540054  # 97.5 % quantile of the normal distribution
# Informative samples below which an interval is by chance itself, which a warning says.
FEWEST_INFORMATIVE = 8
_LARGEST = 600.0  # whose exponential is finite
# 97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom.
_STUDENT = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


def share(part: npt.ArrayLike, n: float) -> tuple[FloatArray, FloatArray]:
    """Ends of the interval of a probability that was `part` of `n` samples.

    Wilson's interval with correction for continuity (Newcombe 1998, Statistics in Medicine 17, 857,
    method 4): it holds at least 94.5 % (94.9 % from 20 samples on), also where 0 or 1 samples are
    expected, where Wilson's own holds 84 %.
    """
    p = np.asarray(part, np.float64)

    def low(p: FloatArray) -> FloatArray:
        root = np.sqrt(np.maximum(Z**2 - 2 - 1 / n + 4 * p * (n * (1 - p) + 1), 0))
        return np.where(p > 0, (2 * n * p + Z**2 - 1 - Z * root) / (2 * (n + Z**2)), 0.0)

    return low(p), 1 - low(1 - p)


def widening(informative: npt.ArrayLike) -> FloatArray:
    """Factor of the half width of a mean's interval for so many informative samples.

    The skewness of a mean moves an end of its interval by the part skewness (2 z^2 + 1) / (6 z) of
    the standard error (Hall 1992, The Bootstrap and Edgeworth Expansion, section 3.5), and skewness
    squared is at most kurtosis - 1 (Pearson 1916), so that of the mean is at most 1 /
    sqrt(informative). The factor is taken as 1, not 0.74, for Wilson's end at few samples. Infinite
    where none is informative.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(1 + 1 / np.sqrt(np.asarray(informative, np.float64)))


def unequal_runs(runs: FloatArray) -> tuple[float, float]:
    """Ends of the interval of the mean of a few independent estimates, none of which is below 0.

    Estimates of rare events are skewed, and what the largest would be no run may show; logarithms
    are not. So the ends are the mean times and over exp(t e), with its relative standard error e
    and Student's t; upwards with `widening`, and at least as far as the interval for a lognormal
    distribution beside zeros reaches (Cox, in Land 1972, Technometrics 14, 145): log of the part
    that is not 0, plus mean and half the variance of logarithms.

    Returns
    -------
    0 and infinity of a single run and where all are equal, which bounds no error.
    """
    n, positive = len(runs), runs[runs > 0]
    mean, spread, some = (
        float(runs.mean()),
        float(runs.var(ddof=1)) if n > 1 else 0.0,
        len(positive),
    )
    if not spread > 0:
        return 0.0, math.inf
    informative = float(runs.sum() ** 2 / (runs**2).sum())
    wide = student(n - 1) * math.sqrt(spread / n) / mean
    high = wide * float(widening(informative))
    logs = np.log(positive)
    variance = float(logs.var(ddof=1)) if some > 1 else 0.0
    freedom = max(1, some - 1)
    error = math.sqrt((1 - some / n) / some + variance / some + variance**2 / (2 * freedom))
    lognormal = math.log(some / n) + float(logs.mean()) + variance / 2
    high = max(high, lognormal + student(freedom) * error - math.log(mean))
    return mean * math.exp(-wide), mean * math.exp(min(high, _LARGEST))


def student(freedom: int) -> float:
    """97.5 % quantile of Student's t (Cornish and Fisher's series for many degrees)."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    return Z + 2.3724 / freedom + 2.8225 / freedom**2

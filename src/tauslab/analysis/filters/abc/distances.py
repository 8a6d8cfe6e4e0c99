"""Distances between simulations and data, and what each summary is divided by."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tauslab.analysis.particles.sums import fixed_sums
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError

# Simulated summaries ``[simulation, summary]`` and those of the data -> distances ``[simulation]``.
DistanceFunction = Callable[[FloatArray, FloatArray], npt.ArrayLike]
NORMS = (1, 2, math.inf)


def distances(
    simulated: FloatArray, observed: FloatArray, scale: FloatArray, norm: float | DistanceFunction
) -> FloatArray:
    """Distances ``[simulation]`` of summaries over their scale; infinite where one is missing.

    Summaries that the data lack (NaN) are left out.

    Raises
    ------
    ConfigError
        A function gave another shape, or a negative distance.
    """
    seen = ~np.isnan(observed)
    if callable(norm):
        result = np.asarray(norm(simulated, observed), np.float64)
        if result.shape != (len(simulated),) or (result < 0).any():
            raise ConfigError(
                f"distance= gave shape {result.shape}: one number of 0 or more for each of the "
                f"{len(simulated)} simulations is needed"
            )
        return np.where(np.isnan(result), np.inf, result)
    apart = (simulated if seen.all() else simulated[:, seen]) - observed[seen]
    if (scale[seen] != 1).any():
        apart /= scale[seen]
    if norm == 2:
        with np.errstate(over="ignore", invalid="ignore"):
            result = np.sqrt(fixed_sums(np.multiply(apart, apart, out=apart)))
    else:
        np.abs(apart, out=apart)
        with np.errstate(over="ignore", invalid="ignore"):
            result = fixed_sums(apart) if norm == 1 else apart.max(axis=1)
    return np.where(np.isnan(result), np.inf, result)


def scale_of(simulated: FloatArray) -> FloatArray:
    """Median absolute deviation ``[summary]``; where it is 0, the mean one; where that is 0, 1.

    Prangle, Bayesian Analysis 12, 289 (2017). Simulations that lack a summary are left out of it.
    """
    result = np.ones(simulated.shape[1])
    for column, values in enumerate(simulated.T):
        held = values[np.isfinite(values)]
        if not len(held):
            continue
        off = np.abs(held - np.median(held))
        middle = float(np.median(off))
        result[column] = middle or float(fixed_sums(off[None])[0]) / len(off) or 1.0
    return result

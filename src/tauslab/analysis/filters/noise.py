"""Draws of observations: what an instrument with a noise would read of a state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tauslab.analysis.filters.draws import NoiseDraws
from tauslab.base.arrays import FloatArray


def draw(
    kind: str, x: FloatArray, numbers: Sequence[FloatArray], draws: np.random.Generator | NoiseDraws
) -> FloatArray:
    """Observations of the quantities `x`, with a noise of `tauslab.particle_filter`.

    Parameters
    ----------
    kind
        A name such as ``normal``.
    x
        Any shape; NaN stays NaN.
    numbers
        Parameters of the noise in its order, each of a shape that fits `x`.
    draws
        Of `NoiseDraws`, `x` is ``[m, row]``.

    Returns
    -------
    f64 of the shape of `x`; NaN where the noise has no density, as ``lognormal`` of 0.
    """
    held = np.isfinite(x)
    known = np.where(held, x, 0.0)
    first = np.broadcast_to(numbers[0], x.shape)
    second = np.broadcast_to(numbers[1], x.shape) if len(numbers) > 1 else first
    if kind == "normal":
        result = known + first * draws.standard_normal(x.shape)
    elif kind == "lognormal":
        held = held & (x > 0)
        result = known * np.exp(first * draws.standard_normal(x.shape))
    elif kind == "poisson":
        result = draws.poisson(np.maximum(first * known + second, 0.0)).astype(np.float64)
    elif kind == "negative_binomial":
        mean = np.maximum(second * known, 0.0)
        result = draws.negative_binomial(first, first / (first + mean)).astype(np.float64)
    elif kind == "binomial":
        molecules = np.maximum(np.floor(known), 0.0).astype(np.int64)
        result = draws.binomial(molecules, first).astype(np.float64)
    else:
        result = known + second * draws.standard_t(first, x.shape)
    return np.where(held, result, np.nan)

"""How the range of every node is cut into intervals."""

from __future__ import annotations

import math

import numpy as np

from tauslab.analysis.dbn.results.network import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.model.expressions.host_math import value_of
from tauslab.options.dbn import PILOT, DbnOptions

_DIGITS = 3  # of the width of a range, to which ranges from samples are rounded


def edges_of(
    name: str, options: DbnOptions, pilot: FloatArray, *, ranged: bool = True
) -> FloatArray:
    """Edges of the intervals of a node ``[bins + 1]``.

    Given edges; else a given range or that of the pilot's samples, rounded outwards to three digits
    of its width, so that it does not hang on the last bit of a sample; cut evenly, or at quantiles
    of the samples. A node whose samples are all equal has one interval.

    Parameters
    ----------
    pilot
        Samples of the node, any shape; those that are not finite do not count. Of an even cut the
        outermost are enough.
    ranged
        Whether a given range is that of the node: not where it is that of an initial amount.

    Raises
    ------
    ConfigError
        No sample is finite, and neither edges nor an evenly cut range are given.
    """
    if name in options.edges:
        return np.asarray(options.edges[name], np.float64)
    count = options.own_intervals.get(name, options.intervals)
    given = options.ranges.get(name) if ranged else None
    if options.spacing == "equal" and given is not None:
        return _even(*given, count)
    samples = pilot[np.isfinite(pilot)].astype(np.float64)
    if not len(samples):
        raise ConfigError(
            f"{name} is not a finite number at any time of the first {PILOT} trajectories: take "
            f"more {opt('substeps')} or steps that adapt, or give it a {opt('ranges')}"
        )
    low, high = given or rounded_range(samples.min(), samples.max())
    if low == high:
        return np.array([low, high])
    if options.spacing == "equal":
        return _even(low, high, count)
    inside = samples[(samples >= low) & (samples <= high)]
    cuts = np.quantile(inside, np.arange(1, count) / count) if len(inside) else np.zeros(0)
    # Equal quantiles make fewer intervals.
    return np.unique(np.concatenate([[low], cuts[(cuts > low) & (cuts < high)], [high]]))


def rounded_range(low: float, high: float) -> tuple[float, float]:
    """A range around another, its ends rounded to three digits of its width.

    >>> rounded_range(0.01234567, 9.8765432)
    (0.01, 9.88)
    >>> rounded_range(2.5, 2.5)
    (2.5, 2.5)
    """
    width = float(high) - float(low)
    size = max(abs(float(low)), abs(float(high)))
    if width <= 1e-9 * size:  # constant, but for rounding
        return float(low), float(low)
    digits = _DIGITS - 1 - math.floor(value_of("log10", width))
    unit = value_of("pow", 10.0, abs(digits))
    if digits >= 0:
        return math.floor(low * unit) / unit, math.ceil(high * unit) / unit
    return math.floor(low / unit) * unit, math.ceil(high / unit) * unit


def _even(low: float, high: float, count: int) -> FloatArray:
    edges: FloatArray = np.linspace(low, high, count + 1)
    return edges

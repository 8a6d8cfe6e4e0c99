"""Modes of a distribution that a sample can vouch for: the taut string of Davies and Kovac.

Around the sample's distribution function F_n lies a tube. The taut string through it is, of all
functions in the tube, one whose derivative has the fewest local maxima (Davies and Kovac 2001,
2004). A tube of half-width e holds the true function F with probability 1 - 2 exp(-2 n e^2)
(Dvoretzky, Kiefer, Wolfowitz; Massart 1990); half of that e is enough here, because F may also be
shifted up or down. At alpha = 0.01, samples of a uniform distribution, which is the worst case
(Hartigan and Hartigan 1985), showed a second mode in 0.5 to 1.0 % (16 to 2,000 trajectories; 2,000
or 4,000 samples each), and those of normal, geometric and Poisson distributions in below 0.05 %.

A second peak that lies ten standard deviations away is found in nine samples of ten where it holds
at least 2.7 / sqrt(n) of the trajectories: 17 % of 256, 8.5 % of 1,000, 6 % of 2,000, 4 % of 4,096
and 2 % of 20,000 (200 samples each). Two equal peaks at a distance of four standard deviations
need 400 trajectories, at three 4,000. Peaks that are nearer have hardly a valley between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray, IntArray, is_number
from tauslab.base.errors import ConfigError
from tauslab.store.results import columns
from tauslab.store.results.ensemble_data import EnsembleData
from tauslab.store.results.samples import has_samples

ALPHA = 0.01
MOST_BINS = 256  # a mode's place is known no better from a sample
_SAME_SLOPE = 1e-9


@dataclass(frozen=True)
class Modes:
    """Modes of a distribution, in increasing order; with a sweep, arrays have its points first.

    Parameters
    ----------
    count
        Number of modes, int64; 0 without samples.
    positions
        Positions ``[mode]``: the middle of the interval in which the taut string is steepest; NaN
        after the last.
    weights
        Fraction of the trajectories in each ``[mode]``; the middle of the flattest interval
        between two modes separates them. NaN after the last.
    """

    count: IntArray
    positions: FloatArray
    weights: FloatArray


def modes_at(result: EnsembleData, name: str, t: float, alpha: float) -> Modes:
    """Modes of a species or observable at a sample time, from samples or a recorded histogram."""
    if not (is_number(alpha) and 0 < alpha < 1):
        raise ConfigError(f"alpha must be a number between 0 and 1, not {alpha!r:.60}")
    beyond = np.zeros((result.n_points, 2))
    whole = has_samples(result, name) and name in result.species
    if has_samples(result, name):
        numbers, edges = result.histogram(name, t, None if whole else MOST_BINS)
        if whole and len(edges) > MOST_BINS + 1:
            wide = columns.whole_edges(float(edges[0]), float(edges[-1]) - 1, MOST_BINS)
            numbers, edges = result.histogram(name, t, wide)
    else:
        cells, edges = result.stored_histogram(name)
        cells = cells[..., result.time_index(t), :]
        numbers, beyond = cells[..., 1:-1], np.atleast_2d(cells[..., [0, -1]])
    rows = np.atleast_2d(numbers)
    if whole:
        edges = edges - 0.5  # a bin of one whole number has this as its middle
    each = [
        modes_of(row, edges, alpha, float(under), float(over))
        for row, (under, over) in zip(rows, beyond, strict=True)
    ]
    modes = _stacked(each)
    if result.swept:
        return modes
    return Modes(modes.count[0], modes.positions[0], modes.weights[0])


def modes_of(
    numbers: npt.ArrayLike, edges: FloatArray, alpha: float, under: float = 0, over: float = 0
) -> list[tuple[float, float]]:
    """Position and weight of each mode of a histogram.

    Parameters
    ----------
    numbers
        Numbers of trajectories per bin ``[bin]``.
    edges
        Edges of the bins ``[bin + 1]``.
    alpha
        Chance with which there are more modes in the string than in the distribution.
    under, over
        Numbers below the first edge and above the last.
    """
    values = np.asarray(numbers, np.float64)
    total = float(values.sum()) + under + over
    if not values.sum():
        return []
    reached = np.concatenate([[under], under + np.cumsum(values)]) / total
    width = math.sqrt(math.log(2 / alpha) / (8 * total))
    low, high = reached - width, reached + width
    low[[0, -1]] = high[[0, -1]] = reached[[0, -1]]
    # Among empty bins the tube is level: what keeps to it at their ends does between them.
    filled = np.concatenate([[True], values > 0, [True]])
    knots = filled[1:] | filled[:-1]
    return _peaks(taut_string(edges[knots], low[knots], high[knots]), edges, reached)


def taut_string(x: FloatArray, low: FloatArray, high: FloatArray) -> list[tuple[float, float]]:
    """Corners of the shortest path from one end of a tube to the other.

    `low` and `high` ``[knot]`` bound it at `x` ``[knot]`` and agree at both ends.  From the last
    corner on, the greatest convex function below `high` and the least concave one above `low`
    are kept; where they would cross, the string bends (a funnel; time is linear in the knots).
    """
    start = (float(x[0]), float(low[0]))
    corners, above, below = [start], [start], [start]
    for place, bottom, top in zip(x[1:].tolist(), low[1:].tolist(), high[1:].tolist(), strict=True):
        _extend(above, (place, top), convex=True)
        _extend(below, (place, bottom), convex=False)
        while len(above) > 1 and len(below) > 1 and _slope(above) < _slope(below):
            bent, other = (below, above) if len(above) == 2 else (above, below)
            corners.append(bent[1])
            del bent[0]
            other[:] = [corners[-1], other[-1]]
    return corners + below[1:]


def _extend(chain: list[tuple[float, float]], point: tuple[float, float], *, convex: bool) -> None:
    """Append a point and drop the points that it hides."""
    while len(chain) > 1:
        (x0, y0), (x1, y1) = chain[-2:]
        turn = (y1 - y0) * (point[0] - x1) - (point[1] - y1) * (x1 - x0)
        if (turn < 0) if convex else (turn > 0):
            break
        chain.pop()
    chain.append(point)


def _slope(chain: list[tuple[float, float]]) -> float:
    (x0, y0), (x1, y1) = chain[:2]
    return (y1 - y0) / (x1 - x0)


def _peaks(
    corners: list[tuple[float, float]], edges: FloatArray, reached: FloatArray
) -> list[tuple[float, float]]:
    """Intervals that are steeper than both neighbours; outside the range the slope is 0."""
    ends, slopes = [corners[0][0]], list[float]()
    scale = (corners[-1][1] - corners[0][1]) / (corners[-1][0] - corners[0][0])
    for (x0, y0), (x1, y1) in pairwise(corners):
        slope = (y1 - y0) / (x1 - x0)
        if slopes and abs(slope - slopes[-1]) <= _SAME_SLOPE * scale:
            ends[-1] = x1
        else:
            slopes.append(slope)
            ends.append(x1)
    padded = [-math.inf, *slopes, -math.inf]
    tops = [i for i in range(len(slopes)) if padded[i] < padded[i + 1] > padded[i + 2]]
    cuts = [edges[0]]
    for left, right in pairwise(tops):
        valley = min(range(left + 1, right), key=slopes.__getitem__)
        cuts.append((ends[valley] + ends[valley + 1]) / 2)
    shares = np.interp([*cuts, edges[-1]], edges, reached)
    shares[0], shares[-1] = 0, 1
    middles = [(ends[i] + ends[i + 1]) / 2 for i in tops]
    return list(zip(middles, np.diff(shares).tolist(), strict=True))


def _stacked(each: list[list[tuple[float, float]]]) -> Modes:
    """Modes of several points, padded with NaN."""
    count = np.array([len(modes) for modes in each], np.int64)
    table = np.full((2, len(each), max(1, int(count.max(initial=0)))), np.nan)
    for point, modes in enumerate(each):
        for mode, pair in enumerate(modes):
            table[:, point, mode] = pair
    return Modes(count, table[0], table[1])

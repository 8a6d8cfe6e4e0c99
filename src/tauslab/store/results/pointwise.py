"""Statistics of a sweep, point by point; what `Result` gives where there is an axis of points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.store.format.layout import MOST_NARROW
from tauslab.store.format.statistics import count_moments, moments_of_sums, real_sums
from tauslab.store.results import columns
from tauslab.store.results.columns import FloatArray, IntArray, UintArray
from tauslab.store.results.recorded import Recorded
from tauslab.store.results.samples import (
    column_of,
    is_whole,
    numbered,
    place_of,
    row_bytes,
    samples_at_points,
)
from tauslab.store.results.validity import warn_of_left_out

_MOST_WHOLE_BINS = 1 << 22
_LOW_HALF, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def moments(result: Recorded, name: str) -> tuple[FloatArray, FloatArray]:
    """Mean and variance ``[point, time]``, stored or from samples."""
    _, group, names = place_of(result, name)
    if f"{group}/mean" in result.data:
        found = [result.data[f"{group}/{key}"] for key in ("mean", "variance")]
        index = names.index(name)
        mean, variance = (np.asarray(values[..., index], np.float64) for values in found)
        return mean, variance
    if is_whole(result, name):
        return _count_moments(result, name)
    mean, variance, n = np.empty((3, result.n_points, len(result.times)))
    for points, values in _points(result, name):
        if values is None:
            sums = columns.real_totals(column_of(result, name, points.start))
        else:
            rows, cuts = values.reshape(-1, len(result.times)), np.arange(len(values)) * result.n
            sums = real_sums(rows, cuts)
        mean[points], variance[points] = moments_of_sums(sums)
        n[points] = sums["obs_n"]
    warn_of_left_out(result, name, n)
    return mean, variance


def quantiles(result: Recorded, name: str, levels: Sequence[float]) -> FloatArray:
    """Quantiles ``[point, level, time]`` from samples."""
    found = np.empty((result.n_points, len(levels), len(result.times)))
    for points, values in _points(result, name):
        if values is None:
            found[points] = columns.quantiles(column_of(result, name, points.start), levels)
        else:
            found[points] = columns.sorted_quantiles(values, levels)
    return found


def _points(result: Recorded, name: str) -> Iterator[tuple[slice, npt.NDArray[Any] | None]]:
    """All points, as many at a time as are read at once, and samples ``[point, trajectory, time]``.

    None in place of the samples of a point that are too many to be read at once.
    """
    at_once = columns.READ_BYTES // max(1, row_bytes(result, name) * result.n)
    for first in range(0, result.n_points, max(1, at_once)):
        points = slice(first, min(first + max(1, at_once), result.n_points))
        yield points, samples_at_points(result, name, points) if at_once else None


def _count_moments(result: Recorded, name: str) -> tuple[FloatArray, FloatArray]:
    """From samples of all points, read in long runs and added up as integers."""
    n, shape = result.n, (result.n_points, len(result.times))
    if n > MOST_NARROW:  # words of 64 bits might wrap
        each = [
            columns.count_sums(column_of(result, name, point)) for point in range(result.n_points)
        ]
        return np.array([s.mean() for s in each]), np.array([s.variance() for s in each])
    count, total, low, high = (np.zeros(shape, np.uint64) for _ in range(4))
    for start, piece in numbered(result, name):
        end = start + len(piece)
        inner = np.arange(start // n + 1, -(-end // n)) * n - start  # where later points begin
        cuts = np.concatenate([[0], inner]).astype(np.intp)
        points = slice(start // n, -(-end // n))
        values = np.maximum(piece, 0).astype(np.uint64)
        squares = values * values
        for into, part in (
            (count, piece >= 0),
            (total, values),
            (low, squares & _LOW_HALF),
            (high, squares >> _HALF),
        ):
            into[points] += np.add.reduceat(part, cuts, axis=0, dtype=np.uint64)
    words = low + (high << _HALF)
    return count_moments(count, total, (high >> _HALF) + (words < low), words)


def histogram(
    result: Recorded, name: str, time: int, bins: int | Sequence[float] | FloatArray | None
) -> tuple[UintArray, FloatArray]:
    """Numbers ``[point, bin]`` from samples, one point without a sweep, and edges they share.

    Parameters
    ----------
    time
        Index of the sample time.
    bins
        As `numpy.histogram` takes them; None for a bin per whole number where values are whole.
    """
    points, values = _samples_at(result, name, time)
    if bins is None and np.all(values == np.round(values)):
        low, high = (values.min(), values.max()) if values.size else (0, 0)
        most = max(1, _MOST_WHOLE_BINS // result.n_points)
        edges = columns.whole_edges(float(low), float(high), most)
    else:
        try:
            edges = np.histogram_bin_edges(values, "auto" if bins is None else bins)
        except (TypeError, ValueError):
            raise ConfigError(
                f"bins={bins!r:.60} is not allowed: a number of 1 or more, or edges that increase"
            ) from None
    cells = np.searchsorted(edges, values, side="right") - 1
    cells[values == edges[-1]] -= 1  # the last bin holds its upper edge
    size = len(edges) - 1
    inside = (cells >= 0) & (cells < size)
    counted = np.bincount((points * size + cells)[inside], minlength=result.n_points * size)
    return counted.reshape(result.n_points, size).astype(np.uint64), edges


def _samples_at(result: Recorded, name: str, time: int) -> tuple[IntArray, npt.NDArray[Any]]:
    """Points and values of all valid samples at one sample time."""
    starts, pieces = [], []
    for start, piece in numbered(result, name):
        starts.append(np.arange(start, start + len(piece)))
        pieces.append(piece[:, time].copy())
    values, rows = np.concatenate(pieces), np.concatenate(starts)
    valid = np.isfinite(values) if values.dtype.kind == "f" else values >= 0
    return rows[valid] // result.n, values[valid]

"""Quantiles and histograms of samples, with an axis of points: one without a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray, IntArray, UintArray
from tauslab.base.errors import ConfigError
from tauslab.store.results import columns
from tauslab.store.results.recorded import Recorded
from tauslab.store.results.samples import column_of, numbered, row_bytes, samples_at_points

_MOST_WHOLE_BINS = 1 << 22


def quantiles(result: Recorded, name: str, levels: Sequence[float]) -> FloatArray:
    """Quantiles ``[point, level, time]`` from samples."""
    values_of = np.empty((result.n_points, len(levels), len(result.times)))
    for points, values in _points(result, name):
        if values is None:
            values_of[points] = columns.quantiles(column_of(result, name, points.start), levels)
        else:
            values_of[points] = columns.sorted_quantiles(values, levels)
    return values_of


def _points(result: Recorded, name: str) -> Iterator[tuple[slice, npt.NDArray[Any] | None]]:
    """All points, as many at a time as are read at once, and samples ``[point, trajectory, time]``.

    None in place of the samples of a point that are too many to be read at once.
    """
    at_once = columns.READ_BYTES // max(1, row_bytes(result, name) * result.n)
    for first in range(0, result.n_points, max(1, at_once)):
        points = slice(first, min(first + max(1, at_once), result.n_points))
        yield points, samples_at_points(result, name, points) if at_once else None


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
            usable = len(edges) > 1 and edges.dtype.kind in "iuf"
        except (TypeError, ValueError):
            usable = False
        if not usable:
            raise ConfigError(
                f"bins={bins!r:.60} is not allowed: a number of 1 or more, or edges that increase"
            )
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

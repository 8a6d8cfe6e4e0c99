"""One quantity of a result (a species or an observable), streamed over its trajectories.

A result may be larger than memory, so every function reads a run of trajectories at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray, FloatArray, IntArray, UintArray
from tauslab.base.errors import ConfigError

READ_BYTES = 32 << 20
_TABLE_CELLS = 1 << 24  # the largest table of whole values that is built in memory: 128 MiB


@dataclass(frozen=True)
class Column:
    """Samples of one quantity, ``pieces()`` giving arrays ``[trajectories, time]`` in turn.

    Counts are integers, and negative where a trajectory has ended early; real values are NaN there.
    """

    pieces: Callable[[], Iterator[npt.NDArray[Any]]]
    n_times: int
    whole: bool

    def at(self, time: int) -> npt.NDArray[Any]:
        """Valid samples at one sample time, ``[trajectories]``."""
        values = np.concatenate([piece[:, time].copy() for piece in self.pieces()])
        return values[_valid(values)]


def rows(
    shape: Sequence[int], itemsize: int, block: int, done: BoolArray, only: slice = slice(None)
) -> Iterator[slice]:
    """Runs of trajectories in completed blocks, each about `READ_BYTES` of a dataset.

    `only` restricts them to some trajectories.

    >>> list(rows((10, 1), READ_BYTES // 8, 4, np.ones(3, bool)))
    [slice(0, 8, None), slice(8, 10, None)]
    >>> list(rows((10, 1), 1, 4, np.ones(3, bool), slice(5, 9)))
    [slice(5, 9, None)]
    """
    start, stop, _ = only.indices(shape[0])
    row_bytes = max(1, itemsize * math.prod(shape[1:]))
    per_read = max(1, READ_BYTES // (row_bytes * block))
    first = end = before = start // block
    for index in (before + np.flatnonzero(done[before : -(-stop // block)])).tolist():
        if index == end and index - first < per_read:
            end += 1
            continue
        if end > first:
            yield slice(max(start, first * block), end * block)
        first, end = index, index + 1
    if end > first:
        yield slice(max(start, first * block), min(stop, end * block))


def extremes(column: Column) -> tuple[float, float]:
    """Smallest and largest valid value over all sample times; (0, 0) where there is none."""
    low, high = math.inf, -math.inf
    for piece in column.pieces():
        valid = piece[_valid(piece)]
        if valid.size:
            low, high = min(low, float(valid.min())), max(high, float(valid.max()))
    return (low, high) if low <= high else (0.0, 0.0)


def whole_edges(low: float, high: float, most: int) -> FloatArray:
    """Edges of equal bins of whole width that cover whole values; at most `most` bins.

    >>> whole_edges(3, 5, 100)
    array([3., 4., 5., 6.])
    """
    width = max(1, math.ceil((high - low + 1) / most))
    bins = math.ceil((high - low + 1) / width)
    return low + width * np.arange(bins + 1, dtype=np.float64)


def table(column: Column, edges: FloatArray) -> UintArray:
    """Numbers of samples in equal bins ``[edges[b], edges[b + 1])``, ``[time, bin]``.

    The last bin holds its upper edge too, as `numpy.histogram` does for real values.
    """
    bins, times = len(edges) - 1, column.n_times
    cells = np.zeros(times * bins, np.int64)
    low, width = edges[0], (edges[-1] - edges[0]) / bins
    offsets = np.arange(times, dtype=np.int64) * bins
    for piece in column.pieces():
        inside = _valid(piece) & (piece >= low) & (piece <= edges[-1])
        with np.errstate(invalid="ignore"):
            index = np.minimum(
                np.where(inside, (piece - low) / width, 0).astype(np.int64), bins - 1
            )
        cells += np.bincount((index + offsets)[inside], minlength=times * bins)
    return cells.reshape(times, bins).astype(np.uint64)


def quantile_levels(q: float | Sequence[float]) -> list[float]:
    """Levels of quantiles as a list.

    Raises
    ------
    ConfigError
        They are no numbers from 0 to 1.
    """
    levels = np.atleast_1d(np.asarray(q))
    if levels.ndim != 1 or not levels.size:
        raise ConfigError(f"quantile levels are a number or a list of some, not {q!r}")
    if levels.dtype.kind not in "iuf" or not ((levels >= 0) & (levels <= 1)).all():
        raise ConfigError(f"quantile levels must lie between 0 and 1, not {q!r}")
    listed: list[float] = levels.tolist()
    return listed


def quantiles(column: Column, levels: Sequence[float]) -> npt.NDArray[Any]:
    """Quantiles per sample time, ``[level, time]``: the smallest value x with F(x) >= level.

    Always a value that occurs, which suits whole counts; NaN where there is no sample.  An infinite
    value is one, below or above all others.
    """
    if column.whole:
        low, high = extremes(column)
        if (high - low + 1) * column.n_times <= _TABLE_CELLS:
            cells = table(column, whole_edges(low, high, _TABLE_CELLS))
            counted = np.cumsum(cells, axis=1, dtype=np.uint64)
            return np.array([_table_quantile(counted, low, level) for level in levels])
    return sorted_quantiles(np.concatenate(list(column.pieces())), levels)


def sorted_quantiles(samples: npt.NDArray[Any], levels: Sequence[float]) -> FloatArray:
    """Quantiles ``[..., level, time]`` of samples ``[..., trajectory, time]``."""
    there = ~np.isnan(samples) if samples.dtype.kind == "f" else samples >= 0
    values = np.where(there, samples, np.inf)
    values.sort(axis=-2)
    n = there.sum(-2)
    ranks = [np.maximum(_rank(n, level), 1) - 1 for level in levels]
    quantiles_there = np.take_along_axis(values, np.stack(ranks, axis=-2), axis=-2)
    return np.where(n[..., None, :] > 0, quantiles_there, np.nan)


def _table_quantile(counted: UintArray, low: float, level: float) -> FloatArray:
    n = counted[:, -1].astype(np.int64)
    rank = np.maximum(_rank(n, level), 1).astype(np.uint64)
    first = (counted >= rank[:, None]).argmax(axis=1)
    return np.where(n > 0, low + first, np.nan)


def _rank(n: IntArray, level: float) -> IntArray:
    """Number of the `n` sorted values at or below the quantile.

    Rounded first: 0.1 * 30 is 3.0000000000000004 in doubles, and its ceiling must be 3.
    """
    return np.ceil(np.round(n * level, 6)).astype(np.int64)


def _valid(values: npt.NDArray[Any]) -> BoolArray:
    return np.isfinite(values) if values.dtype.kind == "f" else values >= 0


def apart(names: Sequence[str], taken: Collection[str], suffix: str) -> tuple[str, ...]:
    """Names beside the taken ones: a name that is taken becomes ``NAME_suffix``.

    >>> apart(("X", "time"), ("trajectory", "time"), "species")
    ('X', 'time_species')
    """
    used, chosen = {*taken, *names}, []
    for name in names:
        if name in taken:
            name = f"{name}_{suffix}"  # noqa: PLW2901
            while name in used:
                name += "_"  # noqa: PLW2901
        used.add(name)
        chosen.append(name)
    return tuple(chosen)


def texts(dataset: Any) -> tuple[str, ...]:
    """Strings of a text dataset or array."""
    values = np.asarray(dataset[()]).ravel().tolist()
    return tuple(v.decode() if isinstance(v, bytes) else str(v) for v in values)

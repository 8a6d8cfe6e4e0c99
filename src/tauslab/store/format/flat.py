"""Arrays with a row per trajectory as flat rows, also where a sweep gives them an axis of points.

In the flat order the points of a sweep follow each other: trajectory t of point p is row p * n + t.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Box = tuple[slice, slice]  # of points, and of trajectories
Selection = tuple[slice, ...]


def boxes(start: int, stop: int, n: int) -> Iterator[Box]:
    """Flat rows ``start .. stop - 1`` as boxes of ``[point, trajectory]``, in order.

    >>> list(boxes(1, 7, 2))
    [(slice(0, 1, None), slice(1, 2, None)), (slice(1, 3, None), slice(0, 2, None)), \
(slice(3, 4, None), slice(0, 1, None))]
    """
    while start < stop:
        point, first = divmod(start, n)
        whole = (stop - start) // n
        if first == 0 and whole:
            yield slice(point, point + whole), slice(0, n)
            start += whole * n
        else:
            end = min(n, first + stop - start)
            yield slice(point, point + 1), slice(first, end)
            start += end - first


def selections(start: int, stop: int, n: int | None) -> Iterator[tuple[Selection, slice]]:
    """Places of flat rows in an array, and which of the rows ``[0, stop - start)`` lie there.

    `n` is the number of trajectories at each point of a sweep; without one there is one place.

    >>> list(selections(1, 4, 2))
    [((slice(0, 1, None), slice(1, 2, None)), slice(0, 1, None)), \
((slice(1, 2, None), slice(0, 2, None)), slice(1, 3, None))]
    """
    if n is None:
        yield (slice(start, stop),), slice(0, stop - start)
        return
    first = 0
    for box in boxes(start, stop, n):
        count = math.prod(side.stop - side.start for side in box)
        yield box, slice(first, first + count)
        first += count


class FlatRows:
    """A dataset ``[point, trajectory, ...]`` read by slices of flat rows; nothing is held."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._n = int(dataset.shape[1])
        self.shape: tuple[int, ...] = (int(dataset.shape[0]) * self._n, *dataset.shape[2:])
        self.dtype: np.dtype[Any] = dataset.dtype
        chunks = getattr(dataset, "chunks", None)
        self.chunks = None if chunks is None else (chunks[0] * chunks[1], *chunks[2:])

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        """Rows ``start .. stop - 1``."""
        start, stop, _ = rows.indices(self.shape[0])
        pieces = [
            np.asarray(self._dataset[box]).reshape(-1, *self.shape[1:])
            for box in boxes(start, stop, self._n)
        ]
        nothing = np.empty((0, *self.shape[1:]), self.dtype)
        return pieces[0] if len(pieces) == 1 else np.concatenate([nothing, *pieces])

"""Rows of a result, compared with the checksums of their blocks as they are read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import InputFileError, of_damage
from tauslab.base.files.opening import reading
from tauslab.store.format.layout import FlatRows
from tauslab.store.writers.rows import checksum

_READ_BYTES = 32 << 20
Span = tuple[int, int]  # flat rows, start and stop


class VerifiedRows:
    """A dataset with a row per trajectory that never gives a row of a damaged block.

    Each block is compared once, when the first of its rows is asked for. Blocks that are not
    complete hold fill values and are not compared.

    Parameters
    ----------
    dataset
        A dataset of an open file, ``[trajectory, ...]`` or ``[point, trajectory, ...]``.
    sums
        Checksums ``[block]`` as they were written.
    done
        Which blocks are complete ``[block]``.
    """

    def __init__(
        self, path: Path, name: str, dataset: Any, sums: npt.NDArray[np.uint32],
        done: npt.NDArray[np.bool_], block: int, *, swept: bool,
    ) -> None:  # fmt: skip
        self._path, self._name, self._dataset = path, name, dataset
        self._sums, self._block, self._swept = sums, block, swept
        self._left = done.copy()  # to be compared
        self._flat: Any = FlatRows(dataset) if swept else dataset
        self._total = int(self._flat.shape[0])
        inner = math.prod(self._flat.shape[1:])
        self._step = max(1, _READ_BYTES // max(1, dataset.dtype.itemsize * inner * block))

    def __getattr__(self, name: str) -> Any:
        """All but the values is the dataset's."""
        return getattr(self._dataset, name)

    def __len__(self) -> int:
        """Length of the first axis."""
        return int(self._dataset.shape[0])

    def __array__(self, dtype: Any = None, **_: Any) -> npt.NDArray[Any]:
        """All values."""
        return np.asarray(self[()], dtype)

    def __getitem__(self, key: Any) -> Any:
        """Some values.

        Raises
        ------
        InputFileError
            A block that they lie in is not what was written.
        """
        with reading(self._path, InputFileError):
            return self._read(key)

    def _read(self, key: Any) -> Any:
        spans = list(self._spans(key if isinstance(key, tuple) else (key,)))
        if len(spans) == 1 and self._is_whole_rows(key):
            values = self._dataset[key]
            start, stop = spans[0]
            self._compare(start, stop, np.asarray(values).reshape(stop - start, -1))
            return values
        for start, stop in spans:
            self._compare(start, stop, None)
        return self._dataset[key]

    def verify(self) -> None:
        """Compare all blocks that were not compared yet."""
        with reading(self._path, InputFileError):
            self._compare(0, self._total, None)

    # --- which rows

    def _is_whole_rows(self, key: Any) -> bool:
        """Return whether the rows are read whole, and follow each other."""
        if isinstance(key, tuple) and not key:
            return True
        keys = key if isinstance(key, tuple) else (key,)
        if not all(isinstance(k, slice) and k.step in (None, 1) for k in keys):
            return False
        lead = 1 + self._swept
        behind = zip(keys[lead:], self._dataset.shape[lead:], strict=False)
        if any(k.indices(size)[:2] != (0, size) for k, size in behind):
            return False
        keys = keys[:lead]
        if len(keys) == 1:
            return True
        points, rows = (k.indices(size) for k, size in zip(keys, self._dataset.shape, strict=False))
        return bool(rows[:2] == (0, self._dataset.shape[1]) or points[1] - points[0] == 1)

    def _spans(self, key: tuple[Any, ...]) -> Iterator[Span]:
        """Flat rows that contain all that a key asks for."""
        shape = self._dataset.shape
        if Ellipsis in [k for k in key if k is Ellipsis] or not key:
            yield 0, self._total
            return
        first = _extent(key[0], shape[0])
        if first is None:
            return
        if not self._swept:
            yield first
            return
        n = int(shape[1])
        second = _extent(key[1], n) if len(key) > 1 else (0, n)
        if second is None:
            return
        if second == (0, n):
            yield first[0] * n, first[1] * n
            return
        for point in range(*first):
            yield point * n + second[0], point * n + second[1]

    # --- comparing

    def _compare(self, start: int, stop: int, rows: npt.NDArray[Any] | None) -> None:
        """Compare the blocks of flat rows; `rows` are these, if they were read already."""
        size = self._block
        begin, end = start // size, -(-stop // size)
        wanted = begin + np.flatnonzero(self._left[begin:end])
        if rows is not None:
            for block in wanted.tolist():
                low, high = block * size, min(self._total, (block + 1) * size)
                if start <= low and high <= stop:
                    self._check(block, rows[low - start : high - start])
            wanted = begin + np.flatnonzero(self._left[begin:end])
        for run in _runs(wanted.tolist(), self._step):
            low, high = run[0] * size, min(self._total, (run[-1] + 1) * size)
            read = np.asarray(self._flat[low:high])
            for block in run:
                self._check(block, read[block * size - low : (block + 1) * size - low])

    def _check(self, block: int, rows: npt.NDArray[Any]) -> None:
        if checksum(block, rows) != int(self._sums[block]):
            low, high = block * self._block, min(self._total, (block + 1) * self._block)
            damage = InputFileError(
                f"{self._path} is damaged, or was changed after it had been written: trajectories "
                f"{low} to {high - 1} of /{self._name} do not agree with the checksum of block "
                f"{block}"
            )
            raise of_damage(damage)
        self._left[block] = False


def _extent(index: Any, size: int) -> Span | None:
    """First place that an index selects, and the last plus 1; None for none."""
    if isinstance(index, slice):
        chosen = range(*index.indices(size))
        return (min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1]) + 1) if chosen else None
    places = np.asarray(index)
    if places.dtype == np.bool_:
        places = np.flatnonzero(places)
    if not places.size:
        return None
    places = np.where(places < 0, places + size, places)
    low, high = int(places.min()), int(places.max()) + 1
    return max(0, low), min(size, high)


def _runs(blocks: list[int], most: int) -> Iterator[list[int]]:
    """Consecutive blocks, so many at a time."""
    run: list[int] = []
    for block in blocks:
        if run and (block != run[-1] + 1 or len(run) == most):
            yield run
            run = []
        run.append(block)
    if run:
        yield run

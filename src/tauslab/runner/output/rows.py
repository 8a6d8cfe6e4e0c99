"""Puts a chunk's rows into a file: data, sync, marks."""

from __future__ import annotations

import numpy as np

from tauslab.runner.output.blockfile import RawFile
from tauslab.runner.output.layout import Chunk, Layout

MARKS = "progress/blocks"


def row_names(layout: Layout) -> list[str]:
    """Datasets with a row per trajectory."""
    return [array.name for array in layout.row_arrays()]


def write_rows(file: RawFile, layout: Layout, chunk: Chunk, row: int, rows: slice) -> None:
    """Write `rows` of a chunk at row `row` of the file's arrays.

    Raises
    ------
    ValueError
        An array of the chunk has a wrong shape or type.
    """
    for array in layout.row_arrays():
        data = chunk.arrays[array.name]
        if data.shape != (chunk.rows, *array.inner) or data.dtype != array.dtype:
            raise ValueError(f"{array.name}: {data.dtype} {data.shape} is not what was announced")
        file.write(array.name, row * array.row_bytes, data[rows])


def write_marks(file: RawFile, first: int, count: int) -> None:
    """Sync the data, then mark slots ``first .. first + count - 1`` as complete.

    The marks reach the device with the next sync: if they are lost to a power cut, those blocks
    are run again.
    """
    file.sync()
    file.write(MARKS, first, np.ones(count, np.uint8))

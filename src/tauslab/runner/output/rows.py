"""Puts a chunk's rows into a file: data, sync, marks."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.runner.output.blockfile import RawFile
from tauslab.runner.output.layout import Chunk, Layout, chunk_blocks

MARKS = "progress/blocks"
CHECKSUMS = "progress/checksums"


def row_names(layout: Layout) -> list[str]:
    """Datasets with a row per trajectory."""
    return [array.name for array in layout.row_arrays()]


def block_checksums(layout: Layout, chunk: Chunk) -> npt.NDArray[np.uint32]:
    """Checksums of the blocks of a chunk, ``[block]``."""
    first, end = chunk_blocks(layout, chunk)
    sums = np.zeros(end - first, np.uint32)
    for block in range(first, end):
        start, stop = (row - chunk.start for row in layout.block_rows(block, block + 1))
        parts = (chunk.arrays[array.name][start:stop] for array in layout.row_arrays())
        sums[block - first] = checksum(block, parts)
    return sums


def checksum(block: int, arrays: Iterable[npt.NDArray[Any]]) -> int:
    """CRC-32 of a block's number and the bytes of its arrays, one after the other."""
    value = zlib.crc32(block.to_bytes(8, "little"))
    for array in arrays:
        data = np.ascontiguousarray(array).reshape(-1)
        value = zlib.crc32(data.view(np.uint8).data, value) if data.size else value
    return value


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

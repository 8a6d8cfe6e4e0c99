"""Puts a chunk's rows into a file: data, sync, marks."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.store.format.layout import Chunk, Layout, chunk_blocks
from tauslab.store.hdf5.in_place import RawFile

MARKS = "progress/blocks"
CHECKSUMS = "progress/checksums"
COMPLETE = "progress/complete"


def row_names(layout: Layout) -> list[str]:
    """Datasets with a row per trajectory."""
    return [array.name for array in layout.row_arrays()]


def block_checksums(layout: Layout, chunk: Chunk) -> npt.NDArray[np.uint32]:
    """Checksums of the blocks of a chunk, ``[block, array]``, arrays by their names."""
    first, end = chunk_blocks(layout, chunk)
    names = sorted(row_names(layout))
    sums = np.zeros((end - first, len(names)), np.uint32)
    for block in range(first, end):
        start, stop = (row - chunk.start for row in layout.block_rows(block, block + 1))
        for column, name in enumerate(names):
            sums[block - first, column] = checksum(block, chunk.arrays[name][start:stop])
    return sums


def checksum(block: int, rows: npt.NDArray[Any]) -> int:
    """CRC-32 of a block's number and the bytes of its rows of an array."""
    value = zlib.crc32(block.to_bytes(8, "little"))
    data = np.ascontiguousarray(rows).reshape(-1)
    return zlib.crc32(data.view(np.uint8).data, value) if data.size else value


class RunningSums:
    """Checksums ``[block, array]`` of rows that come in order, each array's one after another."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._columns = {name: at for at, name in enumerate(sorted(row_names(layout)))}
        self.values = np.zeros((layout.n_blocks, len(self._columns)), np.uint32)
        for block in range(layout.n_blocks):
            self.values[block] = zlib.crc32(block.to_bytes(8, "little"))

    def add(self, name: str, start: int, rows: npt.NDArray[Any]) -> None:
        """Take in rows of an array; `start` is the flat number of the first."""
        column, block, stop = self._columns[name], self._layout.block, start + len(rows)
        for number in range(start // block, -(-stop // block)):
            part = rows[max(0, number * block - start) : (number + 1) * block - start]
            data = np.ascontiguousarray(part).reshape(-1)
            if data.size:
                before = int(self.values[number, column])
                self.values[number, column] = zlib.crc32(data.view(np.uint8).data, before)


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

    The marks reach the device with the next sync: if they are lost to a power cut, the blocks
    are run again.
    """
    file.sync()
    file.write(MARKS, first, np.ones(count, np.uint8))

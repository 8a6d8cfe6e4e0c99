"""HDF5 files that are only written in place.

They were laid out whole, closed, put on disk and renamed (`skeleton`, `disk.publish`). After that
no HDF5 metadata changes: data are written at the datasets' offsets in the file, so a crash at any
moment leaves a file that opens.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import OutputError
from tauslab.base.files.hdf5 import stored_at
from tauslab.store.checking.opening import open_own_file
from tauslab.store.format.versions import WRITERS, this_program, with_this_program, writers_of
from tauslab.store.hdf5.disk import Disk, write_error

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI


@dataclass(frozen=True)
class Location:
    """Places of a dataset's cells in its file.

    A dataset is addressed by the bytes of its cells in C order. Its chunks follow each other in
    that order: `chunk_bytes` each, except for the last of every `group_bytes`.

    Parameters
    ----------
    offsets
        File offset of every chunk ``[chunk]``, in C order.
    """

    offsets: npt.NDArray[np.int64]
    chunk_bytes: int
    group_bytes: int

    def ranges(self, start: int, n_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Places of bytes ``start .. start + n_bytes - 1``, in runs as long as possible.

        Each is a file offset, the distance from `start`, and a length.
        """
        if not n_bytes:
            return
        per_group = -(-self.group_bytes // self.chunk_bytes)
        first, last = (self._chunk(byte, per_group) for byte in (start, start + n_bytes - 1))
        if last >= len(self.offsets):
            raise OutputError(
                "the file is damaged: a dataset is too small for what is written to it"
            )
        chunks = np.arange(first, last + 1)
        group = chunks // per_group * self.group_bytes
        begin = group + chunks % per_group * self.chunk_bytes
        end = np.minimum(begin + self.chunk_bytes, group + self.group_bytes)
        cut = np.maximum(begin, start)
        files = self.offsets[chunks] + (cut - begin)
        lengths = np.minimum(end, start + n_bytes) - cut
        heads = np.flatnonzero(np.append(True, files[1:] != files[:-1] + lengths[:-1]))
        totals = np.add.reduceat(lengths, heads)
        for head, total in zip(heads.tolist(), totals.tolist(), strict=True):
            yield int(files[head]), int(cut[head]) - start, int(total)

    def _chunk(self, byte: int, per_group: int) -> int:
        group, rest = divmod(byte, self.group_bytes)
        return group * per_group + rest // self.chunk_bytes


def locate(dataset: h5py.Dataset) -> Location:
    """Find out where a dataset's cells lie.

    Raises
    ------
    OutputError
        It is not laid out in its file, or in chunks that do not follow the order of its cells.
    """
    n_bytes = dataset.dtype.itemsize * math.prod(dataset.shape)
    if not n_bytes:
        return Location(np.empty(0, np.int64), 1, 1)
    if dataset.chunks is None:
        offset = dataset.id.get_offset()
        if offset is None:
            raise OutputError(
                f"{dataset.file.filename}: {dataset.name} is not laid out in the file"
            )
        return Location(np.array([offset], np.int64), n_bytes, n_bytes)
    shape, chunks = dataset.shape, dataset.chunks
    cut = next((i for i, size in enumerate(chunks) if size > 1), len(shape) - 1)
    if chunks[cut + 1 :] != shape[cut + 1 :]:
        raise OutputError(f"{dataset.file.filename}: {dataset.name} has chunks of a foreign shape")
    grid = [-(-size // chunk) for size, chunk in zip(shape, chunks, strict=True)]
    offsets = np.full(math.prod(grid), -1, np.int64)
    strides = [math.prod(grid[i + 1 :]) for i in range(len(grid))]

    def note(info: Any) -> None:
        corner = zip(info.chunk_offset, chunks, strides, strict=True)
        offsets[sum(first // chunk * stride for first, chunk, stride in corner)] = info.byte_offset

    if hasattr(dataset.id, "chunk_iter"):
        dataset.id.chunk_iter(note)
    else:  # HDF5 before 1.12.3, as many sites have it with MPI
        for index in range(dataset.id.get_num_chunks()):
            note(dataset.id.get_chunk_info(index))
    if np.any(offsets < 0):
        raise OutputError(f"{dataset.file.filename}: {dataset.name} is not laid out in the file")
    inner = dataset.dtype.itemsize * math.prod(shape[cut + 1 :])
    return Location(offsets, chunks[cut] * inner, shape[cut] * inner)


class RawFile:
    """A finished HDF5 file opened for writing in place.

    Parameters
    ----------
    names
        Datasets that will be written.

    Raises
    ------
    OutputError
        The file cannot be opened, or a dataset is not laid out in it.
    """

    def __init__(self, path: Path, names: Iterable[str], disk: Disk) -> None:
        self.path = path
        self._disk = disk
        with open_own_file(path) as file:
            self.locations = {name: locate(stored_at(file, name)) for name in names}
        try:
            self._fd = os.open(path, os.O_RDWR)
        except OSError as error:
            raise write_error(path, error) from error
        self._dirty = False

    def write(self, name: str, start: int, data: npt.NDArray[Any]) -> None:
        """Put `data` at byte `start` of a dataset's cells; other threads run meanwhile.

        Raises
        ------
        OutputError
            The write failed, for example for want of space.
        """
        view = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
        for offset, position, length in self.locations[name].ranges(start, len(view)):
            self._write_run(view[position : position + length], offset)

    def _write_run(self, view: memoryview, offset: int) -> None:
        self._dirty = True
        try:
            while len(view):
                written = self._disk.write(self._fd, view, offset)
                view, offset = view[written:], offset + written
        except OSError as error:
            raise write_error(self.path, error) from error

    def sync(self) -> None:
        """Wait until all writes are on the device.

        Raises
        ------
        OutputError
            The device reports a failed write.
        """
        if not self._dirty:
            return
        try:
            self._disk.sync(self._fd)
        except OSError as error:
            raise write_error(self.path, error) from error
        self._dirty = False

    def close(self) -> None:
        """Close; a second time does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def stored_writers(path: Path) -> tuple[str, ...]:
    """Versions of the program that wrote a result; none where a file has no list of them."""
    with open_own_file(path) as file:
        return writers_of(file)


def note_writer(path: Path, disk: Disk) -> None:
    """Note in a result that this version of the program goes on with it.

    Raises
    ------
    OutputError
        The file cannot be read or written.
    """
    before = stored_writers(path)
    if not before or before[-1] == this_program():
        return
    with closing(RawFile(path, [WRITERS], disk)) as file:
        file.write(WRITERS, 0, with_this_program(before))
        file.sync()

"""Files that HDF5 writes without meeting a failed write.

HDF5 cannot recover from one: a file that it could not write stays open in its tables, whatever the
caller closes. The next file with the same inode is then taken for that one, and the process may
crash, at once or at exit. So HDF5 writes into memory, or to a disk of which it learns no failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tauslab.store.hdf5.disk import Disk

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

PAGE = 1 << 16


class SparseBuffer:
    """A file in memory that stores only the pages which were written."""

    def __init__(self) -> None:
        self.size = 0
        self.pages: dict[int, bytearray] = {}
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, as `io.IOBase.seek`."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def read(self, count: int) -> bytes:
        """Read up to `count` bytes; holes are zero."""
        data = bytearray(count)
        return bytes(data[: self.readinto(data)])

    def readinto(self, target: bytearray | memoryview) -> int:
        """Read into a buffer; returns how many bytes."""
        view = memoryview(target).cast("B")
        count = max(0, min(len(view), self.size - self._position))
        for number, start, stop, place in self._spans(count):
            page = self.pages.get(number)
            view[place : place + stop - start] = page[start:stop] if page else bytes(stop - start)
        self._position += count
        return count

    def write(self, data: bytes | memoryview) -> int:
        """Write; returns how many bytes."""
        view = memoryview(data).cast("B")
        for number, start, stop, place in self._spans(len(view)):
            page = self.pages.setdefault(number, bytearray(PAGE))
            page[start:stop] = view[place : place + stop - start]
        self._position += len(view)
        self.size = max(self.size, self._position)
        return len(view)

    def truncate(self, size: int) -> int:
        """Set the length; HDF5 cuts off nothing that it wrote."""
        self.size = size
        return size

    def flush(self) -> None:
        """Do nothing: no data are buffered."""

    def _spans(self, count: int) -> Iterator[tuple[int, int, int, int]]:
        """Page, start and stop in it, and distance from the position, of the next bytes."""
        done = 0
        while done < count:
            number, start = divmod(self._position + done, PAGE)
            stop = min(PAGE, start + count - done)
            yield number, start, stop, done
            done += stop - start


class _DiskBuffer(SparseBuffer):
    """A file on a disk. After a failed write, pages that change do so in memory.

    Attributes
    ----------
    failure
        The error of the first write that failed.
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        super().__init__()
        self._disk = disk
        self.fd = os.open(path, os.O_RDWR)
        self.size = os.fstat(self.fd).st_size
        self.failure: OSError | None = None

    def readinto(self, target: bytearray | memoryview) -> int:
        """Read into a buffer; returns how many bytes."""
        view = memoryview(target).cast("B")
        if self.failure is not None:
            self._load(len(view))
            return super().readinto(view)
        count = os.preadv(self.fd, [view], self._position)
        self._position += count
        return count

    def write(self, data: bytes | memoryview) -> int:
        """Write; returns how many bytes it would be without a failure."""
        view = memoryview(data).cast("B")
        if self.failure is None:
            try:
                done = 0
                while done < len(view):
                    done += self._disk.write(self.fd, view[done:], self._position + done)
            except OSError as error:
                self.failure = error
            else:
                self._position += done
                self.size = max(self.size, self._position)
                return done
        self._load(len(view))
        return super().write(view)

    def truncate(self, size: int) -> int:
        """Set the length."""
        if self.failure is None:
            try:
                os.ftruncate(self.fd, size)
            except OSError as error:
                self.failure = error
        return super().truncate(size)

    def _load(self, count: int) -> None:
        """Have the pages of the next bytes in memory."""
        for number, *_ in self._spans(count):
            if number not in self.pages:
                self.pages[number] = bytearray(PAGE)
                os.preadv(self.fd, [self.pages[number]], number * PAGE)


class Hdf5OnDisk:
    """An HDF5 file that is written in a `with` statement, whose end raises that a write failed.

    Parameters
    ----------
    path
        A file that is there, empty with mode ``w``.
    settings
        Arguments of `h5py.File`.

    Raises
    ------
    OSError
        The file cannot be opened.
    """

    def __init__(self, path: Path, disk: Disk, mode: str = "w", **settings: Any) -> None:
        import h5py

        self._disk = disk
        self._buffer = _DiskBuffer(path, disk)
        try:
            self.file: h5py.File = h5py.File(self._buffer, mode, **settings)
        except BaseException:
            os.close(self._buffer.fd)
            raise

    def check(self) -> None:
        """Raise the `OSError` of a write that failed; what is written after one fills memory."""
        if self._buffer.failure is not None:
            raise self._buffer.failure

    def sync(self) -> None:
        """Wait until what HDF5 has written is on the device; raises as `check` does."""
        self.check()
        self._disk.sync(self._buffer.fd)

    def close(self) -> None:
        """Close; a second time does nothing. Reports no failure."""
        if self._buffer.fd >= 0:
            try:
                self.file.close()
            finally:
                os.close(self._buffer.fd)
                self._buffer.fd = -1

    def __enter__(self) -> Self:
        """The file, open."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close, and raise what `check` does unless there is an error already."""
        self.close()
        if kind is None:
            self.check()

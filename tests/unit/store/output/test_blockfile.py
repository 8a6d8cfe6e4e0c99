"""Files that are created whole and written in place."""

from __future__ import annotations

import errno
import os

import h5py
import numpy as np
import pytest

from tauslab.base.errors import OutputError
from tauslab.store.format.schema import DatasetSpec
from tauslab.store.hdf5.disk import Disk, publish
from tauslab.store.hdf5.in_place import Location, RawFile
from tauslab.store.hdf5.skeleton import build_file


class NoSpace(Disk):
    """A device that is full, from the start or from the first write on."""

    def __init__(self, *, free: int = 1 << 40) -> None:
        self.free = free

    def free_bytes(self, folder):
        return self.free

    def write(self, fd, data, offset):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class ShortWrites(Disk):
    """Writes 100 bytes at a time, as a system may."""

    def write(self, fd, data, offset):
        return super().write(fd, data[:100], offset)


def make(path, spec, disk=None):
    disk = disk or Disk()
    publish(path, disk, lambda temporary: build_file(temporary, [spec], {"a": 1}, disk))


@pytest.mark.parametrize("name", ["counts", "none"])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((23, 4, 2), (3, 4, 2)),  # whole rows, the last chunk not full
        ((23, 4, 2), None),
        ((5, 7, 2), (1, 3, 2)),  # rows cut along time, the last piece of a row not full
        ((5, 7, 5), (1, 1, 2)),
        ((6, 1, 1), (1, 1, 1)),
    ],
)
def test_written_bytes_are_what_hdf5_reads(tmp_path, name, shape, chunks):
    path = tmp_path / "a.h5"
    make(path, DatasetSpec(name, shape, "<i4", fill=-1, chunks=chunks))
    expected = np.full(shape, -1, np.int32)
    values = np.random.default_rng(1).integers(0, 1 << 30, shape).astype(np.int32)
    file = RawFile(path, [name], ShortWrites())
    row = values[0].nbytes
    for rows in (slice(1, 3), slice(shape[0] - 2, shape[0]), slice(2, 4)):
        file.write(name, rows.start * row, values[rows])
        expected[rows] = values[rows]
    file.sync()
    file.close()
    with h5py.File(path) as back:
        np.testing.assert_array_equal(back[name][()], expected)


def test_neighbouring_chunks_are_written_at_once():
    location = Location(np.array([100, 110, 120, 500, 510]), 10, 45)
    assert list(location.ranges(5, 38)) == [(105, 0, 25), (500, 25, 13)]
    assert list(location.ranges(45, 0)) == []


def test_chunks_of_a_cut_row_may_lie_anywhere():
    location = Location(np.array([300, 100, 200, 400]), 8, 12)  # pieces of 8 and 4 bytes
    assert list(location.ranges(0, 24)) == [(300, 0, 8), (100, 8, 4), (200, 12, 8), (400, 20, 4)]
    assert list(location.ranges(9, 5)) == [(101, 0, 3), (200, 3, 2)]


def test_metadata_do_not_change_while_data_flow(tmp_path):
    path = tmp_path / "a.h5"
    make(path, DatasetSpec("x", (10,), "<i8", fill=-1))
    before = path.read_bytes()
    file = RawFile(path, ["x"], Disk())
    file.write("x", 16, np.arange(3))
    file.close()
    after = path.read_bytes()
    offset = int(file.locations["x"].offsets[0]) + 16
    assert before[:offset] == after[:offset]
    assert before[offset + 24 :] == after[offset + 24 :]
    assert before != after


def test_unallocated_data_cannot_be_written(tmp_path):
    path = tmp_path / "a.h5"
    make(path, DatasetSpec("x", (10, 2), "<i8", fill=-1, chunks=(5, 2), allocated=False))
    with pytest.raises(OutputError, match="not laid out"):
        RawFile(path, ["x"], Disk())
    with h5py.File(path) as back:
        assert np.all(back["x"][()] == -1)


def test_no_space_at_creation(tmp_path):
    path = tmp_path / "a.h5"
    with pytest.raises(OutputError, match=r"a\.h5 cannot be written: No space left on device"):
        make(path, DatasetSpec("x", (1 << 20,), "<i8"), NoSpace(free=1 << 20))
    assert list(tmp_path.iterdir()) == []


def test_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.h5"
    path.write_text("mine")
    with pytest.raises(OutputError, match="cannot be written"):
        make(path, DatasetSpec("x", (1 << 20,), "<i8"), NoSpace(free=0))
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["a.h5"]


def test_no_space_later(tmp_path):
    path = tmp_path / "a.h5"
    make(path, DatasetSpec("x", (10,), "<i8"))
    file = RawFile(path, ["x"], NoSpace())
    with pytest.raises(OutputError, match="No space left on device; free some space"):
        file.write("x", 0, np.arange(3))
    file.close()

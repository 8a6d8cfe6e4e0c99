"""Chunks that are written as they are wait for HDF5's other callers, whatever h5py does."""

from __future__ import annotations

import threading
import zlib

import h5py
import numpy as np
import pytest
from h5py._objects import phil

from tauslab.base.files.direct_chunks import read_chunk, write_chunk

DATA = zlib.compress(np.arange(4, dtype="<i4").tobytes())


@pytest.fixture
def dataset(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        actual = file.create_dataset("x", (2, 4), "<i4", chunks=(1, 4), compression="gzip")
        write_chunk(actual, (1, 0), DATA)
        yield actual


def test_chunks_are_those_of_the_file(dataset):
    assert read_chunk(dataset, (1, 0)) == DATA
    assert dataset[:].tolist() == [[0, 0, 0, 0], [0, 1, 2, 3]]


@pytest.mark.parametrize("call", [read_chunk, lambda data, at: write_chunk(data, at, DATA)])
def test_a_call_waits_until_another_thread_has_left_hdf5(dataset, call):
    done = threading.Event()

    def run():
        call(dataset, (1, 0))
        done.set()

    with phil:
        thread = threading.Thread(target=run)
        thread.start()
        assert not done.wait(0.1)
    thread.join(10)
    assert done.is_set()

"""Statistics of runs that record no trajectories, saved while they go on."""

from __future__ import annotations

import os

import h5py
import numpy as np
import pytest
from sample_job import contents
from sampling import ordinary

from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.store.writers.checkpoint import Checkpoint, decode, encode
from tauslab.store.writers.writer import open_writer


@pytest.fixture
def sums_only(job):
    """The job without trajectories, in eight launches."""
    changed = job.with_layout(trajectories=False, final=False)
    changed.per_launch = 1
    return changed


def run_some(job, path, launches):
    job.run(path, stop_after=launches)
    return path


def change_byte(path, name, index):
    """Flip a byte of a dataset where it lies."""
    with h5py.File(path) as file:
        offset = file[name].id.get_offset() + index
    with path.open("r+b") as raw:
        raw.seek(offset)
        old = raw.read(1)[0]
        raw.seek(offset)
        raw.write(bytes([old ^ 1]))
        os.fsync(raw.fileno())


def completed(job, path):
    writer = open_writer(path, job.layout, Communicator(), resume=True)
    writer.abort()
    expected = job.sums(0, int(writer.completed.sum()))
    for name, values in (writer.restored or {}).items():
        np.testing.assert_array_equal(values, expected[name])
    return np.flatnonzero(writer.completed).tolist()


def test_encoding(sums_only):
    layout = sums_only.layout
    done = np.arange(layout.n_blocks) % 3 == 0
    data = encode(layout, Checkpoint(2**40, sums_only.totals(), done))
    back = decode(layout, data)
    assert back is not None
    assert back.generation == 2**40
    np.testing.assert_array_equal(back.done, done)
    for name, values in sums_only.totals().items():
        np.testing.assert_array_equal(back.totals[name], values)
    for index in (0, 9, 40, len(data) - 1):
        spoiled = data.copy()
        spoiled[index] ^= 1
        assert decode(layout, spoiled) is None
    assert decode(layout, np.zeros_like(data)) is None


def test_a_torn_checkpoint_costs_one_launch(sums_only, tmp_path):
    """The one before it is in the other slot."""
    for launches in (3, 4):
        path = run_some(sums_only, tmp_path / f"{launches}.h5", launches)
        assert completed(sums_only, path) == list(range(launches))
        change_byte(path, f"progress/checkpoint_{launches % 2}", 100)
        assert completed(sums_only, path) == list(range(launches - 1))


def test_a_checkpoint_of_unmarked_blocks_does_not_count(sums_only, tmp_path):
    """A loss of power may take a mark, and leave the checkpoint that was written after it."""
    path = run_some(sums_only, tmp_path / "a.h5", 3)
    change_byte(path, "progress/blocks", 2)
    assert completed(sums_only, path) == [0, 1]
    sums_only.run(path, resume=True)
    sums_only.check(path)


@pytest.mark.parametrize(
    "ranks", ordinary([[1, 1, 1], [1, 2, 3], [2, 1, 3], [2, 2, 1]], [1, 2, 3], [2, 2, 1])
)
def test_nothing_is_counted_twice(sums_only, tmp_path, ranks):
    """Broken off twice; later checkpoints of rank 0 include what it restored from earlier ones."""
    sums_only.run(tmp_path / "whole.h5")
    path = tmp_path / "a.h5"
    sums_only.run(path, ranks[0], stop_after=3)
    sums_only.run(path, ranks[1], stop_after=3, resume=True)
    writers = sums_only.run(path, ranks[2], resume=True)
    assert writers[0].completed.sum() == 6
    assert contents(path) == contents(tmp_path / "whole.h5")

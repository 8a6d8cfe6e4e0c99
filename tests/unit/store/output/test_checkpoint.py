"""Statistics of runs that record no trajectories, saved while they go on."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

import h5py
import numpy as np
import pytest
from sample_job import contents
from sampling import ordinary

from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.options.record import HistogramSpec
from tauslab.store.format.schema import CHECKPOINT_SLOTS, checkpoint_specs
from tauslab.store.format.statistics import zero_accumulators
from tauslab.store.hdf5.disk import Disk
from tauslab.store.hdf5.in_place import RawFile
from tauslab.store.hdf5.skeleton import build_file
from tauslab.store.writers import checkpoint
from tauslab.store.writers.checkpoint import CheckpointSlots, decode, slot_bytes
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


def slots_of(path, layout):
    """A file with two slots of zeros."""
    build_file(create(path), checkpoint_specs(slot_bytes(layout)), {}, Disk())
    return RawFile(path, CHECKPOINT_SLOTS, Disk())


def create(path):
    path.touch()
    return path


def stored(path, layout, generation):
    with h5py.File(path) as file:
        data = file[CHECKPOINT_SLOTS[generation % 2]][()]
    return data, decode(layout, data)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("piece", [1 << 20, 1000, 1])
def test_what_is_written_is_read(sums_only, tmp_path, monkeypatch, fresh, piece):
    """Of a sweep, whose sums are written in pieces of some points; any bit that differs counts."""
    monkeypatch.setattr(checkpoint, "_PIECE_BYTES", piece)
    sweep = {"k": np.linspace(0, 1, 7)}
    layout = replace(sums_only.layout, sweep=sweep, n=9, block=2)
    file = slots_of(tmp_path / "a.h5", layout)
    slots = CheckpointSlots(file, layout, 4, fresh=fresh)
    random, totals = np.random.default_rng(3), zero_accumulators(layout)
    done = np.zeros(layout.n_blocks, np.bool_)
    for generation, block in enumerate((0, 1, 30, 29, 4, 12), 5):
        for values in totals.values():
            cells = values[layout.points_of(*layout.block_rows(block, block + 1))]
            cells += random.integers(1, 1 << 60, cells.shape, np.uint64)
        done[block] = True
        slots.write(totals, done)
        data, back = stored(tmp_path / "a.h5", layout, generation)
        assert back.generation == generation
        np.testing.assert_array_equal(back.done, done)
        for name, values in totals.items():
            np.testing.assert_array_equal(back.totals[name], values)
    file.close()
    for index in (0, 9, 40, len(data) // 2, len(data) - 1):
        spoiled = data.copy()
        spoiled[index] ^= 1
        assert decode(layout, spoiled) is None
    assert decode(layout, np.zeros_like(data)) is None


def test_a_checkpoint_of_an_earlier_version_counts(sums_only):
    layout, totals = sums_only.layout, sums_only.totals()
    sums = [totals[name].reshape(-1).view(np.uint8) for name in layout.accumulator_shapes()]
    payload = np.concatenate([*sums, np.packbits(np.ones(layout.n_blocks, np.bool_))]).tobytes()
    generation = (3).to_bytes(8, "little")
    checksum = hashlib.blake2b(generation + payload, digest_size=32).digest()
    back = decode(layout, np.frombuffer(generation + checksum + payload, np.uint8))
    assert back.done.all()
    for name, values in totals.items():
        np.testing.assert_array_equal(back.totals[name], values)


def test_points_that_did_not_change_are_not_written_again(sums_only, tmp_path):
    """Of 400 points, one block later: a piece of the 13 or two, not all sums."""

    class Counting(Disk):
        written = 0

        def write(self, fd, data, offset):
            Counting.written += len(data)
            return super().write(fd, data, offset)

    n = 400
    layout = replace(
        sums_only.layout, sweep={"k": np.arange(float(n))}, n=8, block=8,
        histograms=(HistogramSpec(sums_only.layout.species[0], 0.0, 1000.0, 1000),),
    )  # fmt: skip
    size = slot_bytes(layout)
    assert size > 12 << 20
    slots_of(tmp_path / "a.h5", layout).close()
    file = RawFile(tmp_path / "a.h5", CHECKPOINT_SLOTS, Counting())
    slots, totals = CheckpointSlots(file, layout, fresh=True), zero_accumulators(layout)
    done = np.zeros(layout.n_blocks, np.bool_)
    for block in range(5):
        totals["n"][block] += np.uint64(8)
        done[block] = True
        Counting.written = 0
        slots.write(totals, done)
        assert Counting.written < 2 << 20
        assert stored(tmp_path / "a.h5", layout, block + 1)[1].totals["n"].sum() > 0
    file.close()


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

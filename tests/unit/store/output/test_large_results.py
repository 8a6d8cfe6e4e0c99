"""Results beyond memory, 2^31 values or the number of writes that a disk can take."""

from __future__ import annotations

import resource
import time
from dataclasses import replace

import h5py
import numpy as np

from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.store.format.layout import Chunk
from tauslab.store.format.schema import PREFILL_BYTES
from tauslab.store.hdf5.disk import Disk
from tauslab.store.writers.parts import PartsOptions, PartsWriter
from tauslab.store.writers.writer import open_writer


class CountingDisk(Disk):
    """Counts syncs, and claims to have room."""

    syncs = 0

    def sync(self, fd):
        self.syncs += 1
        super().sync(fd)

    def free_bytes(self, folder):
        return 1 << 50


def large_job(job, **changes):
    """Sample times and species as in the small job, no observables, no statistics."""
    plain = {"observables": (), "final": False, "statistics": False}
    return replace(job.layout, **{**plain, "histograms": (), **changes})


def rows_of(layout, block, value):
    start, stop = layout.block_rows(block, block + 1)
    shape = (stop - start, len(layout.times), len(layout.species))
    arrays = {"status": np.zeros(stop - start, np.uint8)}
    if layout.trajectories:
        arrays["counts"] = np.full(shape, value, np.int32)
    return Chunk(start, arrays)


def test_more_than_2_to_31_values(job, tmp_path):
    """8 GiB: created at once, without the memory or the disk space; ends of it written and read."""
    times, species = np.linspace(0, 1, 512), ("X", "Y")
    layout = large_job(job, n=(1 << 21) + 100, times=times, species=species, block=1 << 13)
    assert layout.n * 512 * 2 > 2**31
    assert layout.payload_bytes > PREFILL_BYTES
    path, disk = tmp_path / "a.h5", CountingDisk()
    start, memory = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    writer = open_writer(path, layout, Communicator(), disk=disk)
    last = layout.n_blocks - 1
    for block in (0, 130, last):
        writer.write(rows_of(layout, block, block + 5))
    writer.abort()
    assert time.perf_counter() - start < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 400 << 10  # in KiB
    assert path.stat().st_size > layout.payload_bytes
    assert path.stat().st_blocks * 512 < 200 << 20
    with h5py.File(path) as file:
        assert np.flatnonzero(file["progress/blocks"][()]).tolist() == [0, 130, last]
        for block in (0, 130, last):
            begin, stop = layout.block_rows(block, block + 1)
            assert np.all(file["counts"][begin : begin + 2] == block + 5)
            assert np.all(file["counts"][stop - 2 : stop] == block + 5)
            assert np.all(file["status"][begin:stop] == 0)
        # What is missing has no fill values here, but its status says so.
        assert np.all(file["status"][layout.block : 130 * layout.block] == 255)
    assert open_writer(path, layout, Communicator(), resume=True, disk=disk).completed.sum() == 3


def test_statistics_of_many_trajectories_take_little_space(job, tmp_path):
    """A byte per trajectory, its status."""
    layout = large_job(job, n=1 << 24, trajectories=False, statistics=True, block=1 << 18)
    path = tmp_path / "a.h5"
    open_writer(path, layout, Communicator()).abort()
    assert path.stat().st_size < layout.n + (1 << 20)


def test_a_write_waits_for_the_disk_once(job, tmp_path):
    """However many storage blocks it has: the marks go out with the next wait."""
    layout = large_job(job, n=24, trajectories=True)
    for kind in ("single", "parts"):
        disk, path = CountingDisk(), tmp_path / f"{kind}.h5"
        comm = Communicator()
        writer = (
            open_writer(path, layout, comm, disk=disk)
            if kind == "single"
            else PartsWriter(path, layout, comm, disk, None, "run", PartsOptions())
        )
        writer.write(rows_of(layout, 0, 1))  # a part is created by the first write
        before = disk.syncs
        arrays = {
            "status": np.zeros(21, np.uint8),
            "counts": np.ones((21, len(layout.times), len(layout.species)), np.int32),
        }
        writer.write(Chunk(3, arrays))
        assert disk.syncs == before + 1
        writer.abort()


def test_fill_values_are_written_once(job, tmp_path):
    """In a small result, where missing rows show as -1."""

    class Volume(Disk):
        written = 0

        def write(self, fd, data, offset):
            self.written += len(data)
            return super().write(fd, data, offset)

    layout = large_job(job, n=300_000, block=10_000)
    path, disk = tmp_path / "a.h5", Volume()
    open_writer(path, layout, Communicator(), disk=disk).abort()
    assert layout.payload_bytes < disk.written < layout.payload_bytes * 1.1
    with h5py.File(path) as file:
        assert np.all(file["counts"][:] == -1)
        assert np.all(file["status"][:] == 255)
    assert path.stat().st_size < layout.payload_bytes * 1.1

"""A disk that is full at the n-th write: a sentence, and the same process goes on later.

HDF5 cannot go on after a write that failed: it keeps the file open, takes the next one with the
same inode for it, and crashes sooner or later. So none of its writes may fail.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

import h5py
import numpy as np
import pytest
from dbn_factory import CHAIN
from h5py import h5f
from lattice_run_factory import meddling
from lattice_run_factory import run as run_lattice
from pairs_factory import run as run_pairs
from sampling import ordinary

import tauslab as ts
from tauslab import dbn
from tauslab.analysis.dbn.results.file import network_digest_lines
from tauslab.base.errors import OutputError
from tauslab.store.hdf5.buffers import PAGE, Hdf5OnDisk
from tauslab.store.hdf5.disk import Disk
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.store.results.lattice.digest import lattice_digest_lines


@dataclass
class Full:
    """Lets so many writes pass, and half of the next."""

    left: int = 1 << 40
    passed: int = 0

    def __call__(self, fd, data, offset):
        if self.passed >= self.left:
            os.pwrite(fd, data[: len(data) // 2], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.passed += 1
        return os.pwrite(fd, data, offset)


def lattice(path, **options):
    run_lattice(path, hooks=((10, meddling),), replicas=2, frame_every=20, **options).close()


def samples(path, **options):
    run_pairs(
        n=400, block=40, output=ts.Output(path, compress=1), record="trajectories", **options
    ).close()


def until(path, **options):
    run_pairs(n=4096, until="mean(X) rel 0.9", output=ts.Output(path, compress=1),
              record="trajectories",
              **options).close()  # fmt: skip


def network(path, **options):
    model = path.with_name("chain.toml")
    model.write_text(CHAIN)
    dbn.build(model, unknown=["a"], samples=100, points=3, method=ts.ODE(substeps=5), seed=1,
              device=ts.CPU(threads=1), output=path, **options)  # fmt: skip
    model.unlink()


def digest(job, path):
    if job is lattice:
        return digest_total(lattice_digest_lines(path))
    if job is network:
        return network_digest_lines(path)
    with ts.open(path) as result:
        return digest_total(digest_lines(result))


@pytest.mark.parametrize(
    "job",
    ordinary([lattice, samples, until, network], samples),
)
def test_a_full_disk_hurts_no_later_run_of_the_process(job, tmp_path, monkeypatch):
    whole, full = tmp_path / "whole.h5", Full()
    monkeypatch.setattr(Disk, "write", lambda _, *given: full(*given))
    job(whole)
    writes, wanted = full.passed, digest(job, whole)
    still_open = h5f.get_obj_count(h5f.OBJ_ALL, h5f.OBJ_FILE)  # by other tests of this process
    assert writes > 4
    # Evenly through the run, and the last ones: HDF5 writes most when it closes a file.
    for moment in sorted({*np.linspace(0, writes, 4, dtype=int).tolist()[:-1], writes - 2}):
        path = tmp_path / f"{moment}.h5"
        full.passed, full.left = 0, moment
        try:
            job(path)
        except OutputError as error:
            assert "No space left on device; free some space" in str(error)  # noqa: PT017
        else:  # a slow machine flushes more often: this run had fewer writes than the first
            assert 0 < full.passed <= moment
        actual = h5f.get_obj_count(h5f.OBJ_ALL, h5f.OBJ_FILE)
        assert actual <= still_open, "HDF5 has closed everything"
        full.left = 1 << 40
        job(path, resume=True)
        assert digest(job, path) == wanted, moment
        for left in tmp_path.glob(f"{moment}.h5*"):
            left.unlink()
    assert [p.name for p in tmp_path.iterdir()] == ["whole.h5"]


def test_a_file_on_disk_is_what_hdf5_would_have_written(tmp_path):
    data = np.arange(3 * PAGE)
    path = tmp_path / "a.h5"
    path.touch()
    with Hdf5OnDisk(path, Disk()) as opened:
        opened.file["data"] = data
        opened.sync()
    with Hdf5OnDisk(path, Disk(), "r+") as opened:
        opened.file["data"][5] = 7
        opened.file.attrs["more"] = "text"
    data[5] = 7
    with h5py.File(path) as file:
        assert np.array_equal(file["data"], data)
        assert file.attrs["more"] == "text"


@pytest.mark.parametrize("left", range(0, 12, 2))
def test_what_hdf5_writes_after_a_failure_it_reads_again(tmp_path, left):
    """So that its tables stay whole until the file is closed."""
    path, full = tmp_path / "a.h5", Disk()
    path.touch()
    full.write = Full(left)
    with pytest.raises(OSError, match="No space left"), Hdf5OnDisk(path, full) as opened:  # noqa: PT012
        for index in range(40):
            opened.file.create_dataset(f"group {index}/data", data=np.full(50_000, index))
            opened.file.flush()
        for index in range(40):
            assert (opened.file[f"group {index}/data"][...] == index).all()
        opened.file["group 3/data"].attrs["one"] = np.zeros(1000)
        opened.sync()


def test_an_error_of_the_caller_is_not_covered_by_the_disks(tmp_path):
    path, full = tmp_path / "a.h5", Disk()
    path.touch()
    full.write = Full(0)
    with pytest.raises(ValueError, match="mine"), Hdf5OnDisk(path, full) as opened:  # noqa: PT012
        opened.file["data"] = np.zeros(10)
        raise ValueError("mine")

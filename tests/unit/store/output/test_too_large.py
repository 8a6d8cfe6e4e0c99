"""What needs more memory or disk than there is: refused with bytes, before anything is made."""

from __future__ import annotations

import errno
import os

import pytest
from pairs_factory import pairs, run

import tauslab as ts
from tauslab.base import host
from tauslab.base.errors import ConfigError, ModelError, OutputError
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.store.hdf5.disk import Disk
from tauslab.store.locks import require_new_file, written_by_us

GIB = 1 << 30


@pytest.fixture
def little(monkeypatch):
    monkeypatch.setattr(host, "available_memory", lambda: GIB)


@pytest.mark.usefixtures("little")
def test_a_block_of_more_samples_than_memory_holds(tmp_path):
    with pytest.raises(
        ModelError, match=r"block of 268435456 .* GiB of memory; 1 GiB is available"
    ):
        run(n=2**28, block=2**28, record="final", output=tmp_path / "a.h5")
    assert not list(tmp_path.iterdir())


TIMES = [k / 1000 for k in range(1001)]
LARGE = {"n": 10, "record": "histogram:X:0:1000:20000", "times": TIMES}


@pytest.mark.usefixtures("little")
def test_more_sums_than_memory_holds(tmp_path):
    with pytest.raises(ModelError, match=r"sums of 8 points .*1.19 GiB of memory; 1 GiB is"):
        run(**LARGE, sweep={"k": [1.0 + k for k in range(8)]}, output=tmp_path / "a.h5")
    assert not list(tmp_path.iterdir())


def test_a_large_file_is_told_of_before_the_run(tmp_path, monkeypatch, capsys):
    """Memory: 153 MiB of sums, and few samples of three launches of one block."""
    monkeypatch.setattr("tauslab.runner.ensemble.run._LARGE_BYTES", 1 << 28)
    run(**LARGE, output=tmp_path / "a.h5", quiet=False)
    told = [line for line in capsys.readouterr().err.splitlines() if "takes" in line]
    (line,) = told
    assert "a.h5 takes 458 MiB (306 MiB of it to save sums meanwhile)" in line
    assert "of memory beside the program, 153 MiB of it for sums" in line


def test_a_file_that_is_larger_than_the_disk_says_how_large(tmp_path, monkeypatch):
    monkeypatch.setattr(Disk, "free_bytes", lambda *_: GIB)
    with pytest.raises(OutputError, match=r"takes 8\.\d+ TiB, and 1 GiB are free"):
        run(n=10**12, record="final", output=tmp_path / "a.h5", block=10**4)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("size", [{"steps": 10**9}, {"chains": 10**6}])
def test_chains_that_memory_does_not_hold(size):
    data = {"time": [1.0], "X": [9]}
    given = {"observe": {"X": "normal(sd=2)"}, "n": 50, "steps": 100, "device": "cpu", **size}
    with pytest.raises(ModelError, match="GiB of memory"):
        ts.pmmh(pairs(), data, {"k": "loguniform(0.1,10)"}, **given)


@pytest.mark.usefixtures("little")
def test_walkers_that_memory_does_not_hold():
    with pytest.raises(ModelError, match="10000000 walkers in each of 10000 bins"):
        ts.weighted_ensemble(
            pairs(), target="X >= 90", t_end=1, walkers=10**7, bins=10**4, device="cpu"
        )


def test_a_full_disk_is_found_before_anything_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(Disk, "free_bytes", lambda *_: 4096)
    with pytest.raises(OutputError, match=r"a\.h5 cannot be written: 0\.0039\d* MiB are free"):
        require_new_file(tmp_path / "a.h5", overwrite=False)


def test_a_lock_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pwrite", full)
    with (
        pytest.raises((OutputError, ConfigError), match=r"a\.h5\.tauslab-lock"),
        written_by_us(tmp_path / "a.h5", Communicator()),
    ):
        pass

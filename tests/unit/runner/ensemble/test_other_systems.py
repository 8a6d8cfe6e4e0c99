"""Systems that have not all of Linux's own calls, as macOS."""

from __future__ import annotations

import os

import pytest
from places import ROOT
from sampling import ordinary

import tauslab as ts
from tauslab.base import host
from tauslab.base.errors import DeviceError
from tauslab.decomposition.halo.peer import HostMemory

LINUX_ALONE = ("sched_getaffinity", "memfd_create", "posix_fallocate", "fdatasync")


@pytest.fixture
def not_linux(monkeypatch, tmp_path):
    for name in LINUX_ALONE:
        monkeypatch.delattr(os, name, raising=False)
    names = {k: v for k, v in os.sysconf_names.items() if k != "SC_AVPHYS_PAGES"}
    monkeypatch.setattr(os, "sysconf_names", names)
    monkeypatch.setattr(host, "PROC", tmp_path / "none")


@pytest.mark.parametrize("method", ordinary(["ssa", "tau", "ode"], "ssa"))
def test_an_ensemble_is_run_and_written(not_linux, data, tmp_path, method):
    model = ts.read(data / "net" / "birth-death.net")
    path = tmp_path / "out.h5"
    result = ts.run(model, n=20, t_end=1.0, seed=3, method=method, output=path)
    with ts.open(path) as stored:
        assert stored.n == result.n == 20


def test_a_lattice_is_run(not_linux):
    lattice = ts.read(ROOT / "examples" / "michaelis_menten_cube.toml")
    result = ts.run(lattice, t_end=0.001, seed=3)
    assert result.counts("S")[-1] > 9000  # of 9,091


def test_ranks_share_no_memory(not_linux):
    with pytest.raises(DeviceError, match="this is not Linux"):
        HostMemory(None).make(8)

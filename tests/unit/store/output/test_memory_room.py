"""Results in memory are refused before the run where memory lacks room for them."""

from __future__ import annotations

import pytest

import tauslab as ts
from tauslab.base import host


def decay():
    net = ts.Network("decay")
    net.add_species("X", 1)
    net.add_reaction("X ->", rate=1.0)
    return net


GIVEN = {"t_end": 1.0, "points": 100, "seed": 1, "device": "cpu", "quiet": True}


def test_more_rows_than_memory_takes(monkeypatch):
    monkeypatch.setattr(host, "available_memory", lambda: 64 << 20)

    def never(*_args, **_given):
        raise AssertionError("the run began")

    monkeypatch.setattr("tauslab.runner.ensemble.run._simulate", never)
    with pytest.raises(ts.ConfigError) as refused:  # 200,000 x (400 + 1) bytes
        ts.run(decay(), n=200_000, record="trajectories", **GIVEN)
    text = str(refused.value)
    assert text.startswith("results of 200000 trajectories need 76.5 MiB of memory and 64 MiB can")
    assert "output=" in text
    assert "record='statistics'" in text or 'record="statistics"' in text


def test_what_fits_or_goes_to_a_file_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "available_memory", lambda: 0)
    assert ts.run(decay(), n=10, record="trajectories", **GIVEN).n == 10
    monkeypatch.setattr("tauslab.store.writers.memory._SMALL", 0)
    with pytest.raises(ts.ConfigError, match="of memory"):
        ts.run(decay(), n=10, record="trajectories", **GIVEN)
    path = tmp_path / "decay.h5"
    assert ts.run(decay(), n=10, record="trajectories", output=path, **GIVEN).n == 10

"""`to_pandas` of what is no ensemble: the same columns as a table that is exported."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.cli.main import main

pytest.importorskip("pandas")
DATA = {"time": [1.0, 2.0], "X": [11.0, 9.0]}


@pytest.fixture(scope="module")
def births():
    net = ts.Network("births")
    net.add_species("X", 10)
    net.add_parameter("k", 4.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=0.2)
    return net


def test_laws(births):
    law = ts.cme(births, [1.0, 2.0])
    frame = law.to_pandas()
    assert frame.columns.tolist() == ["time", "bound", "X_mean", "X_sd"]
    assert np.allclose(frame["X_sd"] ** 2, law.variance("X"))


def test_filters(births, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = {"observe": {"X": "normal(2)"}, "n": 20, "seed": 1, "device": "cpu"}
    one = ts.particle_filter(births, DATA, **given).to_pandas()
    births.write("m.toml")
    (tmp_path / "d.csv").write_text("time,X\n1,11\n2,9\n", encoding="utf-8")
    words = ["filter", "m.toml", "d.csv", "--observe", "X=normal(2)", "-n", "20", "--seed", "1",
             "--device", "cpu", "-o", "f.h5", "--quiet"]  # fmt: skip
    assert main(words) == 0
    assert main(["export", "f.h5", "-o", "-"]) == 0
    assert capsys.readouterr().out == one.to_csv(index=False, lineterminator="\n")
    many = ts.particle_filters(births, DATA, filters=3, states=True, **given)
    frame = many.to_pandas()
    assert frame["filter"].tolist() == [0, 0, 1, 1, 2, 2]
    assert frame["time"].tolist() == [1.0, 2.0] * 3
    assert frame["X_mean"].tolist() == many.mean[:, :, 0].ravel().tolist()


@pytest.mark.parametrize("chains", [1, 2])
def test_chains(births, chains):
    actual = ts.pmmh(
        births, DATA, {"k": "uniform(1,8)"}, observe={"X": "normal(2)"}, n=5, steps=4, warm_up=2,
        chains=chains, device="cpu", seed=0,
    )  # fmt: skip
    frame = actual.to_pandas()
    assert frame.columns.tolist() == ["chain", "step", "log_likelihood", "k"]
    assert frame["k"].tolist() == actual["k"].ravel().tolist()
    assert frame["step"].tolist() == [0, 1, 2, 3] * chains
    summary = actual.to_pandas("summary")
    assert summary["parameter"].tolist() == ["k"]
    assert summary["mean"][0] == actual["k"].mean()
    assert summary["q05"][0] <= summary["q50"][0] <= summary["q95"][0]
    with pytest.raises(ts.ConfigError, match="Chain has the tables chains, summary"):
        actual.to_pandas("final")
    with pytest.raises(ts.ConfigError, match="'q' is no parameter of this result; it has k"):
        actual["q"]


def test_populations():
    cell = ts.Network("cell")
    cell.add_species("X", 0)
    cell.add_species("V", 1.0)
    cell.add_rate("V", "0.5 * V")
    cell.add_reaction("-> X", law="10 * V")
    cell.add_event("divide", trigger="V >= 2")
    actual = ts.population(cell, [0, 2], division="divide", cells=5, seed=1, device="cpu")
    frame = actual.to_pandas()
    assert frame["X_mean"].tolist() == [one.mean("X") for one in actual.snapshots]
    assert len(actual.to_pandas("final")) == len(actual.snapshots[-1])
    assert len(actual.to_pandas("divisions")) == len(actual.divisions)
    with pytest.raises(ts.ConfigError, match="PopulationResult has the tables statistics"):
        actual.to_pandas("summaries")

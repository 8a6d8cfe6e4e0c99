"""``tauslab sensitivity`` and ``tauslab population``: what they print, write, draw and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

import tauslab as ts
from tauslab.cli.main import main

DIMERS = """
t_end = 2.0
[species]
A = 20
D = 0
[parameters]
k1 = 0.01
k2 = 1.0
[[reactions]]
equation = "2 A -> D"
rate = "k1"
[[reactions]]
equation = "D -> 2 A"
rate = "k2"
"""
CELL = """
[species]
X = 0
V = 1.0
[rules]
V = "0.5 * V"
[[reactions]]
equation = "-> X"
law = "20 * V"
[[events]]
name = "divide"
trigger = "V >= 2"
assignments = {}
"""
# Numbers of pairs are small here.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*give the same of the derivative", "ignore:.*determine the derivative"
)
SENSITIVITY = ["sensitivity", "m.toml", "--seed", "1", "--device", "cpu", "-n", "200"]
POPULATION = ["population", "c.toml", "--division", "divide", "--seed", "1", "--device", "cpu",
              "--cells", "20"]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.toml").write_text(DIMERS)
    (tmp_path / "c.toml").write_text(CELL)


def printed(capsys, *words):
    code = main([*words])
    out = capsys.readouterr()
    assert code == 0, out.err
    return out.out


def test_sensitivity(capsys):
    more = ["--t", "1,2", "--outputs", "D,A * D", "--parameters", "k1,A", "--step", "k1=1e-3"]
    text = printed(capsys, *SENSITIVITY, *more, "-o", "s.h5")
    assert "mean of A * D at t = 2" in text
    assert "coupled, n 200, seed 1, 2 times" in text
    assert printed(capsys, "info", "s.h5") == text
    python = ts.sensitivity(
        "m.toml", "k1,A", ["D", "A * D"], t=[1, 2], n=2e2, seed=1, device="cpu", step={"k1": 1e-3},
        output="p.h5",
    )  # fmt: skip
    stored = ts.open("s.h5")
    with pytest.raises(ts.ConfigError, match="take a parameter and an output"):
        stored["k1"]
    assert stored.digest() == python.digest() == ts.open("p.h5").digest()
    assert (stored.parameters, stored.outputs) == (("k1", "A"), ("D", "A * D"))
    assert np.array_equal(stored.variance_reduction, python.variance_reduction, equal_nan=True)
    facts = json.loads(printed(capsys, *SENSITIVITY, *more, "--json", "--threads", "1"))
    assert facts == json.loads(printed(capsys, "info", "s.h5", "--json"))
    assert facts["derivatives"]["D"]["k1"]["value"] == python["k1", "D"].tolist()
    rows = printed(capsys, "export", "s.h5", "-o", "-").splitlines()
    assert rows[0] == "parameter,time,output,value,standard_error,elasticity"
    assert len(rows) == 9
    assert len(printed(capsys, "digest", "s.h5").splitlines()) == 13
    assert main([*SENSITIVITY, "-o", "s.h5"]) == 2
    assert "s.h5 exists" in capsys.readouterr().err


def test_the_end_of_the_model_and_a_likelihood_ratio_are_enough(capsys):
    facts = json.loads(printed(capsys, *SENSITIVITY, "--json", "--method", "likelihood-ratio"))
    assert facts["time"] == [2.0]
    assert (facts["estimator"], list(facts["parameters"])) == ("likelihood-ratio", ["k1", "k2"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--t", "1,x"], "--t 1,x: write times between commas"),
        (["--t", "2,1"], "must increase"),
        (["--step", "2"], "--step 2.0 is not allowed"),
        (["--step", "0.1", "--step", "k1=1"], "--step 0.1 k1=1: write one fraction"),
        (["--step", "k3=1"], "--step k3: it is not among"),
        (["--step", "nought"], "--step nought"),
        (["--parameters", "k3"], "--parameters: 'k3'"),
        (["--outputs", "Q"], "--outputs: 'Q'"),
        (["--method", "likelihood-ratio", "--difference", "forward"], "need --method coupled"),
        (["--set", "Q=3"], "Q"),
        (["-n", "0"], "-n 0 is not allowed"),
        (["-o", "r.csv"], "a result is an HDF5 file"),
        (["--methid", "common"], "is --method meant?"),
    ],
)
def test_sensitivity_refuses(capsys, more, message):
    assert main([*SENSITIVITY, *more]) == 2
    assert message in capsys.readouterr().err


def test_pairs_that_never_differ_are_reported(capsys):
    """Where a standard error of 0 would look like a derivative that is known to be 0."""
    more = ("2", "--step", "k1=1e-12", "--parameters", "k1")
    text = printed(capsys, *SENSITIVITY[:-1], *more)
    assert "by k1: 0 +- nan, no two differ: use a larger n or step" in text


def test_population(capsys):
    text = printed(capsys, *POPULATION, "--t", "1,4", "-o", "c.h5")
    assert "growth rate 0.46" in text
    assert printed(capsys, "info", "c.h5") == text
    python = ts.population("c.toml", [1, 4], division="divide", cells=20, seed=1, device="cpu")
    python.save("p.h5")
    Path("mine.csv").write_text("kept", encoding="utf-8")
    with pytest.raises(ts.ConfigError, match=r"mine\.csv.*a result is an HDF5 file"):
        python.save("mine.csv")
    assert Path("mine.csv").read_text(encoding="utf-8") == "kept"
    assert printed(capsys, "digest", "p.h5") == printed(capsys, "digest", "c.h5")
    stored = ts.open("c.h5")
    assert repr(stored) == repr(python)
    for one, other in zip(stored.snapshots, python.snapshots, strict=True):
        assert np.array_equal(one["X"], other["X"])
        assert np.array_equal(one.mother, other.mother)
        assert (one.time, one.log_size) == (other.time, other.log_size)
    assert stored.generations() == python.generations()
    facts = json.loads(printed(capsys, *POPULATION, "--t", "1,4", "--json"))
    message = json.loads(printed(capsys, "info", "c.h5", "--json"))
    assert message.items() <= facts.items()
    assert printed(capsys, "export", "c.h5", "-o", "-").startswith("time,cells,log_size,X_mean")
    cells = printed(capsys, "export", "c.h5", "-o", "-", "--what", "trajectories").splitlines()
    assert len(cells) == 1 + sum(facts["cells"])
    divided = printed(capsys, "export", "c.h5", "-o", "-", "--what", "divisions").splitlines()
    assert len(divided) == 1 + facts["divisions"]
    assert main(["export", "c.h5", "-o", "-", "--what", "summaries"]) == 2
    assert "PopulationResult has the tables" in capsys.readouterr().err


def test_nobody_has_divided(capsys):
    printed(capsys, *POPULATION, "--t", "0.5", "-o", "c.h5")
    assert len(ts.open("c.h5").divisions) == 0
    assert ts.open("c.h5").generations() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--t", "1", "--partition", "X"], "write NAME=HOW"),
        (["--t", "1", "--partition", "X=third"], "--partition X=third is not"),
        (["--t", "1", "--partition", "Q=even"], "--partition Q: not a species"),
        (["--t", "1", "--fraction", "2"], "--fraction 2 is not allowed"),
        (["--t", "1", "--division", "birth"], "--division birth: c has no such event"),
        (["--t", "9", "--follow", "tree", "--max-cells", "30"], "more than --max-cells 30 cells"),
        (
            ["--t", "1", "--max-cells", "30"],
            "--max-cells is not for --follow population: leave it out",
        ),
        (["--t", "1", "--max-steps", "2"], "take more than --max-steps"),
        ([], "--t is missing"),
    ],
)
def test_population_refuses(capsys, words, message):
    assert main([*POPULATION, *words]) == 2
    assert message in capsys.readouterr().err


def test_the_division_is_missing(capsys):
    assert main(["population", "c.toml", "--t", "1"]) == 2
    assert "--division is missing: the event that divides a cell; c has divide" in (
        capsys.readouterr().err
    )


def test_axes_of_files_have_names(capsys):
    """As xarray takes them; `tests/unit/analysis/rare` opens such a file with it."""
    printed(capsys, *SENSITIVITY, "-o", "s.h5")
    printed(capsys, *POPULATION, "--t", "1,4", "-o", "c.h5")
    axes = {
        "s.h5": {"value": ["parameter", "time", "output"], "valid": ["parameter", "time"]},
        "c.h5": {"mean": ["time", "name"], "at_birth": ["division", "species"], "age": ["row"]},
    }
    for path, datasets in axes.items():
        with h5py.File(path) as file:
            for name, scales in datasets.items():
                assert [axis[0].name for axis in file[name].dims] == [f"/{one}" for one in scales]


def test_damage_is_found(capsys):
    printed(capsys, *SENSITIVITY, "-o", "s.h5")
    with h5py.File("s.h5", "r+") as file:
        file["value"][0] = 7.0
    assert main(["info", "s.h5"]) != 0
    assert "value" in capsys.readouterr().err


def test_pictures(capsys):
    """Of every kind a picture; of one the command and a page."""
    pytest.importorskip("matplotlib")
    rare = ["rare", "m.toml", "--target", "D >= 2", "--runs", "3", "--rounds", "24", "--seed", "1",
            "--walkers", "5", "--quiet"]  # fmt: skip
    printed(capsys, *SENSITIVITY, "-o", "s.h5")
    printed(capsys, *SENSITIVITY, "--t", "1,2", "-o", "s2.h5")
    printed(capsys, *POPULATION, "--t", "1,4", "-o", "c.h5")
    printed(capsys, *rare, "-o", "r.h5")
    printed(capsys, *rare, "--steady", "-o", "r2.h5")
    data = {"time": [1, 2], "D": [3, 2]}
    actual = ts.particle_filter("m.toml", data, observe={"D": "normal(1)"}, n=20, seed=1)
    assert len(actual.plot().axes) == 3
    panels = {"s": 2, "s2": 2, "c": 3, "r": 2, "r2": 2}
    for name, number in panels.items():
        assert len(ts.open(f"{name}.h5").plot().axes) == number
    assert len(ts.open("c.h5").plot(t=4.0).axes) == 2
    printed(capsys, "plot", "r.h5", "-o", "r3.svg")
    for one, words in (("s.h5", "elasticity"), ("c.h5", "V_mean"), ("r.h5", "95 %")):
        assert words in ts.open(one)._repr_html_()
    assert "effective particles" in actual._repr_html_()
    for words, message in (
        (["plot", "s.h5", "--species", "Q"], "'Q' is not in this result; it has A, D"),
        (["plot", "c.h5", "--species", "Q"], "'Q' is not in this result; it has X, V"),
        (["plot", "c.h5", "--t", "3"], "--t 3 is no time of this result: 1, 4"),
    ):
        assert main([*words, "--overwrite"]) == 2
        assert message in capsys.readouterr().err


def test_a_rule_that_is_infinite_is_null(capsys):
    """JSON has no word for it."""
    text = CELL.replace('V = "0.5 * V"', 'V = "0.5 * V"\nL = "log(X)"').replace("20 * V", "0 * V")
    Path("c.toml").write_text(text)
    actual = json.loads(
        printed(capsys, *POPULATION, "--t", "1", "--json"), parse_constant=pytest.fail
    )
    assert actual["mean"]["L"] == [None]
    assert actual["variance"]["L"] == [None]


def test_a_value_that_is_not_finite_is_null(capsys):
    Path("m.toml").write_text(DIMERS.replace("0.01", "inf"))
    assert main(["check", "m.toml", "--json"]) == 2  # no method runs it
    actual = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert actual["values"] == {"k1": None, "k2": 1.0}

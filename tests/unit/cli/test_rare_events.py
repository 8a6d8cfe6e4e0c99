"""``tauslab rare`` and ``tauslab filter``: what they print, write and refuse."""

from __future__ import annotations

import json
import os
import signal

import pytest

import tauslab as ts
from tauslab.analysis.particles.store import StateCheckpoint
from tauslab.cli.main import main

MODEL = """
[species]
X = 20

[parameters]
k = 10.0

[[reactions]]
equation = "-> X"
rate = "k"

[[reactions]]
equation = "X ->"
rate = 0.5
"""
RARE = ["rare", "m.toml", "--target", "X >= 30", "--t-end", "4", "--seed", "1", "--device", "cpu"]
SMALL = ["--runs", "5", "--rounds", "5", "--walkers", "10"]
FILTER = ["filter", "m.toml", "d.csv", "--observe", "X=normal(5)", "--seed", "1", "-n", "50"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.toml").write_text(MODEL)
    (tmp_path / "d.csv").write_text("time,X,other\n1,20,x\n2,NA,\n\n3,23.5,\n".replace("x", "1"))


def printed(capsys, *words):
    code = main([*words])
    out = capsys.readouterr()
    assert code == 0, out.err
    return out.out


@pytest.mark.filterwarnings("ignore:2.4 of 5 runs determine the estimate.*take more --walkers")
def test_rare(capsys):
    text = printed(capsys, *RARE, *SMALL, "-o", "r.h5")
    assert "probability of X >= 30 = 0.1" in text
    assert printed(capsys, "info", "r.h5") == text
    again = json.loads(printed(capsys, *RARE, *SMALL, "--json", "--threads", "1"))
    assert again == json.loads(printed(capsys, "info", "r.h5", "--json"))
    python = ts.weighted_ensemble(
        "m.toml", target="X >= 30", t_end=4.0, seed=1, device="cpu", runs=5, rounds=5, walkers=10
    )
    assert again == json.loads(json.dumps(python.facts()))
    assert "run,estimate,lost" in printed(capsys, "export", "r.h5", "-o", "-")
    lines = printed(capsys, "digest", "r.h5").splitlines()
    assert [line.split()[1] for line in lines] == [
        "run", "estimate", "lost", "time", "reached", "total",
    ]  # fmt: skip
    assert main([*RARE, *SMALL, "-o", "r.h5"]) == 2
    assert "r.h5 exists" in capsys.readouterr().err
    printed(capsys, *RARE, *SMALL, "-o", "r.h5", "--overwrite", "--quiet")
    assert ts.open("r.h5").runs.shape == (5,)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--target", "X"], "is not a condition"),
        (["--target", "X > 3 && X < 9"], "give --coordinate"),
        (["--bins", "3,x"], "--bins 3,x"),
        (["--runs", "0"], "--runs 0 is not allowed"),
        (["-o", "r.csv"], "a result is an HDF5 file"),
        (["--set", "Q=3"], "Q"),
    ],
)
def test_rare_refuses(capsys, more, message):
    assert main([*RARE, *more]) == 2
    assert message in capsys.readouterr().err


def test_filter(capsys):
    text = printed(capsys, *FILTER, "-o", "f.h5")
    assert "of 3 rows" in text
    message = printed(capsys, "info", "f.h5")
    assert text.startswith(message.rstrip())
    actual = json.loads(printed(capsys, *FILTER, "--json"))
    data = {"time": [1, 2, 3], "X": [20, float("nan"), 23.5]}
    python = ts.particle_filter(
        "m.toml", data, observe={"X": "normal(5)"}, n=50, seed=1, device="cpu"
    )
    assert actual["log_likelihood"] == python.log_likelihood
    for _ in range(2):  # the second one goes on at the end
        kept = json.loads(printed(capsys, *FILTER, "--json", "--checkpoint", "c.h5"))
        assert kept == actual
    assert main([*FILTER[:5], "--checkpoint", "c.h5"]) == 2
    assert "--checkpoint needs --seed" in capsys.readouterr().err
    stored = ts.open("f.h5")
    assert (stored.mean == python.mean).all()
    assert stored.species == ("X",)
    assert "time,log_likelihood_term" in printed(capsys, "export", "f.h5", "-o", "-")
    assert len(printed(capsys, "digest", "f.h5").splitlines()) == 7


@pytest.mark.parametrize(
    ("words", "data", "message"),
    [
        (["--observe", "X"], None, "write COLUMN=NOISE"),
        (["--observe", "X=often(3)"], None, "often"),
        (["--observe", "Z=normal(3)"], None, "no column 'Z'"),
        ([], "time,X\n1,a\n", "line 2: X: 'a' is not a number"),
        ([], "time,X\n1\n", "line 2 has 1 cells, not 2"),
        ([], "", "must name the columns"),
        ([], "X\n1\n", "time"),
        (["--initial", "X"], None, "write NAME=FORM"),
    ],
)
def test_filter_refuses(capsys, tmp_path, words, data, message):
    if data is not None:
        (tmp_path / "d.csv").write_text(data)
    assert main([*FILTER, *words]) == 2
    assert message in capsys.readouterr().err


def test_what_is_missing(capsys):
    assert main([*FILTER[:2], "none.csv", "--observe", "X=normal(3)"]) == 2
    assert "none.csv: cannot be read" in capsys.readouterr().err
    assert main(["filter", "m.toml", "d.csv"]) == 2
    assert "--observe is missing" in capsys.readouterr().err
    assert main(["rare", "m.toml", "--t-end", "1"]) == 2
    assert "--target is missing" in capsys.readouterr().err
    assert main(["rare", "m.toml", "--target", "X > 30"]) == 2
    assert "--t-end is missing" in capsys.readouterr().err


@pytest.fixture
def _own_signals():
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("_own_signals")
@pytest.mark.filterwarnings("ignore:.*of 5 runs determine the estimate")
@pytest.mark.parametrize(
    "words",
    [
        FILTER,
        [*RARE, *SMALL],
    ],
    ids=["filter", "weighted"],
)
def test_a_signal_is_answered_by_a_last_checkpoint(tmp_path, monkeypatch, capsys, words):
    """The same command goes on from there, and gives what one that was never ended gives."""
    looked, save = [], StateCheckpoint.save

    def asked(self, kept, **options):
        looked.append(1)
        if len(looked) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        save(self, kept, **options)

    command = [*words, "--quiet", "--checkpoint", "c.h5", "-o", "a.h5"]
    with monkeypatch.context() as patch:
        patch.setattr(StateCheckpoint, "save", asked)
        assert main(command) == 75
    assert "the same command continues from c.h5" in capsys.readouterr().err
    assert len(looked) == 2
    assert not (tmp_path / "a.h5").exists()
    assert main(command) == 0
    assert main([*words, "--quiet", "-o", "b.h5"]) == 0
    assert printed(capsys, "digest", "a.h5") == printed(capsys, "digest", "b.h5")

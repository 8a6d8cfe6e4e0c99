"""`tauslab bench`: every case runs, and its models are the ones it names."""

from __future__ import annotations

import json

import numpy as np
import pytest
from places import TESTS
from sampling import ordinary

import tauslab as ts
from tauslab.cli.commands.machine import CASES, schlogl, vilar_oscillator
from tauslab.cli.main import main

SBML = TESTS / "data" / "sbml"


@pytest.mark.parametrize("name", ordinary(CASES, *list(CASES)[::6]))
def test_every_case_runs(capsys, name):
    arguments = ["bench", "--case", name, "--scale", "0.001", "--repeat", "1", "--device", "cpu"]
    assert main([*arguments, "--json"]) == 0
    (measured,) = json.loads(capsys.readouterr().out)
    assert measured["case"] == name
    assert measured["events"] > 0
    assert 0 < measured["compute"] <= measured["wall"] * 1.01


@pytest.mark.parametrize(
    ("build", "file", "pairs"),
    [
        (schlogl, "schlogl", {"X": "X"}),
        (vilar_oscillator, "vilar_oscillator", {"C": "C", "R": "R"}),
    ],
)
def test_models_agree_with_the_files(build, file, pairs):
    """Means of 400 trajectories of each at t = 1 within 5 standard errors: 6e-7 each."""
    n = 400
    own = ts.run(build(), n=n, times=[1.0], seed=1, device="cpu")
    read = ts.run(SBML / f"{file}.xml", n=n, times=[1.0], seed=2, device="cpu")
    for ours, theirs in pairs.items():
        error = np.sqrt((own.variance(ours)[0] + read.variance(theirs)[0]) / n)
        assert abs(own.mean(ours)[0] - read.mean(theirs)[0]) < 5 * error + 1e-9


def test_an_unknown_case(capsys):
    assert main(["bench", "--case", "nope"]) == 2
    assert "schlogl" in capsys.readouterr().err

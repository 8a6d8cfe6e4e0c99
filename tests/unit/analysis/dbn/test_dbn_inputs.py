"""What is no setting of a dynamic Bayesian network is refused in one sentence."""

from __future__ import annotations

import numpy as np
import pytest
from places import ROOT

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.cli.main import main

ENZYME = ROOT / "examples" / "enzyme.toml"
NAME = "wash_out_km"
FEW = {"unknown": [NAME], "ranges": {NAME: (20, 80)}, "samples": 50, "t_end": 1, "points": 3,
       "method": ts.ODE(substeps=4), "seed": 1, "device": "cpu"}  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"unknown": NAME}, "a list of names is expected"),
        ({"unknown": 3}, "a list of names is expected"),
        ({"unknown": [3]}, "unknown=.* a list of texts is expected"),
        ({"ranges": [20, 80]}, "pairs of numbers by name are expected"),
        ({"ranges": {NAME: 3}}, "numbers are expected, not 3"),
        ({"ranges": {NAME: (1, 2, 3)}}, "two numbers are expected"),
        ({"ranges": {NAME: ("a", "b")}}, "numbers are expected"),
        ({"ranges": {NAME: (2, 1)}}, "the lower end must be below the upper"),
        ({"intervals": "7"}, "intervals='7' is not allowed"),
        ({"intervals": 2.5}, "intervals=2.5 is not allowed"),
        ({"intervals": None}, "intervals=None is not allowed"),
        ({"intervals": {NAME: "x"}}, rf"intervals\[\"{NAME}\"\]='x' is not allowed"),
        ({"samples": "many"}, "samples='many' is not allowed"),
        ({"samples": True}, "samples=True is not allowed"),
        ({"samples": 0}, "samples=0 is not allowed"),
        ({"points": 30_000}, "2 to 20000 time points"),
        (
            {"method": ts.ODE(substeps=2**31)},
            "substeps=2147483648 is not allowed: a whole number from 1 to",
        ),
        ({"times": "abc", "t_end": None, "points": None}, "sample times must be numbers"),
        ({"times": [[0, 1]], "t_end": None, "points": None}, "must be a list of one or more"),
        ({"edges": {NAME: [[1, 2]]}}, "numbers are expected"),
        ({"edges": {NAME: "ab"}}, "numbers are expected"),
        ({"edges": 3}, "lists of numbers by name are expected"),
        ({"sample": f"{NAME}=uniform(1,2)"}, "sample=.* a list of texts is expected"),
        ({"sample": 3}, "sample=3: a list of texts is expected"),
        ({"set": {NAME: "x"}}, "numbers are expected"),
        ({"set": 1}, "numbers by name are expected"),
        ({"substeps": 4}, "substeps= is no option of dbn.build: it belongs to ts.ODE"),
        ({"block": 0}, "block=0 is not allowed"),
        ({"seed": "1"}, "seed='1' is not allowed"),
    ],
    ids=str,
)
def test_a_setting_of_the_wrong_kind(wrong, sentence):
    with pytest.raises(ConfigError, match=sentence) as caught:
        ts.dbn.build(ENZYME, **(FEW | wrong))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--samples="], "--samples: a whole number is needed"),
        (["--threads", "-1"], "--threads -1 is not allowed"),
        (["--threads", "9" * 23], "is not allowed: a whole number from 0 to 4096"),
        (["--points", "65536"], "2 to 20000 time points"),
    ],
)
def test_the_command_says_it_in_a_sentence(tmp_path, capsys, words, sentence):
    run = ["dbn", str(ENZYME), "--unknown", NAME, "--range", f"{NAME}=20:80", "--t-end", "1",
           "--quiet", "-o", str(tmp_path / "n.dbn.h5")]  # fmt: skip
    assert main([*run, *words]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_numpy_numbers_are_numbers():
    built = ts.dbn.build(
        ENZYME, **(FEW | {"samples": np.int64(50), "intervals": np.int32(3), "block": np.int64(50)})
    )
    assert len(built.edges[NAME]) == 4

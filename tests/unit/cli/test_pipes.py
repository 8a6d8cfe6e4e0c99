"""``-`` in place of a file, and answers for programs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from places import ROOT, TESTS

import tauslab as ts
from tauslab.cli.main import main
from tauslab.cli.pipes import suffix_of

SBML = (ROOT / "examples" / "schlogl.xml").read_bytes()
TOML = (ROOT / "examples" / "telegraph.toml").read_bytes()
COMMON = ["--t-end", "1", "--points", "3", "-n", "6", "--seed", "1", "--device", "cpu"]


class _Input:
    def __init__(self, data):
        self.buffer = io.BytesIO(data)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def typed(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", _Input(data))


@pytest.mark.parametrize("data", [SBML, TOML], ids=["sbml", "toml"])
def test_a_model_from_standard_input_gives_the_same_bits(monkeypatch, capsys, data, tmp_path):
    name = tmp_path / ("a.xml" if data is SBML else "a.toml")
    name.write_bytes(data)
    assert main(["run", str(name), *COMMON, "-o", "file.h5", "--quiet"]) == 0
    typed(monkeypatch, data)
    assert main(["run", "-", *COMMON, "--quiet"]) == 0
    with ts.open("file.h5") as one, ts.open("stdin.h5") as two:
        assert (one.counts(one.species[0]) == two.counts(one.species[0])).all()
    assert main(["run", "stdin.h5", "-o", "again.h5", "--quiet"]) == 0


def test_every_text_format_is_known_by_its_text():
    nets = [*(TESTS / "data").rglob("*.net")]
    assert nets
    assert {suffix_of(path.read_text(errors="replace")) for path in nets} == {".net"}
    rules = [*(TESTS / "data").rglob("*.bngl")]
    assert all(suffix_of(path.read_text(errors="replace")) == ".bngl" for path in rules)
    assert suffix_of("\ufeff\n <?xml version='1.0'?>") == ".xml"


@pytest.mark.parametrize(
    ("data", "said"),
    [(b" \n", "which is empty"), (b"\x89HDF\r\n\xff\xfe", "as text, not this"),
     (b"no model", "stdin.toml"), (b"<sbml", "stdin.xml")],
)  # fmt: skip
def test_what_is_no_model_gets_a_sentence(monkeypatch, capsys, data, said):
    typed(monkeypatch, data)
    assert main(["run", "-", *COMMON]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert "/tauslab-" not in message, "the name of a temporary file says nothing"
    assert list(Path().iterdir()) == []


def test_check_reads_standard_input(monkeypatch, capsys):
    typed(monkeypatch, SBML)
    assert main(["check", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_run_answers_in_json(monkeypatch, capsys):
    typed(monkeypatch, SBML)
    assert main(["run", "-", *COMMON, "--species", "X", "--json", "--method", "auto"]) == 0
    shown = capsys.readouterr()
    actual = json.loads(shown.out)
    assert shown.err == ""
    assert (actual["trajectories"], actual["path"]) == (6, "stdin.h5")
    assert actual["status"]["done"] == 6
    assert actual["events"] > 0 < actual["seconds"]
    with ts.open("stdin.h5") as result:
        assert actual["last"]["X"]["mean"] == result.mean("X")[-1]


def test_json_of_what_has_no_number(monkeypatch, capsys):
    typed(monkeypatch, SBML)
    sweep = ["--sweep", "c3=list:1e-3,2e-3"]
    assert main(["run", "-", *COMMON[:-6], "-n", "1", *COMMON[-4:], *sweep, "--json"]) == 0
    last = json.loads(capsys.readouterr().out)["last"]["X"]
    assert len(last["mean"]) == 2
    assert last["sd"] == [None, None], "one trajectory has no standard deviation"


def test_a_table_is_printed(capsys):
    assert main(["run", str(ROOT / "examples" / "schlogl.xml"), *COMMON, "-o", "a.h5"]) == 0
    assert main(["export", "a.h5", "-o", "a.csv"]) == 0
    capsys.readouterr()
    assert main(["export", "a.h5", "-o", "-"]) == 0
    assert capsys.readouterr().out == Path("a.csv").read_text()
    assert not Path("-").exists()

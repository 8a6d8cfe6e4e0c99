"""What a newcomer types, and what helps."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

import tauslab as ts
from tauslab.cli.help import SHELLS
from tauslab.cli.main import main

MODEL = str(ROOT / "examples" / "schlogl.xml")
SMALL = ["--t-end", "0.1", "--points", "2", "--device", "cpu"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def said(capsys, *words, code=2):
    assert main(list(words)) == code
    shown = capsys.readouterr()
    return shown.err if code else shown.out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("rnu", "is run meant?"), ("chek", "is check meant?"), ("polt", "is plot meant?"),
     ("model.xml", "is tauslab run model.xml meant?"), ("a.h5", "is tauslab info a.h5 meant?")],
)  # fmt: skip
def test_a_slip_is_understood(capsys, typed, meant):
    assert meant in said(capsys, typed)


def test_a_word_like_no_command_gets_all_of_them(capsys):
    assert re.search(r"'zzz'; commands: run, rdme, .*help;", said(capsys, "zzz"))


def test_without_a_command_the_commands_are_reported(capsys):
    assert re.search(r"give a command: run, rdme, .*help; see tauslab --help", said(capsys))


@pytest.mark.parametrize(
    ("option", "word", "meant"),
    [("--method", "sssa", "ssa"), ("--method", "ODE", "ode"), ("--method", "Gillespie", "ssa"),
     ("--device", "gpu", "cuda"), ("--precision", "float32", "single")],
)  # fmt: skip
def test_a_slip_in_a_choice(capsys, option, word, meant):
    assert f"is {meant} meant?" in said(capsys, "run", MODEL, option, word)


def test_a_word_of_another_option_is_not_proposed(capsys):
    assert "meant?" not in said(capsys, "run", MODEL, "--precision", "gpu")


@pytest.mark.parametrize(
    ("command", "option", "meant"),
    [("sensitivity", "--times", "--t"), ("population", "--t-end", "--t"),
     ("rare", "--t", "--t-end"), ("run", "--t_end", "--t-end"), ("run", "--trajectories", "-n"),
     ("rdme", "-n", "--replicas"), ("run", "--sede", "--seed")],
)  # fmt: skip
def test_an_option_of_another_command_is_understood(capsys, command, option, meant):
    assert f"{option} 3 (is {meant} meant?)" in said(capsys, command, MODEL, option, "3")


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [("--t-end", "x", "'x' is no number, such as"), ("--rtol", "1,5", "'1,5' is no number"),
     ("--seed", "1.5", "'1.5' is no whole number"), ("--threads", "two", "'two' is no whole")],
)  # fmt: skip
def test_what_is_no_number_is_told_what_is_one(capsys, option, value, told):
    assert f"argument {option}: {told}" in said(capsys, "run", MODEL, option, value)


@pytest.mark.parametrize("command", ["info", "plot", "digest"])
def test_a_result_of_a_like_name_is_reported(capsys, command):
    Path("burst.h5").touch()
    assert "brust.h5: there is no such file; is burst.h5 meant?" in said(
        capsys, command, "brust.h5"
    )
    assert said(capsys, command, "other.h5").endswith("other.h5: there is no such file\n")


@pytest.mark.parametrize(
    "words",
    [("run", MODEL, *SMALL, "-o", ""), ("rdme", "cell.toml", "-o", ""), ("plot", "a.h5", "-o", ""),
     ("run", MODEL, "--times", ""), ("run", ""), ("info", ""), ("slurm", "-o", "", "--", "run")],
)  # fmt: skip
def test_an_empty_name_is_no_folder(capsys, words):
    message = said(capsys, *words)
    assert "it is empty: the name of a file is expected" in message
    assert list(Path().iterdir()) == []


def test_help_is_a_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert said(capsys, "help", code=0) == shown
    whole = said(capsys, "help", "run", code=0)
    assert "--t-end T" in whole
    assert "is run meant?" in said(capsys, "help", "rnu")


@pytest.mark.parametrize(
    ("name", "then"),
    [("foo.csv", "export foo.h5 -o foo.csv"), ("a/foo.TSV", "export a/foo.h5 -o a/foo.csv"),
     ("foo.png", "plot foo.h5 -o foo.png")],
)  # fmt: skip
def test_a_table_is_no_result(capsys, name, then):
    message = said(capsys, "run", MODEL, *SMALL, "-o", name)
    assert f"then tauslab {then}\n" in message
    assert f"-o {name}: a result is an HDF5 file" in message


def test_a_table_is_no_result_in_python():
    with pytest.raises(ts.ConfigError, match=r'result\.to_pandas\(\)\.to_csv\("foo\.csv"\)'):
        ts.run(ts.read(MODEL), t_end=1, output="foo.csv")


def test_equations_need_one_trajectory(capsys):
    assert main(["run", MODEL, *SMALL, "--method", "ode", "-o", "a.h5"]) == 0
    assert "a.h5: 1 trajectory, seed" in capsys.readouterr().out
    model = ts.read(MODEL)
    given = {"t_end": 0.1, "points": 2, "device": "cpu", "seed": 1}
    assert ts.run(model, method="ode", **given).n == 1
    assert ts.run(model, method=ts.ODE(solver="dopri5"), **given).n == 1
    swept = ts.run(model, method="ode", sweep={"c3": [1e-3, 2e-3]}, **given)
    assert (swept.n, swept.n_points) == (1, 2)


def test_equations_that_differ_keep_a_thousand(capsys):
    model = ts.read(MODEL)
    given = {"t_end": 0.1, "points": 2, "device": "cpu", "seed": 1}
    assert ts.run(model, method="ode", sample="c3=uniform(1e-3,2e-3)", **given).n == 1000
    assert ts.run(model, **given).n == 1000
    rates = {"c3": [1e-3] * 1000}
    assert ts.run(model, method="ode", set=rates, **given).n == 1000
    assert ts.run(model, method="ode", n=3, **given).n == 3


def test_why_a_method_was_chosen_is_told_when_asked(capsys):
    auto = ["run", MODEL, *SMALL, "-n", "20", "--seed", "1", "--method", "auto", "--overwrite"]
    assert main(auto) == 0
    assert capsys.readouterr().out.startswith("method: exact (ssa)\n")
    assert main([*auto, "--verbose"]) == 0
    first = capsys.readouterr().out.partition("\n")[0]
    assert re.fullmatch(r"method: exact \(ssa\): .*would cost as much as.*", first)


@pytest.mark.filterwarnings("ignore:initial amounts that are not whole")
def test_a_molar_model_gets_options_that_work(capsys):
    """The hint's own command runs."""
    model = str(ROOT / "tests/data/sbml/BIOMD0000000010.xml")
    command = ["run", model, *SMALL, "-n", "2", "-o", "a.h5"]
    assert "--molecules converts them" in said(capsys, *command)
    message = said(capsys, *command, "--molecules")
    actual = re.search(r"--set (uVol=\S+), --amounts F, without --molecules", message)
    assert actual is not None, message
    assert "--method ode has no such limit" in message
    assert main([*command, "--molecules", "--set", actual[1], "--quiet"]) == 0
    assert main([*command, "--amounts", "1e5", "--overwrite", "--quiet"]) == 0


def test_overflow_names_what_helps(capsys):
    text = '[species]\nX = 0\n[[reactions]]\nequation = "-> 2000000000 X"\nrate = 50\n'
    Path("m.toml").write_text(text, encoding="utf-8")
    message = said(capsys, "run", "m.toml", "--t-end", "1", "-n", "4", "--quiet", code=1)
    for option in ("--t-end", "--set NAME=SIZE", "--method ode"):
        assert option in message


def test_completion_says_what_it_lacks(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "completion needs shtab: pip install" in said(capsys, "completion", "bash")


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_commands_and_options(capsys, shell):
    pytest.importorskip("shtab")
    script = said(capsys, "completion", shell, code=0)
    for word in ("rdme", "doctor", "post-leap-check", "rosenbrock"):
        assert word in script
    if shell == "bash":
        done = subprocess.run(["bash", "-n"], input=script, text=True, check=False)
        assert done.returncode == 0


def test_examples_are_listed_and_printed(capsys):
    listed = said(capsys, "example", code=0)
    assert "telegraph.toml " in listed
    assert "Bursting expression: a gene that switches" in listed
    shown = said(capsys, "example", "schlogl", code=0)
    assert shown == (ROOT / "examples" / "schlogl.toml").read_text()
    assert "is not an example: did you mean 'telegraph'?" in said(capsys, "example", "telegraf")

"""The command line as a user calls it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from places import TESTS

import tauslab as ts
from tauslab.api.api import ranks
from tauslab.base.errors import ConfigError
from tauslab.cli.help import EXAMPLES
from tauslab.cli.main import _parser, main
from tauslab.store.results.digest import digest_lines
from tauslab.store.results.open import open_result

MODEL = str(next((TESTS / "data").rglob("schlogl.xml")))


def test_run_writes_the_same_counts_for_any_threads(tmp_path):
    for threads in ("1", "3"):
        out = str(tmp_path / f"{threads}.h5")
        command = ["run", MODEL, "-n", "200", "--t-end", "1", "--points", "5", "--seed", "1",
                   "--species", "X", "--device", "cpu", "--threads", threads,
                   "-o", out]  # fmt: skip
        assert main(command) == 0
    with h5py.File(tmp_path / "1.h5") as one, h5py.File(tmp_path / "3.h5") as three:
        assert one["counts"].shape == (200, 5, 1)
        assert np.array_equal(one["counts"], three["counts"])
        assert (one["counts"][:, 0, 0] == 250).all()
        assert list(one["species"].asstr()) == ["X"]
        assert int(one.attrs["seed"]) == 1


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["-n", "0", "--t-end", "1"], "-n 0"),
        (["--t-end", "-1"], "--t-end"),
        (["--t-end", "nan"], "--t-end"),
        (["--t-end", "1", "--points", "1"], "--points"),
        (["--t-end", "1", "--set", "nope=1"], "nope"),
        (["--t-end", "1", "--set", "c1"], "NAME=VALUE"),
        (["--t-end", "1", "--species", "nope"], "nope"),
        ([], "--t-end"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(tmp_path, capsys, options, word):
    out = tmp_path / "out.h5"
    assert main(["run", MODEL, *options, "--device", "cpu", "-o", str(out)]) == 2
    message = capsys.readouterr().err.strip()
    assert word in message
    assert "\n" not in message
    assert not out.exists()


def test_an_existing_file_is_refused(tmp_path, capsys):
    out = tmp_path / "out.h5"
    out.write_text("precious")
    assert main(["run", MODEL, "--t-end", "1", "-o", str(out)]) == 2
    assert out.read_text() == "precious"
    assert "--overwrite" in capsys.readouterr().err


def test_ranks_that_did_not_find_each_other_are_told_in_one_sentence(monkeypatch, capsys):
    monkeypatch.setenv("SLURM_NTASKS", "4")
    ranks.cache_clear()
    try:
        assert main(["run", MODEL, "--t-end", "1"]) == 2
        assert main(["digest", "nothing.h5"]) == 2
    finally:
        ranks.cache_clear()
    first, second = capsys.readouterr().err.strip().split("\n")
    assert "SLURM_NTASKS is 4" in first
    assert "unset SLURM_NTASKS" in first
    assert "nothing.h5" in second


def test_in_an_allocation_of_tasks_doctor_reports_and_one_rank_may_run(monkeypatch, capsys):
    monkeypatch.setenv("SLURM_NTASKS", "4")
    monkeypatch.setenv("SLURM_JOB_ID", "3")
    model = ts.read(MODEL)
    ranks.cache_clear()
    try:
        assert main(["doctor"]) == 2
        message = capsys.readouterr()
        assert "compilers" in message.out
        assert "1 MPI rank(s) run but SLURM_NTASKS is 4" in message.err
        with pytest.raises(ConfigError, match='in this process alone give comm="self"'):
            ts.run(model, t_end=1, n=1)
        assert ts.run(model, t_end=1, n=1, comm="self").n == 1
    finally:
        ranks.cache_clear()


def test_a_second_interrupt_ends_a_run_at_once(tmp_path):
    """While the first lets launches end that may be about to."""
    model = tmp_path / "endless.toml"
    model.write_text('[species]\nX = 1\n[[reactions]]\nequation = "X -> X"\nrate = 1e9\n')
    out = tmp_path / "out.h5"
    command = [sys.executable, "-m", "tauslab", "run", model, "--t-end", "1e6", "-n", "1",
               "--device", "cpu", "-o", out]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while not out.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT
    finally:
        process.kill()
        process.communicate()
    assert main(["info", str(out)]) == 0


def test_a_result_reruns_from_itself_without_options(tmp_path):
    first, again = str(tmp_path / "first.h5"), str(tmp_path / "again.h5")
    assert main(["run", MODEL, "-n", "30", "--t-end", "0.5", "--points", "4", "--species", "X",
                 "--seed", "9", "--record", "trajectories,final", "--device", "cpu",
                 "-o", first]) == 0  # fmt: skip
    assert main(["run", first, "--device", "cpu", "-o", again]) == 0
    with open_result(first) as one, open_result(again) as two:
        assert digest_lines(one) == digest_lines(two)
    assert main(["run", first, "-n", "5", "--device", "cpu", "-o", again, "--overwrite"]) == 0
    with open_result(again) as five:
        assert five.n == 5


def test_programs_can_read_the_answers(tmp_path, capsys):
    out = str(tmp_path / "out.h5")
    assert main(["run", MODEL, "-n", "5", "--t-end", "0.1", "--points", "3", "--species", "X",
                 "--device", "cpu", "--quiet", "-o", out]) == 0  # fmt: skip
    capsys.readouterr()
    answers = {}
    for command in (["info", out], ["digest", out], ["check", MODEL]):
        assert main([*command, "--json"]) == 0
        answers[command[0]] = json.loads(capsys.readouterr().out)
    assert answers["info"]["trajectories"] == 5
    assert answers["info"]["species"] == ["X"]
    assert answers["info"]["complete"] is True
    assert "counts/X" in answers["digest"]["datasets"]
    assert main(["digest", out]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"{answers['digest']['total']} total"
    assert answers["check"]["fixed_species"] == ["A", "B"]
    assert answers["check"]["methods"] == ["ssa", "tau", "ode", "hybrid", "cle"]


def test_whole_numbers_may_have_an_exponent(tmp_path, capsys):
    out = str(tmp_path / "out.h5")
    command = ["run", MODEL, "--t-end", "0.1", "--points", "3", "--device", "cpu", "--quiet"]
    assert main([*command, "-n", "1e1", "--species", "B, X", "-o", out]) == 0
    with open_result(out) as result:
        assert (result.n, result.species) == (10, ("X", "B"))
    assert main([*command, "-n", "1.5"]) == 2
    assert "'1.5' is no whole number" in capsys.readouterr().err


def test_the_output_is_looked_at_before_anything_is_tried(tmp_path, capsys):
    for place in (tmp_path, tmp_path / "no" / "out.h5"):
        assert main(["run", MODEL, "--t-end", "1", "--device", "cpu", "-o", str(place)]) == 2
        message = capsys.readouterr()
        assert message.err.count("\n") == 1
        assert message.out == ""  # the pilot that chooses a method would have said something


@pytest.mark.parametrize("method", ["ssa", "ode"])
def test_options_of_leaps_are_for_leaps(method, capsys):
    command = ["run", MODEL, "--t-end", "1", "--device", "cpu", "--method", method]
    assert main([*command, "--epsilon", "0.1"]) == 2
    assert "--epsilon" in capsys.readouterr().err


def test_an_exact_run_of_a_leaping_result_needs_no_epsilon(tmp_path):
    first, again = str(tmp_path / "first.h5"), str(tmp_path / "again.h5")
    command = ["run", MODEL, "-n", "5", "--t-end", "0.1", "--points", "3", "--device", "cpu"]
    assert main([*command, "--method", "tau", "--epsilon", "0.1", "-o", first]) == 0
    assert main(["run", first, "--method", "ssa", "--device", "cpu", "-o", again]) == 0


def test_an_interrupt_before_there_is_a_result_is_reported(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tauslab.formats.read.read", interrupted)
    assert main(["check", MODEL]) == 130
    assert capsys.readouterr().err == "tauslab: interrupted\n"


def test_names_that_are_not_utf8_are_refused(capsys):
    assert main(["run", os.fsdecode(b"m\xff.xml"), "--t-end", "1"]) == 2
    assert r"'m\xff.xml' is not UTF-8" in capsys.readouterr().err


def test_a_full_disk_behind_the_output_is_reported():
    command = [sys.executable, "-m", "tauslab", "check", MODEL]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "tauslab: the answer cannot be printed: No space left on device\n"


def test_a_misspelt_option_is_refused_with_the_one_that_was_meant(capsys):
    for command in (["run", MODEL, "--tend", "1"], ["slurm", "--", "run", MODEL, "--tend", "1"]):
        assert main(command) == 2
        message = capsys.readouterr()
        assert "--tend 1 (is --t-end meant?); tauslab run --help" in message.err
        assert message.out == ""


@pytest.mark.parametrize("command", sorted(EXAMPLES))
def test_examples_of_the_help_are_commands(command):
    named = []
    for line in EXAMPLES[command].splitlines():
        words = shlex.split(line.strip(), comments=True)
        words = words[words.index("tauslab") + 1 :]
        words = words[: next((i for i, word in enumerate(words) if word in "|>"), None)]
        named.append(words[0])
        assert _parser().parse_args(words)
    assert named[0] == command


def test_pictures_of_two_kinds_have_two_names(tmp_path, capsys):
    out = tmp_path / "out.h5"
    assert main(["run", MODEL, "--t-end", "1", "-n", "9", "--quiet", "-o", str(out)]) == 0
    for kind in ("mean", "histogram"):
        assert main(["plot", str(out), "--kind", kind]) == 0
        assert capsys.readouterr().out == f"{tmp_path / f'out.{kind}.png'}\n"

"""The command line as a user calls it."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from tauslab.runner.cli import main

MODEL = str(next((Path(__file__).parent.parent / "data").rglob("schlogl.xml")))


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

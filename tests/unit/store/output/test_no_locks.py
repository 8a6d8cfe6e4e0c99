"""Results on a file system that has no locks: they are written and read, and a warning says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

from tauslab.base.errors import InputFileError
from tauslab.base.files import opening
from tauslab.base.files.opening import open_h5
from tauslab.kernels.backends.compilers import host_compiler
from tauslab.store.checking.opening import open_hdf5

SOURCE = Path(__file__).parents[3] / "support" / "no_locks.c"
PROGRAM = """if True:
    from tauslab.cli.main import main
    run = ["run", "m.toml", "-n", "8", "--t-end", "1", "--quiet", "--device", "cpu", "--threads"]
    for words in (
        [*run, "1", "--seed", "1", "-o", "a.h5"],
        ["run", "m.toml", "--append", "2", "-o", "a.h5", "--quiet", "--device", "cpu"],
        ["info", "a.h5"],
        ["export", "a.h5", "-o", "a.csv"],
        ["run", "a.h5", "--seed", "1", "-n", "2", "--quiet", "--device", "cpu", "-o", "b.h5"],
    ):
        assert main(words) == 0, words
"""
MODEL = '[species]\nX = 5\n[[reactions]]\nequation = "X ->"\nrate = 1\n'


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="by LD_PRELOAD")
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(37, id="ENOLCK"),
        pytest.param(95, id="EOPNOTSUPP", marks=pytest.mark.validate),
    ],
)
def test_every_command_goes_on_without_locks(tmp_path, number):
    library = tmp_path / "no_locks.so"
    command = [*host_compiler().command, "-x", "c", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([*command, str(SOURCE)], check=True)
    (tmp_path / "m.toml").write_text(MODEL)
    environment = {**os.environ, "LD_PRELOAD": str(library), "NOLOCK_ERRNO": str(number)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("has no locks") == 1, done.stderr
    assert f"({os.strerror(number)})" in done.stderr


def test_only_a_missing_lock_is_passed_over(tmp_path, monkeypatch):
    """A file that another process has locked for writing is refused as before."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = 1
    real, tried = h5py.File, []

    def refuse(*arguments, **settings):
        tried.append(settings)
        if settings.get("locking") is False:
            return real(*arguments, **settings)
        raise OSError(number, f"Unable to open file (unable to lock file, errno = {number})")

    monkeypatch.setattr(h5py, "File", refuse)
    monkeypatch.setattr(opening, "_warned_of", set())
    number = 11
    with pytest.raises(InputFileError, match="unable to lock"):
        open_hdf5(path)
    assert tried == [{}]
    number = 37
    with pytest.warns(UserWarning, match="no locks"), open_h5(path) as file:
        assert file["x"][()] == 1
    with open_h5(path) as file:  # once is enough
        assert file["x"][()] == 1

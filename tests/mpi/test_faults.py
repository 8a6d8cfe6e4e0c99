"""Kills at changes of files: ten of the thousands that the script goes through."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from places import script

pytestmark = pytest.mark.mpi

SCRIPT = script("fault_every_write.py")


def test_runs_killed_at_a_change_are_resumed(mpirun, tmp_path):
    del mpirun  # says whether there is an MPI
    table = tmp_path / "kills.csv"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--cases", "10", "-o", table],
        capture_output=True, text=True, check=False, timeout=250,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [row.split(",") for row in table.read_text().splitlines()[1:]]
    assert len(rows) == 10
    assert sum(row[-1] == "pass" for row in rows) == 10
    assert sum("done before" not in row for row in rows) > 7, "most kills met their change"

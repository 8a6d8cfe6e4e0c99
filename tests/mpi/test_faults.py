"""Kills at changes of files: a few of the thousands that the script goes through."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from places import script

pytestmark = pytest.mark.mpi

SCRIPT = script("fault_every_write.py")


@pytest.mark.validate
@pytest.mark.parametrize("cases", [10])
def test_runs_killed_at_a_change_are_resumed(mpirun, tmp_path, cases):
    del mpirun  # says whether there is an MPI
    table = tmp_path / "kills.csv"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--cases", str(cases), "-o", table],
        capture_output=True, text=True, check=False, timeout=250,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [row.split(",") for row in table.read_text().splitlines()[1:]]
    assert len(rows) == cases
    assert sum(row[-1] == "pass" for row in rows) == cases
    assert sum("done before" not in row for row in rows) > 0.7 * cases, (
        "most kills met their change"
    )

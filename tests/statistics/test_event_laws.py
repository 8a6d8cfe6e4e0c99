"""A run of scripts/validation/validate_event_laws.py at a smaller size."""

from __future__ import annotations

import subprocess
import sys

import pytest
from places import script

SCRIPT = script("validate_event_laws.py")


@pytest.mark.validate
def test_events_and_laws_of_time_have_their_laws(tmp_path):
    table = tmp_path / "laws.csv"
    done = subprocess.run(
        [sys.executable, SCRIPT, "--trajectories", "2000", "--device", "cpu", "--threads", "1",
         "-o", table],
        capture_output=True, text=True, check=False, timeout=1500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(table.read_text().splitlines()) > 45

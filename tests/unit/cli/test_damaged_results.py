"""A fixed part of fuzz_results.py: damaged results, in children of a warm process."""

from __future__ import annotations

import subprocess
import sys

import fuzz_results
import pytest


@pytest.mark.validate
@pytest.mark.parametrize("cases", [24, 200])
def test_damaged_results_get_a_sentence_or_the_right_answer(tmp_path, cases):
    """No traceback, no crash, no end that does not come, no wrong digest, mean, table or run."""
    command = [sys.executable, fuzz_results.__file__, str(cases), "--seed", "1"]
    command += ["--share", "0.03"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"0 faults of {cases}" in done.stdout

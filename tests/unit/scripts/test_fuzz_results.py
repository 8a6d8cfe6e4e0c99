"""A fixed part of fuzz_results.py: 50 damaged results, in children of a warm process."""

from __future__ import annotations

import subprocess
import sys

from places import script


def test_damaged_results_get_a_sentence_or_the_right_answer(tmp_path):
    """No traceback, no crash, no end that does not come, no wrong digest, mean, table or run."""
    command = [sys.executable, str(script("fuzz_results.py")), "50", "--seed", "1"]
    command += ["--share", "0.03"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults of 50" in done.stdout

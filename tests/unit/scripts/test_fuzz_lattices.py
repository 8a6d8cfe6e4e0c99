"""A part of what fuzz_lattices.py does: nothing that is slightly wrong raises or hangs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from places import ROOT, script


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux")
def test_fifty_cases():
    pytest.importorskip("scipy")
    program = script("fuzz_lattices.py")
    done = subprocess.run(
        [sys.executable, program, "6", "--seed", "12", "--jobs", "2"],
        capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": 0 faults of ") == 8

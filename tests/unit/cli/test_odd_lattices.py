"""A part of what fuzz_lattices.py does: nothing that is slightly wrong raises or hangs."""

from __future__ import annotations

import os
import subprocess
import sys

import fuzz_lattices
import pytest
from places import ROOT


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux")
@pytest.mark.validate
def test_cases_of_every_kind():
    pytest.importorskip("scipy")
    program = fuzz_lattices.__file__
    done = subprocess.run(
        [sys.executable, program, "12", "--seed", "12", "--jobs", "2"],
        capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": 0 faults of ") == 8

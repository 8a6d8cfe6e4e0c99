"""A compiler, and what it starts, end with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tauslab.kernels.backends.compilers import run_compiler

_PROGRAM = """
import sys
from tauslab.kernels.backends.compilers import run_compiler
work = 'sleep 600 & echo $! > "$1.new"; mv "$1.new" "$1"; sleep 600'
run_compiler(["/bin/sh", "-c", work, "sh", sys.argv[1]])
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_compiler_ends_with_its_process(tmp_path, number):
    message = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(message)], stderr=subprocess.DEVNULL
    ) as process:
        until(message.exists, 60)
        worker = int(message.read_text(encoding="utf-8"))
        assert alive(worker)
        os.kill(process.pid, number)
        process.wait(timeout=30)
    until(lambda: not alive(worker), 10)


def until(happens, seconds):
    """Wait until something happens."""
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_what_a_compiler_says_comes_back():
    done = run_compiler(["/bin/sh", "-c", "echo out; echo error >&2; exit 3"])
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "error\n")

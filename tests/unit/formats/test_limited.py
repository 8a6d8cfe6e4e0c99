"""Programs that are run with limits, and end with the process that started them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tauslab.formats.limited import Limits, run_limited

AMPLE = Limits(seconds=60, memory=8 << 30)


def _python(program: str, folder: Path, limits: Limits = AMPLE) -> tuple[int, str, str, bool]:
    done = run_limited([sys.executable, "-S", "-c", program], folder, limits)
    return done.code, done.out, done.error, done.overdue


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError):
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def _wait_for_end(pid: int, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while _is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not _is_alive(pid)


def test_what_it_says_and_returns(tmp_path: Path) -> None:
    program = "import sys; print('out'); print('error', file=sys.stderr); sys.exit(7)"
    assert _python(program, tmp_path) == (7, "out\n", "error\n", False)


def test_folder_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAUSLAB_TEST_OTHER", "told")
    program = "import os; print(os.getcwd()); print(sorted(os.environ)); print(os.read(0, 1))"
    code, out, _, _ = _python(program, tmp_path)
    where, names, stdin = out.splitlines()
    assert (code, where, stdin) == (0, str(tmp_path / "work"), "b''")
    allowed = {"HOME", "TMPDIR", "LC_ALL", "PATH", "LD_LIBRARY_PATH", "PERL5LIB", "PERLLIB"}
    assert {"HOME", "TMPDIR"} <= set(names.strip("[]").replace("'", "").split(", ")) <= allowed


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    done = run_limited([str(tmp_path / "none")], tmp_path, AMPLE)
    assert done.cannot_run == "No such file or directory"


def test_memory(tmp_path: Path) -> None:
    code, _, error, _ = _python("x = bytearray(1 << 30)", tmp_path, Limits(60, 512 << 20))
    assert code == 1
    assert "MemoryError" in error


def test_file_size(tmp_path: Path) -> None:
    program = "f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 16))"
    code, _, error, _ = _python(program, tmp_path, Limits(60, 8 << 30, file_size=1 << 20))
    assert code == -signal.SIGXFSZ or "File too large" in error
    assert (tmp_path / "work" / "big").stat().st_size <= 1 << 20


def test_time_ends_the_program_and_all_that_it_started(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "print(child.pid, flush=True)\ntime.sleep(600)"
    )
    began = time.monotonic()
    code, out, _, overdue = _python(program, tmp_path, Limits(2, 8 << 30))
    assert (code, overdue) == (-signal.SIGKILL, True)
    assert time.monotonic() - began < 20
    assert _wait_for_end(int(out))


def test_what_it_leaves_running_ends_with_it(tmp_path: Path) -> None:
    program = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid)"
    code, out, _, _ = _python(program, tmp_path)
    assert code == 0
    assert _wait_for_end(int(out))


def test_it_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    inner = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    outer = (
        "import sys; from pathlib import Path\n"
        "from tauslab.formats.limited import *\n"
        f"run_limited([sys.executable, '-S', '-c', {inner!r}], Path({str(tmp_path)!r}),"
        " Limits(600, 8 << 30))"
    )
    process = subprocess.Popen([sys.executable, "-c", outer])
    message = tmp_path / "out"
    end = time.monotonic() + 60
    while not (message.is_file() and message.read_text("ascii").endswith("\n")):
        assert time.monotonic() < end
        time.sleep(0.02)
    pid = int(message.read_text("ascii"))
    assert _is_alive(pid)
    process.kill()
    process.wait()
    assert _wait_for_end(pid)

"""Run another program with little of everything: folder, environment, time, memory, file size.

The program and all that it starts are one group of processes.  The group ends with the call that
started it, at its time limit, and when this process dies, however it dies: a watcher in the group
holds the read end of a pipe whose write end only this process has.

Run as a script, this file is the launcher: it needs nothing but Python itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_CANNOT_RUN = 126  # exit code of the launcher; its stderr says why
_KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PERL5LIB", "PERLLIB")


@dataclass(frozen=True)
class Limits:
    """Limits of a program: seconds on the clock, bytes of memory, bytes of each file.

    `computing` are its seconds of a core; a few more than `seconds` if they are not given.
    """

    seconds: int
    memory: int
    file_size: int = 2 << 30
    computing: int = 0


@dataclass(frozen=True)
class Done:
    """End of a program: its exit code, negative for a signal, and its output."""

    code: int
    out: str
    error: str
    overdue: bool

    @property
    def cannot_run(self) -> str:
        """Reason for which the program could not be started; empty if it was."""
        return self.error.strip() if self.code == _CANNOT_RUN and not self.out else ""


def run_limited(
    command: Sequence[str],
    folder: Path,
    limits: Limits,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """Run `command` in ``folder/work``, which is made, and wait for its end.

    Of this process's environment it sees what finds programs and their libraries; its home and
    its folder for temporary files are ``folder/work``.  `environment` is added.
    """
    work = folder / "work"
    work.mkdir(exist_ok=True)
    places = {"HOME": str(work), "TMPDIR": str(work), "LC_ALL": "C"}
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # The clock is first, unless nobody looks at it.
    numbers = (limits.computing or limits.seconds + 5, limits.memory, limits.file_size)
    launcher = [sys.executable or "python3", "-I", "-S", __file__, *map(str, numbers)]
    overdue = False
    with (folder / "out").open("wb") as out, (folder / "error").open("wb") as error:
        process = subprocess.Popen(
            [*launcher, *command],
            cwd=work,
            env={**kept, **places, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=error,
            start_new_session=True,
        )
        try:
            process.wait(limits.seconds)
        except subprocess.TimeoutExpired:
            overdue = True
        finally:  # also after Ctrl-C
            _end_group(process)
    message = [(folder / name).read_text("utf-8", "replace") for name in ("out", "error")]
    return Done(process.returncode, message[0], message[1], overdue)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left; the watcher keeps the number of the group from being given to another."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _launch(seconds: int, memory: int, file_size: int, command: list[str]) -> None:
    """Become `command`, with limits, after leaving a watcher behind."""
    import resource

    if os.fork() == 0:
        os.closerange(1, 3)
        while os.read(0, 1):
            pass
        os.killpg(0, signal.SIGKILL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for kind, wanted in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]  # of the user: it may be less
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (most, most))
    try:
        os.execvp(command[0], command)  # noqa: S606 - there is no shell
    except OSError as trouble:
        os.write(2, str(trouble.strerror).encode())
        os._exit(_CANNOT_RUN)


if __name__ == "__main__":
    _launch(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])

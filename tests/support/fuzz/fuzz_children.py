"""Run many small cases, each in a child forked from this warm process, with little time and memory.

A case is anything that `act` takes; `act` returns an exit code, as the command line does.  Each
child has a fresh folder to work in, a process group of its own, and limits.  What it says is kept,
also what C libraries say, and where it was when its time was over.  A case is a *fault* if it ends
by an exception, by a signal, with an exit code that is not allowed, or not at all.  A run that was
asked for more work than its time is sent SIGTERM then, and has to end as users are promised: with
exit code 75, within seconds.

    for case, ending in in_children(range(1000), lambda number: command_line([...]), jobs=2):
        tally.add(f"number {case}", ending)
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TextIO, TypeVar

Case = TypeVar("Case")
ALLOWED = (0, 1, 2, 75)
TRACEBACK, HANG = "traceback", "hang"
_MARK = "Traceback (most recent call last)"
_CRASHED = 70  # exit code of a child whose act raised
_CLOCK = 10  # seconds on the clock for each of the processor
_TO_STOP = 10  # seconds of the processor; a run that stops in order writes what it has
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
_PLACE = re.compile(r'File "([^"]+)", line (\d+)(?:,)? in (\S+)')
_OURS = re.compile(r"(?:src/)?(tauslab/\S+|tests/(?!support/fuzz/fuzz_children)\S+)\Z")


@dataclass(frozen=True)
class Limits:
    """What a case may take: seconds, bytes of memory beside what the parent has, bytes of a file.

    A case is a hang if it takes more than `seconds` of the processor, so that a busy machine makes
    no hangs, and does not end `_TO_STOP` of them after a SIGTERM, or takes ten times that on the
    clock.
    """

    seconds: float = 30.0
    memory: int = 4 << 30
    file_size: int = 1 << 30


@dataclass(frozen=True)
class Ending:
    """How a case ended: its exit code as text, ``traceback``, ``hang`` or the name of a signal.

    `said` is what it wrote to stderr, `out` to stdout; both are cut to their last 20,000 bytes.
    """

    how: str
    said: str
    out: str
    seconds: float

    @property
    def is_fault(self) -> bool:
        """Whether it is none of the exit codes that are allowed."""
        return self.how not in {str(code) for code in ALLOWED}

    @property
    def signature(self) -> str:
        """What faults of one cause have in common: how, the innermost place of ours, the error."""
        lines = self.said.strip().splitlines()
        places = _PLACE.findall(self.said)
        ours = [(match[1], line, name) for path, line, name in places
                if (match := _OURS.search(path))]  # fmt: skip
        # A traceback names the innermost call last, faulthandler names it first.
        order = -1 if self.how == TRACEBACK else 0
        place = "{}:{} {}".format(*ours[order]) if ours else "no place of ours"
        error = lines[-1][:120] if lines and self.how == TRACEBACK else ""
        return f"{self.how} at {place} {error}".strip()


@dataclass
class Tally:
    """Counts of endings, and the faults by their signature, with the first case of each."""

    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    slowest: tuple[float, str] = (0.0, "")

    def add(self, case: str, ending: Ending) -> None:
        """Count the ending of a case; `case` is what the user can run again."""
        self.ends[ending.how] += 1
        self.slowest = max(self.slowest, (ending.seconds, case))
        if ending.is_fault:
            self.faults[ending.signature] += 1
            self.first.setdefault(ending.signature, case)

    @property
    def total(self) -> int:
        """Cases counted."""
        return sum(self.ends.values())

    def report(self) -> str:
        """Lines: how many ended how, then each fault with its count and first case."""
        told = ", ".join(f"{count} ended {how}" for how, count in self.ends.most_common())
        total = f"{sum(self.faults.values())} faults of {self.total} ({told})"
        lines = [f"{total}; the slowest took {self.slowest[0]:.1f} s: {self.slowest[1]}"]
        for signature, count in self.faults.most_common():
            lines.append(f"  {count} x {signature}; first: {self.first[signature]}")
        return "\n".join(lines)


def dice_of(seed: int, kind: str, number: int) -> random.Random:
    """Random choices that are a function of seed, kind and number of a case, on every machine."""
    return random.Random(f"{seed} {kind} {number}")


def in_children(
    cases: Iterable[Case],
    act: Callable[[Case], int],
    *,
    jobs: int = 1,
    limits: Limits | None = None,
) -> Iterator[tuple[Case, Ending]]:
    """Run ``act(case)`` for every case, each in a child of its own, `jobs` of them at a time.

    Yields each case with its ending, in the order in which they end.  Linux only (pidfd).
    """
    limits = limits or Limits()
    left = iter(cases)
    running: dict[int, tuple[Case, _Child]] = {}
    try:
        while True:
            while len(running) < jobs and (case := next(left, None)) is not None:
                child = _Child(lambda case=case: act(case), limits)  # type: ignore[misc]
                running[child.handle] = case, child
            if not running:
                return
            soonest = min(child.deadline for _, child in running.values())
            wait = max(0.0, soonest - time.monotonic())
            ready = select.select(list(running), [], [], wait)[0]
            now = time.monotonic()
            late = [handle for handle, (_, child) in running.items() if child.deadline <= now]
            for handle in {*ready, *late}:
                case, child = running.pop(handle)
                yield case, child.end(overdue=handle not in ready)
    finally:
        for _, child in running.values():
            child.end(overdue=True)


class _Child:
    """A forked process that runs one case."""

    def __init__(self, act: Callable[[], int], limits: Limits) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self._limits = limits
        self._began = time.monotonic()
        # The child tells first where it is (faulthandler), then it is ended.
        self.deadline = self._began + _CLOCK * limits.seconds + 1.0
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            _run_and_exit(act, self._folder, limits)
        self.handle = os.pidfd_open(self._pid)

    def end(self, *, overdue: bool) -> Ending:
        """Collect it, ended by force if it has not ended itself, with all that it started."""
        took = time.monotonic() - self._began
        if overdue:
            os.kill(self._pid, signal.SIGKILL)
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)  # its id stays its own until ...
        # There is no group if it ended before it had one.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)  # ... here
        os.close(self.handle)
        said, out = (_tail(self._folder / name) for name in ("stderr", "stdout"))
        shutil.rmtree(self._folder, ignore_errors=True)
        code = os.waitstatus_to_exitcode(status)
        if (
            overdue
            or code in (-signal.SIGTERM, -signal.SIGKILL)
            or took > _CLOCK * self._limits.seconds
        ):
            how = HANG
        elif code < 0:
            how = signal.Signals(-code).name
        else:
            how = TRACEBACK if code == _CRASHED or _MARK in said else str(code)
        return Ending(how, said, out, took)


def _tail(path: Path, most: int = 20_000) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _run_and_exit(act: Callable[[], int], folder: Path, limits: Limits) -> NoReturn:
    """Run the case in this process, which is a child, and leave it."""
    code = _CRASHED
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        (folder / "work").mkdir()
        os.chdir(folder / "work")
        for descriptor, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
            opened = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)
        _limit(limits)
        sys.stdout, sys.stderr = _text_to(1), _text_to(2)
        faulthandler.enable(2)
        # At the limit it tells where it is, and is then stopped as a user would stop it.
        signal.signal(signal.SIGXCPU, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        faulthandler.register(signal.SIGXCPU, file=2, chain=True)
        faulthandler.dump_traceback_later(_CLOCK * limits.seconds, file=2)
        code = act()
    except SystemExit as left:  # argparse
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001 - whatever it is, it is a fault
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code if 0 <= code < 128 else _CRASHED)


def _text_to(descriptor: int) -> TextIO:
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _limit(limits: Limits) -> None:
    used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    most = used + limits.memory
    seconds = max(1, round(limits.seconds))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file_size, limits.file_size))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + _TO_STOP))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

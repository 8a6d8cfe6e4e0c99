"""MPI ranks that stay for many tests: to start three of them takes 2 s of a core, a run 0.1 s."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path

from places import TESTS

Completed = subprocess.CompletedProcess[str]
PROGRAM = TESTS / "support" / "programs" / "standing_rank.py"
_PATIENCE = 60.0  # until all have started


class TooLateError(Exception):
    """A program took more than its time; the ranks have been ended."""


class StandingRanks:
    """`n` ranks of one launch. `ended` is true once they are gone."""

    def __init__(self, launcher: str, n: int, environment: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ranks-")
        self._log = Path(self._folder.name) / "log"
        self.ended = False
        self._runs = 0
        address = str(Path(self._folder.name) / "socket")
        with socket.socket(socket.AF_UNIX) as channel, self._log.open("wb") as log:
            channel.bind(address)
            channel.listen(n)
            channel.settimeout(_PATIENCE)
            self._process = subprocess.Popen(
                [launcher, "-n", str(n), sys.executable, str(PROGRAM), address],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
            try:
                accepted = [channel.accept()[0] for _ in range(n)]
            except TimeoutError:
                self._kill()
                raise TooLateError(f"{n} ranks did not start:\n{self._said()}") from None
        for one in accepted:
            one.setblocking(True)
        self._connections = [Connection(one.detach()) for one in accepted]
        for connection in self._connections:
            connection.send(dict(environment))

    def run(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float
    ) -> Completed:
        """Run a program on all ranks: the first exit status that is not 0, and what they wrote."""
        self._runs += 1
        own = Path(self._folder.name) / str(self._runs)
        own.mkdir()
        for number, connection in enumerate(self._connections):
            files = (str(own / f"{number}.out"), str(own / f"{number}.log"))
            connection.send((list(words), str(folder), dict(environment), *files))
        statuses = self._wait(timeout)
        out, log = (
            "".join(p.read_text(errors="replace") for p in sorted(own.glob(f"*.{kind}")))
            for kind in ("out", "log")
        )
        if statuses is None:
            raise TooLateError(f"not done after {timeout} s: {' '.join(words)}\n{out}\n{log}")
        if self.ended:
            log += self._said()
        return subprocess.CompletedProcess(list(words), next(filter(None, statuses), 0), out, log)

    def _wait(self, timeout: float) -> list[int] | None:
        """Exit statuses, that of the launcher if a rank is gone, or None when time is over."""
        end, waiting, statuses = time.monotonic() + timeout, set(self._connections), []
        while waiting:
            ready = wait(list(waiting), max(0.0, end - time.monotonic()))
            if not ready:
                self._kill()
                return None
            for connection in ready:
                waiting.discard(connection)
                try:
                    statuses.append(connection.recv())
                except (EOFError, ConnectionError):
                    return self._gone(end)
        return statuses

    def _gone(self, end: float) -> list[int] | None:
        """A rank has ended; the launcher ends the others."""
        self.ended = True
        try:
            return [self._process.wait(max(0.0, end - time.monotonic())) or 1]
        except subprocess.TimeoutExpired:
            self._kill()
            return None

    def _kill(self) -> None:
        self.ended = True
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _said(self) -> str:
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        """Let the ranks end."""
        for connection in self._connections:
            connection.close()
        if not self.ended:
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._kill()
        self._folder.cleanup()

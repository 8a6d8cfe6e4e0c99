"""Processes of Python that a server forks, so that each has everything imported at once.

To start Python and to import takes 1.5 s of a core, a fork and its launcher 0.1 s.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from places import TESTS

PROGRAMS = TESTS / "support" / "programs"


def start_of(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Variables that act when a process starts: of others a fork takes its own."""
    heads = ("PYTHON", "LD_", "OMP_", "OPENBLAS_", "MKL_")
    return tuple(sorted(pair for pair in environment.items() if pair[0].startswith(heads)))


class ForkServer:
    """A server whose processes have the variables `start_of` an environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="forks-")
        self._address = str(Path(self._folder.name) / "socket")
        reading, self._alive = os.pipe()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self._address)
            listener.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, PROGRAMS / "fork_server.py", str(listener.fileno()), str(reading)],
                env=environment, stdin=subprocess.DEVNULL, start_new_session=True,
                pass_fds=(listener.fileno(), reading),
            )  # fmt: skip
        os.close(reading)
        #: Stands before words as `sys.executable` does.
        self.python = [sys.executable, "-I", "-S", str(PROGRAMS / "forked.py"), self._address]

    def settle(self) -> None:
        """Wait until the processes of killed askers have ended."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(self._address)
            asking.send(b"wait")
            asking.recv(1)

    def close(self) -> None:
        """End the server."""
        os.close(self._alive)
        self._process.wait()
        self._folder.cleanup()

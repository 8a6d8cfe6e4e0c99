"""Ranks of an mpirun that are forked from one process, which has everything imported.

What mpirun starts is this file: it hands its environment and files to that process, which forks
the rank, and ends as the rank ends.  Starting Python and importing is most of a small run's time.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SOCKET = "ranks.socket"
MOST_SECONDS = 60.0


def stand_in(path: str) -> None:
    """Be what mpirun sees of a rank."""
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    pmi = int(os.environ["PMI_FD"])
    socket.send_fds(server, [json.dumps(dict(os.environ)).encode()], [0, 1, 2, pmi])
    os.close(pmi)
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda told, _: server.send(bytes([told])))
    code = int(server.recv(16) or b"1")
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


def run_ranks(count: int, work: Callable[[int], int]) -> int:
    """Run ``work(rank)`` in forks that are the ranks of an mpirun; returns its exit code."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(SOCKET)
        try:
            listener.listen(count)
            listener.settimeout(MOST_SECONDS)
            launcher = str(Path(sys.executable).with_name("mpirun"))
            python = [sys.executable, "-I", "-S", __file__, str(Path(SOCKET).resolve())]
            mpirun = subprocess.Popen(
                [launcher, "-n", str(count), *python],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            ranks: dict[int, tuple[int, socket.socket]] = {}
            for _ in range(count):
                child, connection = fork_rank(listener, work)
                ranks[os.pidfd_open(child)] = (child, connection)
        finally:
            Path(SOCKET).unlink()
    wait_for(ranks)
    return mpirun.wait()


def fork_rank(listener: socket.socket, work: Callable[[int], int]) -> tuple[int, socket.socket]:
    """Fork the rank that asks for it next; its process and the connection with its stand-in."""
    connection, _ = listener.accept()
    message, files, _, _ = socket.recv_fds(connection, 1 << 20, 4)
    child = os.fork()
    if child:
        for file in files:
            os.close(file)
        return child, connection
    code = 1
    try:
        environment = json.loads(message)
        os.environ.clear()
        os.environ.update(environment | {"PMI_FD": str(files[3])})
        for standard in range(3):
            os.dup2(files[standard], standard)
        code = work(int(environment["PMI_RANK"]))
        from mpi4py import MPI

        if MPI.Is_initialized() and not MPI.Is_finalized():
            MPI.Finalize()
    finally:
        os._exit(code)


def wait_for(ranks: dict[int, tuple[int, socket.socket]]) -> None:
    """Pass signals to ranks and their ends to the stand-ins, until all have ended."""
    until = time.monotonic() + MOST_SECONDS
    by_connection = {
        connection.fileno(): (child, connection) for child, connection in ranks.values()
    }
    while ranks:
        ready, _, _ = select.select([*ranks, *by_connection], [], [], 1.0)
        late = time.monotonic() > until
        for number in list(by_connection) if late else [n for n in ready if n in by_connection]:
            child, connection = by_connection[number]
            message = b"" if late else connection.recv(1)
            os.kill(child, message[0] if message else signal.SIGKILL)
            if not message:
                del by_connection[number]
        for number in [n for n in ready if n in ranks]:
            child, connection = ranks.pop(number)
            os.close(number)
            by_connection.pop(connection.fileno(), None)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with contextlib.suppress(OSError):  # its stand-in was ended first
                connection.send(str(code).encode())
            connection.close()


if __name__ == "__main__":
    stand_in(sys.argv[1])

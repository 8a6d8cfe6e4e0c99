"""Forks Python processes that have everything imported, for `forked.py`.

``fork_server.py SOCKET ALIVE``: descriptors of a socket that listens, and of a pipe of which the
other end closes when no more is to be forked.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from tauslab.kernels.backends.cache import csrc_digest
from tauslab.kernels.backends.cpu import CpuBackend

USUAL = (
    "numpy.random", "numpy.ma", "h5py", "tauslab.cli.main", "tauslab.api.api", "tauslab.api.typed",
    "tauslab.api.executor", "tauslab.runner.ensemble.entry", "tauslab.runner.ensemble.ode_task",
    "tauslab.runner.lattice.run", "tauslab.store.results.open",
    "tauslab.store.results.array_result", "tauslab.store.writers.merge",
    "tauslab.store.writers.parts", "tauslab.store.writers.mpio", "tauslab.cli.commands.run",
    "tauslab.cli.commands.lattice", "tauslab.analysis.hybrids.driver",
    "tauslab.analysis.filters.filtering", "tauslab.shapes", "tauslab.formats.sbml.reader",
    "tauslab.formats.toml.network", "tauslab.formats.read", "libsedml", "libsbml",
)  # fmt: skip


def import_usual() -> None:
    """Load what most programs load; MPI is loaded by an h5py with MPI alone, and not started."""
    import mpi4py

    spec = importlib.util.find_spec("h5py")
    if spec is not None and "parallel-h5py" in str(spec.origin):
        mpi4py.rc.initialize, mpi4py.rc.finalize = False, True
    for name in USUAL:
        with contextlib.suppress(ImportError):  # readers of some formats are extras
            importlib.import_module(name)
    csrc_digest()  # reads all kernels
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


class Server:
    """Forks for who asks, and keeps them together with their process."""

    def __init__(self, listener: socket.socket, alive: int) -> None:
        self._listener, self._alive = listener, alive
        self._asking: dict[int, socket.socket] = {}  # by their descriptors
        self._ends: dict[int, tuple[int, socket.socket]] = {}  # process, who asked, by descriptor
        self._waiting: list[socket.socket] = []  # until nothing runs of which the asker has gone

    def serve(self) -> dict[str, Any] | None:
        """Serve until the other end closes; returns in each process what was asked of it."""
        while True:
            own = (self._listener.fileno(), self._alive)
            ready = select.select([*own, *self._asking, *self._ends], [], [])[0]
            if self._alive in ready:
                return None
            for number in ready:
                if number in self._ends:
                    self._answer(number)
                elif number in self._asking:
                    self._pass_on(self._asking[number])
            if own[0] in ready and (request := self._fork()) is not None:
                return request
            if all(one.fileno() >= 0 for _, one in self._ends.values()):
                while self._waiting:
                    self._waiting.pop().close()

    def _answer(self, end: int) -> None:
        """Tell the exit status of a process."""
        child, connection = self._ends.pop(end)
        os.close(end)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if self._asking.pop(connection.fileno(), None) is not None:
            with contextlib.suppress(OSError):
                connection.send(str(code).encode())
            connection.close()

    def _pass_on(self, connection: socket.socket) -> None:
        """Send a signal on; kill a process whose asker has gone."""
        child = next(child for child, one in self._ends.values() if one is connection)
        given = connection.recv(1)
        os.kill(child, given[0] if given else signal.SIGKILL)
        if not given:
            self._asking.pop(connection.fileno()).close()

    def _fork(self) -> dict[str, Any] | None:
        """Take what is asked; what the process is to do, in that process alone."""
        connection, _ = self._listener.accept()
        words, files, _, _ = socket.recv_fds(connection, 1 << 20, 4)
        if not files:
            self._waiting.append(connection)
            return None
        child = os.fork()
        if child == 0:
            for number in (self._alive, *self._ends):
                os.close(number)
            for one in (self._listener, connection, *self._asking.values(), *self._waiting):
                one.close()
            return json.loads(words) | {"files": files}
        for file in files:
            os.close(file)
        self._asking[connection.fileno()] = connection
        self._ends[os.pidfd_open(child)] = (child, connection)
        return None


def become(request: dict[str, Any]) -> None:
    """Take the place of who asked."""
    os.setpgid(0, 0)
    files = request["files"]
    for standard in range(3):
        os.dup2(files[standard], standard)
        os.close(files[standard])
    environment = request["environment"]
    if len(files) > 3:
        os.set_inheritable(files[3], True)
        environment["PMI_FD"] = str(files[3])
    os.environ.clear()
    os.environ.update(environment)
    if "TAUSLAB_TEST_SINGLE" in environment:  # one trajectory after another, not on SIMD lanes
        CpuBackend.style = replace(CpuBackend.style, simd=False)
    os.chdir(request["folder"])
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def run(words: list[str]) -> None:
    """Run a module, a text or a file, as Python does."""
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], str(Path.cwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *words[2:]], ""
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
    else:
        sys.argv, sys.path[0] = words, str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


def status_of(words: list[str]) -> int:
    """Run a program; the exit status that Python would have."""
    try:
        run(words)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - as Python itself does
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def end(status: int) -> None:
    """End as Python does, but that modules are not taken apart, which takes 0.1 s."""
    threading._shutdown()
    atexit._run_exitfuncs()
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.Finalize()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    ctypes.CDLL(None).exit(status)  # MPICH takes its leave of the launcher


if __name__ == "__main__":
    import_usual()
    asked = Server(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])).serve()
    if asked is not None:
        become(asked)
        status = 1
        try:
            status = status_of(asked["words"])
        finally:
            end(status)

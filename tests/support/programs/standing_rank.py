"""A rank that runs one Python program after the other, each as if it had been started for it.

``standing_rank.py ADDRESS``, under mpirun; `standing_ranks` in tests/support is the other end. A
rank waits for work in a read, so that it takes no time of a core.
"""

from __future__ import annotations

import contextlib
import gc
import os
import runpy
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection

STARTED_WITH = dict(os.environ)


@contextlib.contextmanager
def into_files(out: str, log: str) -> Iterator[None]:
    """Send what this process writes, also below Python, to files."""
    kept = [os.dup(fd) for fd in (1, 2)]
    for fd, path in ((1, out), (2, log)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(opened, fd)
        os.close(opened)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, old in zip((1, 2), kept, strict=True):
            os.dup2(old, fd)
            os.close(old)


def take_environment(given: Mapping[str, str], of_launcher: Mapping[str, str]) -> None:
    """The environment of the caller, and what the launcher added for this rank."""
    added = {k: v for k, v in STARTED_WITH.items() if of_launcher.get(k) != v}
    wanted = {**given, **added}
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)


def run(words: list[str]) -> int:
    """Run a module, a text or a file; the exit status. An error ends this process, as usual."""
    with warnings.catch_warnings():
        try:
            if words[0] == "-m":
                sys.argv = words[1:]
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            elif words[0] == "-c":
                sys.argv = ["-c", *words[2:]]
                exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
            else:
                sys.argv = words
                runpy.run_path(words[0], run_name="__main__")
        except SystemExit as end:
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
                return 1
            return end.code or 0
        except BaseException:  # noqa: BLE001 - as Python itself does
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(1)
    return 0


def main() -> None:
    """Work until the other end closes."""
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(sys.argv[1])
    with Connection(channel.detach()) as connection, contextlib.suppress(EOFError):
        of_launcher = connection.recv()
        path = list(sys.path)
        while True:
            words, folder, environment, out, log = connection.recv()
            take_environment(environment, of_launcher)
            os.chdir(folder)
            with into_files(out, log):
                status = run(words)
            sys.path[:] = path
            gc.collect()
            connection.send(status)


main()

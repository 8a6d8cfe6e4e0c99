"""What others see of a forked process: hands what it was started with to the server that forks.

``python -I -S forked.py ADDRESS WORDS`` is ``python WORDS`` of `fork_server.py` at that address,
without the time that Python and imports take. It passes signals on, and ends as the process ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

PASSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(address: str, words: list[str]) -> int:
    """Exit status of the process; minus a signal if that ended it."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect(address)
    files = [0, 1, 2]
    if "PMI_FD" in os.environ:  # by which a rank of MPICH speaks with its launcher
        files.append(int(os.environ["PMI_FD"]))
    for number in PASSED:
        signal.signal(number, lambda given, _: server.send(bytes([given])))
    # pathlib takes as long to import as all of this.
    request = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109
    socket.send_fds(server, [json.dumps(request).encode()], files)
    for file in files[3:]:
        os.close(file)
    return int(server.recv(16) or b"1")


if "PMIX_RANK" in os.environ:  # Open MPI, whose ranks have to be children of their launcher
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])  # noqa: S606
status = main(sys.argv[1], sys.argv[2:])
if status < 0:
    signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
    os.kill(os.getpid(), -status)
os._exit(status)

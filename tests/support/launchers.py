"""What jobs under MPI have to say: one line where they fail, one digest on any number of ranks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable


def require_one_line(done: subprocess.CompletedProcess[str]) -> None:
    """A run that failed said one line; Open MPI's launcher adds who ended, MPICH's nothing."""
    message = done.stdout + done.stderr
    launcher = subprocess.run(
        [done.args[0], "--version"], capture_output=True, text=True, check=False
    )
    assert message.count("tauslab: ") == 1, message
    if "HYDRA" in launcher.stdout:
        assert message.count("\n") == 1, message


def assert_one_digest(
    mpirun: Callable[..., subprocess.CompletedProcess[str]], program: str
) -> None:
    """A program prints one line with the digests of its ranks: one on 1 rank and on 3."""
    digests = {
        line
        for ranks in (1, 3)
        for line in mpirun(ranks, ["-c", program]).stdout.splitlines()
        if line.startswith("digest")
    }
    assert len(digests) == 1, digests
    assert len(digests.pop().split()) == 2

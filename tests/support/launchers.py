"""What launchers of MPI ranks say by themselves."""

from __future__ import annotations

import subprocess


def require_one_line(done: subprocess.CompletedProcess[str]) -> None:
    """A run that failed said one line; Open MPI's launcher adds who ended, MPICH's nothing."""
    said = done.stdout + done.stderr
    launcher = subprocess.run(
        [done.args[0], "--version"], capture_output=True, text=True, check=False
    )
    assert said.count("tauslab: ") == 1, said
    if "HYDRA" in launcher.stdout:
        assert said.count("\n") == 1, said

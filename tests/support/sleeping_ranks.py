"""MPI ranks that sleep while they wait for each other."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tauslab.base.errors import DeviceError
from tauslab.kernels.backends.compilers import host_compiler

SOURCE = Path(__file__).with_name("sleeping_yield.c")


@functools.cache
def sleeping_while_waiting() -> dict[str, str]:
    """What to add to the environment of ranks; nothing where it cannot be done.

    MPICH asks for messages again and again and offers its core in between, which a busy system
    hardly takes: three ranks of which two wait use 1.4 cores. Tests beside them need these.
    """
    if not sys.platform.startswith("linux") or "LD_PRELOAD" in os.environ:
        return {}
    library = Path(os.environ["TAUSLAB_CACHE_DIR"]).parent / "sleeping_yield.so"
    if not library.exists():
        try:
            compiler = host_compiler()
        except DeviceError:
            return {}
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:  # others do the same
            fresh = Path(scratch) / library.name
            command = [*compiler.command, "-x", "c", "-O1", "-shared", "-fPIC", "-o"]
            done = subprocess.run(
                [*command, str(fresh), str(SOURCE)], capture_output=True, check=False
            )
            if done.returncode != 0:
                return {}
            fresh.replace(library)
    return {"LD_PRELOAD": str(library)}

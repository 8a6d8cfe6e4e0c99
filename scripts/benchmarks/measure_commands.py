"""Starts: seconds of commands, each in a process of its own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time

from machine import ROOT, Answer, Machine

IMPORT_CUPY = "import cupy; cupy.zeros(3).sum().get()"
_RUN = ("--t-end", "1", "--seed", "1", "--quiet", "--overwrite", "-o", "out.h5", "--device")
_TOML, _SBML = (str(ROOT / "examples" / f"schlogl.{kind}") for kind in ("toml", "xml"))
COMMANDS = {
    "numpy": ("-c", "import numpy, h5py"),
    "cupy": ("-c", IMPORT_CUPY),
    "import": ("-c", "import tauslab"),
    "ts.run": ("-c", "import tauslab as ts; ts.run"),
    "help": ("-m", "tauslab", "--help"),
    "check": ("-m", "tauslab", "check", _TOML),
    "run-10": ("-m", "tauslab", "run", _TOML, "-n", "10", *_RUN),
    "run": ("-m", "tauslab", "run", _TOML, "-n", "1000", *_RUN),
    "run-sbml": ("-m", "tauslab", "run", _SBML, "-n", "1000", *_RUN),
}


def command(machine: Machine, name: str) -> Answer:
    """Seconds of a clock from a command to its end, and of the processor in user mode."""
    words = COMMANDS[name]
    if words[-1] == "--device":
        words = (*words, machine.device)
    own = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, *words], cwd=folder, env=own, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"": wall, "user": after.ru_utime - before.ru_utime}

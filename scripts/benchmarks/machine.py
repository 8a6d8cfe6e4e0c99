"""The device of a case, the part of its size that is measured, and seconds of commands."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tauslab as ts
from tauslab.kernels.backends import Backend, BackendOptions, background, get_backend

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
Device = Literal["cpu", "cuda"]
Answer = float | dict[str, float]  # what a case gives: a number, or several under names


@dataclass(frozen=True)
class Machine:
    """A device, threads of a CPU (0: all), and the part of each case's work that is done."""

    device: Device
    threads: int = 0
    scale: float = 1.0

    def many(self, number: float) -> int:
        """A number of trajectories, replicas or steps at this scale."""
        return max(1, round(number * self.scale))

    def place(self) -> Any:
        """Argument `device` of runs."""
        return ts.CPU(threads=self.threads) if self.device == "cpu" else self.device

    def backend(self) -> Backend:
        """Opened; the caller closes it."""
        return get_backend(self.device, BackendOptions(threads=self.threads))


def finish_compiling() -> None:
    """Wait for faster kernels that other processes compile: later runs have them."""
    for one in vars(background)["_running"].values():
        assert one.path  # waits


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of some work by the clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


_RUN = ("--t-end", "1", "--seed", "1", "--quiet", "--overwrite", "-o", "out.h5", "--device")
_TOML, _SBML = (str(ROOT / "examples" / f"schlogl.{kind}") for kind in ("toml", "xml"))
COMMANDS = {
    "numpy": ("-c", "import numpy, h5py"),
    "cupy": ("-c", "import cupy; cupy.zeros(3).sum().get()"),
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

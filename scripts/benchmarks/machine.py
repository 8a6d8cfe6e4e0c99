"""The device of a case, and the part of its size that is measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tauslab as ts
from tauslab.kernels.backends import Backend, BackendOptions, get_backend

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
        """For the argument `device` of runs."""
        return ts.CPU(threads=self.threads) if self.device == "cpu" else self.device

    def backend(self) -> Backend:
        """Opened; the caller closes it."""
        return get_backend(self.device, BackendOptions(threads=self.threads))


def seconds_of(work: Callable[[], object]) -> float:
    """By the clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began

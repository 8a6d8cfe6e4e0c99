"""What operations of equations cost a multiprocessor, counted in the instructions they become.

A scheduler issues one instruction a clock, to whatever pipe, so that a piece of program costs what
its busiest pipe takes. The counts of each operation were made by scripts/ode/count_operations.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from tauslab.kernels.ode.layouts.cost_table import COUNTED_BY, COUNTS
from tauslab.model.arrays import FloatArray

Cost = FloatArray

PIPES = ("issue", "single", "whole", "double", "special", "shared")


@dataclass(frozen=True)
class CostTable:
    """Slots of operations by kind, in each of `PIPES`, and where they come from."""

    source: str
    slots: Mapping[str, tuple[float, ...]]

    def of(self, kind: str) -> Cost:
        """Slots of an operation; a sign costs nothing."""
        return np.zeros(len(PIPES)) if kind == "neg" else np.array(self.slots[kind])


@cache
def tabulated(precision: str) -> CostTable:
    """Slots of the operations in numbers of a precision."""
    return CostTable(f"tabulated counts of {COUNTED_BY}", COUNTS[precision])

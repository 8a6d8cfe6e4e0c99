"""What operations of equations cost a multiprocessor, counted in the instructions they become.

Every operation is compiled alone (csrc/ode/costs.cc) to PTX. Its instructions are weighed by what
they take of each pipe of one of the four schedulers of a multiprocessor: 32 lanes divided by the
operations a clock that the CUDA programming guide documents for compute capability 9.0. A scheduler
issues one instruction a clock, to whatever pipe, so that a piece of program costs what its busiest
pipe takes. Instructions that the assembler expands are weighed by what it makes of them; loads and
stores of the frame around an operation are left out, and so is what is free as another's modifier.
Both sides of a branch count, so that functions with rare cases cost too much.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from tauslab.kernels.backends.base import Backend, KernelSource
from tauslab.kernels.ode.layouts.cost_table import COUNTED_BY, COUNTS
from tauslab.model.arrays import FloatArray

Cost = FloatArray

PIPES = ("issue", "single", "whole", "double", "special", "shared")
_KERNEL = re.compile(r"\.entry operation_(\w+)\(.*?\n\{(.*?)\n\}", re.DOTALL)
_INSTRUCTION = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][a-z0-9_.]+)\s", re.MULTILINE)
_FREE = ("ld.param", "ld.global.f", "st.global", "cvta", "mov.", "neg.", "abs.", "ret")
_EXPANDED = {
    "div.rn.f32": {"issue": 12, "single": 6, "whole": 4, "special": 16},
    "sqrt.rn.f32": {"issue": 10, "single": 5, "whole": 4, "special": 8},
    "rcp.rn.f64": {"issue": 11, "whole": 8, "double": 10, "special": 8},
    "div.rn.f64": {"issue": 15, "whole": 8, "double": 16, "special": 8},
    "sqrt.rn.f64": {"issue": 16, "whole": 8, "double": 16, "special": 8},
}
_SPECIAL = ("rcp.", "rsqrt.", "sqrt.", "ex2.", "lg2.", "sin.", "cos.")


@dataclass(frozen=True)
class CostTable:
    """Slots of operations by kind, in each of `PIPES`, and where they come from."""

    source: str
    slots: Mapping[str, tuple[float, ...]]

    def of(self, kind: str) -> Cost:
        """Slots of an operation; a sign costs nothing."""
        return np.zeros(len(PIPES)) if kind == "neg" else np.array(self.slots[kind])


def counted(assembly: str) -> dict[str, tuple[float, ...]]:
    """Slots of each operation from the PTX of csrc/ode/costs.cc."""
    found = {}
    for name, body in _KERNEL.findall(assembly):
        weights = [_weights(opcode) for opcode in _INSTRUCTION.findall(body)]
        found[name] = tuple(float(sum(w.get(pipe, 0.0) for w in weights)) for pipe in PIPES)
    return found


def _weights(opcode: str) -> Mapping[str, float]:
    """What an instruction takes of each pipe."""
    if opcode.startswith(_FREE):
        return {}
    if opcode in _EXPANDED:
        return _EXPANDED[opcode]
    if opcode.startswith(_SPECIAL):
        return {"issue": 1, "special": 8}
    if opcode.startswith("bra"):
        return {"issue": 1}
    if opcode.startswith("ld."):
        return {"issue": 1, "shared": 4}
    if opcode.startswith("cvt."):
        wide = "64" in opcode
        return {"issue": 1, "special": 8} if wide else {"issue": 1, "whole": 2}
    if opcode.endswith(".f64"):
        return {"issue": 1, "double": 2}
    if opcode.startswith(("add.", "sub.", "mul.", "fma.")) and opcode.endswith(".f32"):
        return {"issue": 1, "single": 1}
    words = 2 if opcode.endswith("64") else 1
    return {"issue": words, "whole": 2 * words}


@cache
def tabulated(precision: str) -> CostTable:
    """Counts that were made before, for where there is no compiler."""
    return CostTable(f"tabulated counts of {COUNTED_BY}", COUNTS[precision])


def compiled_costs(backend: Backend, precision: str) -> CostTable:
    """Counts of what the backend's compiler makes of operations, else those tabulated.

    Raises
    ------
    KernelCompileError
        The compiler does not take the operations.
    """
    real = "float" if precision == "single" else "double"
    header = f"#pragma once\ntypedef {real} Real;\n"
    made = backend.assembly(KernelSource("ode/costs.cc", (), {"model.h": header}))
    if made is None:
        return tabulated(precision)
    compiler, assembly = made
    return CostTable(f"instructions of {compiler}", counted(assembly))

"""Counts the instructions that operations of equations become, for `kernels/ode/layouts/cost_table.py`.

    python scripts/ode/count_operations.py

Every operation is compiled alone (scripts/ode/operations.cc) to PTX by NVRTC. Its instructions are
weighed by what they take of each pipe of one of the four schedulers of a multiprocessor: 32 lanes
divided by the operations a clock that the CUDA programming guide documents for compute capability
9.0. Instructions that the assembler expands are weighed by what it makes of them; loads and stores
of the frame around an operation are left out, and so is what is free as another's modifier. Both
sides of a branch count, so that functions with rare cases cost too much.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tauslab.kernels.backends.cache import csrc_texts
from tauslab.kernels.backends.nvrtc import compile_ptx, nvrtc_flags
from tauslab.kernels.ode.layouts.costs import PIPES

REALS = {"single": "float", "double": "double"}
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


def operations_ptx(precision: str) -> str:
    """PTX of every operation in numbers of a precision."""
    own = Path(__file__).with_name("operations.cc").read_text(encoding="utf-8")
    header = f"#pragma once\ntypedef {REALS[precision]} Real;\n"
    texts = csrc_texts() | {"operations.cc": own, "model.h": header}
    return compile_ptx("operations.cc", texts, nvrtc_flags("compute_90", 128))


def counted(assembly: str) -> dict[str, tuple[float, ...]]:
    """Slots of each operation in PTX."""
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


def main() -> None:
    """Print the table."""
    for precision in REALS:
        print(f'    "{precision}": {{')
        for kind, slots in counted(operations_ptx(precision)).items():
            print(f'        "{kind}": {tuple(int(slot) for slot in slots)},')
        print("    },")


if __name__ == "__main__":
    main()

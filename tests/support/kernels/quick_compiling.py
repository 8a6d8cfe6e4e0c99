"""Flags with which tests compile kernels in half the time; they change no bit of a result."""

from __future__ import annotations

from tauslab.base.errors import DeviceError
from tauslab.kernels.backends.compilers import host_compiler

# Compiles in less than half the time of -O1. Kernels are half as fast without the second. The
# others allocate registers by a simpler algorithm, which saves a tenth to a quarter.
LIGHT = "-Og -ftree-sra -fira-algorithm=priority -fira-region=one -fno-asynchronous-unwind-tables"
PLAIN = "-O1"  # which every compiler knows; g++ alone takes the others


def quick_flags() -> str:
    """A value of ``TAUSLAB_CXXFLAGS``: a level of optimisation."""
    try:
        compiler = host_compiler()
    except DeviceError:
        return PLAIN
    return LIGHT if compiler.name == "g++" else PLAIN

"""Flags with which tests compile kernels in half the time; they change no bit of a result."""

from __future__ import annotations

import platform

from tauslab.base.errors import DeviceError
from tauslab.kernels.backends.compilers import host_compiler

# Compiles in less than half the time of -O1. Kernels are half as fast without the second. The
# others allocate registers by a simpler algorithm, which saves a tenth to a quarter.
LIGHT = "-Og -ftree-sra -fira-algorithm=priority -fira-region=one -fno-asynchronous-unwind-tables"
# Kernels need no library but the C library of Python; to link others takes a tenth of the time.
# On processors other than x86 they may need the compiler's own.
UNLINKED = " -nodefaultlibs" if platform.machine() == "x86_64" else ""
PLAIN = "-O1"  # which every compiler knows; g++ alone takes the others


def quick_flags() -> str:
    """A value of ``TAUSLAB_CXXFLAGS``: a level of optimisation."""
    try:
        compiler = host_compiler()
    except DeviceError:
        return PLAIN
    return LIGHT + UNLINKED if compiler.name == "g++" else PLAIN

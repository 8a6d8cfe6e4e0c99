"""Flags with which tests compile kernels in half the time; they change no bit of a result."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tauslab.kernels.backends.compilers import FLAGS, Compiler, host_compiler
from tauslab.model.errors import DeviceError

LIGHT = "-Og -ftree-sra"  # compiles in half the time of -O1; half as fast without the second
FULL = "-O3"  # as users compile
PLAIN = "-O1"  # which every compiler knows; g++ alone takes the others
# As csrc/simd/lanes.h includes it: g++ 12 sees faults in its own header.
_HEADER = """#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
"""


def quick_flags(level: str = LIGHT) -> str:
    """A value of ``TAUSLAB_CXXFLAGS``: a level of optimisation and a header that is parsed already.

    To parse the compiler's header of vector instructions takes g++ 0.3 s, more than to compile
    most kernels. It is parsed once for each level and session.
    """
    if _gcc() is None:
        return FULL if level == FULL else PLAIN
    header = _parsed_header(level)
    return level if header is None else f"{level} -include {shlex.quote(str(header))}"


def without_header(flags: Sequence[str]) -> tuple[str, ...]:
    """Flags for a program that is not compiled for this processor, and needs no such header."""
    if "-include" not in flags:
        return tuple(flags)
    at = flags.index("-include")
    return (*flags[:at], *flags[at + 2 :])


def _gcc() -> Compiler | None:
    """The compiler of this machine if it is g++."""
    try:
        compiler = host_compiler()
    except DeviceError:
        return None
    return compiler if compiler.name == "g++" else None


def _parsed_header(level: str) -> Path | None:
    """The header beside what g++ made of it, or none where g++ has no such header.

    g++ takes what it made of a header only with the same flags, and the text of the header else.
    """
    compiler = _gcc()
    assert compiler is not None
    folder = Path(os.environ["TAUSLAB_CACHE_DIR"]).parent / f"parsed{level.replace(' ', '')}"
    header = folder / "instructions.h"
    if not header.exists():
        folder.mkdir(exist_ok=True)
        flags = [flag for flag in FLAGS if flag != "-shared"]
        with tempfile.TemporaryDirectory(dir=folder) as scratch:  # other processes do the same
            fresh = Path(scratch) / header.name
            fresh.write_text(_HEADER, encoding="utf-8")
            parsed = fresh.with_suffix(".h.gch")
            command = [
                *compiler.command,
                *flags,
                *level.split(),
                "-x",
                "c++-header",
                "-o",
                str(parsed),
            ]
            if subprocess.run([*command, str(fresh)], capture_output=True, check=False).returncode:
                return None
            parsed.replace(folder / parsed.name)
            fresh.replace(header)
    return header

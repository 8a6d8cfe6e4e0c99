"""Compile CUDA kernels without a GPU: the registers and the local memory that each one needs."""

from __future__ import annotations

import os
import re

import pytest

from tauslab.kernels.backends.arguments import with_layout_checks
from tauslab.kernels.backends.cuda import THREADS_PER_BLOCK
from tauslab.kernels.backends.nvrtc import compile_cubin, nvrtc_flags

NEWEST, OLDEST = "sm_90", "sm_75"
# An ordinary run compiles everything for the newest, and every file once for the oldest.
OLDER = [pytest.param(name, marks=pytest.mark.validate) for name in (OLDEST, "sm_80")]
REGISTERS = 255  # that a thread may have
A_FEW = 24  # bytes that may wait in local memory: of a loop's bounds, not of what it computes with
# The same of kernels that give registers up so that more of their blocks run at a time.
SOME = 128

Usage = dict[str, tuple[int, int, int, int]]  # by kernel: stack bytes, stores, loads, registers


def require_nvrtc(architecture: str = NEWEST) -> None:
    """Skip where NVRTC is missing or too new for the architecture; fail if it is required."""
    try:
        from cupy.cuda import nvrtc

        known = nvrtc.getSupportedArchs()
    except (ImportError, RuntimeError) as error:
        if os.environ.get("TAUSLAB_REQUIRE_NVRTC", "") not in {"", "0"}:
            pytest.fail(f"NVRTC is required here and cannot be loaded: {error}")
        pytest.skip(f"no NVRTC (pip install tauslab[nvrtc]): {error}")
    if int(architecture.removeprefix("sm_")) not in known:
        pytest.skip(f"this NVRTC knows no {architecture}")


def compile_usage(file: str, texts: dict[str, str], architecture: str) -> Usage:
    """Compile as the device does; what ptxas says of each kernel."""
    texts = with_layout_checks(file, texts)
    cubin, log = compile_cubin(file, texts, nvrtc_flags(architecture, THREADS_PER_BLOCK))
    assert cubin.startswith(b"\x7fELF")
    actual = re.findall(
        r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
        r"(\d+) bytes spill loads.*?Used (\d+) registers",
        log,
        re.DOTALL,
    )
    return {name: tuple(map(int, numbers)) for name, *numbers in actual}


def compile_quickly(file: str, texts: dict[str, str], *more: str) -> None:
    """Compile for the newest device as far as PTX, in a quarter of the time of machine code.

    `-m validate` compiles every file to the end.
    """
    from cupy.cuda import nvrtc

    texts = with_layout_checks(file, texts)
    names = [name for name in texts if name != file]
    headers = tuple(texts[name].encode() for name in names)
    program = nvrtc.createProgram(
        texts[file], file, headers, tuple(name.encode() for name in names)
    )
    flags = nvrtc_flags(NEWEST.replace("sm", "compute"), THREADS_PER_BLOCK)
    flags = (*(flag for flag in flags if not flag.startswith("--ptxas")), *more)
    if nvrtc.getVersion() >= (13, 0):
        flags = (*flags, "--Ofast-compile=max")
    try:
        nvrtc.compileProgram(program, flags)
        assert ".entry" in nvrtc.getPTX(program).decode()
    except nvrtc.NVRTCError:
        pytest.fail(f"{file}: {nvrtc.getProgramLog(program)}")
    finally:
        nvrtc.destroyProgram(program)


def check(usage: Usage, kernels: set[str], few: int = A_FEW) -> None:
    assert set(usage) == kernels
    for name, (stack, stores, loads, registers) in usage.items():
        print(f"{name}: {registers} registers")
        assert max(stack, stores, loads) <= few, name
        assert registers <= REGISTERS

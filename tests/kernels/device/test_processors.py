"""What depends on the processor: compiler flags, 64-bit Arm, numbers below the least normal one."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_headers import headers

from tauslab.kernels.backends import compilers
from tauslab.kernels.backends.cache import CSRC
from tauslab.kernels.backends.compilers import STRICT, Compiler

_TRIPLE = "aarch64-linux-gnu"
_READ_ONLY = ("-fsyntax-only",)


def arm_compiler() -> tuple[str, ...] | None:
    """The command of a compiler for Arm, the quickest that is here."""
    if platform.machine() == "aarch64":
        return None  # what every test uses
    if shutil.which("clang++"):
        return ("clang++", f"--target={_TRIPLE}", "-Wno-pass-failed")
    if shutil.which(f"{_TRIPLE}-g++"):
        return (f"{_TRIPLE}-g++",)
    return zig_for(_TRIPLE)


def zig_for(target: str) -> tuple[str, ...] | None:
    """The command of the ``zig`` extra, which brings the headers of other systems."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    return (sys.executable, "-m", "ziglang", "c++", "-target", target, "-Wno-pass-failed")


def refused_by(command: tuple[str, ...], tmp_path: Path) -> list[tuple[str, int, str]]:
    """The kernels that a compiler does not take, each with what it says."""
    flags = [f for f in compilers.FLAGS if f not in {compilers.NATIVE, "-shared"}]
    actual = []
    for file, header in dict(headers()).items():
        folder = tmp_path / file
        folder.mkdir(parents=True)
        (folder / "model.h").write_text(header)
        # zig 0.17 fails where nothing is made.
        what = ["-O0", "-c", "-o", str(folder / "out.o")] if "ziglang" in command else _READ_ONLY
        line = [*command, *flags, *STRICT, *what, f"-I{folder}", f"-I{CSRC}", str(CSRC / file)]
        done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path)
        actual.append((file, done.returncode, done.stderr))
    assert len(actual) > 12
    return [message for message in actual if message[1] != 0]


def test_arm_compilers_take_every_kernel(tmp_path):
    """Read only: what their code does, `scripts/check_arm` tells."""
    command = arm_compiler()
    if command is None:
        pytest.skip("no cross compiler for Arm here, or this is Arm")
    assert refused_by(command, tmp_path) == []


@pytest.mark.validate
@pytest.mark.parametrize("target", ["aarch64-macos", "x86_64-macos"])
def test_the_compiler_of_macos_takes_every_kernel(tmp_path, target):
    """Read only, as above."""
    command = zig_for(target)
    if command is None:
        pytest.skip("no ziglang, which brings the headers of macOS")
    assert refused_by(command, tmp_path) == []


@pytest.mark.parametrize(
    ("machine", "flag"),
    [("aarch64", "-mcpu=native"), ("arm64", "-mcpu=native"), ("x86_64", "-march=native")],
)
def test_the_machines_own_instructions_are_named_as_its_compilers_do(machine, flag):
    """Clang 14 stops at a native -march on Arm, and with it every run on such a machine."""
    assert compilers.native_flag(machine) == flag


def test_this_machines_flag_is_used():
    assert compilers.native_flag(platform.machine()) in Compiler("g++", ("g++",), "").flags()


FLUSHING = """
extern "C" __attribute__((visibility("default"))) void flush() {
#if defined(__x86_64__)
    unsigned control;
    asm volatile("stmxcsr %0" : "=m"(control));
    control |= 0x8040;
    asm volatile("ldmxcsr %0" : : "m"(control));
#elif defined(__aarch64__)
    asm volatile("msr fpcr, %0" : : "r"(1ull << 24));
#endif
}
"""


def test_a_processor_that_takes_small_numbers_for_0_is_told_of(tmp_path):
    """As it does once a library that was linked with -ffast-math is loaded."""
    (tmp_path / "flush.cc").write_text(FLUSHING)
    compiler = compilers.host_compiler()
    library = tmp_path / "flush.so"
    line = [*compiler.command, *compiler.flags(), str(tmp_path / "flush.cc"), "-o", str(library)]
    subprocess.run(line, check=True)
    program = (
        "import ctypes, sys, tauslab.kernels.backends as backends\n"
        "if len(sys.argv) > 1: ctypes.CDLL(sys.argv[1]).flush()\n"
        "backends.get_backend('cpu', backends.BackendOptions(threads=1)).close()\n"
    )
    message = [
        subprocess.run([sys.executable, "-c", program, *loaded], capture_output=True, text=True,
                       check=True).stderr
        for loaded in ([], [str(library)])
    ]  # fmt: skip
    assert message[0] == ""
    assert "made the processor take numbers below 2.23e-308 for 0" in message[1]

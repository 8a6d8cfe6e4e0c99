"""Host C++ compilers: which there are, their flags and versions."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tauslab.base.errors import ConfigError, DeviceError
from tauslab.base.files.extras import installing
from tauslab.kernels.backends.cache import cache_directory, has_home


def native_flag(machine: str) -> str:
    """The flag that makes compilers use a machine's own instructions.

    Arm's processors are named by ``-mcpu``: clang 14 and Apple's clang of its years refuse a native
    ``-march`` there.
    """
    return "-mcpu=native" if machine in {"aarch64", "arm64"} else "-march=native"


NATIVE = native_flag(platform.machine())
# -ffp-contract=off keeps the contract of equal bits; the rest is speed and strictness.
FLAGS = ("-std=c++17", "-O3", NATIVE, "-ffp-contract=off", "-fno-exceptions", "-fno-rtti",
         "-fno-math-errno", "-fPIC", "-shared", "-fvisibility=hidden", "-Wno-psabi")  # fmt: skip
STRICT = ("-Wall", "-Wextra", "-Werror")  # of tests
_CLANG_FLAGS = ("-Wno-pass-failed",)  # "loop not unrolled" is advice, not a fault
_INTEL_FLAGS = (*_CLANG_FLAGS, "-fp-model=precise")  # icpx reorders sums by default


@dataclass(frozen=True)
class Compiler:
    """A command that turns C++ into a shared library."""

    name: str
    command: tuple[str, ...]
    version: str

    def flags(self) -> tuple[str, ...]:
        """All flags, without input and output."""
        extra = {"g++": (), "icpx": _INTEL_FLAGS}.get(self.name, _CLANG_FLAGS)
        language = ("-x", "c++") if self.name == "zig" else ()
        return (*FLAGS, *extra, *language, *chosen_flags())


def chosen_flags() -> tuple[str, ...]:
    """``$TAUSLAB_CXXFLAGS``, for sanitizers: they come after ours, and a key of the cache has them.

    Raises
    ------
    ConfigError
        A quotation in it has no end.
    """
    given = os.environ.get("TAUSLAB_CXXFLAGS", "")
    try:
        return tuple(shlex.split(given))
    except ValueError:
        raise ConfigError(f"TAUSLAB_CXXFLAGS = {given!r}: a quotation has no end") from None


@cache
def find_compilers() -> tuple[Compiler, ...]:
    """Usable compilers, best first: ``$CXX``, g++, clang++, the compiler of the ``zig`` extra.

    Raises
    ------
    DeviceError
        ``$CXX`` names a program that is not there.
    """
    return tuple(_each_compiler())


def _each_compiler() -> Iterator[Compiler]:
    yield from _compiler_of_environment()
    for name in ("g++", "clang++"):
        path = shutil.which(name)
        if path is not None:
            yield Compiler(name, (path,), _version((path, "--version")))
    if importlib.util.find_spec("ziglang") is not None:
        if not has_home():  # zig without a cache never ends
            os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(cache_directory() / "zig"))
        zig = (sys.executable, "-m", "ziglang", "cc")
        yield Compiler("zig", zig, _version((*zig, "--version")))


def _compiler_of_environment() -> Iterator[Compiler]:
    """``$CXX``, which conda's compilers, Cray's and Intel's modules set; with its arguments."""
    given = os.environ.get("CXX", "").strip()
    if not given:
        return
    try:
        program, *arguments = shlex.split(given)
    except ValueError:
        raise ConfigError(f"CXX = {given!r}: a quotation has no end") from None
    path = shutil.which(program)
    if path is None:
        raise DeviceError(
            f"CXX = {given!r}, but there is no program {program!r}: correct or unset CXX"
        )
    version = _version((path, *arguments, "--version"))
    yield Compiler(_family(version), (path, *arguments), version)


def _family(version: str) -> str:
    """The family of a compiler, whose flags it takes, by the first line of its ``--version``."""
    if "intel" in version.lower():
        return "icpx"
    return "clang++" if "clang" in version.lower() else "g++"


@cache
def host_compiler() -> Compiler:
    """The best compiler of this machine.

    Raises
    ------
    DeviceError
        There is none, or ``$CXX`` names a program that is not there.
    """
    best = next(_each_compiler(), None)
    if best is None:
        raise DeviceError(
            "the cpu device needs a C++ compiler: install g++ or clang++, "
            f"or `{installing('ziglang')}`, which brings one"
        )
    return best


@cache
def cpu_features() -> str:
    """The processor's model and feature flags, on which `NATIVE` depends.

    Where the system does not say it, the instruction sets for which the compiler compiles.
    """
    wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"{platform.machine()} {platform.processor()}\n{_native_macros(host_compiler())}"
    first = text.split("\n\n")[0].splitlines()
    return platform.machine() + "\n" + "\n".join(x for x in first if x.startswith(wanted))


def _native_macros(compiler: Compiler) -> str:
    """Macros of the compiler for this machine's processor, for instance ``__AVX2__``."""
    command = [*compiler.command, NATIVE, "-dM", "-E", "-x", "c++", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "\n".join(sorted(done.stdout.splitlines()))


def run_compiler(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a compiler, which ends with this process, however that ends, and so does what it starts.

    A compiler works for others too: ``g++`` starts ``cc1plus``. So all of it is a process group of
    its own, with a shell that waits at a pipe; when this process is gone, also by SIGKILL, the pipe
    is closed and the shell ends the group.
    """
    shell = ["/bin/sh", "-c", _ENDS_WITH_PARENT, "sh", *command]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        with subprocess.Popen(
            shell, stdin=subprocess.PIPE, stdout=out, stderr=log, start_new_session=True
        ) as process:
            try:
                status = process.wait()
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        texts = []
        for file in (out, log):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return subprocess.CompletedProcess(list(command), status, *texts)


# Standard input is the pipe: `read` ends when it is closed, and needs no program on `PATH`.
# Commands in the background read nothing unless they are given a descriptor.
_ENDS_WITH_PARENT = """
exec 3<&0 </dev/null
{ read -r _ <&3; kill -KILL 0; } 2>/dev/null >/dev/null &
watcher=$!
"$@" 3<&-
status=$?
kill -KILL $watcher 2>/dev/null
exit $status
"""


def _version(command: tuple[str, ...]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[0].strip() or "unknown version"

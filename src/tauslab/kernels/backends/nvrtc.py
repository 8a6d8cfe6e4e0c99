"""NVRTC without a device: source to cubin, so that any machine can check the CUDA kernels."""

from __future__ import annotations

from collections.abc import Mapping

from tauslab.base.errors import KernelCompileError
from tauslab.kernels.backends.cache import with_headers

_FIRST_WITH_QUICK = (13, 0)
_THREADS = 8


def nvrtc_flags(architecture: str, threads_per_block: int) -> tuple[str, ...]:
    """Flags for one architecture such as ``sm_90``; no contraction, IEEE division and roots."""
    return (
        f"--gpu-architecture={architecture}", "--std=c++17", "--fmad=false", "--prec-div=true",
        "--prec-sqrt=true", "--ftz=false", "--ptxas-options=-v",
        f"-DTHREADS_PER_BLOCK={threads_per_block}",
    )  # fmt: skip


def quick_flags() -> tuple[str, ...]:
    """Flags with which this NVRTC compiles sooner to code that runs slower, with the same bits."""
    from cupy.cuda import nvrtc

    one_copy = "-DONE_COPY"  # of functions that are DEVICE_SHARED in csrc/device/cuda.h
    if nvrtc.getVersion() < _FIRST_WITH_QUICK:
        return (one_copy,)
    threads = f"--split-compile={_THREADS}"  # which share these functions
    return (one_copy, "--Ofast-compile=mid", threads, f"--ptxas-options={threads}")


def nvrtc_version() -> str:
    """Version of the NVRTC library of CuPy."""
    from cupy.cuda import nvrtc

    return ".".join(str(part) for part in nvrtc.getVersion())


def supported_architectures() -> tuple[int, ...]:
    """Compute capabilities that NVRTC compiles for, times ten; none where it is missing."""
    try:
        from cupy.cuda import nvrtc

        return tuple(nvrtc.getSupportedArchs())
    except (ImportError, RuntimeError):
        return ()


def compile_cubin(file: str, texts: Mapping[str, str], flags: tuple[str, ...]) -> tuple[bytes, str]:
    """Compile `texts[file]`, other texts being its headers; returns the cubin and ptxas's log.

    Raises
    ------
    KernelCompileError
        With the first error line, the file and the flags.
    """
    from cupy.cuda import nvrtc

    headers = [name for name in with_headers(file, texts) if name != file]
    program = nvrtc.createProgram(
        texts[file],
        file,
        tuple(texts[name].encode() for name in headers),
        tuple(name.encode() for name in headers),
    )
    try:
        nvrtc.compileProgram(program, flags)
        return nvrtc.getCUBIN(program), nvrtc.getProgramLog(program)
    except nvrtc.NVRTCError:
        log = nvrtc.getProgramLog(program)
        first = next((line for line in log.splitlines() if "error" in line), log[:200])
        raise KernelCompileError(
            f"NVRTC cannot compile {file} (flags {' '.join(flags)}): {first}"
        ) from None
    finally:
        nvrtc.destroyProgram(program)

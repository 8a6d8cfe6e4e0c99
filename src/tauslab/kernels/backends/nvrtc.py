"""NVRTC without a device: source to cubin, so that any machine can check the CUDA kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tauslab.base.errors import KernelCompileError


def nvrtc_flags(architecture: str, threads_per_block: int) -> tuple[str, ...]:
    """Flags for one architecture such as ``sm_90``; no contraction, IEEE division and roots."""
    return (
        f"--gpu-architecture={architecture}",
        "--std=c++17",
        "--fmad=false",
        "--prec-div=true",
        "--prec-sqrt=true",
        "--ftz=false",
        "--ptxas-options=-v",
        f"-DTHREADS_PER_BLOCK={threads_per_block}",
    )


def nvrtc_version() -> str:
    """Version of the NVRTC library CuPy found."""
    from cupy.cuda import nvrtc

    return ".".join(str(part) for part in nvrtc.getVersion())


def compile_cubin(file: str, texts: Mapping[str, str], flags: tuple[str, ...]) -> tuple[bytes, str]:
    """Compile `texts[file]`, other texts being its headers; returns the cubin and ptxas's log.

    Raises
    ------
    KernelCompileError
        With the first error line, the file and the flags.
    """
    from cupy.cuda import nvrtc

    with _compiled(file, texts, flags) as program:
        return nvrtc.getCUBIN(program), nvrtc.getProgramLog(program)


def compile_ptx(file: str, texts: Mapping[str, str], flags: tuple[str, ...]) -> str:
    """The same to PTX, for a virtual architecture such as ``compute_90``."""
    from cupy.cuda import nvrtc

    with _compiled(file, texts, flags) as program:
        return bytes(nvrtc.getPTX(program)).decode()


@contextmanager
def _compiled(file: str, texts: Mapping[str, str], flags: tuple[str, ...]) -> Iterator[int]:
    """A compiled program, for as long as it is asked about."""
    from cupy.cuda import nvrtc

    headers = [name for name in texts if name != file]
    program = nvrtc.createProgram(
        texts[file],
        file,
        tuple(texts[name].encode() for name in headers),
        tuple(name.encode() for name in headers),
    )
    try:
        nvrtc.compileProgram(program, flags)
        yield program
    except nvrtc.NVRTCError:
        log = nvrtc.getProgramLog(program)
        first = next((line for line in log.splitlines() if "error" in line), log[:200])
        raise KernelCompileError(
            f"NVRTC cannot compile {file} (flags {' '.join(flags)}): {first}"
        ) from None
    finally:
        nvrtc.destroyProgram(program)

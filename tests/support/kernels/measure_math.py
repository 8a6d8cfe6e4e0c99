"""Measure the portable math functions: errors, speed, and digests that must not depend on devices.

    python tests/support/kernels/measure_math.py              errors in ulp, as a table
    python tests/support/kernels/measure_math.py --speed      nanoseconds per call on this CPU
    python tests/support/kernels/measure_math.py --digest N   SHA-256 per function, --device cuda

Errors are against mpmath.  Digests are over arguments that the probe makes itself, so two devices
or compilers agree exactly if their functions do.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import math
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tauslab.kernels.backends.cache import CSRC, compiled, content_key, csrc_digest
from tauslab.kernels.backends.compilers import Compiler, find_compilers, host_compiler
from tauslab.kernels.backends.nvrtc import nvrtc_flags

FloatArray = npt.NDArray[np.float64]

PROBE = Path(__file__).with_name("csrc_math_probe.cc")

# In the order of `enum Function` of the probe.
NAMES = ("exponential", "log", "log10", "log1p", "exp", "expm1", "pow", "cbrt", "sin", "cos",
         "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "floor", "ceil", "abs", "min",
         "max", "sqrt")  # fmt: skip


class Probe(Protocol):
    """The probe on one device."""

    def values(self, name: str, x: FloatArray, y: FloatArray | None = None) -> FloatArray:
        """The function of every element."""

    def random_values(self, name: str, first: int, n: int) -> FloatArray:
        """The function of the probe's own arguments number `first` to `first + n - 1`."""


class CpuProbe:
    """The probe compiled for the CPU."""

    def __init__(self, compiler: Compiler | None = None) -> None:
        self.compiler = compiler or host_compiler()
        self.library = compile_for_cpu(self.compiler)

    def values(self, name: str, x: FloatArray, y: FloatArray | None = None) -> FloatArray:
        """See `Probe`."""
        x = np.ascontiguousarray(x, dtype=np.float64)
        y = x if y is None else np.ascontiguousarray(y, dtype=np.float64)
        out = np.empty_like(x)
        self.call("probe", ctypes.c_uint(NAMES.index(name)), len(x), x, y, out)
        return out

    def random_values(self, name: str, first: int, n: int) -> FloatArray:
        """See `Probe`."""
        out = np.empty(n)
        self.call("probe_random", ctypes.c_uint(NAMES.index(name)), first, n, out)
        return out

    def call(self, kernel: str, *arguments: Any) -> None:
        """Run a kernel of the probe as one thread; plain integers are 64 bits wide."""
        words: list[Any] = [ctypes.c_longlong(0), ctypes.c_longlong(1)]
        for value in arguments:
            if isinstance(value, np.ndarray):
                words.append(ctypes.c_void_p(value.ctypes.data))
            else:
                words.append(ctypes.c_longlong(value) if isinstance(value, int) else value)
        getattr(self.library, kernel)(*words)


class CudaProbe:
    """The probe compiled for the first GPU."""

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        flags = nvrtc_flags("sm_90", 128)
        options = tuple(f for f in flags if not f.startswith(("--gpu-arch", "--ptxas")))
        self.module = cupy.RawModule(
            code=PROBE.read_text(encoding="utf-8"), options=(*options, f"-I{CSRC}")
        )

    def values(self, name: str, x: FloatArray, y: FloatArray | None = None) -> FloatArray:
        """See `Probe`."""
        device_x = self.cupy.asarray(x)
        device_y = device_x if y is None else self.cupy.asarray(y)
        out = self.cupy.empty_like(device_x)
        index = np.uint32(NAMES.index(name))
        self._run("probe", (index, np.int64(len(x)), device_x, device_y, out))
        return np.asarray(self.cupy.asnumpy(out))

    def random_values(self, name: str, first: int, n: int) -> FloatArray:
        """See `Probe`."""
        out = self.cupy.empty(n)
        index = np.uint32(NAMES.index(name))
        self._run("probe_random", (index, np.int64(first), np.int64(n), out))
        return np.asarray(self.cupy.asnumpy(out))

    def _run(self, kernel: str, arguments: tuple[Any, ...]) -> None:
        self.module.get_function(kernel)((1024,), (128,), arguments)


def compile_for_cpu(compiler: Compiler) -> ctypes.CDLL:
    """Compile the probe with the flags of all CPU kernels, or load it from the cache of kernels."""
    command = [*compiler.command, *compiler.flags(), f"-I{CSRC}", str(PROBE)]

    def build(path: Path) -> None:
        done = subprocess.run(
            [*command, "-o", str(path)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{compiler.name} cannot compile {PROBE.name}: {done.stderr[:500]}")

    key = content_key(
        [compiler.version, *command, PROBE.read_text(encoding="utf-8"), csrc_digest()]
    )
    return ctypes.CDLL(str(compiled(key, ".so", build)[0]))


def digest(probe: Probe, name: str, n: int, batch: int = 1_000_000) -> str:
    """SHA-256 of the little-endian results for the first `n` arguments of the probe."""
    result = hashlib.sha256()
    for first in range(0, n, batch):
        values = probe.random_values(name, first, min(batch, n - first))
        result.update(values.astype("<f8").tobytes())
    return result.hexdigest()


@dataclass(frozen=True)
class Domain:
    """A function on an interval, as a line of the table.

    `spread` is ``linear`` or ``logarithmic``; `both_signs` mirrors half of the arguments; `other`
    is the interval of a second argument.
    """

    name: str
    low: float
    high: float
    spread: str = "linear"
    both_signs: bool = False
    other: tuple[float, float] | None = None

    def arguments(self, n: int, seed: int) -> tuple[FloatArray, FloatArray]:
        """`n` random arguments and `n` second arguments."""
        rng = np.random.default_rng(seed)
        if self.spread == "linear":
            x = rng.uniform(self.low, self.high, n)
        else:
            x = 2.0 ** rng.uniform(math.log2(self.low), math.log2(self.high), n)
            x *= rng.uniform(1.0, 1.0 + 1e-9, n)
            x = np.minimum(x, self.high)
        if self.both_signs:
            x *= rng.choice([-1.0, 1.0], n)
        return x, rng.uniform(*self.other, n) if self.other else x

    def text(self) -> str:
        """For the table."""
        low = "+-" if self.both_signs else ""
        second = f", y in {self.other[0]:g} .. {self.other[1]:g}" if self.other else ""
        return f"{low}{self.low:.4g} .. {self.high:.4g} ({self.spread}){second}"


_TINY, _HUGE = 5e-324, 1.7e308
DOMAINS = (
    Domain("exponential", 2.0**-52, 1.0), Domain("exponential", 2.0**-52, 1.0, "logarithmic"),
    Domain("exponential", 0.96, 1.0), Domain("exponential", 0.9921, 0.9922),
    Domain("log", 0.5, 2.0), Domain("log", 1.0154, 1.0160),
    Domain("log", _TINY, _HUGE, "logarithmic"),
    Domain("log10", 0.5, 2.0), Domain("log10", _TINY, _HUGE, "logarithmic"),
    Domain("log1p", -0.999, 3.0), Domain("log1p", 1e-20, 0.9, "logarithmic", True),
    Domain("log1p", 1e-3, _HUGE, "logarithmic"),
    Domain("exp", -1.0, 1.0), Domain("exp", -708.0, 709.7), Domain("exp", -745.0, -708.0),
    Domain("exp", -709.5, -707.5),
    Domain("expm1", -2.0, 2.0), Domain("expm1", 1e-20, 40.0, "logarithmic", True),
    Domain("expm1", 1.0, 709.0),
    Domain("pow", 0.0, 10.0, other=(-20.0, 20.0)), Domain("pow", 0.9, 1.1, other=(-5e3, 5e3)),
    Domain("pow", 1e-300, 1e300, "logarithmic", other=(-1.0, 1.0)),
    Domain("pow", 1.0, 1.0001, other=(-7e6, 7e6)), Domain("pow", 2.0, 4.0, other=(-537.0, -511.0)),
    Domain("cbrt", 1.0, 8.0), Domain("cbrt", _TINY, _HUGE, "logarithmic", True),
    *(Domain(name, low, high, "logarithmic", True) for name in ("sin", "cos", "tan")
      for low, high in ((1e-9, 10.0), (1.0, 2.0**30), (2.0**30, _HUGE))),
    *(Domain(name, -1.0, 1.0) for name in ("asin", "acos")),
    *(Domain(name, 1e-12, 1.0, "logarithmic", True) for name in ("asin", "acos")),
    Domain("acos", 0.999, 1.0),
    Domain("atan", -10.0, 10.0), Domain("atan", 1e-12, 1e20, "logarithmic", True),
    *(Domain(name, -3.0, 3.0) for name in ("sinh", "cosh", "tanh")),
    *(Domain(name, 1e-12, 710.4, "logarithmic", True) for name in ("sinh", "cosh")),
    Domain("tanh", 1e-12, 25.0, "logarithmic", True), Domain("sqrt", _TINY, _HUGE, "logarithmic"),
)  # fmt: skip


def exact_function(name: str) -> Callable[..., Any]:
    """The function in mpmath at its present precision."""
    import mpmath

    special: dict[str, Callable[..., Any]] = {
        "exponential": lambda x: -mpmath.log(x),
        "pow": mpmath.power,
        "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    }
    actual: Callable[..., Any] = special.get(name) or getattr(mpmath, name)
    return actual


def max_ulp(probe: Probe, domain: Domain, n: int, seed: int = 1) -> float:
    """Largest error over `n` arguments, in units of the last place of the exact result."""
    import mpmath

    exact = exact_function(domain.name)
    x, y = domain.arguments(n, seed)
    values = probe.values(domain.name, x, y)
    worst = 0.0
    with mpmath.workprec(160):
        for i, value in enumerate(values.tolist()):
            second = (mpmath.mpf(y[i]),) if domain.other else ()
            true = exact(mpmath.mpf(x[i]), *second)
            nearest = float(true)
            if math.isinf(nearest) or math.isinf(value):
                worst = max(worst, 0.0 if nearest == value else math.inf)
                continue
            worst = max(worst, float(abs(true - value) / mpmath.mpf(math.ulp(nearest))))
    return worst


def print_errors(probe: Probe, n: int) -> None:
    """The table of docs/developers/portable-math.md."""
    print(f"| function | arguments | max error, ulp ({n} arguments) |\n|---|---|---|")
    for domain in DOMAINS:
        print(f"| {domain.name} | {domain.text()} | {max_ulp(probe, domain, n):.3f} |", flush=True)


def print_speed(probe: Probe, n: int = 100_000, repeats: int = 20) -> None:
    """Nanoseconds per call over an array of uniform numbers in (0, 1]."""
    x = 1.0 - np.random.default_rng(1).random(n)
    for name in NAMES:
        best = math.inf
        for _ in range(repeats):
            start = time.perf_counter()
            probe.values(name, x)
            best = min(best, time.perf_counter() - start)
        print(f"{name:12} {best / n * 1e9:7.2f} ns")


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("-n", type=int, default=20_000, help="arguments per line of the table")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--digest", type=int, nargs="?", const=10_000_000, metavar="N")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compiler", choices=[c.name for c in find_compilers()])
    options = parser.parse_args(arguments)
    chosen = [c for c in find_compilers() if c.name == options.compiler]
    cuda = options.device == "cuda"
    probe: Probe = CudaProbe() if cuda else CpuProbe(chosen[0] if chosen else None)
    if options.digest:
        for name in NAMES:
            print(f"{name:12} {digest(probe, name, options.digest)}", flush=True)
    elif options.speed:
        print_speed(probe)
    else:
        print_errors(probe, options.n)


if __name__ == "__main__":
    main()

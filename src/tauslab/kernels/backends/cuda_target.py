"""A GPU that need not be there: kernels are compiled for it, and none runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, DeviceArray
from tauslab.base.errors import ConfigError, DeviceError
from tauslab.base.files.extras import installing
from tauslab.kernels.backends.arguments import ArgumentLayout, Arguments
from tauslab.kernels.backends.base import KernelSource, LaunchGrid
from tauslab.kernels.backends.cuda import CudaStyle, cubin_of
from tauslab.kernels.backends.host_memory import HostMemory
from tauslab.kernels.backends.nvrtc import supported_architectures

# Multiprocessors and KiB of shared memory of a block, by compute capability: of the usual GPU of a
# cluster. Kernels of lattices in lines have both in their text.
_USUAL = {70: (80, 96), 75: (40, 64), 80: (108, 163), 86: (84, 99), 89: (142, 99), 90: (132, 227),
          100: (148, 227), 103: (148, 227), 120: (188, 99)}  # fmt: skip
_OTHERS = (132, 99)
_RESERVED = 8 * 1024  # bytes, as of `CudaBackend`
_RESIDENT = 512  # threads of a multiprocessor, as of a kernel of 128 registers
_FREE = 1 << 36  # bytes


class _NoWork:
    """A stream and its events: everything given is done."""

    def record(self) -> _NoWork:
        """Mark the work given so far."""
        return self

    def wait_for(self, event: object) -> None:
        """Nothing to wait for."""

    def done(self) -> bool:
        """Return whether it is over."""
        return True

    def wait(self) -> None:
        """Nothing to wait for."""

    def seconds_since(self, earlier: object) -> float:  # noqa: ARG002 - as an event has it
        """No time."""
        return 0.0


class _NoProgram:
    """A program that was compiled, whose launches do nothing."""

    def __init__(self, layouts: Mapping[str, ArgumentLayout], multiprocessors: int) -> None:
        self._layouts, self._multiprocessors = layouts, multiprocessors

    def arguments(self, entry: str, **values: Any) -> Arguments:
        """Arguments of kernel `entry` by name."""
        return Arguments(self._layouts[entry], values)

    def launch(self, entry: str, items: int, arguments: Arguments, stream: Any) -> None:
        """Launch nothing."""

    def resident(self, entry: str) -> int:  # noqa: ARG002 - as a program has it
        """Threads of a usual kernel."""
        return _RESIDENT * self._multiprocessors

    def launch_blocks(
        self, entry: str, grid: LaunchGrid, arguments: Arguments, stream: Any
    ) -> None:
        """Launch nothing."""

    def resident_blocks(self, entry: str, threads: int) -> int:  # noqa: ARG002
        """Blocks of a usual kernel."""
        return max(1, _RESIDENT // threads) * self._multiprocessors


class CudaTarget(HostMemory, CudaStyle):
    """A GPU of compute capability `architecture`, for instance 90, as a backend.

    Raises
    ------
    DeviceError
        There is no NVRTC.
    ConfigError
        It knows no such architecture.
    """

    def __init__(self, architecture: int) -> None:
        known = supported_architectures()
        if not known:
            raise DeviceError(
                "compiling for the GPU of another machine needs CuPy with NVRTC: "
                f"{installing('cupy-cuda13x', 'nvidia-cuda-nvrtc', 'nvidia-cuda-runtime')}"
            )
        if architecture not in known:
            raise ConfigError(
                f"NVRTC compiles for no architecture {architecture}: it knows "
                f"{', '.join(map(str, known))}"
            )
        self._architecture = f"sm_{architecture}"
        self.multiprocessors, shared = _USUAL.get(architecture, _OTHERS)
        self.fast_memory = 1024 * shared - _RESERVED

    def describe(self) -> str:
        """The architecture."""
        return self._architecture

    def identity(self) -> str:
        """None: it is no device."""
        return ""

    def compile(self, source: KernelSource) -> _NoProgram:
        """Compile, or find the cubin in the cache."""
        _, layouts = cubin_of(source, self._architecture)
        return _NoProgram(layouts, self.multiprocessors)

    def stream(self, *, urgent: bool = False, waited: bool = False) -> _NoWork:  # noqa: ARG002
        """Open a stream."""
        return _NoWork()

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """Host memory, zeroed: what a kernel would have written is read."""
        return np.zeros(tuple(shape), dtype)

    def clear(self, buffer: DeviceArray, stream: Any) -> None:
        """Nothing was written."""

    def copy(self, source: DeviceArray, target: DeviceArray, stream: Any) -> None:
        """Nothing was written."""

    def free_memory(self) -> int:
        """Memory of a usual GPU."""
        return _FREE

    def rest(self) -> None:
        """Nothing to leave."""

    def close(self) -> None:
        """Nothing to give back."""

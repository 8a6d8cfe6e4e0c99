"""Array operations on a GPU that come late, and memory that is never 0 at first.

    python -m pytest -m gpu -p late_arrays tests/kernels/lattice

After each launch the default stream, where CuPy's operations run, has to wait a while; so what an
engine does not wait for is seen, also on a GPU that has nothing else to do. New memory is full of
what no kernel may read.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

CYCLES = 10_000_000  # 5 ms
SHORT = 300_000
LEFT_THERE = 0xA5


@cache
def _spin() -> Any:
    import cupy

    return cupy.RawKernel(Path(__file__).with_suffix(".cu").read_text(), "spin")


def be_late(stream: Any = None, cycles: int = CYCLES) -> None:
    """Keep a stream busy; by default the one of array operations."""
    import cupy

    with cupy.cuda.Stream.null if stream is None else stream.stream:
        _spin()((1,), (1,), (np.int64(cycles),))


def pytest_configure(config: pytest.Config) -> None:
    """Make all array operations late: of a plugin that was asked for."""
    import cupy

    from tauslab.kernels.backends.cuda import CudaProgram

    pool, launch = cupy.get_default_memory_pool(), CudaProgram._launch

    def filled(size: int) -> Any:
        memory = pool.malloc(size)
        if size:
            memory.memset_async(LEFT_THERE, size)
        return memory

    def late(*args: Any) -> None:
        launch(*args)
        be_late(cycles=SHORT)

    cupy.cuda.set_allocator(filled)
    CudaProgram._launch = late

"""The context of a CUDA device, made by a thread while the program reads and imports CuPy.

The driver takes some tenths of a second for it, as long as the imports, and holds no lock of
Python's meanwhile. CuPy works in the context that it finds. It reports nothing: what is
missing or broken CuPy meets again when the device is opened. It is no part of `backends`, so that a
command can begin with it, before all that these import.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_LIBRARY = "libcuda.so.1"
_making: list[Future[None]] = []


def begin_context(index_of: Callable[[int], int]) -> None:
    """Start to make the context of GPU ``index_of(how many there are)``, once in a process.

    Not without CuPy, which alone would use it. The process ends after the thread.
    """
    if not _making and importlib.util.find_spec("cupy") is not None:
        with_one = ThreadPoolExecutor(1, thread_name_prefix="tauslab-context")
        _making.append(with_one.submit(_make, index_of))
        with_one.shutdown(wait=False)


def wait_for_context() -> None:
    """Wait until the thread has ended, if there is one, and raise what it raised."""
    for made in _making:
        made.result()


def _make(index_of: Callable[[int], int]) -> None:
    try:
        driver: Any = ctypes.CDLL(_LIBRARY)
    except OSError:
        return
    result = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(result)):
        return
    index = index_of(result.value)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if 0 <= index < result.value and not driver.cuDeviceGet(ctypes.byref(device), index):
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)

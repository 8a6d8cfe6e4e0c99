"""Buffers of a backend whose device memory is that of the host: nothing is copied or shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, DeviceArray
from tauslab.base.errors import DeviceError


class HostMemory:
    """What `Backend` asks of memory, where host and device are one."""

    name: str

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """Host memory."""
        return np.empty(tuple(shape), dtype)

    def upload(self, array: Array, stream: Any = None) -> Array:
        """Return the array itself, contiguous."""
        del stream
        return np.ascontiguousarray(array)

    def mirror(self, buffer: DeviceArray) -> Array:
        """Return the buffer itself."""
        return np.asarray(buffer)

    def download(self, buffer: DeviceArray, mirror: Array, rows: int, stream: Any) -> None:
        """Nothing to copy."""

    def upload_mirror(self, mirror: Array, buffer: DeviceArray, stream: Any) -> None:
        """Nothing to copy."""

    def write_now(self, buffer: DeviceArray, word: int, value: int) -> None:
        """Write it; kernels read it by an atomic load."""
        buffer[word] = value

    def read_now(self, buffer: DeviceArray) -> Array:
        """A copy."""
        return np.array(buffer)

    def shareable(self, words: int) -> Array:
        """Memory of this process alone."""
        return np.zeros(words, np.uint64)

    def export_memory(self, buffer: DeviceArray) -> bytes:
        """Not possible."""
        del buffer
        self._refuse()

    def open_memory(self, handle: bytes, words: int) -> Array:
        """Not possible."""
        del handle, words
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise DeviceError(f"the {self.name} device has no memory that another process can open")

    def close_memory(self, buffer: DeviceArray) -> None:
        """Nothing was opened."""

    def map_host(self, memory: Array) -> Array:
        """The memory itself."""
        return memory

    def unmap_host(self, buffer: DeviceArray) -> None:
        """Nothing was mapped."""

    def record_launches(self, work: Callable[[], None], stream: Any) -> None:
        """Nothing to gain: a launch is a call."""

    def use(self) -> None:
        """Every thread can."""

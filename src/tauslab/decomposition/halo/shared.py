"""Host memory that the ranks of a node share, for devices that do not reach each other.

A rank's window is a file without a name in memory. A neighbour opens it through the folder of open
files that the kernel shows of every process, so nothing is left behind whatever ends a rank. Both
devices map it: messages cross the host's memory once, and neither MPI nor a thread copies them.
"""

from __future__ import annotations

import mmap
import os
import secrets
from pathlib import Path

import numpy as np

from tauslab.base.arrays import DeviceArray, UintArray
from tauslab.base.errors import DeviceError
from tauslab.kernels.backends.base import Backend

Words = UintArray


class HostMemory:
    """Windows in memory of the host."""

    name = "shared"

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._handle = b""

    def make(self, words: int) -> DeviceArray:
        """A file in memory, open until this process ends or drops it."""
        if not hasattr(os, "memfd_create"):
            raise DeviceError("the host has no memory to share: this is not Linux")
        name = f"tauslab-{secrets.token_hex(8)}"
        try:
            self._file = os.memfd_create(name)
        except OSError as error:
            raise DeviceError(f"the host has no memory to share: {error.strerror}") from error
        self._handle = f"{name} /proc/{os.getpid()}/fd/{self._file}".encode()
        try:
            os.posix_fallocate(self._file, 0, _bytes(words))  # else a signal says that it is full
            return self._backend.map_host(_mapped(self._file, words))
        except OSError as error:
            os.close(self._file)
            raise DeviceError(f"the host has no memory to share: {error.strerror}") from error
        except DeviceError:
            os.close(self._file)
            raise

    def offer(self, buffer: DeviceArray) -> bytes:
        """Path of the file for other processes, and its name there."""
        del buffer
        return self._handle

    def open(self, handle: bytes, words: int) -> DeviceArray:
        """Map the other's file; the number of a process may mean another one in a container."""
        name, path = handle.decode().split()
        try:
            if name not in str(Path(path).readlink()):
                raise DeviceError(f"{path} is not the neighbour's memory")
            file = os.open(path, os.O_RDWR)
            try:
                memory = _mapped(file, words)
            finally:
                os.close(file)
        except OSError as error:
            raise DeviceError(
                f"the neighbour's host memory cannot be opened: {path}: {error.strerror}"
            ) from error
        return self._backend.map_host(memory)

    def close(self, buffer: DeviceArray) -> None:
        """Unmap it."""
        self._backend.unmap_host(buffer)

    def drop(self, buffer: DeviceArray) -> None:
        """Unmap it and close the file."""
        self._backend.unmap_host(buffer)
        os.close(self._file)


def _mapped(file: int, words: int) -> Words:
    """Shared with all who map the file."""
    return np.frombuffer(mmap.mmap(file, _bytes(words)), np.uint64)


def _bytes(words: int) -> int:
    """Devices map whole pages."""
    return -(-8 * words // mmap.PAGESIZE) * mmap.PAGESIZE

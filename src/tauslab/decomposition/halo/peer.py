"""Messages straight into memory that a neighbour's kernels reach, on the same node.

Each rank has one piece of such memory, its `Window`: for each side two places for messages and a
cell that holds the number of the last one that is complete. The neighbours' kernels write there;
its own kernel waits for the cell. The host takes no part after the start. The memory is the
device's, or the host's where devices do not reach each other: see `shared`.
"""

from __future__ import annotations

import mmap
import os
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from tauslab.base.arrays import DeviceArray, UintArray
from tauslab.base.errors import DeviceError
from tauslab.decomposition.halo.messages import ABOVE, BELOW, Link, Ranks
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


_CELL_WORDS = 16  # cells of different neighbours lie in lines of their own


class Window:
    """Memory where messages arrive: of this rank, or of a neighbour."""

    def __init__(self, memory: DeviceArray, message_words: int) -> None:
        self.memory = memory
        at = [i * message_words for i in range(5)]
        self._places = [memory[at[i] : at[i + 1]] for i in range(4)]
        self._cells = [
            memory[at[4] + side * _CELL_WORDS : at[4] + side * _CELL_WORDS + 1]
            for side in (BELOW, ABOVE)
        ]

    @staticmethod
    def words(message_words: int) -> int:
        """Size of a window."""
        return 4 * message_words + 2 * _CELL_WORDS

    def place(self, side: int, number: int) -> tuple[DeviceArray, DeviceArray | None]:
        """Memory of message `number` from the neighbour at `side`, and its cell."""
        return self._places[2 * side + (number & 1)], self._cells[side]


class WindowMemory(Protocol):
    """Memory of windows; a kind that cannot be is a `DeviceError`.

    `name` is the transport's.
    """

    name: str

    def make(self, words: int) -> DeviceArray:
        """Zeroed memory for this rank's window."""

    def offer(self, buffer: DeviceArray) -> bytes:
        """A handle by which a process of this host opens it."""

    def open(self, handle: bytes, words: int) -> DeviceArray:
        """The memory that another process offers."""

    def close(self, buffer: DeviceArray) -> None:
        """Give back what `open` gave."""

    def drop(self, buffer: DeviceArray) -> None:
        """Give back what `make` gave, when nobody has it open any more."""


class DeviceMemory:
    """Memory of this rank's device, opened through handles."""

    name = "peer"

    def __init__(self, backend: Backend) -> None:
        self.make = backend.shareable
        self.offer = backend.export_memory
        self.open = backend.open_memory
        self.close = backend.close_memory

    def drop(self, buffer: DeviceArray) -> None:
        """It goes with its last user."""


class PeerLink(Link):
    """A neighbour whose window this rank has open, and who has this rank's open.

    Kernels write and wait: csrc/lattice/halo.cc. The windows are given back by `Peers`.
    """

    def __init__(self, name: str, own: Window, neighbour: Window, side: int) -> None:
        self.name, self._own, self._neighbour, self._side = name, own, neighbour, side
        self._other = ABOVE if side == BELOW else BELOW

    def target(self, number: int) -> tuple[DeviceArray, DeviceArray | None]:
        """The neighbour's memory."""
        return self._neighbour.place(self._other, number)

    def source(self, number: int) -> tuple[DeviceArray, DeviceArray | None]:
        """Memory of this rank."""
        return self._own.place(self._side, number)


class Peers:
    """Windows of this rank and its neighbours, exchanged once.

    Attributes
    ----------
    windows
        Of the neighbours that this rank has open and who have opened its own, by rank.
    refusals
        Why others are not, by rank.
    own
        Of this rank; None where there can be none.
    """

    def __init__(
        self,
        memory: WindowMemory,
        comm: Ranks,
        neighbours: Sequence[int | None],
        message_words: int,
    ) -> None:
        self._memory, self._comm, self._message_words = memory, comm, message_words
        self.own: Window | None = None
        self.windows: dict[int, Window] = {}
        self.refusals: dict[int, str] = {}
        reported = comm.allgather(self._offer())
        local = reported[comm.rank][0]
        for rank in sorted({rank for rank in neighbours if rank is not None}):
            host, handle, reason = reported[rank]
            if host != local:
                self.refusals[rank] = f"it runs on {host}, not on {local}"
            elif handle is None:
                self.refusals[rank] = reason
            else:
                self._open(rank, handle)
        for rank, refused in enumerate(comm.allgather(self.refusals)):
            if comm.rank in refused:
                self.refusals.setdefault(rank, f"it cannot open ours: {refused[comm.rank]}")
        self._opened = dict(self.windows)
        for rank in self.refusals:
            self.windows.pop(rank, None)

    def _offer(self) -> tuple[str, bytes | None, str]:
        host = socket.gethostname()
        try:
            memory = self._memory.make(Window.words(self._message_words))
            self.own = Window(memory, self._message_words)
            return host, self._memory.offer(memory), ""
        except DeviceError as error:
            return host, None, str(error)

    def _open(self, rank: int, handle: bytes) -> None:
        try:
            memory = self._memory.open(handle, Window.words(self._message_words))
        except DeviceError as error:
            self.refusals[rank] = str(error)
            return
        self.windows[rank] = Window(memory, self._message_words)

    def link(self, rank: int | None, side: int) -> PeerLink | None:
        """The way to a neighbour; None where there is none."""
        if rank not in self.windows or self.own is None:
            return None
        return PeerLink(self._memory.name, self.own, self.windows[rank], side)

    def close(self) -> None:
        """Close the neighbours' windows and, when all have closed it, this one; collective."""
        for window in self._opened.values():
            self._memory.close(window.memory)
        self._comm.Barrier()
        if self.own is not None:
            self._memory.drop(self.own.memory)

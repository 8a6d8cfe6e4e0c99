"""Messages straight into the memory of a neighbour's device, on the same node.

Each rank has one piece of shareable memory, its `Window`: for each side two places for messages and
a cell that holds the number of the last one that is complete. The neighbours' kernels write there;
a kernel here waits for the cell. The host takes no part after the start.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from tauslab.decomposition.halo import ABOVE, BELOW, Ranks
from tauslab.kernels.backends.base import Backend, Stream
from tauslab.model.errors import DeviceError

_CELL_WORDS = 16  # cells of different neighbours lie in lines of their own


class Window:
    """Where messages arrive: of this rank, or of a neighbour."""

    def __init__(self, memory: Any, message_words: int) -> None:
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

    def place(self, side: int, number: int) -> tuple[Any, Any]:
        """Where message `number` from the neighbour at `side` lies, and its cell."""
        return self._places[2 * side + (number & 1)], self._cells[side]


class PeerLink:
    """A neighbour whose device memory is open here, and to whom this one's is."""

    name = "peer"

    def __init__(self, own: Window, neighbour: Window, side: int) -> None:
        self._own, self._neighbour, self._side = own, neighbour, side
        self._other = ABOVE if side == BELOW else BELOW

    def post(self, number: int) -> None:
        """The place is free: see the head of `csrc/halo.cc`."""

    def target(self, number: int) -> tuple[Any, Any]:
        """The neighbour's memory."""
        return self._neighbour.place(self._other, number)

    def send(self, number: int, stream: Stream) -> None:
        """It was packed there."""

    def depart(self, number: int) -> None:
        """It went by itself."""

    def wait(self, number: int, stream: Stream) -> None:
        """A kernel waits."""

    def source(self, number: int) -> tuple[Any, Any]:
        """Memory of this rank."""
        return self._own.place(self._side, number)

    def close(self) -> None:
        """The windows are `Peers`'."""


class Peers:
    """Windows of this rank and its neighbours, exchanged once.

    Attributes
    ----------
    windows
        Of the neighbours that are open here and have opened this one's, by rank.
    refusals
        Why others are not, by rank.
    """

    def __init__(
        self, backend: Backend, comm: Ranks, neighbours: Sequence[int | None], message_words: int
    ) -> None:
        self._backend, self._comm = backend, comm
        words = Window.words(message_words)
        self.own = Window(backend.shareable(words), message_words)
        self.windows: dict[int, Window] = {}
        self.refusals: dict[int, str] = {}
        told = comm.allgather(self._offer())
        here = told[comm.rank][0]
        for rank in sorted({rank for rank in neighbours if rank is not None}):
            host, handle, reason = told[rank]
            if host != here:
                self.refusals[rank] = f"it runs on {host}, not on {here}"
            elif handle is None:
                self.refusals[rank] = reason
            else:
                self._open(rank, handle, words, message_words)
        for rank, refused in enumerate(comm.allgather(self.refusals)):
            if comm.rank in refused:
                self.refusals.setdefault(rank, f"it cannot open ours: {refused[comm.rank]}")
        self._opened = dict(self.windows)
        for rank in self.refusals:
            self.windows.pop(rank, None)

    def _offer(self) -> tuple[str, bytes | None, str]:
        try:
            return socket.gethostname(), self._backend.export_memory(self.own.memory), ""
        except DeviceError as error:
            return socket.gethostname(), None, str(error)

    def _open(self, rank: int, handle: bytes, words: int, message_words: int) -> None:
        try:
            memory = self._backend.open_memory(handle, words)
        except DeviceError as error:
            self.refusals[rank] = str(error)
            return
        self.windows[rank] = Window(memory, message_words)

    def close(self) -> None:
        """Close the neighbours' windows, then wait until all have closed this one; collective."""
        for window in self._opened.values():
            self._backend.close_memory(window.memory)
        self._comm.Barrier()

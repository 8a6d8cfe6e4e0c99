"""Messages through MPI: staged in host memory, or straight from the device's."""

from __future__ import annotations

import ctypes
import functools
import re
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.decomposition.halo import ABOVE, BELOW, Ranks
from tauslab.kernels.backends.base import Backend, Event, Stream

# Tags of messages that go to the slab below, and above: two ranks may be both to each other.
_TAGS = (61, 62)

_PIECE = 1 << 15  # words: shorter ones take longer to start than to send


class MpiLink:
    """A neighbour on any node.

    Persistent requests, two of a kind by turns. With `staged`, a message travels device, pinned
    host memory, MPI, pinned host memory, device, and a long one in pieces, so that one is copied
    while MPI sends another; else MPI is given the device's memory.
    """

    def __init__(
        self, backend: Backend, comm: Ranks, peer: int, side: int, words: int, *, staged: bool
    ) -> None:
        self.name = "host" if staged else "mpi"
        self._out = [backend.empty((words,), np.uint64) for _ in range(2)]
        self._in = [backend.empty((words,), np.uint64) for _ in range(2)]
        other = ABOVE if side == BELOW else BELOW
        cuts = range(0, words, _PIECE if staged else words)
        self._sends, self._receives = (
            [
                [_Piece(backend, place[at : at + cuts.step], staged=staged) for at in cuts]
                for place in places
            ]
            for places in (self._out, self._in)
        )
        for piece in chain(*self._sends):
            piece.request = comm.Send_init(piece.host, dest=peer, tag=_TAGS[side])
        for piece in chain(*self._receives):
            piece.request = comm.Recv_init(piece.host, source=peer, tag=_TAGS[other])

    def post(self, number: int) -> None:
        """Receive into the place whose last message was unpacked before the last one was sent."""
        for piece in self._sends[number & 1]:
            piece.request.Wait()  # at once where it is not under way
        for piece in self._receives[number & 1]:
            piece.request.Start()

    def target(self, number: int) -> tuple[Any, Any]:
        """Memory of this device."""
        return self._out[number & 1], None

    def send(self, number: int, stream: Stream) -> None:
        """Copy to the host in stream order."""
        for piece in self._sends[number & 1]:
            piece.download(stream)

    def depart(self, number: int) -> None:
        """Wait until the message is packed, and give it to MPI."""
        for piece in self._sends[number & 1]:
            if piece.packed is not None:
                piece.packed.wait()
            piece.request.Start()

    def wait(self, number: int, stream: Stream) -> None:
        """Wait for the message; copy it to the device in stream order."""
        for piece in self._receives[number & 1]:
            piece.request.Wait()
            piece.upload(stream)

    def source(self, number: int) -> tuple[Any, Any]:
        """Memory of this device."""
        return self._in[number & 1], None

    def close(self) -> None:
        """Free the requests."""
        for piece in chain(*self._sends):
            piece.request.Wait()
        for piece in chain(*self._sends, *self._receives):
            piece.request.Free()


class _Piece:
    """A piece of a message: on the device, and what MPI is given of it."""

    request: Any  # persistent

    def __init__(self, backend: Backend, memory: Any, *, staged: bool) -> None:
        self._backend, self._memory, self._staged = backend, memory, staged
        self.host = backend.mirror(memory) if staged else memory
        self.packed: Event | None = None

    def download(self, stream: Stream) -> None:
        if self._staged:
            self._backend.download(self._memory, self.host, len(self._memory), stream)
        self.packed = stream.record()

    def upload(self, stream: Stream) -> None:
        if self._staged:
            self._backend.upload_mirror(self.host, self._memory, stream)


@functools.cache
def mpi_takes_device_memory() -> bool:
    """Whether the MPI library that is loaded says that it sends and receives CUDA memory."""
    maps = Path("/proc/self/maps")
    text = maps.read_text() if maps.exists() else ""
    for path in sorted(set(re.findall(r"(/\S*/libmpi[^/\s]*\.so[.\d]*)$", text, re.MULTILINE))):
        query = getattr(ctypes.CDLL(path), "MPIX_Query_cuda_support", None)
        if query is not None and query() == 1:
            return True
    return False

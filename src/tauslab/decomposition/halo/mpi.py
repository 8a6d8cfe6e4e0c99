"""Messages through MPI: staged in host memory, or straight from the device's."""

from __future__ import annotations

import ctypes
import functools
import re
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.arrays import DeviceArray
from tauslab.decomposition.halo.messages import ABOVE, BELOW, Link, Ranks
from tauslab.kernels.backends.base import Backend, Event, Stream

# Tags of messages that go to the slab below, and above: two ranks may be both to each other.
_TAGS = (61, 62)


class MpiLink(Link):
    """A neighbour on any node.

    Persistent requests, two of a kind by turns. With `staged`, a message travels device, pinned
    host memory, MPI, pinned host memory, device; else MPI is given the device's memory.
    """

    def __init__(
        self, backend: Backend, comm: Ranks, peer: int, side: int, words: int, *, staged: bool
    ) -> None:
        self.name = "host" if staged else "mpi"
        self._backend, self._staged = backend, staged
        self._out = [backend.empty((words,), np.uint64) for _ in range(2)]
        self._in = [backend.empty((words,), np.uint64) for _ in range(2)]
        # With `staged` mirrors on the host, else the buffers themselves.
        away: list[Any] = [backend.mirror(x) if staged else x for x in self._out]
        home: list[Any] = [backend.mirror(x) if staged else x for x in self._in]
        self._away, self._home = away, home
        other = ABOVE if side == BELOW else BELOW
        self._sends = [comm.Send_init(x, dest=peer, tag=_TAGS[side]) for x in away]
        self._receives = [comm.Recv_init(x, source=peer, tag=_TAGS[other]) for x in home]
        self._packed: list[Event | None] = [None, None]

    def post(self, number: int) -> None:
        """Receive into the place whose last message was unpacked before the last one was sent."""
        place = number & 1
        self._sends[place].Wait()  # at once where it is not under way
        self._receives[place].Start()

    def target(self, number: int) -> tuple[DeviceArray, DeviceArray | None]:
        """Memory of this device."""
        return self._out[number & 1], None

    def send(self, number: int, stream: Stream) -> None:
        """Copy to the host in stream order."""
        place = number & 1
        if self._staged:
            buffer = self._out[place]
            self._backend.download(buffer, self._away[place], len(buffer), stream)
        self._packed[place] = stream.record()

    def depart(self, number: int) -> None:
        """Wait until the message is packed, and give it to MPI."""
        packed = self._packed[number & 1]
        if packed is not None:
            packed.wait()
        self._sends[number & 1].Start()

    def wait(self, number: int, stream: Stream) -> None:
        """Wait for the message; copy it to the device in stream order."""
        place = number & 1
        self._receives[place].Wait()
        if self._staged:
            self._backend.upload_mirror(self._home[place], self._in[place], stream)

    def source(self, number: int) -> tuple[DeviceArray, DeviceArray | None]:
        """Memory of this device."""
        return self._in[number & 1], None

    def close(self) -> None:
        """Free the requests."""
        for request in self._sends:
            request.Wait()
        for request in (*self._sends, *self._receives):
            request.Free()


@functools.cache
def mpi_takes_device_memory() -> bool:
    """Return whether the MPI library that is loaded says that it sends and receives CUDA memory."""
    maps = Path("/proc/self/maps")
    text = maps.read_text(encoding="utf-8", errors="replace") if maps.exists() else ""
    for path in sorted(set(re.findall(r"(/\S*/libmpi[^/\s]*\.so[.\d]*)$", text, re.MULTILINE))):
        query = getattr(ctypes.CDLL(path), "MPIX_Query_cuda_support", None)
        if query is not None and query() == 1:
            return True
    return False

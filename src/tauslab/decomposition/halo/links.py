"""Transports to the neighbours: chosen once, at the start, alike at both ends."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.arrays import DeviceArray
from tauslab.base.errors import DecompositionError
from tauslab.base.option_names import opt
from tauslab.decomposition.halo.depth import WAYS, choose_depth, slab_planes
from tauslab.decomposition.halo.messages import ABOVE, BELOW, Halo, Link, MessageKernels, Ranks
from tauslab.decomposition.halo.peer import Peers
from tauslab.kernels.backends.base import Backend, Event, Stream
from tauslab.kernels.lattice.lowering import LoweredLattice

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


TRANSPORTS = ("auto", *WAYS)  # --halo also takes "self", for a lattice that is not cut
_TRIED_WORDS = 16  # of messages that are never sent


def open_halo(
    kernels: MessageKernels,
    backend: Backend,
    comm: Ranks,
    neighbours: Sequence[int | None],
    transport: str = "auto",
) -> Halo:
    """Open the links to the slabs below and above; collective.

    Parameters
    ----------
    comm
        Of mpi4py, or what behaves so; a rank for each slab. Tags 61 and 62 are used.
    neighbours
        Ranks of the slabs below and above, None where there is none.
    transport
        ``peer``: a neighbour's device writes into this one's memory; same node only.  ``shared``:
        into memory of the host that both devices reach; same node only.  ``host``: through pinned
        host memory and MPI.  ``mpi``: MPI is given device memory.  ``auto``: for each neighbour the
        first of `usual_transports` that is possible, else host.

    Raises
    ------
    DecompositionError
        The transport is not possible; the same on every rank.
    """
    if transport not in TRANSPORTS:
        raise DecompositionError(f"{opt('halo', transport)}: choose one of {', '.join(TRANSPORTS)}")
    if transport == "mpi":
        _agree(comm, None if mpi_takes_device_memory() else _not_cuda_aware())
    words = kernels.message_words
    links: list[Link | None] = [None, None]
    opened: list[Peers] = []

    def close() -> None:
        for peers in opened:
            peers.close()

    for name in usual_transports(backend) if transport == "auto" else (transport,):
        missing = [None if link else rank for rank, link in zip(neighbours, links, strict=True)]
        if WAYS[name].memory is None or not any(comm.allgather(missing != [None, None])):
            break
        opened.append(open_windows(name, backend, comm, missing, words))
        if transport != "auto":
            _agree(comm, _refusal(name, comm.rank, opened[-1]), close)
        links = [link or opened[-1].link(missing[side], side) for side, link in enumerate(links)]
    for side in (BELOW, ABOVE):
        rank = neighbours[side]
        if rank is not None and links[side] is None:
            staged = transport != "mpi"
            links[side] = MpiLink(backend, comm, rank, side, words, staged=staged)
    return Halo(kernels, links, close)


def usual_transports(backend: Backend) -> tuple[str, ...]:
    """Transports that ``auto`` tries between ranks of a node, best first; MPI is left.

    A kernel that waits for a neighbour must cost other work nothing, else a rank that MPI lets
    wait is better.
    """
    return ("peer", "shared") if backend.waiting_is_free else ("peer",)


def open_windows(
    name: str, backend: Backend, comm: Ranks, neighbours: Sequence[int | None], words: int
) -> Peers:
    """Windows for messages of so many words, by ``peer`` or ``shared``; collective."""
    memory = WAYS[name].memory
    assert memory is not None
    return Peers(memory(backend), comm, neighbours, words)


def slowest_transport(
    backend: Backend, comm: Ranks, neighbours: Sequence[int | None], transport: str
) -> str:
    """The way between those ranks that are worst off, before there are messages; collective."""
    if transport != "auto":
        return transport
    for name in usual_transports(backend):
        peers = open_windows(name, backend, comm, neighbours, _TRIED_WORDS)
        there = {rank for rank in neighbours if rank is not None} <= set(peers.windows)
        peers.close()
        if all(comm.allgather(there)):
            return name
    return "host"


def best_depth(
    backend: Backend,
    lattice: LoweredLattice,
    comm: Ranks,
    neighbours: Sequence[int | None],
    transport: str = "auto",
) -> int:
    """Planes that travel at once, by the size of a slab and the slowest way; collective."""
    way = slowest_transport(backend, comm, neighbours, transport)
    planes = slab_planes(backend, lattice, lattice.shape[0] // comm.size)
    depth: int = min(comm.allgather(choose_depth(planes, WAYS[way])))  # devices may differ
    return depth


def _not_cuda_aware() -> str:
    return (
        f"{opt('halo', 'mpi')}: this MPI does not say that it sends device memory "
        f"(MPIX_Query_cuda_support); use {opt('halo', 'auto')}, peer, shared or host"
    )


def _refusal(name: str, rank: int, peers: Peers) -> str | None:
    memory = "device memory" if name == "peer" else "memory"
    for other, reason in sorted(peers.refusals.items()):
        return (
            f"{opt('halo', name)}: rank {rank} cannot reach the {memory} of rank {other}: "
            f"{reason}; use {opt('halo', 'auto')} or host"
        )
    return None


def _agree(comm: Ranks, refusal: str | None, close: Callable[[], None] | None = None) -> None:
    """Raise on every rank what the first one has to say, when all is given back."""
    for result in comm.allgather(refusal):
        if result is not None:
            if close is not None:
                close()
            raise DecompositionError(result)

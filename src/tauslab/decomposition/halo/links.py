"""Transports to the neighbours: chosen once, at the start, alike at both ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tauslab.base.errors import DecompositionError
from tauslab.base.option_names import opt
from tauslab.decomposition.halo.depth import WAYS, choose_depth, slab_planes
from tauslab.decomposition.halo.messages import ABOVE, BELOW, Halo, Link, MessageKernels, Ranks
from tauslab.decomposition.halo.mpi import MpiLink, mpi_takes_device_memory
from tauslab.decomposition.halo.peer import Peers
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.lowering import LoweredLattice

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
    return ("peer", "shared") if backend.waits_aside else ("peer",)


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
    for found in comm.allgather(refusal):
        if found is not None:
            if close is not None:
                close()
            raise DecompositionError(found)

"""Which transport leads to which neighbour: chosen once, at the start, alike at both ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tauslab.decomposition.halo import ABOVE, BELOW, Halo, Link, Ranks
from tauslab.decomposition.halo_host import MpiLink, mpi_takes_device_memory
from tauslab.decomposition.halo_peer import PeerLink, Peers
from tauslab.kernels.backends import Backend
from tauslab.kernels.halo import HaloKernels
from tauslab.model.errors import DecompositionError

TRANSPORTS = ("auto", "peer", "host", "mpi")  # what --halo takes


def open_halo(
    kernels: HaloKernels,
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
        ``peer``: a neighbour's device writes into this one's memory; same node only.  ``host``:
        through pinned host memory and MPI.  ``mpi``: MPI is given device memory.  ``auto``: peer
        where that is possible, else host.

    Raises
    ------
    DecompositionError
        The transport is not possible here; the same on every rank.
    """
    if transport not in TRANSPORTS:
        raise DecompositionError(f"--halo {transport}: choose one of {', '.join(TRANSPORTS)}")
    if transport == "mpi":
        _agree(comm, None if mpi_takes_device_memory() else _NOT_CUDA_AWARE)
    links: list[Link | None] = [None, None]
    close: Callable[[], None] = _nothing
    if transport in ("auto", "peer"):
        peers = Peers(backend, comm, neighbours, kernels.message_words)
        close = peers.close
        if transport == "peer":
            _agree(comm, _refusal(comm.rank, peers))
        for side in (BELOW, ABOVE):
            rank = neighbours[side]
            if rank in peers.windows:
                links[side] = PeerLink(peers.own, peers.windows[rank], side)
    for side in (BELOW, ABOVE):
        rank = neighbours[side]
        if rank is not None and links[side] is None:
            staged = transport != "mpi"
            words = kernels.message_words
            links[side] = MpiLink(backend, comm, rank, side, words, staged=staged)
    return Halo(kernels, links, close)


_NOT_CUDA_AWARE = (
    "--halo mpi: this MPI does not say that it sends device memory (MPIX_Query_cuda_support); "
    "use --halo auto, peer or host"
)


def _refusal(rank: int, peers: Peers) -> str | None:
    for other, reason in sorted(peers.refusals.items()):
        return (
            f"--halo peer: rank {rank} cannot reach the device memory of rank {other}: {reason}; "
            "use --halo auto or host"
        )
    return None


def _agree(comm: Ranks, refusal: str | None) -> None:
    """Raise on every rank what the first one has to say."""
    for found in comm.allgather(refusal):
        if found is not None:
            raise DecompositionError(found)


def _nothing() -> None:
    """Nothing to close."""

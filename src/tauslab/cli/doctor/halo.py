"""Transports of a lattice's planes between the ranks of this launch."""

from __future__ import annotations

from typing import Any

from tauslab.base.errors import TauslabError
from tauslab.decomposition.halo.links import open_windows, usual_transports
from tauslab.decomposition.ranks.job import open_backend
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend

_SHOWN = 16
_WORDS = 16  # of a message that is never sent


def halo_facts(comm: Communicator) -> list[dict[str, Any]]:
    """Transport from each rank to the next, and why it is not a better one. Collective.

    Returns
    -------
    On rank 0 a dictionary per rank; nothing on others, and for one rank.
    """
    if comm.size == 1 or comm.native is None:
        return []
    backend: Backend | None = None
    failure = None
    try:
        backend = open_backend("auto", 1, comm, share=True)
    except TauslabError as error:
        failure = str(error)
    above = (comm.rank + 1) % comm.size
    mine: dict[str, Any] = {"rank": comm.rank, "next": above}
    if comm.any(failure is not None):
        mine |= {"transport": None, "reason": failure or "a rank has no device"}
    elif backend is not None:
        mine |= _transport(backend, comm, above)
    if backend is not None:
        backend.close()
    return comm.gather(mine) or []


def _transport(backend: Backend, comm: Communicator, above: int) -> dict[str, Any]:
    """Transport that ``--halo auto`` takes to the next rank. Collective."""
    chosen, reasons = "host", []
    around = ((comm.rank - 1) % comm.size, above)
    for name in usual_transports(backend):
        peers = open_windows(name, backend, comm.native, around, _WORDS)
        reason = peers.refusals.get(above)
        peers.close()
        if chosen == "host" and reason is None:
            chosen = name
        if chosen == "host" and reason not in reasons:
            reasons.append(reason)
    return {"transport": chosen, "reason": "; ".join(map(str, reasons)) or None}


def halo_lines(facts: list[dict[str, Any]]) -> list[str]:
    """The facts for people; ranks that are alike in one line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for row in facts:
        key = (row["transport"] or "none", row["reason"] or "")
        alike.setdefault(key, []).append(f"{row['rank']}-{row['next']}")
    lines = []
    for (transport, reason), pairs in alike.items():
        more = f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
        because = f" ({reason})" if reason else ""
        lines.append(f"{transport} between ranks {', '.join(pairs[:_SHOWN])}{more}{because}")
    return lines

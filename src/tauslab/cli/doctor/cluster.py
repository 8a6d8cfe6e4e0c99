"""Doctor's report on a cluster: MPI, ways between GPUs and ranks, the results' folder."""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from tauslab.base.errors import TauslabError
from tauslab.decomposition.halo.links import open_windows, usual_transports
from tauslab.decomposition.ranks.job import open_backend
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend, choose_backend, peer_matrix
from tauslab.store.writers.mpio import mpio_refusal

Facts = dict[str, Any]

_WRITTEN_BYTES = 16 << 20  # by each rank
_MIB = 1 << 20
_SHOWN = 16  # pairs of ranks
_WORDS = 16  # of a message that is never sent


def cluster_facts(comm: Communicator, folder: Path) -> Facts:
    """Sections ``peers`` and ``storage``. Collective; rank 0's hold what is compared.

    Parameters
    ----------
    folder
        Where results will be written; every rank writes a file there, and removes it.
    """
    return {"peers": _peers(comm), "storage": _storage(comm, folder)}


def cuda_aware() -> bool | None:
    """Return whether the loaded MPI says that it takes device memory; None if it says nothing."""
    maps = Path("/proc/self/maps")
    text = maps.read_text(encoding="utf-8", errors="replace") if maps.exists() else ""
    for name in sorted(set(re.findall(r"(/\S*/libmpi[a-z]*\.so\S*)", text))):
        try:
            query = ctypes.CDLL(name).MPIX_Query_cuda_support
        except (OSError, AttributeError):
            continue
        query.restype = ctypes.c_int
        return bool(query())
    return None


def _peers(comm: Communicator) -> Facts:
    """Measured by the first rank of a node, while the others wait."""
    facts: Facts = {"gigabytes_per_second": []}
    if comm.rank == 0:
        try:
            facts["gigabytes_per_second"] = peer_matrix(choose_backend("auto"))
        except Exception as error:  # noqa: BLE001 - a broken driver is what doctor reports
            facts["error"] = f"not usable: {type(error).__name__}: {error}"
    comm.barrier()
    return facts


def _storage(comm: Communicator, folder: Path) -> Facts:
    """Every rank writes a file in the folder at the same time."""
    data = os.urandom(_MIB)  # made before the clock runs: it takes as long as a fast disk
    comm.barrier()
    began = time.perf_counter()
    problem = _write(folder, data)
    reported = comm.allgather((time.perf_counter() - began, problem))
    problems = [f"rank {rank}: {text}" for rank, (_, text) in enumerate(reported) if text]
    reason = mpio_refusal(comm)
    facts: Facts = {
        "folder": str(folder.resolve()),
        "writable": not problems,
        "writer": "mpio"
        if comm.size > 1 and reason is None
        else "parts"
        if comm.size > 1
        else "single",
        "mpio": reason is None,
    }
    if reason is not None:
        facts["why_no_mpio"] = reason
    if problems:
        return {**facts, "reason": "; ".join(problems)}
    speed = len(reported) * _WRITTEN_BYTES / max(seconds for seconds, _ in reported)
    return {**facts, "megabytes_per_second": round(speed / 1e6, 1)}


def _write(folder: Path, data: bytes) -> str:
    """Write and sync a file that has no name afterwards; what went wrong, or nothing."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            for _ in range(_WRITTEN_BYTES // _MIB):
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""


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


def peer_lines(facts: Facts) -> list[str]:
    """The matrix for people."""
    matrix = facts["gigabytes_per_second"]
    if not matrix:
        return [facts.get("error", "no GPUs to copy between")]
    head = "GB/s from each GPU (row) to each (column); - where there is no direct way"
    cells = (["     -" if x is None else f"{x:6.0f}" for x in row] for row in matrix)
    return [head, *(" ".join(row) for row in cells)]


def storage_lines(facts: Facts) -> list[str]:
    """The write test for people."""
    if not facts["writable"]:
        return [f"{facts['folder']}: not writable: {facts['reason']}"]
    how = "several ranks write one file together (mpio)"
    if not facts["mpio"]:
        how = f"several ranks write parts, not one file together: {facts['why_no_mpio']}"
    return [f"{facts['folder']}: {facts['megabytes_per_second']:.0f} MB/s with all ranks; {how}"]


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

"""Collective actions of ranks: fail alike, take turns, end together."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import TypeVar

from tauslab.base.errors import TauslabError
from tauslab.decomposition.ranks.mpi import Communicator, host_name

T = TypeVar("T")


def agree(comm: Communicator, action: Callable[[], T]) -> T:
    """Do something on every rank; if it fails on any, all raise the same error. Collective.

    What fails on some ranks only may be due to their nodes: the error says where it was.
    """
    value: T | None = None
    failure: tuple[TauslabError, str] | None = None
    try:
        value = action()
    except TauslabError as error:
        failure = error, host_name()
    reported = comm.allgather(failure)
    failed = [rank for rank, result in enumerate(reported) if result is not None]
    if not failed:
        return value  # type: ignore[return-value]  # None only if the action returned it
    first, host = reported[failed[0]]
    if len(failed) < comm.size:
        others = f" and {len(failed) - 1} others" if len(failed) > 1 else ""
        first.args = (f"{first} (rank {failed[0]} of {comm.size} on {host}{others})",)
    first.raised_by = comm.size
    raise first


def in_turn(comm: Communicator, action: Callable[[], T]) -> T:
    """Do something first on one rank of each node, so that the others find it in the cache."""
    value = agree(comm, lambda: action() if comm.local_rank == 0 else None)
    others = agree(comm, lambda: action() if comm.local_rank != 0 else None)
    return value if comm.local_rank == 0 else others  # type: ignore[return-value]


def end_all_ranks(comm: Communicator, error: BaseException) -> None:
    """With several ranks, say what went wrong on this one and end them all; else do nothing.

    What all ranks raise alike is left to the caller, who lets one of them speak.
    """
    if comm.size == 1 or (isinstance(error, TauslabError) and error.raised_by == comm.size):
        return
    if isinstance(error, TauslabError):
        print(f"tauslab: rank {comm.rank}: {error}", file=sys.stderr)
    else:
        print(f"tauslab: rank {comm.rank} failed:", file=sys.stderr)
        traceback.print_exception(error)
    comm.abort(error.exit_code if isinstance(error, TauslabError) else 1)

"""The ranks of a call: all of this launch, one alone, or those of a communicator of mpi4py."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.alike import require_same
from tauslab.decomposition.ranks.launcher import under_launcher
from tauslab.decomposition.ranks.mpi import (
    Communicator,
    LoneRank,
    duplicate_of,
    world,
)

# "world", "self", a communicator of mpi4py, or one of ours.
Comm: TypeAlias = Any

# What may differ from rank to rank: where a rank computes, what it shows, what it calls.
_OF_A_RANK = ("comm", "device", "hooks", "quiet", "stop")


@cache
def ranks() -> Communicator:
    """All ranks of this launch; MPI starts at the first call, if a launcher started us."""
    return world()


def ranks_for(executor: str) -> Communicator:
    """The ranks that run, or of which one leads Dask workers, which needs no MPI."""
    return Communicator() if executor == "dask" and not under_launcher() else ranks()


def ranks_of(comm: Comm, call: str, /, **arguments: object) -> Communicator:
    """The ranks that make a call, when all of them have come to it. Collective.

    Parameters
    ----------
    comm
        The keyword of the call. One of our communicators is of a call within another, whose ranks
        have met.
    call
        Its name, for messages.
    arguments
        What has to be the same on all ranks; device, progress and functions may differ.

    Raises
    ------
    ConfigError
        `comm` is no communicator; ranks make other calls, or give other arguments.
    """
    if isinstance(comm, Communicator):
        return comm
    if isinstance(comm, str) and comm == "world":
        found = ranks_for("mpi" if arguments.get("executor") is None else "dask")
    elif isinstance(comm, str) and comm == "self":
        found = LoneRank()
    else:
        found = _given(comm, call)
    same = {name: value for name, value in arguments.items() if name not in _OF_A_RANK}
    require_same(found, call, same)
    return found


def _given(comm: Comm, call: str) -> Communicator:
    """The ranks of a communicator of mpi4py."""
    if not (hasattr(comm, "Get_size") and hasattr(comm, "Ialltoallv")):
        raise ConfigError(
            f'comm={comm!r:.60} is not allowed: "world", "self" or a communicator of mpi4py'
        )
    return LoneRank() if comm.Get_size() == 1 else duplicate_of(comm, call)

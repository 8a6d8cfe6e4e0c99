"""The ranks of a call: all of this launch, one alone, or those of a communicator of mpi4py."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np

from tauslab.base.errors import ConfigError, TauslabError
from tauslab.decomposition.ranks.launcher import under_launcher
from tauslab.decomposition.ranks.mpi import (
    Communicator,
    LoneRank,
    duplicate_of,
    remove_early_hook,
    world,
)


def require_same(comm: Communicator, call: str, arguments: Mapping[str, object]) -> None:
    """Wait until all ranks make this call, and refuse ranks with other arguments. Collective.

    Parameters
    ----------
    arguments
        By keyword, what has to be the same on all ranks. Numbers, texts, arrays, and what holds
        them, are compared; functions, models and tables of other libraries are not.

    Raises
    ------
    ConfigError
        Names the first argument that differs, and the ranks; on all ranks alike.
    """
    if comm.size == 1:
        return
    given = {"": call, **{name: described(value) for name, value in arguments.items()}}
    digest = hashlib.blake2b(repr(sorted(given.items())).encode(), digest_size=8).digest()
    words = comm.meet(call, int.from_bytes(digest, "little") | 1)
    if (words == words[0]).all():
        return
    error = ConfigError(_difference(comm.allgather(given)))
    error.raised_by = comm.size
    raise error


def _difference(given: Sequence[Mapping[str, str]]) -> str:
    names = dict.fromkeys(name for one in given for name in one)
    for name in names:
        values = [one.get(name, "not given") for one in given]
        other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            break
    else:
        raise AssertionError
    rule = "all ranks of a communicator must make the same call"
    alone = '; comm="self" runs a call on one rank alone'
    if not name:
        return f"rank 0 calls {values[0]} and rank {other} calls {values[other]}: {rule}{alone}"
    return (
        f"{name}= is {values[0]:.60} on rank 0 and {values[other]:.60} on rank {other}: {rule}, "
        f"with the same arguments{alone}"
    )


def described(value: object) -> str:
    """A text that is the same on two ranks where the value is.

    >>> described({"k": [1, 2.5]}), described(np.int64(3)), described(len)
    ("{'k': [1, 2.5]}", '3', 'builtin_function_or_method')
    """
    if isinstance(value, bytes):
        return _digest(value)
    if value is None or isinstance(value, str | bool):
        return repr(value)
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return str(float(value))
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest = _digest(np.ascontiguousarray(value).tobytes())
        return f"{value.dtype} array {list(value.shape)} ({digest})"
    if isinstance(value, Mapping):
        parts = sorted(f"{key!r}: {described(held)}" for key, held in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(described(held) for held in value)}]"
    return _object(value)


def _object(value: object) -> str:
    """Text of an object: digest of a model, contents of settings, a path; else the type."""
    model = _canonical(value)
    if model is not None:
        return f"{getattr(value, 'name', '')} ({_digest(model.encode())})"
    settings = getattr(value, "__dataclass_params__", None)
    if settings is not None and settings.frozen:
        return repr(value)
    return str(value) if hasattr(value, "__fspath__") else type(value).__name__


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=6).hexdigest()


def _canonical(value: object) -> str | None:
    """The normal form of a model; None for anything else, or where it has none."""
    from tauslab.model.lattice.canonical import lattice_canonical_text
    from tauslab.model.lattice.lattice import Lattice
    from tauslab.model.network.canonical import canonical_text
    from tauslab.model.network.network import Network

    try:
        if isinstance(value, Network):
            return canonical_text(value)
        return lattice_canonical_text(value) if isinstance(value, Lattice) else None
    except TauslabError:
        return None


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
        result = ranks_for("mpi" if arguments.get("executor") is None else "dask")
    elif isinstance(comm, str) and comm == "self":
        result = LoneRank()
        remove_early_hook()
    else:
        result = _given(comm, call)
    same = {name: value for name, value in arguments.items() if name not in _OF_A_RANK}
    require_same(result, call, same)
    return result


def _given(comm: Comm, call: str) -> Communicator:
    """The ranks of a communicator of mpi4py."""
    if not (hasattr(comm, "Get_size") and hasattr(comm, "Ialltoallv")):
        raise ConfigError(
            f'comm={comm!r:.60} is not allowed: "world", "self" or a communicator of mpi4py'
        )
    return LoneRank() if comm.Get_size() == 1 else duplicate_of(comm, call)

"""Meetings of ranks at the start of a collective call, so that none waits without a word.

A rank that does not make the call leaves the others waiting. They say who is missing and go on
waiting, for a rank may be late for a good reason.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.option_names import warn

PATIENCE = 8.0  # seconds until a rank that is missing is named
_SPIN, _SLEEP = 0.001, 0.005  # seconds of asking without a pause, and of the longest pause
# MPICH posts so many messages of an Ialltoallv at a time, counted from the rank itself on; the
# next ones wait for these, so that a missing rank would hide those behind it.
_AT_ONCE = 32
_MOST_NAMED = 8
_LEFT: list[object] = []  # buffers of meetings that an exception ended: MPI may still fill them


def meet(comm: Any, mpi: Any, call: str, word: int = 1) -> npt.NDArray[np.uint64]:
    """Wait until all ranks of an mpi4py communicator have come; the word of each. Collective.

    Every rank sends its word to every other, in collectives that do not block, so that no message
    is ever taken for one of the program's own, and the words that are there say who has come.

    Parameters
    ----------
    mpi
        The module of mpi4py.
    call
        What the ranks do together, for the warning about ranks that are missing.
    word
        A number above 0.
    """
    words, requests = _sent(comm, mpi, word)
    try:
        _wait(comm, mpi, call, words, requests)
    except BaseException:
        _LEFT.append((words, requests))
        raise
    return words


def _sent(comm: Any, mpi: Any, word: int) -> tuple[npt.NDArray[np.uint64], list[Any]]:
    size, rank = comm.Get_size(), comm.Get_rank()
    own, words = np.array([word], np.uint64), np.zeros(size, np.uint64)
    places, nowhere = np.arange(size, dtype=np.int32), np.zeros(size, np.int32)
    requests = []
    for first in range(0, size, _AT_ONCE):
        taken = ((places - rank) % size // _AT_ONCE == first // _AT_ONCE).astype(np.int32)
        given = ((rank - places) % size // _AT_ONCE == first // _AT_ONCE).astype(np.int32)
        requests.append(
            comm.Ialltoallv(
                [own, given, nowhere, mpi.UINT64_T], [words, taken, places, mpi.UINT64_T]
            )
        )
    return words, requests


def _wait(
    comm: Any, mpi: Any, call: str, words: npt.NDArray[np.uint64], requests: list[Any]
) -> None:
    began, reported = time.monotonic(), False
    while not mpi.Request.Testall(requests):
        waited = time.monotonic() - began
        local = np.flatnonzero(words)
        if waited > PATIENCE and not reported:
            reported = True
            if local.size and local[0] == comm.Get_rank():  # one speaks for all that wait
                warn(_missing(call, np.flatnonzero(words == 0).tolist(), len(words)))
        time.sleep(0.0 if waited < _SPIN else min(_SLEEP, waited / 20))  # 0: others may run


def _missing(call: str, ranks: Sequence[int], size: int) -> str:
    named = ", ".join(str(rank) for rank in ranks[:_MOST_NAMED])
    more = f" and {len(ranks) - _MOST_NAMED} more" if len(ranks) > _MOST_NAMED else ""
    one = len(ranks) == 1
    return (
        f"{call} waits for rank{'' if one else 's'} {named}{more} of {size}, which "
        f"{'has' if one else 'have'} not called it for {PATIENCE:g} s: all ranks of a communicator "
        'must make the same calls in the same order; comm="self" runs a call on one rank alone'
    )

"""Ranks that write a file together, each by a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_POLL_SECONDS = 0.001


class FileRanks:
    """A communicator of its own for threads that write a file together.

    Attributes
    ----------
    comm
        The mpi4py communicator, for h5py.
    """

    def __init__(self, comm: Any, mpi: Any) -> None:
        self.comm, self._mpi = comm, mpi

    def largest(self, values: Sequence[int]) -> list[int]:
        """Largest of each value over the ranks; sleeps while it waits: cores have work to do."""
        mine, found = np.array(values, np.int64), np.zeros(len(values), np.int64)
        request = self.comm.Iallreduce(mine, found, op=self._mpi.MAX)
        while not request.Test():
            time.sleep(_POLL_SECONDS)
        largest: list[int] = found.tolist()
        return largest

    def info(self, hints: Mapping[str, str]) -> Any:
        """Hints as MPI takes them; to be freed."""
        info = self._mpi.Info.Create()
        for name, value in hints.items():
            info.Set(name, value)
        return info

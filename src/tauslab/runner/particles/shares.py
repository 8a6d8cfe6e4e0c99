"""Which particles a rank has, and rows that go from one rank to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.model.arrays import Array, IntArray
from tauslab.runner.ranks.mpi import Communicator, Parcel


class Shares:
    """Particles 0 to n - 1 in one piece for each rank, as even as can be."""

    def __init__(self, n: int, comm: Communicator) -> None:
        self.n, self._comm = n, comm
        self._rows: list[int] = []  # that each rank sends here, as `route` found

    def of(self, rank: int) -> slice:
        """The particles of a rank."""
        size = self._comm.size
        return slice(self.n * rank // size, self.n * (rank + 1) // size)

    @property
    def own(self) -> slice:
        """The particles of this rank."""
        return self.of(self._comm.rank)

    def joined(self, part: Array) -> Any:
        """Rows ``[particle]`` of all ranks, of those of each. Collective."""
        if self._comm.size == 1:
            return part
        return np.concatenate(self._comm.allgather(part))

    def route(self, ancestors: IntArray) -> tuple[IntArray, Sequence[IntArray]]:
        """Who needs which rows, where particle i becomes a copy of ``ancestors[i]``.

        Returns
        -------
        Which of the rows that this rank will hold becomes each of its particles: rows of its own
        come first, then those of the other ranks in their order; and for each rank the rows of this
        one that it needs, each once.
        """
        size, rank = self._comm.size, self._comm.rank
        if size == 1:
            return ancestors, [ancestors]
        after, own = Shares(len(ancestors), self._comm), self.own
        wanted = []
        for other in range(size):
            needed = np.unique(ancestors[after.of(other)])
            wanted.append(needed[(needed >= own.start) & (needed < own.stop)] - own.start)
        mine = ancestors[after.own]
        needed = np.unique(mine)
        parts = {
            other: needed[(needed >= self.of(other).start) & (needed < self.of(other).stop)]
            for other in range(size)
        }
        held = np.concatenate([parts.pop(rank), *parts.values()])
        self._rows = [len(part) for part in parts.values()]
        by_number = np.argsort(held, kind="stable")
        order = by_number[np.searchsorted(held[by_number], mine)]
        return order.astype(np.int64), wanted

    def exchange(
        self, sent: Mapping[int, Array | None], dtype: npt.DTypeLike, columns: int
    ) -> list[Array]:
        """Send rows to other ranks, and get those that `route` found, in the order of ranks."""
        arrived = {
            other: np.empty((rows, columns), dtype)
            for other, rows in zip(sent, self._rows, strict=True)
        }
        parcels = [Parcel(to, a, sent=True) for to, a in sent.items() if a is not None]
        parcels += [Parcel(by, a, sent=False) for by, a in arrived.items() if len(a)]
        self._comm.exchange(parcels)
        return list(arrived.values())

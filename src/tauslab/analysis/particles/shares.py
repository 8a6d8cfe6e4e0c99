"""Which particles a rank has, and rows that go from one rank to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, IntArray
from tauslab.decomposition.ranks.mpi import Communicator, Parcel
from tauslab.kernels.particles.weights import BLOCK

T = TypeVar("T")
_MANY_BLOCKS = 64  # of a rank, of which one is a small part


@dataclass(frozen=True)
class Copies:
    """Ancestors of all particles in increasing order, each known to the rank that holds it.

    Attributes
    ----------
    bounds
        Particles ``bounds[r]`` to ``bounds[r + 1] - 1`` become copies of particles of rank r.
    rows
        Of these of this rank, which of its rows each copies, int64 on the device.
    """

    bounds: Sequence[int]
    rows: Any

    @property
    def sizes(self) -> list[int]:
        """How many particles become copies of those of each rank."""
        return np.diff(self.bounds).tolist()

    def common(self, rank: int, own: slice) -> slice:
        """Which of the particles `own` become copies of those of a rank."""
        start = max(self.bounds[rank], own.start)
        return slice(start, max(start, min(self.bounds[rank + 1], own.stop)))


class Shares:
    """Particles 0 to n - 1 in one piece for each rank, as even as can be.

    Of many, pieces are whole blocks of the tree in which weights are summed: fewer numbers travel.
    """

    def __init__(self, n: int, comm: Communicator) -> None:
        self.n, self._comm = n, comm
        self._rows: list[int] = []  # that each rank sends to this one, by `route`

    def of(self, rank: int) -> slice:
        """The particles of a rank."""
        size = self._comm.size
        each = BLOCK if self.n >= _MANY_BLOCKS * BLOCK * size else 1
        bounds = [self.n * one // size // each * each for one in (rank, rank + 1)]
        return slice(bounds[0], self.n if rank + 1 == size else bounds[1])

    @property
    def own(self) -> slice:
        """The particles of this rank."""
        return self.of(self._comm.rank)

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self._comm.rank

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self._comm.size

    def all_of(self, value: T) -> list[T]:
        """Values of all ranks. Collective."""
        return self._comm.allgather(value)

    def joined(self, part: Array) -> Any:
        """Rows ``[particle]`` of all ranks. Collective."""
        if self._comm.size == 1:
            return part
        owned = [self.of(rank) for rank in range(self._comm.size)]
        return self._comm.join(part, [own.stop - own.start for own in owned])

    def gathered(self, part: Array, sizes: Sequence[int] | None = None) -> Any:
        """Rows of all ranks, of which rank r has ``sizes[r]``; ranks exchange them if not given."""
        if self._comm.size == 1:
            return part
        return self._comm.join(part, self._comm.allgather(len(part)) if sizes is None else sizes)

    def any(self, value: bool) -> bool:  # noqa: FBT001 - mirrors the builtin
        """Return whether `value` holds on any rank. Collective."""
        return self._comm.any(value)

    def route(self, ancestors: IntArray) -> tuple[IntArray, Sequence[IntArray]]:
        """Find the rows that ranks need, where particle i becomes a copy of ``ancestors[i]``.

        Returns
        -------
        Which of the rows that this rank will hold becomes each of its particles: rows of its own
        come first, then rows of the other ranks in their order; and for each rank the rows of this
        one that it needs, each once.
        """
        size, rank = self._comm.size, self._comm.rank
        if size == 1:
            return ancestors, [ancestors]
        after, own = Shares(len(ancestors), self._comm), self.own
        wanted = [_between(_distinct(ancestors[after.of(r)])[0], own) for r in range(size)]
        needed, which = _distinct(ancestors[after.own])
        parts = {other: _between(needed, self.of(other)) for other in range(size)}
        held = np.concatenate([parts.pop(rank), *parts.values()])
        self._rows = [len(part) for part in parts.values()]
        order = np.argsort(held, kind="stable")[which]  # row i of `needed` is the i-th by number
        return order.astype(np.int64), [rows - own.start for rows in wanted]

    def exchange(
        self, sent: Mapping[int, Array | None], dtype: npt.DTypeLike, columns: int
    ) -> list[Array]:
        """Send rows to other ranks, and get rows of theirs by `route`, in the order of ranks."""
        arrived = {
            other: np.empty((rows, columns), dtype)
            for other, rows in zip(sent, self._rows, strict=True)
        }
        parcels = [Parcel(to, a, sent=True) for to, a in sent.items() if a is not None]
        parcels += [Parcel(by, a, sent=False) for by, a in arrived.items() if len(a)]
        self._comm.exchange(parcels)
        return list(arrived.values())


class CommonShares(Shares):
    """Particles of which each rank has a part: all ranks report all of them."""

    def of(self, rank: int) -> slice:
        """All particles."""
        del rank
        return slice(0, self.n)

    def joined(self, part: Array) -> Any:
        """The rows, which every rank has."""
        return part

    def gathered(self, part: Array, sizes: Sequence[int] | None = None) -> Any:
        """The rows, which every rank has."""
        del sizes
        return part


def _distinct(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """Numbers in increasing order, each once, and which of them each was."""
    if len(numbers) and not (numbers[1:] >= numbers[:-1]).all():
        result, which = np.unique(numbers, return_inverse=True)
        return result, which
    first = np.ones(len(numbers), bool)
    np.not_equal(numbers[1:], numbers[:-1], out=first[1:])
    return numbers[first], np.add.accumulate(first, dtype=np.int64) - 1


def _between(numbers: IntArray, own: slice) -> IntArray:
    """The part of increasing numbers that is in a slice."""
    low, high = np.searchsorted(numbers, [own.start, own.stop])
    return numbers[low:high]

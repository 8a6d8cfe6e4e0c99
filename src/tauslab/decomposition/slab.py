"""Cuts of a lattice along z into slabs, and of ranks into replicas and slabs: pure integers.

A *slab* is a run of consecutive planes that one rank advances. ``bounds`` are the n + 1 planes at
which n slabs begin and the last ends. They are the first cut: `tauslab.runner.lattice.group` moves
them before and during a run where slabs take unequal times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import BoolArray, IntArray
from tauslab.base.errors import DecompositionError
from tauslab.kernels.lattice.state import Slab

# Sites of a slab in whose time as much is lost to its edges and messages as is gained.
_SITES_OF_AN_EDGE = 1 << 18


def cut_planes(
    nz: int, n: int, *, weights: Sequence[int] | None = None, least: int = 1
) -> tuple[int, ...]:
    """Planes at which the slabs of `n` ranks begin, and `nz`.

    Parameters
    ----------
    weights
        Whole numbers ``[nz]``, the work of each plane, for instance its occupied tiles; without
        them all planes are alike. The largest sum of a slab is as small as it can be; among such
        cuts each begins as near to its even share as it can.
    least
        Planes that a slab has at least: the depth of the halo.

    Raises
    ------
    DecompositionError
        There are too few planes, or the weights are not whole numbers from 0 on, one a plane.

    >>> cut_planes(10, 3)
    (0, 3, 6, 10)
    >>> cut_planes(8, 2, weights=[0, 0, 0, 0, 5, 5, 5, 5])
    (0, 6, 8)
    """
    if n < 1 or least < 1 or nz < n * least:
        raise DecompositionError(
            f"cannot cut a lattice of {nz} planes along z into {n} slabs of {least} or more "
            f"(the depth of the halo): at most {max(1, nz // max(1, least))} rank(s) can share it"
        )
    weights = [1] * nz if weights is None else weights
    if len(weights) != nz or any(int(w) != w or w < 0 for w in weights):
        raise DecompositionError(
            f"weights of planes must be {nz} whole numbers from 0 on, one for each plane"
        )
    if len(set(weights)) == 1:
        return tuple(i * nz // n for i in range(n + 1))
    return _weighted_cut(np.array([0, *np.cumsum([int(w) for w in weights])], np.int64), n, least)


def _weighted_cut(sums: IntArray, n: int, least: int) -> tuple[int, ...]:
    """`sums` ``[nz + 1]`` are the weights below each plane."""
    low, high = int(sums[-1]) // n - 1, int(sums[-1])  # not enough, enough
    while high - low > 1:
        middle = (low + high) // 2
        if _reachable(sums, n, least, middle)[n][-1]:
            high = middle
        else:
            low = middle
    reached = _reachable(sums, n, least, high)
    bounds = [len(sums) - 1]
    for i in range(n - 1, 0, -1):
        end = bounds[-1]
        places = np.flatnonzero(reached[i][: max(0, end - least + 1)])
        places = places[sums[end] - sums[places] <= high]
        share = np.abs(sums[places] * n - sums[-1] * i)
        bounds.append(int(places[np.argmin(share)]))
    return (0, *bounds[::-1])


def _reachable(sums: IntArray, n: int, least: int, most: int) -> list[BoolArray]:
    """Planes ``[nz + 1]`` at which i slabs of weight `most` or less can end, for i = 0 .. n."""
    planes = len(sums)
    farthest = np.searchsorted(sums, sums + most, side="right") - 1  # last end of a slab
    reached = [np.arange(planes) == 0]
    for _ in range(n):
        begins = np.flatnonzero(reached[-1])
        begins = begins[farthest[begins] >= begins + least]
        changes = np.zeros(planes + 1, np.int64)
        np.add.at(changes, begins + least, 1)
        np.add.at(changes, farthest[begins] + 1, -1)
        reached.append(np.cumsum(changes[:-1]) > 0)
    return reached


def slab_of(bounds: Sequence[int], rank: int, *, periodic: bool, depth: int = 1) -> Slab:
    """The slab of a rank, with `depth` planes of each neighbour beside it.

    One rank keeps none: a periodic lattice closes within its memory.

    >>> slab_of((0, 3, 6, 10), 0, periodic=False)
    Slab(begin=0, end=3, below=0, above=1)
    """
    below, above = neighbours(rank, len(bounds) - 1, periodic=periodic)
    return Slab(
        bounds[rank],
        bounds[rank + 1],
        0 if below is None else depth,
        0 if above is None else depth,
    )


def neighbours(rank: int, n: int, *, periodic: bool) -> tuple[int | None, int | None]:
    """Ranks of the slabs below and above, None where there is none.

    >>> neighbours(0, 3, periodic=False), neighbours(0, 3, periodic=True)
    ((None, 1), (2, 1))
    >>> neighbours(0, 1, periodic=True)
    (None, None)
    """
    if n == 1:
        return None, None
    below, above = (rank - 1) % n, (rank + 1) % n
    if periodic:
        return below, above
    return (below if rank > 0 else None), (above if rank + 1 < n else None)


@dataclass(frozen=True)
class RankGrid:
    """`replicas` lattices at a time, each on `slabs` ranks: rank = replica * slabs + slab."""

    replicas: int
    slabs: int

    def place(self, rank: int) -> tuple[int, int]:
        """The replica of a rank, and its slab of it."""
        return rank // self.slabs, rank % self.slabs

    def __str__(self) -> str:
        """Words for people.

        >>> str(RankGrid(4, 2)), str(RankGrid(1, 1))
        ('4 replicas at a time, each on 2 ranks', '1 replica at a time, on 1 rank')
        """
        several = self.replicas > 1
        return (
            f"{self.replicas} replica{'s' * several} at a time, {'each ' * several}on "
            f"{self.slabs} rank{'s' * (self.slabs > 1)}"
        )


def choose_grid(
    ranks: int, replicas: int, shape: tuple[int, int, int], *, least: int = 1
) -> RankGrid:
    """Replicas at a time, and ranks for each, that take the least time by a simple count.

    A slab costs its sites and, if there are several, those that its edges are worth; so small
    lattices are not cut while there are replicas left.

    Raises
    ------
    DecompositionError
        No shape fits: the lattice has too few planes for the ranks.

    >>> choose_grid(8, 4, (64, 64, 64)), choose_grid(8, 1, (512, 512, 512))
    (RankGrid(replicas=4, slabs=2), RankGrid(replicas=1, slabs=8))
    """
    nz, ny, nx = shape

    def cost(grid: RankGrid) -> tuple[int, int]:
        sites = -(-nz // grid.slabs) * ny * nx + _SITES_OF_AN_EDGE * (grid.slabs > 1)
        return -(-replicas // grid.replicas) * sites, grid.slabs

    shapes = [
        RankGrid(ranks // slabs, slabs)
        for slabs in range(1, ranks + 1)
        if ranks % slabs == 0 and ranks // slabs <= replicas and slabs * least <= nz
    ]
    if not shapes:
        if replicas == 1:
            cut_planes(nz, ranks, least=least)  # says what is too thin
        raise DecompositionError(
            f"{ranks} ranks cannot share {replicas} replica(s) of {nz} planes evenly: choose a "
            "number of ranks that is a multiple of the replicas, or a divisor of them"
        )
    return min(shapes, key=cost)


def check_grid(grid: RankGrid, ranks: int, replicas: int, nz: int, *, least: int = 1) -> None:
    """Refuse a shape that does not fit.

    Raises
    ------
    DecompositionError
        It has not as many places as ranks, leaves ranks without a replica, or cuts too thin.
    """
    if grid.replicas < 1 or grid.slabs < 1 or grid.replicas * grid.slabs != ranks:
        raise DecompositionError(
            f"a grid of {grid.replicas} replicas x {grid.slabs} slabs does not fit {ranks} "
            "rank(s): the product must be their number"
        )
    if grid.replicas > replicas:
        raise DecompositionError(
            f"a grid of {grid.replicas} replicas at a time is more than the {replicas} that "
            "the run has"
        )
    cut_planes(nz, grid.slabs, least=least)

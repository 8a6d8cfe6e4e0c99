"""Lattices that divide: one of two daughters stays, with the particles on her side of a plane.

The rule stands on the host, in whole numbers, since a cell divides rarely.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tauslab.base.arrays import Array, BoolArray, IntArray
from tauslab.base.errors import ConfigError

POSITION, COPY, FIRST = range(3)  # which daughters get particles of a species
SHARES = {"position": POSITION, "copy": COPY, "first": FIRST}
_ON = 1e-6  # sites: a centre so close to the plane stands on it


@dataclass(frozen=True)
class Plane:
    """Where a lattice divides.

    Parameters
    ----------
    axis
        Number of the axis, of z, y, x, across which the plane stands.
    at
        Metres from the lattice's first face; None: the middle.
    inside
        Numbers of the site types of which the cell is made: each daughter comes to where the centre
        of her mother was. None: the cell is the lattice, and does not move.
    """

    axis: int
    at: float | None
    inside: tuple[int, ...] | None

    def sides(self, shape: tuple[int, ...], spacing: float) -> Array:
        """Daughter of the sites of each plane of the axis, u8: 1 before it, 2 beyond, 0 on it."""
        n = shape[self.axis]
        at = n / 2 if self.at is None else self.at / spacing
        beyond = np.arange(n) + 0.5 - at
        result: Array = np.where(np.abs(beyond) < _ON, 0, np.where(beyond < 0, 1, 2))
        return result.astype(np.uint8)


class Half(NamedTuple):
    """Particles that stay in a lattice, and those that both daughters get."""

    cells: Array
    """Species + 1 ``[z, y, x, slot]``."""
    waiting: tuple[IntArray, IntArray]
    """Sites, which ascend, and species + 1 of particles without a slot."""
    types: Array
    """Site types ``[z, y, x]``."""
    shift: int
    """Sites by which particles moved along the axis."""
    origins: IntArray
    """Sites, of the mother, of particles that stay."""
    counts: IntArray
    """Particles int64 ``[daughter, species]``."""
    share: float
    """Part of the mother's sites that the first daughter gets."""


class Halving:
    """Divides a lattice across a plane.

    Parameters
    ----------
    goes
        Values of `SHARES` ``[species]``.
    """

    def __init__(self, plane: Plane, goes: Array) -> None:
        self.plane = plane
        self._goes = np.concatenate([[POSITION], goes])  # by species + 1

    def half(
        self, cells: Array, waiting: Array, types: Array, sides: Array, kept: int, words: Any
    ) -> Half:
        """Keep one daughter.

        Parameters
        ----------
        cells, waiting, types
            Of the whole lattice.
        sides
            As `Plane.sides` gives them.
        kept
            1 or 2.
        words
            A generator of random words: particles on the plane are drawn one by one.

        Raises
        ------
        ConfigError
            No site of the mother is on a side of the plane.
        """
        shape, slots = types.shape, cells.shape[-1]
        flat = cells.reshape(-1, slots)
        sites, at = np.nonzero(flat)
        particles = np.concatenate([flat[sites, at], waiting["particle"]]).astype(np.int64)
        sites = np.concatenate([sites, waiting["site"].astype(np.int64)])
        along = np.unravel_index(sites, shape)[self.plane.axis]
        side = sides[along].astype(np.int64)
        on = np.flatnonzero(side == 0)
        side[on] = 1 + (words.random_raw(len(on)) >> np.uint64(63)).astype(np.int64)
        got = [self._got(particles, side, daughter) for daughter in (1, 2)]
        filled = self._filled(types)
        moves = _moves(filled, sides) * (self.plane.inside is not None)
        stays = got[kept - 1]
        stride = int(np.prod(shape[self.plane.axis + 1 :]))
        to = np.clip(along - moves[side], 0, shape[self.plane.axis] - 1)
        new = (sites + (to - along) * stride)[stays]
        made, left = _placed(new, particles[stays], flat)
        counts = [np.bincount(particles[one], minlength=len(self._goes))[1:] for one in got]
        return Half(
            made.reshape(cells.shape), left, self._moved(types, sides, kept, int(moves[kept])),
            int(moves[kept]), np.unique(sites[stays & (side == kept)]), np.stack(counts),
            float(_weight(filled, sides, 1) / (2 * filled.sum())),
        )  # fmt: skip

    def _got(self, particles: IntArray, side: IntArray, daughter: int) -> BoolArray:
        """Which particles a daughter gets."""
        goes = self._goes[particles]
        own = np.where(goes == POSITION, side == daughter, (goes == COPY) | (daughter == 1))
        return np.asarray(own, bool)

    def _filled(self, types: Array) -> IntArray:
        """Sites of the mother in each plane of the axis."""
        others = tuple(axis for axis in range(3) if axis != self.plane.axis)
        chosen = self.plane.inside
        inside = np.ones_like(types, bool) if chosen is None else np.isin(types, chosen)
        result = np.count_nonzero(inside, axis=others)
        if not result.any():
            raise ConfigError("divide: no site of the lattice is of the cell")
        return np.asarray(result)

    def _moved(self, types: Array, sides: Array, kept: int, move: int) -> Array:
        """Types of the sites of a daughter, moved to the middle, and of no others."""
        if self.plane.inside is None:
            return types
        planes = np.flatnonzero((sides == kept) | (sides == 0))
        planes = planes[(planes >= move) & (planes - move < len(sides))]
        made = np.zeros_like(types)
        axis = self.plane.axis
        np.moveaxis(made, axis, 0)[planes - move] = np.moveaxis(types, axis, 0)[planes]
        return made


def _weight(filled: IntArray, sides: Array, daughter: int) -> int:
    """Twice the sites of a daughter: those on the plane are half of each."""
    return int(2 * filled[sides == daughter].sum() + filled[sides == 0].sum())


def _moves(filled: IntArray, sides: Array) -> IntArray:
    """Sites by which each daughter ``[0, first, second]`` moves back along the axis."""
    result = np.zeros(3, np.int64)
    planes = np.arange(len(filled))
    whole = Fraction(int((planes * filled).sum()), int(filled.sum()))
    for daughter in (1, 2):
        own = sides == daughter
        if not filled[own].any():
            raise ConfigError("divide: no site of the cell is on one side of the plane")
        centre = Fraction(int((planes * filled)[own].sum()), int(filled[own].sum()))
        result[daughter] = round(centre - whole)
    return result


def _placed(
    sites: IntArray, particles: IntArray, like: Array
) -> tuple[Array, tuple[IntArray, IntArray]]:
    """Particles in slots ``[site, slot]`` in their order, and those that find none."""
    order = np.argsort(sites, kind="stable")
    sites, particles = sites[order], particles[order]
    rank = np.arange(len(sites)) - np.searchsorted(sites, sites)
    fits = rank < like.shape[1]
    made = np.zeros_like(like)
    made[sites[fits], rank[fits]] = particles[fits]
    return made, (sites[~fits], particles[~fits])

"""Rates of a lattice that change while it runs: what kernels are given for them, only where new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray, Uint32Array
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.model.lattice.diagnosis.time_step import MOST_ERROR


@dataclass(frozen=True)
class _Touched:
    """Entries of the tables that depend on some reactions.

    Attributes
    ----------
    groups
        Of them; `members`: which of these have an n-th reaction, and which that is, by n.
    alone
        Which groups have at most one particle; `of_one`: their places in the flat table ``[type,
        group]``.
    pairs
        Particles in pairs.
    places
        In the flat table, of all that may change.
    """

    groups: IntArray
    members: list[tuple[Any, IntArray]]
    alone: Any
    of_one: IntArray
    pairs: IntArray
    places: IntArray


class RateBounds:
    """Upper bounds ``[site type, particle, 2]`` of what a particle adds to x 2^32 of its site.

    Particle 0 has what happens without reactants. Column 0 is first order, column 1 half the
    fastest pair, once for every other particle; that of particle 0 is the largest number of all
    other particles. See ``is_beyond_bound`` in csrc/lattice/site/react.h.

    Reactions of the same reactants are a group, whose chances are added in their order.

    Attributes
    ----------
    groups
        Reactants of each group, and `group_of` that of each reaction.
    sums
        Chances ``[group, site type]`` in a pass.
    table
        The bounds.
    """

    def __init__(self, lattice: LoweredLattice) -> None:
        numbers: dict[tuple[int, ...], int] = {}
        result = [
            numbers.setdefault(tuple(sorted(reaction.reactants)), len(numbers))
            for reaction in lattice.reactions
        ]
        self.groups, self.group_of = list(numbers), np.array(result, np.int64)
        self._members = np.argsort(self.group_of, kind="stable")
        self._sizes = np.bincount(self.group_of, minlength=len(self.groups))
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._pair = np.array([len(kinds) == 2 for kinds in self.groups], bool)
        # Where a group counts: its own column, or those of both particles of a pair.
        ends = [(kinds[0], kinds[-1]) if kinds else (-1, -1) for kinds in self.groups]
        self._ends = np.array(ends, np.int64).reshape(-1, 2) + 1
        pairs = np.flatnonzero(self._pair)
        particle, group = self._ends[pairs].T.reshape(-1), np.tile(pairs, 2)
        order = np.argsort(particle, kind="stable")
        self._pairs = group[order]
        n_types, n_particles = len(lattice.site_types), len(lattice.species) + 1
        self._first = np.searchsorted(particle[order], np.arange(n_particles + 1))
        self.sums = np.zeros((len(self.groups), n_types))
        self._largest = np.zeros((n_types, n_particles, 2))
        self._last: tuple[bytes | None, _Touched] | None = None
        self.table: Uint32Array = np.zeros(self._largest.shape, np.uint32)

    def update(
        self, chance: FloatArray, reactions: IntArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Take chances ``[reaction, site type]``, of which those of some reactions are new.

        Returns
        -------
        The groups of these reactions, the same array for the same reactions, and their sums.
        """
        touched = self._touched_by(reactions)
        pairs, largest = touched.pairs, self._largest
        sums = self._add(touched, chance)
        self.sums[touched.groups] = sums
        largest.reshape(-1)[touched.of_one] = sums[touched.alone].T
        if len(pairs):
            largest[:, pairs, 1] = self._fastest_pairs(pairs).T
        largest[:, 0, 1] = largest[:, 1:].max(axis=(1, 2), initial=0.0)
        changed = largest.reshape(-1)[touched.places]
        scaled = np.where(changed > 0, np.ceil(changed * 2.0**32) + 2, 0.0)
        self.table.reshape(-1)[touched.places] = np.minimum(scaled, 2.0**32 - 1).astype(np.uint32)
        return touched.groups, sums

    def _touched_by(self, reactions: IntArray | None) -> _Touched:
        """Return the entries that depend on some reactions, or all; the last call is cached."""
        name = None if reactions is None else reactions.tobytes()
        if self._last is None or self._last[0] != name:
            groups = np.arange(len(self.groups))
            if reactions is not None:
                groups = np.unique(self.group_of[reactions])
            pair = self._pair[groups]
            pairs = np.unique(self._ends[groups[pair]])
            places = np.arange(self._largest.size).reshape(self._largest.shape)
            of_one = places[:, self._ends[groups[~pair], 0], 0]
            second = places[:, np.append(0, pairs), 1]
            result = _Touched(
                groups, self._members_of(groups), ~pair if pair.any() else slice(None), of_one,
                pairs, np.concatenate([of_one.reshape(-1), second.reshape(-1)]),
            )  # fmt: skip
            self._last = name, result
        return self._last[1]

    def _members_of(self, groups: IntArray) -> list[tuple[Any, IntArray]]:
        """`members` of `_Touched`."""
        sizes, starts = self._sizes[groups], self._starts[groups]
        result: list[tuple[Any, IntArray]] = []
        for place in range(int(sizes.max(initial=0))):
            has = sizes > place
            which = slice(None) if has.all() else has
            result.append((which, self._members[starts[which] + place]))
        return result

    @staticmethod
    def _add(touched: _Touched, chance: FloatArray) -> FloatArray:
        """Sums of some groups, one member after the other: the bits of a loop over reactions."""
        if not touched.members:
            return np.zeros((0, chance.shape[1]))
        sums = chance[touched.members[0][1]]  # each has one
        for which, members in touched.members[1:]:
            sums[which] += chance[members]
        return sums

    def _fastest_pairs(self, particles: IntArray) -> FloatArray:
        """Half the fastest pair of some particles, which have one, ``[particle, site type]``."""
        begin, end = self._first[particles], self._first[particles + 1]
        sizes = end - begin
        starts = np.cumsum(sizes) - sizes
        among = np.arange(int(sizes.sum())) + np.repeat(begin - starts, sizes)
        return np.asarray(np.maximum.reduceat(self.sums[self._pairs[among]] / 2, starts, axis=0))


class RateJudge:
    """Says when rates that are set let turns of hops and reactions cost more than before."""

    def __init__(self, lattice: LoweredLattice, groups: list[tuple[int, ...]]) -> None:
        self._lattice, self._groups = lattice, groups
        self._slopes = np.full((len(groups), len(lattice.site_types)), np.nan)
        self._last: tuple[IntArray, FloatArray] | None = None  # groups, and their slopes
        self._reported = max(MOST_ERROR, lattice.splitting.error)

    def sentence(
        self, rates: FloatArray, reactions: IntArray, groups: IntArray, totals: FloatArray
    ) -> str | None:
        """A sentence where the error is larger than any before; else None.

        Parameters
        ----------
        rates
            ``[reaction, site type]``, of which those of `reactions` are new.
        groups, totals
            Their groups, and the rates of all reactions of these, ``[group, site type]``.
        """
        if self._last is None or self._last[0] is not groups:
            for group in groups[np.isnan(self._slopes[groups, 0])].tolist():
                self._slopes[group] = self._lattice.splitting_slopes(self._groups[group])
            self._last = groups, self._slopes[groups]
        bound = (totals * self._last[1]).max(initial=0.0) * (1 + 1e-9)
        if bound <= self._reported:
            return None
        result = self._lattice.splitting_with(rates, reactions.tolist())
        if result.error <= self._reported:
            return None
        self._reported = result.error
        return self._lattice.splitting_warning(result)

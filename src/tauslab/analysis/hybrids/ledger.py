"""Pools that parts share, and bills on them: totals are exact, and nothing is rounded away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from tauslab.base.arrays import Array, BoolArray, FloatArray, IntArray
from tauslab.store.state import State

Columns: TypeAlias = IntArray | slice
MOST_UNITS = 2.0**62  # of a pool
_SLACK = 1e-9  # units: a rest so close below a whole one counts as one
_HALF = 0.5 - _SLACK
_BLOCK = 1 << 14  # numbers of a table that are computed at once
_STORED = ("rest", "billed", "paid", "credited")
_FEW = 4  # reactions for each that fired, from which those that did are looked for


class Ledger:
    """Pools of units that several parts change: whole ones, and a rest below one, for each cell.

    Parts with counts see the nearest whole number; parts with amounts see all of it. What a part
    changed is added. Whole units are int64 and the rest is a double, so that no total depends on
    rounding.

    Parameters
    ----------
    start
        Units ``[cell, pool]``.
    real
        Whether a part with amounts holds some of a pool, ``[pool]``.
    billed
        Pools that bills take from.

    Attributes
    ----------
    whole, rest, billed, paid, credited
        int64, and f64, ``[cell, pool]``.
    overflowed
        Pools that passed `MOST_UNITS` and stayed as they were, bool ``[cell, pool]``.
    least
        The least that a pool had in any cell, or 0, f64 ``[pool]``: below 0 if parts took more than
        there was, which later gains make up for.
    """

    def __init__(self, start: FloatArray, real: BoolArray, billed: IntArray) -> None:
        self.real, self._billed = real, billed
        self.whole = np.zeros(start.shape, np.int64)
        self.rest, self.billed, self.paid, self.credited = np.zeros((4, *start.shape))
        self.overflowed = np.zeros(start.shape, bool)
        self.least = np.zeros(start.shape[1])
        self.add(start, slice(None))

    @property
    def debt(self) -> FloatArray:
        """Units ``[cell, pool]`` that were billed and are not paid."""
        result: FloatArray = self.billed - self.paid
        return result

    def seen(self, pools: Columns, whole: BoolArray) -> FloatArray:
        """Units ``[cell, one of pools]``, 0 or more, to the nearest whole number where `whole`.

        Rounding down would show parts with counts half a unit too little of a pool that changes
        continuously, at any interval of exchange.
        """
        held, rest = self.whole[:, pools], self.rest[:, pools]
        units: FloatArray = held + rest
        if units.min(initial=0.0) < 0:
            self.least[pools] = np.minimum(self.least[pools], units.min(axis=0))
        if whole.any():
            units = np.where(whole, held + (rest >= _HALF), units)
        return np.maximum(units, 0.0, out=units)

    def add(self, change: FloatArray, pools: Columns, *, whole_ones: bool = False) -> None:
        """Add units ``[cell, one of pools]``, of which each occurs once; none where not finite.

        `whole_ones` says that all are whole, so that rests stay as they are.
        """
        whole = self.whole[:, pools]
        size = whole + change
        np.abs(size, out=size)
        if not size.max(initial=0.0) < MOST_UNITS:  # not either where a change is NaN
            over = size >= MOST_UNITS
            self.overflowed[:, pools] |= over
            change = np.where(np.isfinite(change) & ~over, change, 0.0)
        if whole_ones:
            self.whole[:, pools] = whole + change.astype(np.int64)
            return
        units = np.floor(change)
        rest = change - units
        rest += self.rest[:, pools]
        carry = rest + _SLACK
        np.floor(carry, out=carry)
        units += carry
        rest -= carry
        self.whole[:, pools] = whole + units.astype(np.int64)
        self.rest[:, pools] = rest

    def settle(self) -> None:
        """Pay what is owed, as far as pools go: in whole units, if one is short or counts."""
        pools = self._billed
        owed = self.billed[:, pools] - self.paid[:, pools]
        if not owed.any():
            return
        counts = ~self.real[pools]
        pays = np.minimum(owed, self.seen(pools, np.zeros(len(pools), bool)))
        pays = np.where((pays < owed) | counts, np.floor(pays), pays)
        self.paid[:, pools] += pays
        self.add(-pays, pools)

    def take(self, index: IntArray) -> None:
        """Make cell i a copy of cell ``index[i]``."""
        for name in ("whole", *_STORED):
            setattr(self, name, getattr(self, name)[index])

    def give(self, rows: IntArray, whole: IntArray, rest: FloatArray, debt: FloatArray) -> None:
        """Give some cells units and debts ``[row, pool]``; what was paid stays.

        A rest may be any below one, and also a negative one.
        """
        carry = np.floor(rest + _SLACK)
        self.whole[rows], self.rest[rows] = whole + carry.astype(np.int64), rest - carry
        self.billed[rows] = self.paid[rows] + debt

    def stored(self) -> dict[str, Any]:
        """All that it goes on from."""
        return {name: getattr(self, name) for name in ("whole", *_STORED)}

    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave."""
        shape = self.whole.shape
        self.whole = state.take("whole", np.int64, *shape)
        for name in _STORED:
            setattr(self, name, state.take(name, np.float64, *shape))


class Account:
    """Units that firings of a part take from pools, or give them.

    Parameters
    ----------
    entries
        Column of the reaction, pool, and units per firing of each.
    """

    def __init__(self, entries: list[tuple[int, int, float]]) -> None:
        entries = sorted(entries, key=lambda one: one[1])
        reactions, pools, amounts = map(np.array, zip(*entries, strict=True))
        self._reactions: Array = reactions
        self._amounts: Array = amounts
        self.pools, starts = np.unique(pools, return_index=True)
        self._parts = np.append(starts, len(pools)).tolist()
        order = np.argsort(reactions, kind="stable")
        self._of_reactions = order, np.repeat(np.arange(len(starts)), np.diff(self._parts))[order]
        # Whole numbers have one sum in any order. Others are added in the same order reaction by
        # reaction where those of a pool ascend.
        ascends = ((np.diff(reactions) >= 0) | (np.diff(pools) > 0)).all()
        self._any_order = bool(ascends or (amounts == np.floor(amounts)).all())

    def units(self, fired: FloatArray) -> FloatArray:
        """Units ``[cell, one of pools]`` for firings ``[cell, reaction]``, added in one order."""
        if self._any_order and np.count_nonzero(fired) * _FEW < fired.size:
            return self._of_few(fired)
        result = np.empty((len(fired), len(self.pools)))
        for rows in blocks(len(fired), len(self._reactions)):
            each = np.take(fired[rows], self._reactions, axis=1)
            each *= self._amounts
            for place, (start, end) in enumerate(pairwise(self._parts)):
                result[rows, place] = np.add.accumulate(each[:, start:end], axis=1)[:, -1]
        return result

    def _of_few(self, fired: FloatArray) -> FloatArray:
        """`units` where most reactions did not fire: the same sums without their zeros."""
        order, places = self._of_reactions
        cells, reactions = np.nonzero(fired)
        numbers = np.bincount(self._reactions, minlength=fired.shape[1])
        each, begins = numbers[reactions], (np.cumsum(numbers) - numbers)[reactions]
        entries = np.repeat(begins - np.cumsum(each) + each, each) + np.arange(each.sum())
        units = np.repeat(fired[cells, reactions], each) * self._amounts[order][entries]
        size = len(fired) * len(self.pools)
        bins = np.repeat(cells * len(self.pools), each) + places[entries]
        result = np.bincount(bins, weights=units, minlength=size).astype(np.float64, copy=False)
        return result.reshape(len(fired), len(self.pools))


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Rows of a table in pieces that stay in the cache of a core."""
    size = max(1, _BLOCK // max(1, columns))
    for first in range(0, rows, size):
        yield slice(first, min(rows, first + size))


def columns_of(places: Sequence[int]) -> Columns:
    """Places as a slice if they follow each other, else as an array."""
    first = places[0] if len(places) else 0
    if list(places) == list(range(first, first + len(places))):
        return slice(first, first + len(places))
    return np.array(places, np.int64)

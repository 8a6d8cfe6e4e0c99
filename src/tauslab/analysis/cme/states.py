"""A set of states with their propensities, and which state each reaction leads to.

States are found by a key that is linear in the counts, modulo 2^64, so that a reaction adds the
same number to every key. Two states may share a key: the states themselves are compared
too, and other multipliers are taken if they differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tauslab.analysis.cme.propensities import Propensities
from tauslab.base.arrays import Array, BoolArray, FloatArray, Int32Array, IntArray, UintArray

_LARGEST_COUNT = 2**31 - 1
OUTSIDE = -1


@dataclass(frozen=True)
class Undefined:
    """A state that a reaction has no propensity in: negative, infinite or not a number."""

    reaction: str
    value: float
    counts: tuple[int, ...]


@dataclass(frozen=True)
class StateLimits:
    """Limits of a set of states: their number, and bytes."""

    most: int
    memory: float = np.inf

    def holds(self, states: int, arrivals: int, shape: tuple[int, int]) -> bool:
        """Return whether so many states, reached by so many `arrivals` of reactions, have room."""
        return states <= self.most and bytes_of_states(states, arrivals, shape) <= self.memory


class TooManyStatesError(Exception):
    """There is no room for the next layer of states.

    Attributes
    ----------
    states, memory
        Number of states with that layer, and bytes.
    """

    def __init__(self, states: int, memory: int) -> None:
        super().__init__(states, memory)
        self.states, self.memory = states, memory


def bytes_of_states(states: int, arrivals: int, shape: tuple[int, int]) -> int:
    """Most memory of so many states, while they are added and while their matrix is made.

    Parameters
    ----------
    arrivals
        Pairs of a state that is there and a reaction that leaves the set: each makes a row.
    shape
        Of `StateSet.change`: reactions, species.
    """
    reactions, species = shape
    held = states * (12 * species + 16 * reactions + 120)
    return held + max(56 * reactions * states, (12 * species + 48) * arrivals)


class _SharedKeyError(Exception):
    """Two states have one key."""


class StateSet:
    """States that grow by what their reactions lead to.

    Attributes
    ----------
    propensities, change
        What gives `rates`, and what each reaction adds, int64 ``[reaction, species]``.
    states
        int32 ``[state, species]``.
    rates
        Propensities f64 ``[state, reaction]``.
    targets
        int64 ``[state, reaction]``: number of the state that the reaction leads to, `OUTSIDE` where
        that is not in the set or the propensity is 0.
    arrivals
        How often reactions led outside when the set grew: its work.
    undefined
        The first state that was kept out because a propensity is not defined there; or None.
    """

    def __init__(self, propensities: Propensities, states: Int32Array) -> None:
        self.propensities = propensities
        self.change = propensities.change
        reactions, species = self.change.shape
        self.states = np.zeros((0, species), np.int32)
        self.rates = np.zeros((0, reactions))
        self.targets = np.zeros((0, reactions), np.int64)
        self.undefined: Undefined | None = None
        self.arrivals = 0
        self._barred = np.zeros((0, species), np.int32)
        self._trial = 0
        self._keys = np.zeros(0, np.uint64)
        self._draw_multipliers()
        self.add(states)

    def __len__(self) -> int:
        """Number of states."""
        return len(self.states)

    def add(self, rows: Int32Array) -> IntArray:
        """Add states that are new and have propensities; the numbers of the added states."""
        while True:
            try:
                return self._added(rows)
            except _SharedKeyError:
                self._draw_multipliers()
                self._join(np.arange(len(self)))

    def missing(self, sources: IntArray) -> Int32Array:
        """States outside that reactions of `sources` lead to; some may be given twice."""
        result = []
        for reaction, change in enumerate(self.change):
            leaving = sources[
                (self.targets[sources, reaction] == OUTSIDE) & (self.rates[sources, reaction] > 0)
            ]
            rows = self.states[leaving].astype(np.int64) + change
            result.append(rows[(rows <= _LARGEST_COUNT).all(axis=1)].astype(np.int32))
        return np.concatenate(result) if result else self.states[:0]

    def grow(
        self,
        sources: IntArray,
        layers: int,
        room: StateLimits,
        watch: Callable[[], None] = lambda: None,
    ) -> int:
        """Add what is at most `layers` firings away from `sources`; how many states that were.

        `watch` is called after each of them.

        Raises
        ------
        TooManyStatesError
            There is no room for the next layer, which was not made.
        """
        before = len(self)
        for _ in range(layers):
            self._require(room, sources)
            sources = self.add(self.missing(sources))
            watch()
            if not len(sources):
                break
        return len(self) - before

    def _require(self, room: StateLimits, sources: IntArray) -> None:
        """Refuse a layer without room. Its states are counted by their keys, before their rows."""
        shape = self.change.shape
        leaving = (self.targets[sources] == OUTSIDE) & (self.rates[sources] > 0)
        arrivals = int(leaving.sum())
        self.arrivals += arrivals
        if room.holds(len(self) + arrivals, arrivals, shape):
            return
        keys = [self._keys[sources[leaving[:, r]]] + jump for r, jump in enumerate(self._jumps)]
        new = np.setdiff1d(np.concatenate(keys), self._barred_keys)
        if not room.holds(len(self) + len(new), arrivals, shape):
            states = len(self) + len(new)
            raise TooManyStatesError(states, bytes_of_states(states, arrivals, shape))

    def keep(self, chosen: BoolArray) -> None:
        """Leave out all states but the chosen ones."""
        number = np.cumsum(chosen) - 1
        targets = self.targets[chosen]
        inside = targets != OUTSIDE
        kept = np.where(inside, chosen[targets], False)
        self.targets = np.where(kept, number[targets], OUTSIDE)
        self.states, self.rates = self.states[chosen], self.rates[chosen]
        self._keys = self._keys[chosen]
        self._sort()

    def find(self, rows: Int32Array) -> IntArray:
        """Numbers of states ``[row, species]``, `OUTSIDE` for one that is not in the set."""
        result = self._look_up(self._key(rows))
        same = (self.states[result] == rows).all(axis=1) if len(self) else np.zeros(0, bool)
        return np.where((result != OUTSIDE) & same, result, OUTSIDE)

    def _draw_multipliers(self) -> None:
        words = np.random.Philox(key=self._trial).random_raw(self.change.shape[1])
        self._trial += 1
        self._multipliers = np.asarray(words, np.uint64) | np.uint64(1)
        self._jumps = self._key(self.change)
        self._keys = self._key(self.states)
        self._barred_keys = np.sort(self._key(self._barred))
        self._sort()

    def _key(self, rows: Array) -> UintArray:
        keys = np.zeros(len(rows), np.uint64)
        for column, factor in zip(rows.T, self._multipliers, strict=True):
            keys += column.astype(np.int64).view(np.uint64) * factor
        return keys

    def _sort(self) -> None:
        self._order = np.argsort(self._keys)
        self._sorted = self._keys[self._order]

    def _look_up(self, keys: UintArray) -> IntArray:
        if not len(self):
            return np.full(len(keys), OUTSIDE)
        place = np.minimum(np.searchsorted(self._sorted, keys), len(self) - 1)
        return np.where(self._sorted[place] == keys, self._order[place], OUTSIDE)

    def _added(self, rows: Int32Array) -> IntArray:
        unique, first, which = np.unique(self._key(rows), return_index=True, return_inverse=True)
        if (rows[first[which]] != rows).any():
            raise _SharedKeyError
        known = self._look_up(unique)
        inside = known != OUTSIDE
        if (self.states[known[inside]] != rows[first[inside]]).any():
            raise _SharedKeyError
        barred = np.isin(unique, self._barred_keys)
        rows = rows[np.sort(first[~inside & ~barred])]
        # A state that shares the key of a barred one stays out too: it counts as lost.
        rates = self.propensities(rows)
        good = np.isfinite(rates) & (rates >= 0)
        defined = good.all(axis=1)
        if not defined.all():
            self._bar(rows[~defined], rates[~defined])
            rows, rates = rows[defined], rates[defined]
        start = len(self)
        self.states = np.concatenate([self.states, rows])
        self.rates = np.concatenate([self.rates, rates])
        nowhere = np.full((len(rows), len(self.change)), OUTSIDE)
        self.targets = np.concatenate([self.targets, nowhere])
        keys = self._key(rows)
        self._keys = np.concatenate([self._keys, keys])
        order = np.argsort(keys)
        place = np.searchsorted(self._sorted, keys[order])
        self._sorted = np.insert(self._sorted, place, keys[order])
        self._order = np.insert(self._order, place, start + order)
        added = np.arange(start, len(self))
        self._join(added)
        return added

    def _join(self, added: IntArray) -> None:
        """Link states that were added with their targets, and with states that lead to them."""
        keys = self._keys[added]
        for reaction, jump in enumerate(self._jumps):
            self._link(added, self._look_up(keys + jump), reaction)
            self._link(self._look_up(keys - jump), added, reaction)

    def _link(self, sources: IntArray, targets: IntArray, reaction: int) -> None:
        result = (sources != OUTSIDE) & (targets != OUTSIDE)
        sources, targets = sources[result], targets[result]
        wanted = self.states[sources].astype(np.int64) + self.change[reaction]
        if (self.states[targets] != wanted).any():
            raise _SharedKeyError
        happens = self.rates[sources, reaction] > 0
        self.targets[sources[happens], reaction] = targets[happens]

    def _bar(self, rows: Int32Array, rates: FloatArray) -> None:
        if self.undefined is None:
            bad = ~(np.isfinite(rates[0]) & (rates[0] >= 0))
            reaction = int(np.flatnonzero(bad)[0])
            self.undefined = Undefined(
                self.propensities.names[reaction],
                float(rates[0, reaction]),
                tuple(rows[0].tolist()),
            )
        self._barred = np.concatenate([self._barred, rows])
        self._barred_keys = np.sort(self._key(self._barred))

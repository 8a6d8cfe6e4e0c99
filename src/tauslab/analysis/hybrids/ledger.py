"""Pools that parts share, and bills on them: totals are exact, and nothing is rounded away."""

from __future__ import annotations

from typing import Any

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray
from tauslab.store.state import State

_SLACK = 1e-9  # units: a rest so close below a whole one counts as one


class Pool:
    """Units that several parts change: whole ones, and a rest below one, for each cell.

    Parts with counts see the whole units; parts with amounts see all of it. What a part changed is
    added. Whole units are int64 and the rest is a double, so that no total depends on rounding.

    Parameters
    ----------
    start
        Units ``[cell]``.
    real
        Whether a part with amounts holds some of it.
    """

    def __init__(self, start: FloatArray, *, real: bool) -> None:
        n = len(start)
        self.real = real
        self.whole, self.rest = np.zeros(n, np.int64), np.zeros(n)
        self.billed, self.paid, self.credited = np.zeros(n), np.zeros(n), np.zeros(n)
        self.add(start)

    @property
    def total(self) -> FloatArray:
        """All units ``[cell]``."""
        found: FloatArray = self.whole + self.rest
        return found

    @property
    def debt(self) -> FloatArray:
        """Units ``[cell]`` that were billed and are not paid."""
        found: FloatArray = self.billed - self.paid
        return found

    def seen(self, *, whole: bool) -> FloatArray:
        """Units ``[cell]`` that a part finds, 0 or more: whole ones, or all."""
        units = self.whole.astype(np.float64) if whole else self.total
        return np.maximum(units, 0.0)

    def add(self, change: FloatArray, where: BoolArray | None = None) -> None:
        """Add units ``[cell]``, in some cells alone."""
        change = np.where(np.isfinite(change), change, 0.0)
        if where is not None:
            change = np.where(where, change, 0.0)
        units = np.floor(change)
        rest = self.rest + (change - units)
        carry = np.floor(rest + _SLACK)
        self.whole += (units + carry).astype(np.int64)
        self.rest = rest - carry

    def bill(self, units: FloatArray) -> None:
        """Owe units ``[cell]``."""
        self.billed += units

    def credit(self, units: FloatArray) -> None:
        """Get units ``[cell]``."""
        self.credited += units
        self.add(units)

    def settle(self) -> None:
        """Pay what is owed, as far as the pool goes: in whole units, if it is short or counts."""
        owed = self.debt
        if not owed.any():
            return
        pays = np.minimum(owed, self.seen(whole=not self.real))
        short = (pays < owed) | (not self.real)
        pays = np.where(short, np.floor(pays), pays)
        self.paid += pays
        self.add(-pays)

    def stored(self) -> dict[str, Any]:
        """All that it goes on from."""
        return {name: value for name, value in vars(self).items() if name != "real"}

    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave."""
        n = len(self.whole)
        self.whole = state.take("whole", np.int64, n)
        for name in ("rest", "billed", "paid", "credited"):
            setattr(self, name, state.take(name, np.float64, n))

"""Functions that step by the time alone, as tables of the last doubles before changes.

A kernel computes in doubles, and so ``floor(time / 0.1)`` is 3 from some double near 0.3 on, and
``time / 0.1 == 3`` may hold at none. A change comes at the double that is its time, or else at the
first one at which an expression has its new value as it is computed. What rounding alone parts,
``time / 0.3 == 3`` and ``time == 0.9``, comes at the same one.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tauslab.model.expressions.expression import Call, Expression, Number, Symbol, call
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.time_pieces import Pieces

_NEAR = (4, 32, 256, 1 << 14, 1 << 24)  # doubles from a change, one of which is beyond rounding
_SEARCHED = 8  # doubles on either side of an instant, where an equality may hold
_PARTED = 8  # doubles between what rounding may part
_TIME = Symbol("time")


class Instants:
    """Doubles at which something changes; times that rounding alone parts are one."""

    def __init__(self, given: Iterable[float] = ()) -> None:
        self._bits = sorted({_bits(t) for t in given if 0 < t < math.inf})

    def near(self, t: float) -> float:
        """The one that stands for a time; itself where there is none yet."""
        bits = _bits(t)
        k = bisect_left(self._bits, bits - _PARTED)
        if k == len(self._bits) or self._bits[k] > bits + _PARTED:
            self._bits.insert(k, bits)
        return _double(self._bits[k])


@dataclass(frozen=True)
class Change:
    """After the time `last` something has a value, up to the next change."""

    last: float
    value: float


def changes_of(
    node: Expression, pieces: Pieces, doubles: dict[Fraction, float], instants: Instants
) -> list[Change]:
    """Changes of what stands still in pieces, in order.

    Parameters
    ----------
    doubles
        Those for times at which something changes that `node` is made of; its own are added.
    instants
        All that there are.
    """
    result: list[Change] = []
    for k, t in enumerate(pieces.times):
        local, after = float(pieces.at[k]), float(pieces.lines[k][1])
        if k == 0:
            if local != after:
                result.append(Change(0.0, after))
            continue
        before = float(pieces.before(k))
        if t not in doubles:
            doubles[t] = instants.near(_double_of(node, t, before, local, after))
        if local != before:
            result.append(Change(math.nextafter(doubles[t], 0.0), local))
        if local != after:
            result.append(Change(doubles[t], after))
    kept: list[Change] = []
    for one in result:  # of what one double parts from the rest, the last value stays
        while kept and kept[-1].last >= one.last:
            kept.pop()
        kept.append(one)
    return kept


def open_changes(pieces: Pieces, changes: Sequence[Change]) -> list[Change]:
    """Leave out the values that hold at one time only, the start among these."""
    result: list[Change] = []
    value = float(pieces.lines[0][1])
    for k, one in enumerate(changes):
        single = k + 1 < len(changes) and changes[k + 1].last == math.nextafter(one.last, math.inf)
        if not single and one.value != value:
            result.append(one)
            value = one.value
    return result


def table_of(first: float, changes: Sequence[Change]) -> Expression:
    """An expression with these values, `first` before all changes.

    >>> from tauslab.model.expressions.expression import to_text
    >>> to_text(table_of(0.0, [Change(2.0, 1.0)]))
    'time > 2.0'
    """
    if not changes:
        return Number(first)
    middle = len(changes) // 2
    one = changes[middle]
    before = table_of(first, changes[:middle])
    after = table_of(one.value, changes[middle + 1 :])
    if before == Number(0.0) and after == Number(1.0):
        return call("gt", _TIME, one.last)
    if before == Number(1.0) and after == Number(0.0):
        return call("le", _TIME, one.last)
    return Call("if", (call("le", _TIME, one.last), before, after))


def just_after(t: float) -> float:
    """The next double; what follows 0 is so small that no sample sees it: csrc/events/queue.h."""
    return math.nextafter(t, math.inf) if t > 0 else _SOON


_SOON = 1e-30


def _double_of(node: Expression, t: Fraction, before: float, here: float, after: float) -> float:
    """The double for a time at which values are these."""
    near = float(t)
    if Fraction(near) == t:
        return near
    if here in (before, after):
        last = _last(node, t, before, after)
        return last if here == before else math.nextafter(last, math.inf)
    middle = _bits(near)
    for bits in range(max(middle - _SEARCHED, 1), middle + _SEARCHED + 1):
        if evaluate(node, {"time": _double(bits)}) == here:
            return _double(bits)
    return not_before(t)


def _last(node: Expression, t: Fraction, before: float, after: float) -> float:
    """The last double with the value before a change."""

    def value(bits: int) -> float:
        return evaluate(node, {"time": _double(bits)})

    near = _bits(float(t))
    for away in _NEAR:
        low, high = max(near - away, 1), near + away
        if value(low) == before and value(high) == after:
            while high - low > 1:
                middle = (low + high) // 2
                if value(middle) == before:
                    low = middle
                else:
                    high = middle
            return _double(low)
    return math.nextafter(not_before(t), 0.0)


def not_before(t: Fraction) -> float:
    """The first double at or after a time."""
    near = float(t)
    return near if Fraction(near) >= t else math.nextafter(near, math.inf)


def _bits(t: float) -> int:
    """Doubles above 0 in their order, as whole numbers."""
    return int(struct.unpack("<q", struct.pack("<d", t))[0])


def _double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])

"""The clock of a hybrid: whole ticks, groups of parts that act on each other, and their order.

Times are whole numbers of half ticks, so that no rounding adds up: ``time = half * tick / 2``.
Parts that act on each other in a circle are a group, whose steps are split (Lie: one after the
other; Strang: halves around the others). Between groups influence goes one way, so a group that
follows another waits for it, and sees means over its own interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned

_WHOLE = 1e-9  # relative: an interval is a whole multiple within this
Edges = Mapping[str, set[str]]


def ticks_of(interval: float, tick: float, what: str) -> int:
    """The number of ticks in an interval.

    Raises
    ------
    ConfigError
        It is no whole multiple of the tick; `what` names it.
    """
    if not isinstance(interval, int | float | np.number):
        raise ConfigError(f"{what} is a number, and not {interval!r:.80}")
    count = round(interval / tick) if math.isfinite(interval) and interval > 0 else 0
    if count < 1 or abs(interval / tick - count) > _WHOLE * count:
        raise ConfigError(
            f"{what} {interval:g} is not a whole multiple of the tick of the clock, {tick:g}"
        )
    return count


def time_of(half: int, tick: float) -> float:
    """The time of so many half ticks, rounded as a user writes it: 0.9 of six halves of 0.3."""
    return float(Fraction(repr(float(tick))) * half / 2)


@dataclass(frozen=True)
class Interval:
    """Whole half ticks of a part: of a step, and between two samples."""

    step: int
    sample: int


@dataclass(frozen=True)
class Move:
    """A part makes a step, or half of one, from `start` to `end` in half ticks."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Group:
    """Parts that act on each other, the slowest first; the group steps as its slowest part."""

    parts: tuple[str, ...]
    step: int
    after: tuple[int, ...]  # numbers of the groups that it follows


def groups_of(intervals: Mapping[str, Interval], edges: Edges) -> list[Group]:
    """Groups in an order in which each comes after those that it follows.

    Parameters
    ----------
    intervals
        Of all parts by name, in the order in which they were added.
    edges
        From a part to the parts that it acts on.

    Raises
    ------
    ConfigError
        Intervals within a group are no multiples of each other.
    """
    reach = {name: _reached(name, edges) for name in intervals}
    left, made = list(intervals), list[Group]()
    home: dict[str, int] = {}
    while left:
        # A part whose every predecessor is placed, or is in a circle with it.
        first = next(
            one
            for one in left
            if all(other in home or other in reach[one] for other in left if one in reach[other])
        )
        own = [n for n in left if n == first or (n in reach[first] and first in reach[n])]
        own.sort(key=lambda name: -intervals[name].step)
        slow = intervals[own[0]].step
        for upper, lower in pairwise(own):
            if intervals[upper].step % intervals[lower].step:
                raise ConfigError(
                    f"parts {upper} and {lower} act on each other: one every= must be a whole "
                    "multiple of the other"
                )
        after = {home[n] for n in home if any(p in reach[n] for p in own)}
        home |= dict.fromkeys(own, len(made))
        made.append(Group(tuple(own), slow, tuple(sorted(after))))
        left = [name for name in left if name not in home]
    return made


def _reached(start: str, edges: Edges) -> set[str]:
    result, waiting = set[str](), [start]
    while waiting:
        for other in edges.get(waiting.pop(), ()):
            if other not in result:
                result.add(other)
                waiting.append(other)
    return result


def moves_of(
    parts: Sequence[str], intervals: Mapping[str, Interval], start: int, length: int, splitting: str
) -> Iterator[Move]:
    """Moves of the parts of a group, the slowest first, over `length` half ticks from `start`.

    A part of step h makes one step of h by Lie, or two of h/2 around all others by Strang; the
    last one makes whole steps.
    """
    name, rest = parts[0], parts[1:]
    own = intervals[name].step
    for begin in range(start, start + length, own):
        middle = begin + own // 2 if rest and splitting == "strang" else begin + own
        yield Move(name, begin, middle)
        if rest:
            yield from moves_of(rest, intervals, begin, own, splitting)
        if middle < begin + own:
            yield Move(name, middle, begin + own)


def require_end(t_end: float, tick: float, intervals: Mapping[str, Interval]) -> int:
    """Half ticks to the end.

    Raises
    ------
    ConfigError
        The end is within a step of a part.
    """
    end = 2 * ticks_of(t_end, tick, assigned("t_end"))
    for name, one in intervals.items():
        if end % one.step:
            raise ConfigError(
                f"{assigned('t_end')}{t_end:g} is within a step of part {name}, which is "
                f"{one.step * tick / 2:g}: give a whole multiple"
            )
    return end


def sample_count(end: int, interval: Interval) -> int:
    """Samples from 0 to the end, both included where the end is one."""
    return end // interval.sample + 1


def edges_of(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Edges of pairs (from, to); from a part to itself there is none."""
    result: dict[str, set[str]] = {}
    for one, other in pairs:
        if one != other:
            result.setdefault(one, set()).add(other)
    return result

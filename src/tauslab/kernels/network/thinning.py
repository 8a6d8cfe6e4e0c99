"""Upper bounds, piece by piece of the run, of rates that the time alone moves.

A rate is bounded by its own formula, in which each factor of the time is the most, or the least,
that it can be in a piece; counts and constants stay what they are. Operations that IEEE 754 rounds
are monotonic, so that the bound is above what a kernel computes for the rate, rounding included.
Pieces are found by interval arithmetic (`tauslab.model.intervals`): parts of the run
are halved until a factor is nearly the same throughout.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.kernels.network.lowering import (
    Constant,
    Count,
    Dynamics,
    Law,
    LoweredNetwork,
    LoweredReaction,
    Operation,
    Thinning,
    arguments_of,
    counts_in,
    operations_first,
)
from tauslab.model.expressions.expression import Number
from tauslab.model.intervals import Flags, Interval, bounds_of_call

# Part of the method: changing these changes results.
_FLATNESS = 0.35  # a part in which the least is so much below the most is halved
_FLATNESS_OF_LEAPS = 4.0  # for leaps, which end with a piece at the latest: in units of epsilon
_MOST_PIECES = 4096  # of a row
_MOST_PIECES_OF_LEAPS = 1 << 15
_MOST_PARTS = 1 << 17  # of all rows together
_MOST_NUMBERS = 1 << 24
_MOST_COPIED = 1 << 26
_FEWEST_PIECES = 16
_MOST_TOGETHER = 1 << 18  # numbers of factors that are bounded together
_BOUNDARY = 16.0  # what the end of a piece costs, in candidates
_DOUBLINGS = 40  # of the rate at which two pieces cost as much as one, in the search for it
_NO_LIMIT = 2.0**1000  # of a piece that is not halved
_HALVINGS = 48
_DIP = 2.0**-10  # of areas both before and after: what is less is not halved
_FADED = 2.0**-100  # of an area before, or after if there is no space: smaller areas are not halved
_ABOVE, _BELOW = 1 + 2.0**-48, 1 - 2.0**-48  # what functions that round otherwise may be off

# The last of a network without events, which fires where a bound is refused.
_NO_REACTION = LoweredReaction("none", (), Number(0.0), (), None, ())

_POSITIVE = frozenset(
    ("exp", "abs", "sqrt", "cosh", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not")
)
_RISING = frozenset(("add", "min", "max", "floor", "ceil", "sqrt"))
_RELATIONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))


class _NoBoundError(Exception):
    """No bound of a rate is known."""


@dataclass(frozen=True)
class Thinned:
    """A network whose reactions are bounds, and its rows ``[row, constants and pieces]``."""

    network: LoweredNetwork
    rows: FloatArray


def thinned(
    network: LoweredNetwork,
    constants: FloatArray,
    end: float,
    most: int,
    epsilon: float = 0,
    *,
    in_tables: bool | None = None,
) -> Thinned | None:
    """The network with bounds in place of rates that the time moves; None where that cannot be.

    Parameters
    ----------
    constants
        Those of every row, f64 ``[row, constant]``.
    end
        The time at which trajectories end.
    most
        Reactions below which a network without events needs no kernel of events.
    epsilon
        Bound on the expected change of a propensity in a leap; 0 where there are none.
    in_tables
        Whether a network without events has the kernel of tables; None: from `most` reactions on.
    """
    dynamics = network.dynamics
    if dynamics is None or not dynamics.moves or dynamics.flows or not end > 0:
        return None
    without_events = not (
        dynamics.events
        or dynamics.drawn
        or dynamics.jumps
        or dynamics.reals
        or any(reaction.completions for reaction in network.reactions)
    )
    if in_tables and not without_events:
        return None
    large = len(network.reactions) >= most
    in_tables = without_events and (large if in_tables is None else in_tables)
    reacts_alone = without_events and not (large or in_tables)
    if epsilon and not reacts_alone:
        return None
    if any(_moves(network, event.trigger) for event in dynamics.events):
        return None
    bounds = _Bounds(network, constants, in_tables=in_tables)
    try:
        reactions = tuple(bounds.reaction(reaction) for reaction in network.reactions)
        if not bounds.factors:
            return None
        own = len(network.constants)
        thinning = Thinning(
            network.reactions, tuple(bounds.factors), tuple(bounds.slots),
            leaps=epsilon > 0, in_tables=in_tables,
        )  # fmt: skip
        table = _table(bounds, constants, end, epsilon)
    except _NoBoundError:
        return None
    table = np.repeat(table, len(constants) // len(table), 0)
    places = np.zeros((len(constants), thinning.places))  # so that a row has as many as are loaded
    rows = np.concatenate([constants[:, :own], table, places], 1)
    left = None if reacts_alone else replace(dynamics, moves=False)
    if in_tables:
        left = Dynamics((), (), ())
    if reacts_alone:
        reactions = (*reactions, _NO_REACTION)
    made = replace(network, reactions=reactions, dynamics=left, thinning=thinning)
    return Thinned(made, np.ascontiguousarray(rows))


def _moves(network: LoweredNetwork, trigger: Law) -> bool:
    """Return whether a trigger depends on time other than by relations with known times."""
    assert network.dynamics is not None
    time = Count(len(network.species))
    stack: list[Law] = [trigger]
    while stack:
        law = stack.pop()
        if law == time:
            return True
        if isinstance(law, Operation) and law.function in _RELATIONS:
            left, right = law.arguments
            if left == time and right in network.dynamics.switches:
                continue
        stack.extend(arguments_of(law))
    return False


@dataclass
class _Bounds:
    """Bounds of laws, and the factors and slots that they read."""

    network: LoweredNetwork
    constants: FloatArray
    in_tables: bool
    factors: dict[Law, int] = field(default_factory=dict)
    slots: dict[tuple[int, bool], int] = field(default_factory=dict)
    divisors: set[int] = field(default_factory=set)  # factors that must be above 0

    def __post_init__(self) -> None:
        """Find what is 0 or more by itself."""
        dynamics = self.network.dynamics
        assert dynamics is not None
        self.time = len(self.network.species)
        self.reals = {number for number, _ in dynamics.reals}
        self.known: list[bool] = np.all(self.constants >= 0, axis=0).tolist()

    def reaction(self, reaction: LoweredReaction) -> LoweredReaction:
        if reaction.law is None or self.time not in counts_in(reaction.law):
            return reaction
        return replace(reaction, law=self.bound(reaction.law, upper=True))

    def bound(self, law: Law, *, upper: bool, divides: bool = False) -> Law:
        """The most that a law can be in a piece, or the least."""
        if self.time not in counts_in(law):
            return law
        if self.is_factor(law):
            return self.slot(law, upper=upper, divides=divides)
        assert isinstance(law, Operation)
        name, parts = law.function, law.arguments
        if name == "mul":
            return self.product(parts[0], parts[1], upper=upper, divides=divides)
        if name == "div":
            return self.quotient(parts[0], parts[1], upper=upper, divides=divides)
        if name == "sub":
            first = self.bound(parts[0], upper=upper, divides=divides)
            return Operation(name, (first, self.bound(parts[1], upper=not upper)))
        if name == "neg":
            return Operation(name, (self.bound(parts[0], upper=not upper),))
        if name == "if" and self.time not in counts_in(parts[0]):
            either = (self.bound(part, upper=upper, divides=divides) for part in parts[1:])
            return Operation(name, (parts[0], *either))
        if name in _RISING:
            terms = (self.bound(part, upper=upper, divides=divides) for part in parts)
            return Operation(name, tuple(terms))
        if name in ("exp", "cbrt") or (name == "pow" and self.rises(parts[0], parts[1])):
            inside = self.bound(parts[0], upper=upper, divides=divides)
            off = Number(_ABOVE if upper else _BELOW)
            return Operation("mul", (Operation(name, (inside, *parts[1:])), off))
        raise _NoBoundError

    def rises(self, base: Law, power: Law) -> bool:
        return self.positive(base) and isinstance(power, Number) and power.value >= 0

    def product(self, x: Law, y: Law, *, upper: bool, divides: bool) -> Law:
        still = [part for part in (x, y) if self.time not in counts_in(part)]
        if all(self.positive(part) for part in still or (x, y)):
            factors = (self.bound(part, upper=upper, divides=divides) for part in (x, y))
            return Operation("mul", tuple(factors))
        if not still or divides:
            raise _NoBoundError
        ends = (
            Operation("mul", (self.bound(x, upper=most), self.bound(y, upper=most)))
            for most in (True, False)
        )
        return Operation("max" if upper else "min", tuple(ends))

    def quotient(self, x: Law, y: Law, *, upper: bool, divides: bool) -> Law:
        if not self.positive(y) or (self.time in counts_in(y) and not self.positive(x)):
            raise _NoBoundError
        above = self.bound(x, upper=upper, divides=divides)
        return Operation("div", (above, self.bound(y, upper=not upper, divides=True)))

    def is_factor(self, law: Law) -> bool:
        """Return whether a law depends on the time and constants, none of which scales it."""
        if counts_in(law) != {self.time}:
            return False
        if not isinstance(law, Operation) or law.function not in ("mul", "div"):
            return True
        scales = law.arguments if law.function == "mul" else law.arguments[1:]
        return not any(not counts_in(one) and _constants_in(one) for one in scales)

    def slot(self, factor: Law, *, upper: bool, divides: bool) -> Law:
        number = self.factors.setdefault(factor, len(self.factors))
        if divides:
            self.divisors.add(number)
        place = self.slots.setdefault((number, upper), len(self.slots))
        if self.in_tables:
            return Operation("bound", (Count(self.time), Number(float(place))))
        return Constant(len(self.network.constants) + 2 + place)

    def positive(self, law: Law) -> bool:
        """Return whether a law is known to be 0 or more; factors must be to have a bound."""
        if isinstance(law, Number):
            return law.value >= 0
        if isinstance(law, Count):
            return law.index not in self.reals
        if isinstance(law, Constant):
            return bool(self.known[law.index])
        if law.function in _POSITIVE or self.is_factor(law):
            return True
        parts = [self.positive(part) for part in law.arguments]
        if law.function == "pow":
            return parts[0]
        if law.function == "if":
            return all(parts[1:])
        return law.function in ("add", "mul", "div", "min", "max", "floor", "ceil") and all(parts)


def _constants_in(law: Law) -> bool:
    return any(isinstance(part, Constant) for part in operations_first(law))


@dataclass
class _Parts:
    """Parts of the runs of rows, ordered, each with the bounds of all factors in it."""

    row: npt.NDArray[np.int64]
    low: FloatArray
    high: FloatArray
    least: FloatArray  # [factor, part]
    most: FloatArray


class _Factors:
    """Values of factors in parts of the run; those that differ by numbers alone are one array."""

    def __init__(self, bounds: _Bounds, constants: FloatArray) -> None:
        self.constants = constants
        self.size = len(bounds.factors)
        self.alike: dict[tuple[object, ...], list[list[Law]]] = {}
        self.places: dict[tuple[object, ...], list[int]] = {}
        for place, factor in enumerate(bounds.factors):
            order = list(operations_first(factor))
            form = _form(order)
            self.alike.setdefault(form, []).append(order)
            self.places.setdefault(form, []).append(place)

    def over(self, row: npt.NDArray[np.int64], low: FloatArray, high: FloatArray) -> _Parts:
        least, most = np.empty((self.size, len(row))), np.empty((self.size, len(row)))
        together = max(1, _MOST_TOGETHER // max(1, len(row)))
        for form, orders in self.alike.items():
            for first in range(0, len(orders), together):
                some = slice(first, first + together)
                places = self.places[form][some]
                least[places], most[places] = self._of_form(orders[some], row, low, high)
        return _Parts(row, low, high, least, most)

    def _of_form(
        self,
        orders: list[list[Law]],
        row: npt.NDArray[np.int64],
        low: FloatArray,
        high: FloatArray,
    ) -> Interval:
        """Bounds of factors of one form, ``[factor, part]``; `orders` are their parts."""
        shape = len(orders), len(row)
        result: dict[int, Interval] = {}
        for laws in zip(*orders, strict=True):
            law = laws[0]
            if isinstance(law, Number):
                values = np.array([one.value for one in laws if isinstance(one, Number)])
                result[id(law)] = (np.broadcast_to(values[:, None], shape),) * 2
            elif isinstance(law, Constant):
                result[id(law)] = (np.broadcast_to(self.constants[row, law.index], shape),) * 2
            elif isinstance(law, Count):
                result[id(law)] = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
            else:
                parts = (result[id(part)] for part in law.arguments)
                result[id(law)] = bounds_of_call(law.function, *parts)
        return result[id(orders[0][-1])]


def _form(order: list[Law]) -> tuple[object, ...]:
    """What laws have in common that differ by numbers alone, but for exponents."""
    place = {id(law): k for k, law in enumerate(order)}
    exponents = {id(law.arguments[1]) for law in order if _is_power(law)}
    return tuple(
        law.value if id(law) in exponents and isinstance(law, Number)
        else Number if isinstance(law, Number)
        else (law.function, *(place[id(part)] for part in law.arguments))
        if isinstance(law, Operation)
        else law
        for law in order
    )  # fmt: skip


def _is_power(law: Law) -> TypeGuard[Operation]:
    return isinstance(law, Operation) and law.function == "pow"


def _table(bounds: _Bounds, constants: FloatArray, end: float, epsilon: float) -> FloatArray:
    """Pieces of every row, f64 ``[row, piece x word]``; one row where factors use no constant."""
    shared = not any(map(_constants_in, bounds.factors))
    used = constants[:1] if shared else constants
    most = _MOST_PIECES_OF_LEAPS if epsilon else _MOST_PIECES
    flatness = min(_FLATNESS, _FLATNESS_OF_LEAPS * epsilon) if epsilon else _FLATNESS
    words = 4 * (2 + len(bounds.slots))  # of a leaf: up to four pieces of a tree
    space = min(most, _MOST_PARTS // len(used), _MOST_NUMBERS // (len(used) * words))
    # Rows that share a table have copies of it: their number decides only where there are too many.
    while space >= _FEWEST_PIECES:
        result = _table_of(bounds, used, end, epsilon, flatness, space)
        if result.shape[1] * len(constants) <= _MOST_COPIED:
            return result
        space //= 4
    raise _NoBoundError


def _table_of(
    bounds: _Bounds, used: FloatArray, end: float, epsilon: float, flatness: float, space: int
) -> FloatArray:
    """Pieces of every row of `used`, with at most so many leaves each."""
    factors = _Factors(bounds, used)
    cuts = _cuts(bounds.network, end)[: space // 4]
    lows, highs = np.append(0.0, np.nextafter(cuts, np.inf)), np.append(cuts, end)
    row = np.repeat(np.arange(len(used)), len(lows))
    parts = factors.over(row, np.tile(lows, len(used)), np.tile(highs, len(used)))
    for _ in range(_HALVINGS):
        split, faint = _uneven(parts, flatness)
        fits = _counts(parts, split) <= space
        if epsilon and not fits.all():
            raise _NoBoundError  # rates would change more than leaps may leave out
        split &= fits[parts.row] | ~faint
        split &= (_counts(parts, split) <= space)[parts.row]
        if not split.any():
            break
        parts = _halved(parts, split, factors)
    _check(parts, factors, bounds.divisors)
    return _packed(parts, list(bounds.slots), len(used)).reshape(len(used), -1)


def _cuts(network: LoweredNetwork, end: float) -> FloatArray:
    """Last times before changes that are known: before a relation changes, and at it."""
    assert network.dynamics is not None
    known = [law.value for law in network.dynamics.switches if isinstance(law, Number)]
    times = np.array([t for t in known if 0 < t < end])
    return np.unique(np.append(np.nextafter(times, 0.0), times))


def _counts(parts: _Parts, split: Flags) -> npt.NDArray[np.int64]:
    """Number of parts of each row after halving those in `split`."""
    return np.bincount(parts.row) + np.bincount(parts.row[split], minlength=int(parts.row[-1]) + 1)


def _uneven(parts: _Parts, flatness: float) -> tuple[Flags, Flags]:
    """Parts in which a factor is not nearly the same throughout, and that matter.

    Second, those of them that matter only if a trajectory does not reach a much higher rate: they
    are not halved where there is no space for all.
    """
    place = np.arange(len(parts.row)) - np.searchsorted(parts.row, parts.row)
    shape = int(parts.row[-1]) + 1, int(place.max()) + 1
    result, strong = np.zeros((2, len(parts.row)), np.bool_)
    with np.errstate(all="ignore"):
        for least, most in zip(parts.least, parts.most, strict=True):
            uneven = ~(most - np.maximum(least, 0.0) <= flatness * most)
            area = np.zeros(shape)
            area[parts.row, place] = most * (parts.high - parts.low)
            before = np.maximum.accumulate(area, axis=1)[parts.row, place]
            after = np.maximum.accumulate(area[:, ::-1], axis=1)[:, ::-1][parts.row, place]
            own = area[parts.row, place]
            dip = own <= _DIP * np.minimum(before, after)
            uneven &= ~dip & ~(own <= _FADED * before)
            result |= uneven
            strong |= uneven & ~(own <= _FADED * after)
    inner = parts.low + (parts.high - parts.low) / 2
    result &= (inner > parts.low) & (inner < parts.high)
    return result, result & ~strong


def _halved(parts: _Parts, split: Flags, factors: _Factors) -> _Parts:
    """All parts, with two in place of each of those that are `split`."""
    low, high, row = parts.low[split], parts.high[split], parts.row[split]
    middle = low + (high - low) / 2
    halves = factors.over(
        np.repeat(row, 2),
        np.stack([low, np.nextafter(middle, np.inf)], 1).ravel(),
        np.stack([middle, high], 1).ravel(),
    )
    each = np.where(split, 2, 1)
    new = np.repeat(split, each)

    def joined(old: FloatArray, made: FloatArray) -> FloatArray:
        out = np.repeat(old, each, axis=-1)
        out[..., new] = made
        return out

    return _Parts(
        np.repeat(parts.row, each),
        joined(parts.low, halves.low),
        joined(parts.high, halves.high),
        joined(parts.least, halves.least),
        joined(parts.most, halves.most),
    )


def _check(parts: _Parts, factors: _Factors, divisors: set[int]) -> None:
    """Refuse factors that are negative or no number, or may be 0 where they divide."""
    middle = parts.low + (parts.high - parts.low) / 2
    seen = [factors.over(parts.row, t, t).most for t in (middle, parts.high)]
    negative = any(bool((most < 0).any()) for most in seen)
    if negative or not (np.isfinite(parts.most) & np.isfinite(parts.least)).all():
        raise _NoBoundError
    if any((parts.least[k] <= 0).any() for k in divisors):
        raise _NoBoundError


def _packed(parts: _Parts, slots: list[tuple[int, bool]], rows: int) -> FloatArray:
    """Last times, limits and slots of the pieces of every row, f64 ``[row, piece, word]``.

    Pieces are the nodes of a binary tree, the root first: piece n, counted from 1, consists of the
    pieces 2 n and 2 n + 1. Leaves with the same numbers are one. A limit is the total of the bounds
    beyond which the two pieces in it cost less (`_limits`); that of a leaf is infinite.
    """
    ends = [parts.most[k] if upper else np.maximum(parts.least[k], 0.0) for k, upper in slots]
    values = np.array(ends).reshape(len(slots), -1)
    same = np.append((parts.row[1:] == parts.row[:-1]) & (np.diff(values) == 0).all(axis=0), False)
    row, values, last = parts.row[~same], values[:, ~same], parts.high[~same]
    counts = np.bincount(row, minlength=rows)
    place = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    leaves = 1 << int(counts.max() - 1).bit_length()
    high = np.full((rows, leaves), last[-1])  # leaves that are left have no length
    high[row, place] = last
    levels = [np.stack([np.full((rows, leaves), 0.0 if upper else np.inf) for _, upper in slots])]
    levels[0][:, row, place] = values
    while levels[-1].shape[-1] > 1:
        halves = levels[-1][..., 0::2], levels[-1][..., 1::2]
        pairs = zip(slots, *halves, strict=True)
        levels.append(np.stack([(np.maximum if u else np.minimum)(a, b) for (_, u), a, b in pairs]))
    limits = _limits(levels, [upper for _, upper in slots], np.diff(high, axis=1, prepend=0.0))
    high[row[np.append(row[1:] != row[:-1], True)], counts - 1] = np.inf
    table = np.empty((rows, 2 * leaves - 1, 2 + len(slots)))
    for level, limit in zip(levels, limits, strict=True):
        width = level.shape[-1]
        own = table[:, width - 1 : 2 * width - 1]
        own[..., 0] = np.maximum.accumulate(high, axis=1)[:, leaves // width - 1 :: leaves // width]
        own[..., 1] = limit
        own[..., 2:] = np.moveaxis(level, 0, -1)
    return table


def _limits(levels: list[FloatArray], upper: list[bool], lengths: FloatArray) -> list[FloatArray]:
    """Totals of the bounds beyond which a piece costs more than the two in it, ``[row, piece]``.

    A piece costs `_BOUNDARY` for its end, and 1 for each candidate beyond those of its leaves. All
    factors have the same share of the candidates, since the state is not known. A scale s of the
    state then gives ``s * rate * length`` candidates. Beyond its limit the cost of a piece grows
    with the square root of s, as where each piece of a smooth factor is halved again. Operations
    are those that IEEE 754 rounds, in one order: the numbers are the same on every machine.
    """
    with np.errstate(all="ignore"):
        largest = [value if up else 1 / value for value, up in zip(levels[0], upper, strict=True)]
        scales = [np.max(value * (lengths > 0), axis=1, keepdims=True) for value in largest]
        result, area, excess, most = [], lengths, lengths, lengths
        for number, level in enumerate(levels):
            rate = np.zeros_like(level[0])
            for value, up, scale in zip(level, upper, scales, strict=True):
                share = (value if up else 1 / value) / scale
                rate = rate + np.where(share < _NO_LIMIT, share, 0.0)
            if number == 0:
                area, excess = rate * lengths, np.zeros_like(rate)
                most = np.full_like(rate, np.inf)
                result.append(most)
                continue
            lengths, area = (one[:, 0::2] + one[:, 1::2] for one in (lengths, area))
            own = np.maximum(rate * lengths - area, 0.0)
            most = _most_rate(own, [(excess[:, k::2], most[:, k::2]) for k in (0, 1)])
            excess = own
            result.append(np.minimum(np.where(rate > 0, most * rate, np.inf), _NO_LIMIT))
    return result


def _most_rate(excess: FloatArray, halves: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """The largest rate, to a factor of 2, at which one piece costs no more than both halves."""

    def cost(rate: FloatArray, excess: FloatArray, most: FloatArray) -> FloatArray:
        known = np.minimum(rate, most)
        return (_BOUNDARY + known * excess) * np.sqrt(np.maximum(rate / most, 1.0))

    least = _BOUNDARY / excess
    doublings = np.zeros(excess.shape, np.int64)
    step = 1 << (_DOUBLINGS.bit_length() - 1)
    while step:
        rate = np.ldexp(least, doublings + step)
        fits = _BOUNDARY + rate * excess <= cost(rate, *halves[0]) + cost(rate, *halves[1])
        doublings += np.where(fits & (doublings + step <= _DOUBLINGS), step, 0)
        step //= 2
    return np.where(excess > 0, np.ldexp(least, doublings), np.inf)

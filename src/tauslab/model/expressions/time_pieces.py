"""Functions of the time that are linear in pieces, without rounding.

``floor``, ``ceil``, ``abs``, ``min``, ``max``, relations and ``if`` of what is linear in the time
are linear again between times that are rational numbers. Of what stands still between them the
value that a kernel computes, in doubles, is known too; it decides what such values alone make.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tauslab.model.expressions.expression import Expression, Number, Symbol, arguments_first
from tauslab.model.expressions.host_math import value_of

MOST_PIECES = 10_000

_Line = tuple[Fraction, Fraction, float]  # slope, value at time 0; as a kernel rounds it
_Values = tuple[Fraction, ...]
_ZERO, _ONE = Fraction(0), Fraction(1)


class _NotLinearError(Exception):
    """A part is not linear in the time, or has too many pieces."""


@dataclass(frozen=True)
class Pieces:
    """Values `at` each of `times`, of which the first is 0, and the lines that follow them."""

    times: tuple[Fraction, ...]
    at: tuple[Fraction, ...]
    lines: tuple[_Line, ...]

    @property
    def steps(self) -> bool:
        """Return whether it stands still between its times."""
        return all(line[0] == 0 for line in self.lines)

    def before(self, k: int) -> Fraction:
        """Return the limit from below at time number `k`; at 0, the value at 0."""
        return self.at[0] if k == 0 else _on(self.lines[k - 1], self.times[k])

    def alone(self, k: int) -> bool:
        """Return whether the value at time number `k`, which is not 0, is that of neither side."""
        return k > 0 and self.at[k] not in (self.before(k), _on(self.lines[k], self.times[k]))


def pieces_of(tree: Expression, end: float) -> dict[int, Pieces | None]:
    """Pieces from 0 to `end` of every part of a function of the time alone, by its identity.

    None stands for a part that is not linear in pieces, or has more than `MOST_PIECES`.
    """
    result: dict[int, Pieces | None] = {}
    horizon = Fraction(end) * Fraction(1025, 1024)  # a change at the end has an other side
    for node in arguments_first(tree):
        try:
            result[id(node)] = _pieces(node, result, horizon)
        except (_NotLinearError, OverflowError):
            result[id(node)] = None
    return result


def _pieces(node: Expression, found: Mapping[int, Pieces | None], horizon: Fraction) -> Pieces:
    if isinstance(node, Symbol):
        return Pieces((_ZERO,), (_ZERO,), ((_ONE, _ZERO, 0.0),))
    if isinstance(node, Number):
        value = _finite(node.value)
        return Pieces((_ZERO,), (value,), ((_ZERO, value, node.value),))
    parts: list[Pieces] = []
    for argument in node.arguments:
        part = found[id(argument)]
        if part is None:
            raise _NotLinearError
        parts.append(part)
    return _merged(_Function(node.function), parts, horizon)


class _Function:
    """One of the functions of expressions, on lines and at single times."""

    def __init__(self, name: str) -> None:
        self.name = name

    def cuts(self, lines: Sequence[_Line], begin: Fraction, end: Fraction) -> list[Fraction]:
        """Times between two, at which the result of these lines bends or jumps."""
        if self.name in ("floor", "ceil"):
            return list(_whole(lines[0], begin, end))
        if self.name in ("min", "max", *_RELATIONS):
            watched = [_sum(lines[0], lines[1], -1)]
        elif self.name in ("abs", "not", "and", "or", "xor"):
            watched = list(lines)
        else:
            watched = [lines[0]] if self.name == "if" else []
        roots = {-offset / slope for slope, offset, _ in watched if slope}
        return sorted(t for t in roots if begin < t < end)

    def line(self, lines: Sequence[_Line], middle: Fraction) -> _Line:
        """The line that it makes of these around `middle`, where none of them cuts another."""
        if all(slope == 0 for slope, _, _ in lines):
            rounded = value_of(self.name, *(line[2] for line in lines))
            _finite(rounded)
            values = [Fraction(line[2]) for line in lines]
            if self.name in ("add", "sub", "neg", "mul", "div"):
                return _ZERO, self.exact([line[1] for line in lines]), rounded
        elif self.name in ("add", "sub"):
            return _sum(lines[0], lines[1], 1 if self.name == "add" else -1)
        elif self.name == "neg":
            return _line(-lines[0][0], -lines[0][1])
        elif self.name in ("mul", "div"):
            return _product(lines, divided=self.name == "div")
        elif self.name not in _EXACT:
            raise _NotLinearError
        else:
            values = [_on(line, middle) for line in lines]
        chosen = self.chosen(values)
        if chosen is not None:
            sign = -1 if self.name == "abs" and values[0] < 0 else 1
            slope, offset, rounded = lines[chosen]
            return sign * slope, sign * offset, sign * rounded
        return _line(_ZERO, self.exact(values))

    def chosen(self, values: Sequence[Fraction]) -> int | None:
        """Return the index of the argument that is its value; None where none of them is."""
        if self.name == "abs":
            return 0
        if self.name in ("min", "max"):
            return int((values[1] < values[0]) == (self.name == "min"))
        return (1 if values[0] else 2) if self.name == "if" else None

    def exact(self, values: Sequence[Fraction]) -> Fraction:
        """Return its value of numbers at one time, without rounding where it is rational."""
        exact = _EXACT.get(self.name)
        if exact is None:
            return _finite(value_of(self.name, *map(float, values)))
        if self.name == "div" and not values[1]:
            raise _NotLinearError
        return Fraction(exact(*values))


def _merged(function: _Function, parts: Sequence[Pieces], horizon: Fraction) -> Pieces:
    """A function of pieces."""
    times: list[Fraction] = []
    at: list[Fraction] = []
    lines: list[_Line] = []
    earlier: tuple[_Line, ...] = ()  # lines of the arguments before
    for begin, end, values, own in _common(parts, horizon):
        cuts = function.cuts(own, begin, end)
        bounds = [begin, *cuts, end]
        if len(times) + len(cuts) > MOST_PIECES:
            raise _NotLinearError
        for k, t in enumerate(bounds[:-1]):
            local = values if k == 0 else tuple(_on(line, t) for line in own)
            line = function.line(own, (t + bounds[k + 1]) / 2)
            if _is_stationary_at(own, local):
                value = line[1]
            elif earlier and _is_stationary_at(earlier, local):
                value = lines[-1][1]
            else:
                value = function.exact(local)
            earlier = own
            if lines and line == lines[-1] and value == _on(line, t):
                continue  # nothing happens at this time
            times.append(t)
            at.append(value)
            lines.append(line)
    return Pieces(tuple(times), tuple(at), tuple(lines))


def _common(
    parts: Sequence[Pieces], horizon: Fraction
) -> Iterator[tuple[Fraction, Fraction, _Values, tuple[_Line, ...]]]:
    """Begin and end of every piece that all share, with values at its begin and lines."""
    times = sorted({t for part in parts for t in part.times})
    places = [-1] * len(parts)
    for begin, end in zip(times, [*times[1:], horizon], strict=True):
        values = []
        for i, part in enumerate(parts):
            k = places[i] + 1
            if k < len(part.times) and part.times[k] == begin:
                places[i] = k
                values.append(part.at[k])
            else:
                values.append(_on(part.lines[places[i]], begin))
        own = tuple(part.lines[k] for part, k in zip(parts, places, strict=True))
        yield begin, end, tuple(values), own


def _line(slope: Fraction, offset: Fraction) -> _Line:
    return slope, offset, 0.0 if slope else float(offset)


def _on(line: _Line, t: Fraction) -> Fraction:
    slope, offset, _ = line
    return slope * t + offset if slope else offset


def _is_stationary_at(lines: Sequence[_Line], values: _Values) -> bool:
    """Return whether lines stand still at these values."""
    return all(
        slope == 0 and offset == v for (slope, offset, _), v in zip(lines, values, strict=True)
    )


def _sum(one: _Line, other: _Line, sign: int) -> _Line:
    return _line(one[0] + sign * other[0], one[1] + sign * other[1])


def _whole(line: _Line, begin: Fraction, end: Fraction) -> Iterator[Fraction]:
    """Times between two at which a line passes whole numbers."""
    slope, offset, _ = line
    if not slope:
        return
    low, high = sorted((_on(line, begin), _on(line, end)))
    first, last = math.floor(low) + 1, math.ceil(high) - 1
    if last - first >= MOST_PIECES:
        raise _NotLinearError
    numbers = range(first, last + 1)
    for number in numbers if slope > 0 else reversed(numbers):
        yield (number - offset) / slope


def _product(lines: Sequence[_Line], *, divided: bool) -> _Line:
    """Product or quotient of two lines, of which one stands still."""
    (a, b, _), (c, d, _) = lines
    if (a and c) or (divided and (c or not d)):
        raise _NotLinearError
    if divided:
        return _line(a / d, b / d)
    return _line(a * d, b * d) if a else _line(c * b, d * b)


def _finite(value: float) -> Fraction:
    if not math.isfinite(value):
        raise _NotLinearError
    return Fraction(value)


_RELATIONS = ("lt", "le", "gt", "ge", "eq", "ne")
_EXACT: Mapping[str, Callable[..., Fraction | int]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "neg": lambda x: -x,
    "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "floor": math.floor, "ceil": math.ceil, "abs": abs, "min": min, "max": max,
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "not": lambda x: not x, "and": lambda x, y: bool(x and y), "or": lambda x, y: bool(x or y),
    "xor": lambda x, y: bool(x) != bool(y), "if": lambda x, y, z: y if x else z,
}  # fmt: skip

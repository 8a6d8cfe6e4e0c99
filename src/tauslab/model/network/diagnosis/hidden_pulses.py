"""Pulses of functions of the time that lie between times at which the functions are computed.

Bounds of a function in an interval, by interval arithmetic (Moore 1966) without rounding outwards,
decide where to look; what is computed there decides.  NaN stands for bounds that are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.model.expressions.array_math import apply
from tauslab.model.expressions.expression import Call, Expression, Number, Symbol, arguments_first

_PARTS = 64  # of what is looked at more closely
_LEVELS = 4  # times that this is done
_MOST = 200  # intervals that are looked at: more are no single pulses
_SEEN = 0.5  # of the range that is seen: what bounds exceed by so much may be a pulse
_BLOCK = 64  # intervals that are looked at together first

Interval = tuple[float, float]
Bounds = tuple[FloatArray, FloatArray]  # least and most [interval]


def hidden_crossings(relation: Call, times: FloatArray) -> tuple[list[Interval], bool]:
    """Intervals in which a relation changes twice or more between two of `times`.

    The second value says whether it may change in others, too short to be found.
    """
    order = arguments_first(relation)
    result: list[Interval] = []
    open_ = _undecided(relation, order, times, result, outermost=True)
    for _ in range(_LEVELS):
        if len(open_) > _MOST:
            return [], False
        closer: list[Interval] = []
        for low, high in open_:
            inside = np.linspace(low, high, _PARTS + 1)
            closer += _undecided(relation, order, inside, result, outermost=False)
        open_ = closer
    return result, bool(open_)


def _undecided(
    relation: Call, order: list[Expression], times: FloatArray, found: list[Interval], *,
    outermost: bool,
) -> list[Interval]:  # fmt: skip
    """Intervals whose ends are on one side, and which may be on both; adds those that change."""
    left, right = map(id, relation.arguments)
    values, bounds = values_of(order, times), bounds_of(order, times)
    with np.errstate(invalid="ignore"):
        side = np.sign(values[left] - values[right])
        both = (bounds[left][0] < bounds[right][1]) & (bounds[left][1] > bounds[right][0])
    changes = side[:-1] != side[1:]
    if not outermost:
        found += [(float(times[k]), float(times[k + 1])) for k in np.flatnonzero(changes)]
    # Beside a change bounds decide nothing: it is seen where it is.
    near = changes.copy()
    near[1:] |= changes[:-1]
    near[:-1] |= changes[1:]
    return [(float(times[k]), float(times[k + 1])) for k in np.flatnonzero(both & ~near)]


def hidden_pulses(tree: Expression, times: FloatArray, values: FloatArray) -> set[float]:
    """Begin and top of each pulse of a smooth function that lies between two of `times`."""
    order = arguments_first(tree)
    result: set[float] = set()
    size = float(np.ptp(values)) if np.isfinite(values).all() else np.inf
    for k in _exceeding(order, times, values, size):
        low, high, start = float(times[k]), float(times[k + 1]), float(values[k])
        for _ in range(_LEVELS):
            inside = np.linspace(low, high, _PARTS + 1)
            seen = values_of(order, inside)[id(tree)]
            top = int(np.argmax(np.abs(seen - start)))
            if abs(seen[top] - start) > _SEEN * size and seen[top] != start:
                result |= {float(times[k]), float(inside[top])}
                break
            closer = _exceeding(order, inside, seen, size)
            if not len(closer):
                break
            low, high = float(inside[closer[0]]), float(inside[closer[0] + 1])
    return result


def _exceeding(
    order: list[Expression], times: FloatArray, values: FloatArray, size: float
) -> list[int]:
    """Numbers of intervals that may hold much more, or less, than is seen at their ends."""
    numbers = np.arange(len(times) - 1)
    if len(numbers) % _BLOCK == 0 and len(numbers) > _BLOCK:
        # Bounds of a block hold those of its intervals; roundings are less than the hundredth.
        least, most = bounds_of(order, times[::_BLOCK])[id(order[-1])]
        with np.errstate(invalid="ignore"):
            narrow = most - least <= (_SEEN - 0.01) * size
        numbers = numbers[np.repeat(~narrow, _BLOCK)]
    if not len(numbers):
        return []
    first, last = values[numbers], values[numbers + 1]
    least, most = bounds_between(order, times[numbers], times[numbers + 1])[id(order[-1])]
    with np.errstate(invalid="ignore"):
        more = np.maximum(most - np.maximum(first, last), np.minimum(first, last) - least)
        exceeds = (more > _SEEN * size) & (more > 0) & (more < np.inf)
    result = numbers[exceeds].tolist()
    return result if len(result) <= _MOST else []


def values_of(order: list[Expression], times: FloatArray) -> dict[int, FloatArray]:
    """Values of each part at times, by its identity; arguments come first."""
    result: dict[int, FloatArray] = {}
    for node in order:
        if isinstance(node, Number):
            result[id(node)] = np.broadcast_to(node.value, times.shape)
        elif isinstance(node, Call):
            result[id(node)] = _quickly(node.function, [result[id(a)] for a in node.arguments])
        else:
            result[id(node)] = times
    return result


def _quickly(function: str, arguments: list[FloatArray]) -> FloatArray:
    """Apply a function as `apply` does, by NumPy, whose last bits do not matter for this search."""
    quick = _QUICK.get(function)
    if quick is None:
        return apply(function, *arguments)
    with np.errstate(all="ignore"):
        return np.asarray(getattr(np, quick)(*arguments), np.float64)


_QUICK = {
    "exp": "exp", "log": "log", "log10": "log10", "cbrt": "cbrt", "pow": "power", "sin": "sin",
    "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asin": "arcsin",
    "acos": "arccos", "atan": "arctan",
}  # fmt: skip


def bounds_of(order: Sequence[Expression], times: FloatArray) -> dict[int, Bounds]:
    """Bounds of each part between every two of `times`, by its identity; arguments come first."""
    return bounds_between(order, times[:-1], times[1:])


def bounds_between(
    order: Sequence[Expression], low: FloatArray, high: FloatArray
) -> dict[int, Bounds]:
    """Bounds of each part in intervals, by its identity; arguments come first."""
    result: dict[int, Bounds] = {}
    unknown = np.full(len(low), np.nan)
    with np.errstate(all="ignore"):
        for node in order:
            if isinstance(node, Symbol):
                result[id(node)] = low, high
            elif isinstance(node, Number):
                result[id(node)] = (np.broadcast_to(node.value, low.shape),) * 2
            else:
                rule = _RULES.get(node.function)
                parts = [result[id(part)] for part in node.arguments]
                result[id(node)] = (unknown, unknown) if rule is None else rule(*parts)
    return result


def _rising(function: Callable[[FloatArray], FloatArray]) -> Callable[[Bounds], Bounds]:
    return lambda x: (function(x[0]), function(x[1]))


def _product(x: Bounds, y: Bounds) -> Bounds:
    corners = np.stack([a * b for a in x for b in y])
    return corners.min(axis=0), corners.max(axis=0)


def _quotient(x: Bounds, y: Bounds) -> Bounds:
    apart = (y[0] > 0) | (y[1] < 0)
    return _product(x, (np.where(apart, 1 / y[1], np.nan), np.where(apart, 1 / y[0], np.nan)))


def _absolute(x: Bounds) -> Bounds:
    least, most = np.minimum(*map(np.abs, x)), np.maximum(*map(np.abs, x))
    return np.where((x[0] <= 0) & (x[1] >= 0), 0.0, least), most


def _power(x: Bounds, y: Bounds) -> Bounds:
    power = float(y[0][0])
    if not (np.all(y[0] == power) and np.all(y[1] == power)) or power != int(power) or power < 0:
        return _exponential(_product(y, (_log(x[0]), _log(x[1]))))
    if power % 2 == 0:
        x = _absolute(x)
    return x[0] ** power, x[1] ** power


def _sine(x: Bounds) -> Bounds:
    """Return bounds of the sine in intervals that may hold a maximum or a minimum."""
    ends = np.sin(x[0]), np.sin(x[1])

    def holds(where: float) -> npt.NDArray[np.bool_]:
        turn = 2 * np.pi
        return np.floor((x[1] - where) / turn) > np.floor((x[0] - where) / turn)

    least = np.where(holds(-np.pi / 2), -1.0, np.minimum(*ends))
    return least, np.where(holds(np.pi / 2), 1.0, np.maximum(*ends))


def _log(x: FloatArray) -> FloatArray:
    return np.where(x > 0, np.log(x), np.nan)


_exponential = _rising(np.exp)
_RULES: Mapping[str, Callable[..., Bounds]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "neg": lambda x: (-x[1], -x[0]),
    "mul": _product, "div": _quotient, "pow": _power, "abs": _absolute, "sin": _sine,
    "cos": lambda x: _sine((x[0] + np.pi / 2, x[1] + np.pi / 2)),
    "min": lambda x, y: (np.minimum(x[0], y[0]), np.minimum(x[1], y[1])),
    "max": lambda x, y: (np.maximum(x[0], y[0]), np.maximum(x[1], y[1])),
    "exp": _exponential, "log": _rising(_log), "floor": _rising(np.floor), "ceil": _rising(np.ceil),
    "sqrt": _rising(np.sqrt), "cbrt": _rising(np.cbrt), "atan": _rising(np.arctan),
    "sinh": _rising(np.sinh), "tanh": _rising(np.tanh), "asin": _rising(np.arcsin),
    "log10": _rising(lambda x: _log(x) / np.log(10.0)),
}  # fmt: skip

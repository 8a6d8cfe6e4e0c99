"""Bounds of functions of the time within intervals: what may happen between times that are seen.

Interval arithmetic (Moore 1966), without rounding outwards: bounds decide where to look, and what
is seen there decides. NaN stands for bounds that are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.model.expressions.expression import Expression, Number, Symbol

Bounds = tuple[FloatArray, FloatArray]  # least and most [interval]


def bounds_of(order: Sequence[Expression], times: FloatArray) -> dict[int, Bounds]:
    """Bounds of each part between every two of `times`, by its identity; arguments come first."""
    found: dict[int, Bounds] = {}
    unknown = np.full(len(times) - 1, np.nan)
    with np.errstate(all="ignore"):
        for node in order:
            if isinstance(node, Symbol):
                found[id(node)] = times[:-1], times[1:]
            elif isinstance(node, Number):
                found[id(node)] = (np.full_like(unknown, node.value),) * 2
            else:
                rule = _RULES.get(node.function)
                parts = [found[id(part)] for part in node.arguments]
                found[id(node)] = (unknown, unknown) if rule is None else rule(*parts)
    return found


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
    """Of intervals in which a hill or a valley may lie."""
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

"""Functions of expressions on arrays, with the same bits on every machine.

NumPy picks an implementation by the processor, and those of `exp`, `log`, `power` and the
like round differently; which zero its `minimum` gives, it leaves open. Taken from NumPy is only
what IEEE 754 fixes; the rest is what `host_math` says, once for equal arguments. That is the exact
value, rounded once, so where `longdouble` leaves no doubt of the rounding it need not be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray, FloatArray
from tauslab.model.expressions.expression import Expression, Number, Symbol, bottom_up
from tauslab.model.expressions.host_math import value_of


def evaluate_rows(tree: Expression, rows: int, column: Callable[[str], FloatArray]) -> FloatArray:
    """Value f64 ``[rows]`` of an expression; `column` gives those of a name.

    >>> from tauslab.model.expressions.infix import parse
    >>> evaluate_rows(parse("2 * x + 1"), 2, lambda name: np.array([0.0, 3.0])).tolist()
    [1.0, 7.0]
    """

    def part(node: Expression, arguments: list[FloatArray]) -> FloatArray:
        if isinstance(node, Number):
            return np.full(rows, node.value)
        return column(node.name) if isinstance(node, Symbol) else apply(node.function, *arguments)

    return bottom_up(tree, part)


def apply(function: str, *arguments: npt.ArrayLike) -> FloatArray:
    """One of the functions of expressions, element by element.

    Arguments are broadcast against each other; comparisons and logical functions give 1 and 0.
    """
    arrays = np.broadcast_arrays(*(np.asarray(a, np.float64) for a in arguments))
    with np.errstate(all="ignore"):  # infinities and NaN mean what they mean in a kernel
        return elementwise(function)(*arrays)


def elementwise(function: str) -> Callable[..., FloatArray]:
    """`apply` of one function to arrays f64, where the caller silences NumPy's warnings."""
    of_ieee = _OF_IEEE.get(function)
    if of_ieee is None:
        return partial(_one_by_one, function)
    return lambda *arrays: np.asarray(of_ieee(*arrays), np.float64)


def _one_by_one(function: str, *given: FloatArray) -> FloatArray:
    # Compared as bits: zeros have signs.
    arrays = np.broadcast_arrays(*given)
    bits = np.stack([array.ravel() for array in arrays], axis=1).view(np.int64)
    result, where = np.unique(bits, axis=0, return_inverse=True)
    rows = result.view(np.float64)
    values, sure = _rounded_surely(function, rows)
    for place in np.flatnonzero(~sure).tolist():
        values[place] = value_of(function, *rows[place].tolist())
    return values[where.ravel()].reshape(arrays[0].shape)


def _rounded_surely(function: str, rows: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Values of arguments ``[row, argument]``, and where all numbers near them round to them."""
    wider = _WIDER.get(function) if np.finfo(np.longdouble).nmant > _BITS else None
    if wider is None:
        return np.empty(len(rows)), np.zeros(len(rows), bool)
    value = wider(*rows.astype(np.longdouble).T)
    near = value * np.longdouble(2.0**-_BITS)
    values = value.astype(np.float64)
    sure = (value - near).astype(np.float64) == (value + near).astype(np.float64)
    return values, sure & (np.abs(values) > _LEAST) & (np.abs(values) < 1 / _LEAST)


def _smaller(a: FloatArray, b: FloatArray) -> FloatArray:
    least = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, least)


# Their errors are a few units in the last place of a `longdouble`.
_WIDER: Mapping[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "log10": np.log10, "pow": np.power, "cbrt": np.cbrt,
}  # fmt: skip
_BITS = 60  # of values of `_WIDER` that are right; an x86 processor has 63
_LEAST = 1e-290  # below it doubles have fewer digits
_OF_IEEE: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "sqrt": np.sqrt, "abs": np.abs, "floor": np.floor, "ceil": np.ceil,
    "min": _smaller, "max": lambda a, b: -_smaller(-a, -b),
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not,
    "if": np.where,
}  # fmt: skip

"""Observable and noise formulas of PEtab, evaluated for arrays."""

from __future__ import annotations

import contextlib
import importlib
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ModelError, reason_of

_LONGEST = 20_000  # characters of a formula
_BOUNDED: Mapping[str, Callable[..., Any]] = {
    "Add": lambda *parts: math.fsum(parts),
    "Mul": lambda *parts: math.prod(parts),
    "Pow": operator.pow,
    "exp": math.exp, "sinh": math.sinh, "cosh": math.cosh,
}  # fmt: skip
_PLACEHOLDER = re.compile(r"(observable|noise)Parameter(\d+)_(\w+)")


@dataclass(frozen=True)
class PetabFormula:
    """A formula of names, made for arrays."""

    names: tuple[str, ...]
    function: Callable[..., Any]

    def __call__(self, known: Mapping[str, FloatArray], shape: tuple[int, ...]) -> FloatArray:
        """Values of `shape` at values of the names that broadcast to it."""
        with np.errstate(all="ignore"):
            result = self.function(*(known[name] for name in self.names))
        return np.broadcast_to(np.asarray(result, np.float64), shape)


def formula(text: str, where: str) -> PetabFormula:
    """Read a formula in PEtab's notation.

    Parameters
    ----------
    text
        The formula.
    where
        Its place, for messages.

    Raises
    ------
    ModelError
        It is no formula.
    """
    sympy = importlib.import_module("sympy")
    tree = _tree(text, where)
    if tree.has(sympy.I, sympy.zoo, sympy.nan):
        raise ModelError(f"{where}: {text!r} has no value")
    symbols = sorted(tree.free_symbols, key=lambda symbol: str(symbol.name))
    names = tuple(str(symbol.name) for symbol in symbols)
    return PetabFormula(names, sympy.lambdify(symbols, tree, "numpy"))


def require_bounded(text: str, where: str) -> None:
    """Refuse a formula of numbers that no double holds: sympy would write out all their digits.

    Raises
    ------
    ModelError
        As `formula`; or it is longer than anybody writes.
    """
    if len(text) > _LONGEST:
        raise ModelError(f"{where}: has {len(text)} characters; {_LONGEST} is the limit")
    with contextlib.suppress(RecursionError):  # which petab reports
        _value(_tree(text, where, evaluate=False), where)


def _tree(text: str, where: str, *, evaluate: bool = True) -> Any:
    sympify = importlib.import_module("petab.v1.math").sympify_petab
    try:
        return sympify(text, evaluate=evaluate)
    except Exception as error:  # noqa: BLE001 - what the grammar raises has no common class
        raise ModelError(f"{where}: {text[:200]!r} is no formula: {reason_of(error)}") from None


def _value(tree: Any, where: str) -> float | None:
    """Value of a tree of numbers alone as sums, products, powers and exp give it; else None."""
    parts = [_value(part, where) for part in tree.args]
    if tree.is_Number:
        return float(tree)
    how = _BOUNDED.get(type(tree).__name__)
    if how is None or any(part is None for part in parts):
        return None
    try:
        result: Any = how(*(part for part in parts if part is not None))
    except OverflowError:
        result = math.inf
    except (ValueError, ZeroDivisionError):
        return None  # sympy says what it is
    if isinstance(result, complex) or math.isnan(result):
        return None
    if math.isinf(result):
        raise ModelError(f"{where}: a number in it is larger than any double")
    return float(result)


def placeholder(name: str) -> tuple[str, int] | None:
    """``observableParameter2_A`` as ("observable", 1), None for other names."""
    match = _PLACEHOLDER.fullmatch(name)
    return None if match is None else (match[1], int(match[2]) - 1)

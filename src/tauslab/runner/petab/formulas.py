"""Observable and noise formulas of PEtab, evaluated for arrays."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.model.arrays import FloatArray
from tauslab.model.errors import ModelError, reason_of

_PLACEHOLDER = re.compile(r"(observable|noise)Parameter(\d+)_(\w+)")


@dataclass(frozen=True)
class Formula:
    """A formula of names, made for arrays."""

    names: tuple[str, ...]
    function: Callable[..., Any]

    def __call__(self, known: Mapping[str, FloatArray], shape: tuple[int, ...]) -> FloatArray:
        """Values of `shape` at values of the names that broadcast to it."""
        with np.errstate(all="ignore"):
            found = self.function(*(known[name] for name in self.names))
        return np.broadcast_to(np.asarray(found, np.float64), shape)


def formula(text: str, where: str) -> Formula:
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
    sympify = importlib.import_module("petab.v1.math").sympify_petab
    try:
        tree = sympify(text)
    except Exception as error:  # noqa: BLE001 - what the grammar raises has no common class
        raise ModelError(f"{where}: {text!r} is no formula: {reason_of(error)}") from None
    if tree.has(sympy.I, sympy.zoo, sympy.nan):
        raise ModelError(f"{where}: {text!r} has no value")
    symbols = sorted(tree.free_symbols, key=lambda symbol: str(symbol.name))
    names = tuple(str(symbol.name) for symbol in symbols)
    return Formula(names, sympy.lambdify(symbols, tree, "numpy"))


def placeholder(name: str) -> tuple[str, int] | None:
    """``observableParameter2_A`` as ("observable", 1), None for other names."""
    match = _PLACEHOLDER.fullmatch(name)
    return None if match is None else (match[1], int(match[2]) - 1)

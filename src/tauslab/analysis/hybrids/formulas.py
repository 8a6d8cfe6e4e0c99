"""Formulas of many links, evaluated together: those of one shape as one operation on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tauslab.analysis.hybrids.ledger import Columns, blocks, columns_of
from tauslab.analysis.hybrids.links import Formula, Quantity
from tauslab.base.arrays import FloatArray
from tauslab.model.expressions.array_math import elementwise
from tauslab.model.expressions.expression import Call, Symbol, arguments_first


@dataclass(frozen=True)
class _Take:
    columns: Columns


@dataclass(frozen=True)
class _Operation:
    function: Callable[..., FloatArray]
    arguments: tuple[int, ...]  # numbers of earlier steps


_Step: TypeAlias = FloatArray | _Take | _Operation


class Formulas:
    """Values of formulas, of columns of one table of quantities.

    Parameters
    ----------
    formulas
        In the order of the columns of values.
    places
        Column of each quantity in the table.
    n
        Number of cells.
    """

    def __init__(self, formulas: Sequence[Formula], places: Mapping[Quantity, int], n: int) -> None:
        self._size = n, len(formulas)
        shapes: dict[Any, list[tuple[int, list[Any]]]] = {}
        for number, one in enumerate(formulas):
            shape, leaves = _decomposed(one, places)
            shapes.setdefault(shape, []).append((number, leaves))
        self._batches = [
            (columns_of([number for number, _ in alike]), _steps(shape, alike, n))
            for shape, alike in shapes.items()
        ]

    def evaluate(self, table: FloatArray) -> FloatArray:
        """Values f64 ``[cell, formula]`` of quantities ``[cell, quantity]``."""
        result = np.empty(self._size)
        with np.errstate(all="ignore"):  # infinities and NaN mean what they mean in a kernel
            for rows in blocks(*self._size):
                for where, steps in self._batches:
                    result[rows, where] = _evaluated(steps, table, rows)
        return result


def taken(table: FloatArray, columns: Columns) -> FloatArray:
    """Columns ``[cell, column]`` of a table."""
    if isinstance(columns, slice):
        return table[:, columns]
    return np.take(table, columns, axis=1)


def _decomposed(formula: Formula, places: Mapping[Quantity, int]) -> tuple[Any, list[Any]]:
    """The shape of a formula, and its numbers and columns in the order of the shape."""
    shape: list[Any] = []
    leaves: list[Any] = []
    order: dict[int, int] = {}
    for node in arguments_first(formula.tree):
        order[id(node)] = len(shape)
        if isinstance(node, Call):
            shape.append((node.function, *(order[id(one)] for one in node.arguments)))
        elif isinstance(node, Symbol) and node.name in formula.quantities:
            shape.append("quantity")
            leaves.append(places[formula.quantities[node.name]])
        else:
            shape.append("number")
            leaves.append(formula.numbers[node.name] if isinstance(node, Symbol) else node.value)
    return tuple(shape), leaves


def _steps(shape: Any, alike: Sequence[tuple[int, list[Any]]], n: int) -> list[_Step]:
    """Steps that compute formulas of one shape; what follows from numbers alone is computed."""
    leaves = iter(zip(*(own for _, own in alike), strict=True))
    steps: list[_Step] = []
    for kind in shape:
        if kind == "number":
            steps.append(_numbers(next(leaves), n))
        elif kind == "quantity":
            columns = next(leaves)
            one = len(set(columns)) == 1
            steps.append(_Take(columns_of(columns[:1] if one else columns)))
        else:
            made = _Operation(elementwise(kind[0]), kind[1:])
            known = [a for i in made.arguments if isinstance(a := steps[i], np.ndarray)]
            with np.errstate(all="ignore"):
                all_known = len(known) == len(made.arguments)
                steps.append(made.function(*known) if all_known else made)
    return steps


def _numbers(values: Sequence[Any], n: int) -> FloatArray:
    """Numbers ``[1 or cell, 1 or formula]``, each one for all cells or ``[cell]``."""
    if all(np.size(one) == 1 for one in values):
        row = np.array([float(np.asarray(one).item()) for one in values])
        same = (row.view(np.int64) == row[:1].view(np.int64)).all()
        return row[None, :1] if same else row[None]
    each = [np.broadcast_to(one[:n] if np.size(one) > 1 else one, (n,)) for one in values]
    return np.stack(each, axis=1)


def _evaluated(steps: Sequence[_Step], table: FloatArray, rows: slice) -> FloatArray:
    values: list[FloatArray] = []
    for step in steps:
        if isinstance(step, _Operation):
            values.append(step.function(*(values[i] for i in step.arguments)))
        elif isinstance(step, _Take):
            values.append(taken(table[rows], step.columns))
        else:
            values.append(step if len(step) == 1 else step[rows])
    return values[-1]

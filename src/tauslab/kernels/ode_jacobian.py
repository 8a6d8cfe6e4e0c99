"""Derivatives of rates by variables and by the time, and the elimination that solves with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tauslab.kernels.ode_graph import COMPARISONS, LOGIC, RUNNING, Graph
from tauslab.kernels.ode_lowering import OdeSystem
from tauslab.model.expression import Expression, Number, Symbol, parse

_STEPS = (*COMPARISONS, *LOGIC, "floor", "ceil")  # derivatives are zero almost everywhere


class Differentiator:
    """Derivatives of nodes of a graph; by variable number, and by the time as number `time`."""

    def __init__(self, graph: Graph, variables: int) -> None:
        self.graph, self.time = graph, variables
        self._reads: dict[int, int] = {}
        self._found: dict[tuple[int, int], int | None] = {}

    def reads(self, node: int) -> int:
        """Which variables a node depends on, a bit for each; the time is the highest."""
        for n in self.graph.reached([node]):
            if n not in self._reads:
                own = self.graph.nodes[n]
                bits = 1 << own.index if own.kind == "variable" else 0
                bits |= 1 << self.time if own.kind == "time" else 0
                for argument in own.arguments:
                    bits |= self._reads.get(argument, 0)
                self._reads[n] = bits
        return self._reads.get(node, 0)

    def by(self, node: int, variable: int) -> int | None:
        """The derivative, None where it is zero for its form."""
        if not self.reads(node) >> variable & 1:
            return None
        key = (node, variable)
        if key not in self._found:
            self._found[key] = self._derive(node, variable)
        return self._found[key]

    def _derive(self, node: int, variable: int) -> int | None:
        graph = self.graph
        kind, arguments = graph.nodes[node].kind, graph.nodes[node].arguments
        if kind in ("variable", "time"):
            return graph.number(1.0)
        if kind in _STEPS:
            return None
        if kind in ("if", "min", "max"):
            return self._chosen(kind, arguments, variable)
        parts = [
            (a, inner, place)
            for place, a in enumerate(arguments)
            if (inner := self.by(a, variable)) is not None
        ]
        total: int | None = None
        for _, inner, place in parts:
            factor = self._outer(node, kind, arguments, place)
            term = graph.apply("mul", factor, inner)
            total = term if total is None else graph.apply("add", total, term)
        return total

    def _chosen(self, kind: str, arguments: Sequence[int], variable: int) -> int:
        """Of a choice, that of what is chosen."""
        graph = self.graph
        if kind == "if":
            test, yes, no = arguments
        else:
            yes, no = arguments
            test = graph.apply("lt" if kind == "min" else "gt", yes, no)
        zero = graph.number(0.0)
        derived = [self.by(a, variable) for a in (yes, no)]
        return graph.apply("if", test, *(zero if d is None else d for d in derived))

    def _outer(self, node: int, kind: str, arguments: Sequence[int], place: int) -> int:
        """Derivative of a function by its argument number `place`."""
        graph, apply = self.graph, self.graph.apply
        one = graph.number(1.0)
        if kind in ("add", "sub", "neg"):
            return one if kind == "add" or (kind == "sub" and place == 0) else graph.number(-1.0)
        if kind == "mul":
            return arguments[1 - place]
        if kind == "div":
            inverse = apply("div", one, arguments[1])
            return inverse if place == 0 else apply("neg", apply("mul", node, inverse))
        if kind == "pow":
            base, power = arguments
            if place == 1:
                slope = apply("mul", node, apply("log", base))
            else:
                slope = apply("mul", power, apply("pow", base, apply("sub", power, one)))
            exponent = graph.value_of(power)
            if place == 0 and exponent is not None and exponent >= 1:
                return slope
            # At 0 the slope may be infinite, as that of a root: there a step has none.
            return apply("if", apply("eq", base, graph.number(0.0)), graph.number(0.0), slope)
        return self._build(_DERIVATIVES[kind], {"a": arguments[0], "y": node})

    def _build(self, tree: Expression, names: Mapping[str, int]) -> int:
        if isinstance(tree, Number):
            return self.graph.number(tree.value)
        if isinstance(tree, Symbol):
            return names[tree.name]
        return self.graph.apply(tree.function, *(self._build(a, names) for a in tree.arguments))


# Of a function f(a) = y: its derivative by a; of roots at 0, where it is infinite, none.
_DERIVATIVES = {
    name: parse(text)
    for name, text in {
        "exp": "y", "log": "1 / a", "log10": "0.4342944819032518 / a",
        "sqrt": "if(y == 0, 0, 0.5 / y)", "cbrt": "if(y == 0, 0, 1 / (3 * y * y))",
        "abs": "if(a < 0, -1, 1)", "sin": "cos(a)", "cos": "-sin(a)",
        "tan": "1 + y * y", "asin": "1 / sqrt(1 - a * a)", "acos": "-1 / sqrt(1 - a * a)",
        "reciprocal": "-y * y",
        "atan": "1 / (1 + a * a)", "sinh": "cosh(a)", "cosh": "sinh(a)", "tanh": "1 - y * y",
    }.items()
}  # fmt: skip


@dataclass(frozen=True)
class Jacobian:
    """Entries that are not zero for their form: row, column and node of each; and by the time."""

    size: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    nodes: tuple[int, ...]
    by_time: tuple[tuple[int, int], ...]

    @cached_property
    def elimination(self) -> Elimination:
        """How to solve with identity minus this."""
        return eliminate(self.size, list(zip(self.rows, self.columns, strict=True)))


def jacobian(system: OdeSystem) -> Jacobian:
    """Derivatives of all rates; nodes are added to the system's graph."""
    size, found = len(system.variables), []
    differentiate = Differentiator(system.graph, size)
    by_time = []
    for row, rate in enumerate(system.rates):
        reads = differentiate.reads(rate) if system.graph.stages[rate] == RUNNING else 0
        for column in range(size + 1):
            node = differentiate.by(rate, column) if reads >> column & 1 else None
            if node is not None and column < size:
                found.append((row, column, node))
            elif node is not None:
                by_time.append((row, node))
    rows, columns, nodes = zip(*found, strict=True) if found else ((), (), ())
    return Jacobian(size, tuple(rows), tuple(columns), tuple(nodes), tuple(by_time))


@dataclass(frozen=True)
class Elimination:
    """Gaussian elimination of a sparse matrix without exchange of pivots, as tables.

    The matrix has `cells` cells, those that fill up on the way included; `source` i32 ``[cells]``
    is the entry of the Jacobian that a cell starts from, or -1; `diagonal` i32 ``[size]`` the cell
    of each pivot. `steps` i32 holds for each pivot in turn: its variable, its cell, how many rows
    below and columns beside it, then rows and cells, then columns and cells, then the cell of each
    row at each column; `starts` i32 ``[size]`` says where each begins.
    """

    cells: int
    source: npt.NDArray[np.int32]
    diagonal: npt.NDArray[np.int32]
    steps: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]


def eliminate(size: int, entries: Sequence[tuple[int, int]]) -> Elimination:
    """Order pivots so that little fills up (Markowitz 1957), and write the elimination down."""
    cell = {pair: k for k, pair in enumerate(dict.fromkeys(entries))}
    source = [entries.index(pair) for pair in cell]
    for i in range(size):
        cell.setdefault((i, i), len(cell))
    source += [-1] * (len(cell) - len(source))
    below: list[set[int]] = [set() for _ in range(size)]  # of a column, rows that are left
    beside: list[set[int]] = [set() for _ in range(size)]
    for row, column in cell:
        if row != column:
            below[column].add(row)
            beside[row].add(column)
    left, steps, starts = set(range(size)), list[int](), list[int]()
    while left:
        pivot = min(left, key=lambda k: (len(below[k]) * len(beside[k]), k))
        left.remove(pivot)
        rows, columns = sorted(below[pivot]), sorted(beside[pivot])
        for row in rows:
            beside[row].discard(pivot)
            for column in columns:
                cell.setdefault((row, column), len(cell))
                if row != column:
                    beside[row].add(column)
                    below[column].add(row)
        for column in columns:
            below[column].discard(pivot)
        starts.append(len(steps))
        steps += [pivot, cell[pivot, pivot], len(rows), len(columns)]
        steps += [n for row in rows for n in (row, cell[row, pivot])]
        steps += [n for column in columns for n in (column, cell[pivot, column])]
        steps += [cell[row, column] for row in rows for column in columns]
    source += [-1] * (len(cell) - len(source))
    diagonal = [cell[i, i] for i in range(size)]
    tables = (np.array(t, np.int32) for t in (source, diagonal, steps, starts))
    return Elimination(len(cell), *tables)

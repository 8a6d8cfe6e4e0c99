"""Derivatives of rates by variables and by the time, and the elimination that solves with them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tauslab.kernels.ode.graph import COMPARISONS, LOGIC, RUNNING, ExpressionGraph
from tauslab.kernels.ode.lowering import OdeSystem
from tauslab.model.expressions.derivative import OUTER_DERIVATIVES
from tauslab.model.expressions.expression import Expression, Number, Symbol
from tauslab.model.expressions.infix import parse

AnyIntArray = npt.NDArray[np.integer]

_SUMS = ("add", "sub", "neg", "ago")
_STEPS = (
    *COMPARISONS,
    *LOGIC,
    "floor",
    "ceil",
    "before",
    "past_slope",
)  # derivatives are zero almost everywhere


class Differentiator:
    """Derivatives of nodes of a graph; by variable number, and by the time as number `time`.

    Sums are taken apart into their terms, so that one of many terms costs as much as it is long.
    """

    def __init__(self, graph: ExpressionGraph, variables: int, outputs: Sequence[int]) -> None:
        self.graph, self.time = graph, variables
        self._found: dict[int, dict[int, int]] = {}
        users = Counter(a for n in graph.reached(list(outputs)) for a in graph.nodes[n].arguments)
        self._shared = {node for node, count in users.items() if count > 1} | set(outputs)

    def of(self, node: int) -> dict[int, int]:
        """Derivatives by variable; those that are zero for their form are left out."""
        stack = [node]
        while stack:
            top = stack[-1]
            if top in self._found:
                stack.pop()
                continue
            needed = [n for n in self._read(top) if n not in self._found]
            if needed:
                stack.extend(needed)
            else:
                self._found[top] = dict(sorted(self._derive(top).items()))
        return self._found[node]

    def _read(self, node: int) -> list[int]:
        """Nodes whose derivatives those of a node are made of."""
        own = self.graph.nodes[node]
        if self.graph.stages[node] < RUNNING or is_step(own.kind):
            return []
        if own.kind in _SUMS:
            return [term for _, term in self._terms(node)]
        return list(own.arguments[1:] if own.kind == "if" else own.arguments)

    def _terms(self, node: int) -> list[tuple[bool, int]]:
        """Terms that a sum adds and (True) subtracts, in order; shared sums are terms."""
        graph, result, stack = self.graph, list[tuple[bool, int]](), [(False, node)]
        while stack:
            minus, top = stack.pop()
            kind, arguments = graph.nodes[top].kind, graph.nodes[top].arguments
            if kind not in _SUMS or (top != node and top in self._shared):
                result.append((minus, top))
                continue
            signs = [minus] * len(arguments)
            signs[-1] ^= kind != "add"
            stack.extend(reversed(list(zip(signs, arguments, strict=True))))
        return result

    def _derive(self, node: int) -> dict[int, int]:
        graph, own = self.graph, self.graph.nodes[node]
        if own.kind == "variable":
            return {own.index: graph.number(1.0)}
        if own.kind == "time":
            return {self.time: graph.number(1.0)}
        if graph.stages[node] < RUNNING or is_step(own.kind):
            return {}
        total: dict[int, int] = {}
        if own.kind in _SUMS:
            for minus, term in self._terms(node):
                for variable, inner in self._found[term].items():
                    if variable in total:
                        kind = "sub" if minus else "add"
                        total[variable] = graph.apply(kind, total[variable], inner)
                    else:
                        total[variable] = graph.apply("neg", inner) if minus else inner
            return total
        if own.kind in ("if", "min", "max"):
            return self._chosen(own.kind, own.arguments)
        for place, argument in enumerate(own.arguments):
            if not self._found[argument]:
                continue
            factor = self._outer(node, own.kind, own.arguments, place)
            for variable, inner in self._found[argument].items():
                term = graph.apply("mul", factor, inner)
                before = total.get(variable)
                total[variable] = term if before is None else graph.apply("add", before, term)
        return total

    def _chosen(self, kind: str, arguments: Sequence[int]) -> dict[int, int]:
        """Derivatives of a choice: those of the branch that is chosen."""
        graph = self.graph
        if kind == "if":
            test, yes, no = arguments
        else:
            yes, no = arguments
            test = graph.apply("lt" if kind == "min" else "gt", yes, no)
        zero = graph.number(0.0)
        first, second = self._found[yes], self._found[no]
        return {
            variable: graph.apply("if", test, first.get(variable, zero), second.get(variable, zero))
            for variable in sorted({*first, *second})
        }

    def _outer(self, node: int, kind: str, arguments: Sequence[int], place: int) -> int:
        """Derivative of a function by its argument number `place`."""
        graph, apply = self.graph, self.graph.apply
        one = graph.number(1.0)
        if kind.startswith("past:"):
            ago, _ = arguments
            if place == 0:
                return apply(kind.replace("past:", "past_slope:"), ago)
            # Without a delay it is what the variable is now.
            return apply("if", apply("ge", ago, graph.time()), one, graph.number(0.0))
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


def is_step(kind: str) -> bool:
    """Return whether the derivative of a function is zero almost everywhere, or not needed."""
    return kind.partition(":")[0] in _STEPS


# `reciprocal` is a function of graphs alone.
_DERIVATIVES = {**OUTER_DERIVATIVES, "reciprocal": parse("-y * y")}


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
        """The elimination that solves with identity minus this."""
        return eliminate(self.size, list(zip(self.rows, self.columns, strict=True)))


def jacobian(system: OdeSystem) -> Jacobian:
    """Derivatives of all rates; nodes are added to the system's graph."""
    size, result = len(system.variables), []
    differentiate = Differentiator(system.graph, size, system.rates)
    by_time = []
    for row, rate in enumerate(system.rates):
        for column, node in differentiate.of(rate).items():
            if column < size:
                result.append((row, column, node))
            else:
                by_time.append((row, node))
    rows, columns, nodes = zip(*result, strict=True) if result else ((), (), ())
    return Jacobian(size, tuple(rows), tuple(columns), tuple(nodes), tuple(by_time))


@dataclass(frozen=True)
class Elimination:
    """Gaussian elimination of a sparse matrix without exchange of pivots, as tables.

    Rows stand in the order of their pivots, `order` i32 ``[size]`` gives the variable of each. The
    matrix has `cells` cells, those that fill up on the way included, row by row: `starts` i32
    ``[size + 1]`` cuts them into rows, `columns` i32 ``[cells]`` are the columns, as pivots, in
    increasing order, `lower` i32 ``[size]`` counts those below the diagonal of each row. `source`
    i32 ``[cells]`` is the entry of the Jacobian that a cell starts from, or -1. `operations` are
    the multiplications of an elimination.
    """

    cells: int
    source: AnyIntArray
    columns: AnyIntArray
    starts: AnyIntArray
    lower: AnyIntArray
    order: AnyIntArray
    operations: int


def eliminate(size: int, entries: Sequence[tuple[int, int]]) -> Elimination:
    """Order pivots so that little fills up (Markowitz 1957), and write the elimination down.

    Rows and columns that are left are sets of bits in integers: to fill up is to join two.
    """
    beside, below = [1 << i for i in range(size)], [1 << i for i in range(size)]
    for row, column in entries:
        beside[row] |= 1 << column
        below[column] |= 1 << row
    left = (1 << size) - 1
    queue = [(_fill(below[i], beside[i]), i) for i in range(size)]
    heapq.heapify(queue)
    order: list[int] = []
    patterns = list(beside)  # of rows of both factors, by variable
    operations = 0
    while queue:
        cost, pivot = heapq.heappop(queue)
        if not left >> pivot & 1 or cost != _fill(below[pivot], beside[pivot]):
            continue  # it was put in again when its cost changed
        order.append(pivot)
        left ^= 1 << pivot
        rows, columns = below[pivot] & left, beside[pivot] & left
        operations += rows.bit_count() * (1 + columns.bit_count())
        row_list, column_list = _bits(rows).tolist(), _bits(columns).tolist()
        for row in row_list:
            patterns[row] |= columns
            beside[row] = (beside[row] | columns) & left
        for column in column_list:
            below[column] = (below[column] | rows) & left
        for row in row_list:
            below[row] &= left
        for column in column_list:
            beside[column] &= left
        for k in _bits(rows | columns).tolist():
            heapq.heappush(queue, (_fill(below[k], beside[k]), k))
    return _written(order, patterns, entries, operations)


def _written(
    order: list[int], patterns: list[int], entries: Sequence[tuple[int, int]], operations: int
) -> Elimination:
    """The tables of an elimination in this order; `patterns` are the cells of rows as bits."""
    size = len(order)
    place = np.empty(size, np.int64)
    place[order] = np.arange(size)
    rows = [np.sort(place[_bits(patterns[variable])]) for variable in order]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    columns = np.concatenate([*rows, np.empty(0, np.int64)])
    lower = np.array([np.searchsorted(row, i) for i, row in enumerate(rows)], np.int32)
    source = np.full(len(columns), -1, np.int32)
    if entries:
        pairs = np.array(entries, np.int64)
        keys = np.repeat(np.arange(size), np.diff(starts)) * size + columns
        wanted = place[pairs[:, 0]] * size + place[pairs[:, 1]]
        source[np.searchsorted(keys, wanted)] = np.arange(len(entries))
    return Elimination(
        len(columns), source, columns.astype(np.int32), starts, lower, np.array(order, np.int32),
        operations,
    )  # fmt: skip


def _fill(below: int, beside: int) -> int:
    """Markowitz's cost of a pivot: other rows times other columns; both hold the pivot."""
    return (below.bit_count() - 1) * (beside.bit_count() - 1)


def _bits(word: int) -> AnyIntArray:
    """Numbers of the bits that are set, in increasing order."""
    raw = np.frombuffer(word.to_bytes(word.bit_length() // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little"))

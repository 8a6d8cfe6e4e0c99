"""Relations that the time enters linearly, ``t1 - time <= 0``, as relations of the time itself.

Where all else in such a relation stands still, it changes at one time, which is known before it
comes. A kernel that compares the time with that number, and stops there, has it exactly; it would
not if it computed ``t1 - time`` and rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    bottom_up,
    call,
    draws_in,
    looks_back,
    outermost,
    symbols,
    with_arguments,
)
from tauslab.model.expressions.host_math import evaluate

TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_TIME = Symbol("time")
STEPS = frozenset((*TURNED, "floor", "ceil"))  # jump, where what they are made of does not
_Linear = tuple[float, Expression]  # slope, rest


@dataclass(frozen=True)
class Relation:
    """``time <function> change``."""

    function: str
    change: Expression


def relation_of(tree: Expression) -> Relation | None:
    """A relation in which the time is linear, with a slope that is a number; None for the rest."""
    if not isinstance(tree, Call) or tree.function not in TURNED or "time" not in symbols(tree):
        return None
    sides = [bottom_up(side, _linear_part) for side in tree.arguments]
    if sides[0] is None or sides[1] is None:
        return None
    (slope, left), (other, right) = sides[0], sides[1]
    slope -= other
    if slope == 0 or looks_back(left) or looks_back(right):
        return None
    function = tree.function if slope > 0 else TURNED[tree.function]
    change = minus(right, left) if slope > 0 else minus(left, right)
    return Relation(
        function, change if abs(slope) == 1 else folded(call("div", change, abs(slope)))
    )


def is_step_of_time(tree: Expression) -> bool:
    """Return whether it jumps by the time, not linearly, so that only a search finds when."""
    return (
        isinstance(tree, Call)
        and tree.function in STEPS
        and "time" in symbols(tree)
        and relation_of(tree) is None
    )


@dataclass
class Switches:
    """Rewrites relations of the time, and collects when they change.

    Parameters
    ----------
    still
        Whether a change, an expression without the time, stands still between the times at which
        it is computed again; other relations stay as they are.
    """

    still: Callable[[Expression], bool]
    changes: list[Expression] = field(default_factory=list)

    def rewritten(self, tree: Expression) -> Expression:
        """The tree with every such relation as ``time <function> change``."""
        if "time" not in symbols(tree):
            return tree
        return bottom_up(tree, self._part)

    def _part(self, node: Expression, parts: list[Expression]) -> Expression:
        relation = relation_of(node)
        if relation is None or not self.still(relation.change):
            return with_arguments(node, parts)
        if relation.change not in self.changes:
            self.changes.append(relation.change)
        return call(relation.function, _TIME, relation.change)


def is_stepwise(trees: Iterable[Expression]) -> bool:
    """Return whether the time enters all by linear relations alone: then they move in steps."""
    return not any(
        node == _TIME
        for tree in trees
        for node in outermost(tree, lambda one: one == _TIME or relation_of(one) is not None)
    )


def folded(tree: Expression) -> Expression:
    """The tree, or its value where that is known without any name."""
    bound = symbols(tree) or draws_in(tree) or looks_back(tree)
    return tree if bound else Number(evaluate(tree, {}))


def minus(x: Expression, y: Expression) -> Expression:
    """A difference, without a zero that is taken away."""
    return x if _is_zero(y) else folded(call("sub", x, y))


def _linear_part(tree: Expression, parts: list[_Linear | None]) -> _Linear | None:
    """`tree` as slope x time + rest, where its arguments are known so."""
    if tree == _TIME:
        return 1.0, Number(0.0)
    if "time" not in symbols(tree):
        return 0.0, tree
    assert isinstance(tree, Call)
    if tree.function == "neg" and parts[0] is not None:
        return -parts[0][0], folded(call("neg", parts[0][1]))
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        return None
    (a, x), (b, y) = parts[0], parts[1]
    if tree.function == "add":
        return a + b, y if _is_zero(x) else x if _is_zero(y) else folded(call("add", x, y))
    if tree.function == "sub":
        return a - b, minus(x, y)
    if tree.function == "mul" and isinstance(x, Number) and a == 0:
        return x.value * b, folded(call("mul", x, y))
    if tree.function in ("mul", "div") and isinstance(y, Number) and b == 0 and y.value:
        by = y.value if tree.function == "mul" else 1 / y.value
        return a * by, folded(call(tree.function, x, y))
    return None


def _is_zero(tree: Expression) -> bool:
    return isinstance(tree, Number) and tree.value == 0

"""When a trigger turns true, where that follows from the time and constants alone.

SBML lets an event happen whenever its trigger turns from false to true. A trigger made of relations
between the time and constants, ``time >= 5 && time < t2`` or ``t1 - time <= 0``, can do so only at
the times where one of its relations changes, and each of them is an expression of parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    arguments_first,
    call,
    symbols,
)
from tauslab.model.portable.host_math import evaluate

_RELATIONS = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
# What a relation is to a point just before or after: time > T holds just after T, as T >= T does.
_BESIDE = {
    ("before", "gt"): "gt", ("before", "ge"): "gt", ("before", "lt"): "le", ("before", "le"): "le",
    ("after", "gt"): "ge", ("after", "ge"): "ge", ("after", "lt"): "lt", ("after", "le"): "lt",
    ("before", "eq"): "eq", ("before", "ne"): "ne", ("after", "eq"): "eq", ("after", "ne"): "ne",
}  # fmt: skip
_LOGIC = ("and", "or", "xor", "not")
_TIME = Symbol("time")
# After a time T, and at no double between: what turns true after T does so at T (1 + 2^-52). After
# 0 there is no such factor; a change that soon is seen by no sample.
_AFTER = 1.0 + 2.0**-52
_SOON = 1e-30
_NEVER = Number(0.0)  # events at 0 or before never come
_Linear = tuple[float, Expression]  # slope, rest


@dataclass(frozen=True)
class _Relation:
    """``time <function> change``, `change` an expression of parameters."""

    function: str
    change: Expression

    def value(self, moment: str, point: Expression) -> Expression:
        """What it is ``at`` a point in time, just ``before`` or just ``after`` it."""
        function = self.function if moment == "at" else _BESIDE[moment, self.function]
        if function in ("eq", "ne") and moment != "at":
            return Number(float(function == "ne"))
        if point == self.change:
            return Number(float(function in ("ge", "le", "eq")))
        return folded(call(function, point, self.change))


def switch_times(trigger: Expression, parameters: Collection[str]) -> list[Expression] | None:
    """Times, expressions of `parameters`, at which `trigger` turns true; 0 or less for never.

    None where the trigger depends on anything but the time and `parameters`, or on the time in
    another way than by relations that it enters linearly.
    """
    changes: list[Expression] = []
    if not _relations(trigger, set(parameters), changes):
        return None
    times = []
    for i, change in enumerate(changes):
        before, at, after = (_value(trigger, which, change) for which in ("before", "at", "after"))
        once = [folded(call("ne", change, earlier)) for earlier in changes[:i]]
        now = _joined("and", [at, _not(before), *once]) if at != before else Number(0.0)
        soon = _joined("and", [after, _not(at), *once]) if after != at else Number(0.0)
        next_double = call("max", call("mul", change, _AFTER), _SOON)
        later = _if(folded(call("ge", change, 0.0)), folded(next_double), _NEVER)
        time = _if(now, change, _if(soon, later, _NEVER))
        if time != _NEVER:
            times.append(time)
    return times


def holds_at_start(trigger: Expression) -> Expression:
    """Whether a trigger that `switch_times` can read is true at time 0."""
    return _value(trigger, "at", Number(0.0))


def folded(tree: Expression) -> Expression:
    """The tree, or its value where that is known without any name."""
    return tree if symbols(tree) else Number(evaluate(tree, {}))


def _relations(tree: Expression, parameters: set[str], changes: list[Expression]) -> bool:
    """Collect when relations in `tree` change; False if it is not made of relations."""
    seen: set[int] = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Call) and node.function in _LOGIC:
            stack.extend(reversed(node.arguments))
            continue
        found = _relation(node)
        names = symbols(node) - {"time"} if found is None else symbols(found.change)
        if not names <= parameters or (found is None and "time" in symbols(node)):
            return False
        if found is not None and found.change not in changes:
            changes.append(found.change)
    return True


def _relation(tree: Expression) -> _Relation | None:
    """A relation in which the time is linear, as one of the time itself."""
    if not isinstance(tree, Call) or tree.function not in _RELATIONS or "time" not in symbols(tree):
        return None
    sides = [_linear(side) for side in tree.arguments]
    if sides[0] is None or sides[1] is None:
        return None
    (slope, left), (other, right) = sides[0], sides[1]
    slope -= other
    if slope == 0:
        return None
    function = tree.function if slope > 0 else _RELATIONS[tree.function]
    change = _minus(right, left) if slope > 0 else _minus(left, right)
    return _Relation(
        function, change if abs(slope) == 1 else folded(call("div", change, abs(slope)))
    )


def _linear(tree: Expression) -> _Linear | None:
    """`tree` as slope x time + rest."""
    found: dict[int, _Linear | None] = {}
    for node in arguments_first(tree):
        found[id(node)] = _linear_part(node, found)
    return found[id(tree)]


def _linear_part(tree: Expression, found: Mapping[int, _Linear | None]) -> _Linear | None:
    """The same of a part, where that of its arguments is known."""
    if tree == _TIME:
        return 1.0, Number(0.0)
    if "time" not in symbols(tree):
        return 0.0, tree
    assert isinstance(tree, Call)
    parts = [found[id(part)] for part in tree.arguments]
    if tree.function == "neg" and parts[0] is not None:
        return -parts[0][0], folded(call("neg", parts[0][1]))
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        return None
    (a, x), (b, y) = parts[0], parts[1]
    if tree.function == "add":
        return a + b, y if _is_zero(x) else x if _is_zero(y) else folded(call("add", x, y))
    if tree.function == "sub":
        return a - b, _minus(x, y)
    if tree.function == "mul" and isinstance(x, Number) and a == 0:
        return x.value * b, folded(call("mul", x, y))
    if tree.function in ("mul", "div") and isinstance(y, Number) and b == 0 and y.value:
        by = y.value if tree.function == "mul" else 1 / y.value
        return a * by, folded(call(tree.function, x, y))
    return None


def _minus(x: Expression, y: Expression) -> Expression:
    return x if _is_zero(y) else folded(call("sub", x, y))


def _is_zero(tree: Expression) -> bool:
    return isinstance(tree, Number) and tree.value == 0


def _value(tree: Expression, moment: str, point: Expression) -> Expression:
    """A trigger at, just before or just after `point`."""
    known: dict[int, Expression] = {}
    for node in arguments_first(tree):
        known[id(node)] = _part_value(node, moment, point, known)
    return known[id(tree)]


def _part_value(
    tree: Expression, moment: str, point: Expression, known: Mapping[int, Expression]
) -> Expression:
    """The same of a part, where that of its arguments is known."""
    found = _relation(tree)
    if found is not None:
        return found.value(moment, point)
    if isinstance(tree, Call) and tree.function in _LOGIC:
        parts = [known[id(part)] for part in tree.arguments]
        if tree.function == "not":
            return _not(parts[0])
        if tree.function in ("and", "or"):
            return _joined(tree.function, parts)
        return folded(call("xor", *parts))
    return folded(tree)


def _joined(function: str, trees: list[Expression]) -> Expression:
    """``and`` or ``or`` of what is not known; a part may decide it alone."""
    deciding = function == "or"
    numbers = [tree.value for tree in trees if isinstance(tree, Number)]
    if any(bool(number) == deciding for number in numbers):
        return Number(float(deciding))
    open_ = [tree for tree in trees if not isinstance(tree, Number)]
    whole: Expression = open_[0] if open_ else Number(float(not deciding))
    for tree in open_[1:]:
        whole = call(function, whole, tree)
    return whole


def _not(tree: Expression) -> Expression:
    return folded(call("not", tree))


def _if(condition: Expression, this: Expression, that: Expression) -> Expression:
    if isinstance(condition, Number):
        return this if condition.value else that
    return call("if", condition, this, that)

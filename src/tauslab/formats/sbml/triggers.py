"""When a trigger turns true, where that follows from the time and constants alone.

SBML lets an event happen whenever its trigger turns from false to true. A trigger made of relations
between the time and constants, ``time >= 5 && time < t2`` or ``t1 - time <= 0``, can do so only at
the times where one of its relations changes, and each of them is an expression of parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    arguments_first,
    call,
    symbols,
)
from tauslab.model.expressions.time_relations import Relation, folded, relation_of

# What a relation is to a point just before or after: time > T holds just after T, as T >= T does.
_BESIDE = {
    ("before", "gt"): "gt", ("before", "ge"): "gt", ("before", "lt"): "le", ("before", "le"): "le",
    ("after", "gt"): "ge", ("after", "ge"): "ge", ("after", "lt"): "lt", ("after", "le"): "lt",
    ("before", "eq"): "eq", ("before", "ne"): "ne", ("after", "eq"): "eq", ("after", "ne"): "ne",
}  # fmt: skip
_LOGIC = ("and", "or", "xor", "not")
# After a time T, and at no double between: what turns true after T does so at T (1 + 2^-52). After
# 0 there is no such factor; a change that soon is seen by no sample.
_AFTER = 1.0 + 2.0**-52
_SOON = 1e-30
_NEVER = Number(0.0)  # events at 0 or before never come


def _side_value(relation: Relation, moment: str, point: Expression) -> Expression:
    """Value of a relation ``at`` a point in time, just ``before`` or just ``after`` it."""
    function = relation.function if moment == "at" else _BESIDE[moment, relation.function]
    if function in ("eq", "ne") and moment != "at":
        return Number(float(function == "ne"))
    if point == relation.change:
        return Number(float(function in ("ge", "le", "eq")))
    return folded(call(function, point, relation.change))


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
    """Return whether a trigger that `switch_times` can read is true at time 0."""
    return _value(trigger, "at", Number(0.0))


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
        found = relation_of(node)
        names = symbols(node) - {"time"} if found is None else symbols(found.change)
        if not names <= parameters or (found is None and "time" in symbols(node)):
            return False
        if found is not None and found.change not in changes:
            changes.append(found.change)
    return True


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
    found = relation_of(tree)
    if found is not None:
        return _side_value(found, moment, point)
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

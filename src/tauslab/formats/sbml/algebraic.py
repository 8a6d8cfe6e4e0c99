"""Algebraic rules of an SBML model, solved for what nothing else determines.

A rule demands ``0 = f``. Where `f` is linear in a variable that no reaction, rule or event sets, it
is the assignment ``x = -b / a`` of ``f = a x + b``, exactly and at all times. Several rules are
solved one after another, each with what was found put into the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tauslab.formats.sbml.text import each, shorten
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    arguments_first,
    call,
    substitute,
    symbols,
)
from tauslab.model.expressions.time_relations import folded

Refuse = Callable[[str, str, str], None]
_Linear = tuple[Expression, Expression]  # slope, rest
_ZERO, _ONE = Number(0.0), Number(1.0)
_KIND = "algebraic rule"


def open_variables(model: Any, references: Mapping[str, Any]) -> list[str]:
    """Names that only an algebraic rule can determine; last those that an event may set as well.

    These are what is not constant, has no other rule, and no reaction moves.
    """
    ruled = {rule.getVariable() for rule in each(model.getListOfRules()) if rule.isSetMath()}
    moved = {
        reference.getSpecies()
        for reaction in each(model.getListOfReactions())
        for side in (reaction.getListOfReactants(), reaction.getListOfProducts())
        for reference in each(side)
    }
    assigned = {
        assignment.getVariable()
        for event in each(model.getListOfEvents())
        for assignment in each(event.getListOfEventAssignments())
    }
    values = [*each(model.getListOfCompartments()), *each(model.getListOfParameters())]
    result = [value.getId() for value in values if not value.getConstant()]
    result += [
        species.getId()
        for species in each(model.getListOfSpecies())
        if not species.getConstant()
        and (species.getBoundaryCondition() or species.getId() not in moved)
    ]
    result += [
        name
        for name, reference in references.items()
        if model.getLevel() == 3 and not reference.getConstant()
    ]
    left = [name for name in result if name not in ruled]
    return sorted(left, key=lambda name: name in assigned)


def solve(
    demands: Sequence[tuple[str, Expression]],
    unknown: Sequence[str],
    without_value: Collection[str],
    refuse: Refuse,
) -> dict[str, Expression]:
    """Expressions of unknown names such that every demanded expression is zero.

    Parameters
    ----------
    demands
        Formula as a message shows it, and expression in molecules, of every rule.
    unknown
        Names that may be solved for.
    without_value
        Those that have no value otherwise, which come first where there is a choice.
    refuse
        Takes what cannot be solved.
    """
    result: dict[str, Expression] = {}
    left = list(demands)
    while left:
        choices = [_choices(tree, unknown, without_value) for _, tree in left]
        # The rule with the fewest unknown names first: it leaves the others no choice.
        index = min(range(len(left)), key=lambda i: (len(choices[i]) or len(unknown) + 1, i))
        names = choices[index]
        sure = len(names) == 1 or _determined(index, choices)
        formula, tree = left.pop(index)
        reported = f"it demands 0 = {formula}, which "
        solved = [
            (name, parts)
            for name in names
            if (parts := linear_in(tree, name)) is not None and not _is_zero(parts[0])
        ]
        if not names:
            refuse(_KIND, _KIND, reported + "leaves nothing to solve for")
        elif not sure:
            refuse(_KIND, _KIND, reported + f"does not say which of {shorten(names)} follows")
        elif not solved:
            refuse(_KIND, _KIND, reported + f"is not linear in {shorten(names)}")
        else:
            name, (slope, rest) = solved[0]
            root = _root(slope, rest)
            result = {other: substitute(tree, {name: root}) for other, tree in result.items()}
            result[name] = root
            left = [(text, substitute(tree, {name: root})) for text, tree in left]
            unknown = [other for other in unknown if other != name]
    return result


def _choices(tree: Expression, unknown: Sequence[str], without_value: Collection[str]) -> list[str]:
    """Names a rule may be solved for: those without a value, else those that no event sets."""
    names = [name for name in unknown if name in symbols(tree)]
    empty = [name for name in names if name in without_value]
    return empty if len(empty) == 1 else names


def _determined(index: int, choices: Sequence[Sequence[str]]) -> bool:
    """Return whether rules that share unknown names with rule `index` are as many as the names."""
    names, rules = set(choices[index]), {index}
    while more := {i for i, own in enumerate(choices) if i not in rules and names & set(own)}:
        rules |= more
        names = names.union(*(choices[i] for i in more))
    return len(names) == len(rules)


def linear_in(tree: Expression, name: str) -> _Linear | None:
    """`a` and `b`, free of `name`, where the tree is a x name + b; else None."""
    result: dict[int, _Linear | None] = {}
    for node in arguments_first(tree):
        result[id(node)] = _linear_part(node, name, result)
    return result[id(tree)]


def _linear_part(
    node: Expression, name: str, found: Mapping[int, _Linear | None]
) -> _Linear | None:
    if node == Symbol(name):
        return _ONE, _ZERO
    if not isinstance(node, Call):
        return _ZERO, node
    parts = [found[id(part)] for part in node.arguments]
    if all(part is not None and _is_zero(part[0]) for part in parts):
        return _ZERO, node
    if None in parts:
        return None
    return _combined(node.function, [part for part in parts if part is not None])


def _combined(function: str, parts: Sequence[_Linear]) -> _Linear | None:
    """The same of an operation, where that of its arguments is known."""
    (a, b), (c, d) = parts[0], parts[-1]
    match function:
        case "neg":
            return _call("neg", a), _call("neg", b)
        case "add" | "sub":
            return _call(function, a, c), _call(function, b, d)
        case "mul" if _is_zero(a):
            return _call("mul", b, c), _call("mul", b, d)
        case "mul" if _is_zero(c):
            return _call("mul", a, d), _call("mul", b, d)
        case "div" if _is_zero(c):
            return _call("div", a, d), _call("div", b, d)
        case "if" if _is_zero(a):
            e, f = parts[1]
            return call("if", b, e, c), call("if", b, f, d)
    return None


def _root(slope: Expression, rest: Expression) -> Expression:
    """Return the root of slope x name + rest."""
    if slope == _ONE:
        return _call("neg", rest)
    if slope == Number(-1.0):
        return rest
    if isinstance(slope, Call) and slope.function == "div" and slope.arguments[0] == _ONE:
        return _call("mul", _call("neg", rest), slope.arguments[1])  # a concentration
    return folded(call("div", _call("neg", rest), slope))


def _call(function: str, *arguments: Expression) -> Expression:
    """An operation without what adds nothing."""
    x, y = arguments[0], arguments[-1]
    if function == "neg" and isinstance(x, Call) and x.function == "neg":
        return x.arguments[0]
    if function == "neg" and isinstance(x, Call) and x.function == "sub":
        return _call("sub", x.arguments[1], x.arguments[0])
    if function in ("add", "sub") and _is_zero(y):
        return x
    if function == "add" and _is_zero(x):
        return y
    if function == "sub" and _is_zero(x):
        return _call("neg", y)
    if function == "mul" and (_is_zero(x) or _is_zero(y)):
        return _ZERO
    if function == "mul" and x == _ONE:
        return y
    if function in ("mul", "div") and y == _ONE:
        return x
    if function == "div" and _is_zero(x):
        return _ZERO
    return folded(call(function, *arguments))


def _is_zero(tree: Expression) -> bool:
    return isinstance(tree, Number) and tree.value == 0

"""Derivatives of expressions by a name, as expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    bottom_up,
    call,
    substitute,
    symbols,
)
from tauslab.model.expressions.infix import parse

# Of a function f(a) = y: its derivative by a; of roots at 0, where it is infinite, none.
OUTER_DERIVATIVES: Mapping[str, Expression] = {
    name: parse(text)
    for name, text in {
        "exp": "y", "log": "1 / a", "log10": "0.4342944819032518 / a",
        "sqrt": "if(y == 0, 0, 0.5 / y)", "cbrt": "if(y == 0, 0, 1 / (3 * y * y))",
        "abs": "if(a < 0, -1, 1)", "sin": "cos(a)", "cos": "-sin(a)",
        "tan": "1 + y * y", "asin": "1 / sqrt(1 - a * a)", "acos": "-1 / sqrt(1 - a * a)",
        "atan": "1 / (1 + a * a)", "sinh": "cosh(a)", "cosh": "sinh(a)", "tanh": "1 - y * y",
    }.items()
}  # fmt: skip
# Steps, whose derivatives are zero where they have one.
STEPS = ("floor", "ceil", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not")


def derivative(tree: Expression, name: str) -> Expression | None:
    """The derivative by `name`, which other names do not depend on; None where it is zero.

    Of a choice it is that of what is chosen, of a step 0.

    Examples
    --------
    >>> from tauslab.model.expressions.expression import to_text
    >>> to_text(derivative(parse("k * X / (k + X)"), "k"))
    '(X / (k + X)) - (k * X / (k + X) / (k + X))'
    """

    def part(node: Expression, slopes: list[Expression | None]) -> Expression | None:
        if isinstance(node, Call):
            return None if node.function in STEPS else _of_call(node, slopes, name)
        return Number(1.0) if node == Symbol(name) else None

    return bottom_up(tree, part)


def _of_call(node: Call, slopes: list[Expression | None], name: str) -> Expression | None:
    if all(slope is None for slope in slopes[1 if node.function == "if" else 0 :]):
        return None
    rule = _RULES.get(node.function)
    if rule is not None:
        return rule(node, slopes)
    if node.function == "pow":
        return _of_power(node, slopes, name)
    outer = substitute(OUTER_DERIVATIVES[node.function], {"a": node.arguments[0], "y": node})
    return _times(outer, slopes[0])


def _times(factor: Expression, slope: Expression | None) -> Expression | None:
    if slope is None:
        return None
    return factor if slope == Number(1.0) else call("mul", slope, factor)


def _plus(first: Expression | None, second: Expression | None) -> Expression | None:
    if first is None or second is None:
        return first if second is None else second
    return call("add", first, second)


def _minus(first: Expression | None, second: Expression | None) -> Expression | None:
    if first is None or second is None:
        return first if second is None else call("neg", second)
    return call("sub", first, second)


def _of_product(node: Call, slopes: list[Expression | None]) -> Expression | None:
    first, second = node.arguments
    return _plus(_times(second, slopes[0]), _times(first, slopes[1]))


def _of_quotient(node: Call, slopes: list[Expression | None]) -> Expression | None:
    below = node.arguments[1]
    own = None if slopes[0] is None else call("div", slopes[0], below)
    return _minus(own, _times(call("div", node, below), slopes[1]))


def _of_choice(node: Call, slopes: list[Expression | None]) -> Expression | None:
    if node.function == "if":
        test, slopes = node.arguments[0], slopes[1:]
    else:
        test = call("lt" if node.function == "min" else "gt", *node.arguments)
    return call("if", test, *(slope or Number(0.0) for slope in slopes))


_Rule = Callable[[Call, list[Expression | None]], Expression | None]
_RULES: Mapping[str, _Rule] = {
    "add": lambda _, slopes: _plus(*slopes),
    "sub": lambda _, slopes: _minus(*slopes),
    "neg": lambda _, slopes: _minus(None, slopes[0]),
    "mul": _of_product,
    "div": _of_quotient,
    "if": _of_choice,
    "min": _of_choice,
    "max": _of_choice,
}


def _of_power(node: Call, slopes: list[Expression | None], name: str) -> Expression | None:
    base, power = node.arguments
    by_base = by_power = None
    if slopes[0] is not None:
        less = call("pow", base, call("sub", power, Number(1.0)))
        if isinstance(power, Number):
            less = call("pow", base, Number(power.value - 1.0))
        by_base = _times(call("mul", power, less), slopes[0])
    if slopes[1] is not None and name in symbols(power):
        # At a base of 0 the power does not change.
        bend = call("mul", node, call("log", base))
        bend = call("if", call("eq", base, Number(0.0)), Number(0.0), bend)
        by_power = _times(bend, slopes[1])
    return _plus(by_base, by_power)

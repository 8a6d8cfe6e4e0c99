"""Evaluate expressions on the host with the same bits on every machine.

The four operations and square roots are IEEE doubles.  Logarithms, exponentials and powers are
computed with `decimal`, whose arithmetic is the same on every platform, and rounded once, so that a
rate constant such as ``k * exp(-E / RT)`` does not depend on the C library of the machine.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping

from tauslab.model.errors import ModelError
from tauslab.model.expression import Call, Expression, Number, Symbol

_CONTEXT = decimal.Context(prec=60, Emax=999999, Emin=-999999, traps=[])


def evaluate(expression: Expression, values: Mapping[str, float]) -> float:
    """Value of `expression` where names have these `values`.

    Raises
    ------
    ModelError
        A name has no value, or a function has no portable host version.
    """
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Symbol):
        if expression.name not in values:
            raise ModelError(f"{expression.name!r} has no value")
        return values[expression.name]
    if expression.function == "if":
        condition, yes, no = expression.arguments
        return evaluate(yes if evaluate(condition, values) != 0 else no, values)
    return _apply(expression, [evaluate(a, values) for a in expression.arguments])


def _apply(expression: Call, arguments: list[float]) -> float:
    function = _FUNCTIONS.get(expression.function)
    if function is None:
        raise ModelError(
            f"{expression.function} of parameters alone has no portable value; "
            f"supported there: {', '.join(sorted(_FUNCTIONS))}"
        )
    if expression.function not in _NAN_AWARE and any(math.isnan(a) for a in arguments):
        return math.nan
    return function(*arguments)


def _divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _by_decimal(name: str) -> Callable[[float], float]:
    def function(x: float) -> float:
        return float(getattr(_CONTEXT, name)(decimal.Decimal(x)))

    return function


def _exp(x: float) -> float:
    if x > 710:
        return math.inf
    return 0.0 if x < -750 else float(_CONTEXT.exp(decimal.Decimal(x)))


def _power(x: float, y: float) -> float:
    if y == 0 or x == 1:
        return 1.0
    if math.isinf(x) or math.isinf(y) or x == 0:
        try:
            return math.pow(x, y)
        except (ValueError, OverflowError, ZeroDivisionError):
            return math.inf
    if x < 0 and y != math.floor(y):
        return math.nan
    return float(_CONTEXT.power(decimal.Decimal(x), decimal.Decimal(y)))


def _cbrt(x: float) -> float:
    root = _power(abs(x), 1.0 / 3.0) if x == 0 or math.isinf(x) else float(
        _CONTEXT.power(decimal.Decimal(abs(x)), _CONTEXT.divide(decimal.Decimal(1), 3))
    )
    return math.copysign(root, x)


_PI = decimal.Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803"
)


def _sine(x: decimal.Decimal) -> decimal.Decimal:
    """Taylor's series after reduction by whole turns; enough digits for |x| below 1e20."""
    with decimal.localcontext(decimal.Context(prec=80)):
        rest = x - (x / (2 * _PI)).to_integral_value() * 2 * _PI
        total, term, n = rest, rest, 1
        while abs(term) > decimal.Decimal("1e-60"):
            term = -term * rest * rest / ((n + 1) * (n + 2))
            total, n = total + term, n + 2
        return total


def _sin(x: float) -> float:
    return math.nan if math.isinf(x) else float(_sine(decimal.Decimal(x)))


def _cos(x: float) -> float:
    return math.nan if math.isinf(x) else float(_sine(_PI / 2 - decimal.Decimal(x)))


def _tan(x: float) -> float:
    if math.isinf(x):
        return math.nan
    exact = decimal.Decimal(x)
    return float(_CONTEXT.divide(_sine(exact), _sine(_PI / 2 - exact)))


def _whole(rounding: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: x if math.isinf(x) else float(rounding(x))


_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "neg": lambda a: -a,
    "pow": _power,
    "exp": _exp,
    "log": _by_decimal("ln"),
    "log10": _by_decimal("log10"),
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "cbrt": _cbrt,
    "abs": abs,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "min": min,
    "max": max,
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "lt": lambda a, b: float(a < b),
    "le": lambda a, b: float(a <= b),
    "gt": lambda a, b: float(a > b),
    "ge": lambda a, b: float(a >= b),
    "eq": lambda a, b: float(a == b),
    "ne": lambda a, b: float(a != b),
    "and": lambda a, b: float(a != 0 and b != 0),
    "or": lambda a, b: float(a != 0 or b != 0),
    "xor": lambda a, b: float((a != 0) != (b != 0)),
    "not": lambda a: float(a == 0),
}
_NAN_AWARE = frozenset(("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not"))

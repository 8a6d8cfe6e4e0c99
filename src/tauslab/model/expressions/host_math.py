"""Evaluate expressions on the host with the same bits on every machine.

The four operations and square roots are IEEE doubles.  Everything else is computed with `decimal`
(whose arithmetic is exact to the digits asked for, on every platform) and rounded once, so that a
rate constant such as ``k * exp(-E / RT)`` does not depend on the C library of the machine.
Special values are those of C; a NaN among the arguments of `min` or `max` gives NaN.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import PAST, Expression, Number, Symbol, arguments_first

_DIGITS = 60  # a double has 17; what is left makes a wrong rounding as unlikely as 1e-40
_LARGEST_EXACT_POWER = 64


def evaluate(expression: Expression, values: Mapping[str, float]) -> float:
    """Value of `expression` where each name has the value `values` gives it.

    Never fails for numerical reasons: division by zero, overflow and arguments outside a domain
    give infinities and NaN as IEEE arithmetic does.  Both branches of ``if`` are evaluated.

    Raises
    ------
    ModelError
        A name has no value.
    """
    # Every part once, without recursion: sums of thousands of terms, and rules that use each other
    # many times over, are as good as any.
    result: dict[int, float] = {}
    for node in arguments_first(expression):
        if isinstance(node, Number):
            value = node.value
        elif isinstance(node, Symbol):
            if node.name not in values:
                known = ", ".join(sorted(values)) or "none"
                raise ModelError(f"{node.name!r} has no value; names with values: {known}")
            value = float(values[node.name])
        else:
            if node.function == PAST:
                raise ModelError("'delay' has no value outside a trajectory")
            value = _FUNCTIONS[node.function](*(result[id(part)] for part in node.arguments))
        result[id(node)] = value
    value = result[id(expression)]
    return math.nan if math.isnan(value) else value


def value_of(function: str, *arguments: float) -> float:
    """Value of one of the functions of expressions.

    >>> value_of("pow", 10.0, -9), value_of("log", 0.0)
    (1e-09, -inf)
    """
    value: float = _FUNCTIONS[function](*arguments)
    return math.nan if math.isnan(value) else value


def _divide(x: float, y: float) -> float:
    if y != 0:
        return x / y
    if x == 0 or math.isnan(x):
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def _sqrt(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _smaller(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if x == y:
        return x if math.copysign(1.0, x) < 0 else y
    return min(x, y)


def _larger(x: float, y: float) -> float:
    return -_smaller(-x, -y)


def _whole(rounding: Callable[[float], int]) -> Callable[[float], float]:
    def apply(x: float) -> float:
        return math.copysign(float(rounding(x)), x) if abs(x) < 2.0**52 else x

    return apply


def _context(digits: int) -> decimal.Context:
    return decimal.Context(
        prec=digits,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero],
    )


def _precise(
    function: Callable[[Decimal], Decimal], digits: int = _DIGITS
) -> Callable[[float], float]:
    """`function` of a finite double with `digits` digits, rounded once."""

    def apply(x: float) -> float:
        with decimal.localcontext(_context(digits)):
            return float(function(Decimal(x)))

    return apply


def _odd(function: Callable[[float], float]) -> Callable[[float], float]:
    """Extend a function of positive numbers to negative ones and zero."""

    def apply(x: float) -> float:
        return math.copysign(function(abs(x)), x) if x != 0 else x

    return apply


def _exp(x: float) -> float:
    if not -746 < x < 710:
        return x if math.isnan(x) else math.inf if x > 0 else 0.0
    return _precise(Decimal.exp)(x)


def _logarithm(function: Callable[[Decimal], Decimal]) -> Callable[[float], float]:
    def apply(x: float) -> float:
        if x == 0:
            return -math.inf
        if not 0 < x < math.inf:
            return x if x > 0 else math.nan
        return _precise(function)(x)

    return apply


def _pow(x: float, y: float) -> float:
    if y == 0 or x == 1:
        return 1.0
    if math.isnan(x) or math.isnan(y):
        return math.nan
    whole = math.isinf(y) or y == math.floor(y)
    odd = whole and math.isfinite(y) and math.fmod(y, 2.0) != 0
    sign = math.copysign(1.0, x) if odd else 1.0
    size = abs(x)
    if size == 1:
        return sign if whole else math.nan
    if math.isinf(y) or size in (0.0, math.inf):
        return sign * (math.inf if (size > 1) == (y > 0) else 0.0)
    if x < 0 and not whole:
        return math.nan
    return sign * _positive_power(size, y)


def _positive_power(x: float, y: float) -> float:
    if abs(y) <= _LARGEST_EXACT_POWER and y == int(y):
        from fractions import Fraction

        try:
            return float(Fraction(x) ** int(y))
        except OverflowError:
            return math.inf
    with decimal.localcontext(_context(_DIGITS + 10)):
        exponent = Decimal(y) * Decimal(x).ln()
        if not -746 < exponent < 710:
            return math.inf if exponent > 0 else 0.0
        return float(exponent.exp())


def _cbrt(x: float) -> float:
    if math.isinf(x):
        return x
    return _precise(lambda size: (size.ln() / 3).exp())(x)


@cache
def _pi(digits: int) -> Decimal:
    """Machin: pi = 16 atan(1/5) - 4 atan(1/239), in integers."""
    one: int = 10 ** (digits + 10)

    def inverse_atan(n: int) -> int:
        total = power = one // n
        k, sign = 1, -1
        while power:
            power //= n * n
            k += 2
            total += sign * (power // k)
            sign = -sign
        return total

    with decimal.localcontext(_context(digits + 20)):
        return Decimal(16 * inverse_atan(5) - 4 * inverse_atan(239)) / Decimal(one)


def _series(term: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """Sum of terms, each `ratio(k)` times the one before, to the context's digits."""
    total, k = term, 0
    while True:
        k += 1
        term = term * ratio(k)
        if total + term == total:
            return total
        total += term


def _sine(x: Decimal) -> Decimal:
    return _series(x, lambda k: -x * x / (2 * k * (2 * k + 1))) if x else x


def _circular(x: float) -> tuple[Decimal, Decimal, int] | None:
    """Sine and cosine of the angle less a multiple of pi / 2, and that multiple modulo 4."""
    if not math.isfinite(x):
        return None
    # As many digits more as stand before the point: the difference keeps `_DIGITS` ones, and a
    # double is never nearer than 1e-20 to a multiple of pi / 2.
    digits = _DIGITS + 30 + max(0, Decimal(x).adjusted())
    with decimal.localcontext(_context(digits)):
        half_pi = _pi(digits + 10) / 2
        number = (Decimal(x) / half_pi).to_integral_value()
        rest = Decimal(x) - number * half_pi
        quadrant = int(number % 4)
    with decimal.localcontext(_context(_DIGITS + 10)):
        rest = +rest
        return _sine(rest), _sine(half_pi - rest), quadrant % 4


def _turned(quarters: int) -> Callable[[float], float]:
    """Sine of the angle plus `quarters` times pi / 2."""

    def apply(x: float) -> float:
        parts = _circular(x)
        if parts is None:
            return math.nan
        number = parts[2] + quarters
        value = float(parts[number % 2])
        return -value if number % 4 > 1 else value

    return apply


def _tan(x: float) -> float:
    parts = _circular(x)
    if parts is None:
        return math.nan
    sine, cosine, quadrant = parts
    with decimal.localcontext(_context(_DIGITS)):
        return float(-cosine / sine if quadrant % 2 else sine / cosine)


def _angle(x: Decimal) -> Decimal:
    """Arc tangent of a positive number; five halvings bring it below 0.05."""
    for _ in range(5):
        x = x / (1 + (1 + x * x).sqrt())
    return 32 * _series(x, lambda k: -x * x * (2 * k - 1) / (2 * k + 1))


def _atan(x: float) -> float:
    if not x < 1e40:
        return x if math.isnan(x) else math.pi / 2
    return _precise(_angle, _DIGITS + 10)(x)


def _asin(x: float) -> float:
    if not x < 1:
        return math.pi / 2 if x == 1 else math.nan
    return _precise(lambda d: _angle(d / ((1 - d) * (1 + d)).sqrt()), _DIGITS + 10)(x)


def _acos(x: float) -> float:
    if not abs(x) < 1:
        return {1.0: 0.0, -1.0: math.pi}.get(x, math.nan)
    return _precise(lambda d: 2 * _angle(((1 - d) / (1 + d)).sqrt()), _DIGITS + 10)(x)


def _hyperbolic(
    combine: Callable[[Decimal, Decimal], Decimal], tiny: float, limit: float, beyond: float
) -> Callable[[float], float]:
    """`combine` of exp(x) and exp(-x); x itself below `tiny`, `beyond` above `limit`."""

    def apply(x: float) -> float:
        if x < tiny or math.isnan(x):
            return x
        if x > limit:
            return beyond
        return _precise(lambda d: combine(d.exp(), (-d).exp()), _DIGITS + 40)(x)

    return apply


_sinh = _hyperbolic(lambda up, down: (up - down) / 2, 1e-20, 711.0, math.inf)
_cosh = _hyperbolic(lambda up, down: (up + down) / 2, 0.0, 711.0, math.inf)
_tanh = _hyperbolic(lambda up, down: (up - down) / (up + down), 1e-20, 30.0, 1.0)

_FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _divide,
    "neg": lambda x: -x,
    "sqrt": _sqrt,
    "abs": abs,
    "min": _smaller,
    "max": _larger,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "exp": _exp,
    "log": _logarithm(Decimal.ln),
    "log10": _logarithm(Decimal.log10),
    "pow": _pow,
    "cbrt": _odd(_cbrt),
    "sin": lambda x: _turned(0)(x) if x != 0 else x,
    "cos": _turned(1),
    "tan": lambda x: _tan(x) if x != 0 else x,
    "asin": _odd(_asin),
    "acos": _acos,
    "atan": _odd(_atan),
    "sinh": _odd(_sinh),
    "cosh": lambda x: _cosh(abs(x)),
    "tanh": _odd(_tanh),
    "lt": lambda x, y: float(x < y),
    "le": lambda x, y: float(x <= y),
    "gt": lambda x, y: float(x > y),
    "ge": lambda x, y: float(x >= y),
    "eq": lambda x, y: float(x == y),
    "ne": lambda x, y: float(x != y),
    "and": lambda x, y: float(x != 0 and y != 0),
    "or": lambda x, y: float(x != 0 or y != 0),
    "xor": lambda x, y: float((x != 0) != (y != 0)),
    "not": lambda x: float(x == 0),
    "if": lambda condition, yes, no: yes if condition != 0 else no,
}

"""Expressions as MathML that `tauslab.formats.sbml.mathml` reads as the same trees."""

from __future__ import annotations

import math
from decimal import Decimal
from xml.sax.saxutils import escape

from tauslab.model.expressions.expression import (
    DRAWS,
    PAST,
    Expression,
    Number,
    Symbol,
    arguments_first,
)

_NAMES = {
    "add": "plus", "sub": "minus", "mul": "times", "div": "divide", "pow": "power", "neg": "minus",
    "log": "ln", "ceil": "ceiling", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "lt": "lt", "le": "leq", "gt": "gt", "ge": "geq", "eq": "eq", "ne": "neq",
}  # fmt: skip
_CHAINS = ("add", "mul", "and", "or", "xor", "min", "max")
_LONGEST_SPINE = 32  # the reader brackets longer chains in another way
_LARGEST_INTEGER = 2**31 - 1
_SYMBOLS = "http://www.sbml.org/sbml/symbols"


def _csymbol(name: str, place: str = "") -> str:
    url = f"{_SYMBOLS}/{place}{name}"
    return f'<csymbol encoding="text" definitionURL="{url}">{name}</csymbol>'


_TIME = _csymbol("time")


def mathml(tree: Expression, *, time: bool = True) -> str:
    """Element ``math`` of an expression; with `time` the name ``time`` means the time."""
    written: dict[int, str] = {}
    spines: dict[int, int] = {}
    for node in arguments_first(tree):
        written[id(node)] = _node(node, written, spines, time=time)
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML">{written[id(tree)]}</math>'


def _node(node: Expression, written: dict[int, str], spines: dict[int, int], *, time: bool) -> str:
    if isinstance(node, Number):
        return number(node.value)
    if isinstance(node, Symbol):
        return _TIME if time and node.name == "time" else f"<ci>{escape(node.name)}</ci>"
    parts = [written[id(part)] for part in node.arguments]
    function = node.function
    if function in _CHAINS:
        first = node.arguments[0]
        same = getattr(first, "function", None) == function
        spines[id(node)] = 1 + (spines[id(first)] if same else 0)
        if spines[id(node)] >= _LONGEST_SPINE:  # an operation of one argument ends the chain
            parts[0] = f"<apply><{_name(function)}/>{parts[0]}</apply>"
            spines[id(node)] = 1
    if function == "if":
        condition, this, that = parts
        return (
            f"<piecewise><piece>{this}{condition}</piece><otherwise>{that}</otherwise></piecewise>"
        )
    if function == "sqrt":
        return f"<apply><root/>{parts[0]}</apply>"
    if function == "cbrt":
        return f"<apply><root/><degree>{number(3.0)}</degree>{parts[0]}</apply>"
    if function == "log10":
        return f"<apply><log/><logbase>{number(10.0)}</logbase>{parts[0]}</apply>"
    if function == PAST:
        return f"<apply>{_csymbol(PAST)}{''.join(parts)}</apply>"
    if function in DRAWS:
        return f"<apply>{_csymbol(function, 'distrib/')}{''.join(parts)}</apply>"
    return f"<apply><{_name(function)}/>{''.join(parts)}</apply>"


def _name(function: str) -> str:
    return _NAMES.get(function, function)


def number(value: float) -> str:
    """A double as MathML; it reads back to the same one."""
    if math.isnan(value):
        return "<notanumber/>"
    if math.isinf(value):
        return "<infinity/>" if value > 0 else "<apply><minus/><infinity/></apply>"
    minus = math.copysign(1.0, value) < 0
    if value.is_integer() and abs(value) <= _LARGEST_INTEGER and (value or not minus):
        return f'<cn type="integer">{int(value)}</cn>'
    digits, _, exponent = repr(value).partition("e")
    # A reader takes the mantissa as a double: most of those stay what they are, the others are
    # written out in full.
    if exponent and float(f"{float(digits)!r}e{exponent}") != value:
        return f"<cn>{Decimal(repr(value)):f}</cn>"
    if exponent:
        return f'<cn type="e-notation">{digits}<sep/>{int(exponent)}</cn>'
    return f"<cn>{digits}</cn>"

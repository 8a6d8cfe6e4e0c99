"""Rate laws: trees, and infix text to trees and back.

A law is a `Number`, a `Symbol` (a species count, a parameter or a rule) or a `Call` of one of
`FUNCTIONS`.  Readers build trees, `parse` reads infix text, `host_math` evaluates trees on
the host, and the code generator turns them into C++.  Sums and products are binary and
associate as written, so every device adds in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tauslab.base.errors import ModelError
from tauslab.model.expressions.infix import LONGEST_CHAIN, Builder, parse
from tauslab.model.expressions.trees import (
    DEEPEST,
    DRAWS,
    FUNCTIONS,
    PAST,
    Call,
    Expression,
    Number,
    Symbol,
    arguments_first,
    call,
    check_depth,
    check_exponents,
    depth,
    draws_in,
    looks_back,
    parts_first,
    substitute,
    symbols,
    walk,
    written_size,
    written_sizes,
)

__all__ = [
    "DEEPEST",
    "DRAWS",
    "FUNCTIONS",
    "LONGEST_CHAIN",
    "PAST",
    "Builder",
    "Call",
    "Expression",
    "Number",
    "Symbol",
    "arguments_first",
    "as_expression",
    "call",
    "check_depth",
    "check_exponents",
    "depth",
    "draws_in",
    "looks_back",
    "parse",
    "parts_first",
    "substitute",
    "symbols",
    "to_text",
    "walk",
    "written_size",
    "written_sizes",
]


def as_expression(value: Expression | float | str) -> Expression:
    """Return `value` as a tree: numbers become `Number`, text is parsed.

    Raises
    ------
    ModelError
        It is none of these, or text that cannot be read.
    """
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, Number | Symbol | Call):
        return value
    try:
        return Number(float(value))
    except OverflowError:
        raise ModelError("a number beyond 1.8e308 where one below is wanted") from None
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ModelError(f"{kind} where a number or an expression is wanted") from None


_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">",
          "ge": ">=", "eq": "==", "ne": "!="}  # fmt: skip
_CHAINED = {"add": "sum", "sub": "sum", "mul": "product", "div": "product"}


@dataclass(frozen=True, slots=True)
class _Text:
    """Text of a tree; `kind` and `terms` of the sum or product at its top, `bare` an operation."""

    text: str
    bare: bool = False
    kind: str | None = None
    terms: int = 1

    def bracketed(self) -> str:
        return f"({self.text})" if self.bare else self.text


def to_text(expression: Expression) -> str:
    """Infix text that `parse` reads back to the same tree.

    A part is written as often as it occurs: ask `written_size` before, if there may be many.
    Every operation inside another is bracketed, except the left side of a sum in a sum and of a
    product in a product, where brackets would only repeat how `parse` associates.
    """
    texts: dict[int, _Text] = {}
    for node in arguments_first(expression):
        if isinstance(node, Number):
            text = _Text(_number_text(node.value))
        elif isinstance(node, Symbol):
            text = _Text(node.name)
        else:
            text = _call_text(node, [texts[id(part)] for part in node.arguments])
        texts[id(node)] = text
    return texts[id(expression)].text


def _number_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "nan()" if math.isnan(value) else "inf()" if value > 0 else "-inf()"


def _call_text(node: Call, parts: list[_Text]) -> _Text:
    name, left = node.function, parts[0]
    if name in _INFIX:
        kind = _CHAINED.get(name)
        chains = kind is not None and left.kind == kind and left.terms < LONGEST_CHAIN
        first = left.text if chains else left.bracketed()
        text = f"{first} {_INFIX[name]} {parts[1].bracketed()}"
        return _Text(text, True, kind, left.terms + 1 if chains else 2)
    if name == "neg" and not isinstance(node.arguments[0], Number):  # -1.0 is a number
        return _Text(f"-{left.bracketed()}", True)
    return _Text(f"{name}({', '.join(part.text for part in parts)})")

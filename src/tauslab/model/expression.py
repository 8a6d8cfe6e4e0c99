"""Rate laws as immutable expression trees.

A law is a `Number`, a `Symbol` (a species count, a parameter or a rule) or a `Call` of one of
`FUNCTIONS`.  Readers build trees, `parse` reads infix text, `tauslab.model.host_math` evaluates
trees on the host, and the code generator turns them into C++.  Sums and products are binary and
associate as written, so every device adds in the same order.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tauslab.model.errors import ModelError

# name -> number of arguments.  Comparisons and logic give 1.0 or 0.0; `if` is (condition, yes, no).
FUNCTIONS: Mapping[str, int] = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "pow": 2, "neg": 1,
    "exp": 1, "log": 1, "log10": 1, "sqrt": 1, "cbrt": 1, "abs": 1, "floor": 1, "ceil": 1,
    "min": 2, "max": 2,
    "sin": 1, "cos": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1,
    "sinh": 1, "cosh": 1, "tanh": 1,
    "lt": 2, "le": 2, "gt": 2, "ge": 2, "eq": 2, "ne": 2,
    "and": 2, "or": 2, "xor": 2, "not": 1, "if": 3,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Number:
    """A constant, as an IEEE double."""

    value: float


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name: of a species (its count), a parameter or a rule."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """One of `FUNCTIONS` applied to expressions."""

    function: str
    arguments: tuple[Expression, ...]

    def __post_init__(self) -> None:
        """Check the function's name and number of arguments."""
        if FUNCTIONS.get(self.function) != len(self.arguments):
            raise ModelError(
                f"function {self.function!r} with {len(self.arguments)} arguments is not supported; "
                f"known functions: {', '.join(sorted(FUNCTIONS))}"
            )


Expression = Number | Symbol | Call


def call(function: str, *arguments: Expression | float) -> Call:
    """Build a `Call`, turning plain numbers into `Number`."""
    return Call(function, tuple(as_expression(a) for a in arguments))


def as_expression(value: Expression | float | str) -> Expression:
    """Return `value` as a tree: numbers become `Number`, text is parsed."""
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, Number | Symbol | Call):
        return value
    return Number(float(value))


def symbols(expression: Expression) -> set[str]:
    """Names that occur in the tree."""
    return {node.name for node in walk(expression) if isinstance(node, Symbol)}


def walk(expression: Expression) -> Iterator[Expression]:
    """Every node of the tree, parents before children."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(reversed(node.arguments))


def substitute(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Replace symbols by trees; names that are not in `values` stay."""
    built: dict[int, Expression] = {}
    for node in reversed(list(walk(expression))):  # children first, at any depth
        new: Expression = node
        if isinstance(node, Symbol):
            new = values.get(node.name, node)
        elif isinstance(node, Call):
            changed = tuple(built[id(a)] for a in node.arguments)
            if any(x is not y for x, y in zip(changed, node.arguments, strict=True)):
                new = Call(node.function, changed)
        built[id(node)] = new
    return built[id(expression)]


_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">",
          "ge": ">=", "eq": "==", "ne": "!="}  # fmt: skip
_CHAINED = {"add": "sum", "sub": "sum", "mul": "product", "div": "product"}


def to_text(expression: Expression) -> str:
    """Infix text that `parse` reads back to the same tree.

    Every operation inside another is bracketed, except the left side of a sum in a sum and of a
    product in a product, where brackets would only repeat how `parse` associates.
    """
    texts: dict[int, str] = {}
    for node in reversed(list(walk(expression))):  # children first, at any depth
        if isinstance(node, Number):
            texts[id(node)] = _number_text(node.value)
        elif isinstance(node, Symbol):
            texts[id(node)] = node.name
        else:
            texts[id(node)] = _call_text(node, [texts[id(a)] for a in node.arguments])
    return texts[id(expression)]


def _number_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "nan()" if math.isnan(value) else "inf()" if value > 0 else "-inf()"


def _call_text(node: Call, parts: list[str]) -> str:
    name, first = node.function, node.arguments[0]
    if name in _INFIX:
        kind = _CHAINED.get(name)
        chains = kind and isinstance(first, Call) and _CHAINED.get(first.function) == kind
        left = parts[0] if chains else _bracketed(first, parts[0])
        return f"{left} {_INFIX[name]} {_bracketed(node.arguments[1], parts[1])}"
    if name == "neg" and not isinstance(first, Number):  # -1.0 is a number, not a negation
        return f"-{_bracketed(first, parts[0])}"
    return f"{name}({', '.join(parts)})"


def _bracketed(node: Expression, text: str) -> str:
    infix = isinstance(node, Call) and (node.function in _INFIX or text.startswith("-"))
    return f"({text})" if infix else text


_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>\*\*|&&|\|\||[<>=!]=|[-+*/^(),<>!]))"
)
_OR, _AND, _COMPARE, _SUM, _PRODUCT, _POWER = range(1, 7)
_OPERATORS: Mapping[str, tuple[int, str]] = {
    "||": (_OR, "or"), "or": (_OR, "or"), "&&": (_AND, "and"), "and": (_AND, "and"),
    "<": (_COMPARE, "lt"), "<=": (_COMPARE, "le"), ">": (_COMPARE, "gt"),
    ">=": (_COMPARE, "ge"), "==": (_COMPARE, "eq"), "!=": (_COMPARE, "ne"),
    "+": (_SUM, "add"), "-": (_SUM, "sub"), "*": (_PRODUCT, "mul"), "/": (_PRODUCT, "div"),
    "^": (_POWER, "pow"), "**": (_POWER, "pow"),
}  # fmt: skip
_SPELLINGS = {"ln": "log", "power": "pow", "ceiling": "ceil", "arcsin": "asin", "arccos": "acos",
              "arctan": "atan", "fabs": "abs"}  # fmt: skip
_CONSTANTS = {"pi": math.pi, "inf": math.inf, "infinity": math.inf, "nan": math.nan}
_CHAINS = ("min", "max", "and", "or", "xor")
Builder = Callable[[list[Expression]], Expression]


def parse(text: str, functions: Mapping[str, Builder] | None = None) -> Expression:
    """Read infix text.

    ``+ - * / ^ **``, comparisons, ``&& || !`` or the words ``and or not``, calls of `FUNCTIONS`,
    ``piecewise(value, condition, ..., otherwise)`` and the constants ``pi() inf() nan()``.
    A power binds tighter than a sign before it: ``-x^2`` is ``-(x^2)``.

    Parameters
    ----------
    functions
        More functions: from the arguments of a call to the tree that stands for it.

    Raises
    ------
    ModelError
        The text is not an expression, or uses something `FUNCTIONS` does not have.
    """
    try:
        return _Parser(text, functions or {}).read()
    except ModelError as error:
        raise ModelError(f"cannot read the expression {_short(text)!r}: {error}") from None
    except RecursionError:
        raise ModelError(f"the expression {_short(text)!r} is nested too deeply") from None


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."


def _shown(token: str) -> str:
    return repr(token) if token else "the end"


class _Parser:
    """Precedence climbing (Richards and Whitby-Strevens, BCPL, 1979) over the tokens of a text."""

    def __init__(self, text: str, functions: Mapping[str, Builder]) -> None:
        self._functions = functions
        self._tokens: list[str] = []
        self._at = at = 0
        end = len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise ModelError(f"{text[at:].lstrip()[0]!r} does not belong there")
            self._tokens.append(match[0].lstrip())
            at = match.end()
        self._tokens.append("")  # the end

    def read(self) -> Expression:
        tree = self._operation(_OR)
        if self._peek():
            raise ModelError(f"{self._peek()!r} does not belong there")
        return tree

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, token: str) -> None:
        found = self._take()
        if found != token:
            raise ModelError(f"{token!r} is missing before {_shown(found)}")

    def _operation(self, least: int) -> Expression:
        """Read operands joined by operators that bind at least as tightly as `least`."""
        left = self._operand()
        last = left  # right side of the comparison before: a < b < c means a < b and b < c
        while (found := _OPERATORS.get(self._peek())) and found[0] >= least:
            (level, function), _ = found, self._take()
            if level == _POWER:  # associates to the right
                left = call(function, left, self._operation(_POWER))
            elif level == _COMPARE:
                right = self._operation(_SUM)
                link = call(function, last, right)
                left = link if left is last else call("and", left, link)
                last = right
                continue
            else:
                left = call(function, left, self._operation(level + 1))
            last = left
        return left

    def _operand(self) -> Expression:
        token = self._take()
        if token in ("-", "+"):
            inner = self._operation(_POWER)
            if token == "+":
                return inner
            return Number(-inner.value) if isinstance(inner, Number) else call("neg", inner)
        if token == "!":
            return call("not", self._operation(_POWER))
        if token == "(":
            inner = self._operation(_OR)
            self._expect(")")
            return inner
        if token[:1].isdigit() or token[:1] == ".":
            return Number(float(token))
        if not (token[:1].isalpha() or token[:1] == "_"):
            raise ModelError(f"a value is missing before {_shown(token)}")
        if self._peek() == "(":
            return self._called(token)
        if token == "not" and self._peek() not in ("", ")", ",", *_OPERATORS):
            return call("not", self._operation(_COMPARE))
        return Symbol(token)

    def _called(self, name: str) -> Expression:
        self._expect("(")
        arguments: list[Expression] = []
        while self._peek() != ")":
            arguments.append(self._operation(_OR))
            if self._peek() != ")":
                self._expect(",")
        self._take()
        if name in self._functions:
            return self._functions[name](arguments)
        name = _SPELLINGS.get(name, name)
        if name in _CHAINS and len(arguments) > 1:
            return functools.reduce(lambda left, right: call(name, left, right), arguments)
        if name in _CONSTANTS and not arguments:
            return Number(_CONSTANTS[name])
        if name == "piecewise" and len(arguments) % 2 == 1:
            tree = arguments[-1]
            for i in range(len(arguments) - 3, -1, -2):
                tree = call("if", arguments[i + 1], arguments[i], tree)
            return tree
        return call(name, *arguments)

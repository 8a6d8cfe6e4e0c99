"""Infix text to expression trees.

Sums and products associate to the left, as written.  Only where more than `LONGEST_CHAIN` terms
stand in a row are they bracketed in halves, so that the tree stays shallow.  Neither long rows nor
deep brackets take Python's stack.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import (
    LONGEST_CHAIN,
    Call,
    Expression,
    Number,
    Symbol,
    call,
)
from tauslab.model.names import LONGEST_NAME, brief

_TOKEN = re.compile(
    r"\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"  # a number
    r"|[A-Za-z_][A-Za-z0-9_]*"
    r"|\*\*|&&|\|\||[<>=!]=|[-+*/^(),<>!])"
    r"|(\S))"  # what is none of these
)
_POWER, _PRODUCT, _SUM, _COMPARE, _AND, _OR = range(6)
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
_OPEN, _COMMA, _NOT = "(", ",", "not"
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_INVERSE = {"sub": "add", "div": "mul"}
Builder = Callable[[list[Expression]], Expression]


def parse(text: str, functions: Mapping[str, Builder] | None = None) -> Expression:
    """Read infix text.

    ``+ - * / ^ **``, comparisons, ``&& || !`` or the words ``and or not``, calls of `FUNCTIONS`,
    ``piecewise(value, condition, ..., otherwise)`` and the constants ``pi() inf() nan()``.
    A power binds tighter than a sign before it: ``-x^2`` is ``-(x^2)``.  A word is an operator
    only where an operator can stand, so any name may be that of a species.

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
        return _InfixParser(text, functions or {}).read()
    except ModelError as error:
        shown = text if len(text) <= 200 else f"{text[:200]}..."
        raise ModelError(f"cannot read the expression {shown!r}: {error}") from None


def as_expression(value: Expression | float | str, what: str = "") -> Expression:
    """Return `value` as a tree: numbers become `Number`, text is parsed.

    Raises
    ------
    ModelError
        It is none of these, or text that cannot be read; `what` it stands for opens the message.
    """
    before = f"{what}: " if what else ""
    if isinstance(value, Number | Symbol | Call):
        return value
    try:
        return parse(value) if isinstance(value, str) else Number(float(value))
    except ModelError as error:
        raise ModelError(f"{before}{error}") from None
    except OverflowError:
        raise ModelError(f"{before}a number above 1.8e308 is not allowed") from None
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise ModelError(f"{before}a number or an expression is expected, not {kind}") from None


class _Row:
    """Operands with operators between them, all in the same bracket of `function`."""

    def __init__(self, function: str = "") -> None:
        self.function = function
        self.arguments: list[Expression] = []  # of the function, as far as they are complete
        self._operands: list[Expression] = []
        self._operators: list[tuple[int, str]] = []
        self._signs: list[list[str]] = []  # before each operand
        self._nots: list[int] = []  # words `not` before each operand of a logical operator
        self._pending: list[str] = []

    def operand(self, tree: Expression) -> None:
        """Add a value; it takes the signs before it."""
        signs = [sign for sign in self._pending if sign != _NOT] if self._pending else []
        self._operands.append(tree)
        self._signs.append(signs)
        if self._in_logic():
            self._nots.append(len(self._pending) - len(signs))
        self._pending = []

    def operator(self, level: int, function: str) -> None:
        self._operators.append((level, function))

    def sign(self, token: str) -> None:
        """Add one of ``- + !`` or the word ``not``, which stands before a whole comparison."""
        if token == _NOT and not (self._in_logic() and set(self._pending) <= {_NOT}):
            raise ModelError("'not' does not belong there: bracket what it negates")
        self._pending.append(token)

    def _in_logic(self) -> bool:
        return not self._operators or self._operators[-1][0] >= _AND

    def folded(self) -> Expression:
        """Take the row as one tree and leave it empty; binds tightest what binds tightest."""
        levels = sorted({level for level, _ in self._operators})
        if any(self._signs) or _POWER in levels:
            self._fold_powers()
        for level in levels:
            if _POWER < level < _AND:
                self._fold(level)
        for i, count in enumerate(self._nots):
            for _ in range(count):
                self._operands[i] = call("not", self._operands[i])
        for level in levels:
            if level >= _AND:
                self._fold(level)
        (tree,) = self._operands
        self._operands, self._operators, self._signs, self._nots = [], [], [], []
        return tree

    def _fold_powers(self) -> None:
        """Powers, which associate to the right, and signs, which bind a little less tightly."""
        operands: list[Expression] = []
        operators: list[tuple[int, str]] = []
        for i in range(len(self._operands) - 1, -1, -1):
            tree = self._operands[i]
            if operands and self._operators[i][0] == _POWER:
                tree = call("pow", tree, operands.pop())
            elif operands:
                operators.append(self._operators[i])
            for sign in reversed(self._signs[i]):
                tree = _signed(sign, tree)
            operands.append(tree)
        self._operands, self._operators = operands[::-1], operators[::-1]

    def _fold(self, level: int) -> None:
        """Join operands between which operators of `level` stand."""
        operands, operators = [], []
        chain, functions = [self._operands[0]], [""]
        for operand, (result, function) in zip(self._operands[1:], self._operators, strict=True):
            if result == level:
                chain.append(operand)
                functions.append(function)
            else:
                operands.append(_joined(chain, functions))
                operators.append((result, function))
                chain, functions = [operand], [""]
        self._operands = [*operands, _joined(chain, functions)]
        self._operators = operators


def _signed(sign: str, tree: Expression) -> Expression:
    if sign == "+":
        return tree
    if sign == "!":
        return call("not", tree)
    return Number(-tree.value) if isinstance(tree, Number) else call("neg", tree)


def _joined(terms: list[Expression], functions: list[str]) -> Expression:
    """Terms joined from the left, in halves where there are more than `LONGEST_CHAIN`.

    ``functions[i]`` stands before ``terms[i]``; the first one does not count.
    """
    if len(terms) > 1 and functions[1] in _COMPARISONS:  # a < b < c means a < b and b < c
        pairs = zip(functions[1:], terms[:-1], terms[1:], strict=True)
        links: list[Expression] = [call(function, *pair) for function, *pair in pairs]
        return _joined(links, ["and"] * len(links))
    if len(terms) <= LONGEST_CHAIN:
        tree = terms[0]
        for function, term in zip(functions[1:], terms[1:], strict=True):
            tree = call(function, tree, term)
        return tree
    middle = len(terms) // 2
    function, right = functions[middle], functions[middle:]
    if function in _INVERSE:  # a - (b - c) is a - b + c: what follows changes its sign
        swap = {function: _INVERSE[function], _INVERSE[function]: function}
        right = [swap[other] for other in right]
    return call(
        function, _joined(terms[:middle], functions[:middle]), _joined(terms[middle:], right)
    )


class _InfixParser:
    """Reads tokens, with a stack of open brackets; each holds a row, folded when it closes."""

    def __init__(self, text: str, functions: Mapping[str, Builder]) -> None:
        self._functions = functions
        self._tokens: list[str] = []
        self._at = 0
        for token, foreign in _TOKEN.findall(text):
            if foreign:
                hint = ": equality is '=='" if foreign == "=" else ""
                raise ModelError(f"{foreign!r} does not belong there{hint}")
            if len(token) > LONGEST_NAME:
                raise ModelError(f"a word of it has {len(token)} characters, {brief(token, 40)}")
            self._tokens.append(token)
        self._tokens.append("")  # the end
        self._rows = [_Row()]

    def read(self) -> Expression:
        wants_value = True
        while True:
            token = self._take()
            if wants_value:
                wants_value = self._begin(token)
            elif token in _OPERATORS:
                self._rows[-1].operator(*_OPERATORS[token])
                wants_value = True
            elif len(self._rows) > 1:
                wants_value = self._end(token)
            elif token:
                raise ModelError(f"{token!r} does not belong there")
            else:
                return self._rows[0].folded()

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _begin(self, token: str) -> bool:
        """Take a token where a value must begin; return whether the value is still to come."""
        row = self._rows[-1]
        if token in ("-", "+", "!"):
            row.sign(token)
        elif token == _OPEN:
            self._rows.append(_Row())
        elif token[:1].isdigit() or token[:1] == ".":
            row.operand(Number(float(token)))
            return False
        elif not (token[:1].isalpha() or token[:1] == "_"):
            raise ModelError(f"a value is missing before {_shown(token)}")
        elif self._peek() == _OPEN:
            self._take()
            if self._peek() != ")":
                self._rows.append(_Row(token))
                return True
            self._take()
            row.operand(self._called(token, []))
            return False
        elif token == _NOT and self._peek() not in ("", ")", ",", *_OPERATORS):
            row.sign(token)
        else:
            row.operand(Symbol(token))
            return False
        return True

    def _end(self, token: str) -> bool:
        """Take a token that ends an argument or a bracket; return whether a value must follow."""
        row = self._rows[-1]
        if token not in (")", ",") or (token == _COMMA and not row.function):
            raise ModelError(f"')' is missing before {_shown(token)}")
        tree = row.folded()
        if token == _COMMA:
            row.arguments.append(tree)
            return True
        self._rows.pop()
        if row.function:
            tree = self._called(row.function, [*row.arguments, tree])
        self._rows[-1].operand(tree)
        return False

    def _called(self, name: str, arguments: list[Expression]) -> Expression:
        if name in self._functions:
            return self._functions[name](arguments)
        name = _SPELLINGS.get(name, name)
        if name in _CHAINS and len(arguments) > 1:
            return _joined(arguments, [name] * len(arguments))
        if name in _CONSTANTS and not arguments:
            return Number(_CONSTANTS[name])
        if name == "piecewise" and len(arguments) % 2 == 1:
            tree = arguments[-1]
            for i in range(len(arguments) - 3, -1, -2):
                tree = call("if", arguments[i + 1], arguments[i], tree)
            return tree
        return call(name, *arguments)


def _shown(token: str) -> str:
    return repr(token) if token else "the end"

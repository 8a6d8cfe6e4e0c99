"""Rate laws as immutable expression trees.

A law is a `Number`, a `Symbol` (a species count, a parameter or a rule) or a `Call` of one of
`FUNCTIONS`.  Readers build trees, `parse` reads infix text, `tauslab.model.host_math` evaluates
trees on the host, and the code generator turns them into C++.  Sums and products are binary and
associate as written, so every device adds in the same order.
"""

from __future__ import annotations

import ast
import math
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
    if isinstance(expression, Symbol):
        return values.get(expression.name, expression)
    if isinstance(expression, Call):
        changed = tuple(substitute(a, values) for a in expression.arguments)
        same = all(x is y for x, y in zip(changed, expression.arguments, strict=True))
        return expression if same else Call(expression.function, changed)
    return expression


_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">",
          "ge": ">=", "eq": "==", "ne": "!="}  # fmt: skip


def to_text(expression: Expression) -> str:
    """Fully bracketed infix text that `parse` reads back to the same tree."""
    if isinstance(expression, Number):
        return repr(expression.value)
    if isinstance(expression, Symbol):
        return expression.name
    parts = [to_text(a) for a in expression.arguments]
    if expression.function in _INFIX:
        return f"({parts[0]} {_INFIX[expression.function]} {parts[1]})"
    if expression.function == "neg":
        return f"(-{parts[0]})"
    return f"{expression.function}({', '.join(parts)})"


_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_SPELLINGS = {"ln": "log", "power": "pow", "ceiling": "ceil", "arcsin": "asin", "arccos": "acos",
              "arctan": "atan", "fabs": "abs", "if_": "if", "and_": "and", "or_": "or",
              "not_": "not"}  # fmt: skip
_KEYWORD_FUNCTIONS = ("if", "and", "or", "not")
_CONSTANTS = {"pi": math.pi, "inf": math.inf, "infinity": math.inf, "nan": math.nan}


def parse(text: str) -> Expression:
    """Read infix text: ``+ - * / ^ **``, comparisons, ``&& || !``, calls of `FUNCTIONS`.

    Raises
    ------
    ModelError
        The text is not an expression, or uses something `FUNCTIONS` does not have.
    """
    source = text.replace("^", "**").replace("&&", " and ").replace("||", " or ")
    source = source.replace("!=", "\0").replace("!", " not ").replace("\0", "!=")
    for word in _KEYWORD_FUNCTIONS:
        source = _rename_calls(source, word)
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ModelError(f"cannot read the expression {text!r}: {error.args[0]}") from None
    return _from_ast(tree, text)


def _rename_calls(source: str, word: str) -> str:
    """Turn the call ``word(`` of a Python keyword into ``word_(`` so that `ast` accepts it."""
    out, start = [], 0
    while (at := source.find(f"{word}(", start)) >= 0:
        before = source[at - 1] if at else " "
        glued = before.isalnum() or before in "_."
        infix = word != "if" and source[:at].rstrip()[-1:] not in ("", "(", ",", *"+-*/<>=")
        out.append(source[start:at] + (word if glued or infix else f"{word}_") + "(")
        start = at + len(word) + 1
    return "".join([*out, source[start:]])


def _from_ast(node: ast.expr, text: str) -> Expression:
    handler: Callable[[ast.expr, str], Expression] | None = _HANDLERS.get(type(node))
    if handler is None:
        raise ModelError(f"cannot read the expression {text!r}: {type(node).__name__} not allowed")
    return handler(node, text)


def _read_constant(node: ast.expr, text: str) -> Expression:
    value = getattr(node, "value", None)
    if not isinstance(value, int | float):
        raise ModelError(f"cannot read the expression {text!r}: {value!r} is not a number")
    return Number(float(value))


def _read_name(node: ast.expr, text: str) -> Expression:
    assert isinstance(node, ast.Name)
    return Symbol(node.id)


def _read_binary(node: ast.expr, text: str) -> Expression:
    assert isinstance(node, ast.BinOp)
    name = _BINARY.get(type(node.op))
    if name is None:
        raise ModelError(f"cannot read the expression {text!r}: operator not allowed")
    return call(name, _from_ast(node.left, text), _from_ast(node.right, text))


def _read_unary(node: ast.expr, text: str) -> Expression:
    assert isinstance(node, ast.UnaryOp)
    operand = _from_ast(node.operand, text)
    if isinstance(node.op, ast.USub):
        return Number(-operand.value) if isinstance(operand, Number) else call("neg", operand)
    if isinstance(node.op, ast.Not):
        return call("not", operand)
    return operand


def _read_compare(node: ast.expr, text: str) -> Expression:
    assert isinstance(node, ast.Compare)
    sides = [_from_ast(side, text) for side in (node.left, *node.comparators)]
    parts: list[Expression] = []
    for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
        if type(op) not in _COMPARE:
            raise ModelError(f"cannot read the expression {text!r}: comparison not allowed")
        parts.append(call(_COMPARE[type(op)], left, right))
    return _join("and", parts)


def _read_logic(node: ast.expr, text: str) -> Expression:
    assert isinstance(node, ast.BoolOp)
    name = "and" if isinstance(node.op, ast.And) else "or"
    return _join(name, [_from_ast(value, text) for value in node.values])


def _read_call(node: ast.expr, text: str) -> Expression:
    assert isinstance(node, ast.Call)
    if not isinstance(node.func, ast.Name) or node.keywords:
        raise ModelError(f"cannot read the expression {text!r}: call not allowed")
    name = _SPELLINGS.get(node.func.id, node.func.id)
    arguments = [_from_ast(a, text) for a in node.args]
    if name in ("min", "max", "and", "or", "xor") and len(arguments) > 1:
        return _join(name, arguments)
    if name in _CONSTANTS and not arguments:
        return Number(_CONSTANTS[name])
    return call(name, *arguments)


def _join(name: str, parts: list[Expression]) -> Expression:
    joined = parts[0]
    for part in parts[1:]:
        joined = call(name, joined, part)
    return joined


_HANDLERS: dict[type[ast.expr], Callable[[ast.expr, str], Expression]] = {
    ast.Constant: _read_constant,
    ast.Name: _read_name,
    ast.BinOp: _read_binary,
    ast.UnaryOp: _read_unary,
    ast.Compare: _read_compare,
    ast.BoolOp: _read_logic,
    ast.Call: _read_call,
}

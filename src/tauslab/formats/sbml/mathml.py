"""MathML, as libsbml gives it, to expression trees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import (
    DEEPEST,
    DRAWS,
    Call,
    Expression,
    Number,
    Symbol,
    arguments_first,
    call,
    looks_back,
)
from tauslab.model.network.parts import DRAWN, LOOKS_BACK

# Avogadro's constant as SBML Level 3 defines it for the csymbol (Version 1, section 3.4.6).
AVOGADRO = 6.02214179e23
# A sum of more terms is bracketed in pairs: one bracket per term would nest too deep to walk.
_DEEPEST_CHAIN = 64
_TOO_DEEP = f"operations and functions are nested more than {DEEPEST} deep, which is the limit"
_MOST_EXPANSIONS = 1_000_000  # of functions with other arguments, or in other places

_PLAIN = {
    "FUNCTION_ABS": "abs", "FUNCTION_ARCCOS": "acos", "FUNCTION_ARCSIN": "asin",
    "FUNCTION_ARCTAN": "atan", "FUNCTION_CEILING": "ceil", "FUNCTION_COS": "cos",
    "FUNCTION_COSH": "cosh", "FUNCTION_EXP": "exp", "FUNCTION_FLOOR": "floor",
    "FUNCTION_LN": "log", "FUNCTION_SIN": "sin", "FUNCTION_SINH": "sinh", "FUNCTION_TAN": "tan",
    "FUNCTION_TANH": "tanh", "LOGICAL_NOT": "not", "FUNCTION_POWER": "pow", "POWER": "pow",
    "DIVIDE": "div",
}  # fmt: skip
_RECIPROCAL = {
    "FUNCTION_COT": "tan", "FUNCTION_COTH": "tanh", "FUNCTION_CSC": "sin",
    "FUNCTION_CSCH": "sinh", "FUNCTION_SEC": "cos", "FUNCTION_SECH": "cosh",
}  # fmt: skip
_INVERSE_OF_RECIPROCAL = {
    "FUNCTION_ARCCOT": "ARCTAN", "FUNCTION_ARCCSC": "ARCSIN", "FUNCTION_ARCSEC": "ARCCOS",
    "FUNCTION_ARCCOTH": "ARCTANH", "FUNCTION_ARCCSCH": "ARCSINH", "FUNCTION_ARCSECH": "ARCCOSH",
}  # fmt: skip
_AREA = ("FUNCTION_ARCSINH", "FUNCTION_ARCCOSH", "FUNCTION_ARCTANH")
_CHAIN = {
    "PLUS": ("add", 0.0), "TIMES": ("mul", 1.0), "LOGICAL_AND": ("and", 1.0),
    "LOGICAL_OR": ("or", 0.0), "LOGICAL_XOR": ("xor", 0.0), "FUNCTION_MAX": ("max", math.nan),
    "FUNCTION_MIN": ("min", math.nan),
}  # fmt: skip
_RELATION = {
    "RELATIONAL_EQ": "eq", "RELATIONAL_GEQ": "ge", "RELATIONAL_GT": "gt", "RELATIONAL_LEQ": "le",
    "RELATIONAL_LT": "lt", "RELATIONAL_NEQ": "ne",
}  # fmt: skip
_CONSTANT = {
    "CONSTANT_E": math.e, "CONSTANT_PI": math.pi, "CONSTANT_TRUE": 1.0, "CONSTANT_FALSE": 0.0,
    "NAME_AVOGADRO": AVOGADRO,
}  # fmt: skip


class MathReader:
    """Turns MathML of one model into expressions.

    Parameters
    ----------
    libsbml
        The imported library.
    functions
        The ``lambda`` of every function definition; calls are expanded.
    resolve
        What a name means, given the name and where it stands; raises `ModelError` if nothing.
    refuse
        Called with a feature kind, the element and a detail where an expression cannot say what
        the model says (time, delay, unknown functions).
    rate_of
        Rate of change of what a name means, given the name and where it is asked for.
    delayed
        What a formula was a delay ago, given both.
    """

    def __init__(
        self,
        libsbml: Any,
        functions: Mapping[str, Any],
        resolve: Callable[[str, str], Expression],
        refuse: Callable[[str, str, str], None],
        rate_of: Callable[[str, str], Expression] | None = None,
        delayed: Callable[[Expression, Expression], Expression] | None = None,
    ) -> None:
        self._libsbml, self._functions, self._rate_of = libsbml, functions, rate_of
        self._delayed = delayed
        self._resolve, self._pass_on = resolve, refuse
        self._names = _type_names(libsbml)
        self._expanding: list[str] = []
        self._expanded: dict[tuple[object, ...], Expression] = {}
        self._depths: dict[int, tuple[int, Expression]] = {}
        self._deep = self._refusals = self._expansions = 0

    def read(
        self, node: Any, where: str, bound: Mapping[str, Expression] | None = None
    ) -> Expression:
        """Expression of a libsbml ``ASTNode``; names in `bound` hide those of the model."""
        if node is None:
            raise ModelError(f"{where}: there is no math")
        return self._read(node, where, bound or {})

    def _read(self, node: Any, where: str, bound: Mapping[str, Expression]) -> Expression:
        if self._deep >= DEEPEST:
            raise ModelError(f"{where}: {_TOO_DEEP}")
        self._deep += 1
        result = self._read_node(node, where, bound)
        self._deep -= 1
        return result

    def _read_node(self, node: Any, where: str, bound: Mapping[str, Expression]) -> Expression:
        kind = self._names.get(node.getType(), "UNKNOWN")
        if kind in _CONSTANT:
            return Number(_CONSTANT[kind])
        if kind in ("INTEGER", "REAL", "REAL_E", "RATIONAL"):
            return Number(_number(node, kind, where))
        if kind == "NAME":
            name = node.getName()
            return bound[name] if name in bound else self._resolve(name, where)
        if kind == "NAME_TIME":
            self._refuse("time", where, "its math uses the csymbol time")
            return Symbol("time")
        if kind == "FUNCTION" and node.getName() in self._functions:
            return self._expand(node, where, bound)
        if kind == "FUNCTION_RATE_OF" and self._rate_of is not None and node.getNumChildren() == 1:
            return self._rate(node.getChild(0), where, bound)
        arguments = [self._read(child, where, bound) for child in self._operands(node, kind)]
        if kind == "FUNCTION_DELAY":
            if self._delayed is None or len(arguments) != 2:
                raise ModelError(f"{where}: delay takes 2 arguments, not {len(arguments)}")
            past = self._delayed(*arguments)
            if looks_back(past):
                self._refuse("delay", where, LOOKS_BACK)
            return past
        built = _build(kind, arguments)
        if built is None and (built := _draw(kind, arguments)) is not None:
            self._refuse("draw", where, DRAWN)
        if built is None:
            shown = node.getName() or kind.removeprefix("FUNCTION_").lower()
            self._refuse("function", where, f"its math uses {shown!r}")
            return Number(math.nan)
        return built

    def _rate(self, node: Any, where: str, bound: Mapping[str, Expression]) -> Expression:
        """Rate of change of a name; that of a local parameter is 0."""
        assert self._rate_of is not None
        name = node.getName() if self._names.get(node.getType()) == "NAME" else ""
        meant = bound.get(name, Symbol(name))
        if isinstance(meant, Call):  # what a function is given: a concentration, or a formula
            self._refuse("function", where, "its math uses 'rateOf' of an argument")
            return Number(math.nan)
        if not isinstance(meant, Symbol):
            return Number(0.0)
        return self._rate_of(meant.name, where)

    def _operands(self, node: Any, kind: str) -> list[Any]:
        """Children of a node; for a chain ``((a + b) + c) + d`` all its terms.

        libsbml nests long sums this way, deeper than Python may recurse.
        """
        last: list[Any] = []
        while kind in _CHAIN and node.getNumChildren() == 2:
            left = node.getChild(0)
            if self._names.get(left.getType()) != kind:
                break
            last.append(node.getChild(1))
            node = left
        return [node.getChild(i) for i in range(node.getNumChildren())] + last[::-1]

    def _expand(self, node: Any, where: str, bound: Mapping[str, Expression]) -> Expression:
        name = node.getName()
        definition = self._functions[name]
        if definition is None:
            raise ModelError(f"{where}: function {name} has no math")
        count = definition.getNumChildren() - 1  # the last child is the body
        given = node.getNumChildren()
        if name in self._expanding:
            raise ModelError(f"function definition {name} calls itself")
        if given != count:
            raise ModelError(f"{where}: function {name} takes {count} arguments, not {given}")
        arguments = [self._read(node.getChild(i), where, bound) for i in range(count)]
        for argument in arguments:
            self._require_shallow(argument, where)
        # Read once, since functions may call others many times over; but a refusal names every
        # element.
        known: tuple[object, ...] = name, *arguments
        if known not in self._expanded and (*known, where) not in self._expanded:
            before = self._refusals
            body = self._body(name, where, arguments)
            if self._refusals > before:
                known = *known, where
            self._expanded[known] = body
        return self._expanded[known if known in self._expanded else (*known, where)]

    def _require_shallow(self, tree: Expression, where: str) -> None:
        """Refuse what functions of functions have nested too deep; a part is looked at once."""
        for node in arguments_first(tree, self._depths):
            inside = node.arguments if isinstance(node, Call) else ()
            result = 1 + max((self._depths[id(part)][0] for part in inside), default=-1)
            if result > DEEPEST:
                raise ModelError(f"{where}: {_TOO_DEEP}")
            self._depths[id(node)] = result, node

    def _refuse(self, kind: str, where: str, detail: str) -> None:
        self._refusals += 1
        self._pass_on(kind, where, detail)

    def _body(self, name: str, where: str, arguments: Sequence[Expression]) -> Expression:
        """A function of these arguments."""
        self._expansions += 1
        if self._expansions > _MOST_EXPANSIONS:
            raise ModelError(
                f"{where}: functions call each other more than {_MOST_EXPANSIONS} times"
            )
        definition = self._functions[name]
        count = len(arguments)
        inner = {definition.getChild(i).getName(): tree for i, tree in enumerate(arguments)}
        self._expanding.append(name)
        body = self._read(definition.getChild(count), f"{where} (function {name})", inner)
        self._expanding.pop()
        if isinstance(body, Number) and math.isnan(body.value):  # a stand-in, as for rateOf
            what = f"its math uses {name!r}, which the file defines as not a number"
            self._refuse("function", where, what)
        return body


@cache
def _type_names(libsbml: Any) -> dict[int, str]:
    return {
        value: name.removeprefix("AST_")
        for name, value in vars(libsbml).items()
        if name.startswith("AST_") and not name.startswith("AST_TYPECODE")
    }


def _number(node: Any, kind: str, where: str) -> float:
    if kind == "INTEGER":
        return float(node.getInteger())
    if kind == "RATIONAL":
        if node.getDenominator() == 0:
            raise ModelError(f"{where}: the rational number {node.getNumerator()}/0 has no value")
        return float(node.getNumerator() / node.getDenominator())
    if kind == "REAL_E" and math.isfinite(node.getMantissa()):
        # Read as one decimal number: mantissa * 10**exponent would round twice.
        mantissa, _, power = repr(node.getMantissa()).partition("e")
        return float(f"{mantissa}e{int(power or 0) + node.getExponent()}")
    return float(node.getReal())


def _build(kind: str, arguments: list[Expression]) -> Expression | None:
    """Tree for one operator; None where there is none with these arguments."""
    n = len(arguments)
    if kind in _CHAIN:
        function, empty = _CHAIN[kind]
        return _join(function, arguments) if arguments else Number(empty)
    if kind in _RELATION and n >= 2:
        pairs = itertools.pairwise(arguments)
        return _join("and", [call(_RELATION[kind], left, right) for left, right in pairs])
    if kind == "FUNCTION_PIECEWISE" and n:
        return _piecewise(arguments)
    if n == 1:
        return _unary(kind, arguments[0])
    if n == 2:
        return _binary(kind, arguments[0], arguments[1])
    return None


def _draw(kind: str, arguments: list[Expression]) -> Expression | None:
    """A random number of package distrib; None for what is none, or with other arguments."""
    name = kind.removeprefix("DISTRIB_FUNCTION_").lower()
    return call(name, *arguments) if len(arguments) in DRAWS.get(name, ()) else None


def _unary(kind: str, x: Expression) -> Expression | None:
    if kind == "MINUS":
        return Number(-x.value) if isinstance(x, Number) else call("neg", x)
    if kind == "FUNCTION_ROOT":
        return call("sqrt", x)
    if kind == "FUNCTION_LOG":
        return call("log10", x)
    if kind in _RECIPROCAL:
        return call("div", 1.0, call(_RECIPROCAL[kind], x))
    if kind in _INVERSE_OF_RECIPROCAL:
        return _unary(f"FUNCTION_{_INVERSE_OF_RECIPROCAL[kind]}", call("div", 1.0, x))
    if kind in _AREA:
        return _area(kind, x)
    if kind == "FUNCTION_FACTORIAL" and isinstance(x, Number):
        whole = x.value.is_integer() and 0 <= x.value <= 170
        return Number(float(math.factorial(int(x.value)))) if whole else None
    if kind in _PLAIN and _PLAIN[kind] not in ("pow", "div"):
        return call(_PLAIN[kind], x)
    return None


def _area(kind: str, x: Expression) -> Expression:
    """Inverse hyperbolic functions by their logarithms."""
    if kind == "FUNCTION_ARCTANH":
        ratio = call("div", call("add", 1.0, x), call("sub", 1.0, x))
        return call("mul", 0.5, call("log", ratio))
    square = call("mul", x, x)
    if kind == "FUNCTION_ARCCOSH":
        return call("log", call("add", x, call("sqrt", call("sub", square, 1.0))))
    root = call("sqrt", call("add", square, 1.0))  # near -x where x is far below 0
    below = call("neg", call("log", call("sub", root, x)))
    return call("if", call("lt", x, 0.0), below, call("log", call("add", x, root)))


def _binary(kind: str, x: Expression, y: Expression) -> Expression | None:
    if kind == "MINUS":
        return call("sub", x, y)
    if _PLAIN.get(kind) in ("pow", "div"):
        return call(_PLAIN[kind], x, y)
    if kind == "FUNCTION_ROOT":  # x is the degree
        if isinstance(x, Number) and x.value in (2.0, 3.0):
            return call("sqrt" if x.value == 2.0 else "cbrt", y)
        return call("pow", y, call("div", 1.0, x))
    if kind == "FUNCTION_LOG":  # x is the base
        if isinstance(x, Number) and x.value == 10.0:
            return call("log10", y)
        return call("div", call("log", y), call("log", x))
    if kind == "LOGICAL_IMPLIES":
        return call("or", call("not", x), y)
    if kind == "FUNCTION_QUOTIENT":
        return _truncated(call("div", x, y))
    if kind == "FUNCTION_REM":
        return call("sub", x, call("mul", y, _truncated(call("div", x, y))))
    return None


def _truncated(x: Expression) -> Expression:
    return call("if", call("lt", x, 0.0), call("ceil", x), call("floor", x))


def _piecewise(arguments: list[Expression]) -> Expression:
    """Pairs (value, condition), first true one counts; undefined (NaN) without an otherwise."""
    result: Expression = arguments[-1] if len(arguments) % 2 else Number(math.nan)
    for i in range(len(arguments) // 2 - 1, -1, -1):
        result = call("if", arguments[2 * i + 1], arguments[2 * i], result)
    return result


def _join(function: str, parts: list[Expression]) -> Expression:
    if len(parts) > _DEEPEST_CHAIN:
        middle = len(parts) // 2
        return call(function, _join(function, parts[:middle]), _join(function, parts[middle:]))
    joined = parts[0]
    for part in parts[1:]:
        joined = call(function, joined, part)
    return joined

"""Functions and constants of BioNetGen's expressions beyond those of our expressions.

Meanings are those of BioNetGen 2 (its Perl module ``Expression``): ``rint(x)`` is floor(x + 1/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import Expression, Number, Symbol, call
from tauslab.model.expressions.infix import Builder


def _one(build: Callable[[Expression], Expression]) -> Builder:
    """A function of one argument."""

    def apply(arguments: list[Expression]) -> Expression:
        if len(arguments) != 1:
            raise ModelError(f"a function of one argument is given {len(arguments)}")
        return build(arguments[0])

    return apply


def _sum(arguments: list[Expression]) -> Expression:
    if not arguments:
        raise ModelError("a sum or a mean has no arguments")
    return balanced_sum(arguments)


def balanced_sum(terms: list[Expression]) -> Expression:
    """Sum of terms, joined in pairs again and again, so that thousands stay shallow."""
    while len(terms) > 1:
        pairs = [call("add", *terms[i : i + 2]) for i in range(0, len(terms) - 1, 2)]
        terms = [*pairs, *terms[2 * len(pairs) :]]
    return terms[0] if terms else Number(0.0)


def _log_of_sum(x: Expression, function: str) -> Expression:
    """log(x + sqrt(x^2 +- 1)): the inverse of sinh (add) or of cosh (sub)."""
    return call("log", call("add", x, call("sqrt", call(function, call("mul", x, x), 1.0))))


def _atanh(x: Expression) -> Expression:
    return call("mul", 0.5, call("log", call("div", call("add", 1.0, x), call("sub", 1.0, x))))


# Names that mean something where the file does not define them.
BARE: Mapping[str, Expression] = {
    "_pi": Number(math.pi),
    "_e": Number(math.e),
    "t": Symbol("time"),
    "time": Symbol("time"),
}
# What `tauslab.model.expressions.infix.parse` does not know by itself.
FUNCTIONS: Mapping[str, Builder] = {
    "_pi": lambda _: BARE["_pi"],
    "_e": lambda _: BARE["_e"],
    "t": lambda _: BARE["t"],
    "time": lambda _: BARE["time"],
    "log2": _one(lambda x: call("div", call("log", x), math.log(2.0))),
    "rint": _one(lambda x: call("floor", call("add", x, 0.5))),
    "sign": _one(lambda x: call("sub", call("gt", x, 0.0), call("lt", x, 0.0))),
    "asinh": _one(lambda x: _log_of_sum(x, "add")),
    "acosh": _one(lambda x: _log_of_sum(x, "sub")),
    "atanh": _one(_atanh),
    "sum": _sum,
    "avg": lambda arguments: call("div", _sum(arguments), len(arguments)),
}

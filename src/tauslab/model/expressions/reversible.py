"""Split the one law of a reversible reaction into a forward and a reverse propensity.

A stochastic simulation needs both parts: the net rate ``k1 A - k2 B`` has the right mean and the
wrong noise, and may be negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from tauslab.model.expressions.expression import Call, Expression, Number, Symbol, call
from tauslab.model.expressions.mass_action import distinct_factors, factors, falling_factor

_MOST_FACTORS = 10_000  # of what a number may be taken from to count pairs
_NEVER_NEGATIVE = frozenset(
    ("exp", "sqrt", "abs", "cosh", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not")
)


@dataclass(frozen=True)
class Split:
    """A law as ``forward - reverse``, both never negative; None stands for zero."""

    forward: Expression | None
    reverse: Expression | None


class SignAnalysis:
    """What can be said about the sign of an expression without running the model.

    Parameters
    ----------
    species
        Names that are counts, so never negative.
    values
        Values of the parameters; a parameter is taken to keep the sign it has.
    rules
        Expressions of the rules, in species and parameters.
    """

    def __init__(
        self,
        species: Mapping[str, object],
        values: Mapping[str, float],
        rules: Mapping[str, Expression],
    ) -> None:
        self._species, self._values, self._rules = species, values, rules
        # What is known of calls, by identity; the calls themselves, so that no other takes it.
        self._signs: dict[int, tuple[Call, bool]] = {}
        self._splits: dict[int, tuple[Call, Split | None]] = {}

    def never_negative(self, expression: Expression) -> bool:
        """Whether the expression is surely zero or more in every state of whole counts.

        ``x (x - 1)`` is, although ``x - 1`` alone is not.  False means "not shown".
        """
        if isinstance(expression, Number):
            return expression.value >= 0
        if isinstance(expression, Symbol):
            name = expression.name
            if name in self._rules:
                return self.never_negative(self._rules[name])
            return name in self._species or self._values.get(name, -1.0) >= 0
        if id(expression) not in self._signs:
            found = self._call_never_negative(expression)
            self._signs[id(expression)] = expression, found
        return self._signs[id(expression)][1]

    def _call_never_negative(self, expression: Call) -> bool:
        name, arguments = expression.function, expression.arguments
        if name in ("mul", "div", "neg"):
            return self._product_never_negative(expression)
        if name in ("add", "min"):
            return all(self.never_negative(a) for a in arguments)
        if name == "max":
            return any(self.never_negative(a) for a in arguments)
        if name == "if":
            return all(self.never_negative(a) for a in arguments[1:])
        if name in ("pow", "cbrt", "floor", "ceil", "sinh", "tanh", "atan"):
            return self.never_negative(arguments[0])
        return name in _NEVER_NEGATIVE

    def _product_never_negative(self, expression: Expression) -> bool:
        """Signs of the factors; x - j passes where x, x - 1, ..., x - j + 1 are factors too."""
        offsets: dict[str, set[int]] = {}
        minus = False
        for factor, multiplies, divides, odd in distinct_factors(expression):
            falling = falling_factor(factor, self._species) if multiplies else None
            if falling is not None:
                offsets.setdefault(falling[0], set()).add(falling[1])
            if isinstance(factor, Number) and factor.value < 0:
                minus ^= odd
            elif (divides or falling is None) and not self.never_negative(factor):
                return False
        return not minus and all(found == set(range(len(found))) for found in offsets.values())

    def split(self, law: Expression) -> Split | None:
        """Write `law` as forward minus reverse, or return None where that is not possible.

        Sums and differences are taken apart, also inside products with and quotients by parts
        that are never negative.  A factor ``x - 1`` is never taken apart: it counts pairs.
        """
        if self.never_negative(law):
            return Split(law, None)
        if isinstance(law, Number):
            return Split(None, Number(-law.value)) if law.value < 0 else None
        if not isinstance(law, Call):
            return None
        if id(law) not in self._splits:
            self._splits[id(law)] = law, self._split_call(law)
        return self._splits[id(law)][1]

    def _split_call(self, law: Call) -> Split | None:
        if self._counts_pairs(law):
            return None
        if law.function == "neg":
            inner = self.split(law.arguments[0])
            return None if inner is None else Split(inner.reverse, inner.forward)
        if law.function in ("add", "sub"):
            return self._split_sum(law)
        if law.function in ("mul", "div"):
            return self._split_product(law)
        return None

    def _counts_pairs(self, part: Call) -> bool:
        """Whether `part` is x - j, or the same of a concentration: x / V - j."""
        if part.function != "sub" or not isinstance(part.arguments[1], Number):
            return falling_factor(part, self._species) is not None
        listed = list(islice(factors(part.arguments[0]), _MOST_FACTORS + 1))
        counted = [factor for factor, divides in listed if not divides]
        return len(listed) <= _MOST_FACTORS and (
            len(counted) == 1
            and isinstance(counted[0], Symbol)
            and counted[0].name in self._species
        )

    def _split_sum(self, law: Call) -> Split | None:
        left, right = (self.split(argument) for argument in law.arguments)
        if left is None or right is None:
            return None
        if law.function == "sub":
            right = Split(right.reverse, right.forward)
        return Split(_plus(left.forward, right.forward), _plus(left.reverse, right.reverse))

    def _split_product(self, law: Call) -> Split | None:
        left, right = law.arguments
        if self.never_negative(right):
            inner = self.split(left)
            return None if inner is None else _map(inner, law.function, right, inner_first=True)
        if law.function == "mul" and self.never_negative(left):
            inner = self.split(right)
            return None if inner is None else _map(inner, law.function, left, inner_first=False)
        return None


def _plus(left: Expression | None, right: Expression | None) -> Expression | None:
    if left is None or right is None:
        return right if left is None else left
    return call("add", left, right)


def _map(inner: Split, function: str, other: Expression, *, inner_first: bool) -> Split:
    def apply(part: Expression | None) -> Expression | None:
        if part is None:
            return None
        return call(function, part, other) if inner_first else call(function, other, part)

    return Split(apply(inner.forward), apply(inner.reverse))

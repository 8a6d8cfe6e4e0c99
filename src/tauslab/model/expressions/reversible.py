"""Split the one law of a reversible reaction into a forward and a reverse propensity.

A stochastic simulation needs both parts: the net rate ``k1 A - k2 B`` has the right mean and the
wrong noise, and may be negative. `SignAnalysis.split` proves that both are never negative;
`SignAnalysis.as_written` takes a difference as it stands, and engines look at the sign of what
it could not prove whenever they compute it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import islice

from tauslab.model.expressions.expression import Call, Expression, Number, Symbol, call, symbols
from tauslab.model.expressions.mass_action import distinct_factors, factors, falling_factor

_MOST_FACTORS = 10_000  # of what a number may be taken from to count pairs
_NEVER_NEGATIVE = frozenset(
    ("exp", "sqrt", "abs", "cosh", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "not")
)


@dataclass(frozen=True)
class Split:
    """A law as ``forward - reverse``; None stands for zero."""

    forward: Expression | None
    reverse: Expression | None

    def swapped(self) -> Split:
        """Return the split of the law with the other sign."""
        return Split(self.reverse, self.forward)


class SignAnalysis:
    """Analysis of the sign of an expression without running the model.

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
        self._written: dict[tuple[int, bool], tuple[Call, Split]] = {}

    def never_negative(self, expression: Expression) -> bool:
        """Return whether the expression is surely zero or more in every state of whole counts.

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
            result = self._call_never_negative(expression)
            self._signs[id(expression)] = expression, result
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
        return not minus and all(result == set(range(len(result))) for result in offsets.values())

    def split(self, law: Expression) -> Split | None:
        """Write `law` as forward minus reverse, both never negative; None where none is shown.

        Sums and differences are taken apart, also inside products with and quotients by parts
        that are never negative, in products of two differences and in both branches of ``if``.
        A factor ``x - 1`` is never taken apart: it counts pairs. A species that multiplies and
        divides a part cancels there: ``A (1 - B / (A K))`` is ``A - B / K``.
        """
        if self.never_negative(law):
            return Split(law, None)
        if isinstance(law, Number):
            return Split(None, Number(-law.value)) if law.value < 0 else None
        if isinstance(law, Symbol):
            return Split(None, call("neg", law)) if self._values.get(law.name, 0.0) < 0 else None
        if id(law) not in self._splits:
            self._splits[id(law)] = law, self._split_call(law)
        return self._splits[id(law)][1]

    def _split_call(self, law: Call) -> Split | None:
        if self._counts_pairs(law):
            return None
        if law.function == "neg":
            inner = self.split(law.arguments[0])
            return None if inner is None else inner.swapped()
        if law.function in ("add", "sub"):
            return self._split_sum(law)
        if law.function in ("mul", "div"):
            return self._split_product(law)
        if law.function == "if":
            yes, no = (self.split(argument) for argument in law.arguments[1:])
            return None if yes is None or no is None else _choice(law.arguments[0], yes, no)
        return None

    def as_written(self, law: Expression, *, is_rate: bool = True) -> Split:
        """Write `law` as forward minus reverse as it stands, where `split` shows less.

        A term of a sum that is neither shown to be never negative nor a difference counts where
        its sign in front puts it.

        Parameters
        ----------
        is_rate
            Read a rule that stands alone, or beside constants. Beside what moves it is an amount,
            such as what is left of a total, and stays whole.
        """
        result = self.split(law)
        if result is not None:
            return result
        if isinstance(law, Symbol) and law.name in self._rules and is_rate:
            inner = self.as_written(self._rules[law.name])
            return Split(law, None) if inner.reverse is None else inner
        if not isinstance(law, Call):
            return Split(law, None)
        key = id(law), is_rate
        if key not in self._written:
            self._written[key] = law, self._call_as_written(law, is_rate)
        return self._written[key][1]

    def _call_as_written(self, law: Call, is_rate: bool) -> Split:  # noqa: FBT001
        whole = Split(law, None)
        if self._counts_pairs(law):
            return whole
        if law.function == "neg":
            return self.as_written(law.arguments[0], is_rate=is_rate).swapped()
        if law.function in ("add", "sub", "if"):
            first, second = (self.as_written(a, is_rate=is_rate) for a in law.arguments[-2:])
            if law.function != "if":
                return _sum(law.function, first, second)
            if first.reverse is None and second.reverse is None:
                return whole
            return _choice(law.arguments[0], first, second)
        if law.function not in ("mul", "div"):
            return whole
        left, right = law.arguments
        first = self.as_written(left, is_rate=is_rate and self._is_constant(right))
        if law.function == "div":
            return self._mapped(first, "div", right, inner_first=True)
        second = self.as_written(right, is_rate=is_rate and self._is_constant(left))
        if second.reverse is None:
            return self._mapped(first, "mul", right, inner_first=True)
        return (
            self._mapped(second, "mul", left, inner_first=False) if first.reverse is None else whole
        )

    def _is_constant(self, expression: Expression) -> bool:
        return all(name in self._values for name in symbols(expression))

    def _counts_pairs(self, part: Call) -> bool:
        """Return whether `part` is x - j, or the same of a concentration: x / V - j."""
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
        return None if left is None or right is None else _sum(law.function, left, right)

    def _split_product(self, law: Call) -> Split | None:
        left, right = law.arguments
        if self.never_negative(right):
            inner = self.split(left)
            return inner and self._mapped(inner, law.function, right, inner_first=True)
        if law.function == "mul" and self.never_negative(left):
            inner = self.split(right)
            return inner and self._mapped(inner, law.function, left, inner_first=False)
        if law.function == "div" and isinstance(right, Symbol | Number):
            turned, inner = self.split(right), self.split(left)
            if inner is None or turned is None or turned.reverse is None:
                return None
            return self._mapped(inner.swapped(), "div", turned.reverse, inner_first=True)
        if law.function == "mul":
            return self._product_of_differences(left, right)
        return None

    def _product_of_differences(self, left: Expression, right: Expression) -> Split | None:
        """``(a - b) (c - d)`` is ``(a c + b d) - (a d + b c)``."""
        first, second = self.split(left), self.split(right)
        if first is None or second is None:
            return None
        return Split(
            _plus(_times(first.forward, second.forward), _times(first.reverse, second.reverse)),
            _plus(_times(first.forward, second.reverse), _times(first.reverse, second.forward)),
        )

    def _mapped(
        self, inner: Split, function: str, other: Expression, *, inner_first: bool
    ) -> Split:
        """Both parts times `other`, or divided by it."""

        def apply(part: Expression | None) -> Expression | None:
            if part is None:
                return None
            return call(function, part, other) if inner_first else call(function, other, part)

        if inner.forward is None or inner.reverse is None:
            return Split(apply(inner.forward), apply(inner.reverse))
        return Split(self._cancelled(apply(inner.forward)), self._cancelled(apply(inner.reverse)))

    def _cancelled(self, part: Expression | None) -> Expression | None:
        """A product without species that multiply and divide it, which no count of 0 may do."""
        listed = list(islice(factors(part), _MOST_FACTORS + 1)) if part is not None else []
        if len(listed) > _MOST_FACTORS:
            return part
        above, below = ([f for f, divides in listed if divides == side] for side in (False, True))
        named = [{f.name for f in side if isinstance(f, Symbol)} for side in (above, below)]
        for name in sorted(named[0] & named[1] & self._species.keys()):
            species = Symbol(name)
            for _ in range(min(above.count(species), below.count(species))):
                above.remove(species)
                below.remove(species)
        if len(above) + len(below) == len(listed):
            return part
        product = reduce(_product, above, None) or Number(1.0)
        return reduce(lambda whole, factor: call("div", whole, factor), below, product)


def _product(left: Expression | None, right: Expression) -> Expression:
    return right if left is None else call("mul", left, right)


def _times(left: Expression | None, right: Expression | None) -> Expression | None:
    return None if left is None or right is None else call("mul", left, right)


def _plus(left: Expression | None, right: Expression | None) -> Expression | None:
    if left is None or right is None:
        return right if left is None else left
    return call("add", left, right)


def _sum(function: str, left: Split, right: Split) -> Split:
    """The sum or the difference of two laws."""
    if function == "sub":
        right = right.swapped()
    return Split(_plus(left.forward, right.forward), _plus(left.reverse, right.reverse))


def _choice(condition: Expression, yes: Split, no: Split) -> Split:
    """A law that is one of two."""

    def chosen(first: Expression | None, second: Expression | None) -> Expression | None:
        if first is None and second is None:
            return None
        return call("if", condition, first or Number(0.0), second or Number(0.0))

    return Split(chosen(yes.forward, no.forward), chosen(yes.reverse, no.reverse))

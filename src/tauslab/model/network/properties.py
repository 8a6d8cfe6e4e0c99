"""Properties of trajectories in bounded linear temporal logic, and their text.

``F[0,10](X > 3) & G[20,50](Y < 1)``: X exceeds 3 within the first 10 time units, and Y stays below
1 from 20 to 50.  A formula holds at a time; windows count from there (Koymans 1990; Younes and
Simmons 2006).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tauslab.base.errors import ConfigError, ModelError
from tauslab.model.expressions.expression import Call, Expression, symbols
from tauslab.model.expressions.infix import parse

_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_WINDOW = re.compile(r"([FGU])\s*\[([^\[\],]*),([^\[\],]*)\]")
_ARITHMETIC = re.compile(r"\s*(?:[<>=+*/^]|!=|-(?!>))")
_END = re.compile(r"&|\||->|\bU\s*\[")


@dataclass(frozen=True)
class Atom:
    """A comparison of quantities."""

    comparison: Call


@dataclass(frozen=True)
class Not:
    """The inner formula does not hold."""

    inner: Property


@dataclass(frozen=True)
class And:
    """Both hold."""

    left: Property
    right: Property


@dataclass(frozen=True)
class Or:
    """One of them holds, or both."""

    left: Property
    right: Property


@dataclass(frozen=True)
class Until:
    """`right` holds at some time of the window, and `left` at all times before it.

    ``F[a,b] f`` is ``true U[a,b] f``; `left` is None for true.
    """

    left: Property | None
    right: Property
    begin: float
    end: float


Property = Atom | Not | And | Or | Until


def parse_property(text: str) -> Property:
    """Read a formula.

    Comparisons of expressions of quantities; ``! & | ->`` in this order of strength; ``F[a,b]``
    (at some time), ``G[a,b]`` (at all times) and ``f U[a,b] g`` (until), which bind as ``!``.

    Raises
    ------
    ConfigError
        The text is no such formula, or a window is not 0 <= a <= b.
    """
    parser = _FormulaParser(text)
    found = parser.implication()
    if parser.rest():
        raise parser.error(f"nothing may follow {text[: parser.at].strip()!r}")
    return found


def horizon(formula: Property) -> float:
    """Return how far beyond its own time a formula looks, in time units."""
    if isinstance(formula, Atom):
        return 0.0
    if isinstance(formula, Not):
        return horizon(formula.inner)
    parts = [formula.right] if formula.left is None else [formula.left, formula.right]
    ahead = max(horizon(part) for part in parts)
    return ahead + (formula.end if isinstance(formula, Until) else 0.0)


def quantities(formula: Property) -> set[str]:
    """Names that a formula reads."""
    if isinstance(formula, Atom):
        return symbols(formula.comparison)
    if isinstance(formula, Not):
        return quantities(formula.inner)
    left = set() if formula.left is None else quantities(formula.left)
    return left | quantities(formula.right)


class _FormulaParser:
    """Reads a formula from `text`, from place `at` on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def rest(self) -> str:
        return self.text[self.at :].strip()

    def error(self, reason: str) -> ConfigError:
        return ConfigError(
            f"cannot read the property {self.text!r}: {reason}; write, for instance, "
            "F[0,10](X > 3) & G[20,50](Y < 1)"
        )

    def take(self, *symbols_: str) -> bool:
        """Go over one of the symbols, if it comes next."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        for symbol in symbols_:
            if self.text.startswith(symbol, self.at):
                self.at += len(symbol)
                return True
        return False

    def window(self, kinds: str) -> tuple[str, float, float] | None:
        """Go over a temporal operator of these kinds, if it comes next."""
        self.take("")
        match = _WINDOW.match(self.text, self.at)
        if match is None or match[1] not in kinds:
            return None
        self.at = match.end()
        try:
            begin, end = float(match[2]), float(match[3])
        except ValueError:
            raise self.error(f"{match[0]} needs two numbers") from None
        if not (0 <= begin <= end and math.isfinite(end)):
            raise self.error(f"the window of {match[0]} must be 0 <= a <= b")
        return match[1], begin, end

    def implication(self) -> Property:
        left = self.disjunction()
        return Or(Not(left), self.implication()) if self.take("->") else left

    def disjunction(self) -> Property:
        left = self.conjunction()
        while self.take("||", "|"):
            left = Or(left, self.conjunction())
        return left

    def conjunction(self) -> Property:
        left = self.until()
        while self.take("&&", "&"):
            left = And(left, self.until())
        return left

    def until(self) -> Property:
        left = self.unary()
        found = self.window("U")
        return left if found is None else Until(left, self.unary(), *found[1:])

    def unary(self) -> Property:
        found = self.window("FG")
        if found is not None:
            kind, begin, end = found
            inner = self.unary()
            if kind == "F":
                return Until(None, inner, begin, end)
            return Not(Until(None, Not(inner), begin, end))
        if self.take("!"):
            return Not(self.unary())
        if self.opens_formula():
            self.take("(")
            inner = self.implication()
            if not self.take(")"):
                raise self.error("a bracket is not closed")
            return inner
        return self.atom()

    def opens_formula(self) -> bool:
        """Return whether a bracket comes next that holds a formula, not a part of an expression."""
        self.take("")
        if not self.text.startswith("(", self.at):
            return False
        after = self.closing(self.at)
        return _ARITHMETIC.match(self.text, after) is None

    def closing(self, opening: int) -> int:
        """Place after the bracket that closes the one at `opening`."""
        deep = 0
        for place in range(opening, len(self.text)):
            deep += (self.text[place] == "(") - (self.text[place] == ")")
            if deep == 0:
                return place + 1
        raise self.error("a bracket is not closed")

    def atom(self) -> Atom:
        begin = place = self.at
        while place < len(self.text) and self.text[place] != ")":
            if self.text[place] == "(":
                place = self.closing(place)
            elif _END.match(self.text, place):
                break
            else:
                place += 1
        self.at = place
        text = self.text[begin:place].strip()
        if not text:
            raise self.error("a comparison is missing")
        return Atom(self.comparison(text))

    def comparison(self, text: str) -> Call:
        try:
            tree: Expression = parse(text)
        except ModelError as error:
            raise self.error(str(error)) from None
        if not isinstance(tree, Call) or tree.function not in _COMPARISONS:
            raise self.error(f"{text!r} is no comparison")
        return tree

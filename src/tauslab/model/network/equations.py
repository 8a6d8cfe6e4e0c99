"""Equations of reactions, and the laws that follow from them and a rate constant."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import Expression, Symbol, call
from tauslab.model.names import brief

# A count of molecules is a 32-bit integer, and so is what an event adds to it.
LARGEST_COUNT = 2**31 - 1
# 170! is the largest factorial that is a double; a product of so many counts is none before that.
MOST_MOLECULES = 170
REVERSIBLE = "<->"
_MOST_DIGITS = 300  # leading zeros and all
_BOTH_WAYS, _ONE_WAY = re.compile("<(?:-+|=+)>|⇌"), re.compile("-+>|=+>|→")
_TERM = re.compile(r"(?:(\d+)\s*\*?\s*)?([A-Za-z_][A-Za-z0-9_]*)\Z")


def mass_action_law(rate: Expression, reactants: Mapping[str, int]) -> Expression:
    """Propensity `rate` times the combinations of reactant molecules (Gillespie 1977).

    Raises
    ------
    ModelError
        More than `MOST_MOLECULES` molecules react.
    """
    law = falling_product(rate, reactants)
    divisor = math.prod(math.factorial(count) for count in reactants.values())
    return law if divisor == 1 else call("div", law, divisor)


def falling_product(rate: Expression, reactants: Mapping[str, int]) -> Expression:
    """`rate` times x (x - 1) ... (x - c + 1) for every species x that takes part c times.

    Raises
    ------
    ModelError
        As `mass_action_law`.
    """
    _check_order(reactants)
    law = rate
    for name, count in reactants.items():
        for taken in range(count):
            left = Symbol(name) if taken == 0 else call("sub", Symbol(name), taken)
            law = call("mul", law, left)
    return law


def _check_order(reactants: Mapping[str, int]) -> None:
    order = sum(reactants.values())
    if order > MOST_MOLECULES:
        raise ModelError(
            f"{order} molecules react at once; with a rate constant it may be {MOST_MOLECULES} "
            "at most: give law= instead"
        )


def continuous_law(rate: Expression, reactants: Mapping[str, int]) -> Expression | None:
    """The limit of `mass_action_law` for large counts, x^c / c! for c molecules of a kind.

    None where it is the same, because no species takes part more than once.
    """
    if all(count < 2 for count in reactants.values()):
        return None
    divisor = math.prod(math.factorial(count) for count in reactants.values())
    return call("div", power_product(rate, reactants), divisor)


def power_product(rate: Expression, reactants: Mapping[str, int]) -> Expression:
    """`rate` times x^c for every species x that takes part c times; raises as `mass_action_law`."""
    _check_order(reactants)
    law = rate
    for name, count in reactants.items():
        for _ in range(count):
            law = call("mul", law, Symbol(name))
    return law


def plain_equation(equation: str) -> str:
    """An equation with the arrows ``->`` and ``<->`` and the empty side ``0``.

    >>> plain_equation("A --> ∅"), plain_equation("A + B <=> C")
    ('A -> 0', 'A + B <-> C')
    """
    return _ONE_WAY.sub("->", _BOTH_WAYS.sub(REVERSIBLE, equation)).replace("∅", "0")


def parse_equation(equation: str, where: str) -> tuple[dict[str, int], dict[str, int]]:
    """Reactants and products of ``"A + 2 B -> C"``; an empty side or ``0`` means nothing."""
    sides = equation.split("->")
    if len(sides) != 2:
        raise ModelError(
            f"{where}: {brief(equation)} must have exactly one '->', as in 'A + 2 B -> C'"
        )
    parsed: list[dict[str, int]] = []
    for side in sides:
        amounts: dict[str, int] = {}
        for term in side.split("+") if side.strip() not in ("", "0") else ():
            match = _TERM.match(term.strip())
            if match is None:
                raise ModelError(f"{where}: cannot read {brief(term.strip())} in {brief(equation)}")
            count = int(match[1] or 1) if len(match[1] or "") <= _MOST_DIGITS else math.inf
            amounts[match[2]] = checked_count(amounts.get(match[2], 0) + count, match[2], where)
        parsed.append({name: count for name, count in amounts.items() if count})
    return parsed[0], parsed[1]


def both_ways(equation: str, where: str) -> tuple[str, str]:
    """``"A <-> B"`` as the two equations ``"A -> B"`` and ``"B -> A"``."""
    sides = equation.split(REVERSIBLE)
    if len(sides) != 2:
        raise ModelError(f"{where}: {brief(equation)} must have exactly one '<->'")
    left, right = (side.strip() for side in sides)
    return f"{left} -> {right}", f"{right} -> {left}"


def pair_of(value: Any, what: str, where: str) -> tuple[Any, Any]:
    """Return the values of a reversible reaction forward and back; a pair of None for None."""
    if value is None:
        return None, None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ModelError(f"{where} goes both ways: {what}=(forward, reverse) is needed")
    return value[0], value[1]


def equation_text(reactants: Mapping[str, int], products: Mapping[str, int]) -> str:
    """An equation that `parse_equation` reads; an empty side is 0.

    >>> equation_text({"A": 1, "B": 2}, {})
    'A + 2 B -> 0'
    """
    sides = (
        " + ".join(name if count == 1 else f"{count} {name}" for name, count in side.items())
        for side in (reactants, products)
    )
    return " -> ".join(side or "0" for side in sides)


def checked_count(count: float, species: str, where: str) -> int:
    """A stoichiometric coefficient, if one event can change a count by so much.

    Raises
    ------
    ModelError
        It is above 2147483647; `where` names the reaction.
    """
    if not 0 <= count <= LARGEST_COUNT:
        shown = "too large a number" if math.isinf(count) else str(count)
        raise ModelError(
            f"{where}: the coefficient of {species} is {shown}; it may be {LARGEST_COUNT} at most"
        )
    return int(count)

"""Equations of reactions, and the laws that follow from them and a rate constant."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from tauslab.model.errors import ModelError
from tauslab.model.expression import Expression, Symbol, call

_TERM = re.compile(r"(?:(\d+)\s*\*?\s*)?([A-Za-z_][A-Za-z0-9_]*)\Z")


def mass_action_law(rate: Expression, reactants: Mapping[str, int]) -> Expression:
    """Propensity `rate` times the combinations of reactant molecules (Gillespie 1977)."""
    law = falling_product(rate, reactants)
    divisor = math.prod(math.factorial(count) for count in reactants.values())
    return law if divisor == 1 else call("div", law, divisor)


def falling_product(rate: Expression, reactants: Mapping[str, int]) -> Expression:
    """`rate` times x (x - 1) ... (x - c + 1) for every species x that takes part c times."""
    law = rate
    for name, count in reactants.items():
        for taken in range(count):
            left = Symbol(name) if taken == 0 else call("sub", Symbol(name), taken)
            law = call("mul", law, left)
    return law


def continuous_law(rate: Expression, reactants: Mapping[str, int]) -> Expression | None:
    """The limit of `mass_action_law` for large counts, x^c / c! for c molecules of a kind.

    None where it is the same, because no species takes part more than once.
    """
    if all(count < 2 for count in reactants.values()):
        return None
    divisor = math.prod(math.factorial(count) for count in reactants.values())
    return call("div", power_product(rate, reactants), divisor)


def power_product(rate: Expression, reactants: Mapping[str, int]) -> Expression:
    """`rate` times x^c for every species x that takes part c times."""
    law = rate
    for name, count in reactants.items():
        for _ in range(count):
            law = call("mul", law, Symbol(name))
    return law


def parse_equation(equation: str, where: str) -> tuple[dict[str, int], dict[str, int]]:
    """Reactants and products of ``"A + 2 B -> C"``; an empty side or ``0`` means nothing."""
    sides = equation.split("->")
    if len(sides) != 2:
        raise ModelError(f"{where}: {equation!r} must have exactly one '->'")
    parsed: list[dict[str, int]] = []
    for side in sides:
        amounts: dict[str, int] = {}
        for term in side.split("+") if side.strip() not in ("", "0") else ():
            match = _TERM.match(term.strip())
            if match is None:
                raise ModelError(f"{where}: cannot read {term.strip()!r} in {equation!r}")
            amounts[match[2]] = amounts.get(match[2], 0) + int(match[1] or 1)
        parsed.append({name: count for name, count in amounts.items() if count})
    return parsed[0], parsed[1]

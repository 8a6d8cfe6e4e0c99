"""Rate laws of BioNetGen reactions: from the text of a .net file to propensities.

``k`` and ``Ele k`` multiply the reactants; ``Sat``, ``MM`` and ``Hill`` are followed by names of
parameters.  Meanings are those of BioNetGen's simulator ``run_network`` 3.0, which takes reactants
in the order of the file:

===================  ===========================================================================
``Sat k K1 ... Km``  k times x_i / (K_i + x_i) of the first m reactants, times the others
``MM k K``           k E S / (K + S): the free substrate S of the first reactant's s molecules
                     solves S = s - E S / (K + S), where E is the sum of the others
``Hill k K n``       k s^n / (K^n + s^n) of the first reactant, times the others
===================  ===========================================================================

A species that stands twice in a row counts x - 1 molecules the second time, in the numerator
only; in the differential equations x, as for elementary reactions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import Expression, Number, Symbol, call

_KEYWORD = re.compile(r"(?:([^*\s]+)\s*\*)?\s*([A-Za-z]+)(?:\s+(\w.*)|\s*\(.*)\Z", re.ASCII)
_REFUSED = ("FunctionProduct", "Arrhenius")
ELEMENTARY = "Ele"


@dataclass(frozen=True, slots=True)
class RateText:
    """A rate as written: the factor or constant in front, the kind of rate law, its constants."""

    rate: str  # of ELEMENTARY all of it; of the others the factor before ``*``, "1" without
    kind: str = ELEMENTARY
    constants: tuple[str, ...] = ()


def split_rate(text: str) -> RateText:
    """Distinguish an expression and a named rate law.

    Raises
    ------
    ModelError
        No network file should have the rate law, or it is not written as .net files write it.
    """
    match = _KEYWORD.match(text)
    if match is None or match[2] not in (*_LAWS, *_REFUSED, ELEMENTARY):
        return RateText(text)
    factor, kind, constants = match[1] or "1", match[2], tuple((match[3] or "").split())
    if kind in _REFUSED or not constants:
        raise ModelError(
            f"the rate law {kind} is not supported as {text!r}; a rate is a number, a parameter or "
            "a function, one times another, or 'Sat k K', 'MM k K' or 'Hill k K n'"
        )
    if kind == ELEMENTARY:
        return RateText(f"{factor} * {constants[0]}" if match[1] else constants[0])
    return RateText(factor, kind, constants)


def named_law(
    kind: str, factor: Expression, constants: Sequence[Expression], reactants: Sequence[str]
) -> tuple[Expression, Expression | None]:
    """Propensity of a rate law that is not elementary, and the rate of its differential equation.

    The latter is None where it is the same.

    Raises
    ------
    ModelError
        The numbers of constants and of reactants do not fit the rate law.
    """
    numbers = {"Sat": (2, len(reactants) + 1, 1), "MM": (2, 2, 2), "Hill": (3, 3, 1)}
    fewest, most, needs = numbers[kind]
    if len(reactants) < needs:
        raise ModelError(f"{kind} needs {needs} or more reactants, not {len(reactants)}")
    if not fewest <= len(constants) <= most:
        allowed = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        raise ModelError(f"{kind} takes {allowed} constants, not {len(constants)}")
    law = _LAWS[kind](factor, constants, reactants, _molecules(reactants))
    limit = _LAWS[kind](factor, constants, reactants, [Symbol(name) for name in reactants])
    return law, None if limit == law else limit


def _molecules(reactants: Sequence[str]) -> list[Expression]:
    """Factor of each reactant: x, then x - 1, ... where it is the one before again."""
    result: list[Expression] = []
    taken = 0
    for i, name in enumerate(reactants):
        taken = taken + 1 if i and reactants[i - 1] == name else 0
        result.append(call("sub", Symbol(name), taken) if taken else Symbol(name))
    return result


def _times(first: Expression, factors: Sequence[Expression]) -> Expression:
    for factor in factors:
        first = factor if first == Number(1.0) else call("mul", first, factor)
    return first


def _saturation(
    factor: Expression,
    constants: Sequence[Expression],
    reactants: Sequence[str],
    molecules: Sequence[Expression],
) -> Expression:
    rate = _times(factor, constants[:1])
    for constant, name, count in zip(constants[1:], reactants, molecules, strict=False):
        rate = call("mul", rate, call("div", count, call("add", constant, Symbol(name))))
    return _times(rate, molecules[len(constants) - 1 :])


def _michaelis_menten(
    factor: Expression,
    constants: Sequence[Expression],
    reactants: Sequence[str],
    _: Sequence[Expression],
) -> Expression:
    """Tzafriri's rate (Bull. Math. Biol. 65, 1111 (2003)), for any amount of enzyme."""
    k, km = constants
    total = Symbol(reactants[0])
    others: Expression = Symbol(reactants[1])
    for name in reactants[2:]:
        others = call("add", others, Symbol(name))
    b = call("sub", call("sub", total, km), others)
    four = call("mul", call("mul", 4.0, total), km)
    root = call("sqrt", call("add", call("mul", b, b), four))
    free = call("mul", 0.5, call("add", b, root))
    rate = _times(_times(factor, [k]), [others, free])
    return call("div", rate, call("add", km, free))


def _hill(
    factor: Expression,
    constants: Sequence[Expression],
    reactants: Sequence[str],
    molecules: Sequence[Expression],
) -> Expression:
    k, half, exponent = constants
    power = call("pow", Symbol(reactants[0]), exponent)
    rate = call("mul", _times(factor, [k]), power)
    rate = call("div", rate, call("add", call("pow", half, exponent), power))
    return _times(rate, molecules[1:])


_Law = Callable[[Expression, Sequence[Expression], Sequence[str], Sequence[Expression]], Expression]
_LAWS: dict[str, _Law] = {"Sat": _saturation, "MM": _michaelis_menten, "Hill": _hill}

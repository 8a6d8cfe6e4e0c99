"""Mass action: which laws are a constant times falling factorials of counts.

Such a law needs no expression at run time, only one number and the order in each species, and its
constant may differ from trajectory to trajectory without recompiling anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tauslab.model.expressions.expression import Call, Expression, Number, Symbol, call, walk

_MOST_FACTORS = 10_000


@dataclass(frozen=True)
class MassAction:
    """The law ``constant * prod_s x_s (x_s - 1) ... (x_s - orders[s] + 1)``.

    `constant` holds no species and is never folded: parameters in it stay symbols.  A constant
    written for combinations (Gillespie 1977, "c_j h_j") has its divisor inside: ``k / 2`` for 2 X.
    """

    constant: Expression
    orders: dict[str, int]


def recognise(law: Expression, species: Collection[str]) -> MassAction | None:
    """Read `law` as mass action, or return None where it is anything else.

    Factors may stand in any order and bracketing.  The factors of a species must be exactly
    ``x, x - 1, ..., x - order + 1``: ``x * x`` is not mass action.  A law without species has no
    orders.

    Parameters
    ----------
    law
        A propensity in which rules are already replaced by their expressions. One of more factors
        than anybody writes, which takes rules that multiply each other, is read as anything else.
    species
        Names that are counts; a set or a mapping, since membership is asked for every symbol.
    """
    constant: Expression | None = None
    offsets: dict[str, list[int]] = {}
    for count, (factor, divides) in enumerate(factors(law)):
        if count == _MOST_FACTORS:
            return None
        if not _mentions(factor, species):
            if constant is None:
                constant = call("div", 1.0, factor) if divides else factor
            else:
                constant = call("div" if divides else "mul", constant, factor)
            continue
        falling = falling_factor(factor, species)
        if divides or falling is None:
            return None
        result = offsets.setdefault(falling[0], [])
        if falling[1] in result[-1:]:  # x * x: no other factor can mend it
            return None
        result.append(falling[1])
    if any(sorted(result) != list(range(len(result))) for result in offsets.values()):
        return None
    orders = {name: len(result) for name, result in offsets.items()}
    return MassAction(Number(1.0) if constant is None else constant, orders)


def _mentions(factor: Expression, species: Collection[str]) -> bool:
    """Return whether a species occurs in a factor; most factors are a name or a number."""
    if isinstance(factor, Symbol):
        return factor.name in species
    if isinstance(factor, Number):
        return False
    return any(isinstance(node, Symbol) and node.name in species for node in walk(factor))


def factors(expression: Expression) -> Iterator[tuple[Expression, bool]]:
    """Factors of a product of quotients from left to right, and whether each divides.

    A shared part comes as often as it occurs: `distinct_factors` is for who needs no order.
    """
    stack = [(expression, False)]
    while stack:
        node, divides = stack.pop()
        if isinstance(node, Call) and node.function in ("mul", "div"):
            left, right = node.arguments
            stack.append((right, divides != (node.function == "div")))
            stack.append((left, divides))
        elif isinstance(node, Call) and node.function == "neg":
            stack.append((node.arguments[0], divides))
            stack.append((Number(-1.0), False))
        else:
            yield node, divides


class Factor(NamedTuple):
    """A factor of a product of quotients, and how it occurs in all."""

    expression: Expression
    multiplies: bool
    divides: bool
    odd: bool  # how many times


def distinct_factors(expression: Expression) -> list[Factor]:
    """Every factor of a product of quotients once; a sign in front is the factor -1."""
    odd = {id(expression): True}
    sides = {id(expression): {False}}
    result = []
    minus = False
    for node in walk(expression):  # what a part is in stands before it
        if id(node) not in odd:
            continue  # inside of a factor
        times, places = odd[id(node)], sides[id(node)]
        if not (isinstance(node, Call) and node.function in ("mul", "div", "neg")):
            result.append(Factor(node, False in places, True in places, times))
            continue
        minus ^= times and node.function == "neg"
        for i, part in enumerate(node.arguments):
            odd[id(part)] = odd.get(id(part), False) ^ times
            turned = node.function == "div" and i == 1
            sides.setdefault(id(part), set()).update(turned != divides for divides in places)
    return [*result, Factor(Number(-1.0), True, False, True)] if minus else result


def falling_factor(factor: Expression, species: Collection[str]) -> tuple[str, int] | None:
    """Species and j of a factor ``x - j``, j a whole number from 0, else None."""
    if isinstance(factor, Symbol):
        return (factor.name, 0) if factor.name in species else None
    if not isinstance(factor, Call) or factor.function not in ("add", "sub"):
        return None
    first, second = factor.arguments
    sign = 1.0 if factor.function == "sub" else -1.0
    if factor.function == "add" and isinstance(first, Number):
        first, second = second, first
    if not (isinstance(first, Symbol) and first.name in species and isinstance(second, Number)):
        return None
    offset = sign * second.value
    return (first.name, int(offset)) if offset >= 0 and offset.is_integer() else None

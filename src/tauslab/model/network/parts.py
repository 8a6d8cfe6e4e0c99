"""What a `Network` is made of: species, reactions, rules, events, and what an engine may refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tauslab.model.expressions.expression import Expression
from tauslab.model.network.equations import LARGEST_COUNT, checked_count


@dataclass(frozen=True)
class Species:
    """A kind of molecule.

    `initial` is an amount (molecules), an expression of parameters.  A `fixed` species keeps its
    initial amount whatever reactions do (SBML: constant, or boundaryCondition without a rule).
    """

    name: str
    initial: Expression
    fixed: bool = False
    compartment: str | None = None


@dataclass(frozen=True)
class Reaction:
    """One irreversible reaction.

    `reactants` and `products` map species to whole stoichiometries, 2147483647 at most.  `law` is
    the propensity (events per unit time) as an expression of species counts, parameters and rules;
    `limit` its limit for large counts, which ordinary differential equations use, where that
    differs.
    """

    name: str
    reactants: Mapping[str, int]
    products: Mapping[str, int]
    law: Expression
    limit: Expression | None = None

    def __post_init__(self) -> None:
        """Refuse a coefficient that no count can change by."""
        for side in (self.reactants, self.products):
            for name, count in side.items():
                if not 0 <= count <= LARGEST_COUNT:
                    checked_count(count, name, f"reaction {self.name}")

    def net_change(self) -> dict[str, int]:
        """Change of each count when the reaction fires once; zero changes are left out."""
        change = {name: -count for name, count in self.reactants.items()}
        for name, count in self.products.items():
            change[name] = change.get(name, 0) + count
        return {name: count for name, count in change.items() if count}


@dataclass(frozen=True)
class Rule:
    """A quantity given at all times by an expression (SBML assignment rule, .net group, function).

    `recorded` rules are written to the file as observables.
    """

    name: str
    expression: Expression
    recorded: bool = True


@dataclass(frozen=True)
class TimedEvent:
    """At `time`, an expression of parameters, the named species get new amounts, all at once.

    A time of 0 or before never comes.
    """

    name: str
    time: Expression
    assignments: Mapping[str, Expression]


@dataclass(frozen=True)
class Feature:
    """Something in the model file that not every engine can honour, named for the error message.

    `kind` is one of ``event``, ``rate rule``, ``algebraic rule``, ``delay``, ``time``, ``mole``,
    ``reversible``, ...; `element` says where it stands, for instance ``reaction R7``.
    """

    kind: str
    element: str
    message: str

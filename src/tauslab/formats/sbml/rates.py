"""The rate of change of an SBML model's quantities: what ``rateOf`` means in a formula.

A quantity changes by its rate rule, a species also by reactions, dn/dt = factor x sum of
stoichiometry x rate law; a concentration c = n / V by dc/dt = (dn/dt - c dV/dt) / V. A quantity
that nothing changes has the rate 0. Between events this is the derivative on the right.
"""

from __future__ import annotations

from typing import Any, Protocol

from tauslab.formats.sbml.text import each
from tauslab.model.expressions.expression import Expression, Number, Symbol, call

_ZERO = Number(0.0)


class ModelMath(Protocol):
    """Formulas of a model, by element."""

    def rate_rule(self, name: str) -> Expression | None:
        """Right side of the rate rule of a quantity, as the file has it."""

    def law(self, reaction: str) -> Expression:
        """Kinetic law of a reaction, in molecules."""

    def stoichiometry(self, reference: Any, where: str) -> Expression:
        """Stoichiometry of a species reference."""

    def size(self, species: str) -> Expression | None:
        """Size of the compartment where the species' name is a concentration."""


def rate_of(model: Any, maths: ModelMath, name: str) -> Expression:
    """Derivative with respect to time of what `name` means in the model's math."""
    ruled = maths.rate_rule(name)
    if ruled is not None:
        return ruled
    species = model.getSpecies(name)
    if species is None or species.getConstant():
        moved: Expression = _ZERO
    else:
        moved = _ZERO if species.getBoundaryCondition() else _by_reactions(model, maths, name)
    volume = maths.size(name) if species is not None else None
    if volume is None:
        return moved
    assert isinstance(volume, Symbol)
    growth = maths.rate_rule(volume.name)
    if growth is not None:
        concentration = call("div", Symbol(name), volume)
        moved = call("sub", moved, call("mul", concentration, growth))
    return moved if moved == _ZERO else call("div", moved, volume)


def _by_reactions(model: Any, maths: ModelMath, name: str) -> Expression:
    """Amount of a species that all reactions make in a unit of time."""
    total: Expression = _ZERO
    for reaction in each(model.getListOfReactions()):
        sides = (("sub", reaction.getListOfReactants()), ("add", reaction.getListOfProducts()))
        for sign, references in sides:
            for reference in each(references):
                if reference.getSpecies() == name:
                    number = maths.stoichiometry(reference, f"reaction {reaction.getId()}")
                    law = maths.law(reaction.getId())
                    term = law if number == Number(1.0) else call("mul", number, law)
                    total = call(sign, total, term)
    species = model.getSpecies(name)
    factor = species.getConversionFactor() or model.getConversionFactor()
    return call("mul", Symbol(factor), total) if factor and total != _ZERO else total

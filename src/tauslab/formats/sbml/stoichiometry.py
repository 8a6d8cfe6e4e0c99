"""Stoichiometries of an SBML model: whole numbers, and what becomes an equation instead.

A reaction of a network has whole stoichiometries. SBML allows 0.5, a number that an initial
assignment or the formula of a Level 2 file computes, one that a rule moves, and factors that
convert the extent of reactions to amounts of a species. A species that such a reaction moves gets
the equation dx/dt = factor x sum of stoichiometry x rate law, which ``ode`` honours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.formats.sbml.mathml import MathReader
from tauslab.formats.sbml.text import each
from tauslab.model.expressions.expression import Expression, Number, Symbol, call
from tauslab.model.expressions.time_relations import folded
from tauslab.model.network.network import Network

Side = list[tuple[str, Expression]]  # species and stoichiometries, as often as they are listed
Refuse = Callable[[str, str, str], None]


class Sides:
    """Reads the two sides of reactions."""

    def __init__(
        self,
        model: Any,
        network: Network,
        maths: MathReader,
        refuse: Refuse,
        computed: Collection[str],
    ) -> None:
        self._level = model.getLevel()
        self._network = network
        self._maths = maths
        self._refuse = refuse
        self._computed = computed

    def read(self, reaction: Any, name: str) -> tuple[Side, Side]:
        """Reactants and products; a species given by a rule is left out: no reaction moves it."""
        where = f"reaction {name}"
        lists = reaction.getListOfReactants(), reaction.getListOfProducts()
        return self._side(lists[0], where), self._side(lists[1], where)

    def _side(self, references: Any, where: str) -> Side:
        side: Side = []
        for reference in each(references):
            name = reference.getSpecies()
            if name in self._network.rules:
                continue
            if name not in self._network.species:
                raise ModelError(f"{where}: {name!r} is not a species of the model")
            tree = self.stoichiometry(reference, where)
            if isinstance(tree, Number) and not math.isfinite(tree.value):
                self._refuse("missing value", where, f"the stoichiometry of {name} is not given")
                tree = Number(1.0)
            side.append((name, tree))
        return side

    def stoichiometry(self, reference: Any, where: str) -> Expression:
        """Stoichiometry of a species reference; NaN where none is given."""
        if reference.getId() in self._computed:
            return Symbol(reference.getId())
        if self._level == 3:
            return Number(float(reference.getStoichiometry()))
        if not reference.isSetStoichiometryMath():
            return Number(float(reference.getStoichiometry() / reference.getDenominator()))
        return folded(self._maths.read(reference.getStoichiometryMath().getMath(), where))


def add_equations(
    model: Any,
    network: Network,
    terms: Mapping[str, tuple[Side, Side]],
    laws: Mapping[str, Expression],
    refuse: Refuse,
) -> set[str]:
    """Give an equation to each species that no whole stoichiometry can move; returns their names.

    Parameters
    ----------
    terms
        Both sides of every reaction.
    laws
        Kinetic law of each reaction, in molecules.
    """
    found: set[str] = set()
    for reaction, sides in terms.items():
        for name, tree in (*sides[0], *sides[1]):
            if network.species[name].fixed:
                continue
            if not _whole(tree):
                shown = f"{tree.value:g}" if isinstance(tree, Number) else "computed"
                message = f"the stoichiometry of {name} is {shown}"
                refuse("stoichiometry", f"reaction {reaction}", message)
                found.add(name)
            elif _factor(model, name) is not None and name not in found:
                refuse("conversion factor", f"species {name}", "its amounts are rescaled")
                found.add(name)
    for name in network.species:
        if name in found:
            network.rates[name] = _equation(model, terms, laws, name)
    return found


def _equation(
    model: Any,
    terms: Mapping[str, tuple[Side, Side]],
    laws: Mapping[str, Expression],
    name: str,
) -> Expression:
    """Rate of change of `name`."""
    total: Expression | None = None
    for reaction, (left, right) in terms.items():
        for sign, side in (("sub", left), ("add", right)):
            for tree in (tree for species, tree in side if species == name):
                term = laws[reaction] if tree == Number(1.0) else call("mul", tree, laws[reaction])
                if total is None:
                    total = term if sign == "add" else call("neg", term)
                else:
                    total = call(sign, total, term)
    assert total is not None  # an equation is made for what a reaction moves
    factor = _factor(model, name)
    return total if factor is None else call("mul", Symbol(factor), total)


def _factor(model: Any, species: str) -> str | None:
    """Parameter by which the extent of reactions is converted to amounts of a species."""
    element = model.getSpecies(species)
    if element.isSetConversionFactor():
        return str(element.getConversionFactor())
    return str(model.getConversionFactor()) if model.isSetConversionFactor() else None


def _whole(tree: Expression) -> bool:
    return isinstance(tree, Number) and tree.value >= 0 and tree.value.is_integer()


def counts(side: Side, without: Collection[str]) -> dict[str, int]:
    """Whole stoichiometries of one side; of a fixed species those that are."""
    amounts: dict[str, int] = {}
    for name, tree in side:
        if name not in without and isinstance(tree, Number) and _whole(tree):
            amounts[name] = amounts.get(name, 0) + int(tree.value)
    return {name: count for name, count in amounts.items() if count}

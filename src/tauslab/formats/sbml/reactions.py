"""Reactions of an SBML model; reversible rate laws become two reactions.

A reaction of a network has whole stoichiometries. SBML allows 0.5, a number that an initial
assignment or the formula of a Level 2 file computes, one that a rule moves, and factors that
convert the extent of reactions to amounts of a species. A species that such a reaction moves gets
the equation dx/dt = factor x sum of stoichiometry x rate law, which ``ode`` honours.

``rateOf`` in a formula is the rate of change of a quantity: by its rate rule, of a species also by
reactions; a concentration c = n / V changes by dc/dt = (dn/dt - c dV/dt) / V. A quantity that
nothing changes has the rate 0. Between events this is the derivative on the right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from tauslab.base.errors import ModelError
from tauslab.formats.sbml.mathml import MathReader
from tauslab.formats.sbml.text import each, own_annotation, shorten
from tauslab.model.expressions.expression import Call, Expression, Number, Symbol, call, walk
from tauslab.model.expressions.infix import parse
from tauslab.model.expressions.reversible import SignAnalysis, Split
from tauslab.model.expressions.time_relations import folded
from tauslab.model.network.network import Network, Reaction

Side = list[tuple[str, Expression]]  # species and stoichiometries, as often as they are listed
Refuse = Callable[[str, str, str], None]
_ZERO = Number(0.0)


class Sides:
    """Reads the two sides of reactions."""

    def __init__(
        self, model: Any, network: Network, maths: MathReader, refuse: Refuse,
        computed: Collection[str],
    ) -> None:  # fmt: skip
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


def add_reactions(
    model: Any, network: Network, laws: Mapping[str, Expression], maths: MathReader, refuse: Refuse,
    computed: Collection[str] = (),
) -> None:  # fmt: skip
    """Add every reaction of the libsbml `model` to `network`, which holds all else already.

    A rate law marked reversible that is a difference of two parts becomes the reactions ``R`` and
    ``R_reverse``; a note names those whose parts are not shown to be never negative. A species
    with a stoichiometry that is no whole number, or with a conversion factor, gets an equation of
    its own, for ``ode``, and no reaction moves it.

    Parameters
    ----------
    laws
        Kinetic law of each reaction, in molecules.
    refuse
        Takes kind, element and detail of what an engine may not be able to honour.
    computed
        Identifiers of species references whose stoichiometry the network knows by that name.
    """
    signs = SignAnalysis(network.species, _values(network), network.rule_expressions())
    sides = Sides(model, network, maths, refuse, computed)
    elements = {name: model.getReaction(name) for name in laws}
    terms = {name: sides.read(element, name) for name, element in elements.items()}
    equations = _add_equations(model, network, terms, laws, refuse)
    one_way, as_written = [], []
    for name, law in laws.items():
        element, where = elements[name], f"reaction {name}"
        if element.isSetFast() and element.getFast():
            refuse("fast reaction", where, "it is marked fast")
        reactants, products = (_counts(side, equations) for side in terms[name])
        split = Split(law, None)
        if element.getReversible():
            result = signs.split(law)
            split = signs.as_written(law) if result is None else result
            if result is None and split.reverse is not None:
                as_written.append(name)
            elif result is None and _subtracts(law):
                refuse("reversible", where, "its rate law is no difference of two positive parts")
            elif split.reverse is None:
                one_way.append(name)
        if split.forward is not None:
            own = own_annotation(element)
            limit = parse(own["limit"]) if "limit" in own else None
            shown = own.get("name", name)
            network.reactions.append(Reaction(shown, reactants, products, split.forward, limit))
        if split.reverse is not None:
            back = f"{name}_reverse"
            while back in laws:
                back += "_"
            network.reactions.append(Reaction(back, products, reactants, split.reverse))
    if one_way:
        network.notes.append(
            f"marked reversible, but the rate law is kept as one forward rate: {shorten(one_way)}"
        )
    if as_written:
        network.notes.append(
            "reversible rate laws are split as written; a part that becomes negative ends the "
            f"trajectory with status nan: {shorten(as_written)}"
        )


def _values(network: Network) -> dict[str, float]:
    """Parameter values for the sign analysis; none where the model is refused anyway."""
    try:
        return network.parameter_values()
    except ModelError:
        if not network.features:
            raise
        return {}


def _subtracts(law: Expression) -> bool:
    """Return whether anything in the rate law could make it negative."""
    return any(
        (isinstance(node, Call) and node.function in ("sub", "neg"))
        or (isinstance(node, Number) and node.value < 0)
        for node in walk(law)
    )


def _add_equations(
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
    result: set[str] = set()
    for reaction, sides in terms.items():
        for name, tree in (*sides[0], *sides[1]):
            if network.species[name].fixed:
                continue
            if not _whole(tree):
                shown = f"{tree.value:g}" if isinstance(tree, Number) else "computed"
                message = f"the stoichiometry of {name} is {shown}"
                refuse("stoichiometry", f"reaction {reaction}", message)
                result.add(name)
            elif _factor(model, name) is not None and name not in result:
                refuse("conversion factor", f"species {name}", "its amounts are rescaled")
                result.add(name)
    for name in network.species:
        if name in result:
            network.rates[name] = _equation(model, terms, laws, name)
    return result


def _equation(
    model: Any, terms: Mapping[str, tuple[Side, Side]], laws: Mapping[str, Expression], name: str
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


def _counts(side: Side, without: Collection[str]) -> dict[str, int]:
    """Whole stoichiometries of one side; of a fixed species those that are."""
    amounts: dict[str, int] = {}
    for name, tree in side:
        if name not in without and isinstance(tree, Number) and _whole(tree):
            amounts[name] = amounts.get(name, 0) + int(tree.value)
    return {name: count for name, count in amounts.items() if count}


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

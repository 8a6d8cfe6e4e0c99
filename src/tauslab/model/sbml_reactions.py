"""Reactions of an SBML model: stoichiometry, and reversible laws as two reactions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tauslab.model.errors import ModelError
from tauslab.model.expression import Call, Expression, Number, walk
from tauslab.model.network import Network, Reaction
from tauslab.model.reversible import SignAnalysis, Split
from tauslab.model.sbml_document import each, shorten
from tauslab.model.sbml_math import MathReader

Refuse = Callable[[str, str, str], None]


def add_reactions(
    model: Any, network: Network, laws: Mapping[str, Expression], maths: MathReader, refuse: Refuse
) -> None:
    """Add every reaction of the libsbml `model` to `network`, which holds all else already.

    A law that is marked reversible and is a difference of two parts, none ever negative, becomes
    the reactions ``R`` and ``R_reverse``.

    Parameters
    ----------
    laws
        Kinetic law of each reaction, in molecules.
    refuse
        Takes kind, element and detail of what an engine may not be able to honour.
    """
    signs = SignAnalysis(network.species, _values(network), network.rule_expressions())
    sides = _Sides(model, network, maths, refuse)
    one_way = []
    for name, law in laws.items():
        element, where = model.getReaction(name), f"reaction {name}"
        if element.isSetFast() and element.getFast():
            refuse("fast reaction", where, "it is marked fast")
        reactants = sides.read(element.getListOfReactants(), where)
        products = sides.read(element.getListOfProducts(), where)
        split = Split(law, None)
        if element.getReversible():
            found = signs.split(law)
            if found is not None:
                split = found
            elif _subtracts(law):
                refuse("reversible", where, "its law does not split into forward minus reverse")
            if split.reverse is None and (found is not None or not _subtracts(law)):
                one_way.append(name)
        if split.forward is not None:
            network.reactions.append(Reaction(name, reactants, products, split.forward))
        if split.reverse is not None:
            back = f"{name}_reverse"
            while back in laws:
                back += "_"
            network.reactions.append(Reaction(back, products, reactants, split.reverse))
    if one_way:
        network.notes.append(
            f"marked reversible, but the law is kept as one rate forward: {shorten(one_way)}"
        )


class _Sides:
    """Reads the two sides of reactions."""

    def __init__(self, model: Any, network: Network, maths: MathReader, refuse: Refuse) -> None:
        self._model, self._network = model, network
        self._maths, self._refuse = maths, refuse

    def read(self, references: Any, where: str) -> dict[str, int]:
        """Stoichiometries; species given by a rule are left out, since no reaction moves them."""
        amounts: dict[str, int] = {}
        for reference in each(references):
            name = reference.getSpecies()
            if name in self._network.rules:
                continue
            if name not in self._network.species:
                raise ModelError(f"{where}: {name!r} is not a species of the model")
            count = self._stoichiometry(reference, where)
            if not (math.isfinite(count) and count >= 0 and count.is_integer()):
                shown = "computed or not given" if math.isnan(count) else f"{count:g}"
                self._refuse("stoichiometry", where, f"the stoichiometry of {name} is {shown}")
                count = 1.0
            amounts[name] = amounts.get(name, 0) + int(count)
        return {name: count for name, count in amounts.items() if count}

    def _stoichiometry(self, reference: Any, where: str) -> float:
        """Stoichiometry of a species reference; NaN where it is not one number."""
        name = reference.getId()
        if name and self._model.getInitialAssignment(name) is not None:
            return math.nan
        if self._model.getLevel() == 3:
            return float(reference.getStoichiometry())
        if not reference.isSetStoichiometryMath():
            return float(reference.getStoichiometry() / reference.getDenominator())
        tree = self._maths.read(reference.getStoichiometryMath().getMath(), where)
        return tree.value if isinstance(tree, Number) else math.nan


def _values(network: Network) -> dict[str, float]:
    """Parameter values for the sign analysis; none where the model is refused anyway."""
    try:
        return network.parameter_values()
    except ModelError:
        if not network.features:
            raise
        return {}


def _subtracts(law: Expression) -> bool:
    """Whether anything in the law could make it negative."""
    return any(
        (isinstance(node, Call) and node.function in ("sub", "neg"))
        or (isinstance(node, Number) and node.value < 0)
        for node in walk(law)
    )

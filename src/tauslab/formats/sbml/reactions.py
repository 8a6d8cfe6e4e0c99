"""Reactions of an SBML model; reversible rate laws become two reactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.formats.sbml.mathml import MathReader
from tauslab.formats.sbml.stoichiometry import Sides, add_equations, counts
from tauslab.formats.sbml.text import own_annotation, shorten
from tauslab.model.expressions.expression import Call, Expression, Number, walk
from tauslab.model.expressions.infix import parse
from tauslab.model.expressions.reversible import SignAnalysis, Split
from tauslab.model.network.network import Network, Reaction

Refuse = Callable[[str, str, str], None]


def add_reactions(
    model: Any,
    network: Network,
    laws: Mapping[str, Expression],
    maths: MathReader,
    refuse: Refuse,
    computed: Collection[str] = (),
) -> None:
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
    equations = add_equations(model, network, terms, laws, refuse)
    one_way, as_written = [], []
    for name, law in laws.items():
        element, where = elements[name], f"reaction {name}"
        if element.isSetFast() and element.getFast():
            refuse("fast reaction", where, "it is marked fast")
        reactants, products = (counts(side, equations) for side in terms[name])
        split = Split(law, None)
        if element.getReversible():
            found = signs.split(law)
            split = signs.as_written(law) if found is None else found
            if found is None and split.reverse is not None:
                as_written.append(name)
            elif found is None and _subtracts(law):
                refuse("reversible", where, "its law does not split into forward minus reverse")
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
            f"marked reversible, but the law is kept as one rate forward: {shorten(one_way)}"
        )
    if as_written:
        network.notes.append(
            "reversible laws are split as they are written; a part that becomes negative ends the "
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

"""XPaths of SED-ML as elements of an SBML model and of the network that was read from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.model.expressions.expression import Expression, Number, Symbol, call
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.network.network import Network

_STEP = re.compile(r"(?:\w+:)?(\w+)\[@(?:\w+:)?id\s*=\s*(?:'([^']*)'|\"([^\"]*)\")\]")
_ATTRIBUTE = re.compile(r"/@(?:\w+:)?(\w+)\s*\Z")
_KINDS = ("species", "parameter", "localParameter", "compartment", "reaction")
_SETTERS = {
    ("parameter", "value"): "setValue",
    ("localParameter", "value"): "setValue",
    ("species", "initialAmount"): "setInitialAmount",
    ("species", "initialConcentration"): "setInitialConcentration",
    ("compartment", "size"): "setSize",
    ("compartment", "volume"): "setSize",
}


@dataclass(frozen=True)
class SedmlTarget:
    """An element: its kind, identifier, reaction if it is local to one, and attribute if any."""

    kind: str
    name: str
    reaction: str
    attribute: str


def target_of(path: str, where: str) -> SedmlTarget:
    """Read an XPath such as ``/sbml:sbml/sbml:model/.../sbml:species[@id='S']``.

    Raises
    ------
    ConfigError
        It names no species, parameter, compartment or reaction.
    """
    steps = [(kind, one or other) for kind, one, other in _STEP.findall(path)]
    attribute = _ATTRIBUTE.search(path)
    if not steps or steps[-1][0] not in _KINDS:
        raise ConfigError(f"{where}: {path!r} names no species, parameter, compartment or reaction")
    kind, name = steps[-1]
    reactions = [own for step, own in steps[:-1] if step == "reaction"]
    return SedmlTarget(
        kind, name, reactions[0] if reactions else "", attribute[1] if attribute else ""
    )


def set_attribute(model: Any, target: SedmlTarget, value: str, where: str) -> None:
    """Change an attribute of an element of libsbml's model, as ``changeAttribute`` says.

    Raises
    ------
    ConfigError
        There is no such element, the attribute is not one that may change, or no number is given.
    """
    setter = _SETTERS.get((target.kind, target.attribute))
    element = model.getElementBySId(target.name)
    if target.reaction:
        reaction = model.getReaction(target.reaction)
        law = None if reaction is None else reaction.getKineticLaw()
        element = None
        if law is not None:
            level3 = model.getLevel() == 3
            get = law.getLocalParameter if level3 else law.getParameter
            element = get(target.name)
    if setter is None or element is None:
        reported = f"{target.kind} {target.name!r}, attribute {target.attribute!r}"
        raise ConfigError(f"{where}: {reported} cannot be changed")
    try:
        getattr(element, setter)(float(value))
    except ValueError:
        raise ConfigError(f"{where}: {value!r} is no number") from None


def expression_of(network: Network, model: Any, target: SedmlTarget, where: str) -> Expression:
    """Expression of an element's value in amounts; of a species, as SBML means its symbol.

    Raises
    ------
    ConfigError
        The model has no such element.
    """
    name = f"{target.reaction}_{target.name}" if target.reaction else target.name
    if target.kind == "reaction":
        return _flux(network, name, where)
    if name not in network.species and name not in network.rules and name not in network.parameters:
        raise ConfigError(f"{where}: the model has no {target.kind} {target.name!r}")
    size = _size(model, target)
    return Symbol(name) if size is None else call("div", Symbol(name), Symbol(size))


def _flux(network: Network, name: str, where: str) -> Expression:
    """Rate of a reaction, with its reverse part."""
    forward = [r.law for r in network.reactions if r.name == name]
    back = [r.law for r in network.reactions if r.name == f"{name}_reverse"]
    if not forward and not back:
        raise ConfigError(f"{where}: the model has no reaction {name!r}")
    whole: Expression = forward[0] if forward else Number(0.0)
    return call("sub", whole, back[0]) if back else whole


def _size(model: Any, target: SedmlTarget) -> str | None:
    """Compartment by whose size an amount is divided, None where the symbol is an amount."""
    species = model.getSpecies(target.name) if target.kind == "species" else None
    if species is None or species.getHasOnlySubstanceUnits():
        return None
    compartment = model.getCompartment(species.getCompartment())
    flat = compartment is None or compartment.getSpatialDimensionsAsDouble() == 0.0
    return None if flat else str(compartment.getId())


def settable(
    network: Network, model: Any, target: SedmlTarget, where: str, given: Mapping[str, FloatArray]
) -> tuple[str, FloatArray | float]:
    """Name that a run sets, and by what a value is multiplied for it.

    Parameters
    ----------
    given
        Values that the run sets too, by name: a concentration is one in compartments of these
        sizes.

    Raises
    ------
    ConfigError
        It is no parameter, compartment or species of the model.
    """
    name = f"{target.reaction}_{target.name}" if target.reaction else target.name
    if target.kind == "reaction" or (
        name not in network.parameters and name not in network.species
    ):
        raise ConfigError(f"{where}: {target.kind} {target.name!r} cannot be set")
    size = _size(model, target)
    if size is not None and target.attribute != "initialAmount":
        if size not in network.parameters:
            raise ConfigError(f"{where}: the size of {size}, which it is in, moves")
        return name, given.get(size, evaluate(Symbol(size), network.parameter_values()))
    return name, 1.0

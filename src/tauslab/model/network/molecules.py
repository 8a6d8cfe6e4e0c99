"""Networks whose amounts are moles, or other multiples of molecules, as numbers of molecules."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from tauslab.base.arrays import is_number
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import opt
from tauslab.model.expressions.expression import (
    Expression,
    Number,
    Symbol,
    bottom_up,
    call,
    substitute,
    with_arguments,
)
from tauslab.model.expressions.host_math import value_of
from tauslab.model.expressions.mass_action import falling_factor
from tauslab.model.names import AVOGADRO
from tauslab.model.network.network import Network, require_network

_KINDS = ("mole", "scaled unit")  # features that converting settles
NO_UNIT = "no substance unit is stated: amounts are read as molecules"  # how a note begins
_FACTOR = "molecules_per_unit"


def in_molecules(network: Network, per_unit: float | None = None) -> Network:
    """Return the model with species that are numbers of molecules, so that ``ssa`` can run it.

    The new network has a parameter `molecules_per_unit`, the number of molecules in the file's
    unit. Rate laws are converted, with the same limit for many molecules; rules and observables
    keep their unit. A network that already counts molecules is returned unchanged.

    Parameters
    ----------
    per_unit
        Counts per unit of the file, above 0; by default the unit must be moles, also scaled. 1
        reads amounts as counts. This number determines the size of the system, and its noise.

    Raises
    ------
    ModelError
        The file does not say what its unit is, or has more than one.
    ConfigError
        `network` is none, or `per_unit` is not above 0, or not finite.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("dimer", molecules_per_unit=100.0)  # ts.read takes it from SBML
    >>> net.add_species("A", 2)
    >>> net.add_reaction("2 A ->", law="0.5 * A * A")
    >>> counted = ts.in_molecules(net)
    >>> counted.initial_amounts(counted.parameter_values())
    {'A': 200.0}
    """
    require_network(network, "in_molecules")
    if per_unit is not None:
        if not (is_number(per_unit) and 0 < per_unit < math.inf):
            raise ConfigError(f"{opt('amounts', per_unit)} is not allowed: a number above 0")
        return _scaled(network, float(per_unit), chosen=True)
    troubled = [feature for feature in network.features if feature.kind in _KINDS]
    per_unit = network.molecules_per_unit
    if per_unit == 1.0 or (per_unit is None and not troubled):
        return network
    if per_unit is None:
        where = network.source_path or network.name
        why = "the file has units of more than one size or kind"
        if network.source_digest is not None:
            why = "a result does not keep the size of their unit: give the SBML file"
        raise ModelError(
            f"{where}: {troubled[0].element}: amounts cannot be converted to molecules, since "
            f"{why}; {opt('amounts', 'counts')} reads them as counts"
        )
    return _scaled(network, per_unit, chosen=False)


def as_chosen(network: Network, molecules: bool, amounts: float | None) -> Network:  # noqa: FBT001
    """The network as the options ``--molecules`` and ``--amounts`` count its amounts."""
    if molecules and amounts is not None:
        raise ConfigError(
            f"{opt('molecules')} and {opt('amounts')} are two ways to count: give one of them"
        )
    return in_molecules(network, amounts) if molecules or amounts is not None else network


def amounts_of(network: Network) -> set[str]:
    """Species that are amounts, not parameters or compartments that move."""
    return network.species.keys() - _moved_values(network)


def _combinations(
    law: Expression, unit: Symbol, in_units: Mapping[str, Expression], amounts: Collection[str]
) -> Expression:
    """Scale a law beside its limit: x - 1 is one molecule less, not one unit."""

    def part(node: Expression, arguments: list[Expression]) -> Expression:
        if isinstance(node, Symbol):
            return in_units.get(node.name, node)
        falling = falling_factor(node, amounts)
        whole = falling is not None and falling[1] > 0
        return call("div", node, unit) if whole else with_arguments(node, arguments)

    return call("mul", unit, bottom_up(law, part))


def _scaled(network: Network, per_unit: float, *, chosen: bool) -> Network:
    """A network that counts `per_unit` of each unit of the file's amounts."""
    factor = _free_name(network)
    unit = Symbol(factor)
    amounts = amounts_of(network)
    in_units = {
        name: call("div", Symbol(name), unit) for name in network.species if name in amounts
    }

    def read(tree: Expression) -> Expression:
        return substitute(tree, in_units)

    def converted(tree: Expression, of: str | None = None) -> Expression:
        return call("mul", unit, read(tree)) if of is None or of in amounts else read(tree)

    result = Network(network.name)
    result.t_end, result.labels = network.t_end, network.labels
    result.source_path, result.source_text = network.source_path, network.source_text
    result.time_unit, result.read_at_start = network.time_unit, network.read_at_start
    settled = (*_KINDS, "mass") if chosen else _KINDS
    result.features = [feature for feature in network.features if feature.kind not in settled]
    result.parameters = {**network.parameters, factor: Number(per_unit)}
    result.species = {
        name: replace(species, initial=converted(species.initial, name))
        for name, species in network.species.items()
    }
    result.rules = {
        name: replace(rule, expression=read(rule.expression))
        for name, rule in network.rules.items()
    }
    result.rates = {name: converted(tree, name) for name, tree in network.rates.items()}
    result.events = [
        replace(
            event.mapped(read),
            assignments={k: converted(v, k) for k, v in event.assignments.items()},
        )
        for event in network.events
    ]
    result.reactions = [
        replace(
            reaction,
            law=converted(reaction.law)
            if reaction.limit is None
            else _combinations(reaction.law, unit, in_units, amounts),
            limit=None if reaction.limit is None else converted(reaction.limit),
            delay=None if reaction.delay is None else read(reaction.delay),
        )
        for reaction in network.reactions
    ]
    result.notes = [note for note in network.notes if not note.startswith(NO_UNIT)]
    if chosen:
        unit_of_file = network.amount_unit or "unit"
        result.count_unit = f"counts of {1 / per_unit:g} {unit_of_file}"
        result.notes.append(f"amounts are {result.count_unit}, as was chosen")
    else:
        result.notes.append(f"amounts are molecules: {per_unit:g} of them are a unit of the file")
    return result


def _moved_values(network: Network) -> set[str]:
    """Parameters and compartments that rules or events change, or draws: species, no amounts."""
    moved = set(network.rates).union(*(event.assignments for event in network.events))
    moved |= network.drawn_amounts().keys()
    return {
        name
        for name in moved
        if network.species[name].fixed and network.species[name].compartment is None
    }


def unit_of_amount(libsbml: Any, model: Any) -> float | None:
    """Molecules in the unit of all species and reactions of an SBML model.

    None where it is not stated, is no number of molecules, or is not the same everywhere.
    """
    own = (model.getSpecies(i).getSubstanceUnits() for i in range(model.getNumSpecies()))
    if model.getLevel() == 3:
        default, extent = str(model.getSubstanceUnits()), str(model.getExtentUnits())
    else:
        default, extent = "substance", ""
    sizes = {_molecules_in(libsbml, model, unit or default) for unit in own}
    if extent:
        sizes.add(_molecules_in(libsbml, model, extent))
    return sizes.pop() if len(sizes) == 1 else None


def _molecules_in(libsbml: Any, model: Any, name: str) -> float | None:
    definition = model.getUnitDefinition(name)
    if definition is None:
        # "substance" is the unit of Level 2 where a file states none: the mole.
        known = {"mole": AVOGADRO, "substance": AVOGADRO, "item": 1.0, "dimensionless": 1.0}
        return known.get(name)
    units = [definition.getUnit(i) for i in range(definition.getNumUnits())]
    sizes = [size for unit in units if (size := _size_of(libsbml, unit)) is not None]
    return math.prod(sizes, start=1.0) if len(sizes) == len(units) else None


def _size_of(libsbml: Any, unit: Any) -> float | None:
    kind = libsbml.UnitKind_toString(unit.getKind())
    base = {"mole": AVOGADRO, "avogadro": AVOGADRO, "item": 1.0, "dimensionless": 1.0}.get(kind)
    if base is None:
        return None
    one = unit.getMultiplier() * value_of("pow", 10.0, unit.getScale()) * base
    return value_of("pow", float(one), unit.getExponent())


def _free_name(network: Network) -> str:
    name = _FACTOR
    while name in network.species or name in network.parameters or name in network.rules:
        name += "_"
    return name

"""A network as SBML Level 3 Version 2, which `tauslab.read` reads as the same network.

Species are written as amounts (``hasOnlySubstanceUnits``), numbers with all their digits, laws with
their brackets. What SBML has no word for stands in annotations of the namespace `OWN`: the limit of
a law for many molecules, species without a compartment, rules that are not recorded, names that are
no identifiers. Other programs ignore these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from tauslab.base.errors import ModelError
from tauslab.base.interrupts import ends_at_once
from tauslab.formats.sbml.mathml_writer import mathml
from tauslab.formats.sbml.text import OWN, import_libsbml, parsed, raise_first_error
from tauslab.formats.text_files import write_text
from tauslab.model.expressions.expression import (
    Expression,
    Number,
    symbols,
    to_text,
    written_size,
)
from tauslab.model.network.parts import Event, NetworkData, Reaction, Species, as_events, unit_in

_CORE = "http://www.sbml.org/sbml/level3/version2/core"
_DISTRIB = "http://www.sbml.org/sbml/level3/version1/distrib/version1"
_NO_COMPARTMENT = "no_compartment"
_MOST_WRITTEN = 4_000_000  # numbers, names and operations
# Kinds of feature that the parts of a network say themselves.
_WRITTEN = {
    *(
        "timed event", "state event", "rate rule", "time", "reversible", "mole", "mass",
        "scaled unit",
    ),
    *("concentration", "stoichiometry", "conversion factor", "rate of change", "net law"),
    *("draw", "delay"),
}  # fmt: skip
_UNITS = ("mole", "mass", "scaled unit")
AVOGADRO = 6.02214076e23  # molecules of a mole, as in `tauslab.model.network.molecules`
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def write_sbml(network: NetworkData, path: str | Path | None = None) -> str:
    """SBML of a network, written to a file if there is one; see `Network.to_sbml`."""
    return write_text(sbml_text(network), path, (".xml", ".sbml"))


def sbml_text(network: NetworkData) -> str:
    """SBML of a network that is valid, checked by libsbml.

    Raises
    ------
    ModelError
        The network does not hold all that its source says (an event that waits for the state, for
        instance), or has more formulas than a file should hold.
    ConfigError
        python-libsbml is not installed.
    """
    for feature in network.features:
        if feature.kind == "delayed reaction":
            raise ModelError(
                f"{feature.element}: {feature.message}, which is written as TOML (Network.write), "
                "not as SBML"
            )
        if feature.kind not in _WRITTEN:
            raise ModelError(
                f"{feature.element}: {feature.message}, which the network does not hold, so that "
                "it cannot be written as SBML"
            )
    text = _Writer(network).text()
    libsbml = import_libsbml()
    document = parsed(libsbml, text)
    with ends_at_once():
        document.checkConsistency()
    raise_first_error(document, f"{network.name} as SBML")
    return text


class _Writer:
    """One pass over a network."""

    def __init__(self, network: NetworkData) -> None:
        self._network = network
        self._time = "time" not in {**network.species, **network.parameters, **network.rules}
        species = network.species.values()
        self._sizes = {s.compartment for s in species if s.compartment is not None}
        # What moves and is no species stands first, where the reader puts it.
        assigned = {name for event in network.events for name in event.assignments}
        self._moving: dict[str, bool] = {}  # and whether it is a size
        for name, own in network.species.items():
            moved = name in network.rates or name in assigned
            if not (own.fixed and own.compartment is None and moved):
                break
            if name in self._sizes and not all(self._moving.values()):
                break
            self._moving[name] = name in self._sizes
        # A size is a compartment in any place.
        self._moving |= dict.fromkeys(self._sizes & network.species.keys(), True)
        self._written = [n for n in network.species if n not in self._moving]
        self._taken = {*network.species, *network.parameters, *network.rules}

    def text(self) -> str:
        network = self._network
        self._check_size()
        attributes = _unit_attributes(network)
        self._unit = attributes["species"]
        lists = (
            ("UnitDefinitions", _unit_definitions(network)),
            ("Compartments", self._compartments()),
            ("Species", (self._species(network.species[name]) for name in self._written)),
            ("Parameters", self._parameters()),
            ("InitialAssignments", self._initial_assignments()),
            ("Rules", self._rules()),
            ("Reactions", [self._reaction(reaction) for reaction in network.reactions]),
            ("Events", self._events()),
        )
        model = self._free(network.name)
        body = [f"<listOf{name}>\n{inner}\n</listOf{name}>" for name, inner in _joined(lists)]
        end = network.t_end
        notes = "" if end is None else _notes(f"t_end = {_plain(end)}")
        own = _own(name=network.name)
        draws = any(feature.kind == "draw" for feature in network.features)
        packages = f' xmlns:distrib="{_DISTRIB}" distrib:required="true"' if draws else ""
        head = f'<model id="{model}" name={quoteattr(network.name)} {attributes["model"]}>'
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<sbml xmlns="{_CORE}" level="3" version="2"{packages}>\n{head}\n{notes}{own}\n'
            + "\n".join(body)
            + "\n</model>\n</sbml>\n"
        )

    def _check_size(self) -> None:
        network = self._network
        trees = [*network.parameters.values(), *network.rates.values()]
        trees += [species.initial for species in network.species.values()]
        trees += [rule.expression for rule in network.rules.values()]
        trees += [reaction.law for reaction in network.reactions]
        if sum(map(written_size, trees)) > _MOST_WRITTEN:
            raise ModelError(f"{network.name}: its formulas are too long to be written as SBML")

    # ------------------------------------------------------------ elements

    def _compartments(self) -> Iterator[str]:
        network = self._network
        for name, is_size in self._moving.items():
            if is_size:
                yield _compartment(name, network.species[name].initial, constant=False)
        for name in (n for n in network.parameters if n in self._sizes):
            yield _compartment(name, network.parameters[name], constant=True)
        for name in (n for n in network.rules if n in self._sizes):
            yield _compartment(name, None, constant=False)
        if any(network.species[name].compartment is None for name in self._written):
            self._nowhere = self._free(_NO_COMPARTMENT)
            yield (
                f'<compartment id="{self._nowhere}" spatialDimensions="3" size="1" constant="true">'
                f"{_own(compartment='none')}</compartment>"
            )

    def _species(self, species: Species) -> str:
        initial = species.initial
        given = ""
        if isinstance(initial, Number) and not math.isnan(initial.value):
            given = f' initialAmount="{_plain(initial.value)}"'
        label = self._network.labels.get(species.name)
        name = "" if label is None else f" name={quoteattr(label)}"
        own = "" if label is None else _own(label=label)
        where = species.compartment or self._nowhere
        return (
            f'<species id="{species.name}"{name} compartment="{where}"'
            f'{given}{self._unit} hasOnlySubstanceUnits="true" '
            f'boundaryCondition="{_word(species.fixed)}" constant="false">{own}</species>'
        )

    def _parameters(self) -> Iterator[str]:
        network = self._network
        for name, is_size in self._moving.items():
            if not is_size:
                yield _parameter(name, network.species[name].initial, constant=False)
        for name in (n for n in network.parameters if n not in self._sizes):
            yield _parameter(name, network.parameters[name], constant=True)
        for name in (n for n in network.rules if n not in self._sizes):
            yield _parameter(name, None, constant=False)

    def _initial_assignments(self) -> Iterator[str]:
        network = self._network
        trees = {n: species.initial for n, species in network.species.items()} | network.parameters
        for name, tree in trees.items():
            if not isinstance(tree, Number):
                yield f'<initialAssignment symbol="{name}">{self._math(tree)}</initialAssignment>'

    def _rules(self) -> Iterator[str]:
        for name, rule in self._network.rules.items():
            own = "" if rule.recorded else _own(recorded="false")
            inner = f"{own}{self._math(rule.expression)}"
            yield f'<assignmentRule variable="{name}">{inner}</assignmentRule>'
        for name, tree in self._network.rates.items():
            yield f'<rateRule variable="{name}">{self._math(tree)}</rateRule>'

    def _reaction(self, reaction: Reaction) -> str:
        where = f"reaction {reaction.name}"
        net_rate = any(
            f.kind == "reversible" and f.element == where for f in self._network.features
        )
        identifier = self._free(reaction.name)
        own = {} if identifier == reaction.name else {"name": reaction.name}
        if reaction.limit is not None:
            own["limit"] = to_text(reaction.limit)
        sides = {"Reactants": reaction.reactants, "Products": reaction.products}
        read = symbols(reaction.law) - reaction.reactants.keys() - reaction.products.keys()
        modifiers = "".join(
            f'<modifierSpeciesReference species="{name}"/>'
            for name in self._written
            if name in read
        )
        return (
            f'<reaction id="{identifier}" reversible="{_word(net_rate)}">{_own(**own)}'
            + "".join(
                f"<listOf{side}>{_references(n)}</listOf{side}>" for side, n in sides.items() if n
            )
            + (f"<listOfModifiers>{modifiers}</listOfModifiers>" if modifiers else "")
            + f"<kineticLaw>{self._math(reaction.law)}</kineticLaw></reaction>"
        )

    def _events(self) -> Iterator[str]:
        return map(self._event, as_events(self._network.events))

    def _event(self, event: Event) -> str:
        extra = "".join(
            f"<{tag}>{self._math(tree)}</{tag}>"
            for tag, tree in (("priority", event.priority), ("delay", event.delay))
            if tree is not None
        )
        assignments = "".join(
            f'<eventAssignment variable="{name}">{self._math(tree)}</eventAssignment>'
            for name, tree in event.assignments.items()
        )
        early, initial, persistent = map(_word, (event.early, event.initial, event.persistent))
        return (
            f'<event id="{self._free(event.name)}" useValuesFromTriggerTime="{early}">'
            f'<trigger initialValue="{initial}" persistent="{persistent}">'
            f"{self._math(event.trigger)}</trigger>{extra}"
            f"<listOfEventAssignments>{assignments}</listOfEventAssignments></event>"
        )

    # ------------------------------------------------------------ names and formulas

    def _math(self, tree: Expression) -> str:
        return mathml(tree, time=self._time)

    def _free(self, name: str) -> str:
        """An identifier that nothing has, the name itself if that can be."""
        result = name if _IDENTIFIER.match(name) else "_" + re.sub(r"[^A-Za-z0-9_]", "_", name)
        while result in self._taken:
            result += "_"
        self._taken.add(result)
        return result


def _joined(lists: Iterable[tuple[str, Iterable[str]]]) -> Iterator[tuple[str, str]]:
    for name, elements in lists:
        inner = "\n".join(elements)
        if inner:
            yield name, inner


def _compartment(name: str, size: Expression | None, *, constant: bool) -> str:
    given = _given("size", size)
    return f'<compartment id="{name}" spatialDimensions="3"{given} constant="{_word(constant)}"/>'


def _parameter(name: str, value: Expression | None, *, constant: bool) -> str:
    return f'<parameter id="{name}"{_given("value", value)} constant="{_word(constant)}"/>'


def _given(attribute: str, tree: Expression | None) -> str:
    known = isinstance(tree, Number) and not math.isnan(tree.value)
    return f' {attribute}="{_plain(tree.value)}"' if known and isinstance(tree, Number) else ""


def _references(amounts: Mapping[str, int]) -> str:
    return "".join(
        f'<speciesReference species="{name}" stoichiometry="{count}" constant="true"/>'
        for name, count in amounts.items()
    )


def _unit_attributes(network: NetworkData) -> dict[str, str]:
    """Attributes that say what amounts are: of the model, and of every species."""
    result = [feature for feature in network.features if feature.kind in _UNITS]
    if not result:
        return {"model": 'substanceUnits="item" extentUnits="item"', "species": ""}
    feature = result[0]
    named = unit_in(feature.message)
    if len(result) > 1 or named is None or network.molecules_per_unit is None:
        raise ModelError(f"{feature.element}: {feature.message}; SBML is written with one unit")
    unit = f'substanceUnits="{named[0]}"'
    if feature.element == "model":
        return {"model": f'{unit} extentUnits="{named[0]}"', "species": ""}
    return {"model": "", "species": f" {unit}"}


def _unit_definitions(network: NetworkData) -> Iterator[str]:
    """The unit of amounts, where SBML has no word for it."""
    for feature in network.features:
        named = unit_in(feature.message) if feature.kind in _UNITS else None
        if named is None or named[0] in ("mole", "avogadro", "gram", "kilogram"):
            continue
        per_unit = network.molecules_per_unit
        if per_unit is None or feature.kind == "mass":
            raise ModelError(f"{feature.element}: {feature.message}, whose size is not known")
        kind, size = ("item", 1.0) if feature.kind == "scaled unit" else ("mole", AVOGADRO)
        name = f" name={quoteattr(named[1])}" if named[1] else ""
        yield (
            f'<unitDefinition id="{named[0]}"{name}><listOfUnits><unit kind="{kind}" exponent="1" '
            f'scale="0" multiplier="{_plain(per_unit / size)}"/></listOfUnits></unitDefinition>'
        )


def _own(**values: str) -> str:
    """An annotation of our namespace."""
    if not values:
        return ""
    pairs = "".join(f" {key}={quoteattr(value)}" for key, value in values.items())
    return f'<annotation><tauslab xmlns="{OWN}"{pairs}/></annotation>'


def _notes(text: str) -> str:
    body = f'<p xmlns="http://www.w3.org/1999/xhtml">{escape(text)}</p>'
    return f"<notes>{body}</notes>"


def _plain(value: float) -> str:
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return repr(value)


def _word(value: object) -> str:
    return "true" if value else "false"

"""Small SBML texts, and shorthands for what a reader makes of them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from tauslab.formats.sbml.reader import read_sbml
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.network.network import Network

libsbml = importlib.import_module("libsbml")

# -------------------------------------------------------------------- writing small files

_LEVELS = {
    (3, 1): "http://www.sbml.org/sbml/level3/version1/core",
    (3, 2): "http://www.sbml.org/sbml/level3/version2/core",
    (2, 4): "http://www.sbml.org/sbml/level2/version4",
}


def mathml(formula: str) -> str:
    """MathML of an infix formula."""
    node = libsbml.parseL3Formula(formula)
    assert node is not None, libsbml.getLastParseL3Error()
    text = libsbml.writeMathMLToString(node)
    return re.sub(r"<\?xml.*?\?>\s*", "", text)


def species(
    name: str, start: str = 'initialAmount="10"', only: str = "true", more: str = ""
) -> str:
    """One species in the compartment ``c``."""
    flags = "" if "boundaryCondition" in more else 'boundaryCondition="false"'
    flags += "" if "constant=" in more else ' constant="false"'
    return (
        f'<species id="{name}" compartment="c" {start} hasOnlySubstanceUnits="{only}" '
        f"{flags} {more}/>"
    )


def reaction(
    name: str,
    law: str | None,
    left: str = "",
    right: str = "",
    more: str = 'reversible="false" fast="false"',
    local: str = "",
    level: int = 3,
) -> str:
    """One reaction; the sides are names, each possibly with ``:stoichiometry``."""

    def side(tag: str, text: str) -> str:
        refs = ""
        for term in text.split():
            name, _, count = term.partition(":")
            constant = ' constant="true"' if level == 3 else ""
            refs += f'<speciesReference species="{name}" stoichiometry="{count or 1}"{constant}/>'
        return f"<{tag}>{refs}</{tag}>" if refs else ""

    kinetic = "" if law is None else f"<kineticLaw>{mathml(law)}{local}</kineticLaw>"
    return (
        f'<reaction id="{name}" {more}>{side("listOfReactants", left)}'
        f"{side('listOfProducts', right)}{kinetic}</reaction>"
    )


def model(
    *,
    compartments: str = '<compartment id="c" spatialDimensions="3" size="1" constant="true"/>',
    listed: tuple[tuple[str, str], ...] = (),
    species: str = "",
    reactions: str = "",
    attributes: str = 'substanceUnits="item"',
    level: tuple[int, int] = (3, 1),
) -> str:
    """Text of a file; `listed` holds pairs of list name and content, each put where it belongs."""
    parts = dict(listed) | {
        "listOfCompartments": compartments,
        "listOfSpecies": species,
        "listOfReactions": reactions,
    }
    order = (
        "notes",
        "listOfFunctionDefinitions",
        "listOfUnitDefinitions",
        "listOfCompartments",
        "listOfSpecies",
        "listOfParameters",
        "listOfInitialAssignments",
        "listOfRules",
        "listOfConstraints",
        "listOfReactions",
        "listOfEvents",
    )
    assert set(parts) <= set(order)
    body = "\n".join(f"<{tag}>{parts[tag]}</{tag}>" for tag in order if parts.get(tag))
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<sbml xmlns="{_LEVELS[level]}" '
        f'level="{level[0]}" version="{level[1]}">\n<model id="m" {attributes}>\n'
        f"{body}\n</model></sbml>\n"
    )


def parameter(name: str, value: float | None = None, *, constant: bool = True) -> str:
    """One global parameter."""
    given = "" if value is None else f' value="{value!r}"'
    return f'<parameter id="{name}"{given} constant="{str(constant).lower()}"/>'


def write(folder: Path, text: str) -> Path:
    """Write a file ``model.xml``."""
    path = folder / "model.xml"
    path.write_text(text, encoding="utf-8")
    return path


def start(network: Network) -> dict[str, float]:
    """Parameters, species and rules at the start, rules from their expressions."""
    values = network.parameter_values()
    values = {**values, **network.initial_amounts(values)}
    rules = network.rule_expressions()
    return {**values, **{name: evaluate(tree, values) for name, tree in rules.items()}}


def propensities(network: Network) -> dict[str, float]:
    """Propensity of every reaction in the initial state."""
    values = start(network)
    return {reaction.name: evaluate(reaction.law, values) for reaction in network.reactions}


def read_text(tmp_path: Path, text: str) -> Network:
    return read_sbml(write(tmp_path, text))


def kinds(network: Network) -> list[tuple[str, str]]:
    return [(feature.kind, feature.element) for feature in network.features]

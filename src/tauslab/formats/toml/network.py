"""Read tauslab's own model format: TOML that holds what the builder holds.

The page ``docs/model-toml.md`` is its schema.  Propensities written as ``rate`` follow Gillespie
(1977), as in `tauslab.model.network.network.Network.add_reaction`.
"""

from __future__ import annotations

import math
from pathlib import Path

from tauslab.base.errors import ModelError
from tauslab.formats.toml.values import Naming, Table, load_toml
from tauslab.model.expressions.infix import as_expression
from tauslab.model.network.network import Feature, Network

_TOP = ("name", "t_end", "source_digest", "species", "parameters", "rules", "reactions", "events",
        "features")  # fmt: skip
_SPECIES = ("initial", "fixed", "compartment", "label")
_RULE = ("expression", "recorded")
_REACTION = ("name", "equation", "rate", "law", "limit", "parameters", "delay", "consuming")
_EVENT = ("name", "time", "assignments", "trigger", "delay", "priority", "persistent", "initial",
          "early")  # fmt: skip
_FEATURE = ("kind", "element", "message")


def read_toml_bytes(path: Path) -> str:
    """Text of a file in UTF-8; a `ModelError` if it cannot be read or is not."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is not text in UTF-8: {error}") from None


def read_toml_text(text: str, path: Path) -> Network:
    """Read TOML that is already in memory; `path` names it in messages and may not exist."""
    try:
        network = _network(_tables(text), path.stem)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    network.source_path, network.source_text = path, text
    return network


def _tables(text: str) -> Table:
    data = load_toml(text)
    if not data:
        raise ModelError("is empty: a model has [species] and [[reactions]], or a [lattice]")
    return Table(data)


def _network(data: Table, stem: str) -> Network:
    data.only(_TOP, elsewhere=("lattice",))
    network = Network(data.text("name", stem) or stem)
    if "t_end" in data:
        network.t_end = data.number("t_end")
        if not 0 < network.t_end < math.inf:
            raise ModelError(f"t_end = {network.t_end:g}: it must be finite and above 0")
    network.source_digest = data.given(data.text, "source_digest")
    parameters = data.table("parameters")
    for name in parameters.data:
        with Naming(parameters.place(name)):
            network.add_parameter(name, as_expression(parameters.value(name)))
    for name, table in data.table("species").entries("initial"):
        _add_species(network, name, table)
    for name, table in data.table("rules").entries("expression"):
        _add_rule(network, name, table)
    for table in data.tables("reactions"):
        _add_reaction(network, table)
    for table in data.tables("events"):
        _add_event(network, table)
    listed: list[Feature] = []
    for table in data.tables("features"):
        table.only(_FEATURE)
        listed.append(Feature(*map(table.text, _FEATURE)))
    if network.source_digest is not None and listed:  # they are all that the source has
        network.features = listed
    else:
        network.features = [*listed, *(f for f in network.features if f not in listed)]
    if not network.features:
        network.validate()
    return network


def _add_species(network: Network, name: str, table: Table) -> None:
    table.only(_SPECIES)
    with Naming(table.where):
        network.add_species(
            name,
            as_expression(table.value("initial", 0)),
            fixed=table.boolean("fixed"),
            compartment=table.given(table.text, "compartment"),
        )
    if "label" in table:
        network.labels[name] = table.text("label")


def _add_rule(network: Network, name: str, table: Table) -> None:
    table.only(_RULE).need("expression")
    with Naming(table.where):
        if name not in network.species:
            recorded = table.boolean("recorded", default=True)
            network.add_rule(name, table.value("expression"), recorded=recorded)
        elif "recorded" in table:
            raise ModelError(f"{name} is a species: recorded is for other rules")
        else:  # a bare equation: dx/dt
            network.add_rate(name, table.value("expression"))


def _add_reaction(network: Network, table: Table) -> None:
    name = table.given(table.text, "name")
    if name:
        table.where = f"[[reactions]] {name}"
    table.only(_REACTION).need("equation", hint=', for example "2 X -> 3 X"')
    if ("rate" in table) == ("law" in table):
        raise ModelError("give either rate or law, not both or neither", where=table.where)
    with Naming(table.where):
        network.add_reaction(
            table.text("equation"),
            rate=table.given(table.value, "rate"),
            law=table.given(table.value, "law"),
            limit=table.given(table.value, "limit"),
            parameters=table.values("parameters"),
            name=name,
            delay=table.given(table.value, "delay"),
            consuming=table.boolean("consuming", default=True),
        )


def _add_event(network: Network, table: Table) -> None:
    table.only(_EVENT).need("time" if "trigger" not in table else "trigger", "assignments")
    trigger = table.given(table.value, "trigger")
    with Naming(table.where):
        network.add_event(
            table.text("name", f"E{len(network.events) + 1}"),
            table.given(table.value, "time"),
            table.values("assignments"),
            trigger=None if trigger is None else as_expression(trigger),
            delay=table.given(table.value, "delay"),
            priority=table.given(table.value, "priority"),
            **{key: table.boolean(key, default=True) for key in _EVENT[-3:]},
        )

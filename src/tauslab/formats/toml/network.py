"""Read tauslab's own model format: TOML that holds what the builder holds.

The page ``docs/model-toml.md`` is its schema.  Propensities written as ``rate`` follow Gillespie
(1977), as in `tauslab.model.network.network.Network.add_reaction`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.formats.toml.values import (
    Naming,
    as_boolean,
    as_number,
    as_text,
    as_value,
    load_toml,
    only_keys,
    shown,
    table_of,
    tables_of,
)
from tauslab.model.expressions.infix import as_expression
from tauslab.model.network.network import Feature, Network

_TOP = ("name", "t_end", "source_digest", "species", "parameters", "rules", "reactions", "events",
        "features")  # fmt: skip
_SPECIES = ("initial", "fixed", "compartment", "label")
_RULE = ("expression", "recorded")
_REACTION = (
    *("name", "equation", "rate", "law", "limit", "parameters"),
    *("delay", "consuming"),
)
_EVENT = ("name", "time", "assignments", "trigger", "delay", "priority", "persistent", "initial",
          "early")  # fmt: skip
_EXPRESSIONS = ("time", "trigger", "delay", "priority")
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


def _tables(text: str) -> dict[str, Any]:
    data = load_toml(text)
    if not data:
        raise ModelError("is empty: a model has [species] and [[reactions]], or a [lattice]")
    return data


def _network(data: dict[str, Any], stem: str) -> Network:
    only_keys(data, _TOP, "the file", elsewhere=("lattice",))
    network = Network(as_text(data.get("name", stem), "name") or stem)
    if "t_end" in data:
        network.t_end = as_number(data["t_end"], "t_end")
        if not 0 < network.t_end < math.inf:
            raise ModelError(f"t_end = {network.t_end:g}: it must be finite and above 0")
    if "source_digest" in data:
        network.source_digest = as_text(data["source_digest"], "source_digest")
    for name, value in table_of(data, "parameters").items():
        with Naming(f"[parameters] {name}"):
            network.add_parameter(name, as_value(value, f"[parameters] {name}"))
    for name, value in table_of(data, "species").items():
        _add_species(network, name, value)
    for name, value in table_of(data, "rules").items():
        _add_rule(network, name, value)
    for index, table in enumerate(tables_of(data, "reactions"), start=1):
        _add_reaction(network, table, f"[[reactions]] number {index}")
    for index, table in enumerate(tables_of(data, "events"), start=1):
        _add_event(network, table, f"[[events]] number {index}")
    listed: list[Feature] = []
    for index, table in enumerate(tables_of(data, "features"), start=1):
        where = f"[[features]] number {index}"
        only_keys(table, _FEATURE, where)
        listed.append(Feature(*(as_text(table.get(k), f"{where}, {k}") for k in _FEATURE)))
    if network.source_digest is not None and listed:  # they are all that the source has
        network.features = listed
    else:
        network.features = [*listed, *(f for f in network.features if f not in listed)]
    if not network.features:
        network.validate()
    return network


def _add_species(network: Network, name: str, value: object) -> None:
    where = f"[species] {name}"
    table = value if isinstance(value, dict) else {"initial": value}
    only_keys(table, _SPECIES, where)
    compartment = table.get("compartment")
    with Naming(where):
        network.add_species(
            name,
            as_value(table.get("initial", 0), f"{where}, initial"),
            fixed=as_boolean(table.get("fixed", False), f"{where}, fixed"),
            compartment=None
            if compartment is None
            else as_text(compartment, f"{where}, compartment"),
        )
    if "label" in table:
        network.labels[name] = as_text(table["label"], f"{where}, label")


def _add_rule(network: Network, name: str, value: object) -> None:
    where = f"[rules] {name}"
    table = value if isinstance(value, dict) else {"expression": value}
    only_keys(table, _RULE, where)
    if "expression" not in table:
        raise ModelError("the key expression is missing", where=where)
    if name in network.species:  # a bare equation: dx/dt
        if "recorded" in table:
            raise ModelError(f"{name} is a species, so recorded has no meaning here", where=where)
        with Naming(where):
            network.add_rate(name, as_value(table["expression"], f"{where}, expression"))
        return
    with Naming(where):
        network.add_rule(
            name,
            as_value(table["expression"], f"{where}, expression"),
            recorded=as_boolean(table.get("recorded", True), f"{where}, recorded"),
        )


def _add_reaction(network: Network, table: dict[str, Any], where: str) -> None:
    name = as_text(table["name"], f"{where}, name") if "name" in table else None
    if name:
        where = f"[[reactions]] {name}"
    only_keys(table, _REACTION, where)
    if "equation" not in table:
        raise ModelError('the key equation is missing, for example "2 X -> 3 X"', where=where)
    if ("rate" in table) == ("law" in table):
        raise ModelError("give either rate or law, not both or neither", where=where)
    rate, law = table.get("rate"), table.get("law")
    own = table.get("parameters", {})
    if not isinstance(own, dict):
        raise ModelError(f"{shown(own)} where a table is expected", where=f"{where}, parameters")
    limit = table.get("limit")
    with Naming(where):
        network.add_reaction(
            as_text(table["equation"], f"{where}, equation"),
            rate=None if rate is None else as_value(rate, f"{where}, rate"),
            law=None if law is None else as_value(law, f"{where}, law"),
            limit=None if limit is None else as_value(limit, f"{where}, limit"),
            parameters={k: as_value(v, f"{where}, parameters.{k}") for k, v in own.items()},
            name=name,
            delay=as_value(table["delay"], f"{where}, delay") if "delay" in table else None,
            consuming=as_boolean(table.get("consuming", True), f"{where}, consuming"),
        )


def _add_event(network: Network, table: dict[str, Any], where: str) -> None:
    only_keys(table, _EVENT, where)
    for key in ("time" if "trigger" not in table else "trigger", "assignments"):
        if key not in table:
            raise ModelError(f"the key {key} is missing", where=where)
    name = as_text(table.get("name", f"E{len(network.events) + 1}"), f"{where}, name")
    assignments = table["assignments"]
    if not isinstance(assignments, dict):
        raise ModelError(
            f"{shown(assignments)} where a table is expected", where=f"{where}, assignments"
        )
    given = {key: as_value(table[key], f"{where}, {key}") for key in _EXPRESSIONS if key in table}
    flags = {key: as_boolean(table.get(key, True), f"{where}, {key}") for key in _EVENT[-3:]}
    with Naming(where):
        network.add_event(
            name,
            given.get("time"),
            {k: as_value(v, f"{where}, assignments.{k}") for k, v in assignments.items()},
            trigger=as_expression(given["trigger"]) if "trigger" in given else None,
            delay=given.get("delay"),
            priority=given.get("priority"),
            **flags,
        )

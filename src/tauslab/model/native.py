"""Read tauslab's own model format: TOML that holds what the builder holds.

The page ``docs/model-toml.md`` is its schema.  Propensities written as ``rate`` follow Gillespie
(1977), as in `tauslab.model.network.Network.add_reaction`.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tauslab.model.errors import ModelError
from tauslab.model.network import Feature, Network

_TOP = ("name", "t_end", "source_digest", "species", "parameters", "rules", "reactions", "features")
_SPECIES = ("initial", "fixed", "compartment", "label")
_RULE = ("expression", "recorded")
_REACTION = ("name", "equation", "rate", "law", "parameters")
_FEATURE = ("kind", "element", "message")
_LINE = re.compile(r"line (\d+), column \d+")
_KINDS: Mapping[type, str] = {
    bool: "a boolean",
    str: "a text",
    int: "a number",
    float: "a number",
    dict: "a table",
    list: "an array",
}


def read_toml(path: str | Path) -> Network:
    """Read a model in TOML.

    Raises
    ------
    ModelError
        The file cannot be read, is not TOML (file and line are named), or has a table, a key or a
        value that the format does not have.
    """
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is not text in UTF-8: {error}") from None
    return read_toml_text(text, path)


def read_toml_text(text: str, path: Path) -> Network:
    """Read TOML that is already in memory; `path` names it in messages and may not exist."""
    try:
        network = _network(_load(text), path.stem)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    network.source_path, network.source_text = path, text
    return network


def _load(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).rpartition(" (at ")
        found = _LINE.match(place)
        line = found[1] if found is not None else len(text.splitlines())  # at the end
        raise ModelError(f"is not TOML: line {line}: {message}") from None
    except RecursionError:
        raise ModelError("is not a model: its tables or arrays are nested too deep") from None


def _network(data: dict[str, Any], stem: str) -> Network:
    _only(data, _TOP, "the file")
    network = Network(_text(data.get("name", stem), "name") or stem)
    if "t_end" in data:
        network.t_end = _number(data["t_end"], "t_end")
        if not 0 < network.t_end < math.inf:
            raise ModelError(f"t_end = {network.t_end:g}: it must be finite and above 0")
    if "source_digest" in data:
        network.source_digest = _text(data["source_digest"], "source_digest")
    for name, value in _table(data, "parameters").items():
        with _Naming(f"[parameters] {name}"):
            network.add_parameter(name, _value(value, f"[parameters] {name}"))
    for name, value in _table(data, "species").items():
        _add_species(network, name, value)
    for name, value in _table(data, "rules").items():
        _add_rule(network, name, value)
    for index, table in enumerate(_tables(data, "reactions"), start=1):
        _add_reaction(network, table, f"[[reactions]] number {index}")
    for index, table in enumerate(_tables(data, "features"), start=1):
        where = f"[[features]] number {index}"
        _only(table, _FEATURE, where)
        network.features.append(Feature(*(_text(table.get(k), f"{where}, {k}") for k in _FEATURE)))
    if not network.features:
        network.validate()
    return network


def _add_species(network: Network, name: str, value: object) -> None:
    where = f"[species] {name}"
    table = value if isinstance(value, dict) else {"initial": value}
    _only(table, _SPECIES, where)
    compartment = table.get("compartment")
    with _Naming(where):
        network.add_species(
            name,
            _value(table.get("initial", 0), f"{where}, initial"),
            fixed=_boolean(table.get("fixed", False), f"{where}, fixed"),
            compartment=None
            if compartment is None
            else _text(compartment, f"{where}, compartment"),
        )
    if "label" in table:
        network.labels[name] = _text(table["label"], f"{where}, label")


def _add_rule(network: Network, name: str, value: object) -> None:
    where = f"[rules] {name}"
    table = value if isinstance(value, dict) else {"expression": value}
    _only(table, _RULE, where)
    if "expression" not in table:
        raise ModelError(f"{where}: the key expression is missing")
    with _Naming(where):
        network.add_rule(
            name,
            _value(table["expression"], f"{where}, expression"),
            recorded=_boolean(table.get("recorded", True), f"{where}, recorded"),
        )


def _add_reaction(network: Network, table: dict[str, Any], where: str) -> None:
    name = _text(table["name"], f"{where}, name") if "name" in table else None
    if name:
        where = f"[[reactions]] {name}"
    _only(table, _REACTION, where)
    if "equation" not in table:
        raise ModelError(f'{where}: the key equation is missing, for example "2 X -> 3 X"')
    if ("rate" in table) == ("law" in table):
        raise ModelError(f"{where}: give either rate or law, not both or neither")
    rate, law = table.get("rate"), table.get("law")
    own = table.get("parameters", {})
    if not isinstance(own, dict):
        raise ModelError(f"{where}, parameters: {_shown(own)} where a table is expected")
    with _Naming(where):
        network.add_reaction(
            _text(table["equation"], f"{where}, equation"),
            rate=None if rate is None else _value(rate, f"{where}, rate"),
            law=None if law is None else _value(law, f"{where}, law"),
            parameters={k: _value(v, f"{where}, parameters.{k}") for k, v in own.items()},
            name=name,
        )


class _Naming:
    """Puts the table and key before the message of a `ModelError` raised inside."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ModelError) and not str(error).startswith("["):
            raise ModelError(f"{self._where}: {error}") from None


def _only(table: Mapping[str, Any], allowed: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in allowed:
            raise ModelError(f"{where}: unknown key {key!r}; allowed: {', '.join(allowed)}")


def _table(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise ModelError(f"{name}: {_shown(table)} where a table [{name}] is expected")
    return table


def _tables(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    tables = data.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ModelError(f"{name}: {_shown(tables)} where tables [[{name}]] are expected")
    return tables


def _value(value: object, where: str) -> float | str:
    """A number, or the text of an expression."""
    return value if isinstance(value, str) else _number(value, where, "a number or an expression")


def _number(value: object, where: str, expected: str = "a number") -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"{where}: {_shown(value)} where {expected} is expected")
    try:
        return float(value)
    except OverflowError:
        raise ModelError(f"{where}: the number is too large for a double") from None


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ModelError(f"{where}: {_shown(value)} where a text in quotes is expected")
    return value


def _boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise ModelError(f"{where}: {_shown(value)} where true or false is expected")
    return value


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    kind = _KINDS.get(type(value), "a date or a time")
    return kind if isinstance(value, dict | list) else f"{kind} ({value!r})"

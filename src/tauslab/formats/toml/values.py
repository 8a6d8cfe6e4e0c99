"""What readers of TOML share: tables, keys and values, with messages that name them."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from typing import Any

from tauslab.base.errors import ModelError
from tauslab.model.names import one_line

_KINDS: Mapping[type, str] = {
    bool: "a boolean",
    str: "a text",
    int: "a number",
    float: "a number",
    dict: "a table",
    list: "an array",
}


def load_toml(text: str) -> dict[str, Any]:
    """Tables of a text; a `ModelError` that names the line if it is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"is not TOML: {error}") from None  # it ends in line and column
    except ValueError:
        raise ModelError("is not a model: it has a number with thousands of digits") from None
    except RecursionError:
        raise ModelError("is not a model: its tables or arrays are nested too deep") from None


class Naming:
    """Puts the table and key before the message of a `ModelError` raised inside."""

    def __init__(self, where: str) -> None:
        self._where = one_line(where)  # a key may be any text

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ModelError) and not error.where:
            raise ModelError(str(error), where=_printable(self._where)) from None


def _printable(text: str) -> str:
    """Text without control characters, which could change what a terminal shows."""
    return text if text.isprintable() else ascii(text)[1:-1]


def only_keys(
    table: Mapping[str, Any], allowed: tuple[str, ...], where: str, elsewhere: tuple[str, ...] = ()
) -> None:
    """Refuse a key that the format does not have, and say which may be meant.

    `elsewhere` are keys of files of the other kind, which a slip may have made one of this kind.
    """
    for key in table:
        if key not in allowed:
            near = difflib.get_close_matches(key, (*allowed, *elsewhere), n=1)
            slip = f" (is {near[0]!r} meant?)" if near and near[0] != key else ""
            known = ", ".join(allowed)
            raise ModelError(
                f"unknown key {key!r}{slip}; allowed: {known}", where=_printable(where)
            )


def table_of(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Table ``[name]``, empty if it is not there."""
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise ModelError(f"{shown(table)} where a table [{name}] is expected", where=name)
    return table


def tables_of(data: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Tables ``[[name]]``, none if they are not there."""
    tables = data.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ModelError(f"{shown(tables)} where tables [[{name}]] are expected", where=name)
    return tables


def as_value(value: object, where: str) -> float | str:
    """A number, or the text of an expression."""
    return value if isinstance(value, str) else as_number(value, where, "a number or an expression")


def as_number(value: object, where: str, expected: str = "a number") -> float:
    """A number as a double."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"{shown(value)} where {expected} is expected", where=where)
    try:
        return float(value)
    except OverflowError:
        raise ModelError("the number is too large for a double", where=where) from None


def as_text(value: object, where: str) -> str:
    """Text."""
    if not isinstance(value, str):
        raise ModelError(f"{shown(value)} where a text in quotes is expected", where=where)
    return value


def as_boolean(value: object, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ModelError(f"{shown(value)} where true or false is expected", where=where)
    return value


def shown(value: object) -> str:
    """How a message calls a value of the wrong type."""
    if value is None:
        return "nothing"
    kind = _KINDS.get(type(value), "a date or a time")
    return kind if isinstance(value, dict | list) else f"{kind} ({value!r})"


def is_lattice_text(text: str) -> bool:
    """Whether TOML is a lattice model: it has a table ``[lattice]``."""
    try:
        return "lattice" in tomllib.loads(text)
    except (ValueError, RecursionError):  # the former also of a number with 5000 digits
        return False  # the reader of networks says what is wrong

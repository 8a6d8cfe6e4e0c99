"""Tables, keys and values of TOML, with messages that name them."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from tauslab.base.errors import ModelError
from tauslab.model.names import one_line

T = TypeVar("T")

_KINDS: Mapping[type, str] = {
    bool: "a boolean", str: "a text", int: "a number", float: "a number", dict: "a table",
    list: "an array",
}  # fmt: skip


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
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ModelError) and not error.where:
            raise ModelError(str(error), where=_printable(self._where)) from None


def _printable(text: str) -> str:
    """Text without control characters, which could change what a terminal shows."""
    return text if text.isprintable() else ascii(text)[1:-1]


def as_table(value: object, where: str, expected: str = "a table") -> dict[str, Any]:
    """A table as it is."""
    if not isinstance(value, dict):
        raise ModelError(f"{shown(value)} where {expected} is expected", where=where)
    return value


def as_number(value: object, where: str, expected: str = "a number") -> float:
    """A number as a double."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"{shown(value)} where {expected} is expected", where=where)
    try:
        return float(value)
    except OverflowError:
        raise ModelError("the number is too large for a double", where=where) from None


def as_value(value: object, where: str) -> float | str:
    """A number, or the text of an expression."""
    return value if isinstance(value, str) else as_number(value, where, "a number or an expression")


def as_text(value: object, where: str) -> str:
    """A text as it is."""
    if not isinstance(value, str):
        raise ModelError(f"{shown(value)} where a text in quotes is expected", where=where)
    return value


class Table:
    """A table of a file, whose values are read by key; messages name `where` and the key.

    Methods that read a value raise a `ModelError` for one of another kind, and for one that is not
    there and has no default.
    """

    def __init__(self, data: dict[str, Any], where: str = "") -> None:
        self.data, self.where = data, where

    @classmethod
    def of(cls, value: object, where: str, short: str = "") -> Table:
        """A value as a table; what is none is the value of the key `short`, if that is given."""
        if short and not isinstance(value, dict):
            value = {short: value}
        return cls(as_table(value, where), where)

    def __contains__(self, key: object) -> bool:
        """Return whether there is such a key."""
        return key in self.data

    def place(self, key: str) -> str:
        """Name of a key in messages: that of ``[species]`` is ``[species] X``."""
        return f"{self.where}{'' if self.where.endswith(']') else ','} {key}" if self.where else key

    def only(self, allowed: tuple[str, ...], elsewhere: tuple[str, ...] = ()) -> Table:
        """Refuse a key that the format does not have, and say which may be meant.

        `elsewhere` are keys of files of the other kind, which a slip may have made one of this
        kind.
        """
        for key in self.data:
            if key not in allowed:
                near = difflib.get_close_matches(key, (*allowed, *elsewhere), n=1)
                slip = f" (is {near[0]!r} meant?)" if near and near[0] != key else ""
                known = ", ".join(allowed)
                raise ModelError(
                    f"unknown key {key!r}{slip}; allowed: {known}",
                    where=_printable(self.where or "the file"),
                )
        return self

    def need(self, *keys: str, hint: str = "") -> None:
        """Refuse a table without one of these keys; `hint` follows in the message."""
        for key in keys:
            if key not in self.data:
                raise ModelError(f"the key {key} is missing{hint}", where=self.where)

    def given(self, read: Callable[[str], T], key: str) -> T | None:
        """The value of a key by one of the methods below; None where it is not there."""
        return read(key) if key in self.data else None

    def text(self, key: str, default: str | None = None) -> str:
        """A text."""
        return as_text(self.data.get(key, default), self.place(key))

    def number(self, key: str, default: float | None = None) -> float:
        """A number as a double."""
        return as_number(self.data.get(key, default), self.place(key))

    def value(self, key: str, default: float | None = None) -> float | str:
        """A number, or the text of an expression."""
        return as_value(self.data.get(key, default), self.place(key))

    def rates(self, key: str) -> Any:
        """A number or text as of `value`, or an array of them: forward, reverse."""
        value = self.data.get(key)
        if not isinstance(value, list):
            return self.value(key)
        return [as_value(one, self.place(key)) for one in value]

    def boolean(self, key: str, *, default: bool = False) -> bool:
        """True or false."""
        value = self.data.get(key, default)
        if not isinstance(value, bool):
            raise ModelError(
                f"{shown(value)} where true or false is expected", where=self.place(key)
            )
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        return self._whole(self.data.get(key, default), key)

    def _whole(self, value: object, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ModelError(
                f"{shown(value)} where a whole number is expected", where=self.place(key)
            )
        return value

    def wholes(self, key: str) -> list[int]:
        """Whole numbers."""
        return [self._whole(entry, key) for entry in self._array(key, "whole numbers")]

    def texts(self, key: str) -> list[str]:
        """Texts; none where the key is not there."""
        return [as_text(entry, self.place(key)) for entry in self._array(key, "texts")]

    def names(self, key: str) -> str | list[str]:
        """One text, or several."""
        return self.data[key] if isinstance(self.data[key], str) else self.texts(key)

    def _array(self, key: str, of: str) -> list[Any]:
        value = self.data.get(key, [])
        if not isinstance(value, list):
            raise ModelError(
                f"{shown(value)} where an array of {of} is expected", where=self.place(key)
            )
        return value

    def values(self, key: str) -> dict[str, float | str]:
        """Numbers or expressions by name, in a table inside; none where the key is not there."""
        table = as_table(self.data.get(key, {}), self.place(key))
        return {k: as_value(v, f"{self.place(key)}.{k}") for k, v in table.items()}

    def table(self, key: str) -> Table:
        """Table ``[key]`` of the file, empty if it is not there."""
        return Table(as_table(self.data.get(key, {}), key, f"a table [{key}]"), f"[{key}]")

    def entries(self, short: str) -> Iterator[tuple[str, Table]]:
        """Names and tables inside; a value in place of one is that of the key `short`."""
        for name, value in self.data.items():
            yield name, Table.of(value, self.place(name), short)

    def tables(self, key: str) -> Iterator[Table]:
        """Tables ``[[key]]`` of the file, none if they are not there."""
        tables = self.data.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ModelError(f"{shown(tables)} where tables [[{key}]] are expected", where=key)
        for number, table in enumerate(tables, start=1):
            yield Table(table, f"[[{key}]] number {number}")


def shown(value: object) -> str:
    """Name of a value of the wrong type in messages."""
    if value is None:
        return "nothing"
    kind = _KINDS.get(type(value), "a date or a time")
    return kind if isinstance(value, dict | list) else f"{kind} ({value!r})"


def is_lattice_text(text: str) -> bool:
    """Return whether TOML is a lattice model: it has a table ``[lattice]``."""
    try:
        return "lattice" in tomllib.loads(text)
    except (ValueError, RecursionError):  # the former also of a number with 5000 digits
        return False  # the reader of networks says what is wrong

"""What a result file holds of options, and what a run takes from one: both from `Definition`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field
from typing import Any

from tauslab.options.values.definition import (
    Definition,
    Stored,
    definitions,
    destination,
)

Attribute = str | int | float


def attributes_of(settings: object) -> dict[str, Attribute]:
    """Attributes of the root of a file that hold the options of an object.

    A value of None is left out: nobody gave one, and nobody chose one.
    """
    found: dict[str, Attribute] = {}
    for field, one, stored in _stored(type(settings)):
        value = getattr(settings, field.name)
        written = stored.always or value != _absent(field, stored)
        if written and value is not None and not stored.apart:
            found[_name(one, stored)] = int(value) if isinstance(value, bool) else value
    return found


def attribute_names(*classes: type) -> tuple[str, ...]:
    """Attributes that hold the options of `classes`, each once: with others, it is another run."""
    deciding = (
        _name(one, stored)
        for _, one, stored in _stored(*classes)
        if stored.decides and not stored.apart
    )
    return tuple(dict.fromkeys(deciding))


def values_in(attributes: Mapping[str, Any], *classes: type) -> dict[str, Any]:
    """Values, by the names of the fields of `classes`, that a file with these attributes has.

    An option that the file says nothing of is left out.
    """
    found: dict[str, Any] = {}
    for field, one, stored in _stored(*classes):
        name = _name(one, stored)
        if name in attributes:
            found[field.name] = _reader(one, stored)(attributes[name])
        elif not stored.always and not stored.apart:
            found[field.name] = _absent(field, stored)
    return found


def taken(
    attributes: Mapping[str, Any], given: Mapping[str, Any], *classes: type
) -> dict[str, Any]:
    """Values of a file for the options of `classes` that are not `given`, by field.

    An option that follows another is taken where that one is as in the file.
    """
    held = values_in(attributes, *classes)
    followed = {field.name: stored.follows for field, _, stored in _stored(*classes)}

    def other(name: str) -> bool:
        return name in given and given[name] != held.get(name)

    return {n: v for n, v in held.items() if n not in given and not other(followed[n])}


def _stored(*classes: type) -> Iterator[tuple[Field[Any], Definition, Stored]]:
    for field, one in definitions(*classes):
        if one.stored is not None:
            yield field, one, one.stored


def _name(one: Definition, stored: Stored) -> str:
    return stored.name or destination(one)


def _absent(field: Field[Any], stored: Stored) -> Any:
    return field.default if stored.absent is Stored.absent else stored.absent


def _reader(one: Definition, stored: Stored) -> Any:
    if stored.read is not None:
        return stored.read
    return _flag if one.action == "store_true" else one.type or str


def _flag(value: Any) -> bool:
    return bool(int(value))

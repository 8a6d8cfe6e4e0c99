"""Names in models: how long they may be, what they may hold, and how messages show them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tauslab.base.errors import ModelError

AVOGADRO = 6.02214076e23  # 1/mol, exact since 2019 (SI brochure, 9th edition)
LONGEST_NAME = 1000  # characters; every result, table and message repeats names
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check_name(name: str, what: str) -> None:
    """Refuse a name with control characters, or one that no line can show.

    Raises
    ------
    ModelError
        Says `what` the name is.
    """
    require_text(name, what)
    if len(name) > LONGEST_NAME:
        raise ModelError(
            f"{what} has {len(name)} characters ({brief(name)}); it may have {LONGEST_NAME} at most"
        )
    check_text(name, what)


def require_text(value: object, what: str) -> None:
    """Refuse what is no text.

    Raises
    ------
    ModelError
        Says `what` the value is.
    """
    if not isinstance(value, str):
        raise ModelError(f"{what} must be text, not {type(value).__name__}")


def require_mapping(value: object, what: str, example: str) -> None:
    """Refuse what is no mapping, with an example of one.

    Raises
    ------
    ModelError
        Says `what` the value is.
    """
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise ModelError(f"{what}: a mapping such as {example} is expected, not {kind}")


def check_text(text: str, what: str) -> None:
    """Refuse control characters, which terminals and tables take for something else.

    Raises
    ------
    ModelError
        Says `what` the text is.
    """
    result = _CONTROL.search(text)
    if result is not None:
        raise ModelError(f"{what} holds the control character {result[0]!r}: {brief(text)}")


def check_names(network: Any) -> None:
    """Check all names of a network that a reader made.

    Raises
    ------
    ModelError
        As `check_name`.
    """
    check_name(network.name, "the model's name")
    groups = {
        "species": network.species,
        "parameter": network.parameters,
        "rule": network.rules,
        "reaction": (reaction.name for reaction in network.reactions),
        "event": (event.name for event in network.events),
    }
    for kind, names in groups.items():
        for name in names:
            check_name(name, f"the name of a {kind}")
    for name, label in network.labels.items():
        check_text(label, f"the pattern of species {name}")


def brief(text: str, most: int = 80) -> str:
    """A text in quotes for a message, cut where it is long.

    >>> brief("X" * 100, most=8)
    "'XXXXXXXX...'"
    """
    return repr(text if len(text) <= most else f"{text[:most]}...")


def one_line(text: str, most: int = 200) -> str:
    """A text without quotes for a message: cut where it is long, control characters escaped."""
    return repr(text if len(text) <= most else f"{text[:most]}...")[1:-1]

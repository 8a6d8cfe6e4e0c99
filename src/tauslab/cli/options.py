"""The parser's arguments, made from the definitions of the options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tauslab.options.values.definition import (
    GROUPS,
    Definition,
    definitions,
    destination,
    on_command_line,
)


def add_options(parser: argparse.ArgumentParser, model: str, *classes: type) -> None:
    """Add a model and the options of `classes`, in the groups of ``--help``."""
    result = on_command_line(*classes)
    for title in GROUPS:
        own = [one for one in result if one.group == title]
        if title == "model" or own:
            group = parser.add_argument_group(title)
        if title == "model":
            group.add_argument("model", type=Path, help=model)
        for one in own:
            add_option(group, one)


def given_options(arguments: argparse.Namespace, *classes: type) -> dict[str, Any]:
    """Options of `classes` that the command gives, by field, as Python takes them."""
    result = {}
    for field, one in definitions(*classes):
        value = getattr(arguments, destination(one)) if one.flags else one.command_default
        if value is not None and value != one.command_default:
            result[field.name] = one.read(value) if one.read else value
    return result


def add_option(to: Any, one: Definition) -> None:
    """Add an option to a parser or a group of one."""
    given = {
        "help": one.help,
        "action": one.action,
        "type": one.type,
        "choices": one.choices or None,
        "metavar": one.metavar,
    }
    default = list(one.command_default) if one.action == "append" else one.command_default
    to.add_argument(
        *one.flags, default=default, **{k: v for k, v in given.items() if v is not None}
    )

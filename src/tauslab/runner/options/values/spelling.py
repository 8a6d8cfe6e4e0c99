"""How a message names an option: as the command line spells it, or as Python does.

Messages are written with flags.  What Python calls is wrapped in `python_spelling`, which spells
them as keywords: ``--t-end 0`` becomes ``t_end=0``, ``--method tau`` becomes ``method="tau"``.  The
command line is wrapped in `command_spelling`: within it flags stay, also where it calls what Python
calls.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from tauslab.model.errors import TauslabError
from tauslab.runner.options.values.definition import by_flag

P = ParamSpec("P")
R = TypeVar("R")

# A flag, and what may be its value: a quoted text, a number or a word.
_FLAG = re.compile(
    r"""(?<![\w/.-])(--[a-z][a-z-]*|-[no]\b)(?:[ =]("[^"]*"|'[^']*'|[^\s,;:()]+))?"""
)
_VALUE = re.compile(r"[-+]?(\d|\.\d|nan|inf)|(True|False|None)\Z")
_FUNCTIONS = {
    "--molecules": "ts.in_molecules(model)",
    "--amounts": "ts.in_molecules(model, ...)",
    "--net-laws": "ts.with_net_laws(model)",
}
_OBJECTS = {"--executor dask": "executor=ts.Dask()", "--executor mpi": "executor=None"}


def _called(flag: str, value: str | None) -> str:
    """What Python calls where the command line has a flag of its own."""
    if flag != "--amounts":
        return _FUNCTIONS[flag] + (f" {value}" if value else "")
    return f"ts.in_molecules(model, {1 if value == 'counts' else value or '...'})"


def in_python(message: str) -> str:
    """A message with its flags spelt as Python's keywords.

    >>> from tauslab.runner.options import keywords
    >>> in_python("--t-end 0 is not allowed; use --method tau, --resume or -o")
    't_end=0 is not allowed; use method="tau", resume=True or output='
    """
    known = by_flag()

    def spelt(found: re.Match[str]) -> str:
        flag, value = found[1], found[2]
        if found[0] in _OBJECTS:
            return _OBJECTS[found[0]]
        if flag in _FUNCTIONS:
            return _called(flag, value)
        if flag not in known:
            return found[0]
        name, option = known[flag]
        rest = found[0][len(flag) :]
        if option.action == "store_true":
            return f"{name}=True{rest}"
        if value is None:
            return f"{name}={rest}"
        if value in option.choices:
            return f'{name}="{value}"'
        if value[0] in "\"'" or _VALUE.match(value):
            return f"{name}={value}"
        if option.action == "append" and "=" in value:
            key, _, own = value.partition("=")
            return f'{name}["{key}"]={own}'
        if message[found.end() :].startswith(":"):  # what is wrong with this one
            return f'{name}["{value}"]' if option.action == "append" else f'{name}="{value}"'
        return f"{name}={rest}"

    return _FLAG.sub(spelt, message)


_SPEAKER: ContextVar[str] = ContextVar("speaker", default="")


@contextmanager
def command_spelling() -> Iterator[None]:
    """Messages within it name options by their flags."""
    token = _SPEAKER.set("command")
    try:
        yield
    finally:
        _SPEAKER.reset(token)


@contextmanager
def python_spelling() -> Iterator[None]:
    """Errors that leave it, and warnings within it, name options as Python does."""
    if _SPEAKER.get() == "command":
        yield
        return
    token = _SPEAKER.set("python")
    try:
        yield
    except TauslabError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (in_python(error.args[0]), *error.args[1:])
        raise
    finally:
        _SPEAKER.reset(token)


def spelt(message: str) -> str:
    """A message in words of who reads it: with flags on the command line, else with keywords."""
    return message if _SPEAKER.get() == "command" else in_python(message)


def warn(message: str, stacklevel: int = 2) -> None:
    """`warnings.warn`, in words of who reads it."""
    warnings.warn(spelt(message), stacklevel=stacklevel + 1)


def speaks_python(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, whose errors name options as Python does."""

    @wraps(function)
    def wrapped(*args: P.args, **options: P.kwargs) -> R:
        with python_spelling():
            return function(*args, **options)

    return wrapped

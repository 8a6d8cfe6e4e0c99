"""Names of options in messages: the flag on the command line, the keyword in Python.

A message is a text with options in it: ``f"{assigned('t_end')}{end:g} is not allowed"``.  It names
an option by its field; who reads it decides the spelling.  A process has one reader: within
`command_line` a person at the command line, else one who writes Python.

`tauslab.options` defines the options and registers their spelling by `know`, so that the layers
below can name them.  An option without a spelling is spelt by rule: ``--t-end``, ``t_end=``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Spelling:
    """The spelling of an option.

    Parameters
    ----------
    flag
        On the command line; empty for an option that Python alone has.
    switch
        Whether the flag stands alone, and Python takes True.
    python
        Makes what Python has in its place, of the value or of None where the message gives none; by
        default a keyword.
    """

    flag: str
    switch: bool = False
    python: Callable[[object], str] | None = None


_KNOWN: dict[str, Spelling] = {}
_at_command_line = False
_heard: ContextVar[tuple[list[str | Warning], ...]] = ContextVar("heard", default=())


def know(name: str, spelling: Spelling) -> None:
    """Register the spelling of an option."""
    _KNOWN[name] = spelling


def known() -> dict[str, Spelling]:
    """All registered spellings, by the names of the options."""
    return dict(_KNOWN)


@contextmanager
def command_line() -> Iterator[None]:
    """Within it messages name options by their flags, in every thread of the process."""
    global _at_command_line  # noqa: PLW0603 - a process has one reader
    before, _at_command_line = _at_command_line, True
    try:
        yield
    finally:
        _at_command_line = before


def opt(name: str, value: object = None, *, key: str = "") -> str:
    """An option, or an option with its value.

    Parameters
    ----------
    name
        Of the option's field, which is Python's keyword.
    value
        A word, which Python puts in quotation marks, or a number.
    key
        For an option that takes values by name: the name.

    >>> opt("t_end"), opt("method", "tau"), opt("set", key="k")
    ('t_end=', 'method="tau"', 'set["k"]')
    >>> with command_line():
    ...     opt("t_end"), opt("method", "tau"), opt("set", key="k")
    ('--t-end', '--method tau', '--set k')
    """
    spelling = _of(name)
    if _at_command_line and spelling.flag:
        return " ".join(str(part) for part in (spelling.flag, key, value) if part not in ("", None))
    if spelling.python is not None:
        return spelling.python(value)
    if spelling.switch:
        return f"{name}=True"
    if value is not None:
        return f"{name}={value}" if isinstance(value, int | float) else f'{name}="{value}"'
    return f'{name}["{key}"]' if key else f"{name}="


def assigned(name: str, *, key: str = "") -> str:
    """An option before its value, which the message writes next.

    >>> f"{assigned('t_end')}0 or {assigned('set', key='k')}3"
    't_end=0 or set["k"]=3'
    >>> with command_line():
    ...     f"{assigned('t_end')}0 or {assigned('set', key='k')}3"
    '--t-end 0 or --set k=3'
    """
    if _at_command_line and _of(name).flag:
        return f"{opt(name, key=key)}=" if key else f"{opt(name)} "
    return f"{opt(name, key=key)}=" if key else opt(name)


def at_command_line() -> bool:
    """Return whether a person at the command line reads what is said."""
    return _at_command_line


def said(command: str, python: str) -> str:
    """Return the one of two texts that is for the reader of the message."""
    return command if _at_command_line else python


def replacing(path: object) -> str:
    """Return the option that overwrites the file of a result.

    >>> replacing("a.h5")
    'output=ts.Output("a.h5", overwrite=True)'
    """
    return said("--overwrite", f'output=ts.Output("{path}", overwrite=True)')


@contextmanager
def listening() -> Iterator[list[str | Warning]]:
    """Within it collect what `warn` is given, in this thread; it is also warned."""
    reported: list[str | Warning] = []
    token = _heard.set((*_heard.get(), reported))
    try:
        yield reported
    finally:
        _heard.reset(token)


def warn(message: str | Warning) -> None:
    """Warn as `warnings.warn` does, at the line outside tauslab that led to the warning."""
    for reported in _heard.get():
        reported.append(message)
    frame, level = sys._getframe(1), 2  # noqa: SLF001 - as `warnings` itself counts
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _is_ours(module: str) -> bool:
    """Return whether a frame is one of ours, or enters our contexts or calls our functions."""
    return module.partition(".")[0] in {"tauslab", "contextlib", "functools"}


def _of(name: str) -> Spelling:
    return _KNOWN.get(name) or Spelling("--" + name.replace("_", "-"))

"""Keywords that a function does not have: one error for all of them, which names the nearest."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import wraps
from typing import ParamSpec, TypeVar

from tauslab.base.errors import UnknownKeyword

P = ParamSpec("P")
R = TypeVar("R")

# What users type for the option of another function.
_CALLED = {
    "t_end": ("times", "t"), "times": ("t", "t_end"), "time": ("times", "t", "t_end"),
    "t": ("times", "t_end"), "t_eval": ("times",), "t_max": ("t_end", "times"),
    "n": ("cells", "runs", "samples", "replicas"), "particles": ("n",), "trajectories": ("n",),
    "path": ("output",), "file": ("output",), "set": ("parameters",), "parameters": ("set",),
}  # fmt: skip


def unknown_keyword(
    name: str, allowed: Iterable[str], what: str, homes: Iterable[type] = ()
) -> UnknownKeyword:
    """The error of a keyword `name` that `what` does not have.

    Parameters
    ----------
    allowed
        The keywords that it has.
    homes
        Classes of settings, whose fields are often given beside them.
    """
    near = nearest(name, list(allowed))
    of = [one.__name__ for one in homes if name in {found.name for found in fields(one)}]
    hint = f": did you mean {near[0]}=?" if near else ""
    if of:
        hint = ": it belongs to " + " and ".join(f"ts.{one}({name}=...)" for one in of)
    return UnknownKeyword(f"{name}= is no option of {what}{hint}")


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """Return the known keywords that may be meant, the likeliest first.

    >>> nearest("t_end", ["n", "t"]), nearest("sede", ["seed", "n"]), nearest("xyz", ["n"])
    (['t'], ['seed'], [])
    """
    called = [one for one in (name, *_CALLED.get(name, ())) if one in known]
    return called + difflib.get_close_matches(name, known, n=1)


def checks_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, which refuses a keyword that it does not have by `unknown_keyword`."""
    known = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in known):
        return function
    allowed = [one.name for one in known if one.name != "self"]
    what = "ts." + function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        for name in options:
            if name not in allowed:
                raise unknown_keyword(name, allowed, what)
        return function(*args, **options)

    return checked

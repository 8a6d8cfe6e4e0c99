"""The door to packages above: what shows or writes itself by a function that stands higher.

``Network.to_sbml`` is a method of a model, and SBML is written by a package that knows models. So
the method asks for its function by name, and `tauslab` says where it is: no import points up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_FUNCTIONS: dict[str, str] = {}


def fill_door(functions: Mapping[str, str]) -> None:
    """Say where functions are: ``module:function`` by the name of the method that calls it."""
    _FUNCTIONS.update(functions)


def behind_door(method: str) -> Callable[..., Any]:
    """The function of a method, such as ``Result.plot``; its module is imported now."""
    module, _, function = _FUNCTIONS[method].partition(":")
    result: Callable[..., Any] = getattr(import_module(module), function)
    return result

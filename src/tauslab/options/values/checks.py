"""Checks of values, for `option(check=...)`: each takes the name of a field and its value."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from tauslab.base.errors import ConfigError, one_of
from tauslab.base.option_names import assigned, opt


def within(option: str, value: object, low: int, high: int, *, key: str = "", of: str = "") -> None:
    """A `ConfigError` that names an option, unless `value` is whole, from `low` to `high`.

    `of` is what it counts, with " of " before it.
    """
    value = scalar(value)
    allowed = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not allowed or not low <= value <= high:  # type: ignore[operator]
        shown = repr(value) if isinstance(value, str) else value
        raise ConfigError(
            f"{assigned(option, key=key)}{shown} is not allowed: a whole number{of} from {low} "
            f"to {high}"
        )


def by_name(option: str, values: Any) -> dict[str, Any]:
    """The values of an option that takes a mapping.

    Raises
    ------
    ConfigError
        It is none.
    """
    try:
        return {} if values is None else dict(values)
    except (TypeError, ValueError):
        raise ConfigError(f"{opt(option)}: give {{NAME: value}}, not {values!r:.60}") from None


def scalar(value: object) -> object:
    """The number in an array without axes; anything else as it is."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def whole(low: int, high: int, of: str = "") -> Callable[[str, Any], None]:
    """A check of a whole number from `low` to `high`, as of `within`."""
    return lambda option, value: within(option, value, low, high, of=of)


def unless_none(check: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
    """The same check of an option that has a default, and takes None too."""
    return lambda option, value: None if value is None else check(option, value)


def number(holds: Callable[[float], bool], what: str) -> Callable[[str, Any], None]:
    """A check of a number for which `holds` is true; `what` says which numbers are allowed."""

    def check(option: str, value: Any) -> None:
        try:
            allowed = (
                isinstance(value, Real) and not isinstance(value, bool) and holds(float(value))
            )
        except OverflowError:  # a whole number that no double holds
            allowed = False
        if not allowed:
            shown = f"{value:g}" if isinstance(value, float) else repr(value)
            raise ConfigError(f"{assigned(option)}{shown} is not allowed: {what}")

    return check


def word(*allowed: str) -> Callable[[str, Any], None]:
    """A check of a word that is one of `allowed`."""
    return lambda option, value: one_of(option, value, allowed)


def line(most: int) -> Callable[[str, Any], None]:
    """A check of a text in one line, of at most so many characters."""

    def check(option: str, value: Any) -> None:
        if not isinstance(value, str) or not value.isprintable() or len(value) > most:
            raise ConfigError(
                f"{opt(option)}: a line of at most {most} characters is expected, not {value!r:.60}"
            )

    return check


def seed_of(value: int) -> int:
    """The seed itself; a ConfigError where it is not a whole number of 64 bits."""
    within("seed", value, 0, 2**64 - 1)  # an array without axes too
    return int(value)

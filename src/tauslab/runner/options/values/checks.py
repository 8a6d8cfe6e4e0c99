"""Checks that several kinds of options share."""

from __future__ import annotations

import numpy as np

from tauslab.model.errors import ConfigError


def within(option: str, value: object, low: int, high: int) -> None:
    """A `ConfigError` that names `option`, unless `value` is whole, from `low` to `high`."""
    allowed = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not allowed or not low <= value <= high:  # type: ignore[operator]
        shown = repr(value) if isinstance(value, str) else value
        raise ConfigError(f"{option} {shown} is not allowed: a whole number from {low} to {high}")


def seed_of(value: int) -> int:
    """The seed itself; a ConfigError where it is not a whole number of 64 bits."""
    within("--seed", value, 0, 2**64 - 1)
    return int(value)

"""Values that callers from Python may write in several ways."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray, doubles
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.options.sweep import Design, Sweep, choose_points, parse_design
from tauslab.options.values import texts
from tauslab.options.values.checks import by_name


def points_of(
    sweep: Mapping[str, str | Sequence[float] | FloatArray] | None,
    table: Mapping[str, Sequence[float] | FloatArray] | str | os.PathLike[str] | None,
    design: tuple[str, int] | str | None,
) -> Sweep | Design | None:
    """The points that a call asks for."""
    columns = Path(table) if isinstance(table, str | os.PathLike) else table
    return choose_points(
        sweep, columns, parse_design(design) if isinstance(design, str) else design
    )


def whole(value: Any) -> Any:
    """A whole number, written as ``1e4`` or an array without axes too; else as it is."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu":
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def numbers(name: str, values: Any) -> Any:
    """One number, or an array of them.

    Raises
    ------
    ConfigError
        They are no numbers.
    """
    if isinstance(values, float | bool) or (isinstance(values, int) and abs(values) <= 2**53):
        return values
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values.copy()
    why = "must be numbers"
    try:
        if values is not None:  # which NumPy takes for NaN
            result = doubles(values)
            return values if isinstance(values, int) else result
    except ValueError as error:
        why = str(error)
    raise ConfigError(f"{name}: values {why}, not {values!r:.80}")


def numbers_by_name(option: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """`numbers` of each value of an option that takes a mapping; a `ConfigError` if it is none."""
    return {name: numbers(name, value) for name, value in by_name(option, given).items()}


def one_number_each(option: str, given: Mapping[str, Any] | None, why: str) -> dict[str, float]:
    """Values by name of an option that takes one number for each, for the reason `why`.

    Raises
    ------
    ConfigError
        One is no number, or an array of them.
    """
    values = numbers_by_name(option, given)
    for name, value in values.items():
        if np.ndim(value):
            raise ConfigError(f"{opt(option, key=name)}: one number, for {why}")
    return {k: float(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}


def names_of(option: str, given: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """Names that an option takes, in a list or separated by commas.

    Raises
    ------
    ConfigError
        They are neither.
    """
    if given is None or isinstance(given, str):
        return None if given is None else texts.names(given)
    names = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"{opt(option)} takes texts in a list or between commas, not {given!r:.80}"
        )
    return names


def listed(names: Iterable[str] | str) -> list[str]:
    """Names as a list; a text is one name, whatever it contains.

    Raises
    ------
    ConfigError
        They are neither.
    """
    several = [names] if isinstance(names, str) or not isinstance(names, Iterable) else [*names]
    if not all(isinstance(name, str) for name in several):
        raise ConfigError(f"a name or a list of names is expected, not {names!r:.60}")
    return several

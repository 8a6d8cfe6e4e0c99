"""A time course in a CSV file."""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path
from typing import Any

from tauslab.base.errors import ConfigError

_NOT_SEEN = ("", "na", "nan")


def data_of(data: Any) -> Any:
    """Return the columns of a CSV file at a path; other data as they are."""
    return read_table(Path(data)) if isinstance(data, str | os.PathLike) else data


def read_table(path: Path) -> dict[str, list[float]]:
    """Columns of a CSV file with a header; an empty cell, ``NA`` or ``nan`` was not seen.

    Raises
    ------
    ConfigError
        The file cannot be read, or a cell is no number; file and line are named.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [(n, row) for n, row in enumerate(csv.reader(file), 1) if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or f"it is no table ({error})"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    names = [name.strip() for name in rows[0][1]] if rows else []
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"{path}: the first line must name the columns, each once")
    columns: dict[str, list[float]] = {name: [] for name in names}
    for number, row in rows[1:]:
        if len(row) != len(names):
            raise ConfigError(f"{path}: line {number} has {len(row)} cells, not {len(names)}")
        for name, cell in zip(names, row, strict=True):
            columns[name].append(_number(cell, f"{path}: line {number}: {name}"))
    return columns


def _number(cell: str, where: str) -> float:
    text = cell.strip()
    try:
        return math.nan if text.lower() in _NOT_SEEN else float(text)
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is not a number") from None

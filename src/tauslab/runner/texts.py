"""What users write: whole numbers, lists of names, files of times."""

from __future__ import annotations

import argparse
from pathlib import Path

from tauslab.model.errors import ConfigError
from tauslab.runner.job import FloatArray, sample_times


def whole_number(text: str | int) -> int | None:
    """A whole number, which may be written as ``3e6``; None for another text.

    >>> whole_number("3e6"), whole_number("12_000"), whole_number("1.5")
    (3000000, 12000, None)
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else None


def count(text: str) -> int:
    """A whole number for the parser of arguments.

    Raises
    ------
    argparse.ArgumentTypeError
        It is none.
    """
    number = whole_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, such as 1000 or 1e6")
    return number


def names(text: str) -> tuple[str, ...]:
    """Names between commas, without the spaces around them.

    >>> names("A, B,C")
    ('A', 'B', 'C')
    """
    return tuple(name.strip() for name in text.split(","))


def read_times(path: Path) -> FloatArray:
    """Sample times from a text file, one number a line; ``#`` begins a remark.

    Raises
    ------
    ConfigError
        The file cannot be read, or a line is not a number; file and line are named.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"--times {path}: cannot be read: {reason}") from None
    values = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            values.append(float(text))
        except ValueError:
            raise ConfigError(f"--times {path}: line {number}: {text!r} is not a number") from None
    try:
        return sample_times(values)
    except ConfigError as error:
        raise ConfigError(f"--times {path}: {error}") from None

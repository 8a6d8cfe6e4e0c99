"""Readers of texts of users: whole numbers, lists of names, values by name, files of times."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt, said, warn
from tauslab.options.values.sample_times import sample_times

T = TypeVar("T")
_UNNAMED = re.compile(r"lognormal\s*\(\s*([^(),=]+?)\s*,\s*([^(),=]+?)\s*\)")


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


def counts_of_a_unit(text: str) -> float:
    """``counts``, which is 1, or how many counts a unit of amount is; for the parser of arguments.

    Raises
    ------
    argparse.ArgumentTypeError
        It is neither.
    """
    try:
        return 1.0 if text == "counts" else float(text)
    except ValueError:
        allowed = "counts, or the number of counts in a unit of amount, such as 1e-6"
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are {allowed}") from None


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
    """Names between commas, without the spaces around them; a comma in brackets parts nothing.

    >>> names("A, B,C(x,y)")
    ('A', 'B', 'C(x,y)')
    """
    return tuple(name.strip() for name in re.split(r",(?![^()]*\))", text))


def some(names: Iterable[str], most: int = 8) -> str:
    """The first few of many names, for messages.

    >>> some("abc", 2), some("")
    ('a, b, ...', 'none')
    """
    listed = list(names)
    return (", ".join(listed[:most]) or "none") + (", ..." if len(listed) > most else "")


def formula_hint(text: str, names: Iterable[str]) -> str:
    """Hint for an error message, if `text` is a formula of recorded `names`; otherwise empty.

    >>> formula_hint("A + B", "AB"), formula_hint("C", "AB")
    ('; a formula is computed from arrays such as result["A"]', '')
    """
    used = [one for one in re.split(r"\s*[-+*/]\s*", text) if one in (*names,)]
    hint = f'; a formula is computed from arrays such as result["{used[0]}"]' if used else ""
    return said("", hint)


def assignments(texts: Sequence[str]) -> dict[str, float]:
    """Values by name: each text is ``NAME=VALUE``, or ``@FILE`` of many.

    In the file is one to a line, ``NAME=VALUE`` or ``NAME,VALUE``; ``#`` begins a remark. A value
    that stands in a text itself replaces that of a file.

    Raises
    ------
    ConfigError
        A file cannot be read, a value is no number, or a name has two in texts, or in files.
    """
    values: dict[str, float] = {}
    for text in texts:
        for at, line in read_lines(Path(text[1:]), "set") if text.startswith("@") else ():
            name, _, value = line.replace(",", "=", 1).partition("=")
            try:
                number = float(value)
            except ValueError:
                raise ConfigError(
                    f"{opt('set', key=text)}: line {at}: {line!r} is not NAME=VALUE with a number"
                ) from None
            add_once(values, name.strip(), number, "set")
    return values | _assigned([text for text in texts if not text.startswith("@")])


def by_name(
    option: str, form: str, read: Callable[[str], T]
) -> Callable[[Iterable[str]], dict[str, T]]:
    """A reader of values by name, each ``NAME=VALUE``, in their order.

    Parameters
    ----------
    form
        How to write one, for the error.
    read
        Reads a value; a ValueError says that it is none.

    >>> by_name("partition", 'NAME=HOW, such as "X=even"', str)(["X = even"])
    {'X': 'even'}
    """

    def read_all(texts: Iterable[str]) -> dict[str, T]:
        result: dict[str, T] = {}
        for text in texts:
            name, equals, value = (part.strip() for part in text.partition("="))
            try:
                made = read(value) if name and equals else None
            except ValueError:
                made = None
            if made is None:
                raise ConfigError(f"{opt(option, key=text)}: write {form}")
            add_once(result, name, made, option)
        return result

    return read_all


def add_once(found: dict[str, T], name: str, value: T, option: str) -> None:
    """Add the value that an option gives to a name.

    Raises
    ------
    ConfigError
        The name has one.
    """
    if name in found:
        raise ConfigError(
            f"{opt(option, key=name)} is given twice, as {found[name]} and as {value}: give it once"
        )
    found[name] = value


def drawn(text: str) -> tuple[str, ...]:
    """The distributions that a result file holds in one text.

    Where a file names the numbers of ``lognormal`` not, it is older, and the first is the median.

    >>> drawn("k=lognormal(1,0.3); g=uniform(0,1)")
    ('k=lognormal(median=1,sigma=0.3)', 'g=uniform(0,1)')
    """
    text = _UNNAMED.sub(r"lognormal(median=\1,sigma=\2)", text)
    return tuple(text.split("; ")) if text else ()


def drawn_in_file(text: str, path: Path) -> tuple[str, ...]:
    """Read as `drawn`, and warn if `path` is an older file whose ``lognormal`` has a median."""
    result = drawn(text)
    if "; ".join(result) != text:
        warn(
            f"{path} was written when the first number of lognormal was the median, and is run "
            f"again with that: {'; '.join(result)}; lognormal(a,b) now has the mean and the "
            "deviation of the logarithm"
        )
    return result


def read_lines(path: Path, option: str) -> Iterator[tuple[int, str]]:
    """Lines of a text file with their numbers, without remarks and empty ones."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"{opt(option, path)}: this file cannot be read: {reason}") from None
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if text:
            yield number, text


_NUMBERS = re.compile(r"[-+0-9.eE, ]*[0-9][-+0-9.eE, ]*")


def read_times(path: Path) -> FloatArray:
    """Sample times from a text file, one number a line; ``#`` begins a remark.

    Raises
    ------
    ConfigError
        The file cannot be read, or a line is not a number; file and line are named.
    """
    if _NUMBERS.fullmatch(str(path)) and not path.exists():
        raise ConfigError(
            f"{opt('times', path)}: there is no file of that name; it takes a file with one time a "
            f"line, and {opt('t_end')} and {opt('points')} give times at equal distances"
        )
    values = []
    for number, text in read_lines(path, "times"):
        try:
            values.append(float(text))
        except ValueError:
            raise ConfigError(
                f"{opt('times', path)}: line {number}: {text!r} is not a number"
            ) from None
    try:
        return sample_times(values)
    except ConfigError as error:
        raise ConfigError(f"{opt('times', path)}: {error}") from None


_assigned = by_name("set", "NAME=VALUE with a number", float)

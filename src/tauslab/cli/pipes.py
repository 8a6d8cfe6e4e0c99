"""``-`` in place of a file: a model from standard input, a table to standard output."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tauslab.base.errors import ConfigError, ModelError

STANDARD = Path("-")
_STEM = "stdin"  # of the model, and of a result that gets no name
_TEXTS = (".csv", ".bif")
_MOST = 1 << 30  # bytes of a model
# A network lists its reactions, rules do not; without reactions nothing is simulated.
_NET = re.compile(r"(?m)^\s*begin\s+reactions\b")
_BNGL = re.compile(r"(?m)^\s*begin\s+(?:model|parameters|reaction\s+rules)\b")


@contextmanager
def model_given(arguments: argparse.Namespace) -> Iterator[None]:
    """Have a file in place of ``-`` as the model, within a ``with`` statement.

    Raises
    ------
    ConfigError
        Standard input holds no text, or too much.
    """
    if arguments.model != STANDARD:
        yield
        return
    text = _read()
    with tempfile.TemporaryDirectory(prefix="tauslab-") as folder:
        path = Path(folder) / f"{_STEM}{suffix_of(text)}"
        path.write_text(text, encoding="utf-8")
        arguments.model = path
        try:
            yield
        except (ModelError, ConfigError) as error:
            error.args = (str(error).replace(f"{folder}/", ""),)
            raise


def suffix_of(text: str) -> str:
    """The format of a model, by its text.

    >>> suffix_of("<sbml/>"), suffix_of("begin reactions"), suffix_of("[species]")
    ('.xml', '.net', '.toml')
    """
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        return ".xml"
    if _NET.search(text):
        return ".net"
    return ".bngl" if _BNGL.search(text) else ".toml"


def _read() -> str:
    data = sys.stdin.buffer.read(_MOST + 1)
    if not data.strip():
        raise ConfigError("- reads a model from standard input, which is empty")
    if len(data) > _MOST:
        raise ConfigError("- reads a model from standard input: at most 1 GiB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(
            "- reads a model from standard input: SBML, .net, .bngl or TOML as text, not this"
        ) from None


@contextmanager
def printed_table(suffix: str) -> Iterator[Path]:
    """A file for a table, printed at the end of a ``with`` statement.

    It gets the `suffix` where that is one of text, else it is a table of CSV.
    """
    with tempfile.TemporaryDirectory(prefix="tauslab-") as folder:
        path = Path(folder) / f"table{suffix if suffix in _TEXTS else '.csv'}"
        yield path
        with path.open(encoding="utf-8", newline="") as table:
            while piece := table.read(1 << 20):
                sys.stdout.write(piece)

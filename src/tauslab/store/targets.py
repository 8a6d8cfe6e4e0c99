"""Where a file may be written: never over what is no plain file, nor over what the run reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import what_is_not_a_file
from tauslab.base.option_names import opt

# Arguments that name files that a command reads.
_READ = ("model", "times", "table", "file", "problem", "parameters")
_TABLE = re.compile(r"table\((.*)\)\s*")


def require_place(path: Path, option: str = "output") -> None:
    """Refuse a path where no file can be made, or where something is that is no plain file.

    Raises
    ------
    ConfigError
        The folder is missing or not writable; the path is a folder, a device, a pipe, or a link to
        something that is not there; or its name is too long.
    """
    folder = path.parent
    try:
        if not folder.is_dir():
            raise ConfigError(f"{path}: the folder {folder} does not exist")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"{path}: the folder {folder} is not writable")
        kind = what_is_not_a_file(path)
        if kind is not None:
            raise ConfigError(f"{path} is {kind}; {opt(option)} takes the name of a file")
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}") from None


def require_no_input(output: Path | None, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse an output that is one of the files which are read, by whatever name or link.

    Raises
    ------
    ConfigError
        Names both.
    """
    if output is None:
        return
    for given in inputs:
        try:
            same = Path(given).samefile(output)
        except (OSError, ValueError):  # one of them is not there
            continue
        if same:
            raise ConfigError(
                f"{output} would be written over {given}, which this command reads: choose another "
                f"{opt('output')}"
            )


def inputs_of(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Files that a command reads, from its parsed arguments."""
    for name in _READ:
        if isinstance(found := arguments.get(name), Path):
            yield str(found)
    for text in arguments.get("set") or ():
        if text.startswith("@"):
            yield text[1:]
    for text in arguments.get("sample") or ():
        if match := _TABLE.search(text):
            yield match[1].strip()

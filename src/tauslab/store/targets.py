"""Places of files: of those that a run writes, and of those that it keeps beside its result.

Nothing is written over what is no plain file, nor over what the run reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import remove_drafts, require_no_link, what_is_not_a_file
from tauslab.base.option_names import opt
from tauslab.store.hdf5.disk import Disk

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
        if isinstance(given := arguments.get(name), Path):
            yield str(given)
    for text in arguments.get("set") or ():
        if text.startswith("@"):
            yield text[1:]
    for text in arguments.get("sample") or ():
        if match := _TABLE.search(text):
            yield match[1].strip()


def parts_folder(path: Path) -> Path:
    """Folder beside a result that holds its parts.

    Raises
    ------
    InputFileError
        A link is there: parts are written and removed by their names.
    """
    folder = path.with_name(f"{path.name}.parts")
    require_no_link(folder)
    return folder


def part_files(folder: Path, names: str = "*.h5") -> list[Path]:
    """Parts in a folder of them, in order; an `InputFileError` for a link among them."""
    parts = sorted(folder.glob(names))
    for part in parts:
        require_no_link(part)
    return parts


def remove_parts(path: Path, disk: Disk, names: str = "*.h5") -> None:
    """Remove the parts of a result that needs them no more; other files stay."""
    folder = parts_folder(path)
    if not folder.is_dir():
        return
    for part in sorted(folder.glob(names)):
        disk.remove(part)
    remove_drafts(folder)
    if not any(folder.iterdir()):
        folder.rmdir()


def portions(path: Path) -> list[Path]:
    """Files beside a result that hold the beginning of what is to be added to it."""
    name = re.compile(rf"{re.escape(path.name)}\.(append|until-\d+)")
    return sorted(p for p in path.parent.glob("*") if name.fullmatch(p.name) and p.is_file())


def remove_portions(path: Path, disk: Disk) -> None:
    """Remove what an earlier run was to add to a result that is replaced."""
    for portion in portions(path):
        remove_parts(portion, disk)
        disk.remove(portion)

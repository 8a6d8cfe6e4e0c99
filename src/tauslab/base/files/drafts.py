"""New files: each is made under a random name beside its place, and renamed when it is whole.

A name that others can foresee may be a link that they planted, to a file of ours that would then be
written over. So a draft is a new file, or nothing; and what is renamed replaces a link, and never
writes through one.
"""

from __future__ import annotations

import glob
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tauslab.base.errors import InputFileError, OutputError
from tauslab.base.files.opening import could_not_read

_MARK, _RANDOM_BYTES = ".tauslab-tmp", 8
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket",
}  # fmt: skip


def draft_of(path: Path, suffix: str = "") -> Path:
    """A name in the folder of `path` that nobody can foresee; `suffix` for what looks at it."""
    return path.with_name(f"{path.name}.{secrets.token_hex(_RANDOM_BYTES)}{_MARK}{suffix}")


def create_new(path: Path) -> None:
    """Make an empty file where nothing is, not even a link; else an `OSError`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o666))


def what_is_not_a_file(path: Path) -> str | None:
    """Describe what is at a path; None for a plain file, or for no file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a link to something that is not there" if path.is_symlink() else None
    except OSError as error:
        if path.is_symlink():
            return f"a link that cannot be followed ({error.strerror})"
        raise
    return None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no plain file")


def require_replaceable(path: Path) -> None:
    """Refuse, by an `OSError`, to put a file in the place of what is no plain file."""
    kind = what_is_not_a_file(path)
    if kind is not None:
        raise OSError(f"it is {kind}")


@contextmanager
def replacing(path: Path, suffix: str = "") -> Iterator[Path]:
    """Give an empty draft to fill, which takes the place of `path` at the end of the statement.

    For what can be made again in a moment; `publish` of store/hdf5/disk.py also waits until
    the file is on the device.

    Parameters
    ----------
    suffix
        The end of the draft's name, for a library that chooses a format by it.

    Raises
    ------
    OutputError
        It cannot be written; `path` is what it was, and the draft is removed.
    """
    draft = draft_of(path, suffix)
    try:
        create_new(draft)
        yield draft
        require_replaceable(path)
        draft.replace(path)
    except OSError as error:
        if isinstance(error, OutputError) or could_not_read(error):
            raise
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text; an `OutputError` if it cannot be."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def remove_drafts(folder: Path, name: str | None = None) -> None:
    """Remove drafts that killed processes have left in a folder: of one file, or of all."""
    of_file = "*" if name is None else glob.escape(name)
    for draft in folder.glob(f"{of_file}.{'?' * 2 * _RANDOM_BYTES}{_MARK}"):
        draft.unlink(missing_ok=True)


def make_own_folder(folder: Path) -> None:
    """Make a folder whose name others can foresee; a link in its place is refused.

    Raises
    ------
    OutputError
        It is a link, or cannot be made.
    """
    require_no_link(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be made: {error.strerror}") from None


def require_no_link(path: Path) -> None:
    """Refuse a link at a place where only we make files.

    Raises
    ------
    InputFileError
        It is one.
    """
    if path.is_symlink():
        raise InputFileError(
            f"{path} is a link, and this program makes no link there: remove it, or choose another "
            "name for the result"
        )

"""HDF5 files that are damaged or missing, or on a file system without locks, as some of NFS.

Whatever the library raises becomes one sentence.
"""

from __future__ import annotations

import difflib
import errno
import itertools
import os
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tauslab.base.errors import ConfigError, ModelError, TauslabError, of_damage, reason_of
from tauslab.base.option_names import warn

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

_MOST_LISTED = 1000  # files of a folder that are looked at
_ALIKE = 0.7
# What systems answer where a file system has no locks.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_warned_of: set[int] = set()  # file systems, by the number of their device
# What h5py raises where bits of a file are wrong; which of them depends on the bit.
_RAISED = (
    *(AttributeError, KeyError, IndexError, MemoryError, OSError, OverflowError),
    *(RuntimeError, SystemError, TypeError, ValueError),
)


@contextmanager
def reading(path: str | os.PathLike[str], kind: type[TauslabError] = ModelError) -> Iterator[None]:
    """Turn what h5py raises while `path` is read into an error of one sentence.

    So is text that is not UTF-8. Errors that h5py did not raise pass, and so do those of the
    system, such as a full disk.

    Raises
    ------
    TauslabError
        A `kind` that names the file.
    """
    try:
        yield
    except TauslabError:
        raise
    except _RAISED as error:
        of_the_file = isinstance(error, UnicodeDecodeError) or _of_library(error)
        if not of_the_file or getattr(error, "errno", None) is not None:
            raise
        cause = "it is damaged, or memory is short" if lacks_memory(error) else "it is damaged"
        damage = kind(f"{path} cannot be read, {cause}: {reason_of(error)}")
        raise of_damage(damage) from None


def at_home(path: str | os.PathLike[str]) -> Path:
    """A path as a user gives it, with ``~`` at its head replaced as a shell does.

    Raises
    ------
    ConfigError
        It is no path.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"the path of a file is expected, not {path!r:.80}")
    return Path(os.path.expanduser(path))  # noqa: PTH111 - that of Path fails without a home


def lacks_memory(error: BaseException) -> bool:
    """Return whether h5py could not allocate memory: the file is damaged, or memory is short."""
    return isinstance(error, MemoryError) or "memory allocation failed" in str(error)


def could_not_read(error: BaseException) -> bool:
    """Return whether h5py raised it for data that cannot be read, rather than written."""
    return _of_library(error) and "read data" in str(error)


def _of_library(error: BaseException) -> bool:
    step = error.__traceback__
    while step is not None:
        if str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == "h5py":
            return True
        step = step.tb_next
    return False


def open_h5(path: Path) -> h5py.File:
    """Open a file for reading, without HDF5's lock where the file system has none.

    Raises
    ------
    OSError
        As `h5py.File`.
    """
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        opened = h5py.File(path, "r", locking=False)
        warn_of_no_locks(path, error.errno)
        return opened


def warn_of_no_locks(path: Path, number: int) -> None:
    """Warn once that files there are used without locks; `number` is what the system answered."""
    device = path.absolute().parent.stat().st_dev
    if device not in _warned_of:
        _warned_of.add(device)
        warn(
            f"{path}: this file system has no locks ({os.strerror(number)}), so nothing keeps two "
            "programs from changing a file there at once"
        )


def beside(path: Path, suffixes: Container[str]) -> str:
    """The end of a message about a file that is not there: one beside it of a like name, or ''."""
    try:
        result = list(itertools.islice(path.parent.iterdir(), _MOST_LISTED))
    except OSError:
        return ""
    names = sorted(one.name for one in result if one.suffix.lower() in suffixes)
    near = [name for name in names if Path(name).stem == path.stem]
    near += difflib.get_close_matches(path.name, names, n=1, cutoff=_ALIKE)
    return f"; is {path.with_name(near[0])} meant?" if near else ""

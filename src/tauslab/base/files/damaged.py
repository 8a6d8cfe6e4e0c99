"""Files that are HDF5 and damaged: whatever the library raises becomes one sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tauslab.base.errors import ModelError, TauslabError, reason_of

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
        raise kind(f"{path} cannot be read, it is damaged: {reason_of(error)}") from None


def could_not_read(error: BaseException) -> bool:
    """Whether h5py raised it for data that cannot be read, rather than written."""
    return _of_library(error) and "read data" in str(error)


def _of_library(error: BaseException) -> bool:
    step = error.__traceback__
    while step is not None:
        if str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == "h5py":
            return True
        step = step.tb_next
    return False

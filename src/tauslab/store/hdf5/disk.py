"""The few operations that change files, and how a file comes into being all at once."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

from tauslab.base.errors import InputFileError, OutputError
from tauslab.base.files.drafts import create_new, draft_of, require_replaceable
from tauslab.base.files.opening import could_not_read
from tauslab.base.host import in_bytes
from tauslab.base.option_names import opt

_ERRNO = re.compile(r"errno = (\d+)")  # in the errors of HDF5


class Disk:
    """Every change to a file. Tests put one in place that fails at a chosen call."""

    def create(self, path: Path) -> None:
        """Make an empty file; an error where something is."""
        create_new(path)

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        """Write some of `data`; returns how many bytes."""
        return os.pwrite(fd, data, offset)

    def sync(self, fd: int) -> None:
        """Wait until what was written is on the device."""
        getattr(os, "fdatasync", os.fsync)(fd)  # macOS has the second alone

    def replace(self, old: Path, new: Path) -> None:
        """Rename, over `new` if it is there."""
        old.replace(new)

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name."""
        os.link(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file if it is there."""
        path.unlink(missing_ok=True)

    def free_bytes(self, folder: Path) -> int:
        """Bytes that may still be written to the file system of `folder`."""
        stated = os.statvfs(folder)
        return stated.f_bavail * stated.f_frsize

    def require_space(self, folder: Path, needed: int) -> None:
        """Refuse to begin with a file, or parts of one, that the file system has no room for.

        Raises
        ------
        OSError
            It has fewer bytes than `needed`.
        """
        if needed > (free := self.free_bytes(folder)):
            sizes = f"the file takes {in_bytes(needed)}, and {in_bytes(free)} are free"
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} ({sizes})")


def write_error(path: Path, error: BaseException) -> OutputError:
    """One sentence for a failed write."""
    number = getattr(error, "errno", None)
    if not number and (match := _ERRNO.search(str(error))):
        number = int(match[1])
    reason = getattr(error, "strerror", None) or (os.strerror(number) if number else str(error))
    advice = ""
    if number in (errno.ENOSPC, errno.EDQUOT):
        advice = (
            f"; free some space or choose another {opt('output')}; {opt('resume')} completes a run"
        )
    return OutputError(f"{path} cannot be written: {reason}{advice}")


def publish(path: Path, disk: Disk, build: Callable[[Path], None]) -> None:
    """Let `build` write a file under a temporary name, put it on disk and rename it to `path`.

    Raises
    ------
    OutputError
        It cannot be written; the temporary file is removed, and `path` is what it was.
    InputFileError
        The input of `build` is damaged.
    """
    temporary = draft_of(path)
    try:
        disk.create(temporary)
        build(temporary)
        _sync_path(temporary, disk)
        require_replaceable(path)  # what was put there since the run began
        disk.replace(temporary, path)
        _sync_path(path.parent, disk)
    except OSError as error:
        disk.remove(temporary)
        if isinstance(error, InputFileError) or could_not_read(error):
            raise  # of the file that is read: nothing is wrong with this one
        # An OutputError names the temporary file; its cause says why.
        raise write_error(path, error.__cause__ or error) from error
    except RuntimeError as error:
        disk.remove(temporary)
        if type(error) is not RuntimeError:
            raise
        # So HDF5 ends when it closes a file that it could not write.
        raise write_error(path, error) from error


def _sync_path(path: Path, disk: Disk) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        disk.sync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems cannot sync a folder
            raise
    finally:
        os.close(fd)

"""One run at a time for a result: a lock that ends with its holder, however that ends.

The lock is one of the system (`flock`) on a file beside the result, which says who holds it. A
killed run leaves that file, and nobody holds it; the next run takes it and removes it in the end.
"""

from __future__ import annotations

import datetime as dt
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tauslab.base.errors import ConfigError, OutputError
from tauslab.base.files.drafts import remove_drafts
from tauslab.base.files.opening import NO_LOCKS, at_home, warn_of_no_locks
from tauslab.base.host import in_bytes
from tauslab.base.option_names import opt, replacing
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.options.values.result_name import require_result_name
from tauslab.store.hdf5.disk import Disk
from tauslab.store.targets import require_place

if TYPE_CHECKING:
    from tauslab.decomposition.ranks.mpi import Communicator

_MOST_TEXT = 500
_HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES)
_LEAST_ROOM = 1 << 18  # bytes; a full disk is noticed before all is computed, not after


def lock_path(output: Path) -> Path:
    """The file beside a result that is locked while a run writes it."""
    return output.with_name(f"{output.name}.tauslab-lock")


@contextmanager
def written_by_us(
    output: Path | None, comm: Communicator, option: str = "output"
) -> Iterator[None]:
    """Be the only run that writes `output`, until the end of a `with` statement. Collective.

    Rank 0 takes the lock. Where a file system has no locks, a warning says so.

    Parameters
    ----------
    option
        The one that names the file, for messages.

    Raises
    ------
    ConfigError
        Another run writes it: which process, on which machine, since when; or no file can be made
        there.
    """
    if output is None:
        yield
        return
    held: list[int] = []

    def take() -> None:
        require_place(output, option)
        held.extend(_taken(output, option))
        if held:  # nobody else writes there now
            remove_drafts(output.parent, output.name)

    on_root(comm, take)
    try:
        yield
    finally:
        for lock in held:
            with suppress(OSError):  # while we hold it: nobody else has it open for long
                lock_path(output).unlink()
            os.close(lock)


def _taken(output: Path, option: str) -> list[int]:
    """The locked file, open; nothing where there are no locks."""
    path = lock_path(output)
    while True:
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(f"{output} cannot be made: {path}: {error.strerror}") from None
        _require_own(lock, path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return _without(error, lock, output, option)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), path.stat()):
                break
        os.close(lock)  # its holder removed it just now: another file has its name, or none
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    try:
        os.ftruncate(lock, 0)
        who = f"process {os.getpid()} on {socket.gethostname()} since {now}\n"
        os.pwrite(lock, who.encode(), 0)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        os.close(lock)
        raise OutputError(f"{output} cannot be made: {path}: {error.strerror}") from None
    return [lock]


def _require_own(lock: int, path: Path) -> None:
    """Refuse what nobody made as a lock: it would be written over."""
    stated = os.fstat(lock)
    if not stat.S_ISREG(stated.st_mode) or stated.st_nlink > 1:
        os.close(lock)
        raise ConfigError(f"{path} is no plain file with one name, so no lock: remove it")


def _without(error: OSError, lock: int, output: Path, option: str) -> list[int]:
    """Go on without a lock where there are none; else raise the error of one that is held."""
    try:
        if error.errno in NO_LOCKS:
            warn_of_no_locks(output, error.errno)
            with suppress(OSError):
                lock_path(output).unlink()
            return []
        if error.errno not in _HELD:
            raise OutputError(
                f"{output} cannot be locked: {error.strerror}; choose another {option}"
            )
        holder = os.pread(lock, _MOST_TEXT, 0).decode("utf-8", "replace").strip()
    finally:
        os.close(lock)
    raise ConfigError(
        f"{output} is being written by {holder or 'another run'}: wait until that has ended, or "
        f"choose another {opt(option)}"
    )


# ---------------------------------------------------------------- results written at the end


def require_new_file(path: Path, *, overwrite: bool) -> None:
    """Refuse, before anything is computed, a place where no file can be made, and a file.

    Raises
    ------
    ConfigError
        The name is that of a table or a picture, no file can be made there, or one is there.
    OutputError
        The disk is full.
    """
    require_result_name(path)
    require_place(path)
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists: give {replacing(path)} or another {opt('output')}")
    free = Disk().free_bytes(path.parent)
    if free < _LEAST_ROOM:
        raise OutputError(
            f"{path} cannot be written: {in_bytes(free)} are free there; free some space or choose "
            f"another {opt('output')}"
        )


@contextmanager
def writing_result(
    path: str | os.PathLike[str] | None, comm: Communicator, *, overwrite: bool = False
) -> Iterator[Callable[[Callable[[Path], object]], None]]:
    """Be the only one that writes a new result, until the end of a `with` statement. Collective.

    Gives a function that lets rank 0 write the file; it does nothing where `path` is None. What
    another program puts there meanwhile is kept, too.

    Raises
    ------
    ConfigError
        As `require_new_file` and `written_by_us`.
    """
    where = None if path is None else at_home(path)

    def on_file(action: Callable[[Path], object]) -> None:
        if where is not None:
            on_root(comm, lambda: bool(action(where)))

    with written_by_us(where, comm):
        on_file(lambda new: require_new_file(new, overwrite=overwrite))

        def write(save: Callable[[Path], object]) -> None:
            on_file(lambda new: require_new_file(new, overwrite=overwrite))
            on_file(save)

        yield write

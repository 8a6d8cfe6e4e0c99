"""Compiled kernels by content: the key is everything that decides the binary.

Entries are written under a random name and renamed, so ranks may race and a killed process leaves
nothing half-written under a real name.  Each entry ends with a digest of its bytes, so a file that
a power failure cut short is compiled again.  Ranks that need the same kernel at the same time wait
for the first, which compiles it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from tauslab.base.errors import OutputError, TauslabError
from tauslab.base.option_names import warn

# Raise when the format of entries or what they are compiled from changes in a way the key misses.
CACHE_VERSION = 1

# Called with True when a compiler starts and with False when it has ended, on whatever thread.
listeners: list[Callable[[bool], object]] = []

_ROOM = 1 << 20  # bytes
_LONGEST_WAIT = 300.0  # seconds, for another process that compiles the same
_writable: set[Path] = set()
_warned_of: set[Path] = set()  # caches that are not used, or of this machine alone
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_INCLUDED = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
CSRC = Path(__file__).parents[1] / "csrc"


def _chosen() -> str:
    return os.environ.get("TAUSLAB_CACHE_DIR", "")


def cache_directory() -> Path:
    """``$TAUSLAB_CACHE_DIR``, else the user's cache folder, else one under the temporary folder.

    It is made for this user alone, if it is not there.

    Raises
    ------
    OutputError
        It belongs to another user, or others may write there: we would run their code.
    """
    chosen = _chosen()
    if chosen:
        return _own(Path(chosen))
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".cache") / "tauslab"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError):  # the latter where neither HOME nor a list of users names one
        return _temporary_folder()
    return _own(folder) if os.access(folder, os.W_OK) else _temporary_folder()


def has_home() -> bool:
    """Return whether the user has a home folder that can be written."""
    try:
        return os.access(Path.home(), os.W_OK | os.X_OK)
    except RuntimeError:  # neither HOME nor a list of users names one
        return False


def _warn_once(folder: Path, text: str) -> None:
    if folder not in _warned_of:
        _warned_of.add(folder)
        warn(text)


def _temporary_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"tauslab-{os.getuid()}"
    if folder.is_symlink():  # anyone may have put it there
        raise _unusable(folder, "it is a link")
    made = _own(folder)
    _warn_once(
        made,
        f"the user's cache folder cannot be written: compiled kernels are kept in {made}, on this "
        "machine alone; set TAUSLAB_CACHE_DIR to a folder that all nodes share",
    )
    return made


def site_cache() -> Path | None:
    """``$TAUSLAB_SITE_CACHE``: kernels that a site compiled for all its users, only read here."""
    given = os.environ.get("TAUSLAB_SITE_CACHE", "")
    site = Path(given) if given else None
    if site is not None and not site.is_dir():
        _warn_once(site, f"TAUSLAB_SITE_CACHE={site} is not a folder: kernels are compiled instead")
        return None
    return site


def _of_site(key: str, suffix: str) -> Path | None:
    """Path of the entry `key` in the site's cache; None, with a warning, if it is not trusted."""
    site, owners = site_cache(), {0, os.getuid()}
    if site is None:
        return None
    try:
        path, there = _entry(_trusted(site, owners), key, suffix, owners)
    except OutputError:
        _warn_once(
            site,
            f"TAUSLAB_SITE_CACHE={site} is not used: it, or a folder in it, belongs to another "
            "user than root or you, or other users may write there, and their code would run",
        )
        return None
    return path if there else None


def _own(folder: Path) -> Path:
    """The folder, made if it is not there, which nobody else may write."""
    try:
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error.strerror) from None
    return _trusted(folder, {os.getuid()})


def _trusted(folder: Path, owners: set[int]) -> Path:
    """The folder, which belongs to one of `owners`, and which nobody else may write."""
    try:
        status = folder.stat()
    except OSError as error:
        raise _unusable(folder, error.strerror) from None
    if status.st_uid not in owners:
        raise _unusable(folder, "it belongs to another user, whose code would run")
    if status.st_mode & _OTHERS_WRITE:
        raise OutputError(
            f"compiled kernels cannot be kept in {folder}: other users may write there, and their "
            f"code would run; forbid it (chmod go-w {shlex.quote(str(folder))}), or set "
            "TAUSLAB_CACHE_DIR to a folder of your own"
        )
    return folder


def _unusable(folder: Path, reason: str | None) -> OutputError:
    return OutputError(
        f"compiled kernels cannot be kept in {folder}: {reason}; set TAUSLAB_CACHE_DIR to a "
        "folder of your own that can be written"
    )


def content_key(parts: Iterable[str]) -> str:
    """Digest of texts; every part is delimited, so moving text between parts changes it."""
    digest = hashlib.sha256(str(CACHE_VERSION).encode())
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()


@cache
def csrc_texts() -> MappingProxyType[str, str]:
    """Every kernel file and header by its path below `CSRC`, as ``#include`` names it.

    Read once: many small runs of a process would spend a third of their time so, and kernels go
    with the modules that were loaded, also where the package is replaced meanwhile.
    """
    files = sorted(p for p in CSRC.rglob("*") if p.suffix in (".h", ".cc"))
    return MappingProxyType(
        {path.relative_to(CSRC).as_posix(): path.read_text(encoding="utf-8") for path in files}
    )


@cache
def csrc_digest() -> str:
    """Digest of all of them: to read them anew takes small runs a millisecond each."""
    return content_key(f"{name}\n{text}" for name, text in sorted(csrc_texts().items()))


def with_headers(file: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The text of `file`, and of all that it includes: to write all headers takes 0.03 s."""
    result: dict[str, str] = {}
    left = [file]
    while left:
        name = left.pop()
        if name in texts and name not in result:
            result[name] = texts[name]
            left += _INCLUDED.findall(texts[name])
    return result


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write kernel files below `folder` under the names by which they include each other."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def require_space(folder: Path) -> None:
    """Write a file of about the size of a kernel, gone again at once; once in a process.

    Raises
    ------
    OSError
        The disk is full, a quota is used up, or the folder cannot be written.
    """
    if folder in _writable:
        return
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(os.urandom(_ROOM))  # which no file system makes smaller
        file.flush()
        os.fsync(file.fileno())
    _writable.add(folder)


def compiled(key: str, suffix: str, build: Callable[[Path], None]) -> tuple[Path, bool]:
    """Path of the entry `key`, and whether it was there.

    An entry of the site's cache comes first. `build` writes the binary to the path it is given.
    Where the user's cache folder has no space for it, as in a home over quota, the one under the
    temporary folder takes it.

    Raises
    ------
    OutputError
        The folder of the cache cannot be written.
    """
    path = in_cache(key, suffix)
    if path is not None:
        return path, True
    root = cache_directory()
    try:
        require_space(root)
    except OSError as error:
        if _chosen():
            raise _unusable(root, error.strerror or str(error)) from None
        root = _temporary_folder()
    return _compiled_in(root, key, suffix, build)


def in_cache(key: str, suffix: str) -> Path | None:
    """Path of the entry `key` in the site's or the user's cache; None if it is in neither."""
    path = _of_site(key, suffix)
    if path is not None:
        return path
    path, there = _entry(cache_directory(), key, suffix, {os.getuid()})
    return path if there else None


def _entry(root: Path, key: str, suffix: str, owners: set[int]) -> tuple[Path, bool]:
    """Path of an entry in a cache of `owners`, and whether it is there."""
    folder = root / key[:2]
    path = folder / f"{key}{suffix}"
    there = folder.is_dir() and _intact(
        _trusted(folder, owners) / path.name, path.with_suffix(".sha256")
    )
    return path, there


def _compiled_in(
    root: Path, key: str, suffix: str, build: Callable[[Path], None]
) -> tuple[Path, bool]:
    """`compiled`, of one cache."""
    path, there = _entry(root, key, suffix, {os.getuid()})
    if there:
        return path, True
    folder, check = path.parent, path.with_suffix(".sha256")
    try:
        # A build that fails leaves nothing: the entry's folder is made when there is one.
        with (
            _one_at_a_time(root / f"{key}.lock"),
            tempfile.TemporaryDirectory(dir=root, prefix="build-") as scratch,
        ):
            if _entry(root, key, suffix, {os.getuid()})[1]:
                return path, True
            fresh = Path(scratch) / path.name
            with _heard():
                build(fresh)
            digest = Path(scratch) / check.name
            text = hashlib.sha256(fresh.read_bytes()).hexdigest()
            digest.write_text(text, encoding="ascii")
            _own(folder)
            fresh.replace(path)
            digest.replace(check)
    except TauslabError:
        raise
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error)) from None
    return path, False


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Hold the lock `path`, which ends with the process.

    Where there are no locks, or a holder does not end, hold none: both compile the same.
    """
    with path.open("ab") as lock:
        end = time.monotonic() + _LONGEST_WAIT
        while time.monotonic() < end:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:
                break
            else:
                break
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)  # a fork may still have the file open


@contextlib.contextmanager
def _heard() -> Iterator[None]:
    reported = tuple(listeners)
    for listener in reported:
        listener(True)
    try:
        yield
    finally:
        for listener in reported:
            listener(False)


def _intact(path: Path, check: Path) -> bool:
    with contextlib.suppress(OSError):
        return check.read_text(encoding="ascii") == hashlib.sha256(path.read_bytes()).hexdigest()
    return False

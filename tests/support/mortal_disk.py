"""Stand-ins for the disk of a run that is killed, or of a machine that loses power."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path

import numpy as np

from tauslab.store.hdf5.disk import Disk


class Killed(BaseException):
    """The process is gone."""


def is_temporary(fd: int) -> bool:
    """Whether a file is being created, under its temporary name."""
    return Path(f"/proc/self/fd/{fd}").readlink().name.endswith("-tmp")


class MortalDisk(Disk):
    """Lets `lives` changes pass; the next one kills all ranks, `torn` if it is a write.

    Attributes
    ----------
    used
        Changes so far.
    writes
        Which of these were writes, from 1 on.
    """

    def __init__(self, lives: int = 1 << 40, *, torn: bool = False) -> None:
        self.lives, self.torn = lives, torn
        self.used = 0
        self.writes: list[int] = []
        self._lock = threading.Lock()

    def _last(self) -> bool:
        """Whether this change is the last, which may still do half of its work."""
        with self._lock:
            self.used += 1
            if self.used > self.lives + 1:
                raise Killed
            return self.used == self.lives + 1

    def _die(self) -> None:
        raise Killed

    def create(self, path: Path) -> None:
        if self._last():
            self._die()
        super().create(path)

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        if is_temporary(fd):
            return super().write(fd, data, offset)  # nothing reads it before it is renamed
        if self._last():
            if self.torn:
                super().write(fd, data[: len(data) // 2], offset)
            self._die()
        with self._lock:
            self.writes.append(self.used)
        return super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        if self._last():
            self._die()  # the kernel keeps what was written; see PowerLoss for when it does not

    def replace(self, old: Path, new: Path) -> None:
        if self._last():
            self._die()
        super().replace(old, new)

    def link(self, old: Path, new: Path) -> None:
        if self._last():
            self._die()
        super().link(old, new)

    def remove(self, path: Path) -> None:
        if self._last():
            self._die()
        super().remove(path)


class FullDisk(Disk):
    """Has room for `left` writes to files in place and `creations` writes to new ones."""

    def __init__(self, left: int = 1 << 40, creations: int = 1 << 40) -> None:
        self.left, self.creations = left, creations

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        if is_temporary(fd):
            self.creations -= 1
        else:
            self.left -= 1
        if min(self.left, self.creations) < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(fd, data, offset)


class SigKill(MortalDisk):
    """Kills this very process."""

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class PowerLoss(MortalDisk):
    """As the power goes, writes that were not synced may be lost: each one, in any order."""

    def __init__(self, lives: int = 1 << 40) -> None:
        super().__init__(lives)
        # By file: a descriptor of our own, and (offset, what was there) of every unsynced write.
        self._unsynced: dict[int, tuple[int, list[tuple[int, bytes]]]] = {}

    def write(self, fd: int, data: memoryview, offset: int) -> int:
        before = os.pread(fd, len(data), offset)
        written = super().write(fd, data, offset)
        with self._lock:
            key = os.fstat(fd).st_ino
            if key not in self._unsynced:
                self._unsynced[key] = (os.dup(fd), [])
            self._unsynced[key][1].append((offset, before[:written]))
        return written

    def sync(self, fd: int) -> None:
        super().sync(fd)
        with self._lock:
            self._forget(os.fstat(fd).st_ino)

    def lose(self, rng: np.random.Generator) -> int:
        """Undo some of the unsynced writes, at random; returns how many."""
        lost = 0
        for key, (fd, writes) in list(self._unsynced.items()):
            for offset, before in writes:
                if rng.random() < 0.5:
                    os.pwrite(fd, before, offset)
                    lost += 1
            self._forget(key)
        return lost

    def _forget(self, key: int) -> None:
        if key in self._unsynced:
            os.close(self._unsynced.pop(key)[0])

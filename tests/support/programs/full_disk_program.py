"""The command with a disk that is full when ``out.h5`` is to be replaced: the end of a run."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from tauslab.cli.main import main
from tauslab.store.hdf5.disk import Disk


class FullDisk(Disk):
    """Has no room for the finished file."""

    def replace(self, old: Path, new: Path) -> None:
        """Rename, or fail as a full disk does."""
        if new.name == "out.h5" and new.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        old.replace(new)


if __name__ == "__main__":
    Disk.replace = FullDisk.replace
    sys.exit(main(sys.argv[1:]))

"""HDF5 files on file systems that have no locks, as some of NFS and Lustre."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tauslab.base.option_names import warn

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

# What systems answer where a file system has no locks.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_told: set[int] = set()  # file systems, by the number of their device


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
        tell_of_no_locks(path, error.errno)
        return opened


def tell_of_no_locks(path: Path, number: int) -> None:
    """Warn once that files there are used without locks; `number` is what the system answered."""
    device = path.absolute().parent.stat().st_dev
    if device not in _told:
        _told.add(device)
        warn(
            f"{path}: this file system has no locks ({os.strerror(number)}), so nothing keeps two "
            "programs from changing a file there at once"
        )

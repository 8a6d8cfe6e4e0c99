"""A file about a rare event: HDF5, with names for xarray."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tauslab._version import __version__
from tauslab.model.arrays import Array
from tauslab.model.errors import ConfigError, InputFileError
from tauslab.model.files.damaged import reading
from tauslab.model.files.seals import FORMAT, FORMAT_VERSION, SealedFile, seal
from tauslab.model.files.text import put_attributes
from tauslab.runner.options.values.checks import require_result_name
from tauslab.runner.output.checking.opening import (
    ended_by_signals,
    kind_of,
    known_attributes,
    open_hdf5,
)
from tauslab.runner.output.hdf5.buffers import Hdf5OnDisk
from tauslab.runner.output.hdf5.disk import Disk, publish
from tauslab.runner.output.targets import require_place

WEIGHTED, SPLITTING = "weighted_ensemble", "multilevel_splitting"
METHODS = (WEIGHTED, SPLITTING)
# Axes of each dataset; an axis is a dataset too, and the first ones are always there.
AXES = {"run": "run", "estimate": "run", "lost": "run", "time": "time", "reached": "run time"}
_ALWAYS = ("run", "estimate", "lost")


def require_new_file(path: Path, *, overwrite: bool) -> None:
    """Refuse the name of a table or a picture, a place where no file can be made, and a file.

    Raises
    ------
    ConfigError
        Says which.
    """
    require_result_name(path)
    require_place(path)
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists: give --overwrite or another -o")


def write_rare(path: Path, attributes: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a file under a temporary name and rename it.

    Raises
    ------
    OutputError
        It cannot be written.
    """
    disk = Disk()
    own = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "tauslab_version": __version__,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }

    def build(temporary: Path) -> None:
        with Hdf5OnDisk(temporary, disk, libver=("v110", "v110")) as opened:
            file = opened.file
            put_attributes(file, own | dict(attributes))
            file["progress/complete"] = np.uint8(1)
            for name, array in arrays.items():
                file[name] = array
            for name in arrays:
                if AXES[name] == name:
                    file[name].make_scale(name)
            for name in arrays:
                for axis, scale in enumerate(AXES[name].split()):
                    if scale != name:
                        file[name].dims[axis].attach_scale(file[scale])
            seal(file)

    publish(path, disk, build)


def read_rare(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Attributes and arrays of a file, all of which agree with their checksums.

    Raises
    ------
    InputFileError
        It is missing, damaged or of another kind.
    """
    if kind_of(path) not in METHODS:
        if not path.is_file():
            raise InputFileError(f"{path}: there is no such file")
        raise InputFileError(f"{path} holds no rare event: tauslab rare makes such a file")
    with reading(path, InputFileError), open_hdf5(path) as file:
        with ended_by_signals():
            found = known_attributes(path, file, InputFileError)
            sealed = SealedFile(path, file)
            for name in sealed.names:
                sealed.require(name)
        for name in _ALWAYS:
            if name not in sealed.names:
                raise sealed.damaged(f"it has no /{name}")
        return found, {name: file[name][()] for name in AXES if name in sealed.names}

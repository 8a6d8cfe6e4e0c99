"""Files of arrays and settings alone, such as of rare events: HDF5, with names for xarray."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab._version import BITS_VERSION, __version__
from tauslab.model.arrays import Array
from tauslab.model.errors import ConfigError, InputFileError, OutputError
from tauslab.model.files.damaged import reading
from tauslab.model.files.seals import FORMAT, FORMAT_VERSION, SealedFile
from tauslab.model.host_memory import in_bytes
from tauslab.model.option_names import opt
from tauslab.runner.options.values.result_name import require_result_name
from tauslab.runner.output.checking.opening import (
    FILTER,
    POPULATION,
    SENSITIVITY,
    SPLITTING,
    WEIGHTED,
    ended_by_signals,
    kind_of,
    known_attributes,
    open_hdf5,
)
from tauslab.runner.output.format.versions import BITS
from tauslab.runner.output.hdf5.disk import Disk
from tauslab.runner.output.locks import written_by_us
from tauslab.runner.output.state import write_sealed
from tauslab.runner.output.targets import require_place
from tauslab.runner.ranks.mpi import Communicator
from tauslab.runner.ranks.on_root import on_root
from tauslab.runner.results.columns import texts
from tauslab.runner.results.digest import begin_digest, canonical_bytes, text_digest

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

_RARE = {"run": "run", "estimate": "run", "lost": "run", "time": "time", "reached": "run time"}
_FILTERED = {
    "time": "time", "species": "species", "log_likelihood_term": "time", "mean": "time species",
    "sd": "time species", "effective_size": "time",
}  # fmt: skip
_DERIVED = {
    "time": "time", "parameter": "parameter", "output": "output",
    "value": "parameter time output", "standard_error": "parameter time output",
    "informative": "parameter time output",
    "mean": "time output", "sides_variance": "parameter time output", "valid": "parameter time",
    "parameter_value": "parameter", "low": "parameter", "high": "parameter",
}  # fmt: skip
_GROWN = {
    "time": "time", "name": "name", "mean": "time name", "variance": "time name", "cells": "time",
    "log_size": "time", "log_pairs": "time", "values": "row name", "cell": "row",
    "mother": "row", "founder": "row",
    "generation": "row", "age": "row", "row": "row", "species": "species", "division": "division",
    "division_cell": "division", "division_mother": "division", "division_founder": "division",
    "division_generation": "division", "born": "division", "divided": "division",
    "at_birth": "division species", "at_division": "division species", "log_weight": "division",
}  # fmt: skip
# Axes of each dataset of a method; an axis is a dataset too.
AXES = {
    WEIGHTED: _RARE, SPLITTING: _RARE, FILTER: _FILTERED, SENSITIVITY: _DERIVED, POPULATION: _GROWN,
}  # fmt: skip
_LEAST_ROOM = 1 << 18  # bytes; a full disk is found before all is computed, not after
_OPTIONAL = {
    WEIGHTED: ("time", "reached"), SPLITTING: ("time", "reached"),
    SENSITIVITY: ("informative",), POPULATION: ("log_pairs",),  # of later versions
}  # fmt: skip


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
        raise ConfigError(f"{path} exists: give {opt('overwrite')} or another {opt('output')}")
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
    where = None if path is None else Path(path)

    def on_file(action: Callable[[Path], object]) -> None:
        if where is not None:
            on_root(comm, lambda: bool(action(where)))

    with written_by_us(where, comm):
        on_file(lambda new: require_new_file(new, overwrite=overwrite))

        def write(save: Callable[[Path], object]) -> None:
            on_file(lambda new: require_new_file(new, overwrite=overwrite))
            on_file(save)

        yield write


def write_arrays(path: Path, attributes: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a file under a temporary name and rename it.

    Parameters
    ----------
    attributes
        Of the root; ``method`` is one of `AXES`.

    Raises
    ------
    ConfigError
        The name is that of a table or a picture.
    OutputError
        It cannot be written.
    """
    require_result_name(path)
    axes = AXES[attributes["method"]]
    own = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "tauslab_version": __version__,
        BITS: BITS_VERSION,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }

    def attach(file: h5py.File) -> None:
        for name in arrays:
            if axes[name] == name:
                file[name].make_scale(name)
        for name in arrays:
            for axis, scale in enumerate(axes[name].split()):
                if scale != name:
                    file[name].dims[axis].attach_scale(file[scale])

    contents: dict[str, npt.ArrayLike] = {"progress/complete": np.uint8(1), **arrays}
    write_sealed(path, own | dict(attributes), contents, attach)


def read_arrays(path: Path, *methods: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Attributes and arrays of a file of one of `methods`; all agree with their checksums.

    Raises
    ------
    InputFileError
        It is missing, damaged or of another kind.
    """
    method = kind_of(path)
    if method not in methods:
        if not path.is_file():
            raise InputFileError(f"{path}: there is no such file")
        raise InputFileError(f"{path} holds no result of {' or '.join(methods)}")
    with reading(path, InputFileError), open_hdf5(path) as file:
        with ended_by_signals():
            found = known_attributes(path, file, InputFileError)
            sealed = SealedFile(path, file)
            for name in sealed.names:
                sealed.require(name)
        for name in AXES[method]:
            if name not in sealed.names and name not in _OPTIONAL.get(method, ()):
                raise sealed.damaged(f"it has no /{name}")
        arrays = {name: _values(file[name]) for name in AXES[method] if name in sealed.names}
    return found, arrays


def _values(dataset: h5py.Dataset) -> Array:
    return np.array(texts(dataset)) if dataset.dtype.kind == "S" else dataset[()]


def digest_of(arrays: Mapping[str, Array]) -> list[tuple[str, str]]:
    """Name and SHA-256 of every dataset."""
    lines = []
    for name, array in arrays.items():
        if array.dtype.kind == "U":
            lines.append((name, text_digest(name, array.tolist())))
            continue
        sha = begin_digest(name, array.dtype, array.shape)
        sha.update(canonical_bytes(array))
        lines.append((name, sha.hexdigest()))
    return lines

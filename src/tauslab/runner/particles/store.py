"""Particles in an HDF5 file, from which an ensemble goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.model.arrays import Array, FloatArray
from tauslab.model.errors import InputFileError, OutputError
from tauslab.model.files.damaged import reading
from tauslab.model.lattice.file import write_model_group
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.canonical import canonical_text
from tauslab.model.network.network import Network
from tauslab.model.readers.network_toml import read_toml_text

if TYPE_CHECKING:
    import h5py

_FORMAT = "tauslab particles"
_OF_ALL = ("model", "species", "status", "log_weights", "values", "initial", "more")


@dataclass(frozen=True)
class Stored:
    """All that an ensemble goes on from; `rows` are values by name, one or one per particle.

    `state` holds arrays as `Motion.stored` gives them; `settings` are options of the method that
    have not their defaults, by field. `laws` are those of initial counts by species.
    """

    state: Mapping[str, Array]
    status: Array
    log_weights: FloatArray
    rows: Mapping[str, float | FloatArray]
    laws: Mapping[str, FloatArray]
    time: float
    round: int
    resamplings: int
    seed: int
    method: str
    settings: Mapping[str, Any]
    max_steps: int


def write_stored(
    path: Path, model: Network | Lattice, stored: Stored, more: Mapping[str, npt.ArrayLike]
) -> None:
    """Write a new file beside `path`, and put it in its place when it is complete.

    `more` are arrays of those who keep something beside the particles.

    Raises
    ------
    OutputError
        It cannot be written.
    """

    def fill(file: h5py.File) -> None:
        file.attrs["format"] = _FORMAT
        for name in ("time", "method"):
            file.attrs[name] = getattr(stored, name)
        file.attrs["settings"] = json.dumps(dict(stored.settings), sort_keys=True)
        for name in ("round", "resamplings", "seed", "max_steps"):
            file.attrs[name] = np.uint64(getattr(stored, name))
        if isinstance(model, Network):
            file["model/name"], file["model/canonical"] = model.name, canonical_text(model)
        else:
            write_model_group(file.create_group("model"), model)
        file["species"] = list(model.species)
        for name in ("status", "log_weights"):
            file[name] = getattr(stored, name)
        for name, array in stored.state.items():
            file[name] = array
        values = file.create_group("values")
        for name, row in stored.rows.items():
            values[name] = row
        for name, law in stored.laws.items():
            file[f"initial/{name}"] = law
        for name, extra in more.items():
            file[f"more/{name}"] = extra

    write_file(path, fill)


def write_file(path: Path, fill: Callable[[h5py.File], None]) -> None:
    """Write a new HDF5 file beside `path`, and put it in its place when it is complete.

    Raises
    ------
    OutputError
        It cannot be written.
    """
    import h5py  # not at the top: an h5py that was built with MPI starts MPI

    if path.exists() and not path.is_file():
        raise OutputError(f"{path} cannot be written: it is there, and no plain file")
    draft = path.with_name(path.name + ".writing")
    try:
        with h5py.File(draft, "w") as file:
            fill(file)
            file.attrs["complete"] = 1
        with draft.open("rb") as done:
            os.fsync(done.fileno())
        draft.replace(path)
    except (OSError, RuntimeError) as error:  # as HDF5 ends on a full disk
        draft.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written: {error}") from None


def read_stored(path: Path) -> tuple[Network | Lattice, Stored]:
    """The model and all else of a file.

    Raises
    ------
    InputFileError
        It is missing, damaged or of another kind.
    """
    import h5py  # as above

    if not path.is_file():
        raise InputFileError(f"{path}: no such file")
    try:
        opened = h5py.File(path, "r")
    except OSError:
        raise InputFileError(f"{path} is not an HDF5 file, or is damaged") from None
    with opened as file, reading(path, InputFileError):
        if file.attrs.get("format") != _FORMAT or "complete" not in file.attrs:
            raise InputFileError(f"{path} holds no particles: ts.Ensemble.save writes such a file")
        model = _model(path, file)
        stored = Stored(
            state=_arrays(file), status=file["status"][()],
            log_weights=file["log_weights"][()],
            rows={k: v[()] if v.ndim else float(v[()]) for k, v in file["values"].items()},
            laws={name: law[()] for name, law in file.get("initial", {}).items()},
            time=float(file.attrs["time"]), round=int(file.attrs["round"]),
            resamplings=int(file.attrs["resamplings"]), seed=int(file.attrs["seed"]),
            method=str(file.attrs["method"]), settings=_settings(file.attrs),
            max_steps=int(file.attrs["max_steps"]),
        )  # fmt: skip
    n = len(stored.status)
    if not (n and stored.status.ndim == 1 and stored.log_weights.shape == (n,)):
        raise InputFileError(f"{path} is damaged: its arrays do not belong together")
    return model, stored


def _model(path: Path, file: h5py.File) -> Network | Lattice:
    if "model/sites" in file:
        from tauslab.model.readers.lattice_hdf5 import read_lattice_file

        return read_lattice_file(path)
    text = file["model/canonical"][()].decode()
    return replace(read_toml_text(text, path), name=file["model/name"][()].decode())


def _arrays(file: h5py.File) -> dict[str, Array]:
    """Arrays of states: all but those that are of every file."""
    found: dict[str, Array] = {}

    def look(name: str, item: Any) -> None:
        if name.partition("/")[0] not in _OF_ALL and hasattr(item, "shape"):
            found[name] = item[()]

    file.visititems(look)
    return found


def _settings(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options of the method; of tau in older files `epsilon` alone."""
    if "settings" in attributes:
        found: dict[str, Any] = json.loads(attributes["settings"])
        return found
    return {"epsilon": float(attributes["epsilon"])} if attributes["method"] == "tau" else {}

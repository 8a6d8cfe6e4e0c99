"""Read a lattice model from HDF5, which every rank reads by slabs.

`tauslab.model.lattice.file` says what lies in the group ``/model`` of a model file or a result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.errors import ModelError
from tauslab.base.files.opening import open_h5, reading
from tauslab.base.files.seals import require_undamaged
from tauslab.formats.toml.lattice import StoredArrays, digest_of_sites, read_lattice_text
from tauslab.model.lattice.file import GROUP
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.parts import as_label, as_positions
from tauslab.model.lattice.site_map import FileSites


def read_lattice_file(path: str | Path) -> Lattice:
    """Read the lattice model in a file; its sites stay there until they are asked for.

    Raises
    ------
    ModelError
        The file is not HDF5, or its model is not whole.
    """
    path = Path(path)
    try:
        with open_h5(path) as file, reading(path):
            require_undamaged(path, file)
            if f"{GROUP}/sites" not in file or f"{GROUP}/canonical" not in file:
                raise ModelError(f"{path}: holds no lattice model, as /model/sites")
            return _read(path.absolute(), file[GROUP])
    except OSError as error:
        raise ModelError(f"{path}: cannot be read as HDF5: {error}") from None


def _read(path: Path, group: Any) -> Lattice:
    canonical = _text(path, group, "canonical")
    sites = _sites(path, group, digest_of_sites(canonical))
    folder = group.get("positions", ())
    positions = [
        as_positions(_dataset(path, group, f"positions/{i}")[...], sites.shape, f"{path}: {i}")
        for i in range(len(folder))
    ]
    lattice = read_lattice_text(canonical, path, StoredArrays(sites, positions))
    if lattice.shape != sites.shape:
        raise ModelError(f"{path}: sites are {list(sites.shape)}, the model {list(lattice.shape)}")
    name = _dataset(path, group, "source").attrs["name"]
    lattice.source_path = Path(as_label(name.decode() if isinstance(name, bytes) else name, "name"))
    lattice.source_text = _text(path, group, "source")
    lattice.name = lattice.source_path.stem
    return lattice


def _sites(path: Path, group: Any, sha256: str) -> FileSites:
    """The map of sites, whose planes are counted against `sites_per_plane` when they are read."""
    sites, counted = (_dataset(path, group, name) for name in ("sites", "sites_per_plane"))
    if len(sites.shape) != 3 or sites.dtype != np.uint8 or min(sites.shape) < 1:
        raise ModelError(
            f"{path}: /{GROUP}/sites is {sites.dtype} {list(sites.shape)}; uint8 [z, y, x] is "
            "expected"
        )
    z, y, x = sites.shape
    good = len(counted.shape) == 2 and counted.shape[0] == z and counted.shape[1] <= 256
    if not good or counted.dtype.kind not in "iu":
        raise ModelError(
            f"{path}: /{GROUP}/sites_per_plane is {counted.dtype} {list(counted.shape)}; whole "
            f"numbers [{z}, type] are expected"
        )
    per_plane = np.zeros((z, 256), np.int64)
    per_plane[:, : counted.shape[1]] = counted[...]
    if per_plane.min() < 0 or per_plane.max() > y * x or (per_plane.sum(axis=1) != y * x).any():
        raise ModelError(f"{path}: /{GROUP}/sites_per_plane does not sum to {y * x} sites a plane")
    return FileSites(path, f"{GROUP}/sites", (z, y, x), sha256, per_plane)


def _dataset(path: Path, group: Any, name: str) -> Any:
    """A data set that the format has, in the file itself."""
    import h5py

    result = group.get(name)
    if not isinstance(result, h5py.Dataset):
        raise ModelError(f"{path}: its model is not whole: there is no /{GROUP}/{name}")
    if result.external or result.is_virtual:
        raise ModelError(f"{path}: /{GROUP}/{name} lies in another file, which is not allowed")
    return result


def _text(path: Path, group: Any, name: str) -> str:
    value = _dataset(path, group, name)[()]
    text = value.decode() if isinstance(value, bytes) else str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ModelError(f"{path}: /{GROUP}/{name} is not UTF-8") from None
    return text

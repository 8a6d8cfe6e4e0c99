"""Site types from a volume of labels, such as a segmented tomogram."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError, ModelError
from tauslab.model.lattice import Lattice

_LIBRARIES = {
    ".tif": "tifffile",
    ".tiff": "tifffile",
    ".mrc": "mrcfile",
    ".map": "mrcfile",
    ".rec": "mrcfile",
    ".zarr": "zarr",
}
_SUFFIXES = (".npy", *_LIBRARIES)


def read_labels(path: str | Path, component: str | None = None) -> npt.NDArray[Any]:
    """Read a volume of labels ``[z, y, x]``: NumPy, TIFF stack, MRC or zarr, by its suffix.

    Parameters
    ----------
    path
        ``.npy``, ``.tif``, ``.tiff``, ``.mrc``, ``.map``, ``.rec`` or ``.zarr``.
    component
        Array in a zarr group.

    Raises
    ------
    ModelError
        The file cannot be read, or is not a volume of whole numbers.
    ConfigError
        A library is missing; it is named.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise ModelError(f"{path}: label volumes are one of {', '.join(_SUFFIXES)}")
    if not path.exists():
        raise ModelError(f"{path}: cannot be read: there is no such file")
    library = _library(_LIBRARIES[suffix]) if suffix in _LIBRARIES else None
    try:
        volume = _read(path, library, component)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from None
    if volume.ndim != 3:
        raise ModelError(f"{path}: has {volume.ndim} axes; a volume has three, z, y, x")
    if volume.dtype.kind == "f" and np.array_equal(volume, np.round(volume)):
        volume = volume.astype(np.int64)
    if volume.dtype.kind not in "iub":
        raise ModelError(f"{path}: holds {volume.dtype}; labels are whole numbers")
    return volume


def _read(path: Path, library: Any, component: str | None) -> npt.NDArray[Any]:
    if library is None:
        return np.asarray(np.load(path, allow_pickle=False))
    if library.__name__ == "tifffile":
        return np.asarray(library.imread(path))
    if library.__name__ == "zarr":
        opened = library.open(str(path), mode="r")
        found = opened[component] if component is not None else opened
        return np.asarray(found[...])
    with library.open(path, permissive=True) as file:
        return np.array(file.data)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(
            f"reading this kind of label volume needs {name}: pip install tauslab[labels]"
        ) from None


def paint_labels(lattice: Lattice, volume: npt.NDArray[Any], site_types: Mapping[int, str]) -> None:
    """Give sites their types by label; types that the lattice does not have are added.

    Parameters
    ----------
    volume
        Labels ``[z, y, x]``, of the lattice's shape, as `read_labels` gives them.
    site_types
        Site type of each label.

    Raises
    ------
    ModelError
        The volume has another shape than the lattice, or a label that `site_types` lacks.
    """
    if volume.shape != lattice.shape:
        raise ModelError(
            f"labels have the shape {list(volume.shape)}; the lattice has {list(lattice.shape)}"
        )
    found = [int(label) for label in np.unique(volume)]
    for label in found:
        if label not in site_types:
            raise ModelError(
                f"label {label} has no site type; labels with one: "
                f"{', '.join(map(str, sorted(site_types)))}"
            )
    for name in site_types.values():
        if name not in lattice.site_types:
            lattice.add_site_type(name)
    for label in found:
        lattice.paint(site_types[label], volume == label)

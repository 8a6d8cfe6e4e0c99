"""Site types from a volume of labels, such as a segmented tomogram."""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, FloatArray, IntArray, doubles
from tauslab.base.errors import ConfigError, ModelError, reason_of
from tauslab.base.files.extras import installing
from tauslab.base.files.opening import at_home
from tauslab.base.host import in_bytes, require_memory
from tauslab.base.option_names import warn
from tauslab.model.geometry.shapes import Grid, require_grid
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.parts import short
from tauslab.model.names import require_mapping

_LIBRARIES = {
    ".tif": "tifffile", ".tiff": "tifffile", ".mrc": "mrcfile", ".map": "mrcfile",
    ".rec": "mrcfile", ".zarr": "zarr",
}  # fmt: skip
_LARGEST = 2.0**53  # of labels stored as doubles
_MOST_SAID = 200  # characters
_MOST_RATIO, _SMALL = 20_000, 16 << 20  # of what is compressed; bytes that any file may hold
_SUFFIXES = (".npy", *_LIBRARIES)
_UNITS = {
    "nm": 1e-9, "um": 1e-6, "\\u00B5m": 1e-6, "\u00b5m": 1e-6, "\u03bcm": 1e-6,
    "micron": 1e-6, "microns": 1e-6, "mm": 1e-3,
}  # fmt: skip


def read_labels(path: str | Path, component: str | None = None, axes: str = "zyx") -> Array:
    """Read a volume of labels ``[z, y, x]``: NumPy, TIFF stack, MRC or zarr, by its suffix.

    Parameters
    ----------
    path
        ``.npy``, ``.tif``, ``.tiff``, ``.mrc``, ``.map``, ``.rec`` or ``.zarr``.
    component
        Array in a zarr group.
    axes
        Order of the axes in the file, such as ``xyz``; they are turned into z, y, x.

    Raises
    ------
    ModelError
        The file cannot be read, is not a volume of whole numbers, or `axes` are not x, y and z.
    ConfigError
        A library is missing; it is named.
    """
    path = at_home(path)
    suffix = path.suffix.lower()
    if not isinstance(axes, str) or sorted(axes) != ["x", "y", "z"]:
        raise ModelError(f"axes {axes!r}: the letters x, y and z in the order of the file's axes")
    if suffix not in _SUFFIXES:
        raise ModelError(f"{path}: label volumes are one of {', '.join(_SUFFIXES)}")
    if not path.exists():
        raise ModelError(f"{path}: cannot be read: there is no such file")
    library = _library(_LIBRARIES[suffix]) if suffix in _LIBRARIES else None
    try:
        with _unlogged() as logged:
            volume = _read(path, library, component)
    except ModelError:
        raise
    except Exception as error:  # noqa: BLE001 - each library has its own, also for damaged files
        raise ModelError(f"{path}: cannot be read: {_one_line(reason_of(error))}") from None
    if logged:
        warn(f"{path}: tifffile says: {_one_line(logged[0])}")
    if volume.ndim != 3:
        raise ModelError(f"{path}: has {volume.ndim} axes; a volume has three, z, y, x")
    if not volume.size:
        raise ModelError(f"{path}: holds no voxels: its shape is {list(volume.shape)}")
    if volume.dtype.kind == "f":
        volume = _whole_numbers(path, volume)
    if volume.dtype.kind not in "iub":
        raise ModelError(f"{path}: holds {volume.dtype}; labels are whole numbers")
    return volume.transpose([axes.index(axis) for axis in "zyx"])


def _whole_numbers(path: Path, volume: Array) -> IntArray:
    """Labels that a program stored as floats."""
    with np.errstate(invalid="ignore", over="ignore"):
        whole = (volume == np.round(volume)) & (np.abs(volume) <= _LARGEST)
    if not whole.all():
        wrong = volume[~whole][0]
        raise ModelError(
            f"{path}: holds {volume.dtype}, such as {float(wrong):g}; labels are whole numbers, up "
            f"to {_LARGEST:g} either way"
        )
    return volume.astype(np.int64)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return (line if line.isprintable() else ascii(line)[1:-1])[:_MOST_SAID]


@contextlib.contextmanager
def _unlogged() -> Iterator[list[str]]:
    """Collect what tifffile logs about damage, in place of lines on the standard error.

    What a library uses of NumPy that is deprecated is no matter of who reads a file.
    """
    logged: list[str] = []
    logger = logging.getLogger("tifffile")
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield logged
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def _read(path: Path, library: Any, component: str | None) -> Array:
    if library is None:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)  # its size is that of the file
        require_memory(mapped.nbytes, f"{path}: {list(mapped.shape)}")
        return np.array(mapped)
    if library.__name__ == "tifffile":
        with library.TiffFile(path) as file:
            if not file.series:
                raise ValueError("it holds no images")
            first = file.series[0]
            size = math.prod(first.shape) * np.dtype(first.dtype).itemsize
            require_memory(size, f"{path}: {list(first.shape)}")
            if size > _MOST_RATIO * path.stat().st_size + _SMALL:
                raise ValueError(f"its header claims {in_bytes(size)}, which cannot be in it")
        return np.asarray(library.imread(path))
    if library.__name__ == "zarr":
        opened = library.open(str(path), mode="r")
        result = opened[component] if component is not None else opened
        if not hasattr(result, "shape"):
            names = ", ".join(sorted(name for name, _ in result.arrays())) or "none"
            raise ValueError(f"it is a group of arrays; component names one, of {names}")
        require_memory(
            math.prod(result.shape) * np.dtype(result.dtype).itemsize,
            f"{path}: {list(result.shape)}",
        )
        return np.asarray(result[...])
    with library.open(path, permissive=True) as file:
        if file.data is None:
            raise ValueError("it holds no voxels")
        return np.array(file.data)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(
            f"reading this kind of label volume needs {name}: {installing(name)}"
        ) from None


def stored_voxel(path: str | Path) -> tuple[float, float, float] | None:
    """Edges of a voxel along z, y and x in metres that an MRC file or a stack of ImageJ states."""
    try:
        with _unlogged():
            edges = _stored_edges(Path(path))
    except ConfigError:
        raise
    except Exception:  # noqa: BLE001 - a header that cannot be read states nothing
        return None
    # 1 angstrom: not set
    known = len(edges) == 3 and np.isfinite(edges).all() and min(edges) > 0
    known = known and edges != [1e-10] * 3
    return (edges[0], edges[1], edges[2]) if known else None


def _stored_edges(path: Path) -> list[float]:
    library = _LIBRARIES.get(path.suffix.lower())
    if library == "mrcfile":
        with _library(library).open(path, permissive=True, header_only=True) as file:
            return [float(file.voxel_size[axis]) * 1e-10 for axis in "zyx"]
    if library == "tifffile":
        with _library(library).TiffFile(path) as file:
            return _imagej_voxel(file)
    return []


def _imagej_voxel(file: Any) -> list[float]:
    reported, tags = file.imagej_metadata or {}, file.pages[0].tags
    unit = _UNITS.get(str(reported.get("unit", "")).strip())
    if unit is None or not {"XResolution", "YResolution"} <= {tag.name for tag in tags}:
        return []
    pixels = [tags[f"{axis}Resolution"].value for axis in "YX"]  # pixels in so many units
    if not all(n and d for n, d in pixels):
        return []
    return [unit * float(reported.get("spacing", 0)), *(unit * d / n for n, d in pixels)]


def resample_labels(grid: Grid, volume: Array, voxel: float | Sequence[float]) -> Array:
    """Labels of sites from voxels of another size: each site gets the label at its centre.

    The first corners of lattice and volume coincide.

    Parameters
    ----------
    volume
        Labels ``[z, y, x]`` of voxels.
    voxel
        Edge of a voxel in metres, or its edges along z, y and x.

    Raises
    ------
    ModelError
        Labels and lattice differ in size by more than a voxel and a site.
    """
    require_grid(grid)
    try:
        edges = np.broadcast_to(doubles(voxel), (3,))
    except ValueError:
        edges = np.zeros(3)
    if not (np.isfinite(edges) & (edges > 0)).all():
        raise ModelError(f"voxel {short(voxel)}: one edge in metres, or three, above 0 are needed")
    _need_volume(volume)
    covered = edges * volume.shape
    if (abs(covered - np.multiply(grid.shape, grid.spacing)) > edges + grid.spacing).any():
        fits = [max(1, round(float(length / grid.spacing))) for length in covered]
        raise ModelError(
            f"labels cover {_micrometres(covered)} (z, y, x), the lattice "
            f"{_micrometres(np.multiply(grid.shape, grid.spacing))}: with this voxel and spacing "
            f"its shape is {fits}"
        )
    at = [
        np.minimum(((np.arange(n) + 0.5) * grid.spacing / edge).astype(np.int64), size - 1)
        for n, edge, size in zip(grid.shape, edges, volume.shape, strict=True)
    ]
    return volume[np.ix_(*at)]


def _micrometres(lengths: FloatArray) -> str:
    return " x ".join(f"{length * 1e6:.4g}" for length in lengths) + " um"


def _need_volume(volume: Array) -> None:
    if np.ndim(volume) != 3:
        raise ModelError(f"labels have {np.ndim(volume)} axes; a volume has three, z, y, x")


def paint_labels(lattice: Lattice, volume: Array, site_types: Mapping[int, str]) -> None:
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
    require_grid(lattice)
    require_mapping(site_types, "site_types", '{1: "membrane"}')
    if np.shape(volume) != lattice.shape:
        turned = sorted(np.shape(volume)) == sorted(lattice.shape)
        hint = ": axes say the order in the file" if turned else ": voxel takes other sizes to it"
        raise ModelError(
            f"labels have the shape {list(np.shape(volume))}; the lattice has "
            f"{list(lattice.shape)}{hint}"
        )
    result = [int(label) for label in np.unique(volume)]
    for label in result:
        if label not in site_types:
            raise ModelError(
                f"label {label} has no site type; labels with one: "
                f"{', '.join(map(str, sorted(site_types)))}"
            )
    for name in site_types.values():
        if name not in lattice.site_types:
            lattice.add_site_type(name)
    for label in result:
        lattice.paint(site_types[label], volume == label)

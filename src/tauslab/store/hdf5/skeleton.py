"""New HDF5 files, built in memory and then written by us.

HDF5 cannot recover from a failed write: its library state is damaged, and the process may crash at
exit. So HDF5 never writes to a disk. It lays a file out in memory, where the large arrays are
holes, and a full disk or a used-up quota shows as a plain error of our own writes. What is too
large for that is written by HDF5 through `buffers.Hdf5OnDisk`. Rows that lie in several files are
shown as one by virtual datasets.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.files.hdf5 import create_at, write_all
from tauslab.base.files.seals import seal
from tauslab.base.files.text import put_attributes, put_text
from tauslab.store.format.schema import STATUS, STATUS_VALUES, TEXT, DatasetSpec
from tauslab.store.hdf5.buffers import PAGE, SparseBuffer
from tauslab.store.hdf5.disk import Disk
from tauslab.store.hdf5.in_place import RawFile

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

_METADATA_BYTES = 1 << 20
_ALIGNED = 1 << 20
_FILL_BYTES = 8 << 20
# netCDF's name for a scale that is an axis without coordinates; the length follows.
_NO_COORDINATES = "This is a netCDF dimension but not a netCDF variable. {:10d}"


def build_file(
    path: Path, specs: Sequence[DatasetSpec], attributes: Mapping[str, Any], disk: Disk,
    extend: Callable[[h5py.File], None] | None = None, *, shared: bool = False,
    opened: Collection[str] = (),
) -> None:  # fmt: skip
    """Write a file with all its datasets and fill values into an empty file.

    Parameters
    ----------
    extend
        Adds more to the file, which may not be large.
    opened
        Names of datasets whose values are not sealed.
    shared
        Lay it out for many writers through HDF5: large arrays begin at whole mebibytes, and its
        format has no note of a writer in its head, which a killed one would leave there.

    Raises
    ------
    OSError
        There is not enough space, or writing failed.
    """
    import h5py

    disk.require_space(path.parent, sum(spec.n_bytes for spec in specs) + _METADATA_BYTES)
    image = SparseBuffer()
    # 1.10 is the first format with virtual datasets and with an index of fixed size for chunks.
    made: dict[str, Any] = {"libver": ("v110", "v110")}
    if shared:
        made = {"libver": ("v108", "v108"), "alignment_threshold": _ALIGNED}
        made["alignment_interval"] = _ALIGNED
    with h5py.File(image, "w", **made) as file:
        attach_scales({spec.name: create_dataset(file, spec) for spec in specs}, specs)
        put_attributes(file, attributes)
        if extend is not None:
            extend(file)
        seal_specs(file, specs, opened)
    _store(image, path, disk)
    _fill(path, [spec for spec in specs if spec.needs_filling], disk)


def _store(image: SparseBuffer, path: Path, disk: Disk) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(fd, image.size)
        for number, page in sorted(image.pages.items()):
            offset = number * PAGE
            view = memoryview(page)[: max(0, image.size - offset)]
            while len(view):
                written = disk.write(fd, view, offset)
                view, offset = view[written:], offset + written
    finally:
        os.close(fd)


def _fill(path: Path, specs: Sequence[DatasetSpec], disk: Disk) -> None:
    """Write the fill values, once and in order; where these are zero, a hole is as good."""
    with closing(RawFile(path, [spec.name for spec in specs], disk)) as file:
        for spec in specs:
            dtype = hdf5_type(spec)
            cells = np.full(min(spec.n_bytes, _FILL_BYTES) // dtype.itemsize, spec.fill, dtype)
            for start in range(0, spec.n_bytes, _FILL_BYTES):
                rest = (spec.n_bytes - start) // dtype.itemsize
                file.write(spec.name, start, cells[:rest])


def create_dataset(file: h5py.File, spec: DatasetSpec) -> h5py.Dataset:
    """Create one dataset with its content, laid out at once."""
    if spec.dtype == TEXT:
        dataset = put_text(file, spec.name, spec.data)
    else:
        dataset = _create_numbers(file, spec)
        if spec.data is not None:
            write_all(dataset, np.asarray(spec.data, hdf5_type(spec)))
    put_attributes(dataset, dict(spec.attributes))
    return dataset


def seal_specs(file: h5py.File, specs: Sequence[DatasetSpec], opened: Collection[str] = ()) -> None:
    """Seal a file that has all its datasets; what has no content yet is sealed in the end."""
    free = {spec.name for spec in specs if spec.opened or not spec.allocated}
    empty = {spec.name for spec in specs if spec.data is None} - free
    seal(file, {*free, *opened}, empty)


def hdf5_type(spec: DatasetSpec) -> np.dtype[Any]:
    """The numpy type, with what h5py needs to know of the enumeration."""
    import h5py

    if spec.dtype == STATUS:
        enumeration: np.dtype[Any] = h5py.enum_dtype(STATUS_VALUES, basetype="u1")
        return enumeration
    return np.dtype(spec.dtype)


def _create_numbers(file: h5py.File, spec: DatasetSpec) -> h5py.Dataset:
    from h5py import h5d, h5p

    dtype = hdf5_type(spec)
    settings = h5p.create(h5p.DATASET_CREATE)
    if dtype.kind != "S":
        settings.set_fill_value(np.array(spec.fill, dtype))
    if spec.allocated and not spec.compress:
        settings.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        settings.set_fill_time(h5d.FILL_TIME_NEVER)
    if spec.chunks is not None:
        settings.set_chunk(spec.chunks)
    if spec.compress:
        settings.set_shuffle()
        settings.set_deflate(spec.compress)
    return create_at(file, spec.name, dtype, spec.shape, settings)


def attach_scales(datasets: Mapping[str, Any], specs: Sequence[DatasetSpec]) -> None:
    """Mark the scales, and attach them to the axes of the other datasets, both by name."""
    for spec in specs:
        if spec.axes == (spec.name,):
            name = spec.name.rpartition("/")[2]
            bare = _NO_COORDINATES.format(spec.shape[0])
            datasets[spec.name].make_scale(name if spec.allocated else bare)
    for spec in specs:
        if spec.axes != (spec.name,):
            for index, axis in enumerate(spec.axes):
                datasets[spec.name].dims[index].attach_scale(datasets[axis])


# ---------------------------------------------------------------- views of other files

Box = tuple[tuple[int, ...], tuple[int, ...]]  # start and count along every axis


@dataclass(frozen=True)
class Mapped:
    """A box of the whole, and the box of a file's dataset that holds it."""

    file: str
    target: Box
    source: Box
    source_shape: tuple[int, ...]


def create_view(file: h5py.File, spec: DatasetSpec, fill: Any, mappings: Iterable[Mapped]) -> None:
    """A dataset whose boxes are of datasets of the same name in other files, and `fill` elsewhere.

    Through HDF5's own calls: of runs on many ranks there are thousands of boxes, and h5py's
    `VirtualLayout` takes most of a millisecond for each.
    """
    from h5py import h5d, h5p, h5s, h5t

    dtype = hdf5_type(spec)
    settings = h5p.create(h5p.DATASET_CREATE)
    settings.set_obj_track_times(False)
    settings.set_fill_value(np.array(fill, dtype))
    name = spec.name.encode()
    for mapping in mappings:
        if not math.prod(mapping.target[1]):
            continue
        target, source = h5s.create_simple(spec.shape), h5s.create_simple(mapping.source_shape)
        target.select_hyperslab(*mapping.target)
        source.select_hyperslab(*mapping.source)
        settings.set_virtual(target, mapping.file.encode(), name, source)
    folder, _, last = spec.name.rpartition("/")
    group, space = file.require_group(folder or "/"), h5s.create_simple(spec.shape)
    h5d.create(group.id, last.encode(), h5t.py_create(dtype, logical=True), space, settings)

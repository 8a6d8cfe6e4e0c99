"""Virtual datasets: rows that lie in several files, shown as those of one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.store.format.schema import DatasetSpec
from tauslab.store.hdf5.skeleton import hdf5_type

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

Box = tuple[tuple[int, ...], tuple[int, ...]]  # start and count along every axis


@dataclass(frozen=True)
class Mapped:
    """A box of the whole, and the box of a file's dataset that holds it."""

    file: str
    target: Box
    source: Box
    source_shape: tuple[int, ...]


def create_view(file: h5py.File, spec: DatasetSpec, fill: Any, mappings: Iterable[Mapped]) -> None:
    """A dataset whose boxes are those of datasets of the same name; elsewhere it is `fill`.

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

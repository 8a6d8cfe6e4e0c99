"""Datasets and attributes by HDF5's own calls: small files are written and read in half the time.

h5py's objects look up a file's mode, groups and types anew for every dataset and attribute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.arrays import Array

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI


def stored_at(group: h5py.Group, name: str) -> Any:
    """As ``group[name]``; what it gives is for reading."""
    import h5py

    result = h5py.h5o.open(group.id, name.encode())
    if isinstance(result, h5py.h5d.DatasetID):
        return h5py.Dataset(result, readonly=True)
    return h5py.Group(result) if isinstance(result, h5py.h5g.GroupID) else result


def create_at(
    group: h5py.Group, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], settings: Any = None
) -> h5py.Dataset:
    """Create a dataset, and the groups above it; `settings` are those of HDF5 for its creation."""
    import h5py
    from h5py import h5p, h5s

    if settings is None:
        settings = h5p.create(h5p.DATASET_CREATE)
    settings.set_obj_track_times(False)
    above = h5p.create(h5p.LINK_CREATE)
    above.set_create_intermediate_group(True)
    space = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
    kind = h5py.h5t.py_create(dtype, logical=True)
    made = h5py.h5d.create(group.id, name.encode(), kind, space, settings, above)
    return h5py.Dataset(made)


def write_all(dataset: h5py.Dataset, values: Array) -> None:
    """Write all values of a dataset, broadcast to its shape, from a type of the same bits."""
    from h5py import h5s

    whole = np.ascontiguousarray(np.broadcast_to(values, dataset.shape))
    dataset.id.write(h5s.ALL, h5s.ALL, whole, dataset.id.get_type())


def put_attribute(target: h5py.Group | h5py.Dataset, name: str, value: Array) -> None:
    """Give a group or a dataset an attribute, in place of one of that name."""
    from h5py import h5a, h5s, h5t

    key, kind = name.encode(), h5t.py_create(value.dtype, logical=True)
    if h5a.exists(target.id, key):
        h5a.delete(target.id, key)
    space = h5s.create_simple(value.shape) if value.shape else h5s.create(h5s.SCALAR)
    h5a.create(target.id, key, kind, space).write(value, kind)


def simple_attributes(group: h5py.Group) -> Mapping[str, Any]:
    """Attributes that are one number or one text of fixed length, as numpy's scalars.

    Others are None, and are not read.
    """
    from h5py import h5a

    names: list[bytes] = []
    h5a.iterate(group.id, names.append)
    result = {}
    for name in names:
        stored = h5a.open(group.id, name)
        dtype, value = stored.dtype, None
        if dtype.kind in "iufS" and stored.shape == ():
            value = np.zeros((), dtype)
            stored.read(value)
            value = value[()]
        result[name.decode()] = value
    return result

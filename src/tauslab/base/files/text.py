"""Text in HDF5 files, of fixed length: UTF-8, filled up with zero bytes.

HDF5 keeps text of variable length in a heap that has no checksum, and its library may go round in a
damaged heap without end.  Fixed lengths need no heap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array
from tauslab.base.files.hdf5 import create_at, put_attribute, write_all

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

ENCODING = ("_Encoding", "utf-8")  # by which xarray knows that bytes are text


def text_array(values: str | Sequence[str] | Array) -> npt.NDArray[np.bytes_]:
    """One text, or several, as an array of the type that a file has for them."""
    import h5py

    if isinstance(values, str):
        encoded: Any = values.encode()
        longest = len(encoded)
    else:
        encoded = [str(value).encode() for value in values]
        longest = max(map(len, encoded), default=0)
    return np.array(encoded, h5py.string_dtype("utf-8", max(1, longest)))


def put_text(group: h5py.Group, name: str, values: str | Sequence[str]) -> h5py.Dataset:
    """Create a dataset of one text, or of several."""
    data = text_array(values)
    dataset = create_at(group, name, data.dtype, data.shape)
    write_all(dataset, data)
    put_attributes(dataset, dict([ENCODING]))
    return dataset


def put_attributes(target: h5py.Group | h5py.Dataset, attributes: Mapping[str, Any]) -> None:
    """Give a group or a dataset attributes: numbers and texts."""
    for name, value in attributes.items():
        put_attribute(
            target, name, text_array(value) if isinstance(value, str) else np.array(value)
        )


def plain(value: Any) -> Any:
    """An attribute, as h5py gives it, as a Python value."""
    result = value.item() if isinstance(value, np.generic) else value
    return result.decode() if isinstance(result, bytes) else result

"""Compressed chunks, to and from a file as they are, while other threads use HDF5 too.

HDF5 serves one thread at a time. h5py holds a lock in every call but, before version 3.16, in these
two: a chunk that one thread wrote beside a call of another damaged HDF5's state.
"""

from __future__ import annotations

from collections.abc import Sequence

import h5py
from h5py._objects import phil  # h5py's lock; a thread may take it again


def write_chunk(dataset: h5py.Dataset, corner: Sequence[int], data: bytes) -> None:
    """Write the chunk whose first element is at `corner`; `data` is compressed."""
    with phil:
        dataset.id.write_direct_chunk(tuple(corner), data)


def read_chunk(dataset: h5py.Dataset, corner: Sequence[int]) -> bytes:
    """The chunk whose first element is at `corner`, as the file has it: compressed."""
    with phil:
        data: bytes = dataset.id.read_direct_chunk(tuple(corner))[1]
    return data

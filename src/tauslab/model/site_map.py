"""Which site type every site of a lattice has: in memory, or in a file that is read by slabs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

SiteArray = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]


class SiteMap(Protocol):
    """Site types ``[z, y, x]`` as numbers, a slab of planes at a time."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sites along z, y and x."""

    def planes(self, z0: int, z1: int) -> SiteArray:
        """Site types of planes z0 to z1 - 1, ``[z1 - z0, y, x]``; not to be written to."""

    @property
    def per_plane(self) -> IntArray:
        """Number of sites ``[z, 256]`` of each type in each plane."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the types in C order, as 64 hexadecimal digits."""


class ArraySites:
    """Site types in one array."""

    def __init__(self, array: SiteArray) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sites along z, y and x."""
        z, y, x = self.array.shape
        return z, y, x

    def planes(self, z0: int, z1: int) -> SiteArray:
        """Planes z0 to z1 - 1, as a view."""
        return self.array[z0:z1]

    @property
    def per_plane(self) -> IntArray:
        """Number of sites ``[z, 256]`` of each type in each plane; counted anew at each call."""
        return count_types(self.array)

    @property
    def sha256(self) -> str:
        """SHA-256 of the types in C order; computed anew at each call."""
        return hashlib.sha256(np.ascontiguousarray(self.array).tobytes()).hexdigest()


class FileSites:
    """Site types in the data set `name` of an HDF5 file; only planes that are asked for are read.

    The file is opened for each slab, so that an instance may be pickled and shared by ranks.
    """

    def __init__(
        self, path: Path, name: str, shape: tuple[int, int, int], sha256: str, per_plane: IntArray
    ) -> None:
        self.path = path
        self.name = name
        self.sha256 = sha256
        self.per_plane = per_plane
        self._shape = shape

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sites along z, y and x."""
        return self._shape

    def planes(self, z0: int, z1: int) -> SiteArray:
        """Planes z0 to z1 - 1, read from the file."""
        import h5py

        with h5py.File(self.path, "r") as file:
            return np.asarray(file[self.name][z0:z1], dtype=np.uint8)


def count_types(sites: SiteArray) -> IntArray:
    """Number of sites ``[z, 256]`` of each type in each plane of ``sites[z, y, x]``."""
    return np.stack([np.bincount(plane.ravel(), minlength=256) for plane in sites])

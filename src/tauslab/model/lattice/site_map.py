"""Site types of all sites of a lattice: in memory, or in a file that is read by slabs."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import IntArray
from tauslab.base.errors import ModelError
from tauslab.base.files.opening import open_h5, reading

SiteArray = npt.NDArray[np.uint8]
_PIECE = 1 << 20  # bytes that are hashed at a time
_LOOKED_FOR = 8  # types, the first, for each of which a plane is compared, which is fast


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
        return hashlib.sha256(np.ascontiguousarray(self.array).data).hexdigest()


class UniformSites:
    """One site type, number 0, everywhere; takes memory only where planes are asked for."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self._shape = shape

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sites along z, y and x."""
        return self._shape

    def planes(self, z0: int, z1: int) -> SiteArray:
        """Planes z0 to z1 - 1, made anew."""
        return np.zeros((z1 - z0, *self._shape[1:]), np.uint8)

    @property
    def per_plane(self) -> IntArray:
        """Number of sites ``[z, 256]`` of each type in each plane."""
        counted = np.zeros((self._shape[0], 256), np.int64)
        counted[:, 0] = self._shape[1] * self._shape[2]
        return counted

    @property
    def sha256(self) -> str:
        """SHA-256 of the types in C order; computed anew at each call."""
        digest, left = hashlib.sha256(), math.prod(self._shape)
        zeros = bytes(min(left, _PIECE))
        while left:
            digest.update(zeros[:left])
            left -= min(left, len(zeros))
        return digest.hexdigest()


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
        with reading(self.path), open_h5(self.path) as file:
            planes = np.asarray(file[self.name][z0:z1], dtype=np.uint8)
        if len(planes) and (count_types(planes) != self.per_plane[z0:z1]).any():
            raise ModelError(
                f"{self.path}: its sites are not as many of each type as it says: it is damaged"
            )
        return planes


def count_types(sites: SiteArray) -> IntArray:
    """Number of sites ``[z, 256]`` of each type in each plane of ``sites[z, y, x]``."""
    counts = np.zeros((len(sites), 256), np.int64)
    for row, plane in zip(counts, sites, strict=True):
        for site_type in range(_LOOKED_FOR):
            row[site_type] = np.count_nonzero(plane == site_type)
            if row.sum() == plane.size:
                break
        else:
            row[:] = np.bincount(plane.ravel(), minlength=256)
    return counts

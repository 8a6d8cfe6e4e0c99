"""Lattice frames for other programs: VTKHDF for ParaView, NumPy arrays for napari."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.store.hdf5.buffers import Hdf5OnDisk
from tauslab.store.hdf5.disk import Disk, publish
from tauslab.store.results.lattice.frames import species_number
from tauslab.store.results.lattice.recorded import RecordedLattice

if TYPE_CHECKING:
    import h5py

SUFFIXES = (".vtkhdf", ".npy")
_VERSION = (2, 2)  # of VTKHDF: the first with all that is used is 2.0
_SITES = "site type"  # with a space, as no species can be called


def export_lattice(
    result: RecordedLattice, path: Path, species: Sequence[str] | None = None
) -> None:
    """Write the frames as particles of each species in each site, one frame's slab at a time.

    ``.vtkhdf``: ImageData with a cell per site and a time step per frame, lengths in micrometres,
    an array per species and ``site type``.  ``.npy``: uint8 ``[species, frame, z, y, x]``, which
    napari opens by itself.

    Raises
    ------
    ConfigError
        Another suffix, an unknown species, no frames, or a file that exists.
    OutputError
        The file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"{path}: frames are exported as {' or '.join(SUFFIXES)}, counts as .csv")
    names = list(species or result.species)
    for name in names:
        species_number(name, result.species, result.name)
    times = result.frames.times
    write = _write_npy if suffix == ".npy" else _write_vtkhdf
    publish(path, Disk(), lambda unfinished: write(result, unfinished, names, times))


def _write_npy(result: RecordedLattice, path: Path, names: list[str], times: FloatArray) -> None:
    array = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.uint8, shape=(len(names), len(times), *result.shape)
    )
    for row, name in enumerate(names):
        for frame in range(len(times)):
            for at, slab in result.frames.slabs(name, frame):
                array[row, frame, at : at + len(slab)] = slab
    array.flush()


def _write_vtkhdf(result: RecordedLattice, path: Path, names: list[str], times: FloatArray) -> None:
    shape = result.shape
    with Hdf5OnDisk(path, Disk()) as opened:
        root = opened.file.create_group("VTKHDF")
        _describe(root, shape, result.spacing * 1e6)
        steps = root.create_group("Steps")
        steps.attrs["NSteps"] = len(times)
        steps["Values"] = times
        cells = root.create_group("CellData")
        for name in [*names, _SITES]:
            if name == _SITES and result.sites(0) is None:
                continue
            data = cells.create_dataset(
                name, (len(times), *shape), "u1", chunks=(1, *_chunk(shape)), compression="gzip"
            )
            steps[f"CellDataOffsets/{name}"] = np.arange(len(times))
            for frame in range(len(times)):
                if name == _SITES:
                    data[frame] = result.sites(frame)
                else:
                    for at, slab in result.frames.slabs(name, frame):
                        data[frame, at : at + len(slab)] = slab
                opened.check()


def _describe(root: h5py.Group, shape: tuple[int, int, int], spacing: float) -> None:
    """Attributes of ImageData: points lie at the corners of sites, x first."""
    z, y, x = shape
    root.attrs["Version"] = np.array(_VERSION, np.int64)
    root.attrs["Type"] = np.bytes_(b"ImageData")
    root.attrs["WholeExtent"] = np.array([0, x, 0, y, 0, z], np.int64)
    root.attrs["Origin"] = np.zeros(3)
    root.attrs["Spacing"] = np.full(3, spacing)
    root.attrs["Direction"] = np.eye(3).ravel()


def _chunk(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """Whole planes, about a mebibyte of them."""
    z, y, x = shape
    return min(z, max(1, (1 << 20) // (y * x))), y, x

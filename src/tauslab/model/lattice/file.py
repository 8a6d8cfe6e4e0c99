"""Write a lattice model as HDF5; the same group lies in each result.

The group ``/model`` holds ``source`` and ``canonical`` (text), ``sites`` (u8 ``[z, y, x]``, chunks
of whole planes), ``sites_per_plane`` (i64 ``[z, type]``) and ``positions/N`` (i64 ``[n, 3]``) for
the N-th placement that gives positions.  `tauslab.formats.lattice_hdf5` reads it.
"""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tauslab.base.errors import ModelError, OutputError
from tauslab.base.files.drafts import replacing
from tauslab.base.files.opening import at_home
from tauslab.base.files.text import put_attributes, put_text
from tauslab.base.host import allowed_cores
from tauslab.model.lattice.canonical import lattice_canonical_text
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.site_map import SiteArray
from tauslab.model.lattice.values import lattice_values

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

GROUP = "model"
FORMAT, KIND = "tauslab", "lattice model"
_CHUNK = 1 << 20  # sites in a chunk, about
_LEVEL = 1  # of compression
_MOST_THREADS = 16
_ROUND = 4  # chunks that a thread compresses before more are read


def write_lattice(lattice: LatticeData, path: str | os.PathLike[str]) -> Path:
    """Write a model file (``.h5``), complete or not at all.

    Raises
    ------
    ModelError
        The model is wrong, or the file cannot be written.
    """
    import h5py

    path = at_home(path)
    if path.suffix.lower() != ".h5":
        raise ModelError(f"{path}: a model file of a lattice is called .h5")
    lattice_values(lattice)  # refuses a model that is wrong
    image = BytesIO()  # HDF5 cannot go on after a failed write to a disk
    with h5py.File(image, "w", libver=("v110", "v110")) as file:
        put_attributes(file, {"format": FORMAT, "kind": KIND})
        write_model_group(file.create_group(GROUP), lattice)
    try:
        with replacing(path) as draft:
            draft.write_bytes(image.getbuffer())
    except OutputError as error:
        raise ModelError(str(error)) from None
    return path


def write_model_group(
    group: h5py.Group, lattice: LatticeData, canonical: str | None = None
) -> None:
    """Write a model into an empty group, one chunk of planes at a time.

    Parameters
    ----------
    canonical
        Its `lattice_canonical_text`, if it is there already.
    """
    z, y, x = lattice.shape
    canonical = canonical or lattice_canonical_text(lattice)
    put_text(group, "canonical", canonical)
    source = put_text(group, "source", lattice.source_text or canonical)
    name = lattice.source_path.name if lattice.source_path is not None else f"{lattice.name}.h5"
    put_attributes(source, {"name": name})
    planes = min(z, max(1, _CHUNK // (y * x)))
    sites = group.create_dataset(
        "sites", (z, y, x), "u1", chunks=(planes, y, x), compression="gzip", compression_opts=_LEVEL
    )
    _write_planes(sites, lattice)
    n_types = len(lattice.type_names)
    group["sites_per_plane"] = lattice.sites.per_plane[:, :n_types]
    given = [p.positions for p in lattice.placements if p.positions is not None]
    for index, positions in enumerate(given):
        group[f"positions/{index}"] = positions


def _write_planes(sites: h5py.Dataset, lattice: LatticeData) -> None:
    """Write all site types; threads compress them, since a core does 0.3 GB/s."""
    from tauslab.base.files.direct_chunks import write_chunk

    (z, y, x), planes = sites.shape, sites.chunks[0]

    def compressed(chunk: SiteArray) -> bytes:
        missing = np.zeros((planes - len(chunk), y, x), np.uint8)
        return zlib.compress(np.concatenate([chunk, missing]).data, _LEVEL)

    corners = range(0, z, planes)
    together = min(len(corners), allowed_cores(), _MOST_THREADS)
    with ThreadPoolExecutor(together, thread_name_prefix="tauslab-sites") as threads:
        for first in range(0, len(corners), _ROUND * together):
            some = corners[first : first + _ROUND * together]
            chunks = [lattice.sites.planes(at, min(z, at + planes)) for at in some]
            for at, data in zip(some, threads.map(compressed, chunks), strict=True):
                write_chunk(sites, (at, 0, 0), data)

"""Small lattices for tests, and result files of lattice runs as plain h5py writes them."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from tauslab.model.lattice import Lattice
from tauslab.model.lattice_file import write_model_group

SHAPE = (12, 5, 7)
TIMES = np.array([0.0, 0.1, 0.2, 0.3])
FRAMES = np.array([0.0, 0.2])


def cell(slots: int = 8) -> Lattice:
    """A box of ``cell`` inside ``outside``, with A + B <-> C in the cell."""
    lattice = Lattice("cell", shape=SHAPE, spacing=32e-9, step=5e-5, slots=slots)
    lattice.add_site_type("outside")
    mask = np.zeros(SHAPE, bool)
    mask[2:10, 1:4, 2:6] = True
    lattice.add_site_type("cell", mask)
    lattice.add_species("A", "B", "C")
    lattice.add_parameter("k", 2.0)
    lattice.add_diffusion("*", 1e-12, within="cell")
    lattice.add_reaction("A + B -> C", rate=1e6, unit="M^-1 s^-1", site_types="cell", name="bind")
    lattice.add_reaction("C -> A + B", rate="k", site_types="cell", name="free")
    lattice.place("A", count=40, site_type="cell")
    lattice.place("B", count=30, site_type="cell")
    lattice.place("C", positions=[[3, 2, 2], [3, 2, 2], [9, 3, 5]])
    return lattice


def write_result(path: Path, *, replicas: int = 0, frames: bool = True, seed: int = 5) -> Path:
    """A result with the layout of a lattice run; without replicas there is no such axis."""
    lattice = cell()
    rng = np.random.default_rng(seed)
    lead = (replicas,) if replicas else ()
    particles = rng.integers(0, 4, (*lead, len(FRAMES), *SHAPE, lattice.slots)).astype(np.uint8)
    with h5py.File(path, "w") as file:
        file.attrs.update(format="tauslab", format_version=1, method="rdme", seed=np.uint64(1))
        write_model_group(file.create_group("model"), lattice)
        file["species"] = np.array(lattice.species, object)
        file["time"] = TIMES
        file["counts"] = rng.integers(0, 50, (*lead, len(TIMES), 3)).astype(np.int64)
        file["counts_by_site_type"] = rng.integers(0, 50, (*lead, len(TIMES), 2, 3))
        if frames:
            file["lattice/time"] = FRAMES
            file["lattice/particles"] = particles
            sites = np.broadcast_to(lattice.site_array(), (*lead, len(FRAMES), *SHAPE))
            file["lattice/sites"] = sites
    return path

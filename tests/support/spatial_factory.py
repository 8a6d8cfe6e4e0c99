"""Small lattices for tests, and result files of lattice runs as plain h5py writes them."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from tauslab.base.files.seals import dataset_names, seal
from tauslab.base.files.text import put_attributes, put_text
from tauslab.model.lattice.file import write_model_group
from tauslab.model.lattice.lattice import Lattice
from tauslab.store.checking.lattice import FRAMES as FRAMES_SUMS
from tauslab.store.checking.lattice import chunk_sums, sample_sum

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


ATTRIBUTES = {
    "format": "tauslab", "format_version": 2, "method": "rdme", "seed": np.uint64(1),
    "tauslab_version": "0.1.0", "command": "tauslab rdme", "model_sha256": "ab" * 32,
    "steps": 100, "step": 1e-4, "max_hop": 0.16, "count_every": 1, "frame_every": 1,
    "diffusion_substeps": 1, "reaction_substeps": 1,
}  # fmt: skip


def write_result(path: Path, *, replicas: int = 0, frames: bool = True, seed: int = 5) -> Path:
    """A result with the layout of a lattice run; without replicas there is no such axis."""
    lattice = cell()
    rng = np.random.default_rng(seed)
    lead = (replicas,) if replicas else ()
    particles = rng.integers(0, 4, (*lead, len(FRAMES), *SHAPE, lattice.slots)).astype(np.uint8)
    samples, species, types = len(TIMES), len(lattice.species), 2
    counted = {
        "counts": rng.integers(0, 50, (*lead, samples, species)),
        "counts_by_site_type": rng.integers(0, 50, (*lead, samples, types, species)),
        "reactions_fired": np.zeros((*lead, samples, 1), np.int64),
        "overflow": np.zeros((*lead, samples), np.int64),
    }
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        put_attributes(
            file, ATTRIBUTES | {"replicas": max(1, replicas), "frame_every": int(frames)}
        )
        write_model_group(file.create_group("model"), lattice)
        put_text(file, "species", lattice.species)
        put_text(file, "site_type", ["outside", "cell"])
        put_text(file, "reaction", ["none"])
        file["time"] = TIMES
        for name, values in counted.items():
            file[name] = values.astype("<i8")
        runs = max(1, replicas)
        file["progress/samples"] = np.full(runs, samples)
        file["progress/complete"] = np.uint8(1)
        stored = [v.reshape(runs, samples, *v.shape[len(lead) + 1 :]) for v in counted.values()]
        sums = [[sample_sum(r, k, (v[r, k] for v in stored)) for k in range(samples)]
                for r in range(runs)]  # fmt: skip
        file["progress/checksums"] = np.array(sums, np.uint32)
        if frames:
            file["lattice/time"] = FRAMES
            sites = np.broadcast_to(lattice.site_array(), (*lead, len(FRAMES), *SHAPE))
            for name, values in (("particles", particles), ("sites", sites)):
                chunks = (1,) * (len(lead) + 1) + (4, *values.shape[len(lead) + 2 :])
                made = file.create_dataset(f"lattice/{name}", data=values, chunks=chunks)
                file[FRAMES_SUMS[f"lattice/{name}"]] = chunk_sums(made)
        opened = (*counted, "progress/samples", "progress/complete", "progress/checksums")
        seal(file, {*opened, *FRAMES_SUMS} & {*dataset_names(file)})
    return path

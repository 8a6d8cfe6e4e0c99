"""A lattice run of a few steps that tests of the driver, of hooks and of resuming share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from lattice_factory import STEP, coefficient, empty_lattice

import tauslab as ts
from tauslab.model.lattice.lattice import Lattice
from tauslab.store.results.digest import digest_total
from tauslab.store.results.lattice.digest import lattice_digest_lines

T_END = 60 * STEP
GIVEN: dict[str, object] = {"t_end": T_END, "count_every": 3, "frame_every": 10, "seed": 7}


def model(slots=8) -> Lattice:
    lattice = empty_lattice((4, 6, 7), {"A": 0.15, "B": 0.1, "C": 0.05}, slots=slots)
    lattice.add_site_type("water")
    lattice.add_site_type("gel", np.indices((4, 6, 7))[2] < 3)
    lattice.add_diffusion("A", coefficient(0.05), within="gel")
    lattice.add_parameter("k", 800)
    lattice.add_reaction("A + B -> C", rate="k", volume="site", name="bind")
    lattice.add_reaction("C -> A + B", rate=1000, name="unbind")
    lattice.place("A", count=400, site_type="water")
    lattice.place("B", count=300, site_type="gel")
    return lattice


def run(path=None, lattice=None, **options):
    return ts.run(lattice or model(), device=ts.CPU(threads=1), output=path, **GIVEN | options)


def digest(path) -> str:
    return digest_total(lattice_digest_lines(Path(path)))


def meddling(view):
    """What a hook sets and notes outlives a stop."""
    view.memory["calls"] = view.memory.get("calls", 0) + 1
    view.set_rate("bind", 200.0 * view.memory["calls"], "gel")
    view.memory["fired"] = [*view.memory.get("fired", []), *view.fired().tolist()]
    view.place({"B": 2}, "gel")
    view.add("A", [(1, 2, 3)] * view.memory["calls"])
    view.paint("gel", where=np.indices((4, 6, 7))[2] < 3 + view.memory["calls"])

"""A small cell with ribosomes of seven sites, which hooks reshape, for tests of runs."""

from __future__ import annotations

import numpy as np

import tauslab as ts

SHAPE, STEP, SPACING = (12, 9, 10), 1e-4, 1e-8
Z, Y, X = np.indices(SHAPE)


def inside(radius: float) -> np.ndarray:
    squared = (Z - 5.5) ** 2 + (Y - 4) ** 2 + (X - 4.5) ** 2
    return np.asarray(squared <= radius**2)


def ribosomes() -> ts.Lattice:
    """Ribosomes bind RNA, which may be in their sites, and make proteins, which may not."""
    model = ts.Lattice("ribosomes", shape=SHAPE, spacing=SPACING, step=STEP, slots=8)
    model.add_site_type("out")
    model.add_site_type("cytoplasm", inside(4.4))
    model.add_species("R", "RM", "M", "P", "G")
    model.add_diffusion("*", 1e-13, within="cytoplasm")
    model.add_diffusion(["R", "RM"], 4e-14, within="cytoplasm")
    model.add_object("ribosome", sites=1, follows=["R", "RM"], within="cytoplasm", every=2)
    model.add_diffusion("M", 1e-13, between=("cytoplasm", "ribosome"))
    model.add_diffusion("M", 1e-13, within="ribosome")
    model.add_reaction("R + M -> RM", rate=200, volume="site", site_types="cytoplasm")
    model.add_reaction("RM -> R + M + P", rate=100, site_types="cytoplasm")
    model.add_reaction("P -> R", rate=0.5, site_types="cytoplasm")
    model.add_reaction("R -> ", rate=2, site_types="cytoplasm")
    model.place("R", count=6, site_type="cytoplasm")
    model.place("M", count=60, site_type="cytoplasm")
    model.place("P", count=500, site_type="cytoplasm")
    model.pin("G", [(5, 4, 4), (4, 6, 4)])
    return model


def breathing(view: ts.LatticeView) -> None:
    """The cell shrinks, so that objects are left outside, and grows."""
    radius = 4.4 - 0.25 * (view.step // 5 % 7)
    actual = view.reshape({"cytoplasm": inside(radius)})
    view.memory["moved"] = view.memory.get("moved", 0) + actual.moved

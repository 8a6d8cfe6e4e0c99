"""Draws the pictures of docs/pictures.md from models in examples/, on one core in a minute.

.venv/bin/python scripts/figures/figures_look.py docs/figures
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import tauslab as ts

ROOT = Path(__file__).resolve().parents[2]
DEVICE = ts.CPU(threads=1)


def gene(folder: Path) -> None:
    """Switches as shares, means with a band, and the same model as differential equations."""
    net = ts.read(ROOT / "examples" / "telegraph.toml")
    assert isinstance(net, ts.Network)
    result = ts.run(net, n=500, t_end=200, points=101, device=DEVICE, quiet=True, seed=1)
    result.plot(["Off", "On", "M", "P"], kind="mean", path=folder / "look-mean.png")
    course = ts.run(
        net, method="ode", n=1, t_end=200, points=201, device=DEVICE, quiet=True, seed=1
    )
    course.plot(["M", "P"], path=folder / "look-ode.png")


def cell(folder: Path) -> None:
    """A lattice before its run, and a slice after it."""
    shape = (24, 24, 48)
    lattice = ts.Lattice("cell", shape=shape, spacing=32e-9)
    z, y, x = np.indices(shape)
    depth = ((z - 11.5) / 11) ** 2 + ((y - 11.5) / 11) ** 2 + ((x - 23.5) / 22) ** 2
    lattice.add_site_type("outside")
    lattice.add_site_type("membrane", depth < 1)
    lattice.add_site_type("cytoplasm", depth < 0.75)
    lattice.add_species("A", "B")
    lattice.add_diffusion(["A", "B"], 1e-12, within="cytoplasm")
    lattice.add_diffusion("B", 1e-13, within="membrane")
    lattice.add_diffusion("B", 1e-12, between=("cytoplasm", "membrane"))
    lattice.add_reaction("A <-> B", rate=(20.0, 10.0))
    lattice.place("A", 2000, site_type="cytoplasm")
    lattice.plot(folder / "look-geometry.png")
    with ts.run(
        lattice, t_end=0.1, count_every=10, frame_every=100, device=DEVICE, quiet=True, seed=1
    ) as result:
        result.plot(["A", "B"], "slice", folder / "look-slice.png")


def main() -> None:
    """Write the pictures into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    gene(folder)
    cell(folder)


if __name__ == "__main__":
    main()

"""A protein in cells that grow and divide: concentrations by age, and noise.

    python examples/dividing_cells.py

Two cells in the same medium: one makes the protein in proportion to its volume, the other at a constant rate.
Concentrations of the first do not depend on the age; those of the second rise by 6 % and fall again.
"""

from __future__ import annotations

import numpy as np

import tauslab as ts


def cell(scales: bool) -> ts.Network:  # noqa: FBT001
    """A volume that doubles in a time of 1; 100 proteins at birth."""
    net = ts.Network("scaling" if scales else "constant")
    net.add_species("protein", 100)
    net.add_species("V", 1.0)
    net.add_rate("V", "0.6931471805599453 * V")
    net.add_reaction("-> protein", law="69.31471805599453 * V" if scales else "100")
    net.add_event("divide", trigger="V >= 2")
    net.add_rule("concentration", "protein / V")
    return net


def young_and_middle(scales: bool, cells: int = 2000) -> tuple[float, float, ts.PopulationResult]:  # noqa: FBT001
    """Mean concentrations of the youngest and of the middle fifth of a population."""
    # Volumes of a steady population have the density 2 / V^2.
    volumes = 1 / (1 - (np.arange(cells) + 0.5) / (2 * cells))
    found = ts.population(
        cell(scales), [6.0], division="divide", cells=cells, set={"V": volumes}, seed=1,
        device="cpu",
    )  # fmt: skip
    last = found.snapshots[0]
    by_age = last["concentration"][np.argsort(last.age)]
    fifth = len(last) // 5
    return float(by_age[:fifth].mean()), float(by_age[2 * fifth : 3 * fifth].mean()), found


if __name__ == "__main__":
    for scales in (True, False):
        young, middle, found = young_and_middle(scales)
        last = found.snapshots[0]
        noise = last.var("protein") / last.mean("protein") ** 2
        print(
            f"{'made by volume' if scales else 'at one rate':15}: young {young:.1f}, middle {middle:.1f}"
        )
        print(f"    {last.mean('protein'):.0f} proteins, squared variation {noise:.4f}")

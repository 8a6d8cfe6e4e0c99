"""Lattices that are cut into slabs by tests: dense ones, and all kinds of faces along z."""

from __future__ import annotations

import numpy as np
from lattice_factory import binding, coefficient, empty_lattice, lowered

SHAPE = (12, 9, 40)  # tiles of 32 x 16: two in a plane


def crowded():
    """Five of eight slots are taken, so that particles wait everywhere."""
    return binding(SHAPE, 4.8, slots=8)


def typed(boundary="reflecting"):
    """Three site types with unlike hops and reactions, one of them from nothing."""
    model = empty_lattice(SHAPE, {"A": 0.2, "B": 0.1}, boundary=boundary, slots=8)
    z, y, x = np.indices(SHAPE)
    model.add_site_type("water")
    model.add_site_type("gel", (x + y + z) % 11 < 4)
    model.add_site_type("rock", (x * y + z) % 17 == 3)
    model.add_diffusion("A", coefficient(0.05), within="gel")
    model.add_diffusion("*", 0, source="*", target="rock")
    model.add_diffusion("A", coefficient(0.33), source="rock", target="water")
    model.add_reaction("2 A -> B", rate=300, volume="site", site_types="gel")
    model.add_reaction("B -> 2 A", rate=200)
    model.add_reaction("-> A", rate=50, volume="site", site_types="rock")
    model.place("A", count=int(4 * np.prod(SHAPE)), site_type="water")
    return lowered(model)


def held():
    """Faces along z: particles come in through the lower, leave through the upper."""
    model = empty_lattice(SHAPE, {"A": 0.2, "B": 0.4}, boundary="reflecting", slots=8)
    model.set_boundary("z-", "held", concentrations={"A": 2e-4, "B": 2e-4})
    model.set_boundary("z+", "absorbing")
    model.add_reaction("A + B -> B", rate=300, volume="site")
    return lowered(model)


def sparse():
    """Few particles, so that most tiles are skipped."""
    model = empty_lattice(SHAPE, {"A": 0.3})
    model.place("A", count=8)
    return lowered(model)


MODELS = {
    "crowded": crowded,
    "absorbing": lambda: binding(SHAPE, 2.5, boundary="absorbing"),
    "typed": typed,
    "typed periodic": lambda: typed("periodic"),
    "held": held,
    "sparse": sparse,
}

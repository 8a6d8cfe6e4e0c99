"""Lattices that are cut into slabs by tests: dense ones, and all kinds of faces along z."""

from __future__ import annotations

from lattice_factory import binding, empty_lattice, lowered, typed

SHAPE = (12, 9, 40)  # tiles of 32 x 16: two in a plane


def crowded():
    """Five of eight slots are taken, so that particles wait everywhere."""
    return binding(SHAPE, 4.8, slots=8)


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
    "typed": lambda: typed(SHAPE, slots=8, fill=4),
    "typed periodic": lambda: typed(SHAPE, boundary="periodic", slots=8, fill=4),
    "held": held,
    "sparse": sparse,
}

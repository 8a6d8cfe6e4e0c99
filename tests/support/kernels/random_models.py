"""Random networks and lattices for tests: every kind of reaction, face and size, by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from lattice_factory import coefficient, empty_lattice, lowered

from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network

LAWS = (
    "{k} * {a} / (5 + {a})",
    "{k} * {a} * {b} / (1 + {a} + {b})",
    "{k} * {a} ^ 2 / (30 + {a} ^ 2)",
    "{k} * sqrt({a} * {b})",
    "{k} * {a} * exp(-0.1 * {b})",
    "{k} * ln(1 + {a})",
    "{k} * {a} * {b} * {c}",
    "piecewise({k} * {a}, {a} > {b}, {k})",
    "{k} * {a} * total / (1 + total)",
)
MOST = 2**31 - 1


def random_network(dice: random.Random, reactions: int) -> tuple[Network, dict[str, int]]:
    """A network, and masses of species that all its reactions keep, or none.

    In a closed network no reaction changes the mass of all species together; an open one also has
    sources and sinks, laws that read what they do not change, and counts that overflow.
    """
    net = Network("random")
    closed = dice.random() < 0.5
    masses = {f"S{i}": dice.choice((1, 1, 2, 3)) for i in range(dice.choice((1, 2, 5, 12)) + 1)}
    masses["S0"] = 1
    names = list(masses)
    for name in names:
        large = 0 if closed else dice.choice((0, 0, 0, MOST - 3))
        net.add_species(name, large or dice.choice((0, 1, 2, 15, 300)))
    if not closed and dice.random() < 0.5:
        net.add_species("F", 7, fixed=True)
        names.append("F")
    net.add_parameter("k1", dice.choice((0.0, 0.3)))
    net.add_rule("total", " + ".join(names), recorded=dice.random() < 0.5)
    while len(net.reactions) < reactions:
        _add_reaction(net, dice, names, masses if closed else {})
    return net, masses if closed else {}


def _add_reaction(
    net: Network, dice: random.Random, names: list[str], masses: dict[str, int]
) -> None:
    order = dice.choice((1, 1, 2, 2, 2, 3, 4) if masses else (0, 1, 1, 2, 2, 3, 4))
    left = [dice.choice(names) for _ in range(order)]
    if masses:
        right = _of_mass(dice, masses, sum(masses[name] for name in left))
    else:
        right = [dice.choice(names) for _ in range(dice.choice((0, 1, 1, 2, 3)))]
    equation = f"{' + '.join(left)} -> {' + '.join(right)}"
    rate = dice.choice(("k1", "2 * k1", 0.01, 0.2, 1.5)) if order < 3 else 1e-4
    if left and dice.random() < 0.3:
        chosen = {key: dice.choice(names) for key in "bc"} | {"a": left[0]}
        law = dice.choice(LAWS).format(k=dice.choice(("k1", 0.4)), **chosen)
        # A law does not know of itself that its reactants are there.
        guards = "".join(f" * ({name} >= {left.count(name)})" for name in sorted(set(left)))
        net.add_reaction(equation, law=f"({law}){guards}")
    else:
        net.add_reaction(equation, rate=rate)


def _of_mass(dice: random.Random, masses: dict[str, int], mass: int) -> list[str]:
    """Species, drawn one by one, of this mass together."""
    made: list[str] = []
    while mass:
        made.append(dice.choice([name for name, own in masses.items() if own <= mass]))
        mass -= masses[made[-1]]
    return made


SHAPES = ((1, 1, 1), (1, 3, 70), (2, 1, 33), (5, 4, 3), (1, 1, 40), (40, 2, 1), (3, 17, 35),
          (4, 9, 16), (2, 33, 2))  # fmt: skip


@dataclass(frozen=True)
class RandomLattice:
    """A lattice, particles to begin with, and whether none can leave or enter by its faces."""

    lattice: LoweredLattice
    particles: npt.NDArray[np.int64]
    closed: bool

    @property
    def change(self) -> npt.NDArray[np.int64]:
        """Particles ``[reaction, species]`` that a reaction makes, less those it takes."""
        actual = np.zeros((len(self.lattice.reactions), len(self.lattice.species)), np.int64)
        for row, reaction in zip(actual, self.lattice.reactions, strict=True):
            np.subtract.at(row, list(reaction.reactants), 1)
            np.add.at(row, list(reaction.products), 1)
        return actual


def random_lattice(dice: random.Random) -> RandomLattice:
    """Any shape, slots, faces and types; sites from empty to full."""
    shape, slots = dice.choice(SHAPES), dice.choice((8, 16, 32))
    n_species = dice.choice((1, 2, 3, 9, 300))
    hops = {f"S{i}": dice.choice((0.0, 0.02, 0.2, 0.45)) for i in range(n_species)}
    model = empty_lattice(shape, hops, boundary="reflecting", slots=slots)
    closed = _set_faces(model, dice)
    types = _add_types(model, dice)
    for _ in range(dice.choice((0, 1, 4, 12))):
        _add_site_reaction(model, dice, types)
    rng = np.random.default_rng(dice.getrandbits(32))
    most = dice.choice((0, 1, slots // 2, slots, slots))
    filled = rng.integers(most if dice.random() < 0.3 else 0, most + 1, shape)
    particles = rng.integers(1, n_species + 1, (*shape, slots))
    particles[np.arange(slots) >= filled[..., None]] = 0
    return RandomLattice(lowered(model), particles, closed)


def _set_faces(model: Lattice, dice: random.Random) -> bool:
    closed = True
    for axis in "zyx":
        if dice.random() < 0.4:
            model.set_boundary(axis, "periodic")
            continue
        for face in (f"{axis}-", f"{axis}+"):
            kind = dice.choice(("reflecting", "reflecting", "absorbing", "held"))
            held = {"S0": 4e-5} if kind == "held" else None
            model.set_boundary(face, kind, concentrations=held)
            closed &= kind == "reflecting"
    return closed


def _add_types(model: Lattice, dice: random.Random) -> list[str]:
    n_types = dice.choice((1, 1, 2, 7, 255))
    if n_types == 1:
        return ["default"]
    rng = np.random.default_rng(dice.getrandbits(32))
    which = rng.integers(0, n_types, model.shape)
    names = [f"T{i}" for i in range(n_types)]
    for i, name in enumerate(names):
        model.add_site_type(name, which == i)
    for _ in range(4):
        hop = coefficient(dice.choice((0.0, 0.1, 0.45)))
        source, target = dice.choice(names), dice.choice((*names, "*"))
        model.add_diffusion(dice.choice((*model.species, "*")), hop, source=source, target=target)
    return names


def _add_site_reaction(model: Lattice, dice: random.Random, types: list[str]) -> None:
    left = [dice.choice(model.species) for _ in range(dice.choice((0, 1, 1, 2, 2)))]
    right = [dice.choice(model.species) for _ in range(dice.choice((0, 1, 2, 2, 3, 9)))]
    right = right[: model.slots]  # a site has no room for more
    rate = dice.choice((0.0, 5.0, 300.0, 3000.0))
    if len(right) > max(1, len(left)):  # or the lattice fills beyond all bounds
        rate = min(rate, 50.0)
    where = None if types == ["default"] or dice.random() < 0.5 else dice.choice(types)
    volume = None if len(left) == 1 else "site"
    equation = f"{' + '.join(left)} -> {' + '.join(right)}"
    model.add_reaction(equation, rate=rate, volume=volume, site_types=where)

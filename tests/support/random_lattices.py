"""Random models of small lattices: types, faces, hops and reactions of all kinds, in bare numbers.

`differential_rdme.py` runs them and holds them against their law.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

import tauslab as ts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FACES = ("z-", "z+", "y-", "y+", "x-", "x+")
_N_A = 6.02214076e23
# Numbers stand for species of the case, drawn without repetition.
_FIRST = [((0,), ()), ((0,), (1,)), ((0,), (0, 1)), ((0,), (1, 2)), ((0,), (1, 1)), ((), (0,))]
_SECOND = [
    ((0, 1), (2,)), ((0, 0), (1,)), ((0, 1), (0,)), ((0, 1), (0, 1, 2)), ((0, 0), ()),
    ((0, 1), (1, 1)),
]  # fmt: skip


@dataclass(frozen=True)
class Reaction:
    """Species by number; `rate` of a site (1/s) per combination, in the site types `types`."""

    reactants: tuple[int, ...]
    products: tuple[int, ...]
    rate: float
    types: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A model: `hop` is 1/s ``[from, to, species]``; faces have a kind, a type, ghost particles."""

    spacing: float
    types: npt.NDArray[np.int64]
    hop: FloatArray
    faces: tuple[tuple[str, int, FloatArray], ...]
    reactions: tuple[Reaction, ...]
    start: IntArray = field(repr=False)  # rows of species, z, y, x

    @property
    def n_types(self) -> int:
        """Site types."""
        return len(self.hop)

    @property
    def n_species(self) -> int:
        """Species."""
        return int(self.hop.shape[2])


def draw_case(seed: int, order: int) -> Case:
    """A case at random, with reactions up to an order of 1 or 2."""
    draw = np.random.default_rng(seed)
    shape = tuple(int(n) for n in draw.integers(3, 7 if order == 1 else 6, size=3))
    n_types, n_species = int(draw.integers(1, 4)), int(draw.integers(3, 5))
    types = draw.integers(0, n_types, size=shape)
    hop = draw.uniform(0.2, 1.0, (n_types, n_types, n_species))
    hop[draw.random(hop.shape) < 0.25] = 0
    faces = []
    for _ in range(3):
        if draw.random() < 0.3:
            faces += [("periodic", 0, np.zeros(n_species))] * 2
            continue
        for kind in draw.choice(["reflecting", "absorbing", "held"], size=2):
            ghost = draw.uniform(0.1, 0.5, n_species) if kind == "held" else np.zeros(n_species)
            faces.append((str(kind), int(draw.integers(n_types)), ghost))
    reactions = []
    for number in range(5):
        forms = _SECOND if order == 2 and number % 2 == 0 else _FIRST
        before, after = forms[int(draw.integers(len(forms)))]
        which = draw.permutation(n_species)
        least, most = [(0.005, 0.03), (0.2, 1.5), (0.5, 3.0)][len(before)]
        chosen = draw.permutation(n_types)[: int(draw.integers(1, n_types + 1))]
        reactions.append(
            Reaction(
                tuple(int(which[i]) for i in before),
                tuple(int(which[i]) for i in after),
                float(draw.uniform(least, most)),
                tuple(sorted(int(i) for i in chosen)),
            )
        )
    start = draw.integers(0, (n_species, *shape), size=(int(draw.integers(30, 70)), 4))
    spacing = float(draw.uniform(0.5, 2.0))
    return Case(spacing, types, hop, tuple(faces), tuple(reactions), start)


def as_lattice(case: Case, step: float, seed: int) -> ts.Lattice:
    """The case as a user writes it; units and volumes of constants at random."""
    draw = np.random.default_rng((seed, 1))
    made = ts.Lattice("case", shape=case.types.shape, spacing=case.spacing, step=step, slots=32)
    for number in range(case.n_types):
        made.add_site_type(f"t{number}", case.types == number)
    names = [f"S{i}" for i in range(case.n_species)]
    made.add_species(*names)
    made.add_diffusion("*", 9.0)  # every rule below replaces it
    square, volume = case.spacing**2, case.spacing**3
    for source, target, i in np.ndindex(case.hop.shape):
        made.add_diffusion(
            names[i],
            float(case.hop[source, target, i]) * square,
            source=f"t{source}",
            target=f"t{target}",
        )
    for face, (kind, ghost_type, ghost) in zip(FACES, case.faces, strict=True):
        molar = dict(zip(names, (ghost / (_N_A * 1000 * volume)).tolist(), strict=True))
        own = {"site_type": f"t{ghost_type}"} if kind in ("absorbing", "held") else {}
        made.set_boundary(face, kind, concentrations=molar if kind == "held" else None, **own)
    for reaction in case.reactions:
        sides = (" + ".join(names[i] for i in s) for s in (reaction.reactants, reaction.products))
        rate, unit, size = _constant(reaction, volume, case.types.size, int(draw.integers(4)))
        made.add_reaction(" -> ".join(sides), rate=rate, unit=unit, volume=size,
                          site_types=[f"t{i}" for i in reaction.types])  # fmt: skip
    for i in range(case.n_species):
        at = case.start[case.start[:, 0] == i, 1:]
        if len(at):
            made.place(names[i], positions=at)
    return made


def _constant(
    reaction: Reaction, volume: float, sites: int, way: int
) -> tuple[float, str | None, str | float | None]:
    """A rate of a site as rate and unit, or as rate and volume."""
    order = len(reaction.reactants)
    power, rate = order - 1, reaction.rate
    if order == 1:
        return rate, None, None
    if way == 0:
        return rate, None, "site"
    if way == 1:
        return rate / float(sites) ** power, None, "lattice"
    if way == 2:
        return rate / 7.0**power, None, 7.0 * volume
    molar = rate * (_N_A * 1000 * volume) ** power
    if order == 0:
        return molar, "M s^-1", None
    return molar / (2 if len(set(reaction.reactants)) == 1 else 1), "M^-1 s^-1", None

"""Diffusion of species in the sites to which their hops are confined: membranes of voxels.

Sites that touch by an edge or a corner alone are not joined by hops.  Where they are, a surface
that is oblique to the axes is a staircase, on which a walk is longer than on the surface: seen from
some sites' distance its diffusion coefficient D_eff is smaller than D.  It follows from the moments
of the displacement of a particle that starts in any of the sites, computed without drawing numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.diagnosis.occupancy import connected_types
from tauslab.model.lattice.values import LatticeValues

MOST_SITES, _MOST_CONFINED = 1 << 24, 1 << 19  # of a lattice and a part that are looked at
_MOST_WALKED = 1 << 16  # sites of a membrane whose D_eff is computed
_LEAST_WALKED = 200
_THIN = 0.1  # part of the sites that may lie inside, with six joined sites around
_LONGEST = 16.0  # D t / h^2 of a walk, and so displacements of up to 8 sites
_PER_SITE = 1 / 160  # the same for each site of a small membrane: a tenth of a sphere's R^2 / h^2
_SMALL_HOP = 0.04  # hop probability below which D_eff is that of no time step, within 2 %
Direction = tuple[int, int, int]
_AXES: tuple[Direction, ...] = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
_DIRECTIONS: tuple[Direction, ...] = tuple(  # half of a site's 26 neighbours
    (z, y, x) for z, y, x in itertools.product((-1, 0, 1), repeat=3) if (z, y, x) > (0, 0, 0)
)


@dataclass(frozen=True)
class Confined:
    """Sites that some species do not leave.

    Attributes
    ----------
    species, site_types
        Names.
    sites, pieces, largest
        Number of sites, of the pieces that hops join, and the sites of the largest; the last two
        None where the sites are too many.
    touching
        Number of pieces if sites joined that touch by an edge or a corner; None as `pieces`.
    effective
        D_eff / D of each hop probability, the largest first; empty where the sites are no surface,
        or too many or too few.
    unestimated
        Why `pieces` or `effective` are missing, where it is for too many sites; else empty.
    """

    species: tuple[str, ...]
    site_types: tuple[str, ...]
    sites: int
    pieces: int | None = None
    largest: int | None = None
    touching: int | None = None
    effective: tuple[tuple[float, float], ...] = ()
    unestimated: str = ""


def confined_sites(lattice: LatticeData, values: LatticeValues, hop: float) -> list[Confined]:
    """For species that hop in a part of the lattice only, what their sites are like.

    Parameters
    ----------
    hop
        The hop probability to one side of the fastest species.
    """
    return [
        _confined(lattice, values, types, columns, hop)
        for types, columns in _groups(values).items()
    ]


def _confined(
    lattice: LatticeData,
    values: LatticeValues,
    types: tuple[int, ...],
    columns: list[int],
    hop: float,
) -> Confined:
    """The sites of some types, in which the species of some columns stay."""
    number = int(values.sites_of[list(types)].sum())
    names = (
        tuple(lattice.species[i] for i in columns),
        tuple(lattice.type_names[i] for i in types),
        number,
    )
    if np.prod(lattice.shape, dtype=float) > MOST_SITES:
        return Confined(*names, unestimated=f"the lattice has more than {MOST_SITES} sites")
    if number > _MOST_CONFINED:
        return Confined(*names, unestimated=f"more than {_MOST_CONFINED} sites")
    mask = np.isin(lattice.sites.planes(0, lattice.shape[0]), types)
    pieces = _sizes(_labels(_bonds(mask, lattice, _AXES), number))
    touching = _sizes(_labels(_bonds(mask, lattice, _DIRECTIONS), number))
    among = values.diffusion[np.ix_(types, types, columns)]
    alike = bool((among == among[:1, :1]).all()) and len(pieces) == len(touching)
    surface = _surface(mask, lattice) if alike else None
    wide = surface is not None and number > _MOST_WALKED
    hops = [hop * d / values.diffusion.max() for d in np.unique(among.max(axis=(0, 1)))[::-1]]
    return Confined(
        *names,
        len(pieces),
        int(pieces.max()),
        len(touching),
        () if surface is None or wide else tuple((float(q), _effective(surface, q)) for q in hops),
        f"more than {_MOST_WALKED} sites" if wide else "",
    )


def _groups(values: LatticeValues) -> dict[tuple[int, ...], list[int]]:
    """Species by the types of site among which they hop, where these are not all."""
    there = np.flatnonzero(values.sites_of)
    found: dict[tuple[int, ...], list[int]] = {}
    for species in range(values.diffusion.shape[2]):
        passes = values.diffusion[:, :, species] > 0
        for group in connected_types(passes):
            types = tuple(kind for kind in group if values.sites_of[kind])
            if types and len(types) < len(there) and passes[np.ix_(types, types)].any():
                found.setdefault(types, []).append(species)
    return found


# ---------------------------------------------------------------- pieces


def _bonds(
    mask: BoolArray, lattice: LatticeData, directions: tuple[Direction, ...]
) -> Iterator[tuple[IntArray, IntArray]]:
    """Numbers of the sites of a mask that lie side by side in each direction."""
    numbers = np.full(mask.shape, -1, np.int64)
    numbers[mask] = np.arange(int(mask.sum()))
    periodic = [lattice.boundary[f"{axis}-"].kind == "periodic" for axis in "zyx"]
    for direction in directions:
        other = np.roll(numbers, [-d for d in direction], (0, 1, 2))
        for axis, step in enumerate(direction):
            if step and not periodic[axis]:
                edge = [slice(None)] * 3
                edge[axis] = slice(-1, None) if step > 0 else slice(0, 1)
                other[tuple(edge)] = -1
        joined = (numbers >= 0) & (other >= 0)
        yield numbers[joined], other[joined]


def _labels(bonds: Iterator[tuple[IntArray, IntArray]], number: int) -> IntArray:
    """A number for each site, the same for all that bonds join."""
    pairs = [np.stack(pair) for pair in bonds]
    one, other = np.concatenate(pairs, axis=1)
    label: IntArray = np.arange(number)
    while True:
        low = np.minimum(label[one], label[other])
        before = label.copy()
        # The labels of both ends, and of those that carry the same, become the lower one.
        np.minimum.at(label, before[one], low)
        np.minimum.at(label, before[other], low)
        while (label[label] != label).any():
            label = label[label]
        if (label == before).all():
            return label


def _sizes(labels: IntArray) -> IntArray:
    return np.unique(labels, return_counts=True)[1]


# ---------------------------------------------------------------- walks


def _surface(mask: BoolArray, lattice: LatticeData) -> IntArray | None:
    """Neighbours of each site, as `_mean_squares` takes them; None where they are no surface."""
    number = int(mask.sum())
    if number < _LEAST_WALKED:
        return None
    neighbours = np.tile(np.arange(number), (3, 2, 1))
    for axis, (one, other) in enumerate(_bonds(mask, lattice, _AXES)):
        neighbours[axis, 1, one], neighbours[axis, 0, other] = other, one
    joined = (neighbours != np.arange(number)).sum(axis=(0, 1))
    return None if (joined == 6).mean() > _THIN or not joined.all() else neighbours


def _effective(neighbours: IntArray, hop: float) -> float:
    """D_eff / D of a surface of sites, by the mean square displacement between two distances.

    On a surface it is c + 4 D_eff t + b t^2: c is of the steps of the staircase, b of the curvature
    of the surface.  These are the numbers that agree with it at three times.
    """
    last = min(_LONGEST, max(2.0, neighbours.shape[2] * _PER_SITE))
    split = hop >= _SMALL_HOP
    q = hop if split else 0.125
    steps = [max(1, round(last * part / q)) for part in (0.25, 0.5, 1.0)]
    t = np.array(steps) * q
    squares = _mean_squares(neighbours, q, steps, split=split)
    slope = np.linalg.solve(np.stack([np.ones(3), t, t * t], axis=1), squares)[1]
    return float(slope / 4)


def _mean_squares(neighbours: IntArray, q: float, steps: list[int], *, split: bool) -> FloatArray:
    """Mean square displacement after some numbers of steps, in sites.

    Parameters
    ----------
    neighbours
        ``[axis, side, site]``: the site to which a hop leads, the site itself at a wall.
    split
        Whether a step is a pass of hops along x, then y, then z; else it is one hop at most.
    """
    size = neighbours.shape[2]
    # Of a particle that starts at a site: mean displacement [axis], and mean of its square.
    moments: FloatArray = np.zeros((4, size))
    found = []
    for step in range(1, steps[-1] + 1):
        if split:
            for axis in range(3):  # what comes last in time is taken first
                moments = moments + q * _change(moments, neighbours, axis)
        else:
            moments = moments + q * sum(_change(moments, neighbours, axis) for axis in range(3))
        if step in steps:
            found.append(moments[3].mean())
    return np.array(found)


def _change(moments: FloatArray, neighbours: IntArray, axis: int) -> FloatArray:
    """Return what a hop to either side of an axis, before all counted ones, adds to moments."""
    below, above = (moments[:, side] for side in neighbours[axis])
    down, up = (side != np.arange(side.size) for side in neighbours[axis])
    change: FloatArray = below + above - 2.0 * moments
    change[axis] += up.astype(np.float64) - down
    change[3] += up * (1.0 + 2.0 * above[axis]) + down * (1.0 - 2.0 * below[axis])
    return change

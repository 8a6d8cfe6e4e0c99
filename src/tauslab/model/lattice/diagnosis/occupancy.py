"""Expected occupancy of the sites of a lattice model, and the reactions expected there."""

from __future__ import annotations

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.values import LatticeValues

CROWDED = 0.01  # part of the particles that wait for a slot, from which results suffer


def expected_occupancy(lattice: LatticeData, values: LatticeValues) -> FloatArray:
    """Particles expected in a site ``[state, site type, species]``, in two states.

    State 0 is the start.  State 1 is the start spread evenly over every site type that a species
    can reach, or what a held face keeps behind it where that is more; reactions do not count.
    """
    start = np.zeros((len(values.sites_of), len(lattice.species)))
    start += values.initial(len(lattice.species))
    for placed in values.placed:
        if placed.positions is not None:
            z, y, x = placed.positions.T
            types = _types_at(lattice, z, y, x)
            start[:, placed.species] += np.bincount(types, minlength=len(start))
    spread = np.zeros_like(start)
    sites = values.sites_of.astype(np.float64)
    # Of a species that is nowhere the rows stay 0.
    for species in np.flatnonzero(start.any(axis=0)).tolist():
        for group in connected_types(values.diffusion[:, :, species] > 0):
            room = sites[group].sum()
            if room:
                spread[group, species] = start[group, species].sum() * sites[group] / room
    expected: FloatArray = np.stack([start, spread]) / np.maximum(sites, 1)[None, :, None]
    for ghost, ghost_type in zip(values.ghost, values.ghost_type, strict=True):
        for species in np.flatnonzero(ghost).tolist():
            for group in connected_types(values.diffusion[:, :, species] > 0):
                if ghost_type in group:
                    there = [site_type for site_type in group if sites[site_type]]
                    row = expected[1, there, species]
                    expected[1, there, species] = np.maximum(row, ghost[species])
    return expected


def _types_at(lattice: LatticeData, z: IntArray, y: IntArray, x: IntArray) -> IntArray:
    types = np.zeros(len(z), np.int64)
    for plane in np.unique(z):
        here = z == plane
        types[here] = lattice.sites.planes(int(plane), int(plane) + 1)[0, y[here], x[here]]
    return types


def connected_types(passes: BoolArray) -> list[list[int]]:
    """Groups of site types between which a species can go, from ``[from, to]``."""
    left = set(range(len(passes)))
    groups = []
    while left:
        group, frontier = set(), {left.pop()}
        while frontier:
            group |= frontier
            near = passes[sorted(frontier)].any(axis=0) | passes[:, sorted(frontier)].any(axis=1)
            frontier = {int(i) for i in np.flatnonzero(near)} - group
        left -= group
        groups.append(sorted(group))
    return groups


def site_propensities(
    lattice: LatticeData, values: LatticeValues, occupancy: FloatArray
) -> FloatArray:
    """Expected propensity in a site (1/s) ``[reaction, site type]``, particles being Poisson.

    `occupancy` is particles in a site ``[site type, species]``.
    """
    number = {name: index for index, name in enumerate(lattice.species)}
    propensities = values.rates.copy()
    for index, reaction in enumerate(lattice.reactions):
        for name, count in reaction.reactants.items():
            # Poisson: half the mean of n (n - 1) is half the squared mean.
            propensities[index] *= occupancy[:, number[name]] ** count / count
    return propensities

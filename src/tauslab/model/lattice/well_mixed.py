"""Rates of a lattice's reactions without space, each species mixed in the sites it can come to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray
from tauslab.model.expressions.host_math import value_of
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.parts import FACES
from tauslab.model.lattice.values import LatticeValues


def mixed_rates(lattice: LatticeData, values: LatticeValues) -> list[float]:
    """Stochastic constants of the reactions in the limit of fast diffusion.

    A particle is at each of the S sites that its species can come to with probability 1 / S, so
    A + B has the sum of the sites' constants, over the sites that both can come to, by S_A S_B.
    """
    number = {name: index for index, name in enumerate(lattice.species)}
    types = lattice.sites.planes(0, lattice.shape[0])
    reached = _reached(lattice, values, types, number)
    room = reached.reshape(len(number), -1).sum(axis=1)
    found = []
    for reaction, rates in zip(lattice.reactions, values.rates, strict=True):
        here, share = rates[types], 1.0
        for name, count in reaction.reactants.items():
            here = np.where(reached[number[name]], here, 0.0)
            share /= value_of("pow", max(1.0, float(room[number[name]])), count)
        found.append(float(here.sum()) * share)
    return found


def _reached(
    lattice: LatticeData,
    values: LatticeValues,
    types: npt.NDArray[np.uint8],
    number: dict[str, int],
) -> BoolArray:
    """Whether a species can come to a site ``[species, z, y, x]``: placed, made there, by hops."""
    reached = np.zeros((len(number), *lattice.shape), bool)
    for placed in values.placed:
        if placed.positions is not None:
            reached[(placed.species, *placed.positions.T)] = True
        elif placed.count:
            reached[placed.species] |= types == placed.site_type
    before = -1
    while reached.sum() != before:
        before = int(reached.sum())
        for species in range(len(number)):
            _spread(lattice, values.diffusion[:, :, species] > 0, types, reached[species])
        for reaction, rates in zip(lattice.reactions, values.rates, strict=True):
            here = (rates > 0)[types]
            for name in reaction.reactants:
                here &= reached[number[name]]
            for name in reaction.products:
                reached[number[name]] |= here
    return reached


def _spread(
    lattice: LatticeData, passes: BoolArray, types: npt.NDArray[np.uint8], reached: BoolArray
) -> None:
    """Add the sites that hops lead to, between types ``[from, to]`` that a particle `passes`."""
    before = -1
    while passes.any() and reached.sum() != before:
        before = int(reached.sum())
        for axis in range(3):
            for side in (-1, 1):
                come = np.roll(reached, side, axis) & passes[np.roll(types, side, axis), types]
                face = FACES[2 * axis + (side < 0)]  # what came over it was rolled around
                if lattice.boundary[face].kind != "periodic":
                    edge = [slice(None)] * 3
                    edge[axis] = slice(0, 1) if side > 0 else slice(-1, None)
                    come[tuple(edge)] = False
                reached |= come

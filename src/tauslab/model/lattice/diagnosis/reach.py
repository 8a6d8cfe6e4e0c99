"""Where the species of a lattice can come to, by site types, and which reactions never happen."""

from __future__ import annotations

import numpy as np

from tauslab.base.arrays import BoolArray
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.diagnosis.occupancy import expected_occupancy
from tauslab.model.lattice.values import LatticeValues


def reached_types(lattice: LatticeData, values: LatticeValues) -> BoolArray:
    """Whether a species can come to a site type ``[site type, species]``.

    It is placed there, made there, comes over a held face or hops there, whether or not such sites
    lie side by side: what is False is so for any geometry.
    """
    there = values.sites_of > 0
    number = {name: index for index, name in enumerate(lattice.species)}
    reached: BoolArray = expected_occupancy(lattice, values)[0] > 0
    for ghost, ghost_type in zip(values.ghost, values.ghost_type, strict=True):
        reached |= (values.diffusion[ghost_type] > 0) & (ghost > 0) & there[:, None]
    before = -1
    reactions = list(zip(lattice.reactions, values.rates, strict=True))
    while reached.sum() != before:
        before = int(reached.sum())
        for source in np.flatnonzero(there):
            reached |= (values.diffusion[source] > 0) & reached[source] & there[:, None]
        reactions.reverse()  # a chain is followed at once, whichever way it is listed
        for reaction, rates in reactions:
            here = (rates > 0) & there
            for name in reaction.reactants:
                here &= reached[:, number[name]]
            for name in reaction.products:
                reached[:, number[name]] |= here
    return reached


def at_rest(lattice: LatticeData, values: LatticeValues, reached: BoolArray) -> list[str]:
    """Species that hop nowhere from where they can be."""
    moves = (values.diffusion > 0).any(axis=1) & reached
    return [
        name
        for index, name in enumerate(lattice.species)
        if reached[:, index].any() and not moves[:, index].any()
    ]


def never_happening(
    lattice: LatticeData, values: LatticeValues, reached: BoolArray
) -> list[tuple[str, str]]:
    """Reactions with a constant above 0 that never happen, and why."""
    number = {name: index for index, name in enumerate(lattice.species)}
    found = []
    for reaction, rates in zip(lattice.reactions, values.rates, strict=True):
        allowed = (rates > 0) & (values.sites_of > 0)
        if not (rates > 0).any():
            continue
        types = ", ".join(lattice.type_names[i] for i in np.flatnonzero(rates))
        alone = {name: reached[:, number[name]] & allowed for name in reaction.reactants}
        absent = [name for name, where in alone.items() if not where.any()]
        if not allowed.any():
            found.append((reaction.name, f"no site has the type {types}"))
        elif absent and not reached[:, number[absent[0]]].any():
            found.append((reaction.name, f"there is never any {absent[0]}"))
        elif absent:
            found.append((reaction.name, f"{absent[0]} does not come to {types}"))
        elif not np.logical_and.reduce([allowed, *alone.values()]).any():
            found.append((reaction.name, "its reactants do not come to a site type together"))
    return found

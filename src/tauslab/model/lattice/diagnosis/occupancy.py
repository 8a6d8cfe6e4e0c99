"""Particles expected in the sites of a lattice model: crowding, reactions, and what never meets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.parts import ANY, SiteReaction
from tauslab.model.lattice.values import LatticeValues

# Below 0.2527 k / (D_A + D_B) no rate constant of a cubic site gives the rate k of well-mixed
# particles (Hellander, Hellander & Petzold, Phys. Rev. E 85, 042901 (2012)).
CRITICAL = 0.2527
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
    some = np.flatnonzero(start.any(axis=0))
    ways, own = np.unique(values.diffusion[:, :, some] > 0, axis=2, return_inverse=True)
    for way in range(ways.shape[2]):
        for group in connected_types(ways[:, :, way]):
            space = sites[group].sum()
            for species in some[own == way].tolist() if space else ():
                spread[group, species] = start[group, species].sum() * sites[group] / space
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
        local = z == plane
        types[local] = lattice.sites.planes(int(plane), int(plane) + 1)[0, y[local], x[local]]
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


def reached_types(lattice: LatticeData, values: LatticeValues) -> BoolArray:
    """Return whether a species can come to a site type ``[site type, species]``.

    It is placed there, made there, comes over a held face or hops there, whether or not such sites
    lie side by side: what is False is so for any geometry.
    """
    there = _with_sites(lattice, values)
    number = {name: index for index, name in enumerate(lattice.species)}
    reached: BoolArray = expected_occupancy(lattice, values)[0] > 0
    for ghost, ghost_type in zip(values.ghost, values.ghost_type, strict=True):
        reached |= (values.diffusion[ghost_type] > 0) & (ghost > 0) & there[:, None]
    before = -1
    reactions = [
        (local, [number[name] for name in one.reactants], [number[name] for name in one.products])
        for local, one in zip(_bits((values.rates > 0) & there), lattice.reactions, strict=True)
    ]
    while reached.sum() != before:
        before = int(reached.sum())
        for source in np.flatnonzero(there):
            reached |= (values.diffusion[source] > 0) & reached[source] & there[:, None]
        for one in lattice.objects:
            own, within = (lattice.type_names.index(name) for name in (one.name, one.within))
            followers = [number[name] for name in one.follows]
            reached[own, followers] |= reached[within, followers]
        reactions.reverse()  # a chain is followed at once, whichever way it is listed
        types = _bits(reached.T)
        for allowed, reactants, products in reactions:
            local = allowed
            for species in reactants:
                local &= types[species]
            for species in products:
                types[species] |= local
        reached = _from_bits(types, len(there)).T
    return reached


def _bits(rows: BoolArray) -> list[int]:
    """A whole number for each row, with a bit for each of its entries."""
    packed = np.packbits(rows, axis=1, bitorder="little")
    return [int.from_bytes(row, "little") for row in packed]


def _from_bits(numbers: Sequence[int], width: int) -> BoolArray:
    """The rows, of which `_bits` made numbers."""
    size = -(-width // 8)
    packed = np.frombuffer(b"".join(one.to_bytes(size, "little") for one in numbers), np.uint8)
    rows = np.unpackbits(packed.reshape(-1, size), axis=1, count=width, bitorder="little")
    return rows.view(bool)


def _with_sites(lattice: LatticeData, values: LatticeValues) -> BoolArray:
    """Return which types have sites; that of an object where it covers some ``[site type]``."""
    there: BoolArray = values.sites_of > 0
    for one in lattice.objects:
        own, within = (lattice.type_names.index(name) for name in (one.name, one.within))
        there[own] |= there[within]
    return there


def at_rest(lattice: LatticeData, values: LatticeValues, reached: BoolArray) -> list[str]:
    """Species that hop nowhere from where they can be, nor move with an object."""
    moves: BoolArray = np.asarray((values.diffusion > 0).any(axis=1))
    for one, coefficients in zip(lattice.objects, values.objects, strict=True):
        numbers = [lattice.species.index(name) for name in one.follows]
        moves[lattice.type_names.index(one.within), numbers] = np.array(coefficients) > 0
    moves &= reached
    return [
        name
        for index, name in enumerate(lattice.species)
        if reached[:, index].any() and not moves[:, index].any()
    ]


def trapped(lattice: LatticeData, values: LatticeValues) -> list[tuple[str, str]]:
    """Species and site types of particles at the start that neither move nor react there.

    Species that neither move nor react in any site type, such as obstacles, are not listed.
    """
    placed: BoolArray = expected_occupancy(lattice, values)[0] > 0
    busy: BoolArray = np.asarray((values.diffusion > 0).any(axis=1))
    number = {name: index for index, name in enumerate(lattice.species)}
    for reaction, rates in zip(lattice.reactions, values.rates, strict=True):
        for name in reaction.reactants:
            busy[rates > 0, number[name]] = True
    for one in lattice.objects:
        busy[:, [number[name] for name in one.follows]] = True
    types, species = np.nonzero(placed & ~busy & busy.any(axis=0))
    names = zip(species.tolist(), types.tolist(), strict=True)
    return [(lattice.species[one], lattice.type_names[where]) for one, where in names]


def never_happening(
    lattice: LatticeData, values: LatticeValues, reached: BoolArray
) -> list[tuple[str, str]]:
    """Reactions with a constant above 0 that never happen, and why."""
    number = {name: index for index, name in enumerate(lattice.species)}
    there, result = _with_sites(lattice, values), []
    comes_to, happening = _bits(reached.T), _bits((values.rates > 0) & there)
    for reaction, rates, local in zip(lattice.reactions, values.rates, happening, strict=True):
        together = local
        for name in reaction.reactants:
            together &= comes_to[number[name]]
        if together or not (rates > 0).any():
            continue
        allowed = (rates > 0) & there
        types = ", ".join(lattice.type_names[i] for i in np.flatnonzero(rates))
        alone = {name: reached[:, number[name]] & allowed for name in reaction.reactants}
        absent = [name for name, where in alone.items() if not where.any()]
        if not allowed.any():
            result.append((reaction.name, f"no site has the type {types}"))
        elif absent and not reached[:, number[absent[0]]].any():
            result.append((reaction.name, f"there is never any {absent[0]}"))
        elif absent:
            result.append((reaction.name, f"{absent[0]} does not come to {types}"))
        else:
            result.append((reaction.name, "its reactants do not come to a site type together"))
    return result


@dataclass(frozen=True)
class Pair:
    """A reaction of two particles: the spacing over the smallest that can give its rate."""

    reaction: str
    site_type: str
    ratio: float


def critical_spacings(
    lattice: LatticeData, values: LatticeValues, reached: BoolArray
) -> list[Pair]:
    """For every reaction of two particles the site type with the smallest h / h_crit.

    h_crit = `CRITICAL` k / (D_A + D_B) with k = (constant of a site) h^3 and the largest D of hops
    into its sites.  A ratio of 0 stands for particles that do not move.

    Parameters
    ----------
    reached
        Whether a species comes to a site type ``[site type, species]``.  Types to which one of the
        two never comes count only where there is no other.
    """
    number = {name: index for index, name in enumerate(lattice.species)}
    pairs = []
    fastest = values.diffusion.max(axis=0)
    for reaction, rates in zip(lattice.reactions, values.rates, strict=True):
        if reaction.order != 2:
            continue
        both = [number[name] for name, count in reaction.reactants.items() for _ in range(count)]
        together = (rates > 0) & (values.sites_of > 0) & reached[:, both].all(axis=1)
        ratios = []
        for site_type in np.flatnonzero(together if together.any() else rates):
            moving = float(fastest[site_type, both].sum())
            critical = CRITICAL * float(rates[site_type]) * lattice.site_volume
            ratio = lattice.spacing * moving / critical if critical > 0 else math.inf
            ratios.append((ratio, lattice.type_names[site_type]))
        if ratios:
            ratio, name = min(ratios)
            pairs.append(Pair(reaction.name, name, ratio))
    return pairs


def pair_warnings(lattice: LatticeData, values: LatticeValues, pairs: list[Pair]) -> list[str]:
    """A sentence for each reaction whose particles meet too seldom, the rarest first.

    In a single site all particles meet.
    """
    reactions = {reaction.name: reaction for reaction in lattice.reactions}
    result = []
    for pair in sorted(pairs, key=lambda pair: pair.ratio):
        if pair.ratio >= 1 or values.sites_of[lattice.type_names.index(pair.site_type)] == 1:
            continue
        why = "meet too seldom in so small sites"
        if pair.ratio == 0:
            why = "do not move there"
            still = _without_diffusion(lattice, reactions[pair.reaction])
            why += f" (no diffusion is given of {' and '.join(still)})" if still else ""
        result.append(
            f"reaction {pair.reaction} in {pair.site_type}: its particles {why}, so it is slower "
            "than its constant says"
        )
    return result


def _without_diffusion(lattice: LatticeData, reaction: SiteReaction) -> list[str]:
    named = {rule.species for rule in lattice.diffusion}
    return [name for name in reaction.reactants if ANY not in named and name not in named]

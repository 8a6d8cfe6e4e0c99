"""A lattice as a well-stirred network: site by site, exactly, or all of it as one volume."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray
from tauslab.base.errors import ModelError
from tauslab.base.option_names import warn
from tauslab.model.expressions.host_math import value_of
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.parts import FACES, positive, short
from tauslab.model.lattice.placement import ParticleStart
from tauslab.model.lattice.values import LatticeValues, lattice_values
from tauslab.model.network.equations import equation_text
from tauslab.model.network.network import Network

_MOST_SPECIES = 100_000
Site = tuple[int, int, int]


def per_site_network(
    lattice: LatticeData, *, seed: int, parameters: Mapping[str, float] | None = None
) -> Network:
    """Return what `Lattice.to_network` does, with some parameters replaced.

    Raises
    ------
    ModelError
        The model is wrong, or has too many species at too many sites.
    """
    _require_no_objects(lattice)
    if not (isinstance(seed, Integral) and 0 <= seed < 1 << 64):
        raise ModelError(f"seed {short(seed)}: a whole number from 0 to 2^64 - 1 is expected")
    values = lattice_values(lattice, parameters)
    total = math.prod(lattice.shape) * len(lattice.species)
    if total > _MOST_SPECIES:
        raise ModelError(
            f"{lattice.name}: {math.prod(lattice.shape)} sites with {len(lattice.species)} species "
            f"make a network of {total} species; at most {_MOST_SPECIES} are allowed"
        )
    network = Network(f"{lattice.name}_sites", t_end=lattice.t_end)
    start = ParticleStart(
        lattice.sites, values.placed, lattice.slots, np.uint16, lattice.type_names
    )
    particles = start.planes(0, lattice.shape[0], seed)
    for site in np.ndindex(lattice.shape):
        counts = np.bincount(particles[site], minlength=len(lattice.species) + 1)[1:]
        for name, count in zip(lattice.species, counts.tolist(), strict=True):
            network.add_species(_at(name, site), count)
    types = lattice.sites.planes(0, lattice.shape[0])
    for site in np.ndindex(lattice.shape):
        _add_reactions(network, lattice, values, site, int(types[site]))
        for axis in range(3):
            for side in (-1, 1):
                _add_hops(network, lattice, values, site, (axis, side))
    return network


def well_stirred_network(
    lattice: LatticeData,
    volume: str | float = "lattice",
    parameters: Mapping[str, float] | None = None,
) -> Network:
    """Return what `Lattice.well_stirred` does."""
    values = lattice_values(lattice, parameters)
    _warn_of_open_faces(lattice, values)
    network = Network(f"{lattice.name}_well_stirred", t_end=lattice.t_end)
    counts = np.zeros(len(lattice.species), np.int64)
    for placed in values.placed:
        counts[placed.species] += placed.count
    for name, count in zip(lattice.species, counts.tolist(), strict=True):
        network.add_species(name, count)
    if volume == "reachable":
        _require_no_objects(lattice)
        result = mixed_rates(lattice, values)
    else:
        n_sites = _sites_in(lattice, values, volume)
        result = [
            float(rates.max()) * value_of("pow", n_sites, 1 - reaction.order)
            for reaction, rates in zip(lattice.reactions, values.rates, strict=True)
        ]
    for reaction, rate in zip(lattice.reactions, result, strict=True):
        network.add_reaction(
            equation_text(reaction.reactants, reaction.products), rate=rate, name=reaction.name
        )
    return network


def _warn_of_open_faces(lattice: LatticeData, values: LatticeValues) -> None:
    """Warn of faces that particles cross: the network has no such exchange."""
    faces = [
        face
        for face, ghost in zip(FACES, values.ghost_type, strict=True)
        if lattice.boundary[face].kind in ("absorbing", "held")
        and (values.diffusion[:, ghost].any() or values.diffusion[ghost].any())
    ]
    if faces:
        warn(
            f"{lattice.name}: the well-stirred network has no exchange of particles across the "
            f"faces {', '.join(faces)}"
        )


def _require_no_objects(lattice: LatticeData) -> None:
    if lattice.objects:
        raise ModelError(f"{lattice.name}: a network has no objects of several sites")


def _sites_in(lattice: LatticeData, values: LatticeValues, volume: str | float) -> float:
    if volume == "lattice":
        n_sites = float(values.sites_of.sum())
    elif isinstance(volume, str):
        n_sites = float(values.sites_of[lattice.type_number(volume, "well-stirred volume")])
    else:
        n_sites = positive(volume, "well-stirred volume", "m^3") / lattice.site_volume
    if not n_sites > 0:
        raise ModelError(f"well-stirred volume {volume!r}: it must be above 0")
    return n_sites


def _add_reactions(
    network: Network, lattice: LatticeData, values: LatticeValues, site: Site, site_type: int
) -> None:
    for reaction, rates in zip(lattice.reactions, values.rates, strict=True):
        if rates[site_type] > 0:
            sides = [
                {_at(name, site): count for name, count in side.items()}
                for side in (reaction.reactants, reaction.products)
            ]
            network.add_reaction(
                equation_text(*sides), rate=float(rates[site_type]), name=_at(reaction.name, site)
            )


def _add_hops(
    network: Network, lattice: LatticeData, values: LatticeValues, site: Site, way: tuple[int, int]
) -> None:
    """Hops from a site across one of its faces, and into it from ghost sites behind."""
    axis, side = way
    target = list(site)
    target[axis] += side
    inside = 0 <= target[axis] < lattice.shape[axis]
    face = FACES[2 * axis + (side > 0)]
    kind = lattice.boundary[face].kind
    if not inside and kind == "periodic":
        target[axis] %= lattice.shape[axis]
    elif not inside and kind == "reflecting":
        return
    gone = not inside and kind != "periodic"
    local = _type_at(lattice, site)
    row = FACES.index(face)
    there = values.ghost_type[row] if gone else _type_at(lattice, (target[0], target[1], target[2]))
    for index, name in enumerate(lattice.species):
        out = float(values.diffusion[local, there, index]) / (lattice.spacing * lattice.spacing)
        label = f"{_at(name, site)}_{'zyx'[axis]}{'p' if side > 0 else 'm'}"
        if out > 0:
            product = "" if gone else _at(name, (target[0], target[1], target[2]))
            network.add_reaction(f"{_at(name, site)} -> {product}", rate=out, name=label)
        into = float(values.diffusion[there, local, index]) / (lattice.spacing * lattice.spacing)
        held = float(values.ghost[row, index]) * into
        if gone and held > 0:
            network.add_reaction(f"-> {_at(name, site)}", rate=held, name=f"{label}_in")


def _type_at(lattice: LatticeData, site: Site) -> int:
    return int(lattice.sites.planes(site[0], site[0] + 1)[0, site[1], site[2]])


def _at(name: str, site: Site) -> str:
    return "_".join([name, *map(str, site)])


def mixed_rates(lattice: LatticeData, values: LatticeValues) -> list[float]:
    """Stochastic constants of the reactions in the limit of fast diffusion.

    A particle is at each of the S sites that its species can come to with probability 1 / S, so
    A + B has the sum of the sites' constants, over the sites that both can come to, by S_A S_B.
    """
    number = {name: index for index, name in enumerate(lattice.species)}
    types = lattice.sites.planes(0, lattice.shape[0])
    reached = _reached(lattice, values, types, number)
    space = reached.reshape(len(number), -1).sum(axis=1)
    result = []
    for reaction, rates in zip(lattice.reactions, values.rates, strict=True):
        local, share = rates[types], 1.0
        for name, count in reaction.reactants.items():
            local = np.where(reached[number[name]], local, 0.0)
            share /= value_of("pow", max(1.0, float(space[number[name]])), count)
        result.append(float(local.sum()) * share)
    _warn_of_uneven(lattice, values, types, reached)
    return result


def _warn_of_uneven(
    lattice: LatticeData, values: LatticeValues, types: npt.NDArray[np.uint8], reached: BoolArray
) -> None:
    """Warn of a species that hops more easily one way, so that it is not spread evenly."""
    for name, there, diffusion in zip(
        lattice.species, reached, np.moveaxis(values.diffusion, -1, 0), strict=True
    ):
        uneven = (diffusion != diffusion.T)[types]
        for axis in range(3):
            beside, both = np.roll(types, 1, axis), there & np.roll(there, 1, axis)
            if lattice.boundary[FACES[2 * axis]].kind != "periodic":
                both[(slice(None),) * axis + (0,)] = False
            at = np.argwhere(both & np.take_along_axis(uneven, beside[..., None], -1)[..., 0])
            if len(at):
                ends = (lattice.type_names[kind[tuple(at[0])]] for kind in (types, beside))
                warn(
                    f"{lattice.name}: {name} hops between {' and '.join(ends)} with a coefficient "
                    "for each direction, so fast diffusion does not spread it evenly over the "
                    "sites that it can reach, as well_stirred('reachable') assumes"
                )
                break


def _reached(
    lattice: LatticeData,
    values: LatticeValues,
    types: npt.NDArray[np.uint8],
    number: dict[str, int],
) -> BoolArray:
    """Return where species can come to ``[species, z, y, x]``: placed, made there, by hops."""
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
            local = (rates > 0)[types]
            for name in reaction.reactants:
                local &= reached[number[name]]
            for name in reaction.products:
                reached[number[name]] |= local
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

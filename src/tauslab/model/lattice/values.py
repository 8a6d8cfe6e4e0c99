"""A lattice model in numbers: every name resolved, every expression evaluated, all checked."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.host import require_memory
from tauslab.base.option_names import warn
from tauslab.model.expressions.expression import symbols
from tauslab.model.expressions.infix import as_expression
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.parts import (
    ANY,
    FACES,
    LITRES,
    MOST_SPECIES,
    VOLUMES,
    Placement,
    Positions,
    SiteObject,
    SiteReaction,
    number,
)
from tauslab.model.lattice.site_map import UniformSites
from tauslab.model.names import AVOGADRO, require_mapping
from tauslab.model.network.counts import some

_MOST_IN_GHOST = 4  # times the slots of a site; what hops in beyond would only wait, without end
_COPIES = 4  # of the table of coefficients, in what is made from it


@dataclass(frozen=True)
class Placed:
    """Particles of one placement: `count` over the sites of a type, or at `positions`."""

    species: int
    site_type: int
    count: int
    positions: Positions | None = None


@dataclass(frozen=True)
class LatticeValues:
    """Numbers of a lattice model; species, site types and reactions in the model's order.

    `diffusion` m^2/s of hops ``[from type, to type, species]``; `on_surface`, of those whose
    coefficient is one on a surface, `Surface.ratio` and `Surface.quickening`, else 1 and 0
    ``[2, from type, to type, species]``, None where there are none; `rates` 1/s for a site
    ``[reaction, site type]``; `ghost` particles for each ghost site ``[face, species]``;
    `ghost_type` ``[face]``; `sites_of` sites of each type ``[site type]``; `objects`
    m^2/s of each species that an object follows.
    """

    parameters: Mapping[str, float]
    diffusion: FloatArray
    rates: FloatArray
    placed: tuple[Placed, ...]
    ghost: FloatArray
    ghost_type: tuple[int, ...]
    sites_of: IntArray
    on_surface: FloatArray | None = None
    objects: tuple[tuple[float, ...], ...] = ()

    def initial(self, n_species: int) -> IntArray:
        """Particles at the start ``[site type, species]`` of placements by type."""
        counts = np.zeros((len(self.sites_of), n_species), np.int64)
        for placed in self.placed:
            if placed.positions is None:
                counts[placed.site_type, placed.species] += placed.count
        return counts


def lattice_values(
    lattice: LatticeData, overrides: Mapping[str, float] | None = None
) -> LatticeValues:
    """Evaluate a model, with some parameters and initial numbers of species replaced.

    Raises
    ------
    ModelError
        A name is not defined, a value is not allowed, or particles do not fit on the lattice.
    ConfigError
        `overrides` names something that is neither a parameter nor a species that one placement
        puts on the lattice at random.
    """
    if not 1 <= len(lattice.species) <= MOST_SPECIES:
        raise ModelError(
            f"{lattice.name} has {len(lattice.species)} species; 1 to {MOST_SPECIES} are allowed"
        )
    _check_masks(lattice)
    require_mapping(overrides or {}, "values of parameters and species", '{"k": 2.0}')
    given = dict(overrides or {})
    numbers_of = {name: given.pop(name) for name in tuple(given) if is_start(lattice, name)}
    values = lattice.parameter_values(given or None)
    species = {name: index for index, name in enumerate(lattice.species)}
    sites_of = _sites_of(lattice)
    for where, name in lattice.first_order_volumes:
        if name not in VOLUMES:
            lattice.type_number(name, f"{where}: volume")
    rates = _rates_of(lattice, lattice.reactions, species, values, sites_of)
    ghost, ghost_type = _ghosts(lattice, species, values)
    placed = tuple(
        _placed(lattice, place, species, values, sites_of)
        for place in _placements(lattice, numbers_of)
    )
    _check_surfaces(lattice, sites_of)
    diffusion, on_surface, objects = _diffusion(lattice, species, values)
    _check_objects(lattice, sites_of)
    numbers = LatticeValues(
        values, diffusion, rates, placed, ghost, ghost_type, sites_of, on_surface, objects
    )
    _check_capacity(lattice, numbers)
    return numbers


def is_start(lattice: LatticeData, name: str) -> bool:
    """Return whether a name stands for the initial number of a species: it is not a parameter."""
    return name in lattice.species and name not in lattice.parameters


def _placements(lattice: LatticeData, numbers_of: Mapping[str, float]) -> list[Placement]:
    """Placements of the model; of some species with other numbers of particles."""
    for name in numbers_of:
        own = [place for place in lattice.placements if place.species == name]
        if len(own) != 1 or own[0].positions is not None:
            result = "particles one by one" if len(own) == 1 else f"{len(own)} placements"
            raise ConfigError(
                f"{name}: its initial number can be set where one placement gives a count or a "
                f"concentration; {lattice.name} has {result} of {name}"
            )
    return [
        replace(
            place,
            count=as_expression(float(numbers_of[place.species]), place.species),
            concentration=None,
        )
        if place.species in numbers_of
        else place
        for place in lattice.placements
    ]


def species_number(name: str, species: Mapping[str, int], where: str) -> int:
    """Number of a species; a `ModelError` that begins with `where` if there is none."""
    if name not in species:
        raise ModelError(f"{where}: {name!r} is not a species; species: {some(species)}")
    return species[name]


def _check_masks(lattice: LatticeData) -> None:
    left = lattice.sites_of_no_mask()
    if left:
        first = lattice.type_names[0]
        raise ModelError(
            f"site type {first!r} of {lattice.name}, the first, is given by a mask or region, and "
            f"{left} of {math.prod(lattice.shape)} sites are in none: add a type for these before "
            f"it (add_site_type('outside'); in TOML site_types = ['outside', {first!r}, ...])"
        )


def _sites_of(lattice: LatticeData) -> IntArray:
    _require_counts(lattice)
    counted: IntArray = lattice.sites.per_plane.sum(axis=0)
    types = lattice.type_names
    beyond = np.flatnonzero(counted[len(types) :])
    if len(beyond):
        raise ModelError(
            f"sites of {lattice.name}: type number {len(types) + int(beyond[0])} has no name; "
            f"numbers 0 to {len(types) - 1} have"
        )
    return counted[: len(types)]


def _require_counts(lattice: LatticeData) -> None:
    """Refuse what counting sites by planes and types would not find memory for."""
    z, y, x = lattice.shape
    require_memory(256 * 8 * z, f"counting the sites of {z} planes")
    if not isinstance(lattice.sites, UniformSites):
        require_memory(9 * y * x, f"counting the sites of a plane of {y} x {x} sites")


def _diffusion(
    lattice: LatticeData, species: Mapping[str, int], values: Mapping[str, float]
) -> tuple[FloatArray, FloatArray | None, tuple[tuple[float, ...], ...]]:
    """Coefficients of particles that hop by themselves, and of those that objects follow."""
    n_types = len(lattice.type_names)
    require_memory(
        8 * n_types * n_types * len(species) * _COPIES,
        f"diffusion of {len(species)} species between {n_types} site types",
    )
    coefficients = np.zeros((n_types, n_types, len(species)))
    on_surface = None
    if any(rule.surface for rule in lattice.diffusion):
        on_surface = np.stack([np.ones_like(coefficients), np.zeros_like(coefficients)])
    names = {one.name for one in lattice.objects}
    _apply_rules(lattice, coefficients, on_surface, species, values, names, of_objects=False)
    for one in lattice.objects:
        _fill_sites(coefficients, one, *map(lattice.type_names.index, (one.within, one.name)))
        if on_surface is not None:
            own, within = (lattice.type_names.index(name) for name in (one.name, one.within))
            on_surface[:, own], on_surface[:, :, own] = (
                on_surface[:, within],
                on_surface[:, :, within],
            )
    _apply_rules(lattice, coefficients, on_surface, species, values, names, of_objects=True)
    objects = []
    for one in lattice.objects:
        within = lattice.type_number(one.within, f"object {one.name}")
        numbers = [species_number(name, species, f"object {one.name}") for name in one.follows]
        objects.append(tuple(coefficients[within, within, numbers].tolist()))
    for name in (*lattice.pinned, *(name for one in lattice.objects for name in one.follows)):
        coefficients[:, :, species_number(name, species, "pin")] = 0
    return coefficients, on_surface, tuple(objects)


def _fill_sites(coefficients: FloatArray, one: SiteObject, within: int, own: int) -> None:
    """Give the sites of an object the coefficients of those that it covers, or a part of them.

    Where it blocks, what is made in it can still leave.
    """
    coefficients[own, :] = coefficients[within, :] * (one.factor or 1)
    coefficients[:, own] = coefficients[:, within] * one.factor
    coefficients[own, own] = coefficients[within, within] * (one.factor or 1)


def _apply_rules(
    lattice: LatticeData, coefficients: FloatArray, on_surface: FloatArray | None,
    species: Mapping[str, int], values: Mapping[str, float], names: Collection[str], *,
    of_objects: bool,
) -> None:  # fmt: skip
    """Apply the rules of diffusion that name the sites of an object, or the others."""
    for rule in lattice.diffusion:
        if of_objects != (rule.source in names or rule.target in names):
            continue
        where = f"diffusion of {rule.species} from {rule.source} to {rule.target}"
        source, target = (
            slice(None) if name == ANY else lattice.type_number(name, where)
            for name in (rule.source, rule.target)
        )
        which = slice(None) if rule.species == ANY else species_number(rule.species, species, where)
        coefficients[source, target, which] = number(rule.coefficient, values, where)
        if on_surface is not None:
            surface = rule.surface
            on_surface[0, source, target, which] = 1.0
            on_surface[1, source, target, which] = 0.0
            if surface is not None:
                coefficients[source, target, which] /= surface.ratio
                on_surface[0, source, target, which] = surface.ratio
                on_surface[1, source, target, which] = surface.quickening


def _check_objects(lattice: LatticeData, sites_of: IntArray) -> None:
    """Refuse objects that share species, fill an axis, or have sites at the start."""
    taken = set(lattice.pinned)
    for one in lattice.objects:
        where = f"object {one.name}"
        for name in one.follows:
            if name in taken:
                raise ModelError(f"{where}: {name} is pinned, or another object follows it")
            taken.add(name)
        if sites_of[lattice.type_number(one.name, where)]:
            raise ModelError(f"{where}: sites of its type are where its particles are, no others")
        extent = np.ptp(np.array(one.sites), axis=0) + 2
        if (extent > np.array(lattice.shape)).any():
            raise ModelError(f"{where} needs a lattice of {extent.tolist()} sites or more")


def _check_surfaces(lattice: LatticeData, sites_of: IntArray) -> None:
    """Refuse a surface whose sites have changed since it was measured."""
    surfaces = [
        (f"diffusion of {rule.species} on a surface", rule.surface.site_types, rule.surface.sites)
        for rule in lattice.diffusion
        if rule.surface is not None
    ]
    surfaces += [
        (f"reaction {one.name}", one.site_types, one.surface_sites)
        for one in lattice.reactions
        if one.site_area is not None
    ]
    for where, site_types, before in surfaces:
        numbers = [lattice.type_number(name, where) for name in site_types]
        sites = int(sites_of[numbers].sum())
        if sites != before:
            method = "add_reaction" if where.startswith("reaction") else "add_diffusion"
            raise ModelError(
                f"{where}: {' and '.join(site_types)} had {before} sites when {method} was called, "
                f"and has {sites} now: call it after the last mask"
            )


def rates_behind(lattice: LatticeData, names: Collection[str]) -> list[int] | None:
    """Numbers of the reactions whose rates use parameters; None if anything else uses them."""
    behind, waiting = set(names), set(names)
    while waiting:
        waiting = {n for n, tree in lattice.parameters.items() if symbols(tree) & waiting} - behind
        behind |= waiting
    trees = [rule.coefficient for rule in lattice.diffusion]
    trees += [tree for place in lattice.placements for tree in (place.count, place.concentration)
              if tree is not None]  # fmt: skip
    trees += [tree for face in lattice.boundary.values() for tree in face.concentrations.values()]
    if not behind <= lattice.parameters.keys() or any(symbols(tree) & behind for tree in trees):
        return None
    return [j for j, one in enumerate(lattice.reactions) if symbols(one.rate) & behind]


def rates_with(
    lattice: LatticeData, reactions: Sequence[int], overrides: Mapping[str, float]
) -> tuple[dict[str, float], FloatArray]:
    """Values of all parameters, and of some reactions rates 1/s ``[reaction, site type]``.

    As `lattice_values` gives them with these parameters replaced.
    """
    values = lattice.parameter_values(
        {name: value for name, value in overrides.items() if not is_start(lattice, name)} or None
    )
    species = {name: index for index, name in enumerate(lattice.species)}
    some = [lattice.reactions[j] for j in reactions]
    return values, _rates_of(lattice, some, species, values, _sites_of(lattice))


def _rates_of(
    lattice: LatticeData,
    reactions: Sequence[SiteReaction],
    species: Mapping[str, int],
    values: Mapping[str, float],
    sites_of: IntArray,
) -> FloatArray:
    rates = np.zeros((len(reactions), len(sites_of)))
    for row, reaction in zip(rates, reactions, strict=True):
        where = f"reaction {reaction.name}"
        for name in (*reaction.reactants, *reaction.products):
            species_number(name, species, where)
        made = sum(reaction.products.values())
        if made > lattice.slots:
            raise ModelError(f"{where} makes {made} particles; a site holds {lattice.slots}")
        volume = _volume(lattice, reaction, sites_of)
        rate = number(reaction.rate, values, f"{where}: rate", species)
        rate = reaction.site_rate(rate, lattice.site_volume, volume)
        if not np.isfinite(rate):
            raise ModelError(f"{where}: its rate for a site is {rate:g} per second")
        row[types_of(lattice, reaction)] = rate
    return rates


def types_of(lattice: LatticeData, reaction: SiteReaction) -> list[int]:
    """Numbers of the site types for which the model has a reaction, and of what covers them."""
    types = reaction.site_types or lattice.type_names
    types = (*types, *(one.name for one in lattice.objects if one.within in types))
    return [lattice.type_number(name, f"reaction {reaction.name}") for name in types]


def _volume(lattice: LatticeData, reaction: SiteReaction, sites_of: IntArray) -> float | None:
    """Volume (m^3) of a stochastic constant; None if the constant is macroscopic."""
    volume = reaction.volume
    if not isinstance(volume, str):
        return volume
    if volume == "site":
        return lattice.site_volume
    if volume == "lattice":
        return lattice.site_volume * int(sites_of.sum())
    where = f"reaction {reaction.name}: volume"
    sites = int(sites_of[lattice.type_number(volume, where)])
    if sites == 0:
        raise ModelError(f"{where}: no site has the type {volume!r}")
    return lattice.site_volume * sites


def _ghosts(
    lattice: LatticeData, species: Mapping[str, int], values: Mapping[str, float]
) -> tuple[FloatArray, tuple[int, ...]]:
    ghost = np.zeros((len(FACES), len(species)))
    ghost_type = []
    for row, face in zip(ghost, FACES, strict=True):
        boundary = lattice.boundary[face]
        where = f"face {face}"
        opposite = face[0] + ("+" if face[1] == "-" else "-")
        if boundary.kind == "periodic" and lattice.boundary[opposite].kind != "periodic":
            raise ModelError(
                f"{where} is periodic and {opposite} is {lattice.boundary[opposite].kind}: "
                "both faces of an axis must be periodic, or none"
            )
        name = boundary.site_type
        ghost_type.append(0 if name is None else lattice.type_number(name, where))
        for species_name, tree in boundary.concentrations.items():
            concentration = number(tree, values, f"{where}: concentration of {species_name}")
            row[species_number(species_name, species, where)] = (
                concentration * AVOGADRO * LITRES * lattice.site_volume
            )
        if not row.sum() <= _MOST_IN_GHOST * lattice.slots:
            raise ModelError(
                f"{where}: its concentrations are {row.sum():.4g} particles in a ghost site of "
                f"{lattice.spacing:g} m; a site holds {lattice.slots}, a ghost site up to "
                f"{_MOST_IN_GHOST * lattice.slots}"
            )
    return ghost, tuple(ghost_type)


def _placed(
    lattice: LatticeData,
    place: Placement,
    species: Mapping[str, int],
    values: Mapping[str, float],
    sites_of: IntArray,
) -> Placed:
    where = f"place {place.species}"
    which = species_number(place.species, species, where)
    if place.positions is not None:
        return Placed(which, 0, len(place.positions), place.positions)
    assert place.site_type is not None
    site_type = lattice.type_number(place.site_type, where)
    if place.count is not None:
        amount = number(place.count, values, f"{where}: count")
        if round(amount) != amount:
            warn(f"{where}: count {amount:g} is not whole and was rounded")
    else:
        assert place.concentration is not None
        molar = number(place.concentration, values, f"{where}: concentration")
        volume = float(sites_of[site_type]) * lattice.site_volume
        amount = molar * AVOGADRO * LITRES * volume
        if 0 < amount <= 0.5:  # rounded to even
            warn(
                f"{where}: {molar:g} mol/L in the sites of {place.site_type!r} are {amount:.2g} "
                "particles, rounded to none"
            )
    sites = int(sites_of[site_type])
    if not amount <= sites * lattice.slots:
        raise ModelError(_over_capacity(place.site_type, f"{amount:.10g}", sites, lattice.slots))
    return Placed(which, site_type, round(amount))


def _check_capacity(lattice: LatticeData, numbers: LatticeValues) -> None:
    """Refuse more particles at a position or in a site type than its sites can hold."""
    given = [one.positions for one in numbers.placed if one.positions is not None]
    if given:
        at, held = np.unique(
            np.ravel_multi_index(tuple(np.concatenate(given).T), lattice.shape), return_counts=True
        )
        if held.max(initial=0) > lattice.slots:
            full = np.unravel_index(at[held.argmax()], lattice.shape)
            raise ModelError(
                f"positions: {held.max()} particles at {[int(i) for i in full]}; "
                f"a site holds {lattice.slots}"
            )
    wanted = numbers.initial(len(lattice.species)).sum(axis=1)
    for name, particles, sites in zip(lattice.type_names, wanted, numbers.sites_of, strict=True):
        space = int(sites) * lattice.slots
        if particles > space:
            raise ModelError(_over_capacity(name, str(particles), int(sites), lattice.slots))


def _over_capacity(site_type: str, particles: str, sites: int, slots: int) -> str:
    return (
        f"site type {site_type!r}: {particles} particles are placed in {sites} sites, which hold "
        f"{sites * slots}"
    )

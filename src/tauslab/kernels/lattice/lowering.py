"""From a `Lattice` to numbers: what the lattice kernels and their tables are made from.

A step of the model is `diffusion_substeps` equal parts. Each part is a whole step of Hallock &
Peterson (2013, Algorithm 1): hops along x, y and z, then its share of the `reaction_substeps`
passes of reactions, which last ``step / reaction_substeps`` each. The hop probability to one side
is q = D tau / h^2 with the tau of a part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.model.lattice.diagnosis.time_step import (
    Splitting,
    choose_time_step,
    error_slopes,
    splitting_of,
    splitting_warning,
)
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.lattice.parts import FACES, MAX_HOP
from tauslab.model.lattice.placement import Particles, ParticleStart
from tauslab.model.lattice.site_map import SiteArray, SiteMap
from tauslab.model.lattice.values import LatticeValues, lattice_values, rates_with, types_of

_MOST_STEPS = 1000  # between two moves of an object
_MOST_LISTS = 64  # of names, whose numbers are kept
_MOST_MOVE = 0.75  # probability that it moves; objects that always do keep the parity of places
_ROUNDED = 1e-12


@dataclass(frozen=True)
class LatticeReaction:
    """One reaction by species numbers.

    `reactants` are the 0 to 2 species that react, ascending, 2 X as (i, i); `products` those that
    are made, ascending, each as often as it is made.  `rates` ``[site type]`` is the stochastic
    constant of one site in 1/s, 0 where it does not happen: the propensity is rate, rate n,
    rate n_A n_B or rate n (n - 1) / 2.  `types` are numbers of the site types that it is given for.
    """

    name: str
    reactants: tuple[int, ...]
    products: tuple[int, ...]
    rates: FloatArray
    types: list[int]


@dataclass(frozen=True)
class LatticeObject:
    """A rigid set of sites that goes with particles, by numbers.

    `offsets` ``[n, 3]`` from the site of the particle, which is the first; `species` that it
    follows, with a probability of a move to one side along one axis in `hops`, for each of `moves`
    moves after every `every` steps of the model. Its sites are of type `site_type` where it covers
    those of type `within`; `enters` ``[species]`` says who may be there.
    """

    name: str
    offsets: IntArray
    species: tuple[int, ...]
    hops: FloatArray
    every: int
    moves: int
    within: int
    site_type: int
    enters: BoolArray


class Numbering(dict[str, int]):
    """Numbers of names. Those of whole lists are kept: a hook gives the same lists again."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__((name, number) for number, name in enumerate(names))
        self._lists: dict[tuple[str, ...], IntArray] = {}

    def of(self, names: Iterable[str]) -> IntArray:
        """Numbers of several names, in their order; KeyError has the first that is not known."""
        key = tuple(names)
        result = self._lists.get(key)
        if result is None:
            result = np.array([self[name] for name in key], np.int64)
            result.flags.writeable = False
            if len(self._lists) == _MOST_LISTS:
                self._lists.clear()
            self._lists[key] = result
        return result


@dataclass(frozen=True)
class LoweredLattice:
    """A lattice model ready for the kernels.

    Attributes
    ----------
    shape
        Sites along z, y and x.
    spacing, step
        Edge of a site in metres; a step of the model in seconds, all its parts together.
    diffusion_substeps, reaction_substeps
        Parts of a step, each with one pass of hops along x, y and z; passes of reactions in the
        whole step, a multiple of these.
    splitting
        What it costs that hops and reactions take turns, with the model's rates.
    slots
        Particles a site can hold: 8, 16 or 32.
    species, site_types
        Names by number; a particle is stored as species + 1, in `particle_type`.
    hop
        ``[from type, to type, species]``: probability of a hop to one side along one axis in one
        diffusion pass; 0 is a wall.
    boundary
        Of the faces z-, z+, y-, y+, x-, x+: ``periodic``, ``reflecting``, ``absorbing``, ``held``.
    ghost
        ``[face, species]``: mean number of particles of each ghost site behind a held face, 0
        behind others.
    ghost_type
        ``[face]``: site type of the ghost sites, for `hop` into and out of them.
    reactions
        In the model's order.
    pinned
        Species that stay at their sites, whatever a new shape makes of these.
    objects
        In the model's order.
    parameters
        Values of the model's parameters that all this was made with.
    crowded
        Particles a site where they stand closest, if no longer as at the start.
    """

    name: str
    shape: tuple[int, int, int]
    spacing: float
    step: float
    diffusion_substeps: int
    reaction_substeps: int
    splitting: Splitting
    slots: int
    species: tuple[str, ...]
    site_types: tuple[str, ...]
    hop: FloatArray
    boundary: tuple[str, ...]
    ghost: FloatArray
    ghost_type: tuple[int, ...]
    reactions: tuple[LatticeReaction, ...]
    parameters: Mapping[str, float]
    site_map: SiteMap = field(repr=False)
    start: ParticleStart = field(repr=False)
    crowded: float | None = None
    pinned: tuple[int, ...] = ()
    objects: tuple[LatticeObject, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the axes of what is counted of it."""
        named = {"site_type": self.site_types, "species": self.species, "reaction": self.reactions}
        tracked = {"object": len(self.tracked), "axis": 3} if self.objects else {}
        return {axis: len(names) for axis, names in named.items()} | tracked

    @cached_property
    def tracked(self) -> tuple[str, ...]:
        """Names of the objects at t = 0, whose positions are recorded: ``ribosome 0``, ..."""
        placed = self.start.placed
        counts = {
            one.name: sum(each.count for each in placed if each.species in one.species)
            for one in self.objects
        }
        return tuple(f"{name} {at}" for name, count in counts.items() for at in range(count))

    @cached_property
    def rates(self) -> FloatArray:
        """Stochastic constants ``[reaction, site type]`` per site."""
        shape = (len(self.reactions), len(self.site_types))
        return np.array([one.rates for one in self.reactions], np.float64).reshape(shape)

    @cached_property
    def reacting(self) -> BoolArray:
        """Whether the model has a reaction in a site type ``[reaction, site type]``."""
        result = np.zeros(self.rates.shape, bool)
        for row, reaction in zip(result, self.reactions, strict=True):
            row[reaction.types] = True
        return result

    @cached_property
    def numbers(self) -> Numbering:
        """Numbers of species by name."""
        return Numbering(self.species)

    @cached_property
    def reaction_numbers(self) -> Numbering:
        """Numbers of reactions by name."""
        return Numbering(reaction.name for reaction in self.reactions)

    def with_objects(self, types: BoolArray) -> BoolArray:
        """Site types ``[site type]`` that are chosen, and those that objects change for them."""
        result = types.copy()
        for one in self.objects:
            result[one.within] |= types[one.site_type]
        for one in self.objects:
            result[one.site_type] |= result[one.within]
        return result

    @cached_property
    def closed(self) -> BoolArray:
        """Site types ``[site type]`` that no particle can hop into, wherever objects are."""
        return ~self.with_objects(np.asarray((self.hop > 0).any(axis=(0, 2))))

    @property
    def crowding(self) -> float:
        """Particles a site where they stand closest, by which kernels are chosen."""
        return self.start.crowding if self.crowded is None else self.crowded

    @property
    def particle_type(self) -> type[np.uint8 | np.uint16]:
        """Type of a stored particle: uint8 up to 255 species, uint16 above."""
        return self.start.dtype

    def splitting_with(self, rates: FloatArray, numbers: Iterable[int] | None = None) -> Splitting:
        """Cost of turns of hops and reactions, with rates ``[reaction, site type]``.

        Of the reactions `numbers`, or of all.
        """
        reactants = [reaction.reactants for reaction in self.reactions]
        seconds = self.step / self.diffusion_substeps
        return splitting_of(
            self.hop, reactants, rates, seconds, self.shape, self.sites_of_type, numbers
        )

    def splitting_slopes(self, kinds: Sequence[int]) -> FloatArray:
        """Bound of that cost, over the rate of all reactions of such reactants, ``[site type]``."""
        seconds = self.step / self.diffusion_substeps
        return error_slopes(self.hop, kinds, seconds, self.shape, self.sites_of_type)

    @cached_property
    def sites_of_type(self) -> IntArray:
        """Sites ``[site type]`` of the model, of each type."""
        return np.asarray(self.site_map.per_plane.sum(axis=0)[: len(self.site_types)])

    def splitting_warning(self, found: Splitting | None = None) -> str | None:
        """A sentence where that is much, with the model's rates or as `found`; else None."""
        names = [reaction.name for reaction in self.reactions]
        reported = splitting_warning(found or self.splitting, names, self.site_types)
        return None if reported is None else f"{self.name}: {reported}"

    def sites(self, z0: int, z1: int) -> SiteArray:
        """Site types ``[z1 - z0, y, x]`` of planes z0 to z1 - 1; not to be written to."""
        return self.site_map.planes(z0, z1)

    def particles(self, z0: int, z1: int, seed: int, replica: int = 0) -> Particles:
        """Particles at t = 0 ``[z1 - z0, y, x, slots]`` of planes z0 to z1 - 1.

        Species + 1, the first slots of a site filled first, 0 for an empty slot.  The same for
        whatever slabs are asked for.
        """
        return self.start.planes(z0, z1, seed, replica)


def lower_lattice(
    model: Lattice, *, max_hop: float = MAX_HOP, step: float | None = None,
    reaction_substeps: int | None = None, parameters: Mapping[str, float] | None = None,
    values: LatticeValues | None = None,
) -> LoweredLattice:  # fmt: skip
    """Make numbers of a model, and choose the passes of a step.

    Parameters
    ----------
    max_hop, step, reaction_substeps
        As `tauslab.model.lattice.diagnosis.time_step.choose_time_step` takes them.
    parameters
        Values in place of the model's.
    values
        The model in numbers with these, if it was evaluated before.

    Raises
    ------
    ModelError
        The model is wrong; the element is named.
    ConfigError
        An option is not allowed.
    """
    values = values or lattice_values(model, parameters)
    chosen = choose_time_step(
        model, values, max_hop=max_hop, step=step, reaction_substeps=reaction_substeps
    )
    tau, passes = chosen.step, chosen.diffusion_substeps
    return LoweredLattice(
        name=model.name,
        shape=model.shape,
        spacing=model.spacing,
        step=tau,
        diffusion_substeps=passes,
        reaction_substeps=chosen.reaction_substeps,
        splitting=chosen.splitting,
        slots=model.slots,
        species=tuple(model.species),
        site_types=model.type_names,
        hop=_hops(values, tau / passes, model.spacing),
        boundary=tuple(model.boundary[face].kind for face in FACES),
        ghost=values.ghost,
        ghost_type=values.ghost_type,
        reactions=_reactions(model, values),
        parameters=values.parameters,
        site_map=model.sites,
        start=ParticleStart(
            model.sites,
            values.placed,
            model.slots,
            np.uint8 if len(model.species) <= 255 else np.uint16,
            model.type_names,
        ),
        pinned=tuple(model.species.index(name) for name in model.pinned),
        objects=_objects(model, values, tau),
    )


def _hops(values: LatticeValues, seconds: float, spacing: float) -> FloatArray:
    """Probability of a hop to one side in a pass ``[from type, to type, species]``.

    On a surface passes of hops are faster than continuous time by 1 / (1 - c q), so q / (1 + c q)
    takes the place of q.
    """
    hop: FloatArray = values.diffusion * seconds / (spacing * spacing)
    return hop if values.on_surface is None else hop / (1 + values.on_surface[1] * hop)


def with_rates(
    before: LoweredLattice, model: Lattice, reactions: Sequence[int], values: Mapping[str, float]
) -> LoweredLattice:
    """The lattice with other values of parameters, which only rates of `reactions` use.

    Its cost of turns is that of the fastest rates so far.
    """
    parameters, result = rates_with(model, reactions, values)
    which = np.array(reactions, np.int64)
    rates = before.rates.copy()
    rates[which] = result
    splitting = before.splitting
    if (result > before.rates[which]).any():
        now = before.splitting_with(rates, reactions)
        splitting = max(splitting, now, key=lambda one: one.error)
    changed = list(before.reactions)
    for j, row in zip(reactions, result, strict=True):
        changed[j] = replace(changed[j], rates=row)
    made = replace(before, reactions=tuple(changed), parameters=parameters, splitting=splitting)
    made.__dict__["rates"] = rates
    return made


def _objects(model: Lattice, values: LatticeValues, step: float) -> tuple[LatticeObject, ...]:
    """Objects with their moves: the probability of any is 3/4 at most."""
    result = []
    for one, coefficients in zip(model.objects, values.objects, strict=True):
        hops = np.array(coefficients) * (step / (model.spacing * model.spacing))
        share = len(FACES) * float(hops.max()) / _MOST_MOVE  # of a move, in a step
        longest = _MOST_STEPS if share * _MOST_STEPS <= 1 else int((1 + _ROUNDED) / share)
        every = one.every or max(1, longest)
        moves = max(1, math.ceil(every * share * (1 - _ROUNDED)))
        within, own = (model.type_number(name, "object") for name in (one.within, one.name))
        species = tuple(model.species.index(name) for name in one.follows)
        enters = np.asarray(values.diffusion[within, own] > 0)
        if one.factor > 0:
            enters |= values.diffusion[within, within] == 0
        enters[list(species)] = True
        offsets = np.array(one.sites, np.int64)
        hops *= every / moves
        result.append(
            LatticeObject(one.name, offsets, species, hops, every, moves, within, own, enters)
        )
    return tuple(result)


def _reactions(model: Lattice, values: LatticeValues) -> tuple[LatticeReaction, ...]:
    number = {name: index for index, name in enumerate(model.species)}

    def listed(amounts: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(sorted(number[name] for name in amounts for _ in range(amounts[name])))

    return tuple(
        LatticeReaction(r.name, listed(r.reactants), listed(r.products), rates, types_of(model, r))
        for r, rates in zip(model.reactions, values.rates, strict=True)
    )

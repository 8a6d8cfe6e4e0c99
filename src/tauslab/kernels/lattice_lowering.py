"""From a `Lattice` to numbers: what the lattice kernels and their tables are made from.

A full step is `diffusion_substeps` passes of hops along x, y and z, then `reaction_substeps`
passes of reactions of ``step / reaction_substeps`` each (Hallock & Peterson 2013, Algorithm 1).
The hop probability to one side is q = D tau / h^2 with the tau of a diffusion pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError, ModelError
from tauslab.model.lattice import Lattice
from tauslab.model.lattice_parts import FACES
from tauslab.model.lattice_values import LatticeValues, lattice_values
from tauslab.model.occupancy import lost_fraction_argument
from tauslab.model.placement import Particles, Start
from tauslab.model.site_map import SiteArray, SiteMap

FloatArray = npt.NDArray[np.float64]

MAX_HOP = 1 / 6  # at which a step of diffusion is Gaussian to fourth order
MAX_REACTION = 0.02  # a0 tau of a site: above it more than 1 % of the reactions are lost
_MOST_REACTION_SUBSTEPS = 1000
_ROUNDING = 1e-9  # a step that was chosen for q = --max-hop needs no second pass


@dataclass(frozen=True)
class LatticeReaction:
    """One reaction by species numbers.

    `reactants` are the 0 to 2 species that react, ascending, 2 X as (i, i); `products` those that
    are made, ascending, each as often as it is made.  `rates` ``[site type]`` is the stochastic
    constant of one site in 1/s, 0 where it does not happen: the propensity is rate, rate n,
    rate n_A n_B or rate n (n - 1) / 2.
    """

    name: str
    reactants: tuple[int, ...]
    products: tuple[int, ...]
    rates: FloatArray


@dataclass(frozen=True)
class LoweredLattice:
    """A lattice model ready for the kernels.

    Attributes
    ----------
    shape
        Sites along z, y and x.
    spacing, step
        Edge of a site in metres; a full step in seconds.
    diffusion_substeps, reaction_substeps
        Passes of hops along x, y, z, and of reactions, in a full step.
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
    parameters
        Values of the model's parameters that all this was made with.
    """

    name: str
    shape: tuple[int, int, int]
    spacing: float
    step: float
    diffusion_substeps: int
    reaction_substeps: int
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
    start: Start = field(repr=False)

    @property
    def particle_type(self) -> type[np.uint8 | np.uint16]:
        """Type of a stored particle: uint8 up to 255 species, uint16 above."""
        return self.start.dtype

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
    model: Lattice,
    *,
    max_hop: float = MAX_HOP,
    step: float | None = None,
    reaction_substeps: int | None = None,
    parameters: Mapping[str, float] | None = None,
) -> LoweredLattice:
    """Make numbers of a model, and choose the passes of a step.

    Parameters
    ----------
    max_hop
        Largest allowed hop probability to one side, below 1/2.  If the model's step exceeds it,
        the step is divided into passes.
    step
        In place of the model's step, in seconds; a model without one takes the longest that needs
        one pass.
    reaction_substeps
        In place of the model's; by default as many as keep a0 tau of a site, with the particles
        expected there, within `MAX_REACTION`.
    parameters
        Values in place of the model's.

    Raises
    ------
    ModelError
        The model is wrong; the element is named.
    ConfigError
        An option is not allowed.
    """
    if not 0 < max_hop < 0.5:
        raise ConfigError(
            f"--max-hop {max_hop:g}: a hop probability must be above 0 and below 1/2, where every "
            "particle would move at every step"
        )
    values = lattice_values(model, parameters)
    tau = _step(model, values, max_hop, step)
    fastest = float(values.diffusion.max()) * tau / model.spacing**2
    passes = max(1, math.ceil(fastest / max_hop * (1 - _ROUNDING)))
    return LoweredLattice(
        name=model.name,
        shape=model.shape,
        spacing=model.spacing,
        step=tau,
        diffusion_substeps=passes,
        reaction_substeps=_reaction_substeps(model, values, tau, reaction_substeps),
        slots=model.slots,
        species=tuple(model.species),
        site_types=model.type_names,
        hop=values.diffusion * (tau / passes) / model.spacing**2,
        boundary=tuple(model.boundary[face].kind for face in FACES),
        ghost=values.ghost,
        ghost_type=values.ghost_type,
        reactions=_reactions(model, values),
        parameters=values.parameters,
        site_map=model.sites,
        start=Start(
            model.sites,
            values.placed,
            model.slots,
            np.uint8 if len(model.species) <= 255 else np.uint16,
            model.type_names,
        ),
    )


def _step(model: Lattice, values: LatticeValues, max_hop: float, step: float | None) -> float:
    chosen = step if step is not None else model.step
    if chosen is not None:
        if not (math.isfinite(chosen) and chosen > 0):
            raise ConfigError(f"step {chosen:g} s: it must be finite and above 0")
        return chosen
    fastest = float(values.diffusion.max())
    if fastest == 0:
        raise ModelError(f"{model.name}: nothing diffuses, so its step must be given")
    return max_hop * model.spacing**2 / fastest


def _reaction_substeps(
    model: Lattice, values: LatticeValues, tau: float, chosen: int | None
) -> int:
    chosen = chosen if chosen is not None else model.reaction_substeps
    if chosen is None:
        largest = lost_fraction_argument(model, values, tau)
        chosen = min(math.ceil(largest / MAX_REACTION), _MOST_REACTION_SUBSTEPS) or 1
    if chosen < 1:
        raise ConfigError(f"reaction sub-steps {chosen}: there must be 1 or more")
    return chosen


def _reactions(model: Lattice, values: LatticeValues) -> tuple[LatticeReaction, ...]:
    number = {name: index for index, name in enumerate(model.species)}

    def listed(amounts: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(sorted(number[name] for name in amounts for _ in range(amounts[name])))

    return tuple(
        LatticeReaction(r.name, listed(r.reactants), listed(r.products), rates)
        for r, rates in zip(model.reactions, values.rates, strict=True)
    )

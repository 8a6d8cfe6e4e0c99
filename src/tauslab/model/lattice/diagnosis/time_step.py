"""How a lattice model's time step is divided, and what the division costs in accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import assigned
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.diagnosis.splitting import Splitting, splitting_of
from tauslab.model.lattice.limits import MAX_HOP
from tauslab.model.lattice.values import LatticeValues

MOST_DIFFUSION_PASSES = 10_000  # of a step
MOST_REACTION_PASSES = 4096  # of a pass of diffusion: 12 bits of a draw's address
LEAST_STEP = 1e-12  # seconds of a step that the model does not give: molecules do not diffuse below
_IN_WATER = 1e-8  # m^2/s, faster than any molecule in water
_ROUNDING = 1e-9  # a step that was chosen for q = --max-hop needs no second pass


@dataclass(frozen=True)
class TimeStep:
    """A step of `step` seconds, divided into `diffusion_substeps` equal parts.

    A part is a pass of hops along x, y, z, then its share of the `reaction_substeps` passes of
    reactions, a whole number. `hop` is the largest hop probability to one side in a part, and
    `splitting` what it costs that hops and reactions take turns.
    """

    step: float
    diffusion_substeps: int
    reaction_substeps: int
    hop: float
    splitting: Splitting


def choose_time_step(
    lattice: LatticeData,
    values: LatticeValues,
    *,
    max_hop: float = MAX_HOP,
    step: float | None = None,
    reaction_substeps: int | None = None,
) -> TimeStep:
    """Choose the passes of a step: by the model and the options alone, never by the machine.

    Parameters
    ----------
    max_hop
        Largest allowed hop probability to one side, below 1/2.  A step that exceeds it is divided.
    step
        In place of the model's step, in seconds; a model without one takes the longest that needs
        one pass.
    reaction_substeps
        In place of the model's; by default one for each pass of diffusion, and more change no law.
        Every part of the step takes as many, so it is rounded up to a multiple of
        `diffusion_substeps`.

    Raises
    ------
    ModelError
        The model has no step and nothing diffuses.
    ConfigError
        An option is not allowed.
    """
    if not 0 < max_hop < 0.5:
        raise ConfigError(
            f"{assigned('max_hop')}{max_hop:g}: a hop probability must be above 0 and below 1/2, "
            "where every particle would move at every step"
        )
    fastest = fastest_hop(lattice, values)
    tau = step if step is not None else lattice.step
    if tau is None:
        if fastest == 0:
            raise ModelError(f"{lattice.name}: nothing diffuses, so its step must be given")
        tau = max_hop / fastest
        if tau < LEAST_STEP:
            raise ModelError(
                f"{lattice.name}: {_hops(lattice, values)} need steps of {tau:.3g} s, below "
                f"{LEAST_STEP:g} s{_likely_unit(values)}"
            )
    if not (math.isfinite(tau) and tau > 0):
        raise ConfigError(f"step {tau:g} s: it must be finite and above 0")
    wanted = fastest * tau / max_hop * (1 - _ROUNDING)
    if not wanted <= MOST_DIFFUSION_PASSES:
        raise ModelError(
            f"{lattice.name}: {_hops(lattice, values)} need {wanted:.4g} passes of diffusion in a "
            f"step of {tau:g} s; at most {MOST_DIFFUSION_PASSES} are done"
            f"{_likely_unit(values) or f': a step of {tau / wanted:.3g} s needs one'}"
        )
    passes = max(1, math.ceil(wanted))
    if not math.isfinite(float(values.rates.sum(axis=0).max(initial=0)) * tau * lattice.slots**2):
        raise ModelError(f"{lattice.name}: rates of reactions in a site are too large for a double")
    chosen = reaction_substeps if reaction_substeps is not None else lattice.reaction_substeps
    if chosen is None:
        chosen = passes
    if chosen < 1:
        raise ConfigError(f"reaction sub-steps {chosen}: there must be 1 or more")
    chosen = -(-chosen // passes) * passes
    if chosen // passes > MOST_REACTION_PASSES:
        raise ConfigError(
            f"{lattice.name}: {chosen // passes} passes of reactions after a pass of hops; at most "
            f"{MOST_REACTION_PASSES} are possible: choose a shorter step"
        )
    return TimeStep(
        tau, passes, chosen, fastest * tau / passes, _splitting(lattice, values, tau / passes)
    )


def _splitting(lattice: LatticeData, values: LatticeValues, seconds: float) -> Splitting:
    """What passes of this length cost, in the site types that there are."""
    number = {name: index for index, name in enumerate(lattice.species)}
    reactants = [
        [number[name] for name, count in reaction.reactants.items() for _ in range(count)]
        for reaction in lattice.reactions
    ]
    hop = values.diffusion * (seconds / (lattice.spacing * lattice.spacing))
    rates = np.where(values.sites_of > 0, values.rates, 0.0)
    return splitting_of(hop, reactants, rates, seconds, lattice.shape, values.sites_of)


def fastest_hop(lattice: LatticeData, values: LatticeValues) -> float:
    """Largest D / h^2, hops to one side in a second.

    Raises
    ------
    ModelError
        It is too large for a double.
    """
    fastest = float(values.diffusion.max()) / (lattice.spacing * lattice.spacing)
    if not math.isfinite(fastest):
        raise ModelError(
            f"{lattice.name}: {_hops(lattice, values)} are too many for a double"
            f"{_likely_unit(values)}"
        )
    return fastest


def _hops(lattice: LatticeData, values: LatticeValues) -> str:
    """The fastest species, as the beginning of a sentence."""
    species = int(values.diffusion.max(axis=(0, 1)).argmax())
    return (
        f"hops of {lattice.species[species]}, D = {float(values.diffusion.max()):g} m^2/s, between "
        f"sites of {lattice.spacing:g} m"
    )


def _likely_unit(values: LatticeValues) -> str:
    """What was probably meant, where a number is far from any molecule's."""
    if float(values.diffusion.max()) <= _IN_WATER:
        return ""
    return (
        ": diffusion coefficients are in m^2/s, where 1 um^2/s is 1e-12 and a small molecule in "
        "water has 1e-9, and spacing is in metres"
    )

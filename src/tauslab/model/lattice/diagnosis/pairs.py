"""Whether particles of a lattice model meet often enough for the reactions of two of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import BoolArray
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.parts import ANY, SiteReaction
from tauslab.model.lattice.values import LatticeValues

# Below 0.2527 k / (D_A + D_B) no rate constant of a cubic site gives the rate k of well-mixed
# particles (Hellander, Hellander & Petzold, Phys. Rev. E 85, 042901 (2012)).
CRITICAL = 0.2527


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
    for reaction, rates in zip(lattice.reactions, values.rates, strict=True):
        if reaction.order != 2:
            continue
        both = [number[name] for name, count in reaction.reactants.items() for _ in range(count)]
        together = (rates > 0) & (values.sites_of > 0) & reached[:, both].all(axis=1)
        ratios = []
        for site_type in np.flatnonzero(together if together.any() else rates):
            moving = float(values.diffusion[:, site_type, both].max(axis=0).sum())
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
    found = []
    for pair in sorted(pairs, key=lambda pair: pair.ratio):
        if pair.ratio >= 1 or values.sites_of[lattice.type_names.index(pair.site_type)] == 1:
            continue
        why = "meet too seldom in so small sites"
        if pair.ratio == 0:
            why = "do not move there"
            still = _without_diffusion(lattice, reactions[pair.reaction])
            why += f" (no diffusion is given of {' and '.join(still)})" if still else ""
        found.append(
            f"reaction {pair.reaction} in {pair.site_type}: its particles {why}, so it is slower "
            "than its constant says"
        )
    return found


def _without_diffusion(lattice: LatticeData, reaction: SiteReaction) -> list[str]:
    named = {rule.species for rule in lattice.diffusion}
    return [name for name in reaction.reactants if ANY not in named and name not in named]

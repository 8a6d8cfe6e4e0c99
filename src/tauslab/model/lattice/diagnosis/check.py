"""The report of ``tauslab check`` on a lattice: time step, spacing, occupancy, memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.diagnosis.membranes import (
    SLOW,
    confined_sites,
    surface_warnings,
    unevenness,
)
from tauslab.model.lattice.diagnosis.occupancy import (
    CROWDED,
    at_rest,
    critical_spacings,
    expected_occupancy,
    never_happening,
    pair_warnings,
    reached_types,
    site_propensities,
    trapped,
)
from tauslab.model.lattice.diagnosis.time_step import Splitting, choose_time_step, splitting_warning
from tauslab.model.lattice.parts import FACES, MAX_HOP
from tauslab.model.lattice.values import LatticeValues, lattice_values
from tauslab.model.network.text import shortened

_STATES = ("start", "spread")
_MOST_LINES = 12
_MOST_NAMED = 4  # species


def lattice_facts(
    lattice: LatticeData, max_hop: float = MAX_HOP, parameters: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Return the facts of `lattice_report`, for programs.

    Raises
    ------
    ModelError
        The model is wrong; the element is named.
    """
    values = lattice_values(lattice, parameters)
    chosen = choose_time_step(lattice, values, max_hop=max_hop)
    itemsize = 1 if len(lattice.species) <= 255 else 2
    reached = reached_types(lattice, values)
    pairs = critical_spacings(lattice, values, reached)
    sites = math.prod(lattice.shape)
    return {
        "name": lattice.name,
        "kind": "lattice",
        "shape": list(lattice.shape),
        "spacing": lattice.spacing,
        "species": list(lattice.species),
        "reactions": len(lattice.reactions),
        "parameters": dict(values.parameters),
        "t_end": lattice.t_end,
        "boundary": {face: lattice.boundary[face].kind for face in FACES},
        "sites": dict(zip(lattice.type_names, values.sites_of.tolist(), strict=True)),
        "particles": _particles(lattice, values),
        "at_rest": at_rest(lattice, values, reached),
        "never_happening": dict(never_happening(lattice, values, reached)),
        "trapped": trapped(lattice, values),
        "step": chosen.step,
        "diffusion_substeps": chosen.diffusion_substeps,
        "reaction_substeps": chosen.reaction_substeps,
        "largest_hop": chosen.hop,
        "splitting": _splitting(lattice, chosen.splitting),
        "pairs": [vars(pair) for pair in pairs],
        "slow_pairs": pair_warnings(lattice, values, pairs),
        "reactions_per_site_and_pass": _propensities(lattice, values, chosen.step)
        if lattice.reactions
        else {},
        "confined": [
            dataclasses.asdict(one) for one in confined_sites(lattice, values, chosen.hop)
        ],
        "slots": lattice.slots,
        "occupancy": list(_occupancy(lattice, values)),
        "producing": [
            one.name
            for one in lattice.reactions
            if sum(one.products.values()) > sum(one.reactants.values())
        ],
        "bytes": {"particles": sites * lattice.slots * itemsize, "sites": sites},
        "notes": list(lattice.notes),
    }


def lattice_report(
    lattice: LatticeData, max_hop: float = MAX_HOP, parameters: Mapping[str, float] | None = None
) -> list[str]:
    """Return lines on what a lattice holds and how well its step and spacing suit it."""
    facts = lattice_facts(lattice, max_hop, parameters)
    z, y, x = lattice.shape
    lines = [
        (
            f"lattice {lattice.name}: {z} x {y} x {x} sites (z, y, x) of "
            f"{lattice.spacing * 1e9:g} nm, {len(lattice.species)} species, "
            f"{len(lattice.reactions)} reactions"
        ),
        "site types: " + ", ".join(f"{name} {n}" for name, n in facts["sites"].items()),
        "faces: " + ", ".join(f"{face} {kind}" for face, kind in facts["boundary"].items()),
        "particles: " + (", ".join(f"{k} {n}" for k, n in facts["particles"].items()) or "none"),
        *_reach_lines(facts),
        *_step_lines(facts),
        *_pair_lines(facts),
        *_surface_lines(lattice),
        *_confined_lines(facts["confined"]),
        *_occupancy_lines(facts),
        (
            f"memory: {_mebibytes(facts['bytes']['particles'])} of particles, "
            f"{_mebibytes(facts['bytes']['sites'])} of site types"
        ),
    ]
    if lattice.t_end is not None:
        lines.append(f"end time in the file: {lattice.t_end:g} s")
    return lines + [f"note: {note}" for note in lattice.notes]


def poisson_tail(mean: float, most: int) -> float:
    """Probability that a Poisson number exceeds `most`.

    >>> f"{poisson_tail(2.0, 8):.2g}, {poisson_tail(6.0, 16):.2g}"
    '0.00024, 0.00017'
    """
    if mean <= 0:
        return 0.0
    k = most + 1
    term = math.exp(k * math.log(mean) - mean - math.lgamma(k + 1))
    total = 0.0
    while term > total * 1e-17 or k < mean:
        total += term
        k += 1
        term *= mean / k
    return min(total, 1.0)


def _splitting(lattice: LatticeData, found: Splitting) -> dict[str, Any]:
    """The error by turns, and where it is largest; None where nothing competes with a hop."""
    names = [reaction.name for reaction in lattice.reactions]
    some = found.error > 0
    return {
        "error": found.error,
        "reaction": names[found.reaction] if some else None,
        "site_type": lattice.type_names[found.site_type] if some else None,
        "warning": splitting_warning(found, names, lattice.type_names),
    }


def waiting_part(mean: float, slots: int) -> float:
    """Expected part of the particles without a slot, where sites hold a Poisson number.

    >>> f"{waiting_part(5.0, 8):.3f}, {waiting_part(5.0, 16):.1g}"
    '0.024, 5e-06'
    """
    if mean <= 0:
        return 0.0
    # E(N - s; N > s) = m P(N >= s) - s P(N >= s + 1)
    excess = mean * poisson_tail(mean, slots - 1) - slots * poisson_tail(mean, slots)
    return max(0.0, excess / mean)


def _particles(lattice: LatticeData, values: LatticeValues) -> dict[str, int]:
    counts = dict.fromkeys(lattice.species, 0)
    for placed in values.placed:
        counts[lattice.species[placed.species]] += placed.count
    return {name: count for name, count in counts.items() if count}


def _propensities(lattice: LatticeData, values: LatticeValues, tau: float) -> dict[str, float]:
    """Largest expected propensity in a site times the step, by reaction."""
    states = expected_occupancy(lattice, values)
    largest = np.stack([site_propensities(lattice, values, s) for s in states]).max(axis=0)
    return {
        reaction.name: float(row.max()) * tau
        for reaction, row in zip(lattice.reactions, largest, strict=True)
    }


def _occupancy(lattice: LatticeData, values: LatticeValues) -> Iterator[dict[str, Any]]:
    for state, occupancy in zip(_STATES, expected_occupancy(lattice, values), strict=True):
        for name, sites, row in zip(lattice.type_names, values.sites_of, occupancy, strict=True):
            mean = float(row.sum())
            if mean > 0:
                tail = poisson_tail(mean, lattice.slots)
                yield {
                    "state": state,
                    "site_type": name,
                    "mean": mean,
                    "probability_above_slots": tail,
                    "waiting_part": waiting_part(mean, lattice.slots),
                    "sites_above_slots": tail * int(sites),
                }


def _reach_lines(facts: Mapping[str, Any]) -> list[str]:
    still = facts["at_rest"]
    lines = [f"species that do not move: {', '.join(still[:_MOST_LINES])}" if still else ""]
    lines[0] += f" and {len(still) - _MOST_LINES} more" if len(still) > _MOST_LINES else ""
    result = facts["never_happening"].items()
    lines += [f"warning: {never_sentence(name, why)}" for name, why in result]
    lines += [f"warning: {sentence}" for sentence in _trapped_sentences(facts["trapped"])]
    return [line for line in lines if line]


def _trapped_sentences(trapped_in: Sequence[tuple[str, str]]) -> list[str]:
    """Return a sentence for each species of `trapped`."""
    types: dict[str, list[str]] = {}
    for name, where in trapped_in:
        types.setdefault(name, []).append(where)
    return [
        f"{name} in {shortened(where, _MOST_NAMED)} neither moves nor reacts there: place it "
        "elsewhere, or add diffusion from there"
        for name, where in types.items()
    ]


def never_sentence(reaction: str, why: str) -> str:
    """Return the sentence on a reaction of `never_happening`."""
    return f"reaction {reaction} never happens unless a hook changes that: {why}"


def model_warnings(
    lattice: LatticeData, parameters: Mapping[str, float] | None = None, *, hooks: bool = False,
    hop: float | None = None, values: LatticeValues | None = None,
) -> list[str]:  # fmt: skip
    """Return the warnings of `lattice_report` that a run gives before it begins.

    Parameters
    ----------
    parameters
        Values of a run; a reaction that these alone stop is meant not to happen.
    hooks
        Whether there are hooks, which may make happen what else never does.
    hop
        The hop probability to one side of the fastest species, if it is known.
    values
        The model in numbers with these parameters, if it was evaluated before.
    """
    values = values or lattice_values(lattice, parameters)
    reached = reached_types(lattice, values)
    never = dict(never_happening(lattice, values, reached))
    pairs = critical_spacings(lattice, values, reached)
    alive = [pair for pair in pairs if pair.reaction not in never]
    if parameters and never:
        own = lattice_values(lattice)
        always = dict(never_happening(lattice, own, reached_types(lattice, own)))
        never = {name: why for name, why in never.items() if name in always}
    message = [] if hooks else [never_sentence(name, why) for name, why in never.items()]
    if not hooks:
        message += _trapped_sentences(trapped(lattice, values))
    return [
        *message,
        *pair_warnings(lattice, values, alive),
        *surface_warnings(lattice, values, hop),
    ]


def _step_lines(facts: Mapping[str, Any]) -> list[str]:
    passes, reactions = facts["diffusion_substeps"], facts["reaction_substeps"]
    result = facts["splitting"]
    lines = [
        (
            f"step: {facts['step']:g} s, {_passes(passes, 'diffusion')} with hop probability up to "
            f"{facts['largest_hop']:.4g} to a side, {_passes(reactions, 'reactions')}"
        )
    ]
    if result["reaction"] is not None:
        lines.append(
            "splitting of hops and reactions: the mean time until a reaction happens is off by "
            f"{100 * result['error']:.2g} % at most ({result['reaction']} in {result['site_type']})"
        )
    if result["warning"] is not None:
        lines.append(f"warning: {result['warning']}")
    busiest = sorted(facts["reactions_per_site_and_pass"].items(), key=lambda item: -item[1])
    shown = [f"{name} {value:.2g}" for name, value in busiest[:_MOST_LINES] if value > 0]
    if shown:
        lines.append(f"reactions expected in a site and step, at most: {', '.join(shown)}")
    return lines


def _pair_lines(facts: Mapping[str, Any]) -> list[str]:
    closest = sorted(facts["pairs"], key=lambda pair: pair["ratio"])
    if not closest:
        return []
    shown = ", ".join(
        f"{p['reaction']} {p['ratio']:.3g} ({p['site_type']})" for p in closest[:_MOST_LINES]
    )
    return [
        f"spacing over the critical one, h/h_crit: {shown}",
        *(f"warning: {sentence}" for sentence in facts["slow_pairs"]),
    ]


def _surface_lines(lattice: LatticeData) -> list[str]:
    """Say for each surface by how much the coefficients of hops exceed the coefficients on it."""
    result: dict[str, list[str]] = {}
    for one in dict.fromkeys(rule.surface for rule in lattice.diffusion if rule.surface):
        name = f"surface {' and '.join(one.site_types)}: {one.sites} sites"
        result.setdefault(name, []).append(f"D / {one.ratio:.3g}")
    return [
        f"{name}, coefficients of hops are {' and '.join(dict.fromkeys(ratios))}"
        for name, ratios in result.items()
    ]


def _confined_lines(found: list[dict[str, Any]]) -> list[str]:
    lines = []
    for one in found[:_MOST_LINES]:
        species, where = shortened(one["species"], _MOST_NAMED), " and ".join(one["site_types"])
        sites, pieces, left = f"{one['sites']} sites", one["pieces"], one["unestimated"]
        if pieces is None:
            lines.append(
                f"hops of {species} within {where}: {sites}; neither the pieces that hops join nor "
                f"D_eff/D were estimated, for {left}"
            )
            continue
        lines.append(
            f"hops of {species} within {where}: {sites} in {pieces} "
            f"{'piece' if pieces == 1 else 'pieces'}"
            + (f"; D_eff/D was not estimated, for {left}" if left else "")
        )
        if pieces > one["touching"]:
            lines.append(
                f"warning: hops of {species} do not join the sites of {where}: {pieces} pieces, "
                f"the largest of {one['largest']} sites, of which some touch by an edge or a "
                "corner alone: choose a thicker region, such as "
                "geometry.membrane(mask, neighbours=26)"
            )
        for hop, ratio in one["effective"]:
            lines[-1] += f", D_eff/D = {ratio:.2g} with hop probability {hop:.2g}"
        uneven = unevenness(one["axes"])
        if uneven > SLOW:
            along = ", ".join(f"{ratio:.2g}" for ratio in one["axes"])
            lines[-1] += f"; D_eff/D along z, y and x: {along}"
        far = [ratio for _, ratio in one["effective"] if abs(ratio - 1) > SLOW]
        types = repr(one["site_types"] if len(one["site_types"]) > 1 else one["site_types"][0])
        if far:
            lines.append(
                f"warning: {species} diffuses in {where} at {far[0]:.2g} of the coefficient, seen "
                f"from some sites' distance, for its sites are a staircase: add_diffusion(..., "
                f"surface={types}) gives D"
            )
    return lines


def _occupancy_lines(facts: Mapping[str, Any]) -> list[str]:
    lines = []
    for found in facts["occupancy"]:
        over = found["sites_above_slots"]
        lines.append(
            f"expected occupancy of {found['site_type']}, {found['state']}: {found['mean']:.3g} "
            f"particles per site, P(more than its {facts['slots']} slots hold) = "
            f"{found['probability_above_slots']:.2g}"
            + (f" ({over:.3g} sites)" if over >= 1 else "")
        )
        if found["waiting_part"] > CROWDED:
            lines.append(
                f"warning: {100 * found['waiting_part']:.2g} % of the particles in "
                f"{found['site_type']} are expected to wait for a slot, {found['state']}, and what "
                "waits neither hops nor reacts: take more slots, or smaller sites"
            )
    if facts["producing"]:
        lines.append(
            f"expected occupancies do not count what {shortened(facts['producing'], _MOST_NAMED)} "
            f"will make; a run warns if more than {100 * CROWDED:g} % of the particles wait"
        )
    return lines


def _passes(number: int, what: str) -> str:
    return f"{number} {'pass' if number == 1 else 'passes'} of {what}"


def _mebibytes(number: int) -> str:
    return f"{number / 2**20:.4g} MiB"

"""The division of a lattice model's time step, and what it costs in accuracy.

Hops and reactions take turns, which costs an error of reaction times: within a pass particles first
hop and then react, so a pair that meets has the whole pass to react before one of it may leave.
Alone in a periodic lattice of M sites, a pair that reacts with x in a pass (its constant times the
length) and hops by q_A and q_B takes on average, in passes,

    x^-1 + (M - 1) / (exp(x) - 1) + sum 1 / (1 - phi)     by turns, and
    x^-1 + (M - 1) / x            + sum 1 / mu            in continuous time.

The sums go over all wave vectors but 0; phi = product over axes and both particles of
1 - 2 q (1 - cos), mu = sum of 2 q (1 - cos). These are mean hitting times of a walk on a torus
(Montroll & Weiss, J. Math. Phys. 6, 167 (1965)), the first with the reaction at its time in the
pass. A particle that reacts alone, at rates that differ between site types, is such a pair with
a site that does not move, or with a plane where the type has as many sites as a section.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray, is_number
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import assigned
from tauslab.model.lattice.data import LatticeData
from tauslab.model.lattice.parts import MAX_HOP
from tauslab.model.lattice.values import LatticeValues

MOST_DIFFUSION_PASSES = 10_000  # of a step
MOST_REACTION_PASSES = 4096  # of a pass of diffusion: 12 bits of a draw's address
LEAST_STEP = 1e-12  # seconds of a step that the model does not give: molecules do not diffuse below
MOST_ERROR = 0.005  # of a mean time to react, above which a run warns
_SIDE = 16  # sites along an axis of the lattice of the sums; in larger ones the error is smaller
_HALVED = 6  # x, x/2, ...: the error is not monotonic, its bound should be
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
    lattice: LatticeData, values: LatticeValues, *, max_hop: float = MAX_HOP,
    step: float | None = None, reaction_substeps: int | None = None,
) -> TimeStep:  # fmt: skip
    """Choose the passes of a step: by the model and the options alone, never by the machine.

    Parameters
    ----------
    max_hop
        Largest allowed hop probability to one side, below 1/2.  A step that exceeds it is divided.
    step
        In place of the model's step, in seconds; a model without one takes the longest that needs
        one pass.
    reaction_substeps
        In place of the model's; by default one for each pass of diffusion. More passes change no
        distribution.
        Every part of the step takes as many, so it is rounded up to a multiple of
        `diffusion_substeps`.

    Raises
    ------
    ModelError
        The model has no step and nothing diffuses.
    ConfigError
        An option is not allowed.
    """
    if not (is_number(max_hop) and 0 < max_hop < 0.5):
        raise ConfigError(
            f"{assigned('max_hop')}{max_hop!r:.60}: a hop probability must be above 0 and "
            "below 1/2, where every particle would move at every step"
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
    """Return the error of passes of this length, in the site types that have sites."""
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
    """Return a hint at the unit where a coefficient is far above any molecule's."""
    if float(values.diffusion.max()) <= _IN_WATER:
        return ""
    return (
        ": diffusion coefficients are in m^2/s, where 1 um^2/s is 1e-12 and a small molecule in "
        "water has 1e-9, and spacing is in metres"
    )


@dataclass(frozen=True)
class Splitting:
    """The reaction and site type whose mean time to react is off most, by the fraction `error`.

    `hop` is the largest hop probability to a side in a pass of `seconds`.
    """

    error: float = 0.0
    reaction: int = 0
    site_type: int = 0
    hop: float = 0.0
    seconds: float = 0.0


def splitting_of(
    hop: FloatArray, reactants: Sequence[Sequence[int]], rates: FloatArray, seconds: float,
    shape: Sequence[int], sites_of: IntArray, numbers: Iterable[int] | None = None,
) -> Splitting:  # fmt: skip
    """The largest error by turns, of all reactions and site types.

    Parameters
    ----------
    hop
        Probability of a hop to one side in a pass ``[from type, to type, species]``.
    reactants
        Species of each reaction, 0 to 2.
    rates
        Stochastic constants of a site in 1/s ``[reaction, site type]``.
    seconds
        Length of a pass of hops.
    shape
        Sites along z, y and x.
    sites_of
        Sites of each type.
    numbers
        Reactions that are looked at; all by default.
    """
    largest = Splitting(hop=float(hop.max(initial=0.0)), seconds=seconds)
    together: dict[
        tuple[int, ...], FloatArray
    ] = {}  # reactions that the same particles choose from
    for kinds, row in zip(map(tuple, reactants), rates, strict=True):
        together[kinds] = together.get(kinds, np.zeros(len(row))) + row
    for number in range(len(reactants)) if numbers is None else numbers:
        kinds = tuple(reactants[number])
        for site_type in np.flatnonzero(rates[number]).tolist():
            total = together[kinds]
            if len(kinds) == 1 and not _differs(hop[..., kinds[0]], total, site_type):
                continue  # it takes the same time wherever the particle goes
            fastest = sorted(float(hop[site_type, :, one].max()) for one in kinds)
            fast, slow = [*reversed(fastest), 0.0, 0.0][:2]
            for sides in _walks(hop, kinds, site_type, shape, sites_of):
                error = pair_error(float(total[site_type]) * seconds, fast, slow, sides)
                if error > largest.error:
                    largest = replace(largest, error=error, reaction=number, site_type=site_type)
    return largest


def error_slopes(
    hop: FloatArray, kinds: Sequence[int], seconds: float, shape: Sequence[int], sites_of: IntArray
) -> FloatArray:
    """Upper bound of the error of such reactions, relative to their total rate, ``[site type]``.

    Parameters as of `splitting_of`; `kinds` are the reactants. In `pair_error` what is lost is
    between 0 and 1/2, and so the error below x (|walked - exact| / sites + 1/2).
    """
    result = np.zeros(len(hop))
    for site_type in range(len(hop)):
        fastest = sorted(float(hop[site_type, :, one].max()) for one in kinds)
        fast, slow = [*reversed(fastest), 0.0, 0.0][:2]
        for sides in _walks(hop, kinds, site_type, shape, sites_of) if fast > 0 else ():
            walked, exact = _hitting_sums(fast, slow, sides)
            slope = seconds * (abs(walked - exact) / math.prod(sides) + 0.5)
            result[site_type] = max(result[site_type], slope)
    return result


def _differs(hop: FloatArray, rates: FloatArray, site_type: int) -> bool:
    """Return whether a particle hops between the type and another where it reacts more slowly."""
    joined = (hop[site_type] > 0) | (hop[:, site_type] > 0)
    return bool((joined & (rates < rates[site_type])).any())


def _walks(
    hop: FloatArray, kinds: Sequence[int], site_type: int, shape: Sequence[int], sites_of: IntArray
) -> list[tuple[int, ...]]:
    """Lattices, by their sides, in which such particles may meet."""
    sides = sorted(min(size, _SIDE) for size in shape)
    section = math.prod(sorted(shape)[:2])
    if len(kinds) == 1 and section <= sites_of[site_type] > 0:
        return [(max(2, min(math.prod(shape) // int(sites_of[site_type]), _SIDE**2)),)]
    others = np.arange(len(hop)) != site_type
    if len(kinds) == 2 and len(hop) > 1 and not hop[site_type][others][:, list(kinds)].any():
        return [tuple(sides), tuple(sides[1:])]  # they stay in the type: a membrane perhaps
    return [tuple(sides)]


def pair_error(x: float, fast: float, slow: float, sides: tuple[int, ...]) -> float:
    """Fraction by which the mean time to react of a pair may be off.

    Parameters
    ----------
    x
        Its stochastic constant times the length of a pass.
    fast, slow
        Hop probabilities of both particles to a side in a pass.
    sides
        Sites of a periodic lattice along its axes.
    """
    if not (x > 0 and fast > 0):
        return 0.0
    sites = math.prod(sides)
    walked, exact = _hitting_sums(fast, slow, sides)
    largest = 0.0
    for halved in range(_HALVED):
        y = x / 2**halved
        # 1/y - 1/(exp(y) - 1), which cancels for a small y.
        lost = 0.5 - y / 12 if y < 1e-3 else 1 / y - (1 / math.expm1(y) if y < 700 else 0.0)
        largest = max(largest, abs(walked - exact - (sites - 1) * lost) / (sites / y + exact))
    return largest


@lru_cache(maxsize=1024)
def _hitting_sums(fast: float, slow: float, sides: tuple[int, ...]) -> tuple[float, float]:
    """The two sums over wave vectors."""
    phi, mu = np.ones(1), np.zeros(1)
    for size in sides:
        away = 2 * (1 - np.cos(2 * np.pi * np.arange(size) / size))
        phi = np.multiply.outer(phi, (1 - fast * away) * (1 - slow * away)).reshape(-1)
        mu = np.add.outer(mu, (fast + slow) * away).reshape(-1)
    return float((1 / (1 - phi[1:])).sum()), float((1 / mu[1:]).sum())


def splitting_warning(
    found: Splitting, reactions: Sequence[str], site_types: Sequence[str]
) -> str | None:
    """One sentence where the error is above `MOST_ERROR`; else None."""
    if found.error <= MOST_ERROR:
        return None
    shorter = MOST_ERROR / found.error
    where = f" in {site_types[found.site_type]}" if len(site_types) > 1 else ""
    return (
        f"reaction {reactions[found.reaction]}{where} is so fast that the mean time until it "
        f"happens may be off by {100 * found.error:.2g} %, because hops and reactions alternate: "
        f"{assigned('max_hop')}{found.hop * shorter:.2g}, or a step of "
        f"{found.seconds * shorter:.2g} s, keeps the error within {100 * MOST_ERROR:g} %"
    )


def truncation_text(truncated: int) -> str | None:
    """Return the sentence on so many truncated passes of sites; None for 0."""
    if not truncated:
        return None
    passes = "1 pass" if truncated == 1 else f"{truncated} passes"
    return (
        f"in {passes} of a site reactions are lost, because more happened than random draws have "
        "addresses for (about 262,000 after each pass of hops), or 49,000 products found no slot: "
        "choose a shorter step"
    )

"""What it costs that hops and reactions of a lattice take turns: an error of reaction times.

Within a pass particles first hop and then react, so a pair that meets has the whole pass to react
before one of it may leave. Alone in a periodic lattice of M sites, a pair that reacts with x in a
pass (its constant times the length) and hops by q_A and q_B takes on average, in passes,

    x^-1 + (M - 1) / (exp(x) - 1) + sum 1 / (1 - phi)     here, and
    x^-1 + (M - 1) / x            + sum 1 / mu            in continuous time.

The sums go over all wave vectors but 0; phi = product over axes and both particles of
1 - 2 q (1 - cos), mu = sum of 2 q (1 - cos). These are mean hitting times of a walk on a torus
(Montroll & Weiss, J. Math. Phys. 6, 167 (1965)), the first with the reaction at its time in the
pass. A particle that reacts alone, at rates that differ between site types, is such a pair with
a site that does not move, or with a plane where the type has as many sites as a section.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.option_names import assigned

MOST_ERROR = 0.005  # of a mean time to react, above which a run warns
_SIDE = 16  # sites along an axis of the lattice of the sums; in larger ones the error is smaller
_HALVED = 6  # x, x/2, ...: the error is not monotonic, its bound should be


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
    hop: FloatArray,
    reactants: Sequence[Sequence[int]],
    rates: FloatArray,
    seconds: float,
    shape: Sequence[int],
    sites_of: IntArray,
) -> Splitting:
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
    """
    largest = Splitting(hop=float(hop.max(initial=0.0)), seconds=seconds)
    together: dict[
        tuple[int, ...], FloatArray
    ] = {}  # reactions that the same particles choose from
    for kinds, row in zip(map(tuple, reactants), rates, strict=True):
        together[kinds] = together.get(kinds, np.zeros(len(row))) + row
    for number, kinds in enumerate(map(tuple, reactants)):
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


def _differs(hop: FloatArray, rates: FloatArray, site_type: int) -> bool:
    """Whether a particle hops between the type and another where it reacts more slowly."""
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
        f"happens may be off by {100 * found.error:.2g} %, because hops and reactions take turns: "
        f"{assigned('max_hop')}{found.hop * shorter:.2g}, or a step of "
        f"{found.seconds * shorter:.2g} s, keeps the error within {100 * MOST_ERROR:g} %"
    )

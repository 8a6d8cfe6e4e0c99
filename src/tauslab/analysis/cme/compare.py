"""An ensemble against the master equation: chi-square and total variation of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.analysis.cme.keywords import ProjectionChoices
from tauslab.analysis.cme.result import CmeResult
from tauslab.analysis.cme.solve import solve
from tauslab.base.arrays import FloatArray, Int32Array
from tauslab.base.errors import ConfigError, DistributionsDiffer, ModelError
from tauslab.base.option_names import assigned
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.store.results.result import Result

FEWEST_EXPECTED = 10.0  # trajectories of a bin
FALSE_ALARMS = 1e-3  # of all comparisons of a run together
MOST_TIMES = 5
_MOST_SECONDS = 60.0
_MOST_STATES = 100_000


@dataclass(frozen=True)
class Comparison:
    """Counts of one species at one time against its marginal distribution.

    Attributes
    ----------
    species, time, n, bins
        What was compared, in how many trajectories and bins of neighbouring counts.
    p_value
        Probability of a chi-square at least as large, had trajectories the exact distribution; at
        most n times its error where a trajectory is outside its states.
    distance
        Total variation between shares of the bins and probabilities: half the sum of differences.
    expected_distance
        Its mean by chance, with the bound of the error of the exact distribution.
    """

    species: str
    time: float
    n: int
    bins: int
    p_value: float
    distance: float
    expected_distance: float


def cross_check(network: Network, options: Options, result: Result) -> str:
    """The lines of a comparison, or why there is none.

    Raises
    ------
    DistributionsDiffer
        Exact trajectories have another distribution. That of leaps may differ: the lines say so.
    """
    try:
        found = _compared(network, options, result)
    except (ConfigError, ModelError) as error:
        return f"not cross-checked: {error}"
    good, lines = verdict(found)
    if not good and str(result.attributes["method"]) == "ssa":
        raise DistributionsDiffer("; ".join(line.strip() for line in lines))
    return "\n".join([f"cross-check: {lines[0]}", *lines[1:]])


def _compared(network: Network, options: Options, result: Result) -> list[Comparison]:
    if result.continuous or result.swept:
        raise ConfigError("that is for counts of one point, not for equations or a sweep")
    if (
        result.n < 2 * FEWEST_EXPECTED
    ):  # all of them would lie in one bin, whatever their distribution
        raise ConfigError(
            f"{result.n} trajectories are too few to be compared: give {2 * FEWEST_EXPECTED:g} or "
            f"more, {assigned('n')}1000 for example"
        )
    for name, value in options.set.items():
        if np.ndim(value):
            raise ConfigError(f"{name} differs between trajectories")
    values = {name: float(np.asarray(value)) for name, value in options.set.items()}
    most = ProjectionChoices(max_states=_MOST_STATES, max_seconds=_MOST_SECONDS)
    exact = solve(network, times_to_compare(result), values, most)
    return compare(exact, result)


def compare(exact: CmeResult, result: Result) -> list[Comparison]:
    """Compare all counts that a result holds at times of the distribution.

    Raises
    ------
    ConfigError
        The result is a sweep, of equations, or holds no counts.
    """
    if result.continuous or result.swept:
        raise ConfigError(f"{result.name}: a distribution is compared with counts of one point")
    found = []
    for name in result.species:
        if name not in exact.species:
            raise ConfigError(
                f"{result.name}: {name} is no species of the distribution of {exact.name}"
            )
        for t in exact.time.tolist():
            sampled = _counts(result, name, t)
            k = int(np.flatnonzero(exact.time == t)[0])
            found.append(_one(name, t, sampled, exact.marginal(name, t), float(exact.bound[k])))
    return found


def times_to_compare(result: Result) -> FloatArray:
    """A few of the times at which a result has counts, the last among them."""
    times = np.asarray(result.times, np.float64)
    if "counts" not in result.data:
        return times[-1:]
    chosen = np.unique(np.linspace(0, len(times) - 1, MOST_TIMES + 1).round().astype(int))
    return times[chosen[1:]] if len(chosen) > 1 else times


def verdict(found: Sequence[Comparison]) -> tuple[bool, list[str]]:
    """Return whether all agree, and lines that say so; false alarms of all together are 0.1 %."""
    level = FALSE_ALARMS / max(1, len(found))
    wrong = [one for one in found if one.p_value < level]
    lines = [
        f"{one.species} at t = {one.time:g}: total variation {one.distance:.3g} (chance "
        f"{one.expected_distance:.2g}), p = {one.p_value:.2g}, {one.bins} bins"
        for one in (wrong or found)
    ]
    told = "differ from" if wrong else "agree with"
    number = len(wrong) if wrong else len(found)
    head = (
        f"{number} of {len(found)} distributions {told} the master equation "
        f"(p >= {level:.2g} wanted)"
    )
    return not wrong, [head, *(f"  {line}" for line in lines)]


def _counts(result: Result, name: str, t: float) -> Int32Array:
    if "counts" in result.data:
        column: Any = result.counts(name)[:, result.time_index(t)]
    else:
        column = result.final(name)
    return np.asarray(column, np.int32)


def _one(name: str, t: float, sampled: Int32Array, exact: FloatArray, bound: float) -> Comparison:
    """Bins are runs of neighbouring counts; the last also has what ended early or is beyond."""
    from scipy.special import chdtrc  # of the extra that a master equation needs

    n, size = len(sampled), len(exact)
    place = np.where((sampled < 0) | (sampled >= size), size, sampled)
    observed = np.bincount(place, minlength=size + 1).astype(np.float64)
    shares = np.append(exact, max(0.0, 1.0 - float(exact.sum())))
    starts, filled = [0], 0.0
    for state, share in enumerate(shares.tolist()):
        if filled >= FEWEST_EXPECTED:
            starts.append(state)
            filled = 0.0
        filled += n * share
    if filled < FEWEST_EXPECTED and len(starts) > 1:
        starts.pop()
    expected = np.add.reduceat(shares, starts)
    seen = np.add.reduceat(observed, starts) / n
    chi_square = n * float(((seen - expected) ** 2 / expected).sum())
    if len(starts) > 1:
        p_value = float(chdtrc(len(starts) - 1, chi_square))
    else:  # almost all have one count: are as many elsewhere as may be?
        usual = int(exact.argmax())
        p_value = _binomial(int(n - observed[usual]), n, max(0.0, 1.0 - float(exact[usual])))
    if (
        (observed[shares <= 0]).any() or observed[size]
    ):  # where the exact probability is 0 within its error
        p_value = min(p_value, n * bound)
    chance = float(np.sqrt(expected * (1 - np.minimum(expected, 1.0)) / n).sum())
    return Comparison(
        name, t, n, len(starts), p_value,
        float(np.abs(seen - expected).sum()) / 2, chance / math.sqrt(2 * math.pi) + bound,
    )  # fmt: skip


def _binomial(seen: int, n: int, chance: float) -> float:
    """Twice the smaller probability of as many or more, or as many or fewer, at most 1."""
    from scipy.special import bdtr, bdtrc

    more = float(bdtrc(seen - 1, n, chance)) if seen else 1.0
    return min(1.0, 2 * more, 2 * float(bdtr(seen, n, chance)))

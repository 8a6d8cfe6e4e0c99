"""Least number of states that a distribution needs, from trajectories that never meet.

If nearly all of a distribution is on N states, then M independent draws all differ with the
probability exp(-M (M - 1) / 2 N) at most: equal probabilities make that as likely as it can be. So
where all of M draws differ, N is above a number that grows with the square of M. The draws decide
no probability: a model with too many states is refused early.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tauslab.analysis.cme.propensities import Propensities
from tauslab.base.arrays import FloatArray, Int32Array

_DRAWS = 16384
_FALSE_ALARM = 1e-6  # of a refusal
_SLICES = 5  # the first is 1 / 16 of the time
_MOST_FIRINGS = 5000  # of a trajectory: with more there is no forecast
_LARGEST_COUNT = 2**31 - 1


def fewest_states() -> int:
    """States that a distribution needs at least where all draws of it differ."""
    return int(_DRAWS * (_DRAWS - 1) / (-2 * math.log(_FALSE_ALARM)))


def times_of_many(
    propensities: Propensities, states: Int32Array, probabilities: FloatArray, duration: float
) -> Iterator[float]:
    """Times from now on, each twice the one before, at which all draws of the distribution differ.

    Parameters
    ----------
    states, probabilities
        The distribution now: int32 ``[state, species]`` and f64 ``[state]``.
    duration
        The last of these times.
    """
    random = np.random.Generator(np.random.Philox(key=0))
    first = random.choice(len(probabilities), _DRAWS, p=probabilities / probabilities.sum())
    now = states[first].copy()
    since, firings = 0.0, 0
    for part in range(_SLICES - 1, -1, -1):
        until = duration / 2**part
        firings = _advance(propensities, now, until - since, random, firings)
        if firings > _MOST_FIRINGS:
            return
        since = until
        if len(np.unique(now, axis=0)) == len(now):
            yield until


def _advance(
    propensities: Propensities,
    states: Int32Array,
    duration: float,
    random: np.random.Generator,
    firings: int,
) -> int:
    """Move trajectories, in place; the sum of `firings` and the steps of the longest of them."""
    going, left = np.arange(len(states)), np.full(len(states), duration)
    while len(going) and firings <= _MOST_FIRINGS:
        rates = np.nan_to_num(propensities(states[going]), nan=0.0, posinf=0.0)
        sums = np.cumsum(np.maximum(rates, 0.0), axis=1)
        total = sums[:, -1] if sums.shape[1] else np.zeros(len(going))
        with np.errstate(divide="ignore"):
            left = left - random.standard_exponential(len(going)) / total
        on = left > 0
        chosen = (sums > (random.random(len(going)) * total)[:, None]).argmax(axis=1)
        going, left, chosen = going[on], left[on], chosen[on]
        changed = states[going] + propensities.change[chosen]
        inside = (changed <= _LARGEST_COUNT).all(axis=1)
        states[going[inside]] = changed[inside]
        going, left = going[inside], left[inside]
        firings += 1
    return firings

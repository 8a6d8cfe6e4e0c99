"""Weights of particles: sums in one order, and who is copied how often.

All functions use IEEE operations in a fixed order and `portable_exp`, so that it has the same bits
on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tauslab.analysis.particles.sums import fixed_sum, fixed_sums
from tauslab.base.arrays import FloatArray, IntArray, UintArray
from tauslab.base.errors import ConfigError, one_of
from tauslab.model.portable import portable_exp, rounded_log

SCHEMES = ("systematic", "stratified", "multinomial")
_LEAST = -700.0  # logarithm of a relative weight that counts as 0

# Purposes of the random words of analyses: high words of a key beside the seed, each used once.
ROUNDS, RESAMPLING, START = 1, 2, 3  # of ensembles and filters
DIVISIONS, THINNING, FRACTIONS, SIDES = 4, 5, 6, 9  # of cells
CHAINS, FILTER_SEEDS = 7, 8
WALKS, WALK_RESAMPLING, LATTICE_RUNS = 16, 17, 20  # of weighted ensembles
# 18 and 19 were of multilevel splitting
ABC_CANDIDATES, ABC_RUNS, ABC_NOISE = 21, 22, 23  # of approximate Bayesian computation
FITS, FIT_SEEDS = 24, 25  # of fits
SMC2 = 26


def words(seed: int, purpose: int, number: int, n: int, group: int = 0) -> UintArray:
    """`n` random words of 64 bits, a pure function of seed, purpose, number and group."""
    key = np.array([seed, purpose], np.uint64)
    counter = np.array([0, 0, number, group], np.uint64)
    return np.asarray(np.random.Philox(key=key, counter=counter).random_raw(n), np.uint64)


def uniform(seed: int, purpose: int, number: int, n: int, group: int = 0) -> FloatArray:
    """`n` multiples of 2^-53 in [0, 1)."""
    result = words(seed, purpose, number, n, group)
    return (result >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniform_at(seed: int, purpose: int, number: int, place: int, group: int = 0) -> float:
    """The number at one place of those that `uniform` gives."""
    key = np.array([seed, purpose], np.uint64)
    counter = np.array([place // 4, 0, number, group], np.uint64)
    word = np.random.Philox(key=key, counter=counter).random_raw(4)[place % 4]
    return float(word >> np.uint64(11)) * 2.0**-53


def initial_counts(
    initial: Mapping[str, FloatArray], species: Sequence[str], seed: int, n: int, groups: range
) -> dict[str, IntArray]:
    """Initial counts ``[group * n]`` by species, drawn from probabilities ``[count]``.

    By inverting the distribution function. A draw depends on its group and its place there.
    """
    result = {}
    for number, name in enumerate(species):
        if name in initial:
            draws = [uniform(seed, START, number, n, group) for group in groups]
            ladder = np.add.accumulate(initial[name])
            counts = np.searchsorted(ladder, np.concatenate(draws) * ladder[-1], side="right")
            result[name] = np.minimum(counts, np.flatnonzero(initial[name])[-1]).astype(np.int64)
    return result


def shares_of(logs: FloatArray, largest: FloatArray) -> FloatArray:
    """Weights over the largest, whose logarithms are given: one for all or one each."""
    some = np.where(largest == -np.inf, 0.0, largest)
    less = np.maximum(logs - some, _LEAST)
    return np.where(less > _LEAST, portable_exp(less), 0.0)


def relative(logs: FloatArray) -> tuple[FloatArray, float]:
    """Weights over the largest, and the logarithm of that; -inf where all are 0."""
    largest = logs.max(initial=-np.inf)
    return shares_of(logs, largest), float(largest)


def means_of(totals: FloatArray, n: int, largest: FloatArray) -> FloatArray:
    """Logarithms of the means of n weights each, of sums of `shares_of`."""
    means = totals / n
    return np.asarray(largest + rounded_log(np.where(means > 0, means, 1.0)))


def log_mean(logs: FloatArray) -> float:
    """Logarithm of the mean of weights that are given by their logarithms."""
    shares, largest = relative(logs)
    return float(means_of(fixed_sums(shares[None]), len(logs), np.array([largest]))[0])


def normalised(logs: FloatArray) -> FloatArray:
    """Weights that sum to 1; all 0 where no particle has one."""
    shares, _ = relative(logs)
    total = fixed_sum(shares)
    return np.asarray(shares / (total if total > 0 else 1.0))


def sizes_of(totals: FloatArray, squares: FloatArray) -> FloatArray:
    """Effective sizes of sums of weights and of their squares; 0 where all are 0.

    1 over the sum of squares of normalised weights (Kong, Liu and Wong 1994).
    """
    return np.where(squares > 0, totals * totals / np.where(squares > 0, squares, 1.0), 0.0)


def effective_size(logs: FloatArray) -> float:
    """The effective size of one row of weights."""
    shares, _ = relative(logs)
    return float(sizes_of(*fixed_sums(np.stack([shares, shares * shares]))))


def checked_weights(weights: npt.ArrayLike, n: int) -> FloatArray:
    """Weights ``[n]`` of 0 or more, not all 0.

    Raises
    ------
    ConfigError
        They are something else; the message says where.
    """
    try:
        given = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        raise ConfigError("weights must be numbers") from None
    if given.shape != (n,):
        raise ConfigError(
            f"weights must have one value per particle ({n}), not shape {given.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if len(bad):
        raise ConfigError(
            f"the weight of particle {bad[0]} is {given[bad[0]]}: finite and 0 or more "
            f"({len(bad)} of {n} are not)"
        )
    return given


def require_log_weights(logs: FloatArray) -> None:
    """Refuse a NaN or infinite weight, of logarithms ``[particle]``."""
    bad = np.flatnonzero(np.isnan(logs) | (logs == np.inf))
    if len(bad):
        raise ConfigError(
            f"the log-weight of particle {bad[0]} is {logs.flat[bad[0]]}: a number or -inf "
            f"({len(bad)} of {logs.size} are not)"
        )


def ancestors_of(
    shares: FloatArray, scheme: str, seed: int, number: int, group: int = 0
) -> IntArray:
    """Ancestors ``[n]`` by weights ``[n]``, in increasing order.

    Parameters
    ----------
    scheme
        ``systematic``: one uniform number for all; ``stratified``: one in each n-th of the weights;
        ``multinomial``: n independent ones.
    number, group
        Number of the resampling, and of the group of particles.

    Raises
    ------
    ConfigError
        No particle has a weight.
    """
    one_of("method", scheme, SCHEMES)
    n = len(shares)
    uniforms = uniform(seed, RESAMPLING, number, 1 if scheme == "systematic" else n, group)
    ladder = np.add.accumulate(shares)  # one after the other, on every machine
    if not ladder[-1] > 0:
        raise ConfigError(
            "all weights are 0: no particle can be copied; the data are impossible for every "
            "particle, or every particle overflowed"
        )
    places = np.sort(uniforms) if scheme == "multinomial" else (np.arange(n) + uniforms) / n
    result = np.searchsorted(ladder, places * ladder[-1], side="right")
    last = int(np.flatnonzero(shares > 0)[-1])  # where a place is rounded to the end
    return np.asarray(np.minimum(result, last), np.int64)

"""Weights of particles: sums in one order, and who is copied how often.

Everything here is IEEE operations in a fixed order and `portable_exp`, so that it has the same bits
on every machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tauslab.analysis.particles.sums import fixed_sum, fixed_sums
from tauslab.base.arrays import FloatArray, IntArray, UintArray
from tauslab.base.errors import ConfigError, one_of
from tauslab.model.portable import portable_exp, rounded_log

SCHEMES = ("systematic", "stratified", "multinomial")
_LEAST = -700.0  # logarithm of a relative weight that counts as 0

# What words are drawn for: high words of a key beside the seed.
ROUNDS, RESAMPLING, START = 1, 2, 3


def words(seed: int, purpose: int, number: int, n: int, group: int = 0) -> UintArray:
    """`n` random words of 64 bits, a pure function of seed, purpose, number and group."""
    key = np.array([seed, purpose], np.uint64)
    counter = np.array([0, 0, number, group], np.uint64)
    return np.asarray(np.random.Philox(key=key, counter=counter).random_raw(n), np.uint64)


def uniform(seed: int, purpose: int, number: int, n: int, group: int = 0) -> FloatArray:
    """`n` multiples of 2^-53 in [0, 1)."""
    found = words(seed, purpose, number, n, group)
    return (found >> np.uint64(11)).astype(np.float64) * 2.0**-53


def drawn(law: FloatArray, seed: int, number: int, n: int, group: int = 0) -> IntArray:
    """`n` initial counts of species `number` by inverting the distribution function of a law."""
    draws = uniform(seed, START, number, n, group)
    ladder = np.add.accumulate(law)
    found = np.searchsorted(ladder, draws * ladder[-1], side="right")
    return np.asarray(np.minimum(found, np.flatnonzero(law)[-1]), np.int64)


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


def ancestors_of(
    shares: FloatArray, n: int, scheme: str, uniforms: FloatArray, part: slice | None = None
) -> IntArray:
    """Ancestors ``[n]`` by weights ``[particle]``, in increasing order; of a `part` of the n.

    Parameters
    ----------
    scheme
        ``systematic``: one uniform number for all; ``stratified``: one in each n-th of the weights;
        ``multinomial``: n independent ones.
    uniforms
        In [0, 1): one for ``systematic``, else ``[n]``.

    Raises
    ------
    ConfigError
        No particle has a weight.
    """
    one_of("method", scheme, SCHEMES)
    ladder = np.add.accumulate(shares)  # one after the other, on every machine
    if not ladder[-1] > 0:
        raise ConfigError(
            "all weights are 0: no particle can be copied; the data are impossible for every "
            "particle, or every particle overflowed"
        )
    own = slice(0, n) if part is None else part
    if scheme == "multinomial":
        places = np.sort(uniforms)[own]
    else:
        places = (np.arange(own.start, own.stop) + uniforms[own if len(uniforms) == n else 0]) / n
    found = np.searchsorted(ladder, places * ladder[-1], side="right")
    last = int(np.flatnonzero(shares > 0)[-1])  # where a place is rounded to the end
    return np.asarray(np.minimum(found, last), np.int64)

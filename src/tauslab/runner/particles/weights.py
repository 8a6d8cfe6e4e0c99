"""Weights of particles: sums in one order, and who is copied how often.

Everything here is IEEE operations in a fixed order and `portable_exp`, so that it has the same bits
on every machine.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tauslab.model.arrays import FloatArray, IntArray, UintArray
from tauslab.model.errors import ConfigError, one_of
from tauslab.model.portable.host_math import value_of
from tauslab.model.portable.random_words import portable_exp

SCHEMES = ("systematic", "stratified", "multinomial")
_LEAST = -700.0  # logarithm of a relative weight that counts as 0

# What words are drawn for: high words of a key beside the seed.
ROUNDS, RESAMPLING, START = 1, 2, 3


def words(seed: int, purpose: int, number: int, n: int) -> UintArray:
    """`n` random words of 64 bits, a pure function of seed, purpose and number."""
    key = np.array([seed, purpose], np.uint64)
    counter = np.array([0, 0, number, 0], np.uint64)
    return np.asarray(np.random.Philox(key=key, counter=counter).random_raw(n), np.uint64)


def uniform(seed: int, purpose: int, number: int, n: int) -> FloatArray:
    """`n` multiples of 2^-53 in [0, 1)."""
    scaled = (words(seed, purpose, number, n) >> np.uint64(11)).astype(np.float64)
    return scaled * 2.0**-53


def fixed_sum(values: FloatArray) -> float:
    """The sum by halves: neighbours are added, then neighbouring sums, whatever the machine."""
    if not len(values):
        return 0.0
    size = 1 << (len(values) - 1).bit_length()
    row = np.zeros(size)
    row[: len(values)] = values
    while len(row) > 1:
        row = row[0::2] + row[1::2]
    return float(row[0])


def relative(logs: FloatArray) -> tuple[FloatArray, float]:
    """Weights over the largest, and the logarithm of that; -inf where all are 0."""
    largest = float(logs.max(initial=-np.inf))
    if largest == -np.inf:
        return np.zeros(len(logs)), largest
    less = np.maximum(logs - largest, _LEAST)
    return np.where(less > _LEAST, portable_exp(less), 0.0), largest


def log_mean(logs: FloatArray) -> float:
    """Logarithm of the mean of weights that are given by their logarithms."""
    shares, largest = relative(logs)
    if largest == -np.inf:
        return largest
    return largest + value_of("log", fixed_sum(shares) / len(logs))


def normalised(logs: FloatArray) -> FloatArray:
    """Weights that sum to 1; all 0 where no particle has one."""
    shares, _ = relative(logs)
    total = fixed_sum(shares)
    return shares / total if total > 0 else shares


def effective_size(logs: FloatArray) -> float:
    """1 over the sum of squares of normalised weights (Kong, Liu and Wong 1994); 0 if all are 0."""
    shares, _ = relative(logs)
    total, squares = fixed_sum(shares), fixed_sum(shares * shares)
    return total * total / squares if squares > 0 else 0.0


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


def ancestors_of(shares: FloatArray, n: int, scheme: str, uniforms: FloatArray) -> IntArray:
    """Ancestors ``[n]`` by weights ``[particle]``, in increasing order.

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
    spread = (np.arange(n) + uniforms) / n
    places = np.sort(uniforms) if scheme == "multinomial" else spread
    found = np.searchsorted(ladder, places * ladder[-1], side="right")
    last = int(np.flatnonzero(shares > 0)[-1])  # where a place is rounded to the end
    return np.asarray(np.minimum(found, last), np.int64)

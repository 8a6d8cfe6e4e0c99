"""Random numbers of generated models: the same on every machine and with every NumPy.

Of NumPy they take only the raw 64-bit words of Philox4x64, whose streams are part of its documented
compatibility.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.model.expressions.host_math import value_of
from tauslab.model.portable import portable_exp


class RandomWords:
    """Random numbers that are a pure function of the seed and the stream, 64 bits each."""

    def __init__(self, seed: int, stream: int = 0) -> None:
        self._words = np.random.Philox(key=np.array([seed, stream], np.uint64))

    def below(self, limits: npt.ArrayLike) -> IntArray:
        """Whole numbers from 0 to each limit less 1, for limits from 1 to 2^31.

        The upper half of a word times the limit, cut off: equally likely to a part in 2^32 / limit.
        """
        most = np.asarray(limits, np.uint64)
        words = self._words.random_raw(most.size).reshape(most.shape)
        return ((words >> np.uint64(32)) * most >> np.uint64(32)).astype(np.int64)

    def uniform(self, n: int) -> FloatArray:
        """Numbers ``[n]``, multiples of 2^-53 in [0, 1)."""
        scaled: FloatArray = (self._words.random_raw(n) >> np.uint64(11)).astype(np.float64)
        return scaled * 2.0**-53

    def log_uniform(self, low: float, high: float, n: int) -> FloatArray:
        """Numbers ``[n]`` whose logarithm is uniform between those of `low` and `high`."""
        ends = [value_of("log", value) for value in (low, high)]
        drawn = portable_exp(ends[0] + (ends[1] - ends[0]) * self.uniform(n))
        return np.clip(drawn, low, high)

    def permutation(self, n: int) -> IntArray:
        """The numbers 0 to n - 1 in random order."""
        return np.argsort(self._words.random_raw(n), kind="stable")

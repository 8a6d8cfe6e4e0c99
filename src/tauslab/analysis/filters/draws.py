"""Random numbers of candidates, each by its number: a launch may hold any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tauslab.analysis.particles.weights import ABC_NOISE
from tauslab.base.arrays import FloatArray, IntArray, UintArray
from tauslab.model.portable import normal_quantile

_COUNTERS = 4  # words of one number of Philox's counter


def words_of(key: UintArray, column: int, generation: int, first: int, m: int, each: int) -> Any:
    """Random words u64 ``[m, each]`` of the candidates from `first` on."""
    blocks = -(-each // _COUNTERS)
    counter = np.array([first * blocks, column, generation, 0], np.uint64)
    result = np.random.Philox(key=key, counter=counter).random_raw(m * blocks * _COUNTERS)
    return np.asarray(result, np.uint64).reshape(m, -1)[:, :each]


def uniforms_of(words: UintArray) -> FloatArray:
    """Odd multiples of 2^-54 between 0 and 1, of random words."""
    return np.asarray(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


class NoiseDraws:
    """Draws ``[m, row]`` of a noise, with the methods of NumPy's generator that noises use.

    Draws of candidate ``first + i`` depend on seed, `column`, generation and its number only.

    Parameters
    ----------
    column
        Number of the noise among those of the data.
    """

    def __init__(self, seed: int, column: int, generation: int, first: int) -> None:
        self._key = np.array([seed, ABC_NOISE], np.uint64)
        self._column, self._generation, self._first = column, generation, first

    def standard_normal(self, shape: tuple[int, ...]) -> FloatArray:
        """Normal numbers."""
        place = (self._column, self._generation, self._first)
        return normal_quantile(uniforms_of(words_of(self._key, *place, *shape)))

    def poisson(self, mean: FloatArray) -> FloatArray:
        """Counts with these means."""
        return self._by_row(len(mean), lambda draws, i: draws.poisson(mean[i]))

    def negative_binomial(self, n: FloatArray, p: FloatArray) -> FloatArray:
        """Counts of failures before `n` successes."""
        return self._by_row(len(n), lambda draws, i: draws.negative_binomial(n[i], p[i]))

    def binomial(self, n: IntArray, p: FloatArray) -> FloatArray:
        """Counts of successes of `n` trials."""
        return self._by_row(len(n), lambda draws, i: draws.binomial(n[i], p[i]))

    def standard_t(self, freedom: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """Numbers of Student's distribution."""
        return self._by_row(shape[0], lambda draws, i: draws.standard_t(freedom[i]))

    def _by_row(self, m: int, draw: Callable[[np.random.Generator, int], Any]) -> FloatArray:
        """Rows of one generator, which each begins at a counter of its own."""
        bits = np.random.Philox(key=self._key)
        draws, state = np.random.Generator(bits), bits.state
        result = []
        for i in range(m):
            number = self._first + i
            state["state"]["counter"] = np.array(
                [0, self._column, self._generation, number + 1], np.uint64
            )
            bits.state = state
            result.append(draw(draws, i))
        return np.array(result, np.float64)

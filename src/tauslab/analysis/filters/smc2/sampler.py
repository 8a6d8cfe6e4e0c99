"""Sequential Monte Carlo on parameters, each set of which has a particle filter: SMC².

Chopin, Jacob and Papaspiliopoulos, J. R. Stat. Soc. B 75, 397 (2013), algorithm 2. A cloud of
parameter sets goes through the rows of the data; the likelihood of a row, estimated by the filter
of a set, multiplies its weight. Where few sets carry the weight they are resampled, and each makes
steps of particle marginal Metropolis-Hastings given the rows so far. If hardly a step moves, all
filters are replaced by ones of twice as many particles (the exchange of section 3.6).

A filter is run through all rows at once. The terms of later rows are looked at when their turn
comes, so that the sampler equals one that runs filters row by row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tauslab.analysis.filters.draws import uniforms_of, words_of
from tauslab.analysis.filters.priors import log_density_at, places_of, values_at
from tauslab.analysis.particles.sums import fixed_sum, fixed_sums
from tauslab.analysis.particles.weights import (
    SMC2,
    ancestors_of,
    effective_size,
    log_mean,
    normalised,
)
from tauslab.base.arrays import Array, FloatArray, UintArray
from tauslab.base.errors import ConfigError
from tauslab.model.portable import normal_quantile, portable_log
from tauslab.options.values.priors import Prior
from tauslab.store.state import State

_STEP = 2.38  # over the root of the number of parameters (Roberts and Rosenthal 2001)
_RIDGE = 1e-12  # of a variance, in a covariance that is hardly regular
_LEAST_MOVING = 0.15  # part of the steps that move, below which filters get more particles
_MOST_GROWTH = 16  # times the first number of particles
_MOST_CALLS = 1 << 40

# Values ``[draw]`` by name, number of the call, particles of a filter -> terms ``[draw, row]``.
Terms = Callable[[Mapping[str, FloatArray], int, int], FloatArray]


@dataclass(frozen=True)
class Settings:
    """How `Sampler` draws.

    Attributes
    ----------
    draws
        Parameter sets.
    n
        Particles of a filter at the start.
    moves
        Steps of each set after a resampling.
    threshold
        Effective fraction of the draws below which they are resampled.
    """

    draws: int
    n: int
    moves: int
    threshold: float
    seed: int


class Sampler:
    """A cloud of parameter sets on its way through the rows of data.

    Attributes
    ----------
    row
        Rows that are done.
    places, weights
        After each row: parameter sets f64 ``[row, draw, parameter]`` and weights ``[row, draw]``.
    log_evidence, acceptance, particles
        After each row, ``[row]``: the logarithm of the marginal likelihood of the rows so far, the
        fraction of accepted moves (NaN without a move), and the particles of a filter.
    """

    def __init__(
        self, priors: Mapping[str, Prior], terms: Terms, times: FloatArray, settings: Settings
    ) -> None:
        self._priors, self._terms_of, self._times, self._settings = priors, terms, times, settings
        shape = (len(times), settings.draws)
        self.row, self._calls, self.n = 0, 0, settings.n
        self._logs = np.zeros(settings.draws)
        self._cloud = np.zeros((settings.draws, len(priors)))
        self._terms = np.zeros(shape[::-1])
        self.places, self.weights = np.zeros((*shape, len(priors))), np.zeros(shape)
        self.log_evidence, self.acceptance = np.zeros(len(times)), np.full(len(times), np.nan)
        self.particles = np.zeros(len(times), np.int64)

    def run(self, after_row: Callable[[], None] = lambda: None) -> None:
        """Take up all rows that are left; `after_row` is called after each.

        Raises
        ------
        ConfigError
            No parameter set explains a row.
        """
        if not self._calls:
            self._cloud = places_of(self._priors, self._words(0))
            self._terms = self._filtered(self._cloud)
        while self.row < len(self._times):
            self._take_up()
            if effective_size(self._logs) < self._settings.threshold * self._settings.draws:
                self._renew()
            row = self.row
            self.places[row], self.weights[row] = self._cloud, normalised(self._logs)
            self.particles[row] = self.n
            self.row += 1
            after_row()

    def _take_up(self) -> None:
        """Multiply weights by the likelihood of the next row."""
        before = log_mean(self._logs)
        self._logs = self._logs + self._terms[:, self.row]
        after = log_mean(self._logs)
        if not after > -math.inf:
            raise ConfigError(
                f"no parameter set can explain the row at t = {self._times[self.row]:g}: give "
                "wider priors, more noise, or more particles or draws"
            )
        earlier = self.log_evidence[self.row - 1] if self.row else 0.0
        self.log_evidence[self.row] = earlier + (after - before)

    def _renew(self) -> None:
        """Resample the sets, move each, and give filters more particles where few moved."""
        settings, row = self._settings, self.row
        root = self._root(normalised(self._logs))
        kept = ancestors_of(normalised(self._logs), "systematic", settings.seed, row)
        self._cloud, self._terms = self._cloud[kept], self._terms[kept]
        self._logs = np.zeros(settings.draws)
        moved = [self._move(root) for _ in range(settings.moves)]
        self.acceptance[row] = sum(moved) / (settings.moves * settings.draws)
        most = _MOST_GROWTH * settings.n
        if self.acceptance[row] < _LEAST_MOVING and 2 * self.n <= most:
            self.n *= 2
            old, new = self._so_far(self._terms), self._filtered(self._cloud)
            logs = self._so_far(new) - old
            if log_mean(logs) > -math.inf:  # else the filters of before are as good
                self._terms, self._logs = new, logs

    def _move(self, root: FloatArray) -> int:
        """Make one step of Metropolis-Hastings of every set; return how many moved."""
        words, size = self._words(self._calls), len(self._priors)
        z = normal_quantile(uniforms_of(words[:, :size]))
        tried = self._cloud + _steps_of(z, root)
        prior = log_density_at(self._priors, tried)
        inside = prior > -np.inf
        # A set outside the prior runs the filter of its own place, which is not looked at.
        result = self._filtered(np.where(inside[:, None], tried, self._cloud))
        gain = self._so_far(result) - self._so_far(self._terms)
        gain = gain + (np.where(inside, prior, 0.0) - log_density_at(self._priors, self._cloud))
        moved = inside & (portable_log(uniforms_of(words[:, size])) < gain)
        self._cloud = np.where(moved[:, None], tried, self._cloud)
        self._terms = np.where(moved[:, None], result, self._terms)
        return int(moved.sum())

    def _filtered(self, places: FloatArray) -> FloatArray:
        result = self._terms_of(values_at(self._priors, places), self._calls, self.n)
        self._calls += 1
        return result

    def _so_far(self, terms: FloatArray) -> FloatArray:
        """Log-likelihoods ``[draw]`` of the rows up to the present one."""
        return np.asarray(np.add.accumulate(terms[:, : self.row + 1], axis=1)[:, -1])

    def _root(self, shares: FloatArray) -> FloatArray:
        """Lower triangular root ``[parameter, parameter]`` of the covariance of a step."""
        cloud, size = self._cloud, len(self._priors)
        mean = fixed_sums(np.ascontiguousarray((shares[:, None] * cloud).T))
        off = cloud - mean
        root = np.zeros((size, size))
        for i in range(size):
            for j in range(i + 1):
                held = fixed_sum(shares * (off[:, i] * off[:, j]))
                for k in range(j):
                    held -= root[i, k] * root[j, k]
                if i == j:
                    own = fixed_sum(shares * (off[:, i] * off[:, i]))
                    root[i, i] = math.sqrt(max(held, _RIDGE * own))
                elif root[j, j] > 0:
                    root[i, j] = held / root[j, j]
        return root * (_STEP / math.sqrt(size))

    def _words(self, call: int) -> UintArray:
        """Random words ``[draw, parameter + 1]`` of a call."""
        key = np.array([self._settings.seed, SMC2], np.uint64)
        each = len(self._priors) + 1
        result: UintArray = words_of(key, 0, call, 0, self._settings.draws, each)
        return result if call else result[:, :-1]

    # ---------------------------------------------------------------- keeping

    def kept(self) -> dict[str, Array]:
        """Arrays from which the sampler goes on."""
        own = {"cloud": self._cloud, "logs": self._logs, "terms": self._terms}
        done = {name: getattr(self, name)[: self.row] for name in _DONE}
        return {"calls": np.array(self._calls), "n": np.array(self.n), **own, **done}

    def go_on(self, kept: State) -> None:
        """Take up what was kept."""
        draws, size = self._cloud.shape
        self._calls = kept.whole("calls", 1, _MOST_CALLS)
        self.n = kept.whole("n", self._settings.n, _MOST_GROWTH * self._settings.n)
        self._cloud = kept.take("cloud", np.float64, draws, size)
        self._logs = kept.take("logs", np.float64, draws)
        self._terms = kept.take("terms", np.float64, draws, len(self._times))
        self.row = min(len(kept.take("particles", np.int64, None)), len(self._times))
        for name in _DONE:
            own = getattr(self, name)
            own[: self.row] = kept.take(name, own.dtype, self.row, *own.shape[1:], nan=True)


_DONE = ("places", "weights", "log_evidence", "acceptance", "particles")


def _steps_of(z: FloatArray, root: FloatArray) -> FloatArray:
    """Rows ``[m, p]`` of z times the transpose of a lower triangular root, added in order."""
    result = np.empty_like(z)
    for i in range(z.shape[1]):
        result[:, i] = root[i, 0] * z[:, 0]
        for j in range(1, i + 1):
            result[:, i] += root[i, j] * z[:, j]
    return result

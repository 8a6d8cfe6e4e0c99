"""Likelihoods of a time course at many parameter sets, each by a filter of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tauslab.analysis.filters.filtering import ParticleFilters
from tauslab.analysis.filters.observing import Observations
from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.weights import FILTER_SEEDS, words
from tauslab.api.inference.given import constants_of
from tauslab.base.arrays import BoolArray, FloatArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network


class Likelihood:
    """Terms of log-likelihoods ``[set, row]``; -inf at values that the model or a noise rejects.

    Call c has random numbers of its own; `particles` are used again by each call.

    Parameters
    ----------
    particles
        An equal number for each of `sets`.
    """

    def __init__(
        self,
        model: Network | Lattice,
        rows: Observations,
        particles: Ensemble,
        sets: int,
        seed: int,
    ) -> None:
        self._model, self._rows, self._seed = model, rows, seed
        self._particles, self._sets = particles, sets
        particles.in_groups(particles.n // sets)
        self._filters = ParticleFilters(particles, rows, count=sets, states=False)

    @property
    def ended(self) -> Mapping[int, int]:
        """How many particles ended, by status."""
        return self._filters.ended

    def terms(self, values: Mapping[str, FloatArray], call: int, required: int = 0) -> FloatArray:
        """Run filters with values ``[set]`` by name. Collective.

        Raises
        ------
        ModelError, ConfigError
            Fewer than `required` sets of values can be taken.
        """
        good = np.ones(self._sets, bool)
        try:
            constants = self._begin(values, call)
        except (ModelError, ConfigError):
            good = self._allowed(values, np.arange(self._sets))
            if good.sum() < required:
                raise
            if not good.any():
                return np.full((self._sets, len(self._rows)), -np.inf)
            one = int(np.argmax(good))  # in place of the others, whose filters are not looked at
            values = {k: np.where(good, v, v[one]) for k, v in values.items()}
            constants = self._begin(values, call)
        self._filters.begin()
        return np.where(good[:, None], self._filters.run(constants).terms, -np.inf)

    def __call__(self, values: Mapping[str, FloatArray], step: int) -> FloatArray:
        """Return log-likelihoods ``[set]`` for a step of chains; at step 0 all must be allowed."""
        found = self.terms(values, step, 0 if step else self._sets)
        return np.asarray(np.add.accumulate(found, axis=1)[:, -1])

    def _begin(self, values: Mapping[str, FloatArray], call: int) -> dict[str, Any]:
        """Put particles at the start with these values; return what noises take of them."""
        word = int(words(self._seed, FILTER_SEEDS, call, 1)[0])
        each = {k: np.repeat(v, self._particles.n // self._sets) for k, v in values.items()}
        self._particles.reset(seed=word, parameters=each)
        constants = constants_of(self._model, each, self._rows)
        self._rows.check(constants)
        return constants

    def _allowed(self, values: Mapping[str, FloatArray], chosen: Any) -> BoolArray:
        """Return which of the `chosen` sets can be taken, bool ``[chosen]``, by halving."""
        among = chosen[np.minimum(np.arange(self._sets), len(chosen) - 1)]
        try:
            self._begin({k: v[among] for k, v in values.items()}, 0)
        except (ModelError, ConfigError):
            if len(chosen) == 1:
                return np.zeros(1, bool)
            half = len(chosen) // 2
            parts = (chosen[:half], chosen[half:])
            return np.concatenate([self._allowed(values, part) for part in parts])
        return np.ones(len(chosen), bool)

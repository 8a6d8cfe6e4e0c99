"""Likelihoods of a time course at many parameter sets, each by a filter of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tauslab.analysis.filters.cells import Run
from tauslab.analysis.filters.filtering import ParticleFilters
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
    run
        Cells, whose terms are added.
    particles
        An equal number for each of `sets` and each cell. Likelihoods of other runs may use them
        between calls.
    """

    def __init__(
        self,
        model: Network | Lattice,
        run: Run,
        particles: Ensemble,
        sets: int,
        seed: int,
    ) -> None:
        self._model, self._rows, self._seed = model, run.longest, seed
        self._particles, self._sets = particles, sets
        self._cells, self._number = len(run.cells), run.first * sets
        self._filters = ParticleFilters(
            particles, run.cells, count=sets * self._cells, number=self._number, states=False
        )

    @property
    def ended(self) -> Counter[int]:
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
        terms = self._filters.run(constants).terms.reshape(self._cells, self._sets, -1)
        result = np.add.accumulate(terms, axis=0)[-1]
        return np.where(good[:, None], result, -np.inf)

    def __call__(self, values: Mapping[str, FloatArray], step: int) -> FloatArray:
        """Return log-likelihoods ``[set]`` for a step of chains; at step 0 all must be allowed."""
        result = self.terms(values, step, 0 if step else self._sets)
        return np.asarray(np.add.accumulate(result, axis=1)[:, -1])

    def _begin(self, values: Mapping[str, FloatArray], call: int) -> dict[str, Any]:
        """Put particles at the start with these values; return what noises take of them."""
        word = int(words(self._seed, FILTER_SEEDS, call, 1)[0])
        n = self._particles.n // (self._sets * self._cells)
        each = {k: np.tile(np.repeat(v, n), self._cells) for k, v in values.items()}
        self._particles.in_groups(n, self._number)
        self._particles.reset(seed=word, set=each)
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


class CellsLikelihood:
    """Log-likelihoods ``[set]`` of many cells, which add.

    Parameters
    ----------
    opened
        Gives an ensemble of so many filters.
    """

    def __init__(
        self,
        model: Network | Lattice,
        runs: Sequence[Run],
        opened: Callable[[int], Ensemble],
        sets: int,
        seed: int,
    ) -> None:
        sizes = dict.fromkeys(len(run.cells) for run in runs)
        self._particles = {size: opened(sets * size) for size in sizes}
        self._each = [
            Likelihood(model, run, self._particles[len(run.cells)], sets, seed) for run in runs
        ]

    def __call__(self, values: Mapping[str, FloatArray], step: int) -> FloatArray:
        """As of `Likelihood`."""
        return sum((one(values, step) for one in self._each[1:]), self._each[0](values, step))

    @property
    def ended(self) -> Counter[int]:
        """As of `Likelihood`."""
        return sum((one.ended for one in self._each), Counter[int]())

    @property
    def solver(self) -> str:
        """Solvers of ``ode`` that pilots chose, with commas between."""
        return ",".join(particles.solver for particles in self._particles.values())

    def go_on_by(self, solver: str) -> None:
        """Keep to solvers that an earlier call chose."""
        for particles, one in zip(self._particles.values(), solver.split(","), strict=True):
            particles.go_on_by(one)

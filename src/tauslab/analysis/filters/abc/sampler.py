"""Sequential Monte Carlo with simulations in place of a likelihood: ABC-SMC.

Toni, Welch, Strelkowa, Ipsen and Stumpf, J. R. Soc. Interface 6, 187 (2009), with thresholds and
distances that adapt (Prangle 2017, algorithm 5). A generation proposes candidates by number; what
candidate i is depends on the seed, the generation and i alone, and the first n that come near
enough, in the order of their numbers, are its particles. So neither the size of a launch nor the
number of ranks changes a bit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tauslab.analysis.filters.abc.distances import DistanceFunction, distances, scale_of
from tauslab.analysis.filters.abc.kernel import Densities, Kernel, importance_weights
from tauslab.analysis.filters.draws import words_of
from tauslab.analysis.filters.priors import log_density_at, places_of, values_at
from tauslab.analysis.filters.weighted import quantile_of
from tauslab.analysis.particles.weights import ABC_CANDIDATES
from tauslab.base.arrays import Array, BoolArray, FloatArray, UintArray
from tauslab.base.errors import ConfigError
from tauslab.options.values.priors import Prior
from tauslab.store.state import State

_MOST_NUMBERS = 1 << 24  # of a launch: simulations times summaries
_MOST, _LEAST = 1 << 17, 64  # simulations of a launch
_MOST_AHEAD = 1 << 15  # of which some may not be needed
_MORE = 1.1  # candidates of a launch over those that are expected to be enough
_SEEN, _SEEN_NUMBERS = 1 << 16, 1 << 22  # of the first simulations, which make the next scale
_NONE_IN = 10  # over the least acceptance: so many candidates of which none is near are enough

# Values ``[m]`` by name, generation, number of the first -> summaries ``[m, summary]``, and the
# statuses ``[m]`` of those that ended early, 0 of others.
Simulate = Callable[[Mapping[str, FloatArray], int, int], tuple[FloatArray, Array]]


@dataclass(frozen=True)
class Settings:
    """How `Sampler` draws.

    Attributes
    ----------
    epsilons
        Thresholds of all generations; empty where each is the `quantile` of the distances of the
        last one.
    scale
        What summaries are divided by ``[summary]``; None where it adapts.
    norm
        1, 2 or infinity; or a function.
    """

    n: int
    generations: int
    quantile: float
    epsilons: Sequence[float]
    scale: FloatArray | None
    norm: float | DistanceFunction
    target: float
    least_acceptance: float
    seed: int


@dataclass(frozen=True)
class Population:
    """Particles of a generation, on the scale of the walk."""

    places: FloatArray
    weights: FloatArray
    distances: FloatArray
    scale: FloatArray
    epsilon: float
    simulations: int
    tried: int

    @property
    def acceptance(self) -> float:
        """Part of the simulations, up to the last that was needed, that came near enough."""
        return len(self.places) / self.tried


class Sampler:
    """Generations of n particles that come ever nearer to data.

    Parameters
    ----------
    observed
        Summaries ``[summary]`` of the data, NaN where one is missing.
    ahead
        Candidates simulated by the first launch of a generation, over those that are expected to be
        enough: on a GPU some more take no longer. Those that are not needed count nowhere.

    Attributes
    ----------
    ended_early
        Simulations that ended early, by status.
    """

    def __init__(
        self, priors: Mapping[str, Prior], simulate: Simulate, observed: FloatArray,
        settings: Settings, densities: Densities, ahead: float,
    ) -> None:  # fmt: skip
        self._priors, self._simulate, self._observed = priors, simulate, observed
        self._settings, self._densities = settings, densities
        self._ahead, self.ended_early = ahead, Counter[int]()
        self.populations: list[Population] = []
        self.simulated = np.zeros((0, len(observed)))  # of the last population
        self.ended = ""
        self._seen = np.zeros((0, len(observed)))
        self._begin_generation()

    def _begin_generation(self) -> None:
        """Choose threshold, scale and kernel of the next generation; forget what the last saw."""
        settings, size = self._settings, len(self._observed)
        g = len(self.populations)
        self._kernel: Kernel | None = None
        self._scale = np.ones(size) if settings.scale is None else settings.scale
        self._epsilon = settings.epsilons[0] if len(settings.epsilons) else math.inf
        if g:
            last = self.populations[-1]
            if settings.scale is None:
                self._scale = scale_of(self._seen)
            self._epsilon = self._next_epsilon(self._distances(), last.weights)
        self._places = np.zeros((0, len(self._priors)))
        self._near, self._far = np.zeros((0, size)), np.zeros(0)
        self._seen = np.zeros((0, size))
        # Which candidates lie within the prior, and these: places, summaries, statuses.
        self._made: list[Array] = [
            np.zeros(0, bool), self._places, self._near, np.zeros(0, np.uint8)
        ]  # fmt: skip
        self.candidates = self.simulations = self._tried = 0

    def _distances(self) -> FloatArray:
        """Distances of the last population, on the present scale."""
        if self._settings.scale is not None:  # as it was
            return self.populations[-1].distances
        return distances(self.simulated, self._observed, self._scale, self._settings.norm)

    def _proposal(self) -> Kernel:
        """The kernel of this generation, made where it is first needed."""
        if self._kernel is None:
            last = self.populations[-1]
            self._kernel = Kernel(last.places, last.weights, self._distances() <= self._epsilon)
        return self._kernel

    def _next_epsilon(self, far: FloatArray, weights: FloatArray) -> float:
        g, settings = len(self.populations), self._settings
        if len(settings.epsilons):
            return float(settings.epsilons[g]) if g < len(settings.epsilons) else math.nan
        result = quantile_of(far, weights, settings.quantile)
        below = far[far < far.max()]
        return result if result < far.max() or not len(below) else float(below.max())

    # ---------------------------------------------------------------- drawing

    @property
    def accepted(self) -> int:
        """Particles of the present generation so far."""
        return len(self._places)

    def run(self, after_launch: Callable[[], None] = lambda: None) -> None:
        """Make all generations that are left; `after_launch` is called after each launch.

        Raises
        ------
        ConfigError
            The first generation finds no, or not enough, simulations within its threshold.
        """
        self.ended = self._why_ended()
        while not self.ended:
            self._launch()
            if self.accepted >= self._settings.n:
                self._finish()
                self.ended = self._why_ended()
            elif self._is_hopeless():
                self.ended = self._hopeless()
            after_launch()

    def _launch(self) -> None:
        """Simulate candidates, and keep those that come near enough."""
        settings = self._settings
        places, result, ended = self._simulated(self._launch_size())
        if not len(places):
            return
        self.ended_early.update(ended[ended > 0].tolist())
        far = distances(result, self._observed, self._scale, settings.norm)
        near = np.flatnonzero((far <= self._epsilon) & (far < np.inf))
        near = near[: settings.n - self.accepted]
        full = len(near) == settings.n - self.accepted
        self._tried = self.simulations + (int(near[-1]) + 1 if full else len(places))
        self.simulations += len(places)
        if settings.scale is None:  # else none is made of them
            most = min(_SEEN, max(1, _SEEN_NUMBERS // max(1, len(self._observed))), self._tried)
            self._seen = np.concatenate([self._seen, result[: max(0, most - len(self._seen))]])
        self._places = np.concatenate([self._places, places[near]])
        self._near = np.concatenate([self._near, result[near]])
        self._far = np.concatenate([self._far, far[near]])

    def _simulated(self, m: int) -> list[Array]:
        """Places, summaries and statuses of the next m candidates, of those within the prior."""
        more = m - len(self._made[0])
        if more > 0:
            number = self.simulations + len(self._made[1])
            if not self.candidates:
                more = max(m, min(int(self._ahead * m), _MOST_AHEAD, self._most()))
            places, inside = self._candidates(self.candidates + len(self._made[0]), more)
            places = places[inside]
            made = [inside, places, np.zeros((0, len(self._observed))), np.zeros(0, np.uint8)]
            if len(places):
                values = values_at(self._priors, places)
                made[2:] = self._simulate(values, len(self.populations), number)
            if len(self._made[0]):
                made = [np.concatenate(pair) for pair in zip(self._made, made, strict=True)]
            self._made = made
        inside, *arrays = self._made
        within = int(np.count_nonzero(inside[:m]))
        self._made = [inside[m:], *(array[within:] for array in arrays)]
        self.candidates += m
        return [array[:within] for array in arrays]

    def _most(self) -> int:
        """Candidates of a launch at most."""
        return max(1, min(_MOST, _MOST_NUMBERS // max(1, len(self._observed))))

    def _launch_size(self) -> int:
        """How many candidates are likely to be enough: a function of counts alone."""
        n = self._settings.n
        expected = math.ceil(_MORE * (n - self.accepted) / self._rate())
        if self.candidates:  # a few that were kept say little about the rate
            expected = min(expected, max(4 * self.candidates, n))
        return min(max(_LEAST, expected), self._most(), self._enough() - self.candidates)

    def _rate(self) -> float:
        """Part of the candidates that is expected to be kept."""
        if self.candidates:
            return max(self.accepted, 0.5) / self.candidates
        if not self.populations:
            return _MORE
        last = self.populations[-1]
        return self._settings.quantile if len(self.populations) == 1 else 0.6 * last.acceptance

    def _candidates(self, first: int, m: int) -> tuple[FloatArray, BoolArray]:
        """Places ``[m, parameter]`` of candidates, and which lie within the prior."""
        words = self._words(len(self.populations), first, m)
        if not self.populations:
            return places_of(self._priors, words[:, 1:]), np.ones(m, bool)
        places = self._proposal().propose(words)
        return places, log_density_at(self._priors, places) > -np.inf

    def _words(self, generation: int, first: int, m: int) -> UintArray:
        """Random words ``[m, 1 + parameter]`` of candidates: of seed, generation and number."""
        key = np.array([self._settings.seed, ABC_CANDIDATES], np.uint64)
        result: UintArray = words_of(key, 0, generation, first, m, 1 + len(self._priors))
        return result

    def first_draws(self, m: int) -> dict[str, FloatArray]:
        """Values ``[m]`` of the first candidates of the first generation, by name."""
        return values_at(self._priors, places_of(self._priors, self._words(0, 0, m)[:, 1:]))

    # ---------------------------------------------------------------- generations

    def _finish(self) -> None:
        """Weigh the particles of the generation, and begin the next."""
        n = self._settings.n
        weights = np.full(n, 1 / n)
        if self.populations:
            log_prior = log_density_at(self._priors, self._places)
            log_proposal = self._proposal().log_density(self._places, self._densities)
            weights = importance_weights(log_prior, log_proposal)
        far, scale = self._far, self._scale
        if self._settings.scale is None and not self.populations:
            scale = scale_of(self._seen)
            far = distances(self._near, self._observed, scale, self._settings.norm)
        made = Population(
            self._places, weights, far, scale, self._epsilon, self.simulations, self._tried
        )
        self.populations.append(made)
        self.simulated = self._near
        self._begin_generation()

    def _why_ended(self) -> str:
        """Why no generation follows; empty where one does."""
        settings = self._settings
        if not self.populations:
            return ""
        last = self.populations[-1]
        if len(self.populations) >= settings.generations:
            return f"all {settings.generations} generations were made"
        if last.epsilon <= settings.target:
            return f"epsilon is {last.epsilon:.4g}, at or below target_epsilon"
        if not len(settings.epsilons) and (last.distances == last.distances[0]).all():
            return f"all distances are {last.distances[0]:.4g}"
        return ""

    def _is_hopeless(self) -> bool:
        """Return whether hardly a candidate comes near enough."""
        return self.candidates >= self._enough()

    def _enough(self) -> int:
        """Candidates after which a generation is given up that has not all its particles."""
        few = self._settings.n if self.accepted else min(_NONE_IN, self._settings.n)
        return math.ceil(few / self._settings.least_acceptance)

    def _hopeless(self) -> str:
        """Why a generation is given up in which too few simulations come near enough.

        Raises
        ------
        ConfigError
            It is the first.
        """
        few = (
            f"{self.accepted} of {self.candidates} candidates came within epsilon = "
            f"{self._epsilon:.4g}, fewer than least_acceptance = "
            f"{self._settings.least_acceptance:g}"
        )
        if self.populations:
            return few
        if self.accepted == 0 and self._epsilon == math.inf:
            raise ConfigError(
                f"all {self.simulations} simulations have an infinite distance from the data: "
                "trajectories ended early, or a summary such as a first passage was never reached; "
                "give other priors or summaries"
            )
        raise ConfigError(f"{few}: give a larger epsilon, or other priors")

    # ---------------------------------------------------------------- keeping

    def kept(self) -> dict[str, Array]:
        """Arrays from which the sampler goes on."""
        done = self.populations
        counts = [[one.simulations, one.tried] for one in done]
        now = [self.candidates, self.simulations, self._tried]
        result: dict[str, Array] = {
            "counts": np.array(counts, np.int64).reshape(-1, 2),
            "now": np.array(now, np.int64),
            "epsilons": np.array([*(one.epsilon for one in done), self._epsilon]),
            "next_scale": self._scale,
            "places": self._places, "near": self._near, "far": self._far, "seen": self._seen,
            "simulated": self.simulated,
        }  # fmt: skip
        for name in _KEPT:
            result[f"done_{name}"] = np.array([getattr(one, name) for one in done])
        return result

    def go_on(self, kept: State) -> None:
        """Take up what was kept.

        Raises
        ------
        ConfigError
            It has more generations than there shall be, or other thresholds.
        """
        counts = kept.take("counts", np.int64, None, 2)
        done, n, size = len(counts), self._settings.n, len(self._observed)
        shapes = {
            "places": (n, len(self._priors)), "weights": (n,), "distances": (n,), "scale": (size,),
        }  # fmt: skip
        arrays = {
            name: kept.take(f"done_{name}", np.float64, done, *shapes[name], nan=True)
            for name in (_KEPT if done else ())
        }
        epsilons = kept.take("epsilons", np.float64, done + 1, nan=True)
        self.populations = [
            Population(
                **{name: array[g] for name, array in arrays.items()}, epsilon=float(epsilons[g]),
                simulations=int(counts[g, 0]), tried=int(counts[g, 1]),
            )
            for g in range(done)
        ]  # fmt: skip
        self.simulated = kept.take("simulated", np.float64, n if done else 0, size, nan=True)
        now = kept.take("now", np.int64, 3)
        self._require_begun_so(done, epsilons)
        self._scale = kept.take("next_scale", np.float64, size)
        self._epsilon = float(epsilons[-1])
        if done:
            last = self.populations[-1]
            if len(self._settings.epsilons):  # there may be more of them now
                self._epsilon = self._next_epsilon(self._distances(), last.weights)
        self.candidates, self.simulations, self._tried = (int(x) for x in now)
        self._places = kept.take("places", np.float64, None, len(self._priors))
        self._near = kept.take("near", np.float64, len(self._places), size, nan=True)
        self._far = kept.take("far", np.float64, len(self._places))
        self._seen = kept.take("seen", np.float64, None, size, nan=True)

    def _require_begun_so(self, done: int, epsilons: FloatArray) -> None:
        """Refuse what is kept of other thresholds, or of more generations."""
        given = np.array(self._settings.epsilons[: done + 1])
        begun = epsilons[: len(given)]
        if self._settings.generations < done or (np.isfinite(begun) & (begun != given)).any():
            known = ", ".join(f"{one:g}" for one in epsilons[:done])
            raise ConfigError(
                f"the checkpoint has {done} generations, with the thresholds {known}: give no "
                "fewer generations, and no other thresholds of these, or another checkpoint"
            )


_KEPT = ("places", "weights", "distances", "scale")

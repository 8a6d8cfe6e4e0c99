"""Unknown parameters from noisy time courses, on the network instead of the equations."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.analysis.dbn.results.inference import (
    Evidence,
    check_given,
    frontier_forward,
    unknown_parameter,
)
from tauslab.analysis.dbn.results.network import DynamicNetwork
from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.errors import ConfigError

MOST_COMBINATIONS = 4096  # of intervals that are all tried
_TOGETHER = 64  # settings of the parameters in a sweep
_STARTS = 8
_COLUMNS = ("variable", "time", "value", "sd")


@dataclass(frozen=True)
class Measurement:
    """A noisy value of a variable at a time point; the noise is normal with deviation `sd`."""

    variable: str
    time: float
    value: float
    sd: float


def read_measurements(path: str | Path) -> list[Measurement]:
    """Read a table ``variable,time,value,sd`` (CSV with these names in its first line).

    Raises
    ------
    ConfigError
        The file cannot be read, or a line is not such; file and line are named.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            lines = list(reader)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"{path} cannot be read: {reason}") from None
    names = list(reader.fieldnames or ())
    if len(set(names)) < len(names):
        raise ConfigError(f"{path}: line 1 names a column twice: {','.join(names)}")
    result = []
    for number, line in enumerate(lines, start=2):
        try:
            name, *values = (line[column] for column in _COLUMNS)
            result.append(Measurement(name.strip(), *map(float, values)))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ConfigError(
                f"{path}: line {number}: write {','.join(_COLUMNS)}, the last three as numbers"
            ) from None
    return result


def evidence_of(network: DynamicNetwork, measurements: Sequence[Measurement]) -> Evidence:
    """Likelihood of measurements, given each interval of their variable.

    The likelihood is the mean of the normal density over the interval; for several measurements at
    one time, the product.

    Raises
    ------
    ConfigError
        A variable that is not in the network, a time that is none of its points, a value that is
        not finite or a deviation that is not above 0.
    """
    result: dict[str, FloatArray] = {}
    for one in measurements:
        time = _time_of(network, one)
        shape = (len(network.times), network.bins(one.variable))
        own = result.setdefault(one.variable, np.ones(shape))
        own[time] *= _density(network.edges[one.variable], one.value, one.sd)
    return result


def _time_of(network: DynamicNetwork, one: Measurement) -> int:
    """Number of a measurement's time point; checks the measurement on the way."""
    if one.variable not in network.variables:
        raise ConfigError(
            f"{one.variable} is measured and is no variable of the network; "
            f"it has {', '.join(network.variables)}"
        )
    if not (math.isfinite(one.value) and math.isfinite(one.sd) and one.sd > 0):
        raise ConfigError(
            f"{one.variable} at t = {one.time:g}: value {one.value:g} with sd {one.sd:g} is not "
            "allowed: a finite value, and an sd above 0"
        )
    index = int(np.argmin(np.abs(network.times - one.time)))
    spacing = network.times[-1] - network.times[0]
    if not abs(network.times[index] - one.time) <= 1e-9 * max(spacing, abs(one.time)):
        raise ConfigError(
            f"{one.variable} is measured at t = {one.time:g}, which is no time point of the "
            f"network; the nearest is {network.times[index]:g}"
        )
    return index


def _density(edges: FloatArray, value: float, sd: float) -> FloatArray:
    """Mean over each interval of the normal density around `value`."""
    scaled = (edges - value) / sd
    width = np.diff(scaled)
    below = np.array([math.erfc(-z / math.sqrt(2)) / 2 for z in scaled])
    above = np.array([math.erfc(z / math.sqrt(2)) / 2 for z in scaled])
    # From the tail that is small, so that far intervals keep their digits.
    inside = np.where(scaled[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    centre = (scaled[:-1] + scaled[1:]) / 2
    point = np.exp(-centre * centre / 2) / math.sqrt(2 * math.pi)
    mean = np.where(width > 0, inside / np.where(width > 0, width, 1), point)
    result: FloatArray = mean / sd
    return result


def log_likelihood(
    network: DynamicNetwork,
    measurements: Sequence[Measurement],
    given: Mapping[str, int] | None = None,
) -> float:
    """Logarithm of the likelihood of measurements by the factored frontier.

    `given` are known intervals of parameters; -inf if the network excludes the measurements.
    """
    check_given(network, given or {})
    priors = {name: network.marginal(name)[:1] for name in network.parameters}
    for name, bin_ in (given or {}).items():
        priors[name] = np.eye(network.bins(name))[[bin_]]
    return float(frontier_forward(network, evidence_of(network, measurements), priors)[1][0])


@dataclass(frozen=True, eq=False)
class Estimate:
    """Combinations of the intervals of parameters, with their likelihoods.

    `combinations` ``[combination, parameter]`` are numbers of intervals; `log_likelihoods` and
    `priors` are ``[combination]``; `squares` ``[combination]`` are sums of squared differences
    between measurements and means of the network, in units of sd (Liu et al. 2009); `complete` is
    False if a search evaluated only some combinations.
    """

    network: DynamicNetwork
    combinations: IntArray
    log_likelihoods: FloatArray
    squares: FloatArray
    priors: FloatArray
    complete: bool

    def __repr__(self) -> str:
        """One line with the best combination."""
        best = {name: f"{value:.6g}" for name, value in self.ranking(1)[0].items()}
        kind = "all" if self.complete else "some"
        return f"Estimate({kind} {len(self.combinations)} combinations, the best {best})"

    @property
    def posterior(self) -> FloatArray:
        """Probability of each combination ``[combination]``, among the ones in it."""
        with np.errstate(divide="ignore"):
            logs = self.log_likelihoods + np.log(self.priors)
        top = logs.max()
        if not math.isfinite(top):
            raise ConfigError("no combination of the parameters' intervals explains these data")
        weights = np.exp(logs - top)
        result: FloatArray = weights / weights.sum()
        return result

    def marginal(self, name: str) -> FloatArray:
        """Posterior probabilities of a parameter's intervals ``[bin]``."""
        column = self.combinations[:, unknown_parameter(self.network, name)]
        return np.bincount(column, self.posterior, self.network.bins(name)).astype(np.float64)

    def mean(self, name: str) -> float:
        """Posterior mean of a parameter, over the middles of its intervals."""
        return float(self.marginal(name) @ self.network.midpoints(name))

    def ranking(self, most: int = 10, *, by: str = "posterior") -> list[dict[str, Any]]:
        """The best combinations: parameters' midpoints and the score of each.

        Parameters
        ----------
        by
            ``posterior``, or ``squares``, whose smallest is best.
        """
        if by not in ("posterior", "squares"):
            raise ConfigError(f"ranking by {by!r} is not known: posterior or squares")
        score = self.posterior if by == "posterior" else self.squares
        order = np.argsort(-score if by == "posterior" else score, kind="stable")[:most]
        names = self.network.parameters
        middles = [self.network.midpoints(name) for name in names]
        return [
            {n: float(m[b]) for n, m, b in zip(names, middles, self.combinations[i], strict=True)}
            | {by: float(score[i])}
            for i in order
        ]


def estimate(
    network: DynamicNetwork,
    measurements: Sequence[Measurement],
    *,
    max_combinations: int = MOST_COMBINATIONS,
    seed: int = 0,
) -> Estimate:
    """Compute the posterior of combinations of intervals of the unknown parameters.

    The factored frontier algorithm computes the likelihood of each combination (Liu, Hsu and
    Thiagarajan 2009; 2011). If there are more than `max_combinations`, a local search from several
    starting points evaluates as many (Hooke and Jeeves 1961).

    Raises
    ------
    ConfigError
        No unknown parameters, no measurements, or measurements as `evidence_of` refuses.
    """
    if not network.parameters:
        raise ConfigError("this network has no unknown parameters to estimate")
    if not measurements:
        raise ConfigError("there are no measurements to estimate parameters from")
    rate = _Rating(network, measurements)
    sizes = [network.bins(name) for name in network.parameters]
    complete = math.prod(sizes) <= max_combinations
    if complete:
        rate.all_of(itertools.product(*map(range, sizes)))
    else:
        _search(rate, sizes, max_combinations, np.random.default_rng(seed))
    return rate.estimate(complete=complete)


class _Rating:
    """Combinations that were tried, with their log-likelihood and squared differences."""

    def __init__(self, network: DynamicNetwork, measurements: Sequence[Measurement]) -> None:
        self._network = network
        self._evidence = evidence_of(network, measurements)
        self._measured = [(one, _time_of(network, one)) for one in measurements]
        self.found: dict[tuple[int, ...], tuple[float, float]] = {}

    def all_of(self, combinations: Iterator[tuple[int, ...]]) -> None:
        """Rate the new ones."""
        fresh = (c for c in combinations if c not in self.found)
        while batch := list(itertools.islice(fresh, _TOGETHER)):
            names = self._network.parameters
            columns = zip(names, zip(*batch, strict=True), strict=True)
            priors = {n: np.eye(self._network.bins(n))[list(bins)] for n, bins in columns}
            likelihoods = frontier_forward(self._network, self._evidence, priors)[1]
            beliefs = frontier_forward(self._network, {}, priors)[0]
            squares = np.zeros(len(batch))
            for one, time in self._measured:
                mean = beliefs[one.variable][time] @ self._network.midpoints(one.variable)
                squares += ((mean - one.value) / one.sd) ** 2
            rated = zip(likelihoods.tolist(), squares.tolist(), strict=True)
            self.found |= dict(zip(batch, rated, strict=True))

    def estimate(self, *, complete: bool) -> Estimate:
        combinations = np.array(list(self.found), np.int64)
        scores = np.array(list(self.found.values()))
        priors = np.ones(len(combinations))
        for column, name in enumerate(self._network.parameters):
            priors *= self._network.marginal(name)[0][combinations[:, column]]
        rated = (combinations, scores[:, 0], scores[:, 1], priors)
        return Estimate(self._network, *rated, complete)


def _search(rate: _Rating, sizes: Sequence[int], most: int, rng: np.random.Generator) -> None:
    for _ in range(_STARTS):
        at = tuple(int(rng.integers(size)) for size in sizes)
        rate.all_of(iter([at]))
        while len(rate.found) < most:
            near = [
                (*at[:p], at[p] + move, *at[p + 1 :])
                for p, size in enumerate(sizes)
                for move in (-1, 1)
                if 0 <= at[p] + move < size
            ]
            rate.all_of(iter(near))
            best = max(near, key=lambda c: _worth(rate, c))
            if _worth(rate, best) <= _worth(rate, at):
                break
            at = best


def _worth(rate: _Rating, combination: tuple[int, ...]) -> tuple[float, float]:
    """Likelihood first; where the network excludes the data, the squared differences lead on."""
    likelihood, squares = rate.found[combination]
    return likelihood, -squares

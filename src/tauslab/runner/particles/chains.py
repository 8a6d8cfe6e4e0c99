"""Particle marginal Metropolis-Hastings: parameters from a time course.

Andrieu, Doucet and Holenstein, J. R. Stat. Soc. B 72, 269 (2010). A random walk on the parameters
(on their logarithms where the prior is of a positive number) whose likelihoods are those of
particle filters; the likelihood of the present place is kept, so that the chain's law is the
posterior whatever the number of particles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.model.arrays import BoolArray, FloatArray
from tauslab.model.errors import ConfigError

_FORM = re.compile(r"\s*(\w+)\s*\(([^(),]+),([^(),]+)\)\s*\Z")
_FORMS = "uniform(LO,HI), loguniform(LO,HI), normal(MEAN,SD), lognormal(MEDIAN,SIGMA)"
_FIRST_STEP = 0.2  # of the spread of a prior, in a first proposal
_ADAPT_EVERY = 25  # steps of the warm-up


@dataclass(frozen=True)
class Prior:
    """A prior of one parameter, seen on the scale on which the chain walks."""

    kind: str
    first: float
    second: float

    @classmethod
    def parse(cls, name: str, text: object) -> Prior:
        """Of a text such as ``"loguniform(0.1,10)"``.

        Raises
        ------
        ConfigError
            It is not known, or its numbers are not allowed.
        """
        found = _FORM.match(text) if isinstance(text, str) else None
        try:
            numbers = [float(found[2]), float(found[3])] if found else []
        except ValueError:
            numbers = []
        if found is None or not numbers or found[1] not in _LOW:
            raise ConfigError(f"prior of {name}: {text!r} is not known; allowed are {_FORMS}")
        first, second = numbers
        if not (math.isfinite(first + second) and _LOW[found[1]](first, second)):
            raise ConfigError(f"prior of {name}: {text!r} has numbers that are not allowed")
        return cls(found[1], first, second)

    @property
    def in_logs(self) -> bool:
        """Whether the chain walks on the logarithm."""
        return self.kind.startswith("log")

    def log_density(self, place: float) -> float:
        """Log density at a place, on the scale of the walk."""
        if self.kind in ("uniform", "loguniform"):
            low, high = self._ends()
            return -math.log(high - low) if low <= place <= high else -math.inf
        centre = math.log(self.first) if self.in_logs else self.first
        z = (place - centre) / self.second
        return -0.5 * z * z - math.log(self.second) - 0.5 * math.log(2 * math.pi)

    def start(self) -> float:
        """Its middle."""
        if self.kind in ("uniform", "loguniform"):
            return sum(self._ends()) / 2
        return math.log(self.first) if self.in_logs else self.first

    def spread(self) -> float:
        """Its standard deviation."""
        if self.kind in ("uniform", "loguniform"):
            low, high = self._ends()
            return (high - low) / math.sqrt(12)
        return self.second

    def value(self, place: float) -> float:
        """The parameter at a place."""
        return math.exp(place) if self.in_logs else place

    def place(self, value: float) -> float:
        """The place of a value; NaN where it has none."""
        if not self.in_logs:
            return value
        return math.log(value) if value > 0 else math.nan

    def _ends(self) -> tuple[float, float]:
        if self.in_logs:
            return math.log(self.first), math.log(self.second)
        return self.first, self.second


_LOW: Mapping[str, Callable[[float, float], bool]] = {
    "uniform": lambda low, high: low < high,
    "loguniform": lambda low, high: 0 < low < high,
    "normal": lambda _, sd: sd > 0,
    "lognormal": lambda median, sigma: median > 0 and sigma > 0,
}


@dataclass(frozen=True)
class Chain:
    """What `tauslab.pmmh` gives.

    Attributes
    ----------
    parameters
        Names of the columns of `values`.
    values
        f64 ``[step, parameter]``, without the warm-up.
    log_likelihood
        f64 ``[step]``: of the filter of the present place.
    accepted
        bool ``[step]``: whether the step moved.
    """

    parameters: tuple[str, ...]
    values: FloatArray
    log_likelihood: FloatArray
    accepted: BoolArray

    def __getitem__(self, name: str) -> FloatArray:
        """Values ``[step]`` of a parameter."""
        if name not in self.parameters:
            raise ConfigError(f"{name!r} is no parameter of this chain: {self.parameters}")
        return self.values[:, self.parameters.index(name)]

    @property
    def acceptance(self) -> float:
        """Part of the steps that moved."""
        return float(self.accepted.mean())

    def effective_size(self, name: str) -> float:
        """Independent draws that tell as much of a mean (initial positive sequence, Geyer 1992)."""
        x = self[name] - self[name].mean()
        n = len(x)
        power = np.abs(np.fft.rfft(x, 2 * n)) ** 2
        covariance = np.fft.irfft(power)[:n] / n
        if covariance[0] <= 0:
            return 1.0
        pairs = covariance[0 : n - 1 : 2] + covariance[1:n:2]
        ends = np.flatnonzero(pairs <= 0)
        kept = pairs[: int(ends[0]) if len(ends) else len(pairs)]
        time = max(2 * float(kept.sum()) / float(covariance[0]) - 1, 1 / n)
        return min(float(n), n / time)

    def to_xarray(self) -> Any:
        """Parameters and log-likelihood ``[step]`` as an `xarray.Dataset`."""
        import xarray

        columns = {name: ("step", self[name]) for name in self.parameters}
        return xarray.Dataset({**columns, "log_likelihood": ("step", self.log_likelihood)})


def walk(
    priors: Mapping[str, Prior],
    log_likelihood: Callable[[Mapping[str, float], int], float],
    *,
    steps: int,
    warm_up: int,
    seed: int,
    start: Mapping[str, float],
    proposal: Sequence[float] | npt.ArrayLike | None,
) -> Chain:
    """Run a chain; `log_likelihood` takes values by name and the number of the step.

    During the warm-up the proposal takes the covariance of the places so far, times 2.38^2 / d
    (Roberts and Rosenthal 2001); afterwards it stays.
    """
    names = tuple(priors)
    draw = np.random.Generator(np.random.Philox(key=np.array([seed, 7], np.uint64)))
    place = np.array(
        [priors[n].place(start[n]) if n in start else priors[n].start() for n in names]
    )
    prior = _log_prior(priors, place)
    spreads = [_FIRST_STEP * priors[n].spread() for n in names]
    root = np.diag(spreads if proposal is None else np.asarray(proposal, np.float64))
    found = log_likelihood(_values(priors, place), 0) if prior > -math.inf else -math.inf
    if not found > -math.inf:
        raise ConfigError(
            "the chain cannot start: its likelihood is 0 at "
            + ", ".join(f"{k} = {v:.4g}" for k, v in _values(priors, place).items())
            + "; give another start= or more particles"
        )
    visited = np.empty((steps + warm_up, len(names)))
    logs, moved = np.empty(steps + warm_up), np.zeros(steps + warm_up, bool)
    for step in range(steps + warm_up):
        tried = place + root @ draw.standard_normal(len(names))
        tried_prior = _log_prior(priors, tried)
        uniform = 1.0 - draw.random()
        if tried_prior > -math.inf:
            tried_found = log_likelihood(_values(priors, tried), step + 1)
            if math.log(uniform) < tried_found + tried_prior - found - prior:
                place, prior, found, moved[step] = tried, tried_prior, tried_found, True
        visited[step], logs[step] = place, found
        if step < warm_up and step >= 4 * len(names) and (step + 1) % _ADAPT_EVERY == 0:
            root = _adapted(visited[step // 2 : step + 1], root)
    values = visited[warm_up:].copy()
    for column, name in enumerate(names):
        if priors[name].in_logs:
            values[:, column] = np.exp(values[:, column])
    return Chain(names, values, logs[warm_up:], moved[warm_up:])


def _values(priors: Mapping[str, Prior], place: FloatArray) -> dict[str, float]:
    return {
        name: prior.value(float(x))
        for (name, prior), x in zip(priors.items(), place.tolist(), strict=True)
    }


def _log_prior(priors: Mapping[str, Prior], place: FloatArray) -> float:
    return sum(
        prior.log_density(x) for prior, x in zip(priors.values(), place.tolist(), strict=True)
    )


def _adapted(places: FloatArray, root: FloatArray) -> FloatArray:
    """The root of the proposal's covariance from where the chain has been."""
    size = places.shape[1]
    covariance = np.atleast_2d(np.cov(places.T)) * (2.38**2 / size)
    if not (np.diag(covariance) > 0).all():
        return root / 2  # nothing was accepted
    return np.linalg.cholesky(covariance + 1e-12 * np.diag(np.diag(covariance)))

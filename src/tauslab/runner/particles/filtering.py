"""The bootstrap particle filter: the likelihood of a time course, and states given the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.model.arrays import FloatArray
from tauslab.model.errors import ConfigError
from tauslab.runner.particles import weights as particle_weights
from tauslab.runner.particles.ensemble import Ensemble
from tauslab.runner.particles.observing import Constants, Observations

DEFAULT_THRESHOLD = 0.5


@dataclass(frozen=True)
class FilterResult:
    """What a filter says; made by `tauslab.particle_filter` and `tauslab.exact_filter`.

    Attributes
    ----------
    log_likelihood
        Logarithm of the density of all data; -inf where no particle can explain a row.
    terms
        f64 ``[time]``: of each row, given those before; their sum is `log_likelihood`.
    time
        f64 ``[time]``: times of the rows.
    species
        Names of the columns of `mean` and `sd`.
    mean, sd
        f64 ``[time, species]``: of the state given the data so far; NaN after no particle is left.
    effective_size
        f64 ``[time]``: of the weights after each row; 0 for an exact filter.
    bound
        Of an exact filter: `log_likelihood` is too small by this at most; NaN of particles, whose
        error is of chance.
    """

    log_likelihood: float
    terms: FloatArray
    time: FloatArray
    species: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    effective_size: FloatArray
    bound: float = float("nan")

    def to_xarray(self) -> Any:
        """All arrays by name as an `xarray.Dataset`."""
        import xarray

        return xarray.Dataset(
            {
                "mean": (("time", "species"), self.mean),
                "sd": (("time", "species"), self.sd),
                "log_likelihood_term": ("time", self.terms),
                "effective_size": ("time", self.effective_size),
            },
            coords={"time": self.time, "species": list(self.species)},
            attrs={"log_likelihood": self.log_likelihood},
        )


def check_threshold(threshold: float) -> None:
    """Refuse what is no part of n."""
    if not (isinstance(threshold, int | float) and 0 <= threshold <= 1):
        raise ConfigError(f"threshold={threshold!r} is not allowed: from 0 to 1")


def filtered(
    particles: Ensemble,
    data: Observations,
    constants: Constants,
    *,
    scheme: str = "systematic",
    threshold: float = DEFAULT_THRESHOLD,
) -> FilterResult:
    """Filter with an ensemble at its start."""
    rows, species = len(data), particles.species
    terms = np.zeros(rows)
    mean, sd = np.full((rows, len(species)), np.nan), np.full((rows, len(species)), np.nan)
    sizes = np.zeros(rows)
    for row, t in enumerate(data.times.tolist()):
        if row and particles.effective_size < threshold * particles.n:
            particles.resample(method=scheme)
        particles.advance(t)
        logs = data.log_density(row, _Once(particles), constants, particles.n)
        if logs is not None:
            terms[row] = particles.weigh(logs)
        elif not particles.alive.any():
            terms[row] = -np.inf
        if terms[row] == -np.inf:
            break
        sizes[row] = particles.effective_size
        mean[row], sd[row] = _moments(particles)
    return FilterResult(
        float(np.add.accumulate(terms)[-1]), terms, data.times, species, mean, sd, sizes
    )


class _Once:
    """Values of particles by name; the device is asked once."""

    def __init__(self, particles: Ensemble) -> None:
        self._particles = particles
        self._known: dict[str, FloatArray] = {}

    def __call__(self, name: str) -> FloatArray:
        if name not in self._known:
            self._known[name] = self._particles.values(name)
        return self._known[name]


def _moments(particles: Ensemble) -> tuple[FloatArray, FloatArray]:
    """Weighted means and standard deviations ``[species]``."""
    shares = particles.weights
    held = shares > 0
    shares, counts = shares[held], particles.counts[held].astype(np.float64)
    columns = counts.T
    means = np.array([particle_weights.fixed_sum(shares * x) for x in columns])
    squares = [
        particle_weights.fixed_sum(shares * (x - m) ** 2)
        for x, m in zip(columns, means, strict=True)
    ]
    return means, np.sqrt(np.array(squares))

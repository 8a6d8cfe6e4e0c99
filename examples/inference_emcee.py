"""Two rates of predators and prey by an ensemble sampler whose walkers are filtered all at once.

    pip install emcee
    python examples/inference_emcee.py

emcee (Foreman-Mackey and others 2013) moves half of its walkers at a time, and gives their places as one array:
`tauslab.particle_filters` runs a filter for each in the same launches. Walkers are filtered with new
draws at every step; emcee keeps the estimate of a walker until it moves, as exactness asks for.
"""

from __future__ import annotations

import emcee
import numpy as np
import numpy.typing as npt
from filter_lotka_volterra import course, model

import tauslab as ts

FloatArray = npt.NDArray[np.float64]
NAMES = ("birth", "death")
LOW, HIGH = np.log([0.3, 0.2]), np.log([3.0, 2.0])  # of uniform priors of the logarithms


class LogPosterior:
    """Logarithm of the posterior of many walkers, ``[walker, parameter]`` -> ``[walker]``."""

    def __init__(self, n: int, rows: int) -> None:
        self.n, self.data, self.calls = n, course(rows), 0

    def __call__(self, places: FloatArray) -> FloatArray:
        """Filters of n particles, one for each walker that the prior allows."""
        found = np.full(len(places), -np.inf)
        inside = ((places > LOW) & (places < HIGH)).all(axis=1)
        self.calls += 1
        if inside.any():
            values = np.exp(places[inside])
            found[inside] = ts.particle_filters(
                model(), self.data, observe={"X": "normal(sd=10)", "Y": "normal(sd=10)"},
                n=self.n, set=dict(zip(NAMES, values.T, strict=True)), seed=self.calls,
                device="cpu",
            ).log_likelihood  # fmt: skip
        return found


def posterior(
    walkers: int = 24, steps: int = 200, warm_up: int = 80, n: int = 100, rows: int = 8
) -> FloatArray:
    """Rates ``[draw, parameter]``."""
    generator = np.random.default_rng(1)
    start = np.log([0.8, 0.5]) + 0.1 * generator.standard_normal((walkers, 2))
    sampler = emcee.EnsembleSampler(walkers, 2, LogPosterior(n, rows), vectorize=True)
    sampler.random_state = np.random.RandomState(1).get_state()
    sampler.run_mcmc(start, warm_up + steps)
    draws: FloatArray = np.exp(sampler.get_chain(discard=warm_up, flat=True))
    return draws


if __name__ == "__main__":
    found = posterior()
    for name, column, true in zip(NAMES, found.T, (1.0, 0.6), strict=True):
        print(f"{name} = {column.mean():.3f} +- {column.std():.3f} (made with {true})")

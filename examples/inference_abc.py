"""Recover two rates of an enzyme from one noisy time course: approximate Bayesian computation.

    python examples/inference_abc.py

`tauslab.simulator` maps a batch of parameter sets to summaries in one launch, so that every
generation of the sequential Monte Carlo sampler is a few calls. It needs NumPy alone; under
``mpirun`` the ranks share the simulations. Which rates made the data is known here, to compare.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import tauslab as ts

FloatArray = npt.NDArray[np.float64]
NAMES = ("k_bind", "k_cat")
TRUTH = np.array([2e-3, 0.5])
# The prior is uniform in the decimal logarithms, over two decades each.
LOW, HIGH = np.array([-4.0, -1.5]), np.array([-2.0, 0.5])


def enzyme() -> ts.Network:
    """E + S <-> ES -> E + P with 100 enzymes and 300 substrates; k_free is taken as known."""
    network = ts.Network("enzyme")
    for name, initial in (("E", 100), ("S", 300), ("ES", 0), ("P", 0)):
        network.add_species(name, initial)
    for name, value in (("k_bind", 2e-3), ("k_free", 0.1), ("k_cat", 0.5)):
        network.add_parameter(name, value)
    network.add_reaction("E + S -> ES", rate="k_bind")
    network.add_reaction("ES -> E + S", rate="k_free")
    network.add_reaction("ES -> E + P", rate="k_cat")
    return network


def courses(result: ts.Result) -> FloatArray:
    """Summary ``[trajectory, 2 x time]``: substrate and product at every sample time."""
    return np.hstack([result.counts("S"), result.counts("P")]).astype(np.float64)


@dataclass(frozen=True)
class Posterior:
    """Weighted particles ``[particle, parameter]`` and what they cost."""

    particles: FloatArray
    weights: FloatArray
    distance: float
    simulations: int

    def mean(self) -> FloatArray:
        """Posterior mean of every parameter."""
        return self.weights @ self.particles

    def sd(self) -> FloatArray:
        """Posterior standard deviation of every parameter."""
        return np.sqrt(self.weights @ (self.particles - self.mean()) ** 2)


def abc_smc(
    simulate: Callable[[FloatArray], FloatArray],
    observed: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    particles: int = 200,
    generations: int = 6,
    seed: int = 0,
) -> Posterior:
    """Sample the posterior by sequential Monte Carlo with a uniform prior.

    In every generation particles move by a normal kernel with twice their covariance (Beaumont et
    al., Biometrika 96:983, 2009), and those nearer to the data than the median of the last
    generation are kept. Distances are Euclidean, in standard deviations of the prior's summaries.
    """
    rng = np.random.default_rng(seed)
    theta = rng.uniform(low, high, (4 * particles, len(low)))
    summaries = simulate(theta)
    scale = np.maximum(summaries.std(axis=0), 1.0)

    def distances(found: FloatArray) -> FloatArray:
        apart: FloatArray = np.linalg.norm((found - observed) / scale, axis=1)
        return apart

    far = distances(summaries)
    nearest = np.argsort(far)[:particles]
    theta, far = theta[nearest], far[nearest]
    weights, done = np.full(particles, 1 / particles), len(summaries)
    for _ in range(generations - 1):
        limit = np.median(far)
        root = np.linalg.cholesky(2 * np.cov(theta.T, aweights=weights))
        kept: list[FloatArray] = []
        kept_far: list[FloatArray] = []
        while sum(map(len, kept)) < particles:
            start = theta[rng.choice(particles, 2 * particles, p=weights)]
            moved = start + rng.standard_normal(start.shape) @ root.T
            moved = moved[((moved >= low) & (moved <= high)).all(axis=1)]
            found = distances(simulate(moved))
            done += len(moved)
            kept.append(moved[found < limit])
            kept_far.append(found[found < limit])
        new, far = np.concatenate(kept)[:particles], np.concatenate(kept_far)[:particles]
        steps = np.linalg.solve(root, (new[:, None] - theta[None]).reshape(-1, len(low)).T)
        kernel = np.exp(-0.5 * (steps**2).sum(axis=0)).reshape(particles, particles)
        unscaled = 1 / (kernel @ weights)
        theta, weights = new, unscaled / unscaled.sum()
    return Posterior(theta, weights, float(far.max()), done)


def infer(seed: int = 0, device: str = "auto") -> Posterior:
    """Make data with the true rates, forget these, and find them again; in decimal logarithms."""
    simulate = ts.simulator(
        enzyme(), NAMES, courses, times=np.linspace(2.0, 40.0, 20), seed=seed, device=device
    )
    observed = simulate(TRUTH)
    return abc_smc(lambda theta: simulate(10.0**theta), observed, LOW, HIGH, seed=seed)


def main() -> None:
    """Print what was found beside the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    posterior = infer(arguments.seed, arguments.device)
    print(f"{posterior.simulations} simulations, largest distance {posterior.distance:.3g}")
    for name, mean, sd, truth in zip(NAMES, posterior.mean(), posterior.sd(), TRUTH, strict=True):
        print(f"log10 {name}: {mean:.3f} (sd {sd:.3f}); truth {np.log10(truth):.3f}")


if __name__ == "__main__":
    main()

"""The posterior of two rates by a neural network, beside the exact one (``pip install torch sbi``).

    python examples/inference_sbi.py

Molecules are made at rate b and lost at rate d each; ten counts of one trajectory are the data.
From one count to the next some survive (binomial) and others were made since (Poisson), so that the
likelihood is known, and with it the posterior on a grid. sbi learns it from simulations alone, all
of which are one call: `tauslab.simulator` takes sbi's tensors and gives tensors back.
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt
import torch
from sbi.inference import NPE, DirectPosterior, simulate_for_sbi
from sbi.utils import BoxUniform
from scipy.stats import binom, poisson

import tauslab as ts

FloatArray = npt.NDArray[np.float64]
NAMES = ("b", "d")
TRUTH = np.log10([20.0, 0.5])
# The prior is uniform in the decimal logarithms.
LOW, HIGH = np.array([0.5, -1.0]), np.array([2.0, 0.5])
TIMES = np.linspace(0.5, 5.0, 10)


def turnover() -> ts.Network:
    """Birth at rate b, death at rate d each, from no molecule."""
    network = ts.Network("turnover")
    network.add_species("X", 0)
    for name, value in zip(NAMES, 10**TRUTH, strict=True):
        network.add_parameter(name, value)
    network.add_reaction("-> X", rate="b")
    network.add_reaction("X ->", rate="d")
    return network


def exact(counts: FloatArray, cells: int = 60) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of the posterior, from the likelihood on a grid."""
    axes = [np.linspace(low, high, cells) for low, high in zip(LOW, HIGH, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    made, lost = 10.0 ** grid.T[..., None]
    kept = np.exp(-lost * (TIMES[1] - TIMES[0]))
    fresh = made / lost * (1 - kept)
    log_likelihood = np.zeros(len(grid))
    for before, after in zip(np.append(0, counts[:-1]), counts, strict=True):
        survivors = np.arange(min(before, after) + 1)
        ways = binom.pmf(survivors, before, kept) * poisson.pmf(after - survivors, fresh)
        log_likelihood += np.log(np.maximum(ways.sum(axis=1), 1e-300))
    weights = np.exp(log_likelihood - log_likelihood.max())
    weights /= weights.sum()
    mean = weights @ grid
    return mean, np.sqrt(weights @ (grid - mean) ** 2)


def rates_simulator(seed: int, device: str) -> ts.Simulator:
    """Rates to counts at every sample time, as tensors or arrays."""
    return ts.simulator(
        turnover(), NAMES, lambda r: r.counts("X"), times=TIMES, seed=seed, device=device
    )


def learn(simulate: ts.Simulator, simulations: int, seed: int = 0) -> DirectPosterior:
    """Train a network that gives the posterior for any data."""
    torch.manual_seed(seed)
    prior = BoxUniform(torch.tensor(LOW).float(), torch.tensor(HIGH).float())
    theta, counts = simulate_for_sbi(
        lambda logarithms: simulate(10.0**logarithms).sqrt(),
        prior,
        simulations,
        seed=seed,
        simulation_batch_size=None,  # all in one call: by default sbi makes one for each
        show_progress_bar=False,
    )
    inference = NPE(prior, density_estimator="mdn", show_progress_bars=False)
    inference.append_simulations(theta, counts).train(training_batch_size=100)
    return inference.build_posterior()


def sample(posterior: DirectPosterior, counts: FloatArray, draws: int = 2000) -> FloatArray:
    """Draws from the posterior of some data ``[draw, parameter]``."""
    data = torch.tensor(np.sqrt(counts)).float()
    return posterior.sample((draws,), x=data, show_progress_bars=False).numpy().astype(np.float64)


def infer(
    seed: int = 0, device: str = "auto", simulations: int = 4000
) -> tuple[FloatArray, FloatArray]:
    """Draws that sbi gives for one trajectory, and the counts of that."""
    simulate = rates_simulator(seed, device)
    counts = simulate(10.0**TRUTH)
    return sample(learn(simulate, simulations, seed), counts), counts


def main() -> None:
    """Print what was found beside the exact posterior and the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    draws, counts = infer(arguments.seed, arguments.device)
    means, deviations = exact(counts)
    for j, name in enumerate(NAMES):
        found = f"{draws[:, j].mean():.3f} (sd {draws[:, j].std():.3f})"
        known = f"{means[j]:.3f} (sd {deviations[j]:.3f})"
        print(f"log10 {name}: sbi {found}; exact {known}; truth {TRUTH[j]:.3f}")


if __name__ == "__main__":
    main()

"""A rate by synthetic likelihood: simulated summaries as a normal distribution.

    python examples/inference_synthetic.py

Where a likelihood is out of reach, summaries of many simulations at a parameter say how likely those of the data are
(Wood, Nature 466, 1102, 2010). `tauslab.simulator` maps all parameters of a grid, each with its repeats, to
summaries in one launch. Here the law is known, so that the answer can be compared.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import tauslab as ts

FloatArray = npt.NDArray[np.float64]
TIMES = np.array([2.0, 4.0, 8.0])
LOSS = 0.25


def model() -> ts.Network:
    """Molecules are made at the rate k and lost."""
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_parameter("k", 10.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=LOSS)
    return net


def summaries(result: ts.Result) -> FloatArray:
    """Counts at all times, ``[simulation, time]``."""
    return result.counts("X").astype(np.float64)


def log_likelihoods(grid: FloatArray, seen: FloatArray, repeats: int, seed: int) -> FloatArray:
    """Synthetic log-likelihood ``[rate]`` of counts of independent cells ``[cell, time]``."""
    simulate = ts.simulator(model(), ["k"], summary=summaries, seed=seed, times=TIMES, device="cpu")
    found = simulate(np.repeat(grid, repeats)[:, None]).reshape(len(grid), repeats, len(TIMES))
    logs = np.empty(len(grid))
    for i, made in enumerate(found):
        centre, covariance = made.mean(axis=0), np.cov(made.T)
        off = seen - centre
        squares = np.einsum("ij,jk,ik->i", off, np.linalg.inv(covariance), off)
        logs[i] = -0.5 * (squares.sum() + len(seen) * np.linalg.slogdet(covariance)[1])
    return logs


def posterior(cells: int = 20, repeats: int = 400, points: int = 61) -> tuple[float, float]:
    """Mean and standard deviation of the rate, of a uniform prior from 5 to 20."""
    seen = summaries(ts.run(model(), n=cells, times=TIMES, seed=77, device="cpu"))
    grid = np.linspace(5, 20, points)
    logs = log_likelihoods(grid, seen, repeats, seed=1)
    # The estimates scatter from rate to rate: a parabola near the top takes the scatter out.
    near = logs > logs.max() - 12
    bend, slope, _ = np.polyfit(grid[near] - 10, logs[near], 2)
    return 10 - slope / (2 * bend), float(np.sqrt(-1 / (2 * bend)))


if __name__ == "__main__":
    mean, sd = posterior()
    print(f"k = {mean:.2f} +- {sd:.2f} (made with 10)")

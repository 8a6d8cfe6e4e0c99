"""Two rates of predators and prey from a noisy time course, by particle marginal Metropolis-Hastings.

    python examples/filter_lotka_volterra.py

The course is made with the rates 1.0 and 0.6; a core needs about a minute.
"""

from __future__ import annotations

import numpy as np

import tauslab as ts


def model() -> ts.Network:
    """Prey X, predators Y."""
    net = ts.Network("lotka_volterra")
    net.add_species("X", 50)
    net.add_species("Y", 100)
    net.add_parameter("birth", 1.0)
    net.add_parameter("death", 0.6)
    net.add_reaction("X -> 2 X", rate="birth")
    net.add_reaction("X + Y -> 2 Y", rate=0.005)
    net.add_reaction("Y ->", rate="death")
    return net


def course(rows: int = 8, seed: int = 1) -> dict[str, np.ndarray]:
    """Counts of one trajectory with normal noise of 10."""
    times = np.arange(1.0, rows + 1)
    made = ts.run(model(), n=1, times=times, seed=seed, device="cpu")
    noise = np.random.default_rng(seed).normal(0, 10, (2, rows))
    return {
        "time": times,
        "X": made.counts("X")[0] + noise[0],
        "Y": made.counts("Y")[0] + noise[1],
    }


def posterior(n: int = 100, steps: int = 1000, warm_up: int = 300, rows: int = 8) -> ts.Chain:
    """Rates that fit the course."""
    return ts.pmmh(
        model(), course(rows),
        {"birth": "loguniform(0.3,3)", "death": "loguniform(0.2,2)"},
        observe={"X": "normal(sd=10)", "Y": "normal(sd=10)"},
        n=n, steps=steps, warm_up=warm_up, seed=1, device="cpu",
        start={"birth": 0.8, "death": 0.5}, proposal=[0.1, 0.1],
    )  # fmt: skip


if __name__ == "__main__":
    chain = posterior()
    for name, true in (("birth", 1.0), ("death", 0.6)):
        draws = chain[name]
        print(f"{name} = {draws.mean():.3f} +- {draws.std():.3f} (made with {true})")
    print(f"{chain.acceptance:.0%} of the steps moved")

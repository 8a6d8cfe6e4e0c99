"""Fit a gene's switching rate to counts of mRNA in fixed cells, by the exact likelihood.

    python examples/snapshots.py

Each cell is counted once, as by smFISH.
"""

from __future__ import annotations

import numpy as np

import tauslab as ts


def gene() -> ts.Network:
    """One gene that switches, and its mRNA."""
    net = ts.Network("gene")
    net.add_species("OFF", 1)
    net.add_species("ON")
    net.add_species("M")
    net.add_parameter("k_on", 0.05)
    net.add_reaction("OFF -> ON", rate="k_on")
    net.add_reaction("ON -> OFF", rate=0.1)
    net.add_reaction("ON -> ON + M", rate=5.0)
    net.add_reaction("M ->", rate=0.2)
    return net


def fit(cells: int = 400, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Rates k_on and the log-likelihood of `cells` cells that were made with k_on = 0.08."""
    model = gene()
    made = ts.run(model, n=cells, times=[30.0], set={"k_on": 0.08}, seed=seed, device="cpu")
    seen = {"M": made.counts("M")[:, 0]}
    rates = np.geomspace(0.02, 0.3, 25)
    logs = [ts.cme(model, 30.0, set={"k_on": float(k)}).log_likelihood(seen) for k in rates]
    return rates, np.array(logs)


if __name__ == "__main__":
    rates, logs = fit()
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = float((weights * rates).sum())
    sd = float(np.sqrt((weights * (rates - mean) ** 2).sum()))
    print(f"k_on = {mean:.4f} +- {sd:.4f} (made with 0.08)")

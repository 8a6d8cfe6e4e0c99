"""Make the figure of paper.md: ``python scripts/figures/paper.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import tauslab as ts
from tauslab.cli.commands.machine import schlogl

PICTURE = Path(__file__).resolve().parents[2] / "paper" / "schlogl.png"


def main() -> None:
    """Draw the distribution over time, and at the end beside the master equation."""
    net = schlogl()
    result = ts.run(net, n=10_000, t_end=10, seed=1)
    exact = ts.cme(net, 10.0, tolerance=1e-6).marginal("X", 10.0)
    figure = Figure(figsize=(8, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    result.plot("X", kind="heatmap", ax=left)
    numbers, edges = result.histogram("X", t=10, bins=np.arange(-0.5, len(exact) + 9.5, 10))
    right.stairs(
        numbers / (10 * result.n), edges, fill=True, alpha=0.4, label="10,000 trajectories"
    )
    right.plot(exact, color="black", linewidth=1, label="master equation")
    right.set(xlabel="X at t = 10", ylabel="probability", xlim=(0, 750))
    right.legend(frameon=False)
    figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()

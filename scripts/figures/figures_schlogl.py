"""The Schlögl studies of Nobile et al. (2014), Figures 9 to 11, with exact SSA.

    python scripts/figures/figures_schlogl.py --device cuda -o docs/figures

Figure 9: P(X, t) of 2^17 trajectories to t = 3 and to t = 150.  Figure 10: X at t = 10 for ten
values of c3 in [6.9e-4, 1.4e-3], 2^18 trajectories each.  Figure 11: 16^3 values of c1, c2 and c3,
256 trajectories each; a point is bistable where both peaks hold a tenth of the trajectories at
least.
Prints the seconds of each.  `--scale 0.01` makes everything smaller, for a machine without a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import tauslab as ts

mpl.use("Agg")
import matplotlib.pyplot as plt

MODEL = Path(__file__).resolve().parents[2] / "examples" / "schlogl.xml"
DIP = 300  # between the two peaks of X
BISTABLE = 0.1


def figure_9(n: int, device: Any, folder: Path) -> None:
    """Heat maps of the distribution over time."""
    for t_end in (3.0, 150.0):
        result = ts.run(
            MODEL, method="ssa", n=n, t_end=t_end, points=101, species="X", seed=9, device=device
        )
        result.plot("X", kind="heatmap", path=folder / f"schlogl-fig9-t{t_end:g}.png")
        plt.close("all")


def figure_10(n: int, device: Any, folder: Path) -> None:
    """Histograms over one rate."""
    values = np.linspace(6.9e-4, 1.4e-3, 10)
    result = ts.run(MODEL, method="ssa", n=n, times=[10.0], species="X", seed=10, device=device,
                    sweep={"c3": values}, record="histogram:X:0:800:160,statistics")  # fmt: skip
    cells, edges = result.stored_histogram("X")
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    centres = (edges[1:] + edges[:-1]) / 2
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(values)))
    for value, row, colour in zip(values, cells[:, 0, 1:-1], colours, strict=True):
        density = row / (n * np.diff(edges))
        axes.plot(centres, density, color=colour, label=f"c3 = {value:.3g}")
    axes.set(xlabel="X at t = 10 (molecules)", ylabel="probability per molecule")
    axes.legend(fontsize="small", ncols=2)
    figure.savefig(folder / "schlogl-fig10.png", dpi=120)
    plt.close(figure)


def figure_11(n: int, steps: int, device: Any, folder: Path) -> None:
    """Which rates give two peaks."""
    sweep = {
        "c1": np.linspace(2.9e-7, 3.1e-7, steps),
        "c2": np.linspace(8e-5, 1.1e-4, steps),
        "c3": np.linspace(6e-4, 1.2e-3, steps),
    }
    result = ts.run(MODEL, method="ssa", n=n, times=[10.0], species="X", seed=11, device=device,
                    sweep=sweep, record=f"histogram:X:{DIP}:{DIP + 1}:1,statistics")  # fmt: skip
    cells, _ = result.stored_histogram("X")
    lower = cells[:, 0, 0] / n
    both = (lower > BISTABLE) & (lower < 1 - BISTABLE)
    figure = plt.figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.add_subplot(projection="3d")
    points = [result.points[name][both] * 10.0**k for name, k in (("c1", 7), ("c2", 4), ("c3", 3))]
    dots = axes.scatter(*points, c=lower[both], cmap="coolwarm", s=12)
    axes.locator_params(nbins=4)
    axes.set(xlabel="c1 (1e-7)", ylabel="c2 (1e-4)", zlabel="c3 (1e-3)")
    figure.colorbar(dots, label=f"P(X < {DIP}) at t = 10, where it is bistable", shrink=0.7)
    figure.savefig(folder / "schlogl-fig11.png", dpi=120)
    plt.close(figure)
    print(f"figure 11: {int(both.sum())} of {len(both)} points are bistable")


def timed(name: str, action: Callable[[], None]) -> None:
    """Run and print the seconds."""
    began = time.perf_counter()
    action()
    print(f"{name}: {time.perf_counter() - began:.2f} s with its picture")


def main() -> None:
    """Make all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("-o", "--output", type=Path, default=Path("figures"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    device, folder, scale = arguments.device, arguments.output, arguments.scale
    steps = max(2, round(16 * scale ** (1 / 4)))
    timed("figure 9", lambda: figure_9(max(8, int(2**17 * scale)), device, folder))
    timed("figure 10", lambda: figure_10(max(8, int(2**18 * scale)), device, folder))
    timed("figure 11", lambda: figure_11(max(8, int(256 * scale**0.25)), steps, device, folder))


if __name__ == "__main__":
    main()

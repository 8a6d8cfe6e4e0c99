"""Pictures of pages: studies of a paper on the Schlögl and Ras models, and those of docs/results.md.

    python scripts/figures/figures.py schlogl --device cuda -o docs/figures
    python scripts/figures/figures.py ras --device cuda -o docs/figures      # under mpirun ranks share it
    python scripts/figures/figures.py look -o docs/figures

`schlogl`, exact, and `ras`, by leaps, are of Nobile et al., PLoS ONE 9:e91963 (2014). Figure 9: P(X, t) of
2^17 trajectories to t = 3 and to t = 150. Figure 10: X at t = 10 for ten values of c3 in
[6.9e-4, 1.4e-3], 2^18 trajectories each. Figure 11: 16^3 values of c1, c2 and c3, 256 trajectories
each; a point is bistable where both peaks hold a tenth of the trajectories at least. Figure 12:
amplitude of the oscillations of cAMP after t = 500, of one trajectory to t = 1500 at each of 2^16
points: 256 amounts of GTP in [1.9e4, 5e6] times 256 of Cdc25 in [0, 600]. Figure 13: run time of 2^10
trajectories to t = 150 with 100 samples, at each of 17 values of c3 in [1.5e-3, 15].
Prints the seconds of each. `--scale 0.01` makes everything smaller, for a machine without a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import tauslab as ts
from tauslab.api.api import ranks

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
SCHLOGL = ROOT / "examples" / "schlogl.xml"
RAS = ROOT / "tests" / "data" / "sbml" / "ras_camp_pka.xml"
DIP = 300  # between the two peaks of X
BISTABLE = 0.1


@dataclass(frozen=True)
class Settings:
    """The folder of pictures, the device, and the part of the work."""

    folder: Path
    device: Any
    scale: float

    def many(self, number: float) -> int:
        """A number of trajectories or points."""
        return max(8, int(number * self.scale))

    def save(self, figure: Any, name: str) -> None:
        """Write a picture, on the first rank."""
        if ranks().rank == 0:
            figure.savefig(self.folder / name, dpi=120)
        plt.close(figure)


def figure_9(to: Settings) -> None:
    """Heat maps of the distribution over time."""
    for t_end in (3.0, 150.0):
        result = ts.run(SCHLOGL, method="ssa", n=to.many(2**17), t_end=t_end, points=101,
                        species="X", seed=9, device=to.device)  # fmt: skip
        result.plot("X", kind="heatmap", path=to.folder / f"schlogl-fig9-t{t_end:g}.png")
        plt.close("all")


def figure_10(to: Settings) -> None:
    """Histograms over one rate."""
    values, n = np.linspace(6.9e-4, 1.4e-3, 10), to.many(2**18)
    result = ts.run(SCHLOGL, method="ssa", n=n, times=[10.0], species="X", seed=10,
                    device=to.device, sweep={"c3": values},
                    record="histogram:X:0:800:160,statistics")  # fmt: skip
    cells, edges = result.stored_histogram("X")
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(values)))
    for value, row, colour in zip(values, cells[:, 0, 1:-1], colours, strict=True):
        density = row / (n * np.diff(edges))
        axes.plot((edges[1:] + edges[:-1]) / 2, density, color=colour, label=f"c3 = {value:.3g}")
    axes.set(xlabel="X at t = 10 (molecules)", ylabel="probability per molecule")
    axes.legend(fontsize="small", ncols=2)
    to.save(figure, "schlogl-fig10.png")


def figure_11(to: Settings) -> None:
    """Which rates give two peaks."""
    n, steps = to.many(256), max(2, round(16 * to.scale**0.25))
    sides = {"c1": (2.9e-7, 3.1e-7), "c2": (8e-5, 1.1e-4), "c3": (6e-4, 1.2e-3)}
    sweep = {name: np.linspace(*ends, steps) for name, ends in sides.items()}
    result = ts.run(SCHLOGL, method="ssa", n=n, times=[10.0], species="X", seed=11,
                    device=to.device, sweep=sweep,
                    record=f"histogram:X:{DIP}:{DIP + 1}:1,statistics")  # fmt: skip
    lower = result.stored_histogram("X")[0][:, 0, 0] / n
    both = (lower > BISTABLE) & (lower < 1 - BISTABLE)
    figure = plt.figure(figsize=(6.4, 5.2), layout="constrained")
    axes = figure.add_subplot(projection="3d")
    points = [result.points[name][both] * 10.0**k for name, k in (("c1", 7), ("c2", 4), ("c3", 3))]
    dots = axes.scatter(*points, c=lower[both], cmap="coolwarm", s=12)
    axes.locator_params(nbins=4)
    axes.set(xlabel="c1 (1e-7)", ylabel="c2 (1e-4)", zlabel="c3 (1e-3)")
    figure.colorbar(dots, label=f"P(X < {DIP}) at t = 10, where it is bistable", shrink=0.7)
    to.save(figure, "schlogl-fig11.png")
    print(f"{int(both.sum())} of {len(both)} points are bistable")


def figure_12(to: Settings) -> None:
    """Amplitudes over two initial amounts."""
    side, t_end = max(2, round(256 * to.scale**0.5)), 1500.0 * min(1.0, to.scale**0.5)
    sweep = {
        "Cdc25": np.rint(np.linspace(0, 600, side)),
        "GTP": np.rint(np.linspace(1.9e4, 5e6, side)),
    }
    summaries = [f"summary:{kind}:cAMP:{t_end / 3}" for kind in ("amplitude", "period")]
    result = ts.run(RAS, n=1, method="tau", t_end=t_end, points=1501, seed=12, device=to.device,
                    sweep=sweep, record=summaries)  # fmt: skip
    if ranks().rank == 0:
        result.plot("amplitude", path=to.folder / "ras-fig12.png")
        print(f"{int((result.summary('amplitude') > 0).sum())} of {side**2} points oscillate")


def figure_13(to: Settings) -> None:
    """Run time over one rate, a run for each value: as a sweep of one point it is compiled once."""
    values, rows = np.geomspace(1.5e-3, 15, 17), []
    for value in values:
        result = ts.run(RAS, n=to.many(2**10), method="tau", t_end=150.0 * min(1.0, to.scale**0.5),
                        points=100, seed=13, device=to.device, sweep={"c3": [value]},
                        record="trajectories")  # fmt: skip
        rows.append([float(result.data[f"profile/{k}"][()].max()) for k in ("wall", "compute")])
    figure, axes = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
    for name, column in zip(("wall", "compute"), np.transpose(rows), strict=True):
        axes.loglog(values, column, marker="o", markersize=4, label=name)
    axes.set(xlabel="c3", ylabel="seconds")
    axes.legend(frameon=False)
    to.save(figure, "ras-fig13.png")


def gene(to: Settings) -> None:
    """Switches as shares, means with a band, and the same model as differential equations."""
    usual: dict[str, Any] = {"t_end": 200, "device": ts.CPU(threads=1), "quiet": True, "seed": 1}
    net = ts.read(ROOT / "examples" / "telegraph.toml")
    assert isinstance(net, ts.Network)
    result = ts.run(net, n=500, points=101, **usual)
    result.plot(["Off", "On", "M", "P"], kind="mean", path=to.folder / "look-mean.png")
    time_course = ts.run(net, method="ode", n=1, points=201, **usual)
    time_course.plot(["M", "P"], path=to.folder / "look-ode.png")


def cell(to: Settings) -> None:
    """A lattice before its run, and a slice after it."""
    shape = (24, 24, 48)
    lattice = ts.Lattice("cell", shape=shape, spacing=32e-9)
    z, y, x = np.indices(shape)
    depth = ((z - 11.5) / 11) ** 2 + ((y - 11.5) / 11) ** 2 + ((x - 23.5) / 22) ** 2
    lattice.add_site_type("outside")
    lattice.add_site_type("membrane", depth < 1)
    lattice.add_site_type("cytoplasm", depth < 0.75)
    lattice.add_species("A", "B")
    lattice.add_diffusion(["A", "B"], 1e-12, within="cytoplasm")
    lattice.add_diffusion("B", 1e-13, within="membrane")
    lattice.add_diffusion("B", 1e-12, between=("cytoplasm", "membrane"))
    lattice.add_reaction("A <-> B", rate=(20.0, 10.0))
    lattice.place("A", 2000, site_type="cytoplasm")
    lattice.plot(to.folder / "look-geometry.png")
    with ts.run(lattice, t_end=0.1, count_every=10, frame_every=100, device=ts.CPU(threads=1),
                quiet=True, seed=1) as result:  # fmt: skip
        result.plot(["A", "B"], "slice", to.folder / "look-slice.png")


STUDIES: dict[str, tuple[Callable[[Settings], None], ...]] = {
    "schlogl": (figure_9, figure_10, figure_11),
    "ras": (figure_12, figure_13),
    "look": (gene, cell),
}


def main() -> None:
    """Make the pictures of a study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("-o", "--output", type=Path, default=Path("figures"))
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    for make in STUDIES[given.study]:
        began = time.perf_counter()
        make(Settings(given.output, given.device, given.scale))
        if ranks().rank == 0:
            print(f"{make.__name__}: {time.perf_counter() - began:.2f} s with its picture")


if __name__ == "__main__":
    main()

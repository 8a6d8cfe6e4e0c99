"""The Ras/cAMP/PKA studies of Nobile et al. (2014), Figures 12 and 13, with tau-leaping.

    python scripts/figures/figures_ras.py --device cuda -o docs/figures

Figure 12: amplitude of the oscillations of cAMP after t = 500, of one trajectory to t = 1500 at
each of 2^16 points: 256 amounts of GTP in [1.9e4, 5e6] times 256 of Cdc25 in [0, 600].  Figure 13:
run time of 2^10 trajectories to t = 150 with 100 samples, at each of 17 values of c3 in
[1.5e-3, 15].
Writes pictures, and the seconds of all runs as `ras-fig12.json` and `ras-fig13.json`; under
``mpirun`` the ranks share the work.  `--points`, `--runs` and `--t-end` make everything smaller,
for a machine without a GPU.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import tauslab as ts
from tauslab.api.api import ranks

mpl.use("Agg")
import matplotlib.pyplot as plt

MODEL = Path(__file__).resolve().parents[2] / "tests" / "data" / "sbml" / "ras_camp_pka.xml"
AMPLITUDE_FROM = 1 / 3  # of the time: 500 of 1500
RATE_TIME = 1 / 10  # of the time to which figure 12 runs: 150 of 1500
SECONDS = ("wall", "compute", "copy", "write", "compile")


def seconds(result: ts.Result) -> dict[str, float]:
    """Where the time went; of several ranks the longest."""
    return {name: float(result.data[f"profile/{name}"][()].max()) for name in SECONDS}


def figure_12(side: int, t_end: float, device: Any, folder: Path) -> dict[str, Any]:
    """Amplitudes over two initial amounts."""
    sweep = {
        "Cdc25": np.rint(np.linspace(0, 600, side)),
        "GTP": np.rint(np.linspace(1.9e4, 5e6, side)),
    }
    summaries = [
        f"summary:{kind}:cAMP:{AMPLITUDE_FROM * t_end}" for kind in ("amplitude", "period")
    ]
    result = ts.run(MODEL, n=1, method="tau", t_end=t_end, points=1501, seed=12, device=device,
                    sweep=sweep, record=summaries)  # fmt: skip
    if ranks().rank == 0:
        result.plot("amplitude", path=folder / "ras-fig12.png")
    amplitudes = result.summary("amplitude")
    return {
        "points": side**2,
        "t_end": t_end,
        "ranks": ranks().size,
        "oscillate": int((amplitudes > 0).sum()),
        "largest_amplitude": float(np.nanmax(amplitudes)),
        **seconds(result),
    }


def figure_13(rates: int, runs: int, t_end: float, device: Any, folder: Path) -> dict[str, Any]:
    """Run time over one rate, a run for each value."""
    values = np.geomspace(1.5e-3, 15, rates)
    rows = []
    for value in values:
        # As a sweep of one point, c3 is an input of the kernel, which is compiled once.
        result = ts.run(MODEL, n=runs, method="tau", t_end=t_end, points=100, seed=13,
                        device=device, sweep={"c3": [value]}, record="trajectories")  # fmt: skip
        leaps, exact = (
            int(result.data[f"profile/{k}"][()].sum()) for k in ("leaps", "exact_events")
        )
        rows.append({**seconds(result), "leaps": leaps, "exact_events": exact})
    if ranks().rank == 0:
        draw_13(values, rows, f"{runs} trajectories to t = {t_end:g}", folder)
    return {"runs": runs, "t_end": t_end, "ranks": ranks().size, "c3": values.tolist(),
            **{name: [row[name] for row in rows] for name in rows[0]}}  # fmt: skip


def draw_13(values: Any, rows: list[dict[str, Any]], title: str, folder: Path) -> None:
    """Seconds over the rate."""
    figure, axes = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
    for name in ("wall", "compute"):
        axes.loglog(values, [row[name] for row in rows], marker="o", markersize=4, label=name)
    axes.set(xlabel="c3", ylabel="seconds", title=title)
    axes.legend(frameon=False)
    figure.savefig(folder / "ras-fig13.png", dpi=200)
    plt.close(figure)


def write(folder: Path, figure: int, found: dict[str, Any]) -> None:
    """Where the seconds go, on the first rank."""
    if ranks().rank == 0:
        (folder / f"ras-fig{figure}.json").write_text(
            json.dumps(found, indent=2) + "\n", encoding="utf-8"
        )
        print(f"figure {figure}: {np.sum(found['wall']):.2f} s of runs, without pictures")


def main() -> None:
    """Make the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--points", type=int, default=256, help="values of each amount (256)")
    parser.add_argument("--rates", type=int, default=17, help="values of c3 (17)")
    parser.add_argument("--runs", type=int, default=2**10, help="trajectories per value (1024)")
    parser.add_argument("--t-end", type=float, default=1500.0, help="end of figure 12 (1500)")
    parser.add_argument("--only", type=int, choices=(12, 13), help="one of the figures")
    parser.add_argument("-o", "--output", type=Path, default=Path("figures"))
    arguments = parser.parse_args()
    folder, device, t_end = arguments.output, arguments.device, arguments.t_end
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.only != 13:
        write(folder, 12, figure_12(arguments.points, t_end, device, folder))
    if arguments.only != 12:
        found = figure_13(arguments.rates, arguments.runs, RATE_TIME * t_end, device, folder)
        write(folder, 13, found)


if __name__ == "__main__":
    main()

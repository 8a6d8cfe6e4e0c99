"""The four lattice examples, run from their files: pictures, and numbers against exact results.

    python scripts/lattice/figures_lattice.py --device cuda -o docs/figures            # all
    python scripts/lattice/figures_lattice.py --device cuda -o docs/figures minde lac-5uM

``minde``: 240 s of the Min proteins, kymograph and period.  ``lac-5uM`` and ``lac-40uM``: 60 s of
the lac cell with little and much inducer, beside exact SSA of its well-stirred version.  ``cube``:
Michaelis and Menten's enzyme against SSA.  ``ball``: A <-> B against its binomial distribution.
A case writes ``lattice-CASE.json`` and ``.npz``, and where matplotlib is installed ``.png``; then
``lattice.md`` is the table of all JSON files in the folder, so cases may run apart, on a GPU each.
``--draw`` runs nothing and draws what lies in the folder.  ``--seconds`` changes the model time,
``--replicas`` the runs of cube and ball: on a CPU, ``minde --seconds 10`` takes some minutes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from lattice_cases import CASES, CUBE_SHOWN, LAC_SHOWN, Arrays, Outcome, Quantity, Settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE = "#0072B2", "#D55E00"


def draw_minde(data: Arrays) -> Figure:
    """Kymograph, and the difference of the halves below."""
    import matplotlib.pyplot as plt

    figure, (top, bottom) = plt.subplots(
        2, 1, figsize=(7.2, 4.8), sharex=True, layout="constrained", height_ratios=(2, 1)
    )
    times = data["times"]
    image = top.imshow(data["bound"].T, origin="lower", aspect="auto", interpolation="none",
                       cmap="viridis", extent=(0, times[-1], 0, float(data["height"])))  # fmt: skip
    figure.colorbar(image, ax=top, label="MinD on the membrane, a plane")
    top.set(ylabel="z (µm)", title="minDm + minDEm")
    bottom.plot(data["bias_times"], data["bias"], color=BLUE)
    bottom.plot(data["turns"], np.zeros(len(data["turns"])), "o", color=ORANGE, markersize=4)
    bottom.axhline(0, color="grey", linewidth=0.5)
    bottom.set(xlabel="time (s)", ylabel="lower - upper,\nshare of all", ylim=(-1, 1))
    return figure


def draw_curves(data: Arrays, names: tuple[str, ...], rows: int) -> Figure:
    """Lattice runs over well-stirred trajectories, a panel for each species."""
    import matplotlib.pyplot as plt

    names = tuple(name for name in names if f"{name}_runs" in data)
    columns = len(names) // rows
    figure, panels = plt.subplots(
        rows, columns, figsize=(3.1 * columns, 2.7 * rows), sharex=True, layout="constrained"
    )
    for name, axes in zip(names, panels.flat, strict=True):
        _curves(axes, data, name)
    panels.flat[0].legend(fontsize="small")
    figure.supxlabel("time (s)", fontsize="medium")
    return figure


def _curves(axes: Axes, data: Arrays, name: str) -> None:
    times, band = data["times"], data[f"{name}_band"]
    axes.fill_between(times, band[0], band[1], color=ORANGE, alpha=0.3, label="SSA, 95 %")
    axes.plot(times, data[f"{name}_mean"], color=ORANGE, label="SSA, mean")
    lines = axes.plot(times, data[f"{name}_runs"].T, color=BLUE, linewidth=0.8)
    lines[0].set_label("lattice")
    axes.set_ylabel(name)


def draw_ball(data: Arrays) -> Figure:
    """Draw all runs over the distribution, and how far their mean is off."""
    import matplotlib.pyplot as plt

    times, b, mean, spread = (data[name] for name in ("times", "B", "mean", "spread"))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")
    left.fill_between(times, mean - 2 * spread, mean + 2 * spread, color=ORANGE, alpha=0.3,
                      label="law, two deviations")  # fmt: skip
    left.plot(times, b.T, color=BLUE, linewidth=0.4)
    left.set(xlabel="time (s)", ylabel="B")
    left.legend(fontsize="small")
    off = (b.mean(axis=0) - mean)[1:] / (spread[1:] / np.sqrt(len(b)))
    right.plot(times[1:], off, ".", color=BLUE)
    right.axhline(0, color="grey", linewidth=0.5)
    right.set(xlabel="time (s)", ylabel="mean of B - law (standard errors)", ylim=(-5, 5))
    return figure


def draw(case: str, folder: Path) -> None:
    """The picture of a case whose arrays lie in a folder."""
    import matplotlib.pyplot as plt

    with np.load(folder / f"lattice-{case}.npz") as stored:
        data = dict(stored)
    if case == "minde":
        figure = draw_minde(data)
    elif case == "ball":
        figure = draw_ball(data)
    else:
        figure = draw_curves(data, *((CUBE_SHOWN, 1) if case == "cube" else (LAC_SHOWN, 2)))
        if case != "cube":
            figure.suptitle(f"lac switch, {case[4:-2]} µM inducer", fontsize="medium")
    figure.savefig(folder / f"lattice-{case}.png", dpi=110)
    plt.close(figure)


def chapter(path: Path) -> list[str]:
    """Results of a case, as Markdown."""
    result = json.loads(path.read_text(encoding="utf-8"))
    each = 1e3 * result["lattice_seconds"] / result["steps"]
    took = (f"{result['steps']:,} steps in {result['lattice_seconds']:.1f} s ({each:.4f} ms each), "
            f"{result['seconds']:.1f} s in all")  # fmt: skip
    lines = [f"## {result['case']}", "", f"{result['says']}, on {result['device']}: {took}.", "",
             "| quantity | lattice | expected | standard error | z |", "|---|---|---|---|---|"]  # fmt: skip
    for row in result["rows"]:
        q = Quantity(**row)
        z = f"{q.z:+.2f}" if q.error else ""
        lines.append(f"| {q.name} | {q.value:.6g} | {q.expected:.6g} | {q.error:.3g} | {z} |")
    return [*lines, ""]


def table(folder: Path) -> None:
    """The table of all cases that lie in a folder."""
    lines = ["# The lattice examples, measured", "",
             "Made by `scripts/lattice/figures_lattice.py`.", ""]  # fmt: skip
    for case in CASES:
        path = folder / f"lattice-{case}.json"
        lines += chapter(path) if path.exists() else []
    (folder / "lattice.md").write_text("\n".join(lines), encoding="utf-8")


def keep(outcome: Outcome, folder: Path) -> None:
    """Write arrays and numbers of a case, and say them."""
    np.savez_compressed(folder / f"lattice-{outcome.case}.npz", **outcome.arrays)  # type: ignore[arg-type]
    fields = {name: value for name, value in vars(outcome).items() if name != "arrays"}
    fields["rows"] = [asdict(row) for row in outcome.rows]
    (folder / f"lattice-{outcome.case}.json").write_text(
        json.dumps(fields, indent=1) + "\n", encoding="utf-8"
    )
    print(f"{outcome.case}: {outcome.steps} steps in {outcome.lattice_seconds:.1f} s, "
          f"{outcome.seconds:.1f} s in all", flush=True)  # fmt: skip
    for row in outcome.rows:
        print(f"  {row.name}: {row.value:.6g}, expected {row.expected:.6g} +- {row.error:.3g}",
              flush=True)  # fmt: skip


def main() -> None:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("case", nargs="*", help=f"of {', '.join(CASES)}; by default all")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, help="of model time")
    parser.add_argument("--replicas", type=int, help="of cube (32) and ball (16)")
    parser.add_argument("--samples", type=int, default=1000, help="well-stirred trajectories")
    parser.add_argument("--draw", action="store_true", help="draw what lies in the folder")
    parser.add_argument("-o", "--output", type=Path, default=Path("figures"))
    options = parser.parse_args()
    unknown = sorted(set(options.case) - set(CASES))
    if unknown:
        parser.error(f"{', '.join(unknown)}: cases are {', '.join(CASES)}")
    folder = options.output
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(options.device, options.seconds, options.replicas, options.samples)
    for case in options.case or CASES:
        if not options.draw:
            began = time.perf_counter()
            outcome = CASES[case](settings)
            outcome.seconds = time.perf_counter() - began
            keep(outcome, folder)
        if (folder / f"lattice-{case}.npz").exists() and importlib.util.find_spec("matplotlib"):
            draw(case, folder)
        table(folder)


if __name__ == "__main__":
    main()

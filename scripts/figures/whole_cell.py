"""Pictures of docs/whole-cells.md: the small cell of examples/minimal_cell.py over time.

python scripts/figures/whole_cell.py -o docs/figures
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

from minimal_cell import SMALL, Cell  # type: ignore[import-not-found]

import tauslab as ts

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter

Frame = tuple[float, Any, Any, Any]  # time, membrane, particles, beads


def draw(folder: Path) -> None:
    """Run the cell over two generations, and draw what grows beside its start."""
    cell, frames = Cell(SMALL), list[Frame]()

    def look(view: Any) -> None:
        frames.append((view.time, view.mask("space", "membrane"), view.particles("space"),
                       view.positions("dna")))  # fmt: skip

    result = ts.run(cell.hybrid(), t_end=48.0, seed=1, pilot=0, device=ts.CPU(threads=1),
                    hooks=[(1.0, look)])  # fmt: skip
    film([one for one in frames if one[0] < 30], folder / "minimal-cell.gif")
    assert result.divisions is not None
    time = result.time("size")[1:]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    left.plot(time, result.values("size.area")[0, 1:] / cell.area, label="area")
    volume = result.values("size.volume")[0, 1:] * 1e24  # nm^3
    left.plot(time, volume / cell.volume, label="volume")
    left.plot(time, 1 + result.values("expression.done")[0, 1:] / SMALL.genome, label="chromosome")
    for kind, label in (("M", "mRNA"), ("P", "proteins in the cytoplasm")):
        numbers = sum(result.values(f"space.{kind}{gene}")[0, 1:] for gene in cell.genes)
        right.plot(time, numbers, label=label)
    left.set_ylabel("relative to birth")
    right.set_ylabel("particles")
    for axes in (left, right):
        for at in result.divisions.time:
            axes.axvline(at, color="0.7", linewidth=0.8)
        axes.set_xlabel("time (s)")
        axes.legend(frameon=False)
    figure.savefig(folder / "minimal-cell.png", dpi=120)
    print(result, result.divisions.time)


def film(frames: list[Frame], path: Path) -> None:
    """Write a movie: particles in the middle plane with the membrane, and the chain of beads."""
    figure = plt.figure(figsize=(7, 2.6), layout="constrained")
    flat = figure.add_subplot(1, 2, 1)
    solid: Any = figure.add_subplot(1, 2, 2, projection="3d")
    most = max(int(particles.max()) for _, _, particles, _ in frames)
    first = len(frames[0][3])

    def draw_one(number: int) -> None:
        time, membrane, particles, beads = frames[number]
        middle = particles.shape[2] // 2
        flat.clear()
        flat.imshow(particles[:, :, middle].T, cmap="Blues", vmin=0, vmax=most)
        wall = np.where(membrane[:, :, middle].T, 1.0, np.nan)
        flat.imshow(wall, cmap="Oranges", vmin=0, vmax=2, alpha=0.7)
        flat.set_title(f"t = {time:g} s", fontsize=9)
        flat.set_axis_off()
        solid.clear()
        for part, colour in ((beads[:first], "C0"), (beads[first:], "C1")):
            solid.plot(*(part * 1e9).T, "-", color=colour, linewidth=0.6)
        middles = [5 * n for n in particles.shape]  # nm
        limits = [(at - r, at + r) for at, r in zip(middles, (90, 45, 45), strict=True)]
        solid.set(xlim=limits[0], ylim=limits[1], zlim=limits[2])
        solid.set_box_aspect((2, 1, 1), zoom=1.7)
        solid.view_init(elev=20, azim=-80)
        solid.set_axis_off()

    movie = FuncAnimation(figure, draw_one, frames=len(frames))
    movie.save(path, writer=PillowWriter(fps=5), dpi=80)
    plt.close(figure)


if __name__ == "__main__":
    asked = argparse.ArgumentParser()
    asked.add_argument("-o", "--output", type=Path, default=Path())
    draw(asked.parse_args().output)

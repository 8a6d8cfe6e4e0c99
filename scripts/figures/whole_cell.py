"""Picture of docs/whole-cells.md: the small cell of examples/minimal_cell.py over time.

python scripts/figures/whole_cell.py -o docs/figures
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib as mpl

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

from minimal_cell import SMALL, Cell  # type: ignore[import-not-found]

import tauslab as ts

mpl.use("Agg")
import matplotlib.pyplot as plt


def draw(folder: Path) -> None:
    """Run the cell over two generations, and draw what grows beside its start."""
    cell = Cell(SMALL)
    result = ts.run(cell.hybrid(), t_end=48.0, seed=1, pilot=0, device=ts.CPU(threads=1))
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
    print(result.divisions.time)


if __name__ == "__main__":
    asked = argparse.ArgumentParser()
    asked.add_argument("-o", "--output", type=Path, default=Path())
    draw(asked.parse_args().output)

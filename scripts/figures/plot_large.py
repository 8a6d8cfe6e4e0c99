"""Figures 7 to 9 of Komarov & D'Souza (2012) from what `benchmark_large.py` measured.

    python scripts/figures/plot_large.py docs/benchmarks/h200-large-all.csv -o docs/figures

writes large-fig7.png (time per update by size), large-fig8.png (by number of trajectories) and
large-fig9.png (by threads of a trajectory), those of which the file has rows.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

NAMES = {"chain": "cyclic chain", "colloidal": "colloidal aggregation",
         "random8": "random, 8 dependents", "random16": "random, 16 dependents",
         "egfr_net": "egfr_net"}  # fmt: skip
UNIT = "time per update, ns"
Rows = Sequence[dict[str, str]]


def by_network(rows: Rows, cases: Sequence[str], column: str) -> dict[str, list[list[float]]]:
    """Curves by name: values of a column, and ns per update; those with several sizes say which."""
    curves: dict[str, list[list[float]]] = {}
    for row in rows:
        if row["case"] not in cases or not row["ns_per_update"]:
            continue
        name = NAMES.get(row["network"], row["network"])
        if column != "reactions":
            name += f", {int(row['reactions']):,} reactions"
        x, y = curves.setdefault(name, [[], []])
        x.append(float(row[column]))
        y.append(float(row["ns_per_update"]))
    return curves


def draw(curves: dict[str, list[list[float]]], label: str, title: str, path: Path) -> bool:
    """A figure of curves, both axes logarithmic; False where there are none."""
    if not curves:
        return False
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.6, 3.9), layout="constrained")
    for name, (x, y) in curves.items():
        axis.loglog(x, y, "o-", label=name)
    axis.set(xlabel=label, ylabel=UNIT, title=title)
    if max(len(x) for x, _ in curves.values()) <= 4:
        ticks = sorted({value for x, _ in curves.values() for value in x})
        axis.set_xticks(ticks, [f"{value:g}" for value in ticks])
        axis.minorticks_off()
    axis.grid(visible=True, alpha=0.3)
    axis.legend(fontsize="small")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return True


def figures(rows: Rows, folder: Path) -> list[Path]:
    """Draw what there are rows for; the files made."""
    device = next((row["device"] for row in rows if row["device"]), "")
    wanted = [
        ("7", by_network(rows, ("chain", "colloidal", "random"), "reactions"), "reactions"),
        ("8", by_network(rows, ("trajectories",), "trajectories"), "trajectories"),
        ("9", by_network(rows, ("teams",), "team"), "threads of a trajectory"),
    ]
    made = []
    for number, curves, label in wanted:
        path = folder / f"large-fig{number}.png"
        if draw(curves, label, device, path):
            made.append(path)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Read, draw, and say which files were made; 1 if there was nothing to draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", type=Path, help="CSV of benchmark_large.py")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/figures"))
    options = parser.parse_args(argv)
    with options.table.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    options.output.mkdir(parents=True, exist_ok=True)
    made = figures(rows, options.output)
    print("\n".join(map(str, made)) or f"{options.table} has no rows of figures 7 to 9")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())

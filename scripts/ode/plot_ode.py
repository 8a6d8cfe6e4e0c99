"""Figure 5 of Hagiescu et al. (2013) from a table of what `benchmark_ode.py figure5` measured.

    python scripts/ode/plot_ode.py docs/benchmarks/h200-ode-figure5.csv -o docs/figures/ode-fig5.png

A row of the table is a layout of a system. Read are the columns system, asked, layout, C, steps_run
and seconds_of_part: seconds of all trajectories with so many steps.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from ode_cases import CASES
from ode_measure import Layout, Measured, Run
from ode_tables import draw_figure5


def main(argv: Sequence[str] | None = None) -> int:
    """Read the table and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args(argv)
    draw_figure5(read_courses(arguments.table), arguments.output)
    return 0


def read_courses(path: Path) -> list[Measured]:
    """The measurements of a table; failures and digests, which it does not have, are left empty."""
    with path.open(encoding="utf-8", newline="") as file:
        return [measured(row) for row in csv.DictReader(file)]


def measured(row: dict[str, str]) -> Measured:
    """The measurement of a row."""
    warps = int(row["C"])
    asked = Layout(row["asked"], warps if row["asked"] == "warps" else 0)
    run = Run(CASES[row["system"]].trajectories, 1, int(row["steps_run"]))
    return Measured(
        row["system"], asked, row["layout"], warps, "", run, float(row["seconds_of_part"]), 0, "",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

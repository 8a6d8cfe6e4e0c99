"""`tauslab.cme` against the exact laws of tests/data/exact: its error, and the bound that it proves.

    python scripts/validation/validate_projection.py -o docs/validation/projection.md

exits 1 where a law differs by more than the bound. The tables have 12 digits and were cut where
less than 1e-9 is left out, in most 1e-12: TABLE is what a difference may have of that.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from validate_cme import PROBLEMS, Problem, exact_distribution

import tauslab as ts

TABLE = 5e-12


@dataclass(frozen=True)
class Comparison:
    """One marginal law at one time; `error` sums absolute differences over counts."""

    problem: str
    species: str
    time: float
    states: int
    error: float
    bound: float

    @property
    def holds(self) -> bool:
        """Whether the difference is within the bound and the digits of the table."""
        return self.error <= self.bound + TABLE


def compare(problem: Problem, tolerance: float = 1e-8) -> list[Comparison]:
    """Every law of a problem."""
    exact = {name: exact_distribution(problem.name, name) for name in problem.columns}
    times = next(iter(exact.values()))[0]
    law = ts.cme(problem.model(), times, set=problem.values, tolerance=tolerance)
    found = []
    for name, (_, table) in exact.items():
        for k, t in enumerate(times.tolist()):
            own = law.marginal(problem.columns[name], t)
            size = max(len(own), len(table[k]))
            difference = np.zeros(size)
            difference[: len(own)] += own
            difference[: len(table[k])] -= table[k]
            error = float(np.abs(difference).sum())
            states = len(law.states(t))
            found.append(Comparison(problem.name, name, t, states, error, float(law.bound[k])))
    return found


def main() -> int:
    """Compare all; 1 if a bound does not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    began = time.perf_counter()
    found = [one for problem in PROBLEMS for one in compare(problem)]
    good = sum(one.holds for one in found)
    lines = [
        "# Laws of the master equation",
        "",
        (
            f"`tauslab.cme` against {len(found)} exact laws: in {good} the sum of all differences is at "
            f"most the bound it gives and {TABLE:g}, the digits of the tables. Tolerance 1e-8, "
            f"{time.perf_counter() - began:.0f} s (`scripts/validation/validate_projection.py`)."
        ),
        "",
        "| model | species | time | states | difference | bound |",
        "|---|---|---|---|---|---|",
        *(
            f"| {one.problem} | {one.species} | {one.time:g} | {one.states} | {one.error:.2g} | "
            f"{one.bound:.2g} |"
            for one in found
        ),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    return 0 if good == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())

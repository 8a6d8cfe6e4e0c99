"""`tauslab.cme` against the exact laws of tests/data/exact: its error, and the bound that it proves.

A law fails that differs by more than the bound. The tables have 12 digits and were cut where
less than 1e-9 is left out, in most 1e-12: TABLE is what a difference may have of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from outcome import Outcome, cells, verdict
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


def run(given: Any) -> Outcome:
    """Compare all."""
    del given
    found = [one for problem in PROBLEMS for one in compare(problem)]
    return Outcome(
        "Laws of the master equation",
        f"`tauslab.cme` against {len(found)} exact laws: the sum of all differences is to be at most the "
        f"bound it gives and {TABLE:g}, the digits of the tables. Tolerance 1e-8.",
        ("model", "species", "time", "states", "difference", "bound", "verdict"),
        [[*cells(one, 2), verdict(good=one.holds)] for one in found],
    )

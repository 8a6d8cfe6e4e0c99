"""Errors of `hybrid` and `cle` on models that are difficult for leaps, and their times.

Each model of `leap_models.py` is simulated to its last time. `cle` simulates all reactions by the
chemical Langevin equation; `hybrid` selects a kind for each. If the distribution is unknown, `--exact` exact
trajectories replace it. A negative amount fails, and so does an error of `hybrid` beyond 1 % of the mean
or 3 % of the standard deviation, if it also exceeds four standard errors.
"""

from __future__ import annotations

import math
from typing import Any

from leap_models import CASES, Case, Law
from outcome import FAIL, Outcome, cells, say
from validate_leaps import (
    DEFAULT,
    DEVIATION_TARGET,
    MEAN_TARGET,
    TIMED_EVENTS,
    Row,
    errors_of_moments,
    row_of,
    simulate,
)

METHODS = ("ssa", "tau", "cle", "hybrid")
COLUMNS = {
    "model": "network, in `leap_models.py`",
    "method": "`ssa`, `tau`, `cle` or `hybrid`",
    "n": "trajectories",
    "mean": "relative error of the mean",
    "mean_se": "its standard error",
    "deviation": "relative error of the standard deviation",
    "deviation_se": "its standard error",
    "events": "reaction events per trajectory; with `cle` and `hybrid` steps and events",
    "us": "microseconds per trajectory",
    "least": "smallest amount",
    "verdict": "empty, or FAIL",
}


def measure(case: Case, args: Any) -> list[list[str]]:
    """Measure all rows of a model."""
    law, distribution_se = (case.law(), (0.0, 0.0)) if case.law is not None else (None, (0.0, 0.0))
    lines = []
    if law is None:
        known = simulate(case, "ssa", DEFAULT, 1, args.exact, args, seed=2).values
        law, distribution_se = (
            Law(float(known.mean()), float(known.std(ddof=1))),
            errors_of_moments(known),
        )
    for method in METHODS:
        n = args.timed if method == "ssa" else args.n
        result = simulate(case, method, DEFAULT, 1, n, args, seed=1)
        if method == "ssa" and result.events * n < TIMED_EVENTS:  # a run's start would count
            more = min(20_000, math.ceil(TIMED_EVENTS / result.events))
            result = simulate(case, method, DEFAULT, 1, more, args, seed=1)
        row = row_of(case, method, 1, DEFAULT, result, law, distribution_se)
        least = float(result.values.min())
        wrong = least < 0 or (method == "hybrid" and _beyond(row))
        numbers = [row.n, row.mean, row.mean_se, row.deviation, row.deviation_se, row.events,
                   row.us, least]  # fmt: skip
        lines.append([case.name, method, *cells(numbers, 4), FAIL if wrong else ""])
        say(*lines[-1])
    return lines


def _beyond(row: Row) -> bool:
    pairs = ((row.mean, row.mean_se, MEAN_TARGET),
             (row.deviation, row.deviation_se, DEVIATION_TARGET))  # fmt: skip
    return any(abs(off) > max(most, 4 * error) for off, error, most in pairs)


def run(given: Any) -> Outcome:
    """Measure all models."""
    given.device = "cuda" if given.device == "cuda" else "cpu"
    chosen = [c for c in CASES if not given.cases or any(part in c.name for part in given.cases)]
    lines = [line for case in chosen for line in measure(case, given)]
    about = f"At the last time, on {given.device}, seed 1, epsilon {DEFAULT:g}."
    return Outcome("Errors of hybrid and cle", about, COLUMNS, lines)

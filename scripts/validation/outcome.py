"""The report of a check of `scripts/validate.py`, and the chi-square test of counts."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

FAIL = "FAIL"


@dataclass
class Outcome:
    """The report of a check. A row fails if its last cell is `FAIL`.

    Attributes
    ----------
    about
        What was compared, with how many trajectories, where, and the criterion.
    columns
        Name and meaning of each column.
    below
        Lines of Markdown under the table.
    failed
        Failures that are not rows.
    """

    title: str
    about: str
    columns: Mapping[str, str]
    rows: list[list[str]]
    below: Sequence[str] = ()
    failed: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        """All failures: `failed`, and the rows that fail."""
        return [*self.failed, *(" ".join(row) for row in self.rows if row and row[-1] == FAIL)]

    def report(self, command: str) -> str:
        """Return the report as Markdown: result, method, table, columns."""
        failed = len(self.failures)
        result = (
            f"{failed} of {len(self.rows)} rows fail."
            if failed
            else f"All {len(self.rows)} rows pass."
        )
        method = f"{self.about} Command, {datetime.now(UTC).date()}:"
        legend = [f"- `{name}`: {meaning}" for name, meaning in self.columns.items()]
        lines = [f"# {self.title}", "", result, "", "## Method", "", method, "", f"    {command}", "",
                 "## Table", "", *table(list(self.columns), self.rows), "", *legend,
                 *(["", *self.below] if self.below else [])]  # fmt: skip
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> None:
        """Write the table as CSV."""
        with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([list(self.columns), *self.rows])


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    every = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(row)} |" for row in every]


def cells(row: Any, digits: int = 4) -> list[str]:
    """The fields of a dataclass, or the items of a sequence, as text."""
    values = row if isinstance(row, list | tuple) else [getattr(row, f.name) for f in fields(row)]
    return [f"{value:.{digits}g}" if isinstance(value, float) else str(value) for value in values]


def verdict(*, good: bool) -> str:
    """The last cell of a row."""
    return "pass" if good else FAIL


def say(*words: object) -> None:
    """Print progress to stderr."""
    print(*words, file=sys.stderr, flush=True)


class Goodness(NamedTuple):
    """Number of bins, chi-square, and its p-value."""

    bins: int
    chi_square: float
    p_value: float


def goodness(observed: Any, expected: Any, fewest: float, most_bins: int | None = None) -> Goodness:
    """Chi-square test of counts; neighbouring cells are merged until each bin expects `fewest`.

    `expected` is scaled to the number of observations. With `most_bins` bins have about equal
    probabilities. The p-value is 0 if a cell of probability 0 has an observation.
    """
    seen, wanted = np.asarray(observed, np.float64), np.asarray(expected, np.float64)
    wanted = wanted * (seen.sum() / wanted.sum())
    if (seen[wanted <= 0] > 0).any():
        return Goodness(len(seen), np.inf, 0.0)
    least = max(fewest, seen.sum() / most_bins if most_bins else 0.0)
    starts, filled = [0], 0.0
    for cell, weight in enumerate(wanted.tolist()):
        if filled >= least:
            starts.append(cell)
            filled = 0.0
        filled += weight
    if filled < fewest and len(starts) > 1:
        starts.pop()
    seen, wanted = np.add.reduceat(seen, starts), np.add.reduceat(wanted, starts)
    chi = float(((seen - wanted) ** 2 / wanted).sum())
    freedom = len(starts) - 1
    return Goodness(len(starts), chi, float(scipy.stats.chi2.sf(chi, freedom)) if freedom else 1.0)

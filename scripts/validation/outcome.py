"""Results of a check of `scripts/validate.py`, how they are written, and chi-square of counts."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

FAIL = "FAIL"


@dataclass
class Outcome:
    """A table. A row whose last cell is `FAIL` fails, and so does what `failed` names.

    `about` says what was compared, with how many trajectories, on what; `below` are lines of
    Markdown under the table.
    """

    title: str
    about: str
    columns: Sequence[str]
    rows: list[list[str]]
    below: Sequence[str] = ()
    failed: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        """Names and rows that fail."""
        return [*self.failed, *(" ".join(row) for row in self.rows if row and row[-1] == FAIL)]

    def page(self, command: str) -> str:
        """Return the page as Markdown."""
        below = ["", *self.below] if self.below else []
        lines = [f"# {self.title}", "", f"    {command}", "", self.about, "",
                 *table(self.columns, self.rows), *below]  # fmt: skip
        return "\n".join(lines) + "\n"

    def write(self, path: Path, command: str) -> None:
        """The table as CSV, and the page beside it."""
        with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([self.columns, *self.rows])
        path.with_suffix(".md").write_text(self.page(command), encoding="utf-8")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table of Markdown."""
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
    """Tell how far it is."""
    print(*words, file=sys.stderr, flush=True)


class Goodness(NamedTuple):
    """Bins, chi-square, and the chance of so much or more."""

    bins: int
    chi_square: float
    p_value: float


def goodness(observed: Any, expected: Any, fewest: float, most_bins: int | None = None) -> Goodness:
    """Compare cells, of which neighbours are joined until a bin expects `fewest`.

    `expected` is scaled to what was observed; with `most_bins` bins are of about equal chance. What is
    seen where nothing can be has no chance.
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

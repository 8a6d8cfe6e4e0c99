"""Growth rate of a population, and its error from descendants of each cell.

Cells of one time have independent descendants. Let f be the factor by which N cells became more,
and s_i the part of the cells at the end that descends from cell i. Without thinning

    relative variance of f  =  1 - N / (N - 1) (1 - sum of s_i^2)

without bias: two cells at the end from different ancestors multiply as if they were alone. Two of m
cells are both among n that are kept by chance less often than one squared, so that each thinning
adds the factor (1 - 1/m) / (1 - 1/n). (Lee and Whiteley 2018, Biometrika 105, 609, for particles.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import IntArray
from tauslab.store.format.intervals import FEWEST_INFORMATIVE, widening

_ROUNDED = 1e-12


@dataclass(frozen=True)
class Growth:
    """A rate of growth.

    Attributes
    ----------
    rate, error
        1 / time of the model; NaN where they are not known.
    families
        Number of equal families with about the same error, were descendants as unequal as those of
        a memoryless division, by the numbers of cells alone: what the families of a run are by
        chance tells nothing of itself.
    unknown
        Why the rate is not known, or its error; empty where both are.
    """

    rate: float
    error: float
    families: float
    unknown: str = ""

    def __str__(self) -> str:
        """In words."""
        if math.isnan(self.rate):
            return f"growth rate not known {self.unknown}"
        if self.unknown:
            return f"growth rate {self.rate:.4g}, its error not known: {self.unknown}"
        return f"growth rate {self.rate:.4g} +- {self.error:.2g}{self.doubt}"

    @property
    def doubt(self) -> str:
        """A doubt about the error; empty where it can be trusted."""
        if not self.families < 2 * FEWEST_INFORMATIVE:
            return ""
        return f", uncertain itself: made by about {self.families:.2g} families, take more cells"


def pairs_factor(before: int, after: int) -> float:
    """Factor of pairs in a thinning of `before` cells to `after`, beyond that of each cell."""
    return (1 - 1 / before) / (1 - 1 / after) if after > 1 else math.inf


def growth(log_factor: float, duration: float, log_pairs: float, shares: IntArray) -> Growth:
    """The rate by which `log_factor` was grown.

    The mean of a logarithm is below the logarithm of the mean by half the relative variance, which
    is added.

    Parameters
    ----------
    log_pairs
        Sum of logarithms of `pairs_factor` between both times; NaN where it was not kept.
    shares
        Descendants at the end of each cell of the beginning.
    """
    rate, cells, total = log_factor / duration, len(shares), int(shares.sum())
    squares = float(((shares / total) ** 2).sum())
    families = 1 / (2 / cells + max(0.0, log_pairs))
    if math.isnan(log_pairs):  # as of a file of an earlier version
        return Growth(rate, math.nan, families, "the file has no numbers for it")
    if cells < 2:
        return Growth(rate, math.nan, families, "it began with one cell")
    variance = 1 - cells / (cells - 1) * (1 - squares) * math.exp(log_pairs)
    if not variance > _ROUNDED:
        return Growth(rate, math.nan, families, "the cells have equally many descendants")
    spread = math.log1p(variance)
    # The families that make the factor low make its variance low too, so twice what skewness takes.
    few = 2 * float(widening(1 / squares)) - 1
    return Growth(rate + spread / 2 / duration, math.sqrt(spread) / duration * few, families)


def descendants(first: IntArray, last: IntArray, mothers: tuple[IntArray, IntArray]) -> IntArray:
    """Count the descendants in `last` of each cell of `first`; `mothers` by number of the cell."""
    cells, of = mothers
    size = int(max(first.max(), last.max(), cells.max(initial=0))) + 1
    mother, place = np.full(size, -1), np.full(size, -1)
    mother[cells], place[first] = of, np.arange(len(first))
    now = last.copy()
    while (younger := place[now] < 0).any():
        now[younger] = mother[now[younger]]
    return np.bincount(place[now], minlength=len(first))

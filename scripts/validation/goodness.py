"""Chi-square of counts against what is expected of them, for all checks of distributions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.stats


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

"""A test for whether the flux of weight into a target is at rest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import FloatArray

# A flux counts as moving if two of its means differ by more standard errors than these: _RISE if
# the later one is larger (it still grows), _FALL if it is smaller (it was too large). By chance
# alone a flux at rest seems to rise in 2.3 % of comparisons and to fall in 0.6 %. More rounds are
# then made than are needed; no error follows.
_RISE, _FALL = 2.0, 2.5
_ROUNDING = 1e-12  # of a mean: no difference
_BLOCKS = 4  # of half the rounds, where one run alone gives its own error


@dataclass(frozen=True)
class Steadiness:
    """The flux in the rounds that are used.

    Attributes
    ----------
    before, later
        Mean weight per time in the first half of these rounds, and in the second.
    moves
        Whether the flux still grows or falls: a later part differs from an earlier one beyond
        chance, or half of the runs had no weight in the target before these rounds.
    """

    before: float
    later: float
    moves: bool


def steadiness(flux: FloatArray, first: int) -> Steadiness:
    """Compare parts of the flux ``[run, round]`` from round `first` on."""
    used = flux[:, first:]
    size = used.shape[1]
    half, quarter = size // 2, max(1, size // 4)
    if not half:
        return Steadiness(math.nan, float(used.mean()), moves=False)
    begin, end = used[:, :half], used[:, half:]
    came = (flux[:, :first] > 0).any(axis=1) if first else (used > 0).any(axis=1)
    late = 2 * int(came.sum()) <= len(flux)
    moves = late or _differs(end, begin) or _differs(end, used[:, :quarter])
    return Steadiness(float(begin.mean()), float(end.mean()), moves)


def _differs(later: FloatArray, before: FloatArray) -> bool:
    """Return whether the mean of the later rounds is another one, beyond chance."""
    if len(later) > 1:
        drift = later.mean(axis=1) - before.mean(axis=1)
        error = float(drift.std(ddof=1)) / math.sqrt(len(drift))
        mean = float(drift.mean())
    else:
        parts = [
            np.array([block.mean() for block in np.array_split(row[0], _BLOCKS) if len(block)])
            for row in (later, before)
        ]
        mean = float(parts[0].mean() - parts[1].mean())
        error = math.sqrt(sum(float(p.var(ddof=1)) / len(p) for p in parts if len(p) > 1))
    rounding = _ROUNDING * float(np.abs(before).mean())
    return not -_FALL * error - rounding <= mean <= _RISE * error + rounding

"""From what walkers reached to a result: probabilities, steady rates, warnings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tauslab.analysis.particles.sums import fixed_sum
from tauslab.analysis.rare.estimate import RareResult
from tauslab.analysis.rare.keywords import WeightedKeywords
from tauslab.analysis.rare.walkers.steady import steadiness
from tauslab.analysis.rare.walkers.weighted import WeightedRuns
from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.option_names import opt, warn
from tauslab.store.checking.opening import WEIGHTED
from tauslab.store.format.schema import STATUS_NAMES


def weighted_result(
    found: WeightedRuns,
    given: WeightedKeywords,
    times: FloatArray,
    settings: dict[str, Any],
    seed: int,
    events: int,
    rank: int,
) -> RareResult:
    """The result of a weighted ensemble.

    Parameters
    ----------
    times
        f64 ``[round]``: ends of the rounds.
    """
    tell_ended(found.lost, found.ended, rank)
    if not found.reached.any() and rank == 0:
        warn(
            f"no walker reached the target: take more {opt('walkers')}, or more or adaptive "
            f"{opt('bins')}"
        )
    if given.steady:
        first = int(given.discard * len(times))
        settings = {**settings, "kept": float(times[-1] - (times[first - 1] if first else 0.0))}
        runs, reached = _steady(found, first, np.diff(times, prepend=0.0), rank)
    else:
        reached = np.add.accumulate(found.reached, axis=1)
        runs = reached[:, -1]
    result = RareResult(
        WEIGHTED, "rate" if given.steady else "probability", runs, times, reached, found.lost,
        found.rounding, given.runs, False, events, seed, settings,
    )  # fmt: skip
    tell_uneven(result, rank)
    return result


def _steady(
    found: WeightedRuns, first: int, lengths: FloatArray, rank: int
) -> tuple[FloatArray, FloatArray]:
    """Rate of each run, and weight per time ``[run, round]`` that came into the target.

    What comes into the target begins again at the end of the round. A way there with the waiting
    takes 1 / flux on average; waiting takes half a round, and one at most. So the rate is the flux
    over 1 - flux length / 2, and wrong by the part flux length / 2 at most.
    """
    flux = found.reached / lengths
    kept, times = found.reached[:, first:], lengths[first:]
    runs = np.array([fixed_sum(row) for row in kept]) / fixed_sum(times)
    mean = fixed_sum(runs) / len(runs)
    length = fixed_sum(times) / len(times)
    if rank == 0 and mean * length > 1:
        warn(f"almost every walker reaches the target within a round: take more {opt('rounds')}")
    rest = steadiness(flux, first)
    if rank == 0 and rest.moves and found.reached.any():
        wrong = "high" if rest.later < rest.before else "low"
        warn(
            f"the rate is not steady yet, and too {wrong}: {rest.before:.3g} in "
            f"the first half of the time that is used, {rest.later:.3g} in the second; take a "
            f"longer {opt('t_end')}"
        )
    return runs / (1 - min(0.5, mean * length / 2)), flux


def tell_uneven(found: RareResult, rank: int) -> None:
    """Warn where a few runs make the estimate, or all gave the same: that shows no error."""
    same = len(found.runs) > 1 and found.runs[0] > 0 and math.isnan(found.standard_error)
    if same and found.estimate < 1 and rank == 0:
        warn(
            f"all {len(found.runs)} runs gave {found.estimate:.4g}, which bounds no error; take "
            f"more {opt('runs')}"
        )
    if found.uneven and rank == 0:
        warn(
            f"{found.effective_runs:.2g} of {len(found.runs)} runs make the estimate: it may be "
            f"far too small, and its error with it; take more {opt('walkers')}"
        )


def tell_ended(lost: FloatArray, ended: IntArray, rank: int) -> None:
    """Warn of trajectories that ended early."""
    if not ended.sum() or rank:
        return
    kinds = ", ".join(
        f"{ended[i]} by {STATUS_NAMES.get(i, i)}" for i in np.flatnonzero(ended).tolist()
    )
    warn(
        f"{int(ended.sum())} trajectories ended early ({kinds}), with "
        f"{fixed_sum(lost) / len(lost):.3g} of the weight: the probability may be larger by as much"
    )

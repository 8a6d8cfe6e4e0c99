"""From what walkers reached to a result: probabilities, steady rates, warnings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tauslab.analysis.particles.sums import fixed_sum
from tauslab.analysis.rare.estimate import RareResult
from tauslab.analysis.rare.keywords import RareKeywords, WeightedKeywords
from tauslab.analysis.rare.walkers.bins import Binning, Bins, FixedBins
from tauslab.analysis.rare.walkers.steady import steadiness
from tauslab.analysis.rare.walkers.weighted import Course
from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt, warn
from tauslab.options.python_values import one_number_each
from tauslab.store.checking.opening import WEIGHTED
from tauslab.store.format.schema import STATUS_NAMES


def no_target() -> ConfigError:
    """The error where nobody says what is rare."""
    example = f'{assigned("target")}"X >= 100"'
    return ConfigError(f"{opt('target')} is missing: a condition, such as {example}")


def weighted_result(
    course: Course,
    given: WeightedKeywords,
    times: FloatArray,
    first: int,
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
    first
        Of a steady rate: rounds that are not used.
    """
    tell_ended(course.lost, course.ended, rank)
    if not course.reached.any() and rank == 0:
        warn(
            f"no walker reached the target: take more {opt('walkers')}, or more or adaptive "
            f"{opt('bins')}"
        )
    if given.steady:
        runs, reached = _steady(course, first, np.diff(times, prepend=0.0), rank)
    else:
        reached = np.add.accumulate(course.reached, axis=1)
        runs = reached[:, -1]
    found = RareResult(
        WEIGHTED, "rate" if given.steady else "probability", runs, times, reached, course.lost,
        course.rounding, given.runs, False, events, seed, settings,
    )  # fmt: skip
    tell_uneven(found, rank)
    return found


def certain(
    method: str,
    given: RareKeywords,
    times: FloatArray,
    seed: int,
    settings: dict[str, Any],
    *,
    steady: bool,
) -> RareResult:
    """The result where the start is in the target.

    Raises
    ------
    ConfigError
        A steady rate is asked for.
    """
    if steady:
        raise ConfigError(
            f'{opt("steady")}: the start is in the target "{given.target}": there is no way to it'
        )
    return RareResult(
        method, "probability", np.ones(given.runs), times, np.zeros((given.runs, 0)),
        np.zeros(given.runs), 0.0, given.runs, True, 0, seed, settings,
    )  # fmt: skip


def one_value_each(given: RareKeywords) -> dict[str, float]:
    """Values of `set`.

    Raises
    ------
    ConfigError
        One is no number, or an array of them.
    """
    return one_number_each("set", given.set, "walkers have no values of their own")


def told_bins(bins: Bins | None, binning: Binning) -> int | str:
    """Bins as a result names them."""
    if isinstance(binning, FixedBins):
        return binning.size
    return bins if isinstance(bins, str) else "adaptive"


def _steady(
    course: Course, first: int, lengths: FloatArray, rank: int
) -> tuple[FloatArray, FloatArray]:
    """Rate of each run, and weight per time ``[run, round]`` that came into the target.

    What comes into the target begins again at the end of the round. A way there with the waiting
    takes 1 / flux on average; waiting takes half a round, and one at most. So the rate is the flux
    over 1 - flux length / 2, and wrong by the part flux length / 2 at most.
    """
    flux = course.reached / lengths
    kept, times = course.reached[:, first:], lengths[first:]
    runs = np.array([fixed_sum(row) for row in kept]) / fixed_sum(times)
    mean = fixed_sum(runs) / len(runs)
    length = fixed_sum(times) / len(times)
    if rank == 0 and mean * length > 1:
        warn(f"almost every walker reaches the target within a round: take more {opt('rounds')}")
    found = steadiness(flux, first)
    if rank == 0 and found.moves and course.reached.any():
        wrong = "high" if found.later < found.before else "low"
        warn(
            f"the rate is not steady yet, and too {wrong}: {found.before:.3g} in "
            f"the first half of the time that is used, {found.later:.3g} in the second; take a "
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

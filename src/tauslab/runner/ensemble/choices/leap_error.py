"""Error of leaps against the tolerance, judged by a pilot of many trajectories.

Trajectories are simulated with the leaps of the run; with leaps of half their epsilon, which also
end half-way between samples; and, where that is cheap beside the run, exactly. All have a random
stream of their own. Leaps are refused where a mean or a standard deviation of a recorded species
differs at any of some sample times by more than the tolerance allows *and* by more than chance
explains: so a pilot that is too small to tell lets small errors pass, never large ones. The second
kind of trajectory has about half of the error of the first, or less: a difference from it counts
twice.

Every number is computed in a fixed order: the judgement is a function of model, options and seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.exact.ssa import exact_engine
from tauslab.kernels.leaping.choice import leaping_engine
from tauslab.options.record import Record
from tauslab.runner.ensemble.choices.pilots import pilot_seed, spread
from tauslab.runner.ensemble.lane import Lane, Reductions
from tauslab.runner.ensemble.task import NetworkTask
from tauslab.store.results.approximation import MEAN_TOLERANCE, SD_TOLERANCE

CountArray = npt.NDArray[np.int32]

MANY, FEW = 8192, 2048  # trajectories of each kind at all points together, where the run is long
FEWEST_EXACT = 256  # below which exact ones tell too little
_CHANCE = 4.0  # standard errors that a difference may have by chance, in hundreds of comparisons
_TIMES = 16  # sample times that are compared
_POINTS = 4  # of a sweep that are compared
_BATCH_BYTES = 1 << 26  # of samples of a launch


@dataclass(frozen=True)
class LeapMoments:
    """Mean and variance over trajectories ``[time, species]``, and their standard errors.

    Parameters
    ----------
    lost
        Trajectories that ended early, and are not in the moments.
    absent
        Share of the trajectories in which less than half a molecule is left.
    """

    n: int
    mean: FloatArray
    variance: FloatArray
    mean_error: FloatArray
    variance_error: FloatArray
    lost: int
    absent: FloatArray


@dataclass(frozen=True)
class Difference:
    """The worst difference, as parts of the tolerance, and where; or the reason of a refusal."""

    mean: float
    sd: float
    refused: str = ""


def moments_of(counts: CountArray | FloatArray) -> LeapMoments:
    """Moments over the trajectories ``[trajectory, time, species]`` that reached the end."""
    whole = np.all(counts >= 0, axis=(1, 2))
    x = counts[whole].astype(np.float64)
    n = len(x)
    if n < 2:
        nothing = np.zeros(counts.shape[1:])
        return LeapMoments(n, nothing, nothing, nothing, nothing, len(counts) - n, nothing)
    absent = np.count_nonzero(x < 0.5, axis=0) / n
    centre = np.rint(x[0])
    x -= centre
    # One after the other: the order in which NumPy adds in pairs depends on the processor.
    mean = np.cumsum(x, axis=0)[-1] / n
    x -= mean
    second = np.cumsum(x * x, axis=0)[-1] / n
    fourth = np.cumsum(x * x * x * x, axis=0)[-1] / n
    variance = second * n / (n - 1)
    spread = np.sqrt(np.maximum(fourth - second * second, 0.0) / n)
    error = np.sqrt(variance / n)
    return LeapMoments(n, mean + centre, variance, error, spread, len(counts) - n, absent)


def difference(
    tried: LeapMoments, other: LeapMoments, names: Sequence[str], times: FloatArray, share: float
) -> Difference:
    """Compare moments, which may differ by `share` of the tolerance."""
    if tried.lost:
        return Difference(np.inf, np.inf, f"{tried.lost} of the pilot's trajectories end early")
    off = np.abs(tried.mean - other.mean)
    allowed = share * MEAN_TOLERANCE * np.abs(other.mean)
    chance = _CHANCE * np.hypot(tried.mean_error, other.mean_error)
    means = _worst(off, allowed, chance)
    spread = np.abs(tried.variance - other.variance)
    # A standard deviation that is off by 3 % makes a variance that is off by 6 %.
    most = share * 2 * SD_TOLERANCE * np.maximum(tried.variance, other.variance)
    chance = _CHANCE * np.hypot(tried.variance_error, other.variance_error)
    sds = _worst(spread, most, chance)
    result = Difference(means[0] * share, sds[0] * share)
    for (size, where, refused), what, tolerance in (
        (means, "mean", MEAN_TOLERANCE),
        (sds, "standard deviation", SD_TOLERANCE),
    ):
        if refused:
            time, species = np.unravel_index(where, off.shape)
            part = f"about {100 * size * tolerance:.2g} %" if np.isfinite(size) else "all of it"
            reported = (
                f"the {what} of {names[int(species)]} at t = {times[int(time)]:g} is off by {part}"
            )
            return replace(result, refused=reported)
    return result


def _worst(off: FloatArray, allowed: FloatArray, chance: FloatArray) -> tuple[float, int, bool]:
    """The largest part of what is allowed by which anything surely is off, and where."""
    beyond = off > np.maximum(allowed, chance)
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(off > chance, off / allowed, 0.0)
    part = np.where(np.isnan(part), 0.0, part)
    where = int(np.argmax(np.where(beyond, part, -1.0) if beyond.any() else part))
    return float(part.flat[where]), where, bool(beyond.any())


def judge(task: NetworkTask, backend: Backend, leaping: int, exact: int) -> Difference:
    """Simulate and compare so many trajectories by leaps, of either kind, and exactly.

    The worst difference of all is returned, or the first that refuses leaps.
    """
    options = task.options
    points = spread(1 if task.sweep is None else task.sweep.points, _POINTS)
    times = options.times
    kept = compared_times(times)
    finer = np.unique(np.concatenate([times, _middles(times)]))
    kept_finer = np.searchsorted(finer, times[kept])
    chosen, lowered = task.leaps, task.lowered

    def leaps(epsilon: float, at: FloatArray) -> Callable[[], Engine]:
        checked = chosen.post_leap_check
        return lambda: leaping_engine(backend, lowered, at.tolist(), epsilon, checked=checked)

    coarse, fine = leaps(chosen.epsilon, times), leaps(chosen.epsilon / 2, finer)
    worst = Difference(0.0, 0.0)
    for point in points:
        n = -(-leaping // len(points))
        tried = simulated(task, coarse(), (point, n), times, kept)
        result = [(simulated(task, fine(), (point, n), finer, kept_finer), 0.5)]
        if exact:
            n = -(-exact // len(points))
            engine = exact_engine(backend, lowered, times.tolist(), selector=task.selector)
            result.append((simulated(task, engine, (point, n), times, kept), 1.0))
        for other, share in result:
            one = difference(tried, other, task.species, times[kept], share)
            worst = Difference(max(worst.mean, one.mean), max(worst.sd, one.sd), one.refused)
            if worst.refused:
                return worst
    return worst


def compared_times(times: FloatArray) -> npt.NDArray[np.int64]:
    """Numbers of the sample times that are compared, some of all after 0."""
    kept = np.unique(np.linspace(0, len(times) - 1, _TIMES).round().astype(np.int64))
    return kept[times[kept] > 0]


def _middles(times: FloatArray) -> FloatArray:
    """Half-way from each sample, and from the start, to the next."""
    before = np.concatenate([[0.0], times[:-1]])
    middles: FloatArray = before + (times - before) / 2
    return middles


def simulated(
    task: NetworkTask, engine: Engine, which: tuple[int, int], times: FloatArray,
    kept: npt.NDArray[np.int64],
) -> LeapMoments:  # fmt: skip
    """Moments at the times `kept` of some trajectories of a point."""
    options, (point, n) = task.options, which
    assert options.seed is not None
    if task.sweep is None and max(len(task.initial), len(task.constants)) > 1:
        n = min(n, options.n)  # trajectories have values of their own
    own = options.n if task.sweep is None else n
    chosen = replace(options, times=times, n=own, seed=pilot_seed(options.seed))
    pilot = replace(task, options=chosen, record=Record(trajectories=True))
    row_bytes = 4 * len(times) * max(1, len(task.species))
    rows = max(1, min(n, _BATCH_BYTES // row_bytes))
    copies = engine.backend.stream()
    lane = Lane(pilot, engine, Reductions(), rows, copies)
    first, parts = point * n if task.sweep is not None else 0, []
    for begin in range(0, n, rows):
        lane.start(first + begin, first + min(begin + rows, n))
        samples = lane.wait().chunk.arrays["amounts" if task.amounts else "counts"]
        parts.append(samples[:, kept].copy())
    return moments_of(np.concatenate(parts))

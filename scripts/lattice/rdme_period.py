"""How long a swing of the Min proteins takes, from the particles on either half of the membrane."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
EXACT = Path(__file__).resolve().parents[2] / "docs" / "figures" / "minde-exact.npz"
LEFT_OUT = 60.0  # seconds at the start: proteins that were spread evenly find their rhythm
WINDOW = 9.0  # seconds of the running mean


@dataclass(frozen=True)
class Swings:
    """Changes of sides.

    Attributes
    ----------
    times, bias
        Running mean of (lower - upper) / (lower + upper) ``[second]``, from -1 to 1.
    turns
        Times at which it changes sign, after `LEFT_OUT`.
    period, error
        Twice the mean time between turns and its standard error; 0 with fewer than three turns.
    """

    times: FloatArray
    bias: FloatArray
    turns: FloatArray
    period: float
    error: float

    def largest_share(self) -> float:
        """Largest share of the particles in one half, after `LEFT_OUT`."""
        return float(0.5 + np.abs(self.bias[self.times >= LEFT_OUT]).max() / 2)


def swings(times: FloatArray, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Swings:
    """Measure the period of particles that go to and fro between two halves.

    Parameters
    ----------
    times
        Equally spaced, in seconds ``[sample]``.
    lower, upper
        Particles in either half ``[sample]``.
    """
    low, high = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    raw = (low - high) / np.maximum(low + high, 1.0)
    width = min(len(raw), 2 * round(WINDOW / (2 * (times[1] - times[0]))) + 1)
    bias = np.convolve(raw, np.ones(width) / width, "valid")
    begins = (width - 1) // 2
    at = times[begins : begins + len(bias)]
    before = np.flatnonzero((bias[:-1] < 0) != (bias[1:] < 0))
    share = bias[before] / (bias[before] - bias[before + 1])
    turns = at[before] + share * (at[before + 1] - at[before])
    turns = turns[turns >= LEFT_OUT]
    halves = np.diff(turns)
    if len(halves) < 2:
        return Swings(at, bias, turns, 0.0, 0.0)
    error = 2 * halves.std(ddof=1) / np.sqrt(len(halves))
    return Swings(at, bias, turns, float(2 * halves.mean()), float(error))


def swings_of_planes(times: FloatArray, bound: npt.NDArray[np.integer]) -> Swings:
    """Of particles in each plane ``[sample, plane]``, between lower and upper half."""
    middle = bound.shape[1] // 2
    return swings(times, bound[:, :middle].sum(axis=1), bound[:, middle:].sum(axis=1))


def exact_swings() -> list[Swings]:
    """Of the stored exact runs of the Min proteins, which `exact_rdme.py` made."""
    with np.load(EXACT) as stored:
        planes, times = stored["planes"], stored["times"]
    return [swings_of_planes(times, run[:, 2] + run[:, 4]) for run in planes]


def pooled_period(found: list[Swings]) -> tuple[float, float]:
    """Period and standard error from the times between turns of several runs."""
    halves = np.concatenate([np.diff(one.turns) for one in found])
    return float(2 * halves.mean()), float(2 * halves.std(ddof=1) / np.sqrt(len(halves)))

"""Profiles: the largest log-likelihood for each value of one parameter, from values with noise.

Points lie along a path that follows the maximum over the other parameters. A regression gives the
profile, and its error widens intervals (Ionides, Breto, Park, Smith and King, J. R. Soc. Interface
14, 20170126, 2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tauslab.analysis.filters.fitting.surface import Surface, bend_of
from tauslab.base.arrays import FloatArray

_POINTS, _POINTS_EACH = 60, 15  # of a line: of any, and for each coefficient of its regression
_LINES = 6  # rounds at most
_FIRST = 3.0  # standard deviations to each side, of the first points
_FARTHEST = math.log(100)  # from the top and the start, where a parameter is not bounded
_FALLS = 4.0  # log-likelihoods below the top, where a line ends: 1.92 bounds 95 %
_WIDE, _NEAR = 0.75, 0.05  # parts of a line: least up to there, and a change that is none
_BELOW = 12.0  # log-likelihoods below the highest: points that say nothing of an interval
_ASIDE, _STRAY = 1.0, 3.0  # deviations of the others: farthest a path moves at once, and points
_OWN, _POWERS, _LEAST_BEND = 6, 4, 0.1  # terms of the parameter alone, and of the path
_MISFIT, _SLIGHT = 1.5, 0.15  # variance of what a regression leaves, over that of noise, and alone
_PLACES, _LEAST_FALL = 201, 1e-9
_MOST_MORE = 8.0  # times more work, which lessens noise above 1


@dataclass(frozen=True)
class Profile:
    """How far the largest log-likelihood falls beside its top.

    Attributes
    ----------
    logs, falls, errors
        f64 ``[place]``: logarithms of the parameter, falls, and standard errors of these.
    height, height_error
        Log-likelihood at the top, and its standard error.
    """

    logs: FloatArray
    falls: FloatArray
    errors: FloatArray
    height: float
    height_error: float


class _Line:
    """A profile on its way: a parameter, the path of the others, and how far it reaches."""

    def __init__(self, place: FloatArray, spread: FloatArray, axis: int, middle: float) -> None:
        self._place, self._axis, size = place, axis, len(place)
        self._others = np.flatnonzero(np.arange(size) != axis)
        self._slope = spread[self._others, axis] / spread[axis, axis]
        left = spread[np.ix_(self._others, self._others)]
        left = left - np.outer(self._slope, spread[axis, self._others])
        self._root = np.linalg.cholesky(left + 1e-12 * np.eye(size - 1))
        self._path: FloatArray = np.zeros((_POWERS, size - 1))  # coefficients of powers, in roots
        away = middle - place[axis]
        self._limits = min(0.0, away) - _FARTHEST, max(0.0, away) + _FARTHEST
        wide = min(_FIRST * math.sqrt(spread[axis, axis]), _FARTHEST)
        self._ends = self._known = np.array([-wide, wide])
        self._points, self._values = np.zeros((0, size)), np.zeros(0)  # of all rounds
        self.settled, self.noise = False, 0.0

    def propose(self, draws: np.random.Generator) -> FloatArray:
        """Places ``[m, parameter]`` about the path."""
        (low, high), size = self._ends, len(self._others)
        count = _POINTS + _POINTS_EACH * (_OWN + 3 * size + size * (size + 1))
        z = low + (high - low) * (draws.permutation(count) + draws.random(count)) / count
        v = draws.standard_normal((count, size))
        result = np.empty((count, len(self._place)))
        result[:, self._axis] = self._place[self._axis] + z
        moved = (self._path_at(z) + v) @ self._root.T
        result[:, self._others] = self._place[self._others] + np.outer(z, self._slope) + moved
        return result

    def take(self, places: FloatArray, values: FloatArray) -> Profile:
        """The profile with values at more places; the next ones reach as far as it asks for."""
        self._points = np.concatenate([self._points, places])
        self._values = np.concatenate([self._values, values])
        off = self._points - self._place
        z, others = off[:, self._axis], off[:, self._others]
        v = np.linalg.solve(self._root, (others - np.outer(z, self._slope)).T).T - self._path_at(z)
        kept = (z >= self._ends[0]) & (z <= self._ends[1]) & (np.abs(v) < _STRAY).all(axis=1)
        kept &= self._values > self._values[kept].max() - _BELOW
        z, v, values = z[kept], v[kept], self._values[kept]
        table = self._features(z, v)
        inverse = np.linalg.pinv(table)
        # Logarithms of unbiased estimates are too low by half the variance of their noise.
        squares = (values - table @ (inverse @ values)) ** 2
        free = max(1, len(z) - table.shape[1])
        powers = np.power.outer(z, range(3))
        variance = powers @ np.linalg.lstsq(powers, squares)[0] * (len(z) / free)
        values = values + np.clip(variance, 0.0, squares.max(initial=0.0)) / 2
        found = inverse @ values
        left = values - table @ found
        self.noise = math.sqrt(float(left @ left) / free)
        self._left = np.full(len(kept), np.nan)
        self._left[kept] = left
        errors = (inverse * left**2) @ inverse.T * (len(z) / free)
        places = np.linspace(z.min(), z.max(), _PLACES)
        best = self._best(places, found)
        rows = self._features(places, best)
        heights = rows @ found
        unsure = np.sqrt(np.einsum("mi,ij,mj->m", rows, errors, rows))
        top = int((heights - 2 * unsure).argmax())  # an end, of large errors, may seem high
        falls, off = np.maximum(heights[top] - heights, _LEAST_FALL), rows[top] - rows
        falls[top] = 0.0
        result = Profile(
            self._place[self._axis] + places, falls,
            np.sqrt(np.einsum("mi,ij,mj->m", off, errors, off)), float(heights[top]),
            float(unsure[top]),
        )  # fmt: skip
        path = self._path_at(places) + best
        powers = np.power.outer(places, range(_POWERS))
        self._path = np.asarray(np.linalg.lstsq(powers, path)[0])
        self._known = places[[0, -1]]
        self._reach(places, result.falls, top)
        return result

    def fits(self, count: int) -> bool:
        """Return whether the regression describes the last values, two at each place."""
        left = self._left[-count:].reshape(-1, 2)
        left = left[np.isfinite(left).all(axis=1)]
        if len(left) < _POINTS / 2:
            return False
        noise = float(((left[:, 0] - left[:, 1]) ** 2).mean()) / 2
        return float((left**2).mean()) < max(_MISFIT * noise, _SLIGHT)

    def _path_at(self, z: FloatArray) -> FloatArray:
        """The path ``[m, other]``, in roots; where it is not known yet that of the nearest end."""
        return np.asarray(np.power.outer(np.clip(z, *self._known), range(_POWERS)) @ self._path)

    def _features(self, z: FloatArray, v: FloatArray) -> FloatArray:
        """Terms ``[m, term]`` of the regression."""
        wide = z / np.abs(self._ends).max()
        size = v.shape[1]
        return np.column_stack([
            np.power.outer(wide, range(_OWN)),
            *(v * (wide**power)[:, None] for power in range(3)),
            *(v[:, i] * v[:, j] * wide**power
              for power in range(2) for i in range(size) for j in range(i + 1)),
        ])  # fmt: skip

    def _best(self, z: FloatArray, found: FloatArray) -> FloatArray:
        """Places ``[m, other]`` of the other parameters at which the regression is largest."""
        size = len(self._others)
        own, both = _OWN + 3 * size, size * (size + 1) // 2
        wide = np.power.outer(z / np.abs(self._ends).max(), range(3))
        slopes = wide @ found[_OWN:own].reshape(3, size)
        coefficients = wide[:, :2] @ found[own:].reshape(2, both)
        bend = np.array([bend_of(row, size, first=0) for row in coefficients])
        bends, axes = np.linalg.eigh(bend)
        along = np.einsum("mi,mij->mj", slopes, axes)
        steps = np.where(bends > _LEAST_BEND, along / np.maximum(bends, _LEAST_BEND), 0.0)
        return np.asarray(np.einsum("mij,mj->mi", axes, np.clip(steps, -_ASIDE, _ASIDE)))

    def _reach(self, places: FloatArray, falls: FloatArray, top: int) -> None:
        """Let a line end where it has fallen enough, or a hundredfold from there and the start."""
        fallen = [np.flatnonzero(part >= _FALLS) for part in (falls[top::-1], falls[top:])]
        bounds = [places[top + side * at[0]] if len(at) else None
                  for side, at in zip((-1, 1), fallen, strict=True)]  # fmt: skip
        ends, self.settled = self._ends.tolist(), True
        width = ends[1] - ends[0]
        for side, one, other, limit in zip(
            (-1, 1), bounds, bounds[::-1], self._limits, strict=True
        ):
            number = (side + 1) // 2
            end = self._ends[number]
            if one is not None:
                far = abs(one - places[top]) < _WIDE * abs(end - places[top])
                new = one
            else:
                most = side * limit if other is None else side * other + _FARTHEST
                new = side * min(most, side * end + width / 2)
                far = abs(new - end) > _NEAR * width
            if far:
                ends[number], self.settled = new, False
        if ends[0] < ends[1]:
            self._ends = np.array(ends)


def profiles_of(
    surface: Surface, place: FloatArray, spread: FloatArray, start: FloatArray, first: int,
    draws: np.random.Generator,
) -> list[Profile]:  # fmt: skip
    """Profiles of all parameters; none if all likelihoods are 0, or no regression describes them.

    Parameters
    ----------
    surface
        Logarithms of unbiased estimates of likelihoods.
    place, spread
        Near the top, and about how wide the top is: a covariance.
    start
        f64 ``[parameter]``: usual values, for profiles that hardly fall.
    first
        Number of the first round.
    """
    lines = [_Line(place, spread, axis, middle) for axis, middle in enumerate(start.tolist())]
    work = 1.0
    for number in range(first, first + _LINES):
        last = number == first + _LINES - 1 or all(line.settled for line in lines)
        rows = [np.repeat(line.propose(draws), 2 if last else 1, axis=0) for line in lines]
        sizes = [len(part) for part in rows]
        values = np.split(
            surface(np.concatenate(rows), work, number), np.add.accumulate(sizes[:-1])
        )
        if min(int(np.isfinite(part).sum()) for part in values) < _POINTS / 2:
            break
        result = [line.take(*given) for line, *given in zip(lines, rows, values, strict=True)]
        if last:
            return (
                result
                if all(line.fits(len(part)) for line, part in zip(lines, values, strict=True))
                else []
            )
        work = float(np.clip(max(line.noise for line in lines) ** 2, 1.0, _MOST_MORE))
    return []


def bounds_of(
    values: FloatArray, falls: FloatArray, errors: FloatArray, deviations: float
) -> tuple[float, float]:
    """Where a profile has fallen by as much as a normal likelihood at so many deviations.

    The error of the fall is added to it. 0 or infinity: it does not fall so far.
    """
    inside = np.flatnonzero(falls < (deviations**2 + errors**2) / 2)
    first, last = int(inside[0]), int(inside[-1])
    low = float(values[first - 1]) if first else 0.0
    return low, float(values[last + 1]) if last + 1 < len(values) else math.inf

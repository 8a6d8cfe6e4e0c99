"""The top of a surface of which only values with noise are known: quadratics in ever better places.

Of points around a place, drawn as wide as the top is, a regression gives gradient and curvature;
its own error is the part of the estimate's error that simulations make (Ionides, Breto, Park, Smith
and King, J. R. Soc. Interface 14, 20170126 (2017) count it in likewise).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray
from tauslab.base.errors import ConfigError

_FIRST = 0.1  # standard deviation of the first points, of logarithms
ROUNDS = 12  # at most
_LEAST_BEND = 0.1  # curvature, in spreads of the points, above which a top is seen
_FARTHEST, _NARROWER, _WIDER = 2.0, 0.25, 2.0  # of a round to the next, in spreads
_WIDEST = 3.0  # standard deviation of points, of logarithms, where nothing bounds a parameter
_FAR, _LEAST_SLOPE = 1.0, 0.25  # spread in logarithms that is wide; rise per spread to follow there
_REACH = math.log(100)  # farthest a place moves without a clear rise: rates without a bound
_RISEN = 10.0  # log-likelihood: a rise by this much over `_REACH` is no plateau
_PART = 0.3  # least share of a parameter in a flat axis for it to be named
_SAME, _NEAR = 1.5, 0.7  # widths and places of two rounds that are alike
_BELOW = 12.0  # logarithms below the highest: points that say nothing of the top
_SIDE, _HARDLY = 1.5, 0.25  # standard deviations to a side, and part of the fall: no bound
_RISING = 1.1  # difference of curvatures to both sides, over their sum, where one has its sign
_MOST_NOISE, _MOST_MORE = 1.0, 8.0  # of logarithms, and how many times more work lessens it

# Places ``[m, parameter]``, how much work over the least, number of the round -> values ``[m]``.
Surface = Callable[[FloatArray, float, int], FloatArray]


@dataclass(frozen=True)
class Top:
    """The top of a surface.

    Attributes
    ----------
    place
        f64 ``[parameter]``.
    height, height_error
        Value of the surface at `place`, and its standard error.
    bend
        Negative curvature ``[parameter, parameter]``; positive definite where none is `loose`.
    chance
        Covariance ``[parameter, parameter]`` of `place` by the noise of values.
    points, values
        The last places ``[m, parameter]``, and what the surface is there, ``[m]``.
    converged
        Whether the last two rounds are alike.
    loose
        Bool ``[parameter]``: those along which the surface does not fall to both sides.
    """

    place: FloatArray
    height: float
    height_error: float
    bend: FloatArray
    chance: FloatArray
    points: FloatArray
    values: FloatArray
    converged: bool
    loose: BoolArray


def top_of(
    surface: Surface, place: FloatArray, count: int, at_last: int, draws: np.random.Generator, *,
    unbiased: bool = False,
) -> Top:  # fmt: skip
    """Climb from a place to the top, with `count` points a round and `at_last` in the last.

    `unbiased`: values are logarithms of unbiased estimates, as those of filters. With normal noise
    they are too low by half its variance, which may differ between places and is added at last.

    Raises
    ------
    ConfigError
        All values of a round are -inf.
    """
    size, first, risen = len(place), place, -math.inf
    root, work, alike, flat = _FIRST * np.eye(size), 1.0, False, False
    for number in range(ROUNDS):
        last = alike or flat or number == ROUNDS - 1
        half = draws.standard_normal(((at_last if last else count) // 2, size))
        u = np.concatenate([half, -half])  # odd powers cancel
        values = surface(place + u @ root.T, work, number)
        if not np.isfinite(values).any():
            raise ConfigError("the likelihood is 0 near the best place: give another start=")
        below = values.max() - values
        kept = below < max(_BELOW, 2 * float(np.median(below[np.isfinite(below)])))
        if kept.sum() < 2 * _terms(size) and not last:
            place, root = place + root @ u[int(values.argmax())], root * _NARROWER
            continue
        u, values = u[kept], values[kept]
        result = Quadratic.of(u, values, cubes=last)
        if last and unbiased:
            values = values + _variances(u, values) / 2
            result = Quadratic.of(u, values, cubes=True)
        if last:
            return result.top(place, root, u, values, converged=alike)
        if result.height > risen + _RISEN:
            first, risen = place, result.height
        away = bool((np.abs(place - first) > _REACH).any())
        bends, axes = np.linalg.eigh(result.bend)
        slope = axes.T @ result.slope
        seen = bends > _LEAST_BEND
        # Along an axis that is flat over a wide spread only a clear slope is followed, not noise.
        width = np.linalg.norm(root @ axes, axis=0)
        level = ~seen & (width >= _FAR) & (np.abs(slope) < _LEAST_SLOPE)
        rises = np.where(level, 0.0, np.sign(slope))
        steps = np.where(seen, slope / np.where(seen, bends, 1.0), rises * _FARTHEST)
        steps = np.clip(steps, -_FARTHEST, _FARTHEST)
        widths = np.clip(1 / np.sqrt(np.where(seen, bends, _WIDER**-2)), _NARROWER, _WIDER)
        alike = bool((np.abs(steps) < _NEAR).all()) and bool(
            (np.abs(np.log(widths)) < math.log(_SAME)).all()
        )
        flat = bool((level & (width >= 0.99 * _WIDEST)).any())
        place, root = place + root @ (axes @ steps), root @ axes * widths
        widest = _FAR if away else _WIDEST
        root = root * np.minimum(1, widest / np.linalg.norm(root, axis=0))
        alike, flat = alike and not away, flat or away
        if alike:
            work = float(np.clip((result.noise / _MOST_NOISE) ** 2, 1.0, _MOST_MORE))
    raise AssertionError


def spread_of_tops(place: FloatArray, points: FloatArray, values: FloatArray) -> FloatArray:
    """Covariance of the tops of many surfaces ``[m, surface]``, near one place.

    Mean curvature, inverted, on both sides of the covariance of slopes.
    """
    size = len(place)
    root = np.linalg.cholesky(np.atleast_2d(np.cov((points - place).T)))
    whitened = np.asarray(np.linalg.solve(root, (points - place).T).T, np.float64)
    result = np.linalg.pinv(_table(whitened, cubes=True)) @ values
    bend = np.linalg.pinv(bend_of(result.mean(axis=1), size))
    slopes = np.atleast_2d(np.cov(result[1 : 1 + size]))
    return np.asarray(root @ bend @ slopes @ bend @ root.T)


@dataclass(frozen=True)
class Quadratic:
    """``height + slope u - u bend u / 2``, with the covariance of its coefficients.

    Attributes
    ----------
    noise
        Standard deviation of what is left.
    """

    height: float
    slope: FloatArray
    bend: FloatArray
    errors: FloatArray
    noise: float

    @classmethod
    def of(cls, u: FloatArray, values: FloatArray, *, cubes: bool = False) -> Quadratic:
        """Regress values ``[m]`` on places ``[m, parameter]``; noise may differ between them.

        With `cubes` what third powers explain is no part of it: of a surface that falls faster to
        one side it is the curvature in the middle, without which its top is off to the other.
        """
        size = u.shape[1]
        table = _table(u, cubes=cubes)
        inverse = np.linalg.pinv(table.T @ table)
        result = inverse @ (table.T @ values)
        left = values - table @ result
        free = max(1, len(u) - len(result))
        scores = table * left[:, None]
        errors = inverse @ (scores.T @ scores) @ inverse * (len(u) / free)
        own = _terms(size)
        return cls(
            float(result[0]), result[1 : 1 + size], bend_of(result, size), errors[:own, :own],
            math.sqrt(float(left @ left) / free),
        )  # fmt: skip

    def profile(self, axis: int, x: FloatArray) -> FloatArray:
        """The largest values ``[m]`` where a coordinate is `x`; `bend` is positive definite."""
        inverse = np.linalg.inv(self.bend)
        top = inverse @ self.slope
        off = x - top[axis]
        height = self.height + 0.5 * float(self.slope @ top)
        return np.asarray(height - 0.5 * off * off / inverse[axis, axis])

    def __call__(self, u: FloatArray) -> FloatArray:
        """Values ``[m]`` at places ``[m, parameter]``."""
        return np.asarray(
            self.height + u @ self.slope - 0.5 * np.einsum("mi,ij,mj->m", u, self.bend, u)
        )

    def top(
        self, place: FloatArray, root: FloatArray, u: FloatArray, values: FloatArray, *,
        converged: bool,
    ) -> Top:  # fmt: skip
        """The top in the coordinates of the surface, of points ``place + root u``."""
        size = len(place)
        bends, axes = np.linalg.eigh(self.bend)
        flat = bool(bends.min() <= _LEAST_BEND)
        inverse = np.linalg.pinv(self.bend)
        step = np.zeros(size) if flat else np.clip(inverse @ self.slope, -_FARTHEST, _FARTHEST)
        # How the step changes with each coefficient: inverse (d slope - d bend step).
        by = np.zeros((size, _terms(size)))
        by[:, 1 : 1 + size] = inverse
        for k in range(1 + size, _terms(size)):
            one = np.zeros(_terms(size))
            one[k] = 1.0
            by[:, k] = -inverse @ (bend_of(one, size) @ step)
        open_axes = bends <= _LEAST_BEND if flat else self._one_sided(u, values, step)
        along = np.abs(root @ axes[:, open_axes])
        loose = (along > _PART * np.linalg.norm(along, axis=0)).any(axis=1)
        back = np.linalg.inv(root)
        rise = _table(step[None])[0]
        coefficients_height = self.height + float(self.slope @ step - 0.5 * step @ self.bend @ step)
        return Top(
            place + root @ step, coefficients_height, math.sqrt(float(rise @ self.errors @ rise)),
            back.T @ self.bend @ back, root @ by @ self.errors @ by.T @ root.T, place + u @ root.T,
            values, converged and not loose.any(), loose,
        )  # fmt: skip

    def _one_sided(self, u: FloatArray, values: FloatArray, step: FloatArray) -> BoolArray:
        """Axes along which values hardly fall to one side of the top, or ever less.

        Squares with a sign are regressed too, so the two sides have curvatures of their own.
        """
        size = len(step)
        bends, axes = np.linalg.eigh(self.bend)
        off = (u - step) @ axes
        table = np.column_stack([_table(u), off * np.abs(off)])
        inverse = np.linalg.pinv(table.T @ table)
        result = inverse @ (table.T @ values)
        left = values - table @ result
        free = max(1, len(u) - len(result))
        odd, errors = result[-size:], np.sqrt(np.diag(inverse)[-size:] * float(left @ left) / free)
        odd = np.sign(odd) * np.maximum(0, np.abs(odd) - 2 * errors)
        bend = bend_of(result, size)
        slopes = axes.T @ (result[1 : 1 + size] - bend @ step)
        own = np.einsum("ij,ik,kj->j", axes, bend, axes)
        v = np.linspace(-_SIDE, _SIDE, 31)[:, None] / np.sqrt(bends)
        along = slopes * v + (odd * np.sign(v) - own / 2) * v * v
        falls = along.max(axis=0) - np.maximum(along[0], along[-1])
        rises = np.abs(odd) > _RISING * bends / 2
        return np.asarray(rises | (falls < _HARDLY * _SIDE**2 / 2))


def _variances(u: FloatArray, values: FloatArray) -> FloatArray:
    """Variance ``[m]`` of the noise of values ``[m]`` at each place, a quadratic too."""
    table = _table(u)
    inverse = np.linalg.pinv(table)
    left = values - table @ (inverse @ values)
    free = max(1, table.shape[0] - table.shape[1])
    return np.asarray(np.maximum(0.0, table @ (inverse @ left**2)) * len(u) / free)


def _pairs(size: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(size) for j in range(i + 1)]


def _terms(size: int) -> int:
    return 1 + size + size * (size + 1) // 2


def _table(u: FloatArray, *, cubes: bool = False) -> FloatArray:
    """Powers ``[m, term]``: 1, each, products of two, and with `cubes` of three."""
    pairs = _pairs(u.shape[1])
    products = [u[:, i] * u[:, j] for i, j in pairs]
    if cubes:
        products += [u[:, i] * u[:, j] * u[:, k] for i, j in pairs for k in range(j + 1)]
    return np.column_stack([np.ones(len(u)), u, *products])


def bend_of(coefficients: FloatArray, size: int, first: int | None = None) -> FloatArray:
    """Negative curvature ``[parameter, parameter]`` of coefficients of a regression.

    Coefficients of products of two parameters begin at `first`, by default after the constant and
    the coefficients of single parameters.
    """
    result = np.zeros((size, size))
    for k, (i, j) in enumerate(_pairs(size), 1 + size if first is None else first):
        result[i, j] -= coefficients[k]
        result[j, i] -= coefficients[k]
    return result

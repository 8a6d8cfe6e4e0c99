"""exp(Q t) applied to a distribution on a fixed set of states, by uniformisation.

With q at least as large as every exit rate, P = I + Q / q has no negative entry, and

    p(t) = sum_k  e^(-q t) (q t)^k / k!  P^k p(0)                       (Jensen 1953)

is a sum of terms that are not negative. What the sum leaves out, and what leaves the set, is
missing in the result. The result is therefore at most the exact probability in every state, and 1
less its sum is the error. For few states and long times P^k is replaced by repeated squaring of the
matrix for a short time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tauslab.analysis.cme.states import OUTSIDE, StateSet
from tauslab.base.arrays import FloatArray

UNIT = 2.0**-53  # relative rounding of one operation
CUT = 2e-17  # what the series leaves out of a distribution at most
_CUT_SHARE = 1e-3  # of the tolerance, where that is less
_SMALLEST = 1e-200  # probabilities below count as lost, so that no operation meets denormal numbers
_FLUSH_EVERY = 16  # steps
_SHORT = 0.25  # q times the time of the matrix that is squared
_TERMS = 16  # of its series: the first left out is below 2^-80
MOST_DENSE = 1500  # states of a full matrix
# Seconds, to choose between the two: of a step, of an entry in a step, and of a multiplication.
_STEP, _ENTRY, _MULTIPLY = 8e-6, 3e-9, 1e-10
_REPORT = 0.1  # seconds between two reports, by the same estimate
_SOON, _PATIENCE = 1.0, 60.0  # seconds of the series, for which nothing is squared


def require_scipy() -> Any:
    """`scipy.sparse`, which takes a tenth of a second to load."""
    from scipy import sparse

    return sparse


class Propagator:
    """exp(Q t) of a set of states; it does not follow the set when that changes.

    Parameters
    ----------
    tolerance
        Errors by rounding that squaring may have where the series takes less than a minute.
    horizon, patience
        A time whose series is too long, and the seconds it may take: then what is faster squared
        is squared, whatever the rounding.

    Attributes
    ----------
    fastest
        q: the largest exit rate, 0 where nothing can happen.
    """

    def __init__(self, states: StateSet, tolerance: float, horizon: float, patience: float) -> None:
        self._tolerance, self._horizon, self._limit = tolerance, horizon, patience
        self._cut = min(CUT, _CUT_SHARE * tolerance)
        self._n = len(states)
        exits = states.rates.sum(axis=1)
        self.fastest = float(exits.max(initial=0.0)) * (1 + 4 * UNIT * states.rates.shape[1])
        self._states, self._exits = states, exits
        self._out = np.where(states.targets == OUTSIDE, states.rates, 0.0).sum(axis=1)
        self._matrix: Any = None
        self._powers: dict[float, FloatArray] = {}
        # Roundings of an entry in a step: a product for each reaction, the sums, the diagonal.
        self._operations = states.rates.shape[1] + 4

    def steps(self, duration: float) -> float:
        """Multiplications with P that a time takes."""
        length = self.fastest * duration
        return length + 8 * math.sqrt(length) + 40 if length else 0.0

    def rounding(self, duration: float) -> float:
        """Bound of the relative error of every probability by rounding."""
        if not self.fastest:
            return 0.0
        if self._squares(duration):
            return self._rounding_of_squares(duration)
        return (self.steps(duration) * self._operations + 200) * UNIT

    def hidden(self, duration: float) -> float:
        """Probability that is missing at most, besides what `advance` says has left the set."""
        if not self.fastest:
            return 0.0
        squares = self._out.any() and self._squares(duration)
        return self._rounding_of_squares(duration) if squares else self._cut

    def work(self, duration: float) -> float:
        """Estimated seconds."""
        return min(self._seconds(duration))

    def seconds_with(self, states: int, duration: float) -> float:
        """Estimated seconds of the series, if there were so many states that are left as often."""
        entries = states * (self._states.rates.shape[1] + 3)
        return self.steps(duration) * (_STEP + _ENTRY * entries)

    def advance(
        self, probabilities: FloatArray, duration: float, report: Callable[[float], None]
    ) -> tuple[FloatArray, float]:
        """The distribution after a time, without what has left the set, and what has left it.

        The series sums what leaves, so that it is known to a part of itself, however little; with
        squares `hidden` may be missing in it. `report` is called with the part of the time
        that is done, about ten times a second.
        """
        if not self.fastest or not duration:
            return probabilities, 0.0
        if not self._squares(duration):
            return self._series(probabilities, duration, report)
        result = np.asarray(self._power(duration, report).T @ probabilities)
        left = float(probabilities.sum()) - float(result.sum())
        return result, max(0.0, left) if self._out.any() else 0.0

    def _series(
        self, probabilities: FloatArray, duration: float, report: Callable[[float], None]
    ) -> tuple[FloatArray, float]:
        first, weights = poisson_weights(self.fastest * duration, cut=self._cut)
        later = np.cumsum(weights[::-1])[::-1]  # of this term and all after it
        out = self._out / self.fastest if self._out.any() else None
        left = 0.0
        terms, seconds = first + len(weights), self._seconds(duration)[0]
        every = max(1, int(terms * _REPORT / seconds))
        matrix = self._stepping()
        total = np.zeros_like(probabilities)
        step = probabilities
        for k in range(terms):
            if k % every == 0:
                report(k / terms)
            if k:
                step = matrix @ step
                if k % _FLUSH_EVERY == 0:
                    step[step < _SMALLEST] = 0.0
            if k >= first:
                total += weights[k - first] * step
            if out is not None and k + 1 < terms:
                left += float(out @ step) * float(later[max(0, k + 1 - first)])
        total[total < _SMALLEST] = 0.0
        return total, left

    def _stepping(self) -> Any:
        """P transposed, sparse."""
        if self._matrix is None:
            sparse = require_scipy()
            source, reaction = np.nonzero(self._states.targets != OUTSIDE)
            target = self._states.targets[source, reaction]
            flow = self._states.rates[source, reaction] / self.fastest
            stay = np.maximum(1.0 - self._exits / self.fastest, 0.0)
            own = np.arange(self._n)
            self._matrix = sparse.csr_array(
                (
                    np.concatenate([flow, stay]),
                    (np.concatenate([target, own]), np.concatenate([source, own])),
                ),
                shape=(self._n, self._n),
            )
        return self._matrix

    def _seconds(self, duration: float) -> tuple[float, float]:
        """Estimated seconds of the series, and of squaring."""
        entries = int((self._states.targets != OUTSIDE).sum()) + 3 * self._n
        series = self.steps(duration) * (_STEP + _ENTRY * entries)
        if self._n > MOST_DENSE:
            return series, math.inf
        done = duration in self._powers
        products = 0 if done else _TERMS + self._squarings(duration)
        return series, products * _MULTIPLY * (self._n + 1) ** 3 + 1e-4

    def _squares(self, duration: float) -> bool:
        series, squaring = self._seconds(duration)
        if squaring < series and self._seconds(self._horizon)[0] > self._limit:
            return True
        exact = self._rounding_of_squares(duration) < self._tolerance
        return squaring < series and series > (_SOON if exact else _PATIENCE)

    def _rounding_of_squares(self, duration: float) -> float:
        return 2.0 ** self._squarings(duration) * (_TERMS + 2) * (self._n + 4) * UNIT

    def _squarings(self, duration: float) -> int:
        return max(0, math.ceil(math.log2(max(self.fastest * duration, _SHORT) / _SHORT)))

    def _power(self, duration: float, report: Callable[[float], None]) -> FloatArray:
        """The matrix exp(Q t) with the outside as a last state, rows from, columns to."""
        if duration not in self._powers:
            n, squarings = self._n, self._squarings(duration)
            step = np.zeros((n + 1, n + 1))
            step[:n, :n] = self._stepping().toarray().T
            step[:n, n] = np.maximum(1.0 - step[:n, :n].sum(axis=1), 0.0)
            step[n, n] = 1.0
            _, weights = poisson_weights(self.fastest * duration / 2.0**squarings, terms=_TERMS)
            power = weights[-1] * np.eye(n + 1)
            products = len(weights) - 1 + squarings
            for done, weight in enumerate(weights[-2::-1]):
                report(done / products)
                power = power @ step
                power[np.diag_indices(n + 1)] += weight
            for done in range(len(weights) - 1, products):
                report(done / products)
                power = power @ power
                # Rows of the exact matrix have the sum 1: no drift over many squarings.
                power /= power.sum(axis=1, keepdims=True)
                power[power < _SMALLEST] = 0.0
            self._powers = {duration: np.ascontiguousarray(power[:n, :n])}
        return self._powers[duration]


def poisson_weights(
    mean: float, terms: int | None = None, cut: float = CUT
) -> tuple[int, FloatArray]:
    """First number and probabilities from it on of a Poisson number, summing to at most 1.

    Probabilities left out are together below half of `cut`; `terms` asks for so many from 0. They
    are products of ratios from the mode on, over the sum of all that matter (Fox and Glynn 1988).
    """
    mode = int(mean)
    reach = int(40 * math.sqrt(mean + 60) + 60)
    below = np.arange(mode, max(0, mode - reach), -1) / mean
    above = mean / np.arange(mode + 1, mode + reach)
    left, right = np.cumprod(below)[::-1], np.cumprod(above)
    weights = np.concatenate([left, [1.0], right])
    first = mode - len(left)
    weights /= weights.sum()
    if terms is not None:
        return 0, weights[:terms]
    tail = cut / 4
    low = int(np.searchsorted(np.cumsum(weights), tail))
    high = len(weights) - int(np.searchsorted(np.cumsum(weights[::-1]), tail))
    return first + low, weights[low:high]

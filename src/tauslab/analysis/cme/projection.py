"""Finite state projection in time: a set of states that follows the distribution.

On a set of states that loses what leaves it, every probability is at most the exact one, at every
time (Munsky and Khammash 2006). So the error, summed over all states, is the probability that was
lost, whatever decided which states the set holds. The set grows where probability leaves, until the
loss of a time step is within its share of the tolerance, and gives up states of next to no
probability.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import numpy as np

from tauslab.analysis.cme.outlook import fewest_states, times_of_many
from tauslab.analysis.cme.propagate import UNIT, Propagator, require_scipy
from tauslab.analysis.cme.propensities import Propensities
from tauslab.analysis.cme.states import (
    OUTSIDE,
    StateLimits,
    StateSet,
    TooManyStatesError,
    bytes_of_states,
)
from tauslab.base.arrays import FloatArray, Int32Array, IntArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.host import available_memory, in_bytes
from tauslab.kernels.network.lowering import LoweredNetwork

_CLOSED = 20_000  # states that a whole reachable set may have
_DEEPEST = 5_000  # firings to its farthest state
_FIRST_LAYERS = 4
_MOST_LAYERS = 64
_FIRST_STEP = 32.0  # firings in the fastest state in the first step of an open set
_GROWTH = 4.0  # of a time step that needed no more states
_PRUNED_SHARE = 0.1  # of the loss that is allowed, for states that are given up
_LOST_AT_START = 1e-17  # of several first states at most, which rounding of their sum hides
ROUNDED_SHARE = 0.1  # of the tolerance, for roundings
_WORTH_PRUNING = 0.5  # part of the states
_LEAK_COVERED = 0.999  # part of what leaves whose states are followed
_ARRIVAL = 1.5e-6  # seconds, by estimate, of a way to a state when the set grows
_LOOK_AHEAD = 100_000  # states, beyond which a distribution may take minutes
_LONG_STEP = 4000.0  # multiplications: a longer trial is cut in two when the set grows


@dataclass(frozen=True)
class StateDistribution:
    """The distribution at one time: states int32 ``[state, species]``, probabilities, errors."""

    states: Int32Array
    probabilities: FloatArray
    lost: float
    rounding: float


class Projection:
    """The distribution of a network at one time, which can be advanced and weighted.

    Parameters
    ----------
    states, probabilities
        Where the network begins: int32 ``[state, species]`` and probabilities.
    tolerance
        Probability that may be lost until `end`.
    most
        States at most.
    patience
        Seconds that may be left by estimate: what counts is steps, not a clock.

    Attributes
    ----------
    rounding
        Bound of the relative error of every probability by rounding.
    report
        Called with the time that is reached and the number of states, many times a second.
    """

    def __init__(
        self, network: LoweredNetwork, states: Int32Array, probabilities: FloatArray, *,
        tolerance: float, end: float, most: int | None, patience: float, name: str,
    ) -> None:  # fmt: skip
        self.report: Callable[[float, int], None] = lambda *_: None
        self._network, self._name = network, name
        propensities = Propensities(network)
        self._state_limits = _state_limits(propensities.change.shape, most)
        self._tolerance, self._end, self._patience = tolerance, end, patience
        self.time = self._since = self._left = 0.0
        self.rounding = 0.0
        self._spent = 0.0  # seconds, by estimate
        shape = propensities.change.shape
        self._checked_ahead = False
        if not self._state_limits.holds(len(states), 0, shape):
            self._refuse_many(len(states), bytes_of_states(len(states), 0, shape))
        self._set = StateSet(propensities, states)
        if not len(self._set):
            self._refuse_undefined(0.0, 1.0)
        self._probabilities = self._moved(states, probabilities)
        missing = max(0.0, 1.0 - float(self._probabilities.sum()))
        hidden = missing <= len(states) * UNIT
        self._cut = missing if not hidden else _LOST_AT_START if len(states) > 1 else 0.0
        self._begin()

    @property
    def lost(self) -> float:
        """Probability that is in no state at most, since the start or since the last weighing."""
        return self._left + self._cut

    @property
    def closed(self) -> bool:
        """Return whether the set has all states that can be reached."""
        return self._closed

    @property
    def size(self) -> int:
        """Number of states."""
        return len(self._set)

    @property
    def fastest(self) -> float:
        """The largest rate at which any state is left, in 1 / time."""
        return self._current().fastest

    @property
    def largest_gain(self) -> IntArray:
        """Molecules ``[species]`` that a reaction adds at most."""
        return np.asarray(self._set.change.max(axis=0, initial=0), np.int64)

    def snapshot(self) -> StateDistribution:
        """The distribution now."""
        return StateDistribution(self._set.states, self._probabilities, self.lost, self.rounding)

    def advance(self, time: float) -> None:
        """Move the distribution to a later time."""
        while self.time < time:
            self._step(min(self._duration, time - self.time), time)

    def weigh(self, weights: FloatArray) -> float:
        """Multiply probabilities by weights ``[state]`` of 0 or more, and make their sum 1 again.

        Returns
        -------
        What the sum was before that.
        """
        weighted = self._probabilities * weights
        total = float(weighted.sum())
        if total > 0:
            self._probabilities, self._since = weighted / total, self.time
            self._left = self._cut = 0.0
        return total

    def _begin(self) -> None:
        """Take the whole reachable set if it is small, else what is near."""
        everything = np.arange(len(self._set))
        whole = StateSet(self._set.propensities, self._set.states)
        small = StateLimits(min(_CLOSED, self._state_limits.most), self._state_limits.memory)
        if _bounded(self._set.change):
            with suppress(TooManyStatesError):
                whole.grow(everything, _DEEPEST, small)
        leaves = ((whole.targets == OUTSIDE) & (whole.rates > 0)).any()
        if len(whole) <= small.most and not leaves:
            self._closed = True
            self._take(whole)
            self._duration = np.inf
            return
        self._closed = False
        self._grow(everything, _FIRST_LAYERS)
        self._duration = _FIRST_STEP / self.fastest if self.fastest else np.inf

    def _take(self, states: StateSet) -> None:
        probabilities = np.zeros(len(states))
        probabilities[states.find(self._set.states)] = self._probabilities
        self._set, self._probabilities = states, probabilities
        self._propagator: Propagator | None = None

    def _moved(self, states: Int32Array, probabilities: FloatArray) -> FloatArray:
        """`probabilities` of `states` on the set; what the set has not is lost."""
        result = self._set.find(states)
        inside = result != OUTSIDE
        return np.bincount(result[inside], probabilities[inside], minlength=len(self._set)).astype(
            np.float64
        )

    def _step(self, duration: float, until: float) -> None:
        """One time step, with a larger set or a shorter time if it loses too much."""
        grown, layers = False, _FIRST_LAYERS
        while True:
            propagator = self._current()
            self._refuse_long(propagator, until - self.time)
            probabilities, left = propagator.advance(
                self._probabilities, duration, partial(self._report, duration)
            )
            self._spent += propagator.work(duration)
            loss = self._left + left
            now = until if duration >= until - self.time else self.time + duration
            if loss <= self._allowed(now) or self._closed:
                break
            sources = self._leaving(probabilities)
            if not len(sources) or not self._grow(sources, layers):
                if loss > self.rounding + propagator.rounding(duration):
                    self._refuse_undefined(now, loss)
                break
            grown, layers = True, min(2 * layers, _MOST_LAYERS)
            if self._current().steps(duration) > _LONG_STEP:
                duration /= 2
        self.rounding += propagator.rounding(duration)
        self._cut += propagator.hidden(duration)
        self._probabilities, self.time, self._left = probabilities, now, loss
        if not self._closed:
            self._duration = duration if grown else max(self._duration, duration * _GROWTH)
            self._prune()

    def _report(self, duration: float, part: float) -> None:
        self.report(self.time + part * duration, self.size)

    def _current(self) -> Propagator:
        if self._propagator is None:
            self._propagator = Propagator(
                self._set, ROUNDED_SHARE * self._tolerance, self._end, self._patience
            )
        return self._propagator

    def _refuse_long(self, propagator: Propagator, left: float) -> None:
        growth = _ARRIVAL * self._set.arrivals
        seconds = self._spent + growth + propagator.work(left)
        if seconds > self._patience:
            raise ConfigError(
                f"{self._name}: one of its {len(self._set)} states is left "
                f"{propagator.fastest:.3g} times in a unit of time, so that {left:.3g} of them "
                f"take {propagator.steps(left):.2g} steps, about {seconds:.0f} s with "
                f"the earlier ones, and max_seconds={self._patience:g}; simulate it with ts.run"
            )

    def _allowed(self, time: float) -> float:
        """Probability that may be lost since the start, or since the last weighing."""
        return self._tolerance * (time - self._since) / self._end

    def _leaving(self, probabilities: FloatArray) -> IntArray:
        """States from which nearly all that is lost leaves."""
        outside = np.where(self._set.targets == OUTSIDE, self._set.rates, 0.0).sum(axis=1)
        flow = (self._probabilities + probabilities) * outside
        sources = np.flatnonzero(outside > 0)
        if flow.sum() > 0:
            order = np.argsort(-flow)
            covered = np.cumsum(flow[order]) <= _LEAK_COVERED * flow.sum()
            sources = order[: int(covered.sum()) + 1]
        return np.asarray(sources, np.int64)

    def _grow(self, sources: IntArray, layers: int) -> int:
        try:
            added = self._set.grow(sources, layers, self._state_limits, self._watch)
        except TooManyStatesError as error:
            self._refuse_many(error.states, error.memory)
        self._probabilities = np.concatenate([self._probabilities, np.zeros(added)])
        self._propagator = None
        return added

    def _watch(self) -> None:
        """Look ahead once, when there are many states; the distribution is of the first of them."""
        if not self._checked_ahead and len(self._set) > _LOOK_AHEAD:
            self._checked_ahead = True
            self._look_ahead()

    def _look_ahead(self) -> None:
        """Refuse now what would be refused after minutes, and gigabytes."""
        states, shape = fewest_states(), self._set.change.shape
        propagator, since, seconds = self._current(), 0.0, 0.0
        now, left = self._set.states[: len(self._probabilities)], self._end - self.time
        for ahead in times_of_many(self._set.propensities, now, self._probabilities, left):
            time = self.time + ahead
            if not self._state_limits.holds(states, states, shape):
                self._refuse_many(states, bytes_of_states(states, states, shape), time)
            seconds += propagator.seconds_with(states, ahead - since) if since else 0.0
            since = ahead
            if self._spent + seconds > self._patience:
                raise ConfigError(
                    f"{self._name}: its distribution takes more than {states} states by t = "
                    f"{time:.6g}, which take more than {seconds:.0f} s, and "
                    f"max_seconds={self._patience:g}; simulate it with ts.run"
                )

    def _prune(self) -> None:
        """Give up states that hold so little together that the tolerance allows it."""
        share = self._allowed(self.time) - self._left
        order = np.argsort(self._probabilities)
        small = int(
            np.searchsorted(np.cumsum(self._probabilities[order]), _PRUNED_SHARE * max(share, 0.0))
        )
        if small < _WORTH_PRUNING * len(self._probabilities):
            return
        keep = np.ones(len(self._probabilities), bool)
        keep[order[:small]] = False
        self._left += float(self._probabilities[order[:small]].sum())
        self._set.keep(keep)
        self._probabilities = self._probabilities[keep]
        self._propagator = None

    def _refuse_many(self, states: int, memory: int, time: float | None = None) -> NoReturn:
        time = self.time if time is None else time
        at_most = (
            f"max_states={self._state_limits.most}"
            if states > self._state_limits.most
            else f"{in_bytes(int(self._state_limits.memory))} of memory may be taken here"
        )
        raise ConfigError(
            f"{self._name}: its distribution takes {states} states or more ({in_bytes(memory)}) "
            f"at t = {time:.6g}, and {at_most}; simulate it with ts.run"
        )

    def _refuse_undefined(self, time: float, loss: float) -> None:
        result = self._set.undefined
        where = ""
        if result is not None:
            counts = ", ".join(
                f"{name} = {count}"
                for name, count in zip(self._network.species, result.counts, strict=True)
            )
            where = (
                f": reaction {result.reaction} has the propensity {result.value:g} where {counts}; "
                "it must be finite and 0 or more"
            )
        raise ModelError(
            f"{self._name}: states in which propensities are not defined are reached with a "
            f"probability of {loss:.3g} by t = {time:.6g}{where}"
        )


def _bounded(change: IntArray) -> bool:
    """Return whether a sum of counts with positive weights is raised by no reaction."""
    reactions, species = change.shape
    if not (change.sum(axis=1) > 0).any():
        return True
    require_scipy()
    from scipy.optimize import linprog

    result = linprog(
        np.zeros(species), A_ub=change, b_ub=np.zeros(reactions), bounds=[(1, None)] * species
    )
    return bool(result.status == 0)


def _state_limits(shape: tuple[int, int], most: int | None) -> StateLimits:
    """States at most as given, and in any case what half of the free memory holds."""
    memory = max(available_memory() // 2, bytes_of_states(1, 0, shape))
    return StateLimits(sys.maxsize if most is None else most, memory)

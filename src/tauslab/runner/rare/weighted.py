"""The weighted ensemble: walkers with weights, split where few come and merged where many are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tauslab.model.arrays import Array, BoolArray, FloatArray, Int32Array, IntArray
from tauslab.runner.particles.weights import uniform, words
from tauslab.runner.rare.bins import Binning
from tauslab.runner.rare.resampling import split_and_merge
from tauslab.runner.rare.target import Progress, Target

# What words are drawn for, beside those of particles/weights.py.
_MOTION, _RESAMPLING = 16, 17
_MOST_WALKERS = 1 << 20  # that are moved together; further runs follow


@dataclass(frozen=True)
class Course:
    """What one weighted ensemble gave.

    Attributes
    ----------
    reached
        f64 ``[run, round]``: weight that came into the target in each round.
    lost
        f64 ``[run]``: weight of walkers that overflowed, met a NaN or took too many steps.
    rounding
        Largest distance of the sum of all weights of a run from 1.
    walkers
        Walkers that were moved, over all rounds and runs.
    ended
        int64 ``[status]``: walkers that ended, by status.
    """

    reached: FloatArray
    lost: FloatArray
    rounding: float
    walkers: int
    ended: IntArray


class Mover(Protocol):
    """What moves walkers.

    Attributes
    ----------
    start
        int32 ``[column]``: what a walker begins with; its counts, and what else the mover needs.
    """

    start: Int32Array

    def move(self, states: Int32Array, turn: int, seed: int) -> tuple[Int32Array, Array]:
        """Move states ``[walker, column]`` by round `turn`; those in the target stay there.

        Returns
        -------
        The states, below 0 where a walker has ended, and u8 ``[walker]``, how, as in /status.
        """


@dataclass(frozen=True)
class WalkRules:
    """What all runs have in common.

    Attributes
    ----------
    rounds
        Rounds of one step each.
    walkers
        Walkers of a bin after splitting and merging.
    recycle
        Whether walkers in the target begin again, in place of being taken away.
    """

    mover: Mover
    target: Target
    progress: Progress
    binning: Binning
    rounds: int
    walkers: int
    recycle: bool


def weighted_runs(rules: WalkRules, runs: int, seed: int, report: Callable[[int], None]) -> Course:
    """Independent runs, as many at a time as `_MOST_WALKERS` allows whatever the device.

    `report` is told how many rounds of runs are done.
    """
    most = max(1, _MOST_WALKERS // (rules.walkers * rules.binning.size))
    parts: list[Course] = []
    for number, first in enumerate(range(0, runs, most)):
        word = int(words(seed, _MOTION, number, 1)[0])
        together = Together(rules, min(most, runs - first), word)
        parts.append(together.walk(report, first * rules.rounds))
    return joined(parts)


def joined(parts: Sequence[Course]) -> Course:
    """Runs, one after another, as one."""
    return Course(
        np.concatenate([one.reached for one in parts]),
        np.concatenate([one.lost for one in parts]),
        max(one.rounding for one in parts),
        sum(one.walkers for one in parts),
        np.sum([one.ended for one in parts], axis=0),
    )


class Together:
    """Walkers of runs that are moved in the same launches, run by run.

    Each has its counts ``states`` int32 ``[walker, species]``, its weight and its run.
    """

    def __init__(self, rules: WalkRules, runs: int, seed: int) -> None:
        self._rules, self._runs, self._seed = rules, runs, seed
        walkers = rules.walkers
        self.states: Int32Array = np.tile(rules.mover.start, (runs * walkers, 1))
        self.weights: FloatArray = np.full(runs * walkers, 1.0 / walkers)
        self.of_run: IntArray = np.repeat(np.arange(runs), walkers)
        self.lost, self.ended = np.zeros(runs), np.zeros(256, np.int64)

    def walk(self, report: Callable[[int], None], before: int) -> Course:
        """All rounds, or until no walker is left."""
        rules, moved = self._rules, 0
        reached = np.zeros((self._runs, rules.rounds))
        seeds = words(self._seed, _MOTION, 0, rules.rounds)
        for turn in range(rules.rounds):
            moved += len(self.weights)
            reached[:, turn] = self._advance(turn, int(seeds[turn]))
            report(before + self._runs * (turn + 1))
            if turn + 1 < rules.rounds:
                self._resample(turn)
            if not len(self.weights):
                break
        left = self._weight(np.ones(len(self.weights), bool))
        out = 0.0 if rules.recycle else np.add.accumulate(reached, axis=1)[:, -1]
        rounding = float(np.abs(left + out + self.lost - 1).max())
        return Course(reached, self.lost, rounding, moved, self.ended)

    def _advance(self, turn: int, seed: int) -> FloatArray:
        """Move all walkers by a round; the weight ``[run]`` that came into the target."""
        rules = self._rules
        self.states, status = rules.mover.move(self.states, turn, seed)
        gone = self.states[:, 0] < 0
        self.lost += self._weight(gone)
        self.ended += np.bincount(status[gone], minlength=256)
        self._keep(~gone)
        there = rules.target.reached(self.states)
        came = self._weight(there)
        if rules.recycle:
            self.states[there] = rules.mover.start
        else:
            self._keep(~there)
        return came

    def _resample(self, turn: int) -> None:
        """Split and merge the walkers of each run in each bin."""
        rules, size = self._rules, self._rules.binning.size
        self._keep(self.weights > 0)  # a weight below the smallest number is 0
        if not len(self.weights):
            return
        at = rules.progress(self.states)
        bins = rules.binning.bins_of(at, self.weights, self.of_run)
        uniforms = uniform(self._seed, _RESAMPLING, turn, self._runs * size)
        ancestors, weights = split_and_merge(
            self.of_run * size + bins, at, self.weights, rules.walkers, uniforms
        )
        self._keep(ancestors)
        self.weights = weights

    def _keep(self, which: BoolArray | IntArray) -> None:
        """Only these walkers are left, in this order."""
        if which.dtype == np.bool_ and which.all():
            return
        self.states, self.weights = self.states[which], self.weights[which]
        self.of_run = self.of_run[which]

    def _weight(self, which: BoolArray) -> FloatArray:
        """Weight ``[run]`` of some walkers, added one after the other."""
        sums = np.bincount(self.of_run[which], self.weights[which], minlength=self._runs)
        return sums.astype(np.float64)

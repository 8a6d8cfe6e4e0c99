"""The weighted ensemble: walkers with weights, split where few come and merged where many are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tauslab.model.arrays import Array, BoolArray, FloatArray, Int32Array, IntArray
from tauslab.runner.particles.weights import uniform, words
from tauslab.runner.rare.bins import Binning
from tauslab.runner.rare.resampling import split_and_merge
from tauslab.runner.rare.segments import Segments
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


Report = Callable[[int, int], None]


class Walkers:
    """Walkers of several runs: their counts, weights and runs."""

    def __init__(self, states: Int32Array, weights: FloatArray, runs: IntArray) -> None:
        self.states, self.weights, self.runs = states, weights, runs

    def keep(self, which: BoolArray | IntArray) -> None:
        """Only these are left, in this order."""
        self.states, self.weights = self.states[which], self.weights[which]
        self.runs = self.runs[which]

    def weight_of_runs(self, which: BoolArray, runs: int) -> FloatArray:
        """Weight ``[run]`` of some walkers, added in their order."""
        return np.bincount(self.runs[which], self.weights[which], minlength=runs)


def weighted_runs(
    segments: Segments,
    target: Target,
    progress: Progress,
    binning: Binning,
    *,
    rounds: int,
    walkers: int,
    runs: int,
    seed: int,
    recycle: bool,
    report: Report,
) -> Course:
    """Independent runs, as many at a time as `_MOST_WALKERS` allows whatever the device."""
    most = max(1, _MOST_WALKERS // (walkers * binning.size))
    parts = []
    for number, first in enumerate(range(0, runs, most)):
        here = min(most, runs - first)
        word = int(words(seed, _MOTION, number, 1)[0])

        def told(done: int, first: int = first, here: int = here) -> None:
            report(first * rounds + here * done, runs * rounds)

        parts.append(
            _together(
                segments, target, progress, binning, rounds=rounds, walkers=walkers, runs=here,
                seed=word, recycle=recycle, told=told,
            )
        )  # fmt: skip
    return Course(
        np.concatenate([one.reached for one in parts]),
        np.concatenate([one.lost for one in parts]),
        max(one.rounding for one in parts),
        sum(one.walkers for one in parts),
        np.sum([one.ended for one in parts], axis=0),
    )


def _together(
    segments: Segments,
    target: Target,
    progress: Progress,
    binning: Binning,
    *,
    rounds: int,
    walkers: int,
    runs: int,
    seed: int,
    recycle: bool,
    told: Callable[[int], None],
) -> Course:
    """Runs whose walkers are moved in the same launches."""
    start = segments.start
    held = Walkers(
        np.tile(start, (runs * walkers, 1)),
        np.full(runs * walkers, 1.0 / walkers),
        np.repeat(np.arange(runs), walkers),
    )
    reached, lost = np.zeros((runs, rounds)), np.zeros(runs)
    ended, moved = np.zeros(256, np.int64), 0
    motion = words(seed, _MOTION, 0, rounds)
    for turn in range(rounds):
        moved += len(held.weights)
        samples, status = segments.run(held.states, 1, int(motion[turn]))
        held.states = samples[:, 0]
        gone = held.states[:, 0] < 0
        lost += held.weight_of_runs(gone, runs)
        ended += _by_status(status[gone])
        held.keep(~gone)
        there = target.reached(held.states)
        reached[:, turn] = held.weight_of_runs(there, runs)
        if recycle:
            held.states[there] = start
        else:
            held.keep(~there)
        told(turn + 1)
        if not len(held.weights):
            break
        if turn + 1 < rounds:
            _resample(held, progress, binning, walkers, runs, uniform_of(seed, turn, runs, binning))
    left = held.weight_of_runs(np.ones(len(held.weights), bool), runs)
    out = 0.0 if recycle else np.add.accumulate(reached, axis=1)[:, -1]
    rounding = float(np.abs(left + out + lost - 1).max())
    return Course(reached, lost, rounding, moved, ended)


def uniform_of(seed: int, turn: int, runs: int, binning: Binning) -> FloatArray:
    """One uniform number for each bin of each run in a round."""
    return uniform(seed, _RESAMPLING, turn, runs * binning.size)


def _resample(
    held: Walkers,
    progress: Progress,
    binning: Binning,
    walkers: int,
    runs: int,
    uniforms: FloatArray,
) -> None:
    """Split and merge the walkers of each run in each bin."""
    held.keep(held.weights > 0)
    if not len(held.weights):
        return
    at = progress(held.states)
    by_run = np.argsort(held.runs, kind="stable")
    held.keep(by_run)
    at = at[by_run]
    labels = held.runs * binning.size + binning.bins_of(at, held.weights, held.runs)
    ancestors, weights = split_and_merge(labels, at, held.weights, walkers, uniforms)
    held.keep(ancestors)
    held.weights = weights


def _by_status(status: Array) -> IntArray:
    return np.bincount(status, minlength=256)

"""The weighted ensemble: walkers with weights, split where few come and merged where many are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from tauslab.analysis.particles.weights import WALK_RESAMPLING, WALKS, uniform, words
from tauslab.analysis.rare.target import Coordinate, Target
from tauslab.analysis.rare.walkers.bins import Binning, split_and_merge
from tauslab.base.arrays import Array, BoolArray, FloatArray, Int32Array, IntArray
from tauslab.base.host import require_memory
from tauslab.store.state import State

# A flux counts as moving if two of its means differ by more standard errors than these: _RISE if
# the later one is larger (it still grows), _FALL if it is smaller (it was too large). By chance
# alone a stationary flux seems to rise in 2.3 % of comparisons, to fall in 0.6 %. More rounds are
# then made than are needed; no error follows.
_RISE, _FALL = 2.0, 2.5
_ROUNDING = 1e-12  # of a mean: no difference
_BLOCKS = 4  # of half the rounds, where one run alone gives its own error


@dataclass(frozen=True)
class Steadiness:
    """The flux in the rounds that are used.

    Attributes
    ----------
    before, later
        Mean weight per time in the first half of these rounds, and in the second.
    moves
        Whether the flux still grows or falls: a later part differs from an earlier one beyond
        chance, or half of the runs had no weight in the target before these rounds.
    """

    before: float
    later: float
    moves: bool


def steadiness(flux: FloatArray, first: int) -> Steadiness:
    """Compare parts of the flux ``[run, round]`` from round `first` on."""
    used = flux[:, first:]
    size = used.shape[1]
    half, quarter = size // 2, max(1, size // 4)
    if not half:
        return Steadiness(math.nan, float(used.mean()), moves=False)
    begin, end = used[:, :half], used[:, half:]
    came = (flux[:, :first] > 0).any(axis=1) if first else (used > 0).any(axis=1)
    late = 2 * int(came.sum()) <= len(flux)
    moves = late or _differs(end, begin) or _differs(end, used[:, :quarter])
    return Steadiness(float(begin.mean()), float(end.mean()), moves)


def _differs(later: FloatArray, before: FloatArray) -> bool:
    """Return whether the mean of the later rounds is another one, beyond chance."""
    if len(later) > 1:
        drift = later.mean(axis=1) - before.mean(axis=1)
        error = float(drift.std(ddof=1)) / math.sqrt(len(drift))
        mean = float(drift.mean())
    else:
        parts = [
            np.array([block.mean() for block in np.array_split(row[0], _BLOCKS) if len(block)])
            for row in (later, before)
        ]
        mean = float(parts[0].mean() - parts[1].mean())
        error = math.sqrt(sum(float(p.var(ddof=1)) / len(p) for p in parts if len(p) > 1))
    rounding = _ROUNDING * float(np.abs(before).mean())
    return not -_FALL * error - rounding <= mean <= _RISE * error + rounding


_MOST_WALKERS = 1 << 20  # that are moved together; further runs follow
_NOTHING = State()
WEIGHT: dict[str, Any] = {"low": 0.0, "high": np.finfo(np.float64).max}
_DONE = "done_"  # before the names of runs that are done
_KEPT = ("states", "weights", "of_run", "lost", "ended", "reached", "turn")


@dataclass(frozen=True)
class WeightedRuns:
    """Runs of a weighted ensemble that are done.

    Attributes
    ----------
    reached
        f64 ``[run, round]``: weight that came into the target in each round.
    lost
        f64 ``[run]``: weight of walkers that overflowed, met a NaN or took too many steps.
    rounding
        Largest distance of the sum of all weights of a run from 1.
    ended
        int64 ``[status]``: walkers that ended, by status.
    """

    reached: FloatArray
    lost: FloatArray
    rounding: float
    ended: IntArray

    def arrays(self, under: str) -> dict[str, Any]:
        """All of it by name, for a checkpoint."""
        return {f"{under}{one.name}": getattr(self, one.name) for one in fields(self)}

    @classmethod
    def of(cls, kept: State, under: str, runs: int | None, rounds: int) -> WeightedRuns:
        """Read so many runs (None: any number) and rounds from a checkpoint."""
        lost = kept.take(f"{under}lost", np.float64, runs, **WEIGHT)
        return cls(
            kept.take(f"{under}reached", np.float64, len(lost), rounds, **WEIGHT), lost,
            kept.real(f"{under}rounding", **WEIGHT),
            kept.take(f"{under}ended", np.int64, 256, low=0),
        )  # fmt: skip


class Keep(Protocol):
    """Keeps what runs go on from."""

    def __call__(self, kept: Callable[[], Mapping[str, Any]], *, last: bool = False) -> None:
        """Keep what `kept` gives by name, if it is time to; `last` says that nothing follows."""


class Mover(Protocol):
    """A motion of walkers.

    Attributes
    ----------
    start
        int32 ``[column]``: what a walker begins with; its counts, and what else the mover needs.
    """

    start: Int32Array

    def move(self, states: Int32Array, turn: int, seed: int) -> tuple[Int32Array, Array]:
        """Move states ``[walker, column]`` by round `turn`; walkers in the target stay there.

        Returns
        -------
        The states, below 0 where a walker has ended, and u8 ``[walker]``, how, as in /status.
        """


@dataclass(frozen=True)
class WalkRules:
    """Settings of all runs.

    Attributes
    ----------
    rounds
        Rounds of one step each.
    walkers
        Walkers of a bin after splitting and merging.
    recycle
        Whether walkers in the target begin again, in place of being taken away.
    discard, extend
        With `recycle`: first part of the rounds that is not used; how many times
        `rounds` there may be until the flux is stationary.
    """

    mover: Mover
    target: Target
    coordinate: Coordinate
    binning: Binning
    rounds: int
    walkers: int
    recycle: bool
    discard: float = 0.5
    extend: int = 1


def weighted_runs(
    rules: WalkRules, runs: int, seed: int, report: Callable[[int], None], begun: State, keep: Keep
) -> WeightedRuns:
    """Independent runs, as many at a time as `_MOST_WALKERS` allows whatever the device.

    Of a steady rate the first of these parts runs until the flux is stationary, and the others go
    as far.

    Parameters
    ----------
    report
        Called with the number of rounds of runs that are done.
    begun
        What an earlier call kept, if one was ended.
    """
    walkers = rules.walkers * rules.binning.size
    require_memory(
        2 * walkers * (4 * len(rules.mover.start) + 16),
        f"{rules.walkers} walkers in each of {rules.binning.size} bins",
    )
    most = max(1, _MOST_WALKERS // walkers)
    rounds = rules.rounds
    if begun:
        rounds = begun.whole("rounds", rounds, rounds * (rules.extend if rules.recycle else 1))
    done = [WeightedRuns.of(begun, _DONE, None, rounds)] if f"{_DONE}lost" in begun else []
    require_whole_parts(begun, sum(len(one.lost) for one in done), most, runs)
    for number, first in enumerate(range(0, runs, most)):
        if first < sum(len(one.lost) for one in done):
            continue
        word = int(words(seed, WALKS, number, 1)[0])
        together = JointWalkers(rules, min(most, runs - first), word)
        if "turn" in begun:
            together.go_on(begun, rounds)
            begun = _NOTHING
        rounds = _walk(together, done, rounds, first, report, keep)
        done.append(together.result())
    result = joined(done)
    keep(lambda: {"rounds": rounds, **result.arrays(_DONE)}, last=True)
    return result


def require_whole_parts(kept: State, done: int, part: int, runs: int) -> None:
    """Refuse a checkpoint of runs that do not end where a part of `part` of them ends."""
    if done > runs or (done < runs and done % part):
        raise kept.damaged(f"it has {done} finished runs of {runs}")


def _walk(
    together: JointWalkers, done: Sequence[WeightedRuns], rounds: int, first: int,
    report: Callable[[int], None], keep: Keep,
) -> int:  # fmt: skip
    """Walk a part, the first one until the flux is stationary; how many rounds that took."""
    while True:
        requested = rounds

        def kept() -> Mapping[str, Any]:
            before = joined(done).arrays(_DONE) if done else {}
            return {"rounds": requested, **before, **together.arrays()}  # noqa: B023 - called at once

        together.walk(rounds, lambda turns: report(first * requested + turns), lambda: keep(kept))  # noqa: B023
        more = 0 if first else together.missing_rounds()
        if not more:
            return rounds
        rounds += more


def joined(parts: Sequence[WeightedRuns]) -> WeightedRuns:
    """Runs, one after another, as one."""
    return WeightedRuns(
        np.concatenate([one.reached for one in parts]),
        np.concatenate([one.lost for one in parts]),
        max(one.rounding for one in parts),
        np.sum([one.ended for one in parts], axis=0),
    )


class JointWalkers:
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
        self.reached: FloatArray = np.zeros((runs, 0))
        self.turn = 0

    def walk(
        self, rounds: int, report: Callable[[int], None], save: Callable[[], None] = lambda: None
    ) -> None:
        """Go on to so many rounds, or until no walker is left; `save` is called between them."""
        missing = rounds - self.reached.shape[1]
        self.reached = np.pad(self.reached, ((0, 0), (0, missing)))
        seeds = words(self._seed, WALKS, 0, rounds)
        for turn in range(self.turn, rounds):
            if turn:
                self._resample(turn - 1)
            if not len(self.weights):
                break
            self.reached[:, turn] = self._advance(turn, int(seeds[turn]))
            self.turn = turn + 1
            report(self._runs * self.turn)
            save()

    def missing_rounds(self) -> int:
        """Rounds to add until the flux is stationary: as many as there were."""
        rules, rounds = self._rules, self.reached.shape[1]
        most = rules.extend * rules.rounds
        if not rules.recycle or rounds >= most:
            return 0
        if not steadiness(self.reached, int(rules.discard * rounds)).moves:
            return 0
        return int(min(rounds, most - rounds))

    def result(self) -> WeightedRuns:
        """Weights in the target and lost, of the rounds so far."""
        left = self._weight(np.ones(len(self.weights), bool))
        out = 0.0 if self._rules.recycle else np.add.accumulate(self.reached, axis=1)[:, -1]
        rounding = float(np.abs(left + out + self.lost - 1).max())
        return WeightedRuns(self.reached, self.lost, rounding, self.ended)

    def arrays(self) -> dict[str, Any]:
        """All that these runs go on from."""
        return {name: getattr(self, name) for name in _KEPT}

    def go_on(self, kept: State, rounds: int) -> None:
        """Be where a checkpoint was, of so many rounds at most."""
        self.states = kept.take("states", np.int32, None, self.states.shape[1])
        walkers = len(self.states)
        self.weights = kept.take("weights", np.float64, walkers, **WEIGHT)
        self.of_run = kept.take("of_run", np.int64, walkers)
        ordered = np.concatenate([[0], self.of_run, [self._runs - 1]])
        if (np.diff(ordered) < 0).any():
            raise kept.damaged("its walkers are not in the order of runs")
        self.lost = kept.take("lost", np.float64, self._runs, **WEIGHT)
        self.ended = kept.take("ended", np.int64, 256, low=0)
        self.reached = kept.take("reached", np.float64, self._runs, None, **WEIGHT)
        self.turn = kept.whole("turn", 0, min(rounds, self.reached.shape[1]))
        if self.reached.shape[1] > rounds:
            raise kept.damaged(f"it has more than {rounds} rounds")

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
        at = rules.coordinate(self.states)
        bins = rules.binning.bins_of(at, self.weights, self.of_run)
        uniforms = uniform(self._seed, WALK_RESAMPLING, turn, self._runs * size)
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

"""Adaptive multilevel splitting: the paths that came least far give way to branches of others.

Cerou and Guyader 2007, Brehier et al. 2016      here
n_rep                                            `paths`
Xi(X), the largest score of a path               `best`
Z^q, the level of iteration q                    `level`
K^q, paths at or below the level                 `killed`
first time above the level                       `branch`, a time of the grid
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tauslab.analysis.particles.weights import PARENTS, PATHS, uniform, words
from tauslab.analysis.rare.segments import Segments
from tauslab.analysis.rare.target import Coordinate, Target
from tauslab.analysis.rare.walkers.weighted import WEIGHT, Keep, require_whole_parts
from tauslab.base.arrays import BoolArray, FloatArray, Int32Array, IntArray
from tauslab.base.host import require_memory
from tauslab.store.state import State

_MOST_BYTES = 1 << 29  # of paths that are split together; further runs follow
_LENGTHS = 16  # launches of an iteration at most
_NOTHING = State()
_DONE = "done_"  # before the names of runs that are done
_KEPT = (
    "counts", "score", "share", "lost", "iterations", "estimates", "active", "launches",
    "ended",
)  # fmt: skip


@dataclass(frozen=True)
class SplitRuns:
    """Runs of adaptive multilevel splitting that are done.

    Attributes
    ----------
    estimates
        f64 ``[run]``: estimate of the probability, without bias.
    lost
        f64 ``[run]``: of the probability that a path ends by overflow, a NaN or too many steps.
    ended
        int64 ``[status]``: paths that ended early, by status.
    """

    estimates: FloatArray
    lost: FloatArray
    ended: IntArray

    def arrays(self) -> dict[str, Any]:
        """All of it by name, for a checkpoint."""
        return {f"{_DONE}{one.name}": getattr(self, one.name) for one in fields(self)}

    @classmethod
    def of(cls, kept: State) -> SplitRuns:
        """Read runs that are done from a checkpoint."""
        lost = kept.take(f"{_DONE}lost", np.float64, None, **WEIGHT)
        return cls(
            kept.take(f"{_DONE}estimates", np.float64, len(lost), **WEIGHT), lost,
            kept.take(f"{_DONE}ended", np.int64, 256, low=0),
        )  # fmt: skip


@dataclass(frozen=True)
class PathRules:
    """Settings of all runs.

    Attributes
    ----------
    steps
        Steps of the grid of times.
    paths
        Paths of a run.
    least
        Paths that give way in an iteration at least.
    """

    segments: Segments
    target: Target
    coordinate: Coordinate
    steps: int
    paths: int
    least: int

    @property
    def bytes_of_run(self) -> int:
        """Memory of the paths of a run."""
        return self.paths * (self.steps + 1) * (4 * len(self.segments.start) + 8)


def split_runs(
    rules: PathRules,
    runs: int,
    seed: int,
    report: Callable[[int], None],
    begun: State,
    keep: Keep,
) -> SplitRuns:
    """Independent runs, as many at a time as `_MOST_BYTES` allows whatever the device.

    Parameters
    ----------
    report
        Called with the number of runs that are done.
    begun
        What an earlier call kept, if one was ended.
    """
    require_memory(2 * rules.bytes_of_run, f"{rules.paths} paths of {rules.steps} steps")
    most = max(1, _MOST_BYTES // rules.bytes_of_run)
    done = [SplitRuns.of(begun)] if f"{_DONE}lost" in begun else []
    require_whole_parts(begun, sum(len(one.lost) for one in done), most, runs)
    for number, first in enumerate(range(0, runs, most)):
        if first < sum(len(one.lost) for one in done):
            continue
        word = int(words(seed, PATHS, number, 1)[0])
        part = _Paths(
            rules, min(most, runs - first), word, begun if "counts" in begun else _NOTHING
        )
        begun = _NOTHING

        def kept() -> Mapping[str, Any]:
            before = _joined(done).arrays() if done else {}
            return {**before, **part.arrays()}  # noqa: B023 - called at once

        done.append(part.split(lambda ended: report(first + ended), lambda: keep(kept)))  # noqa: B023
    found = _joined(done)
    keep(found.arrays, last=True)
    return found


def _joined(parts: Sequence[SplitRuns]) -> SplitRuns:
    return SplitRuns(
        np.concatenate([one.estimates for one in parts]),
        np.concatenate([one.lost for one in parts]),
        np.sum([one.ended for one in parts], axis=0),
    )


class _Paths:
    """Paths ``[run, path]`` at the times of the grid, of runs that are split together.

    `counts` int32 ``[run, path, time, species]`` and `score` f64 ``[run, path, time]``: infinite
    from the first time at which the target is reached, -inf after a path ended.
    """

    def __init__(self, rules: PathRules, runs: int, seed: int, begun: State = _NOTHING) -> None:
        self._rules, self._seed = rules, seed
        start, steps, shape = rules.segments.start, rules.steps, (runs, rules.paths)
        # Lengths of launches: a path that begins at a branch is simulated for the next of them.
        lengths = {-(-steps * part // _LENGTHS) for part in range(1, _LENGTHS + 1)}
        self._lengths = np.array(sorted(lengths))
        self.share, self.lost = np.ones(runs), np.zeros(runs)
        self.iterations, self.estimates = np.zeros(runs, np.int64), np.zeros(runs)
        self.active = np.ones(runs, bool)
        self.launches = 0
        self.ended = np.zeros(256, np.int64)
        self.counts: Int32Array
        self.score: FloatArray
        if begun:
            self._take_up(begun, shape)
            return
        self.counts = np.empty((*shape, steps + 1, len(start)), np.int32)
        self.counts[:, :, 0] = start
        self.score = np.full((*shape, steps + 1), -np.inf)
        self.score[:, :, 0] = rules.coordinate(start[None])
        run, path = np.nonzero(np.ones(shape, bool))
        self._simulate(run, path, np.zeros(len(run), np.int64))

    def _take_up(self, kept: State, shape: tuple[int, int]) -> None:
        times = self._rules.steps + 1
        self.counts = kept.take("counts", np.int32, *shape, times, len(self._rules.segments.start))
        self.score = kept.take("score", np.float64, *shape, times)
        for name in ("share", "lost", "estimates"):
            setattr(self, name, kept.take(name, np.float64, shape[0], **WEIGHT))
        self.iterations = kept.take("iterations", np.int64, shape[0], low=0)
        self.active = kept.take("active", bool, shape[0])
        self.ended = kept.take("ended", np.int64, 256, low=0)
        self.launches = kept.whole("launches")

    def arrays(self) -> dict[str, Any]:
        """All that these runs go on from."""
        return {name: getattr(self, name) for name in _KEPT}

    def split(self, report: Callable[[int], None], save: Callable[[], None]) -> SplitRuns:
        """Iterate until enough paths of every run are in the target, or none is above the rest.

        `save` is called between iterations.
        """
        runs, paths = self.score.shape[:2]
        least = self._rules.least
        best = self.score.max(axis=2)
        while True:
            save()
            level = np.partition(best, least - 1, axis=1)[:, least - 1]
            done = self.active & np.isposinf(level)
            share, lost = self.share, self.lost
            self.estimates[done] = share[done] * (np.isposinf(best[done]).sum(axis=1) / paths)
            lost[done] += share[done] * (self._ended(done).sum(axis=1) / paths)
            self.active &= ~done
            active = self.active
            killed = (best <= level[:, None]) & active[:, None]
            lost[active] += share[active] * ((killed & self._ended())[active].sum(axis=1) / paths)
            number = killed.sum(axis=1)
            active &= number < paths
            report(runs - int(active.sum()))
            if not active.any():
                break
            share[active] *= (paths - number[active]) / paths
            self.iterations += active
            killed &= active[:, None]
            self._branch(killed, level, int(self.iterations.max()))
            best[killed] = self.score[killed].max(axis=1)
        return SplitRuns(self.estimates, self.lost, self.ended)

    def _ended(self, which: BoolArray | slice = slice(None)) -> BoolArray:
        """Return whether each path ended before the target and the last time."""
        return np.asarray(np.isneginf(self.score[which][:, :, -1]))

    def _branch(self, killed: BoolArray, level: FloatArray, number: int) -> None:
        """Make each killed path a branch of one that is above the level of its run."""
        runs, paths = killed.shape
        above = np.argsort(killed, axis=1, kind="stable")  # paths that are left, first
        left = paths - killed.sum(axis=1)
        draws = uniform(self._seed, PARENTS, number, runs * paths).reshape(runs, paths)
        run, child = np.nonzero(killed)
        drawn = np.floor(draws[run, child] * left[run]).astype(np.int64)
        parent = above[run, np.minimum(drawn, left[run] - 1)]
        inherited = self.score[run, parent]
        branch = np.argmax(inherited > level[run, None], axis=1)
        after = np.arange(self._rules.steps + 1) > branch[:, None]
        self.score[run, child] = np.where(after, -np.inf, inherited)
        self.counts[run, child] = self.counts[run, parent]
        there = np.isposinf(inherited[np.arange(len(branch)), branch])
        self._fill(run[there], child[there], branch[there])
        on = ~there & (branch < self._rules.steps)
        self._simulate(run[on], child[on], branch[on])

    def _fill(self, run: IntArray, path: IntArray, branch: IntArray) -> None:
        """Keep paths in the target, where they came at `branch`."""
        after = np.arange(self._rules.steps + 1) >= branch[:, None]
        self.score[run, path] = np.where(after, np.inf, self.score[run, path])

    def _simulate(self, run: IntArray, path: IntArray, branch: IntArray) -> None:
        """Simulate paths from time `branch` of the grid to the end."""
        length = self._lengths[np.searchsorted(self._lengths, self._rules.steps - branch)]
        for steps in np.unique(length).tolist():
            rows = np.flatnonzero(length == steps)
            self._launch(run[rows], path[rows], branch[rows], steps)

    def _launch(self, run: IntArray, path: IntArray, branch: IntArray, steps: int) -> None:
        word = int(words(self._seed, PATHS, self.launches, 1)[0])
        self.launches += 1
        found, status = self._rules.segments.run(self.counts[run, path, branch], steps, word)
        flat = found.reshape(-1, found.shape[2])
        valid = flat[:, 0] >= 0
        score = np.full(len(flat), -np.inf)
        score[valid] = self._rules.coordinate(flat[valid])
        score[valid] = np.where(self._rules.target.reached(flat[valid]), np.inf, score[valid])
        of_steps = score.reshape(found.shape[:2])
        row, step = np.nonzero(branch[:, None] + np.arange(1, steps + 1) <= self._rules.steps)
        when = branch[row] + step + 1
        last = found[np.arange(len(run)), self._rules.steps - branch - 1, 0]
        self.ended += np.bincount(status[last < 0], minlength=256)
        self.counts[run[row], path[row], when] = found[row, step]
        self.score[run[row], path[row], when] = of_steps[row, step]

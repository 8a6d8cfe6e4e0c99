"""The step loop of a lattice run: batches of steps, samples, frames, hooks, checkpoints, new cuts.

It counts in steps of the engine, of which a step of the model has `LatticeTask.passes`: a batch may
end inside a step of the model, so that a run can stop there. Samples, frames and hooks are at whole
steps of the model.

All ranks of a group take the same decisions: what depends on a clock is the first rank's.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import IntArray
from tauslab.base.errors import StoppedEarly
from tauslab.decomposition.ranks.mpi import Counter
from tauslab.decomposition.ranks.progress import Progress
from tauslab.decomposition.ranks.stopping import how_to_resume, reason_of_stop
from tauslab.kernels.lattice.objects import Ground, Objects
from tauslab.kernels.lattice.state import Samples
from tauslab.options.hook_view import LatticeView
from tauslab.options.lattice import LatticeTask
from tauslab.runner.lattice.group import RankSlab
from tauslab.runner.lattice.judging import Judge
from tauslab.store.lattice.parts import CHECKPOINT, Begun
from tauslab.store.lattice.writer import LatticeWriter

_BATCH_SECONDS = 0.5  # between looks at signals and at the list of waiting particles
_MOST_SAMPLES = 4096  # of a batch
_OBJECTS = "tauslab.objects"  # beside what hooks note
_TIMED_STEPS = 64  # of the engine, by which the time of slabs is measured


@dataclass(frozen=True)
class _NextSteps:
    """The next actions of a group: `stop`, `checkpoint`, then steps to `end`, then `balance`.

    `end` is a step of the engine.
    """

    end: int
    stop: bool
    checkpoint: bool
    balance: bool


class ReplicaRuns:
    """The runs of one group of ranks: replicas, of all points of a sweep.

    Runs of one point go on side by side, as many as there are groups; so do all that follow.

    Parameters
    ----------
    groups
        One for each run that goes on at the same time; several have one rank each.
    begun
        Stored states from which runs continue.
    stop
        Whether this rank was asked to stop.
    stops
        Counts the groups that were, for all to see; None where there is one group.
    """

    def __init__(
        self, groups: Sequence[RankSlab], writer: LatticeWriter, begun: Mapping[int, Begun], *,
        stop: Callable[[], bool], stops: Counter | None,
    ) -> None:  # fmt: skip
        self._groups, self._writer, self._begun = groups, writer, begun
        self._group = groups[0]  # speaks for all
        self._running: Sequence[RankSlab] = groups[:1]
        self._stop, self._stops = stop, stops
        self._pace = 0.0  # steps of the engine a second, as measured
        self._saved_at = self._balanced_at = time.monotonic()
        self._saved: dict[int, int] = {}  # engine's steps of the last checkpoint, by run
        self._memory: dict[str, Any] = {}  # of hooks
        self._objects = Objects(self._task.lattice)
        self._looked: IntArray = np.zeros(0, np.int64)  # firings, at their last look
        self._mine = range(self._group.index, self._task.runs, self._group.grid.replicas)
        self._made, self.seconds = Fraction(0), 0.0  # steps of the model, and what they took
        self.judge = Judge(groups[0].task.lattice)

    @property
    def _task(self) -> LatticeTask:
        """Task of the point of the present run."""
        return self._group.task

    def profile(self) -> dict[str, Any]:
        """Columns of `/profile` of this rank; steps of the model."""
        steps = self._made
        each = 1000 * self.seconds / float(steps) if steps else 0.0
        return {"steps": int(steps), "wall": self.seconds, "ms_per_step": each}

    def run(self) -> None:
        """Run what is not done.

        Raises
        ------
        StoppedEarly
            The run was stopped on request, with a checkpoint.
        """
        task, group = self._task, self._group
        before = [self._begun[r].step // task.passes_of(r) for r in self._mine if r in self._begun]
        with Progress(
            task.steps * len(self._mine),
            group.rank + group.index,
            quiet=task.options.quiet,
            description=task.model.name,
            unit="steps",
            started_at=sum(before),
        ) as self._progress:
            for number, runs in self._concurrent_runs():
                self._some(number, runs)
        self._writer.sync()

    def _concurrent_runs(self) -> Iterator[tuple[int, list[int]]]:
        """Sets of unfinished runs that can go on side by side.

        Each comes with the place of its first run in `_mine`: how many of our runs come before it.
        """
        task, result = self._task, list[int]()
        first = 0
        for number, run in enumerate(self._mine):
            begun = self._begun.get(run)
            ended = begun is not None and begun.step >= task.steps * task.passes_of(run)
            if ended and not (task.options.hooks and begun is not None and not begun.hooked):
                continue
            if result and not (len(result) < len(self._groups) and self._alike(result[0], run)):
                yield first, result
                result = []
            if not result:
                first = number
            result.append(run)
        if result:
            yield first, result

    def _alike(self, one: int, other: int) -> bool:
        """Return whether two runs belong to one point and go on from the same step."""
        begun = [self._begun.get(run) for run in (one, other)]
        steps = [0 if state is None else state.step for state in begun]
        return steps[0] == steps[1] and self._task.place(one)[0] == self._task.place(other)[0]

    def _some(self, number: int, runs: Sequence[int]) -> None:
        """Runs side by side, from where they begin to their end."""
        options = self._task.options
        self._writer.wait()  # frames that are being copied keep the last run's memory
        self._running = self._groups[: len(runs)]
        begun = [self._begun.get(run) for run in runs]
        for group, run, state in zip(self._running, runs, begun, strict=True):
            self._begin(group, run, state)
        task, done = self._task, self._group.engine.step
        hooked = begun[0] is not None and begun[0].hooked
        if not hooked and (done or task.options.at_start):
            self._call_hooks(done)
        while done < task.steps * task.passes:
            plan = self._agreed(done)
            self._before_batch(plan, done)
            done = self._batch(done, plan)
            self._keep_frame(done)
            self._call_hooks(done)
            made = len(runs) * (done // task.passes)
            self._progress.update(number * task.steps + made, 0)
        if options.keep_state or (task.runs > 1 and not options.frame_every):
            older = {*self._saved}.union(self._begun)
            self._checkpoint()  # so that a later resume need not run them again
            for run in runs:  # there are no older ones that the next would look for
                if run not in older:
                    self._saved.pop(run, None)

    def _begin(self, group: RankSlab, run: int, begun: Begun | None) -> None:
        if begun is None:
            self._take_up(*group.begin(run, None))
            self._begin_objects(group)
            self._samples(group, 0, group.count())
            if self._is_due(0, self._task.options.frame_every):
                self._write(group, 0)
        else:
            self._take_up(*group.begin(run, lambda a, b: self._writer.read_begun(begun, a, b)))
            self._saved[run] = begun.step  # the next checkpoint removes those before this one

    def _take_up(self, memory: Mapping[str, Any], looked: IntArray) -> None:
        self._memory, self._looked = dict(memory), looked.copy()
        self._objects = Objects(self._group.task.lattice)
        if self._objects:
            self._objects.take_up(self._memory.pop(_OBJECTS, {}))

    # ---------------------------------------------------------------- decisions

    def _agreed(self, done: int) -> _NextSteps:
        """The first rank's plan; a stop is any rank's. A run does some steps in any case."""
        begun = self._made > 0
        options, now = self._task.options, time.monotonic()
        every = options.rebalance_every if self._group.comm.size > 1 else 0
        checkpoint = begun and self._checkpoint_due(done, now)
        balance = checkpoint if every is None else every > 0 and now - self._balanced_at > every
        own = _NextSteps(
            self._batch_end(done), begun and self._stop_requested(), checkpoint, balance
        )
        plans = self._group.comm.allgather(own)
        stop = any(plan.stop for plan in plans)
        return _NextSteps(plans[0].end, stop, plans[0].checkpoint, plans[0].balance)

    def _stop_requested(self) -> bool:
        """Return whether this rank or another group was asked to stop."""
        if self._stops is None:
            return self._stop()
        if self._stop():
            self._stops.next(1)
            return True
        return self._group.rank == 0 and self._stops.next(0) > 0

    def _checkpoint_due(self, done: int, now: float) -> bool:
        options = self._task.options
        by_steps = self._is_due(done, options.checkpoint_steps)
        by_steps = by_steps and not self._just_framed(done)
        return bool(by_steps) or now - self._saved_at > options.checkpoint_every

    def _just_framed(self, done: int) -> bool:
        """Return whether a frame of this step is as good as a checkpoint."""
        hooked = any(self._is_due(done, steps) for steps in self._intervals)
        return self._is_due(done, self._task.options.frame_every) and not hooked

    def _is_due(self, done: int, every: int) -> bool:
        """Return whether a step is due of an action every so many steps of the model (0: never)."""
        return every > 0 and done % (every * self._task.passes) == 0

    @property
    def _intervals(self) -> list[int]:
        """Steps of the model between two calls of each hook, and moves of objects."""
        return [*self._objects.intervals, *(every for every, _ in self._task.options.hooks)]

    def _batch_end(self, done: int) -> int:
        task, options = self._task, self._task.options
        steps = max(1, int(self._pace * _BATCH_SECONDS)) if self._pace else 1
        most = _MOST_SAMPLES * task.count_every * task.passes
        end = min(done + min(steps, most), task.steps * task.passes)
        stops = self._intervals
        stops += [every for every in (options.frame_every, options.checkpoint_steps) if every]
        lengths = [every * task.passes for every in stops]
        return min([end, *((done // length + 1) * length for length in lengths)])

    # ---------------------------------------------------------------- a batch

    def _before_batch(self, plan: _NextSteps, done: int) -> None:
        if plan.stop:
            self._checkpoint()
            self._writer.sync()
            raise StoppedEarly(
                f"stopped {reason_of_stop(self._stop)} after {done // self._task.passes} of "
                f"{self._task.steps} steps of {self._called()}",
                how_to_resume(self._task.options.output),
            )
        if plan.checkpoint:
            self._checkpoint()

    def _called(self) -> str:
        """Name of the runs in messages."""
        places = [self._task.place(group.run) for group in self._running]
        numbers = [str(replica) for _, replica in places]
        some = f"replicas {', '.join(numbers)}" if len(numbers) > 1 else f"replica {numbers[0]}"
        return some + (f" of point {places[0][0]}" if self._task.sweep else "")

    def _batch(self, done: int, plan: _NextSteps) -> int:
        """Steps up to the next frame, hook or look at signals; returns the engine's step."""
        if not plan.balance:
            return self._steps(done, plan.end)
        end = self._group.timed(lambda: self._steps(done, min(plan.end, done + _TIMED_STEPS)))
        self._writer.sync()  # frames that are being copied lie in the engine's memory
        self._group.balance()
        self._balanced_at = time.monotonic()
        return end

    def _steps(self, done: int, end: int) -> int:
        task = self._task
        every = task.count_every * task.passes
        sampled = np.arange((done // every + 1) * every, end + 1, every)
        marks = sorted({*sampled.tolist(), end})
        began = time.perf_counter()
        samples = self._run_sampled([mark - done for mark in marks])
        took = max(1e-9, time.perf_counter() - began)
        self._pace = (end - done) / took
        self._made += Fraction((end - done) * len(samples), task.passes)
        self.seconds += took
        for group, each in zip(self._running, samples, strict=True):
            if group.rank == 0:
                self.judge.truncated[group.run] = int(each.truncated[-1])
        if len(sampled):
            chosen = np.isin(marks, sampled)
            first = int(sampled[0]) // every
            for group, each in zip(self._running, samples, strict=True):
                self._samples(group, first, _rows(each, chosen))
        return end

    def _run_sampled(self, marks: Sequence[int]) -> Sequence[Samples]:
        """Call `LatticeEngine.run_sampled` of each run."""
        if len(self._running) == 1:
            return [self._group.run_sampled(marks)]
        first, *others = (group.engine for group in self._running)
        return [finish() for finish in first.start_beside(others, marks)]

    def _samples(self, group: RankSlab, first: int, samples: Samples) -> None:
        if group.rank == 0:
            tracked = self._objects.positions(len(samples.waiting))
            self._writer.write_samples(group.run, first, samples, tracked)
            self.judge.add(samples.waiting.sum(), samples.counts.sum())

    def _keep_frame(self, done: int) -> None:
        every = self._task.options.frame_every
        if self._is_due(done, every):
            for group in self._running:
                self._write(group, done // (every * self._task.passes))

    def _checkpoint(self) -> None:
        """Keep the states; when those of all ranks are on disk, the next removes those before.

        Nobody can go on with a file that goes with its result: there nothing is kept.
        """
        group = self._group
        if self._task.options.output is None and not self._task.options.keep_state:
            self._saved_at = time.monotonic()
            return
        if self._saved:
            self._writer.sync()
            group.comm.barrier()
            if group.rank == 0:
                for run, step in self._saved.items():
                    self._writer.forget_checkpoints(run, step)
        for one in self._running:
            self._write(one, CHECKPOINT)
        self._saved = {one.run: one.engine.step for one in self._running}

    def _write(self, group: RankSlab, number: int) -> None:
        memory = copy.deepcopy(self._memory)
        if self._objects:
            memory[_OBJECTS] = self._objects.stored()
        piece = group.piece(number, self._writer.make_room(), memory, self._looked.copy())
        self._writer.write_piece(piece)
        self._saved_at = time.monotonic()

    def _begin_objects(self, group: RankSlab) -> None:
        """Place the objects of a run that begins."""
        if self._objects:
            self._objects.begin(Ground(group.engine, group.gather))
            self._share_objects(group)

    def _move_objects(self, group: RankSlab, done: int) -> None:
        """Let those objects move whose time it is."""
        step, part = divmod(done, self._task.passes)
        if done and not part and any(step % every == 0 for every in self._objects.intervals):
            self._objects.move(Ground(group.engine, group.gather), step)
            self._share_objects(group)

    def _share_objects(self, group: RankSlab) -> None:
        group.share_sites(known=True)

    def _call_hooks(self, done: int) -> None:
        """Call hooks, after the moves of objects."""
        group = self._group
        self._move_objects(group, done)
        for every, hook in self._task.options.hooks:
            if self._is_due(done, every):
                engine = group.engine
                view = LatticeView(
                    engine, group.count, group.sum, group.gather, group.share_sites, self._memory,
                    self._looked, self._objects,
                )  # fmt: skip
                hook(view)
                view.finish()


def _rows(samples: Samples, chosen: npt.NDArray[np.bool_]) -> Samples:
    return Samples(*(getattr(samples, each.name)[chosen] for each in fields(samples)))

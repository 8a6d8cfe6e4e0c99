"""The ensemble driver: blocks from a shared counter, lanes that overlap, one collector that writes.

The main thread takes blocks and starts launches, and serves MPI while it waits; the collector's
thread waits for each launch, adds its sums and writes its samples.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tauslab.base.errors import DeviceFailed, TauslabError, first_line_of
from tauslab.base.option_names import opt
from tauslab.decomposition.blocks import SharedBlocks, runs
from tauslab.decomposition.ranks.mpi import Communicator, Counter, host_name
from tauslab.decomposition.ranks.pace import next_due
from tauslab.decomposition.ranks.progress import Progress
from tauslab.kernels.ensemble.launch import WORK
from tauslab.runner.ensemble.lane import Delivery, Lane
from tauslab.runner.ensemble.lanes import DeviceLanes, LaneLike, Lanes
from tauslab.runner.ensemble.task import Task
from tauslab.store.format.layout import Accumulators, Layout
from tauslab.store.format.statistics import add_accumulators
from tauslab.store.writers.writer import Writer

_LAUNCH_SECONDS = 2.0  # a launch is made about this long: marks on disk come often enough
_CHECKPOINT_SECONDS = 30.0
# Between two looks of a thread that waits: where other ranks may ask, and of a rank that is alone,
# where it only takes time from kernels.
_POLL_SECONDS, _POLL_ALONE_SECONDS = 0.002, 0.02
_FIRST_LOOK_SECONDS = 2e-5  # at a launch that is alone
_PATIENCE = 5.0  # seconds in which a delivery ends that waits for nobody
# Of a run that is stopped: seconds in which launches may still end and be kept, as most do; between
# two requests to end unfinished; and between two looks at what other ranks and launches report.
_GRACE_SECONDS = 2.0
_HALT_SECONDS = 0.1
_LOOK_SECONDS = 0.5
_STEP_LIMIT = 3  # status of a trajectory
_STOPPED = 1 << 48  # added to the counter of blocks by a rank that was asked to stop


@contextmanager
def device_work() -> Iterator[None]:
    """Describe what a device reports, whatever its library raises, in one sentence."""
    try:
        yield
    except (TauslabError, MemoryError):
        raise
    except Exception as error:
        raise DeviceFailed(
            f"the device of {host_name()} failed: {first_line_of(error)}; {opt('resume')} "
            "completes the run"
        ) from error


@dataclass
class Tally:
    """The work of a rank: sums for the file, numbers and seconds for its profile.

    The sums of rank 0 include those of an earlier attempt.
    """

    sums: Accumulators = field(default_factory=dict)
    rows: int = 0
    blocks: int = 0
    launches: int = 0
    work: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WORK, 0))
    computing: list[tuple[float, float]] = field(default_factory=list)
    copying: list[tuple[float, float]] = field(default_factory=list)
    write: float = 0.0
    wall: float = 0.0

    def seconds(self) -> dict[str, float | str]:
        """Columns of /profile; `wait` is the time in which the device had nothing to compute."""
        compute, copy = covered(self.computing), covered(self.copying)
        wait = max(0.0, self.wall - compute)
        times = {"compute": compute, "copy": copy, "write": self.write, "wait": wait}
        return {**times, "wall": self.wall, "launches": self.launches, **self.work}


def _ignore(lane: object) -> None:
    """Called for a launch that the caller waits for."""


def covered(intervals: list[tuple[float, float]]) -> float:
    """Length of the union of intervals.

    >>> covered([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


class EnsembleRun:
    """One rank's part of a run.

    Parameters
    ----------
    lanes
        The lanes in which launches run.
    stop
        Asked again and again: True ends the run early, on all ranks, with what is complete on
        disk. Launches that do not end soon are left unfinished.
    """

    def __init__(
        self, task: Task, layout: Layout, lanes: Lanes, comm: Communicator, writer: Writer, *,
        progress: Progress, stop: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._task, self._layout, self._comm, self._writer = task, layout, comm, writer
        self._progress, self._stop = progress, stop
        self._poll_seconds = _POLL_SECONDS if comm.size > 1 else _POLL_ALONE_SECONDS
        self._lanes = lanes
        self._blocks = SharedBlocks(
            np.flatnonzero(~writer.completed),
            smallest=lanes.smallest,
            room=lanes.room,
            largest=lanes.smallest * 3 // 2 + 1,
        )
        self._started: queue.SimpleQueue[LaneLike | int] = queue.SimpleQueue()
        self._launched = self._n_lanes = 0
        self._delivering, self._given_up = threading.Lock(), False
        self._counter: Counter | None = None
        self._stop_requested_at: float | None = None  # when the run was asked to stop
        self._looked_at = self._halted_at = self._shown_at = 0.0
        self._consistent = True  # sums are those of the blocks that are done
        self.cut_short = False  # whether trajectories need more steps than the lanes allow
        # Rank 0's sums hold the blocks that were restored.
        self._done = writer.completed & (comm.rank == 0)
        shapes = layout.accumulator_shapes()
        self.tally = Tally({name: np.zeros(shape, np.uint64) for name, shape in shapes.items()})
        add_accumulators(self.tally.sums, writer.restored or {})

    @cached_property
    def _free(self) -> queue.Queue[LaneLike | BaseException]:
        """Lanes that are free, or what went wrong.

        Not a SimpleQueue: a signal that comes as its timeout ends has it wait for ever.
        """
        return queue.Queue()

    def run(self) -> Tally:
        """Run until no block is left; raises what went wrong on the device or in the writer."""
        began = time.perf_counter()
        self._began, self._due = began, began + _CHECKPOINT_SECONDS
        self._counter = counter = self._comm.counter()
        if self._is_one_launch():
            self._run_one_launch(counter)
        else:
            self._run_launches(counter)
        self.tally.wall = time.perf_counter() - began
        counter.free()  # collective: rank 0, which hosts it, serves the others until all have come
        return self.tally

    def _is_one_launch(self) -> bool:
        if self._comm.size > 1 or not isinstance(self._lanes, DeviceLanes):
            return False
        return self._blocks.left and (self._lanes.waited or self._layout.n_blocks == 1)

    def _run_one_launch(self, counter: Counter) -> None:
        """Launch all, wait and deliver in this thread: a collector takes longer than short runs."""
        lane = self._lanes.fresh()[0]
        self._n_lanes = 1
        if not isinstance(lane, Lane) or not (blocks := self._take(counter)):
            return
        with device_work():
            self._lanes.launch(lane, *self._layout.block_rows(blocks[0], blocks[-1] + 1), _ignore)
        began = looked = time.perf_counter()
        while not lane.ended:
            now = time.perf_counter()
            time.sleep(min(_POLL_SECONDS, max(_FIRST_LOOK_SECONDS, (now - began) / 8)))
            if now > looked + _POLL_ALONE_SECONDS:
                looked = now
                self._poll()
        with device_work():
            delivery = lane.wait()
        if lane.most_steps and _STEP_LIMIT in delivery.chunk.arrays["status"]:
            self.cut_short = True
        else:
            self._hand_over(lane, delivery)

    def _run_launches(self, counter: Counter) -> None:
        """Launch in this thread; another collects."""
        collector = threading.Thread(target=self._collect, name="tauslab-collector", daemon=True)
        collector.start()
        awaited = 0  # after a failure the collector waits for nothing more
        try:
            self._launch_all(counter)
            awaited = self._launched
        finally:
            self._started.put(awaited)
        self._wait_for(collector)
        self._raise_failure()

    def _launch_all(self, counter: Counter) -> None:
        """Take blocks and start them until none is left.

        Blocks are taken when a lane is free for them: those that wait here, an idle rank could do.
        """
        while self._blocks.left and (lane := self._next_lane()) is not None:
            if not (blocks := self._take(counter)):
                return
            free: LaneLike | None = lane
            for first, end in runs(blocks):
                if (lane := free or self._next_lane()) is None:
                    return
                free = None
                with device_work():
                    rows = self._layout.block_rows(first, end)
                    self._lanes.launch(lane, *rows, self._started.put)
                self._launched += 1

    def leave(self, error: BaseException) -> None:
        """Deliver nothing more after `error`; a delivery is waited for, launches are broken off.

        Sums are saved where somebody interrupted the program, say in a notebook, and may resume.
        """
        self._given_up = True
        self._halt_all()
        if not self._delivering.acquire(timeout=_PATIENCE):
            return  # it waits for ranks that may be waiting for this one: all must end
        alone = self._comm.size == 1
        if isinstance(error, KeyboardInterrupt) and alone and self._consistent:
            with suppress(TauslabError):
                self.checkpoint()
        self._delivering.release()

    def _wait_for(self, collector: threading.Thread) -> None:
        """Serve the lanes until the collector has ended."""
        try:
            while collector.is_alive():
                collector.join(self._poll_seconds)
                self._poll()
        except BaseException:
            self._started.put(0)
            raise

    def _take(self, counter: Counter) -> list[int]:
        """Numbers of the blocks of the next launches; empty when there are no more."""
        if not self._blocks.left or self._stopping():
            return []
        return self._blocks.take(counter.next, self._lanes.sharers, self._lanes.each)

    def _stopping(self) -> bool:
        """Return whether this rank or another was asked to stop; informs the others."""
        if self._stop_requested_at is not None:
            return True
        assert self._counter is not None
        if self._stop():
            self._counter.next(_STOPPED)
        else:
            now = time.perf_counter()
            if self._comm.size == 1 or now < self._looked_at + _LOOK_SECONDS:
                return False
            self._looked_at = now
            if self._counter.next(0) < _STOPPED:
                return False
        self._stop_requested_at = time.perf_counter()
        return True

    def _poll(self) -> None:
        """While this thread waits: serve MPI, show what happens, end launches of a stopped run."""
        self._lanes.poll()
        now = time.perf_counter()
        if not self._stopping():
            self._show_launches(now)
            return
        assert self._stop_requested_at is not None
        if now > self._stop_requested_at + _GRACE_SECONDS and now > self._halted_at + _HALT_SECONDS:
            self._halted_at = now
            with device_work():
                self._lanes.halt()

    def _halt_all(self) -> None:
        """End launches in flight, unfinished, and wait until they have; after a failure."""
        end = time.perf_counter() + _PATIENCE
        with suppress(Exception):  # a device that failed may refuse
            while self._lanes.halt() and time.perf_counter() < end:
                time.sleep(_POLL_SECONDS)

    def _next_lane(self) -> LaneLike | None:
        """Wait for a free lane, serving the lanes meanwhile; None where the run is to stop."""
        while True:
            for fresh in self._lanes.fresh():
                self._n_lanes += 1
                self._free.put(fresh)
            try:
                lane = self._free.get(timeout=self._poll_seconds)
            except queue.Empty:
                self._poll()
                if self._stop_requested_at is not None:
                    return None
                continue
            if isinstance(lane, BaseException):
                self._free.put(lane)
                raise lane
            return lane

    def _raise_failure(self) -> None:
        while not self._free.empty():
            lane = self._free.get()
            if isinstance(lane, BaseException):
                raise lane

    def _collect(self) -> None:
        """Body of the collector's thread."""
        try:
            self._lanes.use()
            finished, awaited = 0, math.inf
            while finished < awaited:
                lane = self._started.get()
                if isinstance(lane, int):
                    awaited = lane
                    continue
                self._finish(lane)
                finished += 1
                self._free.put(lane)
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            self._free.put(error)

    def _finish(self, lane: LaneLike) -> None:
        with device_work():
            delivery = lane.wait()
        self._hand_over(lane, delivery)

    def _hand_over(self, lane: LaneLike, delivery: Delivery) -> None:
        with self._delivering:
            if not self._given_up and not delivery.stopped:
                self._deliver(lane, delivery)

    def _deliver(self, lane: LaneLike, delivery: Delivery) -> None:
        """Add sums, write samples."""
        tally, begun = self.tally, time.perf_counter()
        self._consistent = False
        add_accumulators(tally.sums, delivery.sums, delivery.points)
        self._writer.write(delivery.chunk)
        first = delivery.chunk.start // self._layout.block
        blocks = -(-delivery.chunk.rows // self._layout.block)
        self._done[first : first + blocks] = True
        self._consistent = True
        if (saving := time.perf_counter()) >= self._due and self._layout.needs_checkpoint:
            self.checkpoint()
            self._due = next_due(saving, time.perf_counter(), _CHECKPOINT_SECONDS)
        tally.write += time.perf_counter() - begun
        compute, copy = self._lanes.intervals(lane)
        tally.computing.append(compute)
        tally.copying.append(copy)
        tally.rows += delivery.chunk.rows
        tally.blocks += blocks
        for name, count in zip(WORK, delivery.work.tolist(), strict=True):
            tally.work[name] += count
        tally.launches += 1
        self._adapt()
        self._show()

    def checkpoint(self) -> None:
        """Save the sums so far; not while the collector writes."""
        self._writer.checkpoint(self.tally.sums, self._done)

    def _adapt(self) -> None:
        """Size launches by the rate so far."""
        rate = self.tally.rows / (time.perf_counter() - self._began)
        self._blocks.size_launches(rate * _LAUNCH_SECONDS / self._n_lanes / self._layout.block)

    def _show(self) -> None:
        """Update the progress bar; other ranks are taken to be as far as this one."""
        taken = self._blocks.taken * self._layout.block
        own = self.tally.rows
        done = own if self._comm.size == 1 else max(own, min(taken, own * self._comm.size))
        before = int(np.count_nonzero(self._writer.completed)) * self._layout.block
        done = min(done + before, self._layout.total)
        events = self.tally.work["events"]
        self._progress.update(done, max(events, events * (done - before) // max(1, own)))

    def _show_launches(self, now: float) -> None:
        """Show on the progress bar what launches in flight do, on whose end it else would wait."""
        if self._comm.rank != 0 or now < self._shown_at + _LOOK_SECONDS:
            return
        self._shown_at = now
        with device_work():
            running = self._lanes.in_flight()
        if running:
            events = self._comm.size * sum(one.events for one in running)
            self._progress.running(events, max(one.time for one in running))

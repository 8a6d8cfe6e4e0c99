"""Builds a dynamic Bayesian network: all ranks integrate and count, rank 0 adds and writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.analysis.dbn.lane import LANES, DbnLane, count_lane, engine_of, lane_capacity
from tauslab.analysis.dbn.parts import PART_NAMES, PartWriter, added, merged
from tauslab.analysis.dbn.plan import (
    CountingPlan,
    begin_attempt,
    counted_before,
    plan_of,
    with_seed,
)
from tauslab.analysis.dbn.results.file import save
from tauslab.analysis.dbn.results.network import DynamicNetwork, network_of
from tauslab.analysis.dbn.task import DbnTask, prepare_dbn
from tauslab.base.arrays import BoolArray, UintArray
from tauslab.decomposition.blocks import Blocks, SharedBlocks, runs
from tauslab.decomposition.ranks.job import agreed_task, devices, failing_together
from tauslab.decomposition.ranks.mpi import Communicator, Counter
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.progress import Progress, showing_compilers
from tauslab.decomposition.ranks.stopping import in_order, stopped_early, watched
from tauslab.decomposition.ranks.together import agree, in_turn
from tauslab.kernels.dbn.count_tables import CountTables
from tauslab.kernels.dbn.entries import Entries
from tauslab.kernels.ode.engine import Ode
from tauslab.model.network.network import Network
from tauslab.options.dbn import PILOT, DbnOptions
from tauslab.runner.ensemble.lane import layout_row
from tauslab.store.hdf5.disk import Disk
from tauslab.store.locks import written_by_us
from tauslab.store.targets import remove_parts, require_no_input

_LAUNCH_SECONDS = 1.0
_POLL_SECONDS = 0.002
_FULL = 2  # launches in which every thread of a device has a trajectory


def build_network(
    network: Network,
    options: DbnOptions,
    comm: Communicator,
    stop: Callable[[], bool] = lambda: False,
) -> DynamicNetwork | None:
    """Build a network on all ranks of `comm`; rank 0 gets it. Collective.

    Counts are whole numbers, and a trajectory's numbers depend on its own number alone: tables are
    the same whatever ranks and blocks there are.

    Raises
    ------
    TauslabError
        Bad input (on every rank alike), a device that is missing, a file that cannot be written.
    StoppedEarly
        The build was stopped on request with what was counted in the file; ``--resume`` goes on.
    """
    with written_by_us(options.output, comm):
        return _build(network, options, comm, stop)


def _build(
    network: Network, options: DbnOptions, comm: Communicator, stop: Callable[[], bool]
) -> DynamicNetwork | None:
    if not options.resume and network.source_path is not None:
        require_no_input(options.output, [network.source_path])
    resumed = options.output if options.resume else None
    options = replace(options, seed=with_seed(options.seed, resumed, comm))
    task = agreed_task(lambda: prepare_dbn(network, options), comm)
    held: list[tuple[DynamicNetwork, BoolArray] | None] = []  # on rank 0: it may be large
    on_root(comm, lambda: held.append(counted_before(task)))
    began = time.perf_counter()
    with devices(options.device, options.threads, comm) as backend:
        each = -(-options.samples // comm.size)
        with showing_compilers(quiet=options.quiet is not False or comm.rank > 0):
            engine = in_turn(comm, lambda: engine_of(task, backend, each, task.planes))
        if comm.rank == 0 and options.quiet is False:
            for layout in layout_row(engine).values():
                print(f"layout {layout}", flush=True)  # noqa: T201
        plan = on_root(comm, lambda: plan_of(task, engine, held[0], comm.size))
        tables = agree(comm, lambda: _tables(task, plan, engine))
        parts = PartWriter(options.output, on_root(comm, lambda: begin_attempt(options)), comm.rank)
        ready = time.perf_counter()
        counting = _CountingDriver(task, plan, engine, tables, comm, stop, parts)
        before = held[0][0] if held and held[0] is not None else None
        with failing_together(comm), in_order(stop):
            with watched(stop, comm, options.output, by_asking=False):
                done = counting.run()
            attributes = counting.work_attributes() | {"seconds_ready": ready - began}
            attributes |= layout_row(engine)
            built, everywhere = _finish(task, plan, counting, (done, before), attributes)
    _require_all(everywhere, options.output)
    return built


def _tables(task: DbnTask, plan: CountingPlan, engine: Ode) -> CountTables:
    families = task.structure.families()
    rows = _largest(task, plan, engine)
    times = len(task.options.times)
    return CountTables(engine.backend, plan.edges, len(families), families, times, rows)


def _largest(task: DbnTask, plan: CountingPlan, engine: Ode) -> int:
    """Trajectories of a launch at most: whole blocks, in the memory of a lane."""
    # The kernel that integrates may also count; then a lane keeps bins only.
    itemsize = 1 if engine.counts else engine.sample_dtype.itemsize
    space = lane_capacity(task, engine.backend, itemsize)
    wanted = max(_FULL * engine.trajectories_in_flight(LANES), plan.block)
    most = min(space, max(wanted, PILOT), task.options.samples)
    return min(max(1, most // plan.block) * plan.block, task.options.samples)


class _CountingDriver:
    """One rank's part: blocks from the shared counter, two lanes, one stream that counts.

    While the trajectories of one launch are counted, the next ones are integrated, unless they
    are counted by what integrates them.
    """

    def __init__(
        self, task: DbnTask, plan: CountingPlan, engine: Ode, tables: CountTables,
        comm: Communicator, stop: Callable[[], bool], parts: PartWriter,
    ) -> None:  # fmt: skip
        self._task, self._plan, self.comm, self._stop = task, plan, comm, stop
        self._parts, self._done = parts, np.zeros(plan.blocks, bool)
        self.tables, self.backend = tables, engine.backend
        self._rows = _largest(task, plan, engine)
        own = tables if engine.counts else None
        self._lanes = [DbnLane(task, engine, self._rows, own) for _ in range(LANES)]
        self.stream = self.backend.stream()
        fill = -(-_FULL * engine.trajectories_in_flight(LANES) // plan.block)
        space = max(1, self._rows // plan.block)
        fewest = min(fill, space)
        self._blocks = SharedBlocks(
            np.flatnonzero(~plan.counted), smallest=fewest, room=space, largest=fewest
        )
        self.counted, self._seconds = 0, 0.0

    def run(self) -> BoolArray:
        """Count until no block is left; returns which blocks this rank has counted."""
        self.tables.clear(self.stream)
        self._wait(self.stream.record().done)  # lanes may count in streams of their own
        counter = self.comm.counter()
        waiting: tuple[DbnLane, int, int] | None = None
        turn, began = 0, time.perf_counter()
        with self._progress() as progress:
            while blocks := self._take(counter):
                for first, end in runs(blocks):
                    lane = self._lanes[turn % LANES]
                    turn += 1
                    self._wait(lane.freed)
                    lane.start(*self._trajectories(first, end))
                    started: tuple[DbnLane, int, int] | None = (lane, first, end)
                    if waiting is not None:
                        self._count(*waiting)
                        progress.update(self._shown(), 0)
                        self._adapt(time.perf_counter() - began)
                        started = self._write_part(lane, first, end)
                    waiting = started
            if waiting is not None:
                self._count(*waiting)
            self._wait(self.stream.record().done)
            progress.update(self._shown(), 0)
        counter.free()
        self._seconds = time.perf_counter() - began
        return self._done

    def _write_part(self, *started: *tuple[DbnLane, int, int]) -> tuple[DbnLane, int, int] | None:
        """Write what is counted, if it is time to; returns what is `started` if it is not in it."""
        if not self._parts.due:
            return started
        if inside := started[0].counts:  # what a lane counts itself is in the tables half done
            self._count(*started)
        self._parts.offer(self._network, self._done)
        return None if inside else started

    def work_attributes(self) -> dict[str, str | int | float]:
        """Attributes of the file about the work of all ranks. Collective."""
        return {
            "device": self.backend.describe(),
            "ranks": self.comm.size,
            "seconds": self._seconds,
            "counted": sum(self.comm.allgather(self.counted)),
        }

    def _take(self, counter: Counter) -> list[int]:
        if not self._blocks.left:
            return []
        if self._stop():
            self._blocks.leave_rest(counter.next)
            return []
        return self._blocks.take(counter.next, self.comm.size, LANES)

    def _trajectories(self, first: int, end: int) -> tuple[int, int]:
        return Blocks(self._task.options.samples, self._plan.block).trajectories(first, end)

    def _network(self) -> DynamicNetwork:
        """The counts of this rank; waits for the stream."""
        cells = self.tables.cells(self.stream)
        return _network(self._task, self._plan, self.tables, self.tables.tables(self.stream), cells)

    def _count(self, lane: DbnLane, first: int, end: int) -> None:
        """Give the stream blocks to count; with tables that grow, time point by time point."""
        for point in range(len(self._task.options.times)):
            count_lane(lane, self.tables, point, self.stream)
            if self.tables.grows:
                self._wait(self.tables.counted)
                self.tables.make_room(self.stream)
        lane.release(self.stream)
        self.counted += lane.rows
        self._done[first:end] = True

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Until it is; rank 0 serves the counter meanwhile."""
        while not ready():
            self.comm.poll()
            time.sleep(_POLL_SECONDS)
        self.comm.poll()

    def _adapt(self, seconds: float) -> None:
        """Size launches by the rate so far."""
        self._blocks.size_launches(self.counted / seconds * _LAUNCH_SECONDS / self._plan.block)

    def _progress(self) -> Progress:
        return Progress(
            self._task.options.samples,
            self.comm.rank,
            quiet=self._task.options.quiet,
            description=self._task.network.name,
            unit="samples",
            started_at=self._shown(),
        )

    def _shown(self) -> int:
        """Trajectories that are counted; other ranks are taken to be as far as this one."""
        before = int(self._plan.counted.sum()) * self._plan.block
        return min(before + self.counted * self.comm.size, self._task.options.samples)


def _finish(
    task: DbnTask,
    plan: CountingPlan,
    counting: _CountingDriver,
    parts: tuple[BoolArray, DynamicNetwork | None],
    attributes: Mapping[str, str | int | float],
) -> tuple[DynamicNetwork | None, BoolArray]:
    """Add what all ranks counted, on rank 0, and write it; says which blocks are in it.

    `parts` are the blocks of this rank and, on rank 0, what was counted before; `attributes` are
    more attributes of the file.
    """
    comm, (done, before) = counting.comm, parts
    everywhere = np.logical_or.reduce([plan.counted, *comm.allgather(done)])
    tables = counting.tables
    entries = [merged(entries, comm) for entries in tables.tables(counting.stream)]
    cells = tables.cells(counting.stream)
    cells = (comm.sum_uint64(cells[0]), comm.sum_uint64(cells[1]))
    built: DynamicNetwork | None = None
    if comm.rank == 0:
        built = _network(task, plan, tables, entries, cells)
        built = replace(built, attributes={**built.attributes, **attributes})
        if before is not None:
            built = added(before, built)
    output = task.options.output
    if output is not None:
        on_root(comm, lambda: _save(built, output, everywhere))
    return built, everywhere


def _save(built: DynamicNetwork | None, output: Path, everywhere: BoolArray) -> None:
    """Write the file; what parts hold is in it."""
    assert built is not None
    save(built, output, everywhere)
    remove_parts(output, Disk(), PART_NAMES)


def _network(
    task: DbnTask,
    plan: CountingPlan,
    tables: CountTables,
    entries: list[Entries],
    cells: tuple[UintArray, UintArray],
) -> DynamicNetwork:
    """Put together counts, and the attributes of a file."""
    keyed = list(zip(entries, tables.keys, strict=True))
    built = network_of(task.structure, task.options.times, plan.edges, keyed, cells)
    return replace(
        built, nominal=plan.nominal, attributes=_attributes(task, plan), model=_model(task)
    )


def _require_all(everywhere: BoolArray, output: Path | None) -> None:
    if not everywhere.all():
        raise stopped_early(int(everywhere.sum()), len(everywhere), "counted", output)


def _attributes(task: DbnTask, plan: CountingPlan) -> Mapping[str, Any]:
    network, options = task.network, task.options
    name = network.source_path.name if network.source_path else network.name
    return {**task.settings, "model": name, "block": plan.block, "command": options.command}


def _model(task: DbnTask) -> dict[str, str]:
    from tauslab.model.network.canonical import canonical_text

    canonical = canonical_text(task.network)
    return {"source": task.network.source_text or canonical, "canonical": canonical}

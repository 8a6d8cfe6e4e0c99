"""Builds a dynamic Bayesian network: all ranks integrate and count, rank 0 adds and writes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.decomposition.blocks import Blocks, next_share, runs, storage_block_size
from tauslab.kernels.dbn import CountTables
from tauslab.kernels.ode import Ode
from tauslab.model.errors import ConfigError, StoppedEarly
from tauslab.model.network import Network
from tauslab.runner.dbn_file import counted_blocks, load, save
from tauslab.runner.dbn_intervals import edges_of
from tauslab.runner.dbn_job import PILOT, DbnOptions
from tauslab.runner.dbn_lane import (
    LANES,
    DbnLane,
    count_lane,
    engine_of,
    lane_room,
    nominal_course,
    pilot_samples,
)
from tauslab.runner.dbn_merge import merged, with_before
from tauslab.runner.dbn_network import DynamicNetwork, FloatArray, network_of
from tauslab.runner.dbn_task import DbnTask, prepare_dbn
from tauslab.runner.mpi import Communicator
from tauslab.runner.ode_layout import layout_row, tell_choice
from tauslab.runner.output.collective import on_root
from tauslab.runner.output.resume import existing_attribute
from tauslab.runner.progress import Progress
from tauslab.runner.run import open_backend
from tauslab.runner.together import agree, end_all_ranks, in_turn

_LAUNCH_SECONDS = 1.0
_POLL_SECONDS = 0.002
_FULL = 2  # launches in which every thread of a device has a trajectory

BlockArray = npt.NDArray[np.bool_]


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
    resumed = options.output if options.resume else None
    options = replace(options, seed=with_seed(options.seed, resumed, comm))
    task = agree(comm, lambda: prepare_dbn(network, options))
    if len(set(comm.allgather(task.sha256))) > 1:
        raise ConfigError("ranks have different models: every rank must run the same")
    held: list[tuple[DynamicNetwork, BlockArray] | None] = []  # on rank 0: it may be large
    on_root(comm, lambda: held.append(_before(task)))
    began = time.perf_counter()
    backend = in_turn(comm, lambda: open_backend(options.device, options.threads, comm))
    try:
        each = -(-options.samples // comm.size)
        engine = in_turn(comm, lambda: engine_of(task, backend, each))
        if comm.rank == 0 and not options.quiet:
            tell_choice(engine)
        plan = on_root(comm, lambda: _plan(task, engine, held[0]))
        tables = agree(comm, lambda: _tables(task, plan, engine))
        ready = time.perf_counter()
        counting = _Counting(task, plan, engine, tables, comm, stop)
        before = held[0][0] if held and held[0] is not None else None
        try:
            done = counting.run()
            told = counting.told() | {"seconds_ready": ready - began}
            told |= {k: v for k, v in layout_row(engine, backend).items() if k == "layout"}
            built, everywhere = _finish(task, plan, counting, (done, before), told)
        except BaseException as error:
            end_all_ranks(comm, error)
            raise
    finally:
        backend.close()
    _require_all(everywhere, options.output)
    return built


def with_seed(seed: int | None, resumed: Path | None, comm: Communicator) -> int:
    """The seed given, that of the file to resume, or one drawn. Collective."""
    if seed is not None:
        return seed
    stored: int | None = None
    if resumed is not None:
        stored = on_root(comm, lambda: existing_attribute(resumed, "seed"))
    drawn: int = comm.bcast(secrets.randbits(64)) if stored is None else stored
    return drawn


@dataclass(frozen=True)
class _Plan:
    """What rank 0 decided for all: intervals, blocks and which of them were counted before."""

    edges: list[FloatArray]
    block: int
    counted: BlockArray
    nominal: FloatArray

    @property
    def blocks(self) -> int:
        return len(self.counted)


def _before(task: DbnTask) -> tuple[DynamicNetwork, BlockArray] | None:
    """What was counted before, to resume; refuses a file that may not be overwritten."""
    options, path = task.options, task.options.output
    if path is None or not path.exists():
        return None
    if options.resume:
        found = load(path, unfinished=True)
        _require_equal_settings(task, found, path)
        return found, counted_blocks(path)
    if not options.overwrite:
        raise ConfigError(f"{path} exists: give --overwrite, --resume or another -o")
    return None


def _require_equal_settings(task: DbnTask, found: DynamicNetwork, path: Path) -> None:
    for name, value in task.settings.items():
        if found.attributes.get(name) != value:
            raise ConfigError(
                f"{path} cannot be resumed: it was made with {name} = "
                f"{found.attributes.get(name)!r}, not {value!r}"
            )
    if not np.array_equal(found.times, task.options.times):
        raise ConfigError(f"{path} cannot be resumed: it has other time points")


def _plan(task: DbnTask, engine: Ode, before: tuple[DynamicNetwork, BlockArray] | None) -> _Plan:
    if before is not None:
        network, counted = before
        edges = [network.edges[name] for name in task.structure.names]
        nominal = network.nominal
        assert nominal is not None
        return _Plan(edges, int(network.attributes["block"]), counted, nominal)
    block = task.options.block or min(storage_block_size(task.options.samples, 1, fine=True), PILOT)
    block = min(block, lane_room(task, engine.backend, 8))
    counted = np.zeros(Blocks(task.options.samples, block).count, bool)
    edges = _edges(task, engine)
    return _Plan(edges, block, counted, nominal_course(task, engine.backend))


def _edges(task: DbnTask, engine: Ode) -> list[FloatArray]:
    """Intervals of all nodes; a pilot of the first trajectories gives the ranges."""
    names, options = task.structure.names, task.options
    pilot = pilot_samples(task, engine, PILOT, extremes=options.spacing == "equal")
    # The range of an unknown initial amount is not that of the variable over time.
    initial = set(options.unknown) - set(task.structure.parameters)
    pilots = zip(names, pilot, strict=True)
    return [edges_of(name, options, own, ranged=name not in initial) for name, own in pilots]


def _tables(task: DbnTask, plan: _Plan, engine: Ode) -> CountTables:
    families = task.structure.families()
    rows = _largest(task, plan, engine)
    times = len(task.options.times)
    return CountTables(engine.backend, plan.edges, len(families), families, times, rows)


def _largest(task: DbnTask, plan: _Plan, engine: Ode) -> int:
    """Trajectories of a launch at most: whole blocks, in the memory of a lane."""
    room = lane_room(task, engine.backend, engine.sample_dtype.itemsize)
    wanted = max(_FULL * engine.trajectories_in_flight(LANES), plan.block)
    most = min(room, max(wanted, PILOT), task.options.samples)
    return min(max(1, most // plan.block) * plan.block, task.options.samples)


class _Counting:
    """One rank's part: blocks from the shared counter, two lanes, one stream that counts.

    While the trajectories of one launch are counted, those of the next are integrated.
    """

    def __init__(
        self,
        task: DbnTask,
        plan: _Plan,
        engine: Ode,
        tables: CountTables,
        comm: Communicator,
        stop: Callable[[], bool],
    ) -> None:
        self._task, self._plan, self.comm, self._stop = task, plan, comm, stop
        self.tables, self.backend = tables, engine.backend
        self._rows = _largest(task, plan, engine)
        self._lanes = [DbnLane(task, engine, self._rows) for _ in range(LANES)]
        self.stream = self.backend.stream()
        self._todo = np.flatnonzero(~plan.counted)
        fill = -(-_FULL * engine.trajectories_in_flight(LANES) // plan.block)
        self._room = max(1, self._rows // plan.block)
        self._smallest = min(fill, self._room)
        self._most = self._smallest
        self.counted, self._position, self._seconds = 0, 0, 0.0

    def run(self) -> BlockArray:
        """Count until no block is left; returns which blocks this rank has counted."""
        done = np.zeros(self._plan.blocks, bool)
        self.tables.clear(self.stream)
        counter = self.comm.counter()
        waiting: DbnLane | None = None
        turn, began = 0, time.perf_counter()
        with self._progress() as progress:
            while (blocks := self._take(counter.next)) is not None:
                for first, end in runs(blocks):
                    lane = self._lanes[turn % LANES]
                    turn += 1
                    self._wait(lane.freed)
                    lane.start(*self._trajectories(first, end))
                    if waiting is not None:
                        self._count(waiting)
                        progress.update(self._shown(), 0)
                        self._adapt(time.perf_counter() - began)
                    waiting = lane
                    done[first:end] = True
            if waiting is not None:
                self._count(waiting)
            self._wait(self.stream.record().done)
            progress.update(self._shown(), 0)
        counter.free()
        self._seconds = time.perf_counter() - began
        return done

    def told(self) -> dict[str, str | int | float]:
        """What the file tells of the work of all ranks. Collective."""
        return {
            "device": self.backend.describe(),
            "ranks": self.comm.size,
            "seconds": self._seconds,
            "counted": sum(self.comm.allgather(self.counted)),
        }

    def _take(self, take: Callable[[int], int]) -> list[int] | None:
        left = len(self._todo) - self._position
        if left <= 0:
            return None
        if self._stop():
            take(len(self._todo))  # what nobody has taken stays for a resumed build
            return None
        count = next_share(left, self.comm.size, LANES, self._smallest, self._most)
        count = min(count, self._room)
        position = take(count)
        self._position = position + count
        chosen = self._todo[position : position + count]
        return [int(b) for b in chosen] if len(chosen) else None

    def _trajectories(self, first: int, end: int) -> tuple[int, int]:
        return Blocks(self._task.options.samples, self._plan.block).trajectories(first, end)

    def _count(self, lane: DbnLane) -> None:
        """Give the stream a launch to count; with tables that grow, time point by time point."""
        for point in range(len(self._task.options.times)):
            count_lane(lane, self.tables, point, self.stream)
            if self.tables.grows:
                self._wait(self.tables.counted)
                self.tables.make_room(self.stream)
        lane.release(self.stream)
        self.counted += lane.rows

    def _wait(self, ready: Callable[[], bool]) -> None:
        """Until it is; rank 0 serves the counter meanwhile."""
        while not ready():
            self.comm.poll()
            time.sleep(_POLL_SECONDS)
        self.comm.poll()

    def _adapt(self, seconds: float) -> None:
        """Size launches by the rate so far."""
        blocks = int(self.counted / seconds * _LAUNCH_SECONDS / self._plan.block)
        self._most = min(self._room, max(self._smallest, blocks))

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
    plan: _Plan,
    counting: _Counting,
    parts: tuple[BlockArray, DynamicNetwork | None],
    told: Mapping[str, str | int | float],
) -> tuple[DynamicNetwork | None, BlockArray]:
    """Add what all ranks counted, on rank 0, and write it; says which blocks are in it.

    `parts` are the blocks of this rank and, on rank 0, what was counted before; `told` is what the
    file tells too.
    """
    comm, (done, before) = counting.comm, parts
    everywhere = np.logical_or.reduce([plan.counted, *comm.allgather(done)])
    tables = counting.tables
    found = tables.tables(counting.stream)
    cells = tables.cells(counting.stream)
    if before is not None:
        found, cells = with_before(before, tables, found, cells)
    entries = [merged(entries, comm) for entries in found]
    cells = (comm.sum_uint64(cells[0]), comm.sum_uint64(cells[1]))
    built: DynamicNetwork | None = None
    if comm.rank == 0:
        tables_found = list(zip(entries, tables.keys, strict=True))
        built = network_of(task.structure, task.options.times, plan.edges, tables_found, cells)
        attributes = {**_attributes(task, plan), **told}
        built = replace(built, nominal=plan.nominal, attributes=attributes, model=_model(task))
    output = task.options.output
    if output is not None:
        on_root(comm, lambda: save(built, output, everywhere) if built is not None else None)
    return built, everywhere


def _require_all(everywhere: BlockArray, output: Path | None) -> None:
    if not everywhere.all():
        left = f": --resume completes {output}" if output is not None else ""
        raise StoppedEarly(
            f"stopped on request with {int(everywhere.sum())} of {len(everywhere)} blocks "
            f"counted{left}"
        )


def _attributes(task: DbnTask, plan: _Plan) -> Mapping[str, Any]:
    network, options = task.network, task.options
    name = network.source_path.name if network.source_path else network.name
    return {**task.settings, "model": name, "block": plan.block, "command": options.command}


def _model(task: DbnTask) -> dict[str, str]:
    from tauslab.model.canonical import canonical_text

    canonical = canonical_text(task.network)
    return {"source": task.network.source_text or canonical, "canonical": canonical}

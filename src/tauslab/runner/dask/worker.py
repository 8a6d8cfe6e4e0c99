"""The work of a Dask worker: it opens its device once, then runs blocks on it.

These functions run in the workers' processes; `dask_lanes` in the client sends them there.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tauslab._version import __version__
from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.job import open_backend
from tauslab.decomposition.ranks.launcher import local_rank, node_group
from tauslab.decomposition.ranks.mpi import Communicator, host_name
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.launch import WORK
from tauslab.kernels.exact.selectors import PilotCounts
from tauslab.options.methods import Auto
from tauslab.runner.ensemble.choices.method_choice import MethodChoice, choose_method, with_choice
from tauslab.runner.ensemble.choices.pilots import piloted
from tauslab.runner.ensemble.choices.solver_choice import choose_solver, wants_solver
from tauslab.runner.ensemble.lane import LANES, Delivery, Lane, build_reductions
from tauslab.runner.ensemble.lanes import launch_blocks
from tauslab.runner.ensemble.ode_task import OdeTask
from tauslab.runner.ensemble.task import NetworkTask, Task
from tauslab.store.format.layout import Chunk

# Samples of a launch: they travel through the network as one message, and a few of each worker
# are under way at a time.
MOST_BYTES = 64 << 20


class WorkerError(Exception):
    """An error on a worker, and the worker's address."""

    def __init__(self, address: str, error: Exception) -> None:
        super().__init__(address, error)
        self.address, self.error = address, error


@dataclass(frozen=True)
class PilotPlan:
    """Choices by pilots on one worker, for all: method of ``auto``, order and selector."""

    choice: MethodChoice | None
    pilot: PilotCounts | None


@dataclass(frozen=True)
class Job:
    """The data that every worker of a run needs; `name` is unique."""

    name: str
    version: str
    task: Task
    plan: PilotPlan


@dataclass(frozen=True)
class LaunchResult:
    """The result of a launch on a worker, with seconds of computing, copying and compiling."""

    delivery: Delivery
    compute: float
    copy: float
    compile: float
    device: str
    address: str


class _Rank(Communicator):
    """A worker's place among the workers of its machine, which decides its GPU."""

    def __init__(self, scheduler: str) -> None:
        self.local_rank = self.gpu_rank = local_rank(node_group(scheduler))


class Station:
    """A worker's device, prepared for one job."""

    def __init__(self, job: Job) -> None:
        began = time.perf_counter()
        self.name = job.name
        self._task = job.task
        self._backend = _open(job.task)
        self.engine = job.task.engine(self._backend, job.plan.pilot)
        self._reductions = build_reductions(job.task, self._backend)
        self._copies = self._backend.stream()
        self._origin = self._copies.record()
        self.device = self._backend.describe()
        self.compile = time.perf_counter() - began
        self._lanes: queue.SimpleQueue[Lane] = queue.SimpleQueue()
        self._made = 0
        self._all: list[Lane] = []
        self.halted = False
        self._lock = threading.Lock()

    def run(self, first: int, end: int, rows: int) -> tuple[Delivery, float, float]:
        """Trajectories ``first .. end - 1``, in memory of their own; several threads may call."""
        self._backend.use()
        lane = self._lane(rows)
        try:
            if self.halted:
                work = np.zeros(len(WORK), np.uint64)
                return Delivery(Chunk(first, {}), {}, slice(None), work, stopped=True), 0.0, 0.0
            with self._lock:  # launches enter the device one after another, and then overlap
                lane.start(first, end)
            delivery = lane.wait()
            chunk = replace(
                delivery.chunk, arrays={k: v.copy() for k, v in delivery.chunk.arrays.items()}
            )
            sums = {name: values.copy() for name, values in delivery.sums.items()}
            (begun, computed), (copying, copied) = lane.intervals(self._origin)
        finally:
            self._lanes.put(lane)
        own = replace(delivery, chunk=chunk, sums=sums)
        return own, computed - begun, copied - copying

    def _lane(self, rows: int) -> Lane:
        """A lane that is free; the first calls make them."""
        with self._lock:
            if self._made < LANES and self._lanes.empty():
                lane = Lane(self._task, self.engine, self._reductions, rows, self._copies)
                self._made += 1
                self._all.append(lane)
                return lane
        return self._lanes.get()

    def halt(self) -> None:
        """Ask launches in flight to end soon, unfinished, and later ones not to begin."""
        self.halted = True
        self._backend.use()
        for lane in self._all:
            lane.halt()

    def close(self) -> None:
        """Release the device."""
        self._backend.close()


def dask_setup(worker: Any) -> None:
    """Called by Dask in workers that the run starts here: a request to stop is for the client.

    Ctrl-C reaches every process of a terminal; what workers have in hand is still wanted then.
    """
    del worker
    for number in (signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


_STATIONS: dict[str, Station] = {}
_OPENING = threading.Lock()


def plan(task: Task, version: str) -> PilotPlan:
    """Choose method and selector, and order the network: pilots on this worker."""
    with _naming_worker():
        _require_version(version)
        backend = _open(task)
        try:
            choice = pilot = None
            if isinstance(task, NetworkTask):
                if isinstance(task.options.method, Auto):
                    choice = choose_method(task, backend)
                    task = with_choice(task, choice, announce=False)
                pilot = piloted(task, backend)
            elif isinstance(task, OdeTask) and wants_solver(task):
                choice = choose_solver(task, backend)
        finally:
            backend.close()
        return PilotPlan(choice, pilot)


def keep(job: Job) -> Job:
    """The job itself: as the result of a task, Dask copies it to each worker that needs it."""
    return job


def sizes(job: Job, block: int, share: int) -> tuple[int, int]:
    """Storage blocks of a launch, as `launch_blocks` gives them for this worker's device."""
    with _naming_worker():
        engine = _station(job).engine
        return launch_blocks(job.task, engine, block, share, MOST_BYTES)


def run_share(job: Job, first: int, end: int, rows: int) -> LaunchResult:
    """Trajectories ``first .. end - 1`` on this worker's device, which has room for `rows`."""
    with _naming_worker() as address:
        station = _station(job)
        delivery, compute, copy = station.run(first, end, rows)
        return LaunchResult(delivery, compute, copy, station.compile, station.device, address)


def halt_station(name: str) -> None:
    """Let launches of a job end soon, unfinished. Not a task: called beside those that run."""
    station = _STATIONS.get(name)
    if station is not None:
        station.halt()


def close_station(name: str) -> None:
    """Give the device of a job back that is done."""
    with _OPENING:
        station = _STATIONS.pop(name, None)
    if station is not None:
        station.close()


def _station(job: Job) -> Station:
    with _OPENING:
        if job.name not in _STATIONS:
            _require_version(job.version)
            _STATIONS[job.name] = Station(job)
        return _STATIONS[job.name]


def _open(task: Task) -> Backend:
    """The worker's GPU, or as many threads as Dask counts for it."""
    worker = _worker()
    threads = task.options.threads or worker.state.nthreads
    rank = _Rank(worker.scheduler.address)
    # One that takes the place of another may come before that one's number is free again.
    return open_backend(task.options.device, threads, rank, share=True)


def _worker() -> Any:
    from distributed import get_worker

    return get_worker()


def _require_version(version: str) -> None:
    if version != __version__:
        raise ConfigError(
            f"the Dask worker on {host_name()} has tauslab {__version__}, the client {version}: "
            "they must be the same"
        )


@contextlib.contextmanager
def _naming_worker() -> Iterator[str]:
    """Say on which worker an error came up, so that the client need not ask it again."""
    address = str(_worker().address)
    try:
        yield address
    except Exception as error:
        raise WorkerError(address, error) from error

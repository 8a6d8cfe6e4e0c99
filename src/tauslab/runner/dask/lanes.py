"""Lanes whose launches are tasks of Dask: blocks go out, results come back in any order."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from tauslab.base.errors import ExecutorError, StoppedEarly, TauslabError
from tauslab.kernels.ensemble.launch import LAUNCHES_IN_FLIGHT
from tauslab.runner.dask import worker as dask_worker
from tauslab.runner.dask.cluster import Workers
from tauslab.runner.dask.worker import LaunchResult, WorkerError
from tauslab.runner.ensemble.lane import Delivery, InFlight
from tauslab.runner.ensemble.lanes import Interval, ProfileRow
from tauslab.store.format.layout import Layout

_LOOK_SECONDS = 1.0
_HALT_SECONDS = 0.5  # between two requests to end
_ATTEMPTS = 3  # at one launch, each on another worker, not counting workers that were killed


class DaskLane:
    """A launch that is a task of Dask, or a result of one that waits to be written."""

    def __init__(self, lanes: DaskLanes) -> None:
        self._lanes = lanes
        self._bounds = (0, 0)
        self._future: Any = None
        self.share: LaunchResult | None = None
        self.arrived = 0.0

    def start(self, first: int, end: int, ready: Callable[[Any], None]) -> None:
        """Hand trajectories ``first .. end - 1`` to Dask."""
        self._bounds, self.share = (first, end), None
        self._future = self._lanes.submit(first, end, 0)
        self._future.add_done_callback(lambda _: ready(self))

    def wait(self) -> Delivery:
        """The result; what failed runs again elsewhere."""
        share: LaunchResult = result_of(
            self._lanes.workers,
            self._future,
            lambda attempt: self._lanes.submit(*self._bounds, attempt),
        )
        self._future = None  # lets the workers forget it
        self.share, self.arrived = share, time.perf_counter()
        return share.delivery


class DaskLanes:
    """A few lanes for each worker, so that results in flight are bounded and none is idle.

    Parameters
    ----------
    job
        The `Job` of the workers, as a future: Dask copies it to each worker that needs it.
    """

    def __init__(self, workers: Workers, job: Any, name: str, layout: Layout, blocks: int) -> None:
        self.workers, self._job, self._name = workers, job, name
        self._made = 0
        self._origin = time.perf_counter()
        self._shares: dict[str, LaunchResult] = {}
        self._futures: list[Any] = []
        self._next_halt = 0.0
        ask = [layout.block, -(-blocks // workers.wanted)]
        sizes: tuple[int, int] = call(workers, dask_worker.sizes, job, *ask) if blocks else (1, 1)
        self.smallest, self.room = sizes
        self._rows = self.room * layout.block

    @property
    def sharers(self) -> int:
        """Workers that share what is left."""
        return self.workers.wanted

    @property
    def each(self) -> int:
        """Launches that a worker overlaps, and one that waits there."""
        most = max(self.workers.threads.values(), default=1)
        return min(most, LAUNCHES_IN_FLIGHT) + 1

    def fresh(self) -> Sequence[DaskLane]:
        """Lanes for workers that have come since the last call."""
        missing = max(0, self.each * self.workers.wanted - self._made)
        self._made += missing
        return [DaskLane(self) for _ in range(missing)]

    def launch(self, lane: DaskLane, first: int, end: int, ready: Callable[[Any], None]) -> None:
        """Hand the launch to Dask; `ready` gets the lane as it ends."""
        lane.start(first, end, ready)

    def submit(self, first: int, end: int, attempt: int) -> Any:
        """A task for trajectories ``first .. end - 1``."""
        key = (f"tauslab-blocks-{self._name}", first, attempt)
        future = submit(self.workers, key, dask_worker.run_share, self._job, first, end, self._rows)
        self._futures = [one for one in self._futures if not one.done()] + [future]
        return future

    def intervals(self, lane: DaskLane) -> tuple[Interval, Interval]:
        """Seconds of the worker, as if the result had come at once."""
        assert lane.share is not None
        share, copied = lane.share, lane.arrived - self._origin
        self._shares[share.address] = share
        computed = copied - share.copy
        return (computed - share.compute, computed), (computed, copied)

    def halt(self) -> bool:
        """Through the workers: what waits there is taken back, what runs there ends soon."""
        pending = [future for future in self._futures if not future.done()]
        self._futures = pending
        if not pending or time.perf_counter() < self._next_halt:
            return bool(pending)
        self._next_halt = time.perf_counter() + _HALT_SECONDS
        with contextlib.suppress(Exception):  # workers may be gone
            self.workers.client.run(dask_worker.halt_station, self._name, wait=False)
        return True

    def in_flight(self) -> Sequence[InFlight]:
        """Workers report nothing."""
        return ()

    def poll(self) -> None:
        """Look whether there are workers."""
        self.workers.check()

    def use(self) -> None:
        """Any thread may wait for results."""

    def describe(self) -> ProfileRow:
        """Devices of the workers that took part, and the longest time that one compiled."""
        shares = self._shares.values()
        devices = ", ".join(sorted({share.device for share in shares}))
        compiled = max((share.compile for share in shares), default=0.0)
        return {"device": f"{len(shares)} Dask: {devices}", "compile": compiled}


def submit(workers: Workers, key: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """A future, of a worker that has not failed so far."""
    # Without bad ones any worker may take it, also those that are yet to come.
    chosen = list(workers.threads) if workers.bad else None
    return workers.client.submit(function, *arguments, key=key, workers=chosen, pure=False)


def call(workers: Workers, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` on some worker; after a failure the call is repeated elsewhere."""
    name = f"tauslab-{function.__name__}-{time.time_ns()}"

    def start(attempt: int) -> Any:
        return submit(workers, (name, attempt), function, *arguments)

    return result_of(workers, start(0), start)


def result_of(workers: Workers, future: Any, again: Callable[[int], Any]) -> Any:
    """The result of a task; a worker that raises is not asked again, and another one is.

    Dask itself runs what was on a worker that died elsewhere.

    Raises
    ------
    TauslabError
        No other worker is left, or too many were tried.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            while not future.done():
                with contextlib.suppress(TimeoutError):
                    return future.result(timeout=_LOOK_SECONDS)
                workers.check()
            return future.result()
        except (ExecutorError, StoppedEarly):  # of `check`
            raise
        except Exception as error:
            reported = _translated(workers, error)
            if attempt == _ATTEMPTS or not workers.threads:
                raise reported from error
        future = again(attempt)
    raise AssertionError


def _translated(workers: Workers, error: Exception) -> Exception:
    """The error for the user; notes the worker that is to blame."""
    from distributed import KilledWorker

    if isinstance(error, WorkerError):
        workers.bad.add(error.address)
        if isinstance(error.error, TauslabError):
            return error.error
        return ExecutorError(
            f"the Dask worker at {error.address} failed: {type(error.error).__name__}: "
            f"{error.error}"
        )
    if isinstance(error, KilledWorker):
        return ExecutorError(
            f"several Dask workers of {workers.where} died with the same blocks: see their "
            "logs for the reason, for example lack of memory"
        )
    if isinstance(error, ModuleNotFoundError):
        return ExecutorError(f"a Dask worker of {workers.where} cannot run tauslab: {error}")
    return ExecutorError(
        f"the Dask scheduler at {workers.where} lost the run: {type(error).__name__}: {error}"
    )

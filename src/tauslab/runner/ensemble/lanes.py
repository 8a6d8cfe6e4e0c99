"""Lanes, in which launches of an ensemble run: on this rank's device, or on workers elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.ensemble.engine import Engine
from tauslab.runner.ensemble.lane import LANES, Delivery, InFlight, Lane, Reductions, lane_rows
from tauslab.runner.ensemble.task import Task
from tauslab.store.format.layout import Layout

Interval = tuple[float, float]
ProfileRow = dict[str, float | str]


class LaneLike(Protocol):
    """One launch in flight, wherever it runs."""

    def wait(self) -> Delivery:
        """Block until samples and sums have arrived; raises the launch's error."""


class Lanes(Protocol):
    """The interface that the driver uses.

    Attributes
    ----------
    smallest, room
        Storage blocks that keep a device busy, and the most that a launch can take.
    """

    smallest: int
    room: int

    @property
    def sharers(self) -> int:
        """Ranks or workers that share what is left."""

    @property
    def each(self) -> int:
        """Launches that each of them has in flight."""

    def fresh(self) -> Sequence[LaneLike]:
        """Lanes that are free and that no earlier call gave."""

    def launch(self, lane: Any, first: int, end: int, ready: Callable[[Any], None]) -> None:
        """Start trajectories ``first .. end - 1``; `ready` gets the lane when it may be waited for.

        Lanes become ready in any order.
        """

    def intervals(self, lane: Any) -> tuple[Interval, Interval]:
        """When the last launch computed and copied, in seconds since the lanes were made."""

    def halt(self) -> bool:
        """Ask launches in flight to end soon, unfinished; False if there are none.

        Ask again while there are: one that has not begun forgets it when it does.
        """

    def in_flight(self) -> Sequence[InFlight]:
        """Progress of launches in flight, where that is known."""

    def poll(self) -> None:
        """Called again and again while the driver waits; raises if waiting has become vain."""

    def use(self) -> None:
        """Let the calling thread wait for lanes."""

    def describe(self) -> ProfileRow:
        """Device and seconds of compiling, for this rank's row of /profile."""


def launch_blocks(
    task: Task, engine: Engine, block: int, share: int, most_bytes: int | None = None, *,
    events_each: float = 0.0, sharers: int = 1,
) -> tuple[int, int]:  # fmt: skip
    """Storage blocks of a launch: the fewest that keep the device busy, and the most.

    Parameters
    ----------
    share
        Blocks that one device will get: a short job needs no more room than its launches, and
        pinned memory takes time to get.
    most_bytes
        Limit on the samples of a launch, below that of a lane.
    events_each
        What a trajectory is expected to take, 0 where nobody knows.
    sharers
        Devices that share the job: none may take so much at once that others wait for it.
    """
    together = engine.trajectories_in_flight(LANES)
    fill = -(-2 * together // LANES)  # two for each thread or team
    if events_each > 0:
        even = share * block if sharers == 1 else share * block // (2 * LANES)
        most = 0 if task.record.trajectories else even
        fill = max(fill, engine.backend.long_launch(together, events_each, most))
    smallest = -(-fill // block)
    wanted = max(smallest * 3 // 2 + 1, -(-share // LANES))
    fitting = lane_rows(task, engine.backend, block, most_bytes) // block
    space = max(1, min(fitting, share, wanted))
    return min(smallest, space), space


class DeviceLanes:
    """The lanes of this rank's device, which share a stream for copies.

    With `waited` there is one, for a run of one short launch that the caller waits for.
    """

    each = LANES

    def __init__(  # noqa: PLR0913 - all that a launch takes
        self,
        task: Task,
        layout: Layout,
        engine: Engine,
        reductions: Reductions,
        comm: Communicator,
        blocks: int,
        row: ProfileRow,
        *,
        events_each: float = 0.0,
        waited: bool = False,
    ) -> None:
        self.waited = waited
        self.sharers, self._comm, self._backend, self._row = comm.size, comm, engine.backend, row
        share = -(-blocks // comm.size)
        self.smallest, self.room = launch_blocks(
            task, engine, layout.block, share, events_each=events_each, sharers=comm.size
        )
        if waited:
            self.smallest = self.room = share
        copies = self._backend.stream(waited=waited)
        rows = self.room * layout.block
        self._lanes = [
            Lane(task, engine, reductions, rows, copies, waited=waited)
            for _ in range(1 if waited else LANES)
        ]
        self._fresh, self._copies = self._lanes, copies
        self._origin = copies.record()

    def take(self, task: Task, most_steps: int | None = None) -> None:
        """Run `task` from now on, as `Lane.take`."""
        for lane in self._lanes:
            lane.take(task, most_steps)
        self._fresh, self._origin = self._lanes, self._copies.record()

    @property
    def seconds(self) -> float:
        """`Lane.seconds` of the first lane."""
        return self._lanes[0].seconds

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers on the device."""
        return sum(lane.nbytes for lane in self._lanes)

    def fresh(self) -> Sequence[Lane]:
        """Return all lanes at the first call."""
        given, self._fresh = self._fresh, []
        return given

    def launch(self, lane: Lane, first: int, end: int, ready: Callable[[Any], None]) -> None:
        """Put the launch on the device; lanes are waited for in the order of their launches."""
        lane.start(first, end)
        ready(lane)

    def intervals(self, lane: Lane) -> tuple[Interval, Interval]:
        """Take the times from the device's own events."""
        return lane.intervals(self._origin)

    def halt(self) -> bool:
        """Through the control words of each launch."""
        requested = [lane.halt() for lane in self._lanes]
        return any(requested)

    def in_flight(self) -> Sequence[InFlight]:
        """Progress that the launches have written."""
        return [result for lane in self._lanes if (result := lane.in_flight()) is not None]

    def poll(self) -> None:
        """Serve MPI: rank 0 hosts the counter."""
        self._comm.poll()

    def use(self) -> None:
        """Let the calling thread work with the device."""
        self._backend.use()

    def describe(self) -> ProfileRow:
        """Device of this rank, and how long its kernels took to compile."""
        return self._row

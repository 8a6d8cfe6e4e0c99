"""A lane: one launch in flight, with its buffers, its stream and its copy to the host.

Each rank keeps three, so that a kernel runs, another's samples travel to the host, and a third's
are written, all at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.kernels.backends import Backend
from tauslab.kernels.backends.base import Event, Stream
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.ensemble.launch import (
    LAUNCHES_IN_FLIGHT,
    LEFT,
    REACHED_TIME,
    RUN_EVENTS,
    STOP,
    Launch,
    SampleBuffers,
)
from tauslab.kernels.ensemble.statistics import Statistics
from tauslab.kernels.ensemble.summaries import Summaries
from tauslab.kernels.ensemble.sums import accumulator_shapes, accumulators
from tauslab.runner.ensemble.task import Task
from tauslab.store.format.layout import Accumulators, Chunk

LANES = LAUNCHES_IN_FLIGHT
_OF_LAUNCH = ("work", "row_counter")  # buffers without a row for each trajectory
LANE_BYTES = 256 << 20  # samples of a lane on the device, and again in pinned memory
_SMALL_BYTES = 1 << 20  # samples of a run that fit in any memory


@dataclass(frozen=True)
class Reductions:
    """Reductions of a launch's samples on the device; None for one that is not recorded."""

    statistics: Statistics | None = None
    summaries: Summaries | None = None

    def __bool__(self) -> bool:
        """Return whether anything is computed from samples."""
        return self.statistics is not None or self.summaries is not None


def build_reductions(task: Task, backend: Backend) -> Reductions:
    """Kernels for the sums, histograms and summaries that are recorded."""
    return Reductions(_statistics(task, backend), _summaries(task, backend))


def _statistics(task: Task, backend: Backend) -> Statistics | None:
    record = task.record
    if not record.statistics and not record.histograms:
        return None
    shape = (len(task.options.times), len(task.counted), len(task.reals))
    histograms = {h.species: (task.species.index(h.species), h.edges) for h in record.histograms}
    return Statistics(backend, shape, histograms, counts=record.statistics)


def _summaries(task: Task, backend: Backend) -> Summaries | None:
    specs = task.record.summaries
    if not specs:
        return None
    times, names = task.options.times, (task.counted, task.reals)
    wanted = {f"summary/{spec.name}": spec.summary(times, *names) for spec in specs}
    return Summaries(backend, times, (len(task.counted), len(task.reals)), wanted)


def layout_row(engine: Engine) -> dict[str, float | str]:
    """Layout in which a device with warps computes equations, for a rank's row of /profile."""
    choice = getattr(engine, "choice", None)
    return {} if choice is None else {"layout": str(choice)}


def lane_rows(task: Task, backend: Backend, block: int, most_bytes: int | None = None) -> int:
    """Trajectories that a lane has room for: whole storage blocks of `block`, at least one.

    `most_bytes` is a limit on their samples below that of a lane.
    """
    row_bytes = task.sample_bytes + 8 * len(task.record.summaries)
    if task.per_sum:
        row_bytes += -(-_sum_bytes(task) // task.per_sum)
    space = most_bytes or LANE_BYTES
    if task.options.total * row_bytes > _SMALL_BYTES:
        space = min(space, backend.free_memory() // (4 * LANES))
    rows = min(task.options.total, space // max(1, row_bytes))
    return max(1, rows // block) * block


def _sum_bytes(task: Task) -> int:
    """Bytes of the sums of a point."""
    record, real = task.record, len(task.reals)
    sizes = {"time": len(task.options.times), "species": len(task.counted), "real": real}
    fields = accumulators(reals=real > 0) if record.statistics else ()
    shapes = accumulator_shapes(fields, sizes, {h.species: h.bins + 2 for h in record.histograms})
    return 8 * sum(math.prod(shape) for shape in shapes.values())


@dataclass(frozen=True)
class InFlight:
    """Reports of running trajectories: events so far, and the latest time reached."""

    events: int
    time: float

    @classmethod
    def read(cls, words: npt.NDArray[np.uint64]) -> InFlight:
        """Read the control words of a launch."""
        reached = words[REACHED_TIME : REACHED_TIME + 1].view(np.float64)
        return cls(int(words[RUN_EVENTS]), float(reached[0]))


NO_REPORT = InFlight(0, 0.0)


@dataclass
class Delivery:
    """The result of a launch; `chunk` lies in buffers that the lane will use again.

    `points` are the points of a sweep that the launch touched, the leading axis of `sums`. Of a
    launch that was `stopped` nothing is of use.
    """

    chunk: Chunk
    sums: Accumulators
    points: slice
    work: npt.NDArray[np.uint64]
    stopped: bool = False
    reported: InFlight = NO_REPORT


class Lane:
    """Buffers for `rows` trajectories, and the launch that fills them.

    Parameters
    ----------
    copies
        The stream on which all lanes of the rank copy to the host.
    waited
        Whether launches are short, so that who starts one may as well do it.
    """

    def __init__(
        self, task: Task, engine: Engine, reductions: Reductions, rows: int, copies: Stream,
        *, waited: bool = False,
    ) -> None:  # fmt: skip
        self._task, self._engine = task, engine
        statistics, summaries = reductions.statistics, reductions.summaries
        self._statistics, self._summaries = statistics, summaries
        backend = engine.backend
        self._stream, self._copies = backend.stream(waited=waited), copies
        times, record = len(task.options.times), task.record
        sampled = record.trajectories or reductions
        summed = record.trajectories or record.statistics
        with_reals = task.reals and (summed or (summaries is not None and summaries.of_observables))
        counts = reals = final = drawn = keep = None
        if sampled:
            counts = backend.empty((rows, times, len(task.counted)), np.int32)
        if with_reals:
            reals = backend.empty((rows, times, len(task.reals)), np.float64)
        if record.final:
            final = backend.empty((rows, len(task.species)), task.final_type)
        if task.drawn:
            drawn = backend.empty((rows, len(task.drawn)), np.float64)
        if task.states:
            keep = backend.empty((rows, len(task.states)), np.float64)
        self._buffers = SampleBuffers.of(
            backend, rows, counts=counts, reals=reals, drawn=drawn, keep=keep,
            scratch=engine.scratch(rows),
            **{"final_amounts" if task.amounts else "final_counts": final},
        )  # fmt: skip
        points = (rows - 2) // task.per_sum + 2 if task.per_sum and rows > 1 else 1
        self._sums = statistics.accumulators(points) if statistics is not None else {}
        held = {"counts": counts, "observables": reals} if record.trajectories else {}
        held |= {"final": final, "drawn": drawn, "keep": keep}
        held |= {name: getattr(self._buffers, name) for name in ("status", *_OF_LAUNCH)}
        self._numbers = summaries.buffers(rows) if summaries is not None else {}
        held |= self._numbers
        self._copied = {k: (v, backend.mirror(v)) for k, v in held.items() if v is not None}
        self._copied_sums = {k: (v, backend.mirror(v)) for k, v in self._sums.items()}
        self._shared = self._shared_rows()
        self._launch: Launch | None = None
        self._first = 0  # trajectory of the launch, in the order of the file
        self._marks: list[Event] = []
        self._seconds_before = math.inf
        self.most_steps: int | None = None

    def _shared_rows(self) -> tuple[Any, Any]:
        """The inputs that all trajectories share, where they do, on the device."""
        return self._upload(self._task.initial[:1]), self._upload(self._task.constants[:1])

    def take(self, task: Task, most_steps: int | None = None) -> None:
        """Run `task` from now on, which differs in the seed and the values of inputs alone.

        Trajectories end after `most_steps`, where these are given.
        """
        if self._marks:
            self._seconds_before, self._marks = self._last_seconds, []
        held, self._task, self.most_steps = self._task, task, most_steps
        if task.initial is not held.initial:
            self._shared = self._shared_rows()
        elif task.constants is not held.constants:
            self._shared = self._shared[0], self._upload(task.constants[:1])

    @property
    def seconds(self) -> float:
        """Seconds that the shorter of the last two launches computed; for ever if there were none.

        One of them may have waited for a processor.
        """
        return min(self._last_seconds, self._seconds_before)

    @property
    def _last_seconds(self) -> float:
        return self._marks[1].seconds_since(self._marks[0]) if self._marks else math.inf

    @cached_property
    def nbytes(self) -> int:
        """Bytes of its buffers on the device."""
        scratch = self._buffers.scratch
        own = scratch if isinstance(scratch, tuple | list) else (scratch,)
        held = (
            *(buffer for buffer, _ in self._copied.values()),
            *self._sums.values(),
            *own,
            self._buffers.counts,
            self._buffers.reals,
        )
        return sum(getattr(buffer, "nbytes", 0) for buffer in held)

    def start(self, first: int, end: int) -> None:
        """Put trajectories ``first .. end - 1`` on the device; returns at once."""
        task, engine, stream = self._task, self._engine, self._stream
        statistics, buffers = self._statistics, self._buffers
        assert task.options.seed is not None
        rows, per_point, per_sum = end - first, task.per_point, task.per_sum
        inputs = task.points_of(first, end) if per_point else slice(first, end)
        self._first = first
        self._launch = Launch(
            first + task.options.first_point * task.options.n,  # the number that draws know
            rows,
            self._rows_of(task.initial, inputs, self._shared[0]),
            self._rows_of(task.constants, inputs, self._shared[1]),
            per_point,
            task.options.first,
            kept=None if task.begun is None else self._upload(task.begun[first:end]),
            seed=task.options.seed,
            max_steps=self.most_steps or task.options.max_steps,
        )
        begun = stream.record()
        engine.start(self._launch, buffers, stream)
        if statistics is not None:
            offset = first % per_sum if per_sum else 0
            samples = (buffers.counts, buffers.reals, rows)
            statistics.add(*samples, self._sums, stream, per_point=per_sum, offset=offset)
        if self._summaries is not None:
            samples = (buffers.counts, buffers.reals, rows)
            self._summaries.compute(*samples, self._numbers, stream)
        computed = stream.record()
        copies, backend = self._copies, engine.backend
        copies.wait_for(computed)
        copying = copies.record()
        for name, (buffer, mirror) in self._copied.items():
            backend.download(buffer, mirror, len(mirror) if name in _OF_LAUNCH else rows, copies)
        touched = task.sums_of(first, end) if per_sum else slice(0, 1)
        for buffer, mirror in self._copied_sums.values():
            points = touched.stop - touched.start
            backend.download(buffer, mirror, points, copies)
        self._marks = [begun, computed, copying, copies.record()]

    def _rows_of(self, table: npt.NDArray[Any], inputs: slice, shared: Any) -> Any:
        """Inputs of a launch: the row that all share, or those of its trajectories or points."""
        return shared if len(table) == 1 else self._upload(table[inputs])

    def _upload(self, table: npt.NDArray[Any]) -> Any:
        """On the launch's stream: on the default one it would wait for other lanes' launches."""
        return self._engine.backend.upload(table, self._stream)

    def wait(self) -> Delivery:
        """Block until samples and sums are on the host."""
        assert self._launch is not None
        self._marks[-1].wait()
        rows = self._launch.rows
        arrays = {k: m[:rows] for k, (_, m) in self._copied.items() if k not in _OF_LAUNCH}
        for name, columns in (("drawn", self._task.drawn), ("keep", self._task.states)):
            if name in arrays:
                arrays |= _columns(columns, arrays.pop(name))
        if self._task.amounts:
            arrays = _divided(self._task, arrays)
        work = self._copied["work"][1].copy()
        words = self._copied["row_counter"][1]
        ending = bool(words[LEFT]), InFlight.read(words)
        chunk = Chunk(self._first, arrays)
        held = {name: mirror for name, (_, mirror) in self._copied_sums.items()}
        if not self._task.per_sum:
            return Delivery(chunk, {k: v[0] for k, v in held.items()}, slice(None), work, *ending)
        points = self._task.sums_of(chunk.start, chunk.start + rows)
        count = points.stop - points.start
        return Delivery(chunk, {k: v[:count] for k, v in held.items()}, points, work, *ending)

    def halt(self) -> bool:
        """Ask the launch in flight to end soon, unfinished; False if there is none.

        Ask again while it has not ended: a launch that has not begun forgets it when it does.
        """
        if not self._marks or self._marks[1].done():
            return False
        self._engine.backend.write_now(self._buffers.row_counter, STOP, 1)
        return True

    @property
    def ended(self) -> bool:
        """Return whether `wait` would return at once."""
        return self._marks[-1].done()

    @property
    def begun(self) -> Event:
        """When the last launch began."""
        return self._marks[0]

    def in_flight(self) -> InFlight | None:
        """Progress of the launch in flight; None if there is none."""
        if not self._marks or not self._marks[0].done() or self._marks[1].done():
            return None
        return InFlight.read(self._engine.backend.read_now(self._buffers.row_counter))

    def intervals(self, origin: Event) -> tuple[tuple[float, float], tuple[float, float]]:
        """When the last launch computed and copied, in seconds since `origin`."""
        begun, computed, copying, copied = (mark.seconds_since(origin) for mark in self._marks)
        return (begun, computed), (copying, copied)


def _columns(names: Sequence[str], rows: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Numbers of each trajectory ``[row, name]`` as the arrays that are stored."""
    return {f"summary/{name}": np.ascontiguousarray(rows[:, j]) for j, name in enumerate(names)}


def _divided(task: Task, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Real quantities as the arrays that are stored: amounts and observables."""
    arrays.pop("counts", None)
    reals = arrays.pop("observables", None)
    if reals is None:
        return arrays
    species = len(task.species)
    parts = {"amounts": reals[..., :species], "observables": reals[..., species:]}
    return arrays | {k: np.ascontiguousarray(v) for k, v in parts.items() if v.shape[-1]}

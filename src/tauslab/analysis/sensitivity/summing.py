"""Sums of what pairs or trajectories give, on the device and over ranks, as integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tauslab.base.errors import DeviceError, ModelError
from tauslab.base.host import in_bytes
from tauslab.base.option_names import warn
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.launch import STOP, SampleBuffers
from tauslab.kernels.ensemble.statistics import Statistics
from tauslab.store.format.layout import Accumulators
from tauslab.store.format.schema import STATUS_VALUES
from tauslab.store.format.statistics import add_accumulators, sum_over_ranks

_MOST_BYTES = 1 << 28  # of the samples of a launch
_MOST_ROWS = 1 << 18
_PORTIONS_OF_A_RANK = 4  # of several, where there are pairs enough, so that they end together
_PORTIONS_OF_ONE = 16  # so that progress is seen
_FEWEST_ROWS = 1 << 12
_ROWS_OF_A_MULTIPROCESSOR = 1 << 11  # that keep it busy
_BYTES_OF_A_SUM = 400  # with its copies on the host
_MOST_SUM_BYTES = 1 << 30  # of the points of a launch
_ENDS = ("overflow", "step_limit", "nan")

Start = Callable[[int, int, Any, SampleBuffers, Any], None]
Report = Callable[[int], None]  # is called with how many more pairs are done


def silent(more: int) -> None:
    """Ignore progress."""


class Summing:
    """Runs launches one after the other and adds up what they give.

    Parameters
    ----------
    points, times, columns
        Sums are ``[point, time, column]``.

    Raises
    ------
    DeviceError
        There is no memory for them.
    """

    def __init__(self, backend: Backend, points: int, times: int, columns: int) -> None:
        needed, free = _BYTES_OF_A_SUM * points * times * columns, backend.free_memory()
        if needed > free:
            raise DeviceError(
                f"sums of {columns} numbers at {times} times take {in_bytes(needed)}, and "
                f"{in_bytes(free)} are free: ask for fewer times or outputs"
            )
        self._backend, self._stream = backend, backend.stream()
        self._points, self._shape = points, (times, columns)
        self._statistics = Statistics(backend, (times, 0, columns), {}, counts=True)
        held = self._statistics.accumulators(points)
        self._into = {name: held[name] for name in held if name.startswith("obs_")}
        self.totals = {k: np.zeros(v.shape, np.uint64) for k, v in self._into.items()}
        self.ended = np.zeros(256, np.int64)
        self._outputs: Any = None
        self._buffers: SampleBuffers | None = None

    def run(
        self, numbers: range, start: Start, comm: Communicator, report: Report,
        rows: Callable[[int], int] = lambda each: each,
    ) -> None:  # fmt: skip
        """Run this rank's share of pairs, or trajectories, with these numbers at every point.

        Parameters
        ----------
        start
            Launches ``first .. first + each - 1`` of every point.
        report
            Called with how many more this rank has run.
        rows
            How many statuses so many at every point have.
        """
        bytes_each = 8 * math.prod(self._shape)
        for first, each in _portions(len(numbers), self._points, bytes_each, self._backend, comm):
            self._add(numbers.start + first, each, rows(each), start)
            report(self._points * each)

    def _add(self, first: int, each: int, rows: int, start: Start) -> None:
        backend, stream = self._backend, self._stream
        outputs, buffers = self._sample_buffers(each, rows)
        start(first, each, outputs, buffers, stream)
        total = self._points * each
        self._statistics.add(None, outputs, total, self._into, stream, per_point=each)
        mirrors = {name: backend.mirror(buffer) for name, buffer in self._into.items()}
        for name, mirror in mirrors.items():
            backend.download(self._into[name], mirror, len(mirror), stream)
        status = backend.mirror(buffers.status)
        backend.download(buffers.status, status, rows, stream)
        mark = stream.record()
        try:
            mark.wait()
        except BaseException:
            backend.write_now(buffers.row_counter, STOP, 1)
            raise
        self.ended += np.bincount(status[:rows], minlength=256)
        add_accumulators(self.totals, mirrors)

    def _sample_buffers(self, each: int, rows: int) -> tuple[Any, SampleBuffers]:
        times, columns = self._shape
        total = self._points * each
        if self._outputs is None or len(self._outputs) != total:
            backend = self._backend
            self._outputs = backend.empty((total, times, columns), np.float64)
            self._buffers = SampleBuffers.of(backend, rows)
        assert self._buffers is not None
        return self._outputs, self._buffers


def summed(
    summing: Summing, comm: Communicator, name: str, each: int, why_nan: str = ""
) -> Accumulators:
    """Sums of all ranks, of `each` at a point; warns how many are left out, and why. Collective.

    Raises
    ------
    ModelError
        All of them did; `why_nan` says why some may have ended by a NaN.
    """
    ended = comm.sum_uint64(summing.ended.astype(np.uint64)).astype(np.int64)
    early = {end: int(n) for end in _ENDS if (n := ended[STATUS_VALUES[end]])}
    if early:
        reported = ", ".join(f"{count} by {end}" for end, count in early.items())
        number = int(ended.sum())
        if sum(early.values()) == number:
            why = f": {why_nan}" if why_nan and "nan" in early else ""
            raise ModelError(f"{name}: all trajectories ended early: {reported}{why}")
        if comm.rank == 0:
            warn(
                f"{name}: of {number} trajectories some ended early and are left out from then "
                f"on: {reported}"
            )
    totals = sum_over_ranks(comm, summing.totals)
    lost = each - int(totals["obs_n"].min())
    if lost and not early and comm.rank == 0:
        warn(
            f"{name}: {lost} of {each} have an output that is not finite and are left out: means "
            "and derivatives are of the others"
        )
    return totals


def _portions(
    n: int, points: int, bytes_each: int, backend: Backend, comm: Communicator
) -> Iterator[tuple[int, int]]:
    """Launches of this rank: number of the first, and how many, of `n` at each point.

    The sums do not depend on them.
    """
    most = min(_MOST_ROWS // points, sample_memory(backend) // (points * bytes_each))
    cuts, fewest = _PORTIONS_OF_ONE, _ROWS_OF_A_MULTIPROCESSOR * backend.multiprocessors
    if comm.size > 1:
        cuts, fewest = comm.size * _PORTIONS_OF_A_RANK, 0
    shared = max(-(-n // cuts), max(fewest, _FEWEST_ROWS) // points)
    each = max(1, min(most, shared, n))
    for number, first in enumerate(range(0, n, each)):
        if number % comm.size == comm.rank:
            yield first, min(each, n - first)


def groups(points: int, cells: int, backend: Backend) -> Iterator[slice]:
    """Points that one launch runs together: all, unless they have too many samples or sums."""
    most = min(sample_memory(backend) // 8, _MOST_SUM_BYTES // _BYTES_OF_A_SUM) // cells
    for start in range(0, points, max(1, most)):
        yield slice(start, min(points, start + max(1, most)))


def sample_memory(backend: Backend) -> int:
    """Bytes that the samples of a launch may take."""
    return min(_MOST_BYTES, backend.free_memory() // 4)

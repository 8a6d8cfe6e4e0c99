"""The base of all engines of ensembles, and of those of networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.kernels.backends.arguments import Arguments
from tauslab.kernels.backends.base import Backend, KernelSource, Program, Stream
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers, SeedKeys, stride_of


class Engine(ABC):
    """Kernels of one model on one device; by default a thread has a trajectory in registers.

    Attributes
    ----------
    entry
        The kernel, the first of its source.
    takes_turns
        Whether launches take trajectories in a given order, and report their lengths.
    """

    takes_turns = False

    def __init__(self, backend: Backend, source: KernelSource) -> None:
        self.backend, self.entry = backend, source.entries[0]
        self.program: Program = backend.compile(source)
        self._keys = SeedKeys(backend)

    def trajectories_in_flight(self, launches: int = 1) -> int:  # noqa: ARG002 - of some engines
        """Trajectories that run at the same time when `launches` share the device."""
        return self.program.resident(self.entry)

    def scratch(self, rows: int) -> Any:  # noqa: ARG002 - of some engines
        """Memory for at most `rows` trajectories in flight, or None."""
        return None

    @abstractmethod
    def start(self, launch: Launch, buffers: SampleBuffers, stream: Stream) -> None:
        """Put one launch on `stream`; the buffers are filled when the stream gets past it."""


class NetworkEngine(Engine):
    """An engine whose kernels sample counts of a network at `times`.

    Parameters
    ----------
    own
        Arguments of this kernel alone, by name, that are the same in each launch.
    """

    def __init__(
        self, backend: Backend, times: Sequence[float], source: KernelSource, **own: Any
    ) -> None:
        super().__init__(backend, source)
        self._own = own
        self._times, self._n_times = backend.upload(np.asarray(times, np.float64)), len(times)

    def start(self, launch: Launch, buffers: SampleBuffers, stream: Stream) -> None:
        """Put one launch on `stream`; the buffers are filled when the stream gets past it."""
        self._launch(launch, buffers, stream, **self._own_arguments(launch, buffers))

    def _own_arguments(self, launch: Launch, buffers: SampleBuffers) -> dict[str, Any]:
        """Arguments of this kernel alone, by name."""
        del launch, buffers
        return self._own

    def _items(self, rows: int, scratch: Any) -> int:
        """Work items of a launch; `scratch` is what the method of that name gave."""
        del scratch
        return self.backend.work_stealing_items(rows, self.program.resident(self.entry))

    def _launch(self, launch: Launch, buffers: SampleBuffers, stream: Stream, **own: Any) -> None:
        values = self._sampling(launch, buffers, stream)
        arguments = self.program.arguments(self.entry, launch=values, **own)
        self._start(launch, buffers, arguments, stream)

    def _start(
        self, launch: Launch, buffers: SampleBuffers, arguments: Arguments, stream: Stream
    ) -> None:
        items = self._items(launch.rows, buffers.scratch)
        self.program.launch(self.entry, items, arguments, stream)

    def _sampling(self, launch: Launch, buffers: SampleBuffers, stream: Stream) -> dict[str, Any]:
        """`EnsembleArguments` of csrc/ensemble/arguments.h, with counters cleared in stream order.

        They are those of every kernel that samples counts of a network.
        """
        buffers.clear_counters(self.backend, stream)
        states = [rows for rows in (launch.kept, buffers.keep) if rows is not None]
        return {
            "keys": self._keys.of(launch.seed, stream), "per_point": launch.per_point,
            "before": launch.before, "first": launch.first, "rows": launch.rows,
            "times": self._times if launch.times is None else launch.times,
            "n_times": self._n_times, "initial": launch.initial,
            "initial_stride": stride_of(launch.initial), "constants": launch.constants,
            "constants_stride": stride_of(launch.constants), "max_steps": launch.max_steps,
            "control": buffers.row_counter, "counts": buffers.counts,
            "observables": buffers.reals, "final_counts": buffers.final_counts,
            "status": buffers.status, "work": buffers.work, "kept": launch.kept,
            "keep": buffers.keep, "kept_words": int(states[0].shape[1]) if states else 0,
            "final_amounts": buffers.final_amounts, "halt": launch.halt, "order": launch.order,
            "lengths": buffers.lengths,
        }  # fmt: skip

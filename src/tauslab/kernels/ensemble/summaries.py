"""One number per trajectory, computed on the device from the samples of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.kernels.backends.base import Backend, KernelSource, Stream
from tauslab.model.arrays import Array

_ENTRIES = ("oscillation", "first_passage", "extinction", "time_above", "statistic")
_OSCILLATION = {"amplitude": 0, "period": 1}  # numbers as in csrc/ensemble/summaries.cc
_STATISTIC = {"mean": 0, "maximum": 1, "minimum": 2}

KINDS = (*_OSCILLATION, "first-passage", "time-above", "extinction", *_STATISTIC)


@dataclass(frozen=True)
class Summary:
    """What to compute, of which column of a sample buffer.

    Parameters
    ----------
    kind
        One of `KINDS`.
    column
        Number of the species, or with `real` of the observable.
    begin, end
        Sample times ``begin .. end - 1`` are looked at; ``first-passage`` and ``extinction`` look
        at all. Those of ``amplitude`` and ``period`` must be evenly spaced.
    level
        Threshold of ``first-passage`` and ``time-above``.
    direction
        Of ``first-passage``: 1 up, -1 down, 0 away from where the trajectory begins.
    """

    kind: str
    column: int
    real: bool
    begin: int
    end: int
    level: float = 0.0
    direction: int = 0


class Summaries:
    """Kernels that summarise the trajectories of a launch, each number by the name it is given.

    Parameters
    ----------
    times
        Sample times ``[time]``.
    columns
        Numbers of recorded species and of observables.
    """

    def __init__(
        self,
        backend: Backend,
        times: Array,
        columns: tuple[int, int],
        summaries: Mapping[str, Summary],
    ) -> None:
        self._backend = backend
        self._columns, self._summaries = columns, dict(summaries)
        self._host_times = np.asarray(times, np.float64)
        self._times = backend.upload(self._host_times)
        self._program = backend.compile(KernelSource("ensemble/summaries.cc", _ENTRIES))

    @property
    def of_observables(self) -> bool:
        """Whether a summary reads observables."""
        return any(summary.real for summary in self._summaries.values())

    def buffers(self, rows: int) -> dict[str, Any]:
        """Device memory f64 ``[rows]`` for each summary, by name."""
        return {name: self._backend.empty((rows,), np.float64) for name in self._summaries}

    def compute(
        self,
        counts: Any,
        observables: Any,
        rows: int,
        into: Mapping[str, Any],
        stream: Stream,
    ) -> None:
        """Summarise the first `rows` rows of the sample buffers, in stream order."""
        for name, summary in self._summaries.items():
            samples = [None, observables] if summary.real else [counts, None]
            shape = [rows, len(self._host_times), self._columns[summary.real], summary.column]
            entry, own = self._own_arguments(summary)
            self._program.launch(entry, rows, [*samples, *shape, *own, into[name]], stream)

    def _own_arguments(self, summary: Summary) -> tuple[str, list[Any]]:
        """Kernel of a summary, and what only this kernel is told."""
        window = [summary.begin, summary.end]
        if summary.kind in _OSCILLATION:
            times = self._host_times[summary.begin : summary.end]
            spacing = float((times[-1] - times[0]) / (len(times) - 1))
            return "oscillation", [*window, spacing, _OSCILLATION[summary.kind]]
        if summary.kind in _STATISTIC:
            return "statistic", [*window, _STATISTIC[summary.kind]]
        if summary.kind == "first-passage":
            return "first_passage", [self._times, float(summary.level), summary.direction]
        if summary.kind == "time-above":
            return "time_above", [*window, self._times, float(summary.level)]
        return "extinction", [self._times]

"""One number per trajectory, computed on the device from the samples of a launch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, DeviceArray
from tauslab.kernels.backends.base import Backend, KernelSource, Stream


@dataclass(frozen=True)
class Kind:
    """How a kind of summary is computed and written.

    Parameters
    ----------
    entry, what
        Kernel of csrc/ensemble/summaries.cc, and which of its numbers.
    form
        How it is written, after its name.
    numbers
        The fewest and most numbers after the quantity. The first is the level where there has to be
        one; the window follows.
    least
        The fewest samples in its window.
    even
        Whether these must be evenly spaced.
    cut
        Whether it adds up intervals between samples, which the ends of the window cut.
    """

    entry: str
    what: int
    form: str
    numbers: tuple[int, int]
    least: int = 1
    even: bool = False
    cut: bool = False


_WAVE, _WINDOW = "SPECIES[:AFTER]", "SPECIES[:FROM[:TO]]"
KINDS: Mapping[str, Kind] = {
    "amplitude": Kind("oscillation", 0, _WAVE, (0, 1), least=16, even=True),
    "period": Kind("oscillation", 1, _WAVE, (0, 1), least=16, even=True),
    "first-passage": Kind("first_passage", 0, "SPECIES:LEVEL[:up|down]", (1, 1)),
    "time-above": Kind("time_above", 0, "SPECIES:LEVEL[:FROM[:TO]]", (1, 3), least=2, cut=True),
    "extinction": Kind("extinction", 0, "SPECIES", (0, 0)),
    "mean": Kind("statistic", 0, _WINDOW, (0, 2)),
    "maximum": Kind("statistic", 1, _WINDOW, (0, 2)),
    "minimum": Kind("statistic", 2, _WINDOW, (0, 2)),
}
_ENTRIES = tuple(dict.fromkeys(kind.entry for kind in KINDS.values()))


@dataclass(frozen=True)
class Summary:
    """A number to compute of a column of a sample buffer.

    Parameters
    ----------
    kind
        One of `KINDS`.
    column
        Number of the species, or with `real` of the observable.
    begin, end
        Sample times ``begin .. end - 1`` are looked at; ``first-passage`` and ``extinction`` look
        at all.
    level
        Threshold of ``first-passage`` and ``time-above``.
    direction
        Of ``first-passage``: 1 up, -1 down, 0 away from where the trajectory begins.
    ends
        Times at which the window begins and ends.
    """

    kind: str
    column: int
    real: bool
    begin: int
    end: int
    level: float = 0.0
    direction: int = 0
    ends: tuple[float, float] = (-math.inf, math.inf)


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
        self._columns = columns
        self._summaries = dict(summaries)
        self._host_times = np.asarray(times, np.float64)
        self._times = {
            name: backend.upload(
                np.clip(self._host_times, *one.ends) if KINDS[one.kind].cut else self._host_times
            )
            for name, one in self._summaries.items()
        }
        self._program = backend.compile(KernelSource("ensemble/summaries.cc", _ENTRIES))

    @property
    def of_observables(self) -> bool:
        """Return whether a summary reads observables."""
        return any(summary.real for summary in self._summaries.values())

    def buffers(self, rows: int) -> dict[str, Any]:
        """Device memory f64 ``[rows]`` for each summary, by name."""
        return {name: self._backend.empty((rows,), np.float64) for name in self._summaries}

    def compute(
        self, counts: DeviceArray | None, observables: DeviceArray | None, rows: int,
        into: Mapping[str, Any], stream: Stream,
    ) -> None:  # fmt: skip
        """Summarise the first `rows` rows of the sample buffers, in stream order."""
        for name, summary in self._summaries.items():
            kind = KINDS[summary.kind]
            entry = kind.entry
            arguments = self._program.arguments(
                entry, counts=None if summary.real else counts,
                reals=observables if summary.real else None, rows=rows,
                n_times=len(self._host_times), n_columns=self._columns[summary.real],
                column=summary.column, out=into[name], begin=summary.begin, end=summary.end,
                times=self._times[name], spacing=self._spacing(summary), level=summary.level,
                direction=summary.direction, what=kind.what,
            )  # fmt: skip
            self._program.launch(entry, rows, arguments, stream)

    def _spacing(self, summary: Summary) -> float:
        """Time between samples that are evenly spaced; of kinds that do not need this, 0."""
        if not KINDS[summary.kind].even:
            return 0.0
        times = self._host_times[summary.begin : summary.end]
        return float((times[-1] - times[0]) / (len(times) - 1))

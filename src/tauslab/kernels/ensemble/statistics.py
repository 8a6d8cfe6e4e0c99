"""Integer statistics and histograms of a launch, accumulated on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, DeviceArray
from tauslab.kernels.backends.base import Backend, KernelSource, Stream
from tauslab.kernels.ensemble.sums import accumulator_shapes, accumulators

_ENTRIES = ("count_statistics", "count_histogram", "real_ranges", "real_statistics")
_ROWS_PER_ITEM = 256  # as in csrc/ensemble/statistics.cc


class Statistics:
    """Kernels that add a launch's samples to accumulators.

    Parameters
    ----------
    shape
        Numbers of sample times, recorded species and observables.
    histograms
        For each, the column of its species and its bin edges ``[bins + 1]``.
    counts
        Whether sums over counts are wanted (otherwise histograms only).
    """

    def __init__(
        self, backend: Backend, shape: tuple[int, int, int],
        histograms: Mapping[str, tuple[int, Array]], *, counts: bool,
    ) -> None:  # fmt: skip
        self._backend = backend
        self._times, self._species, self._observables = shape
        self._counts = counts
        self._program = backend.compile(KernelSource("ensemble/statistics.cc", _ENTRIES))
        self._histograms = {
            name: (column, len(edges) - 1, backend.upload(np.asarray(edges, np.float64)))
            for name, (column, edges) in histograms.items()
        }

    def accumulators(self, points: int = 1) -> dict[str, Any]:
        """New device accumulators, all uint64, named as the writers know them.

        Each has room for `points` points of a sweep, its first axis.
        """
        sizes = {"time": self._times, "species": self._species, "real": self._observables}
        fields = accumulators(reals=self._observables > 0) if self._counts else ()
        cells = {name: bins + 2 for name, (_, bins, _) in self._histograms.items()}
        shapes = accumulator_shapes(fields, sizes, cells)
        return {k: self._backend.empty((points, *s), np.uint64) for k, s in shapes.items()}

    def add(
        self, counts: DeviceArray | None, observables: DeviceArray | None, rows: int,
        into: Mapping[str, Any], stream: Stream, *, per_point: int = 0, offset: int = 0,
    ) -> None:  # fmt: skip
        """Zero `into` and add the first `rows` rows of the sample buffers, in stream order.

        In a sweep every point has `per_point` trajectories, `offset` of which came before the
        launch at its first point; its points go to the first rows of the accumulators.
        """
        for buffer in into.values():
            self._backend.clear(buffer, stream)
        if not per_point:
            per_point, offset = rows, 0
        launch = {"rows": rows, "per_point": per_point, "offset": offset}
        chunks = -(-min(rows, per_point) // _ROWS_PER_ITEM) * -(-(offset + rows) // per_point)
        times, species = self._times, self._species
        data = {"counts": counts, "launch": launch, "n_times": times, "n_species": species}
        if self._counts and species:
            sums = {field.name: into[field.name] for field in accumulators(reals=False)}
            arguments = self._program.arguments("count_statistics", **data, **sums)
            self._program.launch("count_statistics", chunks * times * species, arguments, stream)
        if self._counts and self._observables:
            self._add_reals(observables, launch, chunks, into, stream)
        for name, (column, bins, edges) in self._histograms.items():
            arguments = self._program.arguments(
                "count_histogram",
                **data,
                species=column,
                edges=edges,
                bins=bins,
                cells=into[f"histogram/{name}"],
            )
            self._program.launch("count_histogram", chunks * times, arguments, stream)

    def _add_reals(
        self, observables: DeviceArray | None, launch: Mapping[str, int], chunks: int,
        into: Mapping[str, Any], stream: Stream,
    ) -> None:  # fmt: skip
        columns = self._times * self._observables
        data = {"values": observables, "launch": launch, "columns": columns}
        top = into["obs_top"]
        ranges = self._program.arguments("real_ranges", **data, top=top, low=into["obs_low"])
        self._program.launch("real_ranges", chunks * columns, ranges, stream)
        sums = self._program.arguments(
            "real_statistics",
            **data,
            top=top,
            n=into["obs_n"],
            infinite=into["obs_infinite"],
            sum=into["obs_sum"],
            squares=into["obs_sq"],
        )
        self._program.launch("real_statistics", chunks * columns, sums, stream)

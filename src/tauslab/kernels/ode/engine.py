"""The ODE engine: ensembles of trajectories of ordinary differential equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tauslab.base.arrays import Array
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid, Stream
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.ensemble.launch import LAUNCHES_IN_FLIGHT, Launch, SampleBuffers, stride_of
from tauslab.kernels.ode.codegen import (
    LONGEST,
    LONGEST_OF_ADAPTIVE,
    CodeWriter,
    ode_header,
)
from tauslab.kernels.ode.codegen_parts import group_functions, jacobian_functions
from tauslab.kernels.ode.codegen_past import history_words
from tauslab.kernels.ode.jacobian import jacobian
from tauslab.kernels.ode.layouts import LANES, OdeLayout, layout_of
from tauslab.kernels.ode.lowering import OdeSystem, spans, spans_from
from tauslab.kernels.ode.priors import Priors
from tauslab.kernels.ode.settings import OdeSettings

# Where a kernel is.
FILES = {
    "ode_rk4": "ode/rk4.cc",
    "ode_dopri5": "ode/dopri5.cc",
    "ode_rosenbrock": "ode/rosenbrock.cc",
    "ode_threads": "ode/blocks/threads.cc",
    "ode_warps": "ode/blocks/warps.cc",
}
# Trajectories for each thread from which a vector of them is worth half a second more of compiling,
# and variables up to which the state of one fits on a thread's stack: a megabyte.
FEWEST_ON_LANES, MOST_ON_LANES = 8, 1000
# Cells of an elimination that is written as statements: registers hold them beside six stages.
MOST_UNROLLED = 40
# `CountJob` of csrc/ode/blocks/count_samples.h where nothing is counted.
_NO_INTERVALS = {"edges": None, "first": None, "cells": None}
NOTHING_COUNTED: dict[str, Any] = {
    "variables": _NO_INTERVALS,
    "n_parameters": 0,
    "parameters": _NO_INTERVALS,
    "n_tables": 0,
    "digits": None,
    "first_digit": None,
    "first_cell": None,
    "counts": None,
    "planes": None,
    "stride": 0,
}


class _Strides(NamedTuple):
    """From one number to the next, in samples and in what was drawn."""

    row: int
    time: int
    quantity: int
    drawn_row: int
    drawn_prior: int


class Ode(Engine):
    """Integrates the trajectories of a system on one backend.

    Parameters
    ----------
    times
        Sample times ``[time]``, the first at 0 or later.
    priors
        Inputs that are drawn for every trajectory.
    wide
        Whether samples are doubles; otherwise they have the precision of the settings.
    choice
        A layout in place of that of the rule, on a device with warps.
    trajectories
        How many there will be about; 0 for very many.
    planes
        Of bins, that a block needs to count samples; `counts` says whether launches do.
    """

    def __init__(  # noqa: PLR0913
        self,
        backend: Backend,
        system: OdeSystem,
        times: Sequence[float],
        settings: OdeSettings,
        *,
        priors: Priors | None = None,
        wide: bool = True,
        choice: OdeLayout | None = None,
        trajectories: int = 0,
        planes: int = 0,
    ) -> None:
        assert settings.solver != "auto", "a solver must be chosen first"
        if system.looks_back and (settings.solver == "rk4" or settings.precision == "single"):
            raise ConfigError(
                "the model has delays, which need steps that adapt and double precision: "
                f"{opt('solver', 'dopri5')} or rosenbrock, {opt('precision', 'double')}"
            )
        if system.triggered and settings.solver == "rk4":
            raise ConfigError(
                f"{opt('solver', 'rk4')} makes fixed steps and finds no trigger of an event "
                "between them: use dopri5 or rosenbrock"
            )
        self.system, self.settings = system, settings
        self.priors = priors or Priors()
        self._n_times = len(times)
        self._real = np.dtype(np.float32 if settings.precision == "single" else np.float64)
        self.sample_dtype = np.dtype(
            np.float64 if wide or settings.precision == "double" else np.float32
        )
        entry = f"ode_{settings.solver}"
        self._elimination: dict[str, Any] = {}
        self._words = 0  # of memory that a trajectory in flight needs beside registers
        self.choice: OdeLayout | None = None
        more, block_bytes = None, 0
        if settings.solver == "rosenbrock":
            more = self._with_jacobian(backend)
        elif settings.solver == "rk4" and backend.style.warp == LANES and system.variables:
            self.choice = choice or layout_of(system, settings.precision, planes)
            entry, block_bytes = self.choice.entry, self.choice.bytes_of_a_block
            more = with_layout(self.choice)
        self._words += history_words(system, settings.delay_history)
        longest = LONGEST if settings.solver == "rk4" else LONGEST_OF_ADAPTIVE
        lanes = on_lanes(backend, system, settings, trajectories)
        header = ode_header(
            system, precision=settings.precision, wide=wide, more=more, longest=longest,
            lanes=lanes, delay_history=settings.delay_history,
        )  # fmt: skip
        super().__init__(
            backend,
            KernelSource(FILES[entry], (entry,), {"model.h": header}, block_bytes=block_bytes),
        )
        self._kept_spans: dict[str, tuple[bytes, Any]] = {}  # arrays, and where they are uploaded
        self._spans = self._uploaded_spans(times)
        self._priors = self._uploaded_priors()
        # Trajectories of a thread at a time, where it has several.
        self._together = (
            self.program.resident(self.entry) // backend.multiprocessors if lanes else 0
        )

    def between(self, start: float, end: float) -> None:
        """Let launches go from `start` to one sample at `end`, and not from 0 to the times.

        States are those that launches are given as `kept`, f64 ``[rows, variables]``; the steps of
        methods that adapt them go from one launch to the next in `SampleBuffers.steps`.
        """
        assert self._n_times == 1
        self._spans = self._uploaded_spans([end], start)

    def _uploaded_spans(self, times: Sequence[float], start: float = 0.0) -> dict[str, Any]:
        """Parts of time between samples, events and jumps, as the kernels take them."""
        cut = spans(times, self.system.events, self.system.jumps)
        if start > 0:
            cut = spans_from(cut, start)
        n = len(cut.end)
        times_of = self._uploaded("times", np.concatenate([cut.begin, cut.end]))
        return {
            "begin": times_of[:n],
            "end": times_of[n:],
            "event": self._uploaded("event", cut.event),
            "sample": self._uploaded("sample", cut.sample),
            "n_spans": n,
        }

    def _uploaded(self, name: str, array: Array) -> Any:
        """An array on the device: the one of the call before, where it is the same."""
        before, numbers = self._kept_spans.get(name), array.tobytes()
        if before is None or before[0] != numbers:
            before = self._kept_spans[name] = numbers, self.backend.upload(array)
        return before[1]

    def _uploaded_priors(self) -> dict[str, Any]:
        """Distributions drawn for every trajectory, as the kernels take them."""
        numbers, table = self.priors.numbers(self.system.inputs), self.priors.table
        return {
            "prior": self.backend.upload(numbers) if len(numbers) else None,
            "count": len(numbers),
            "table": self.backend.upload(table) if table.size else None,
            "rows": table.shape[0],
            "columns": table.shape[1],
        }

    def _with_jacobian(self, backend: Backend) -> Callable[[OdeSystem, CodeWriter], str]:
        """Text for the stiff method: derivatives in the header, tables of an elimination."""
        result = jacobian(self.system)
        solve = result.elimination
        tables = {
            "source": solve.source,
            "columns": solve.columns,
            "starts": solve.starts,
            "lower": solve.lower,
            "order": solve.order,
        }
        self._elimination = {
            name: backend.upload(t if t.size else t.reshape(0)) for name, t in tables.items()
        }
        unrolled = 0 < solve.cells <= MOST_UNROLLED and not self.system.looks_back
        self._words = 0 if unrolled else solve.cells + len(result.nodes)
        return lambda _, writer: jacobian_functions(result, writer, unrolled=unrolled)

    def trajectories_in_flight(self, launches: int = 1) -> int:
        """Trajectories that run at the same time."""
        if self.choice is not None and self.choice.in_blocks:
            return self._blocks(self.choice) * self.choice.width
        resident = self.program.resident(self.entry)
        if not self._words:
            return resident
        share = self.backend.free_memory() // (2 * launches)
        return max(1, min(resident, share // (self._words * self._real.itemsize)))

    def _blocks(self, choice: OdeLayout) -> int:
        return max(1, self.program.resident_blocks(self.entry, choice.threads_of_a_block))

    def _items(self, rows: int) -> int:
        return min(rows, self.trajectories_in_flight(LAUNCHES_IN_FLIGHT))

    def scratch(self, rows: int) -> Any:
        """Memory of trajectories in flight; None where registers hold it."""
        if not self._words:
            return None
        items = self.backend.launched_items(self._items(rows))
        # Of vectors one more, for their alignment: `own_numbers` of csrc/ode/lanes.h.
        words = (self._words + 1) * self._together if self._together else self._words
        return self.backend.empty((items, words), self._real)

    def start(self, launch: Launch, buffers: SampleBuffers, stream: Stream) -> None:
        """Put one launch on `stream`; samples go to ``buffers.reals`` by row.

        `launch.constants` holds the inputs ``[inputs, names]``.
        """
        quantities = len(self.system.quantities)
        strides = _Strides(self._n_times * quantities, quantities, 1, len(self.priors.priors), 1)
        self._launch(launch, buffers, strides, stream)

    def start_columns(
        self,
        launch: Launch,
        buffers: SampleBuffers,
        stream: Stream,
        counting: Mapping[str, Any] | None = None,
    ) -> None:
        """Do the same with samples of all rows side by side: ``[time, quantity, row]``.

        ``buffers.reals`` has `sample_dtype` and this shape, with ``launch.rows`` rows, and
        ``buffers.drawn`` the shape ``[prior, row]``. Without ``reals`` samples are counted
        as the arguments `counting` say (`CountTables.arguments`), where `counts`.
        """
        assert buffers.reals is not None or (counting is not None and self.counts)
        time = len(self.system.quantities) * launch.rows
        strides = _Strides(1, time, launch.rows, 1, launch.rows)
        self._launch(launch, buffers, strides, stream, counting)

    @property
    def counts(self) -> bool:
        """Return whether launches can count their samples."""
        return self.choice is not None and self.choice.planes > 0

    def _launch(
        self,
        launch: Launch,
        buffers: SampleBuffers,
        strides: _Strides,
        stream: Stream,
        counting: Mapping[str, Any] | None = None,
    ) -> None:
        buffers.clear_counters(self.backend, stream)
        values = {
            "job": self._job(launch, buffers, strides, stream),
            **self._own_arguments(launch.max_steps, buffers.scratch),
        }
        choice = self.choice
        if choice is not None and choice.in_blocks:
            values["count"] = counting or NOTHING_COUNTED
            arguments = self.program.arguments(self.entry, **values)
            wanted = -(-launch.rows // choice.width)
            grid = LaunchGrid(min(self._blocks(choice), wanted), choice.threads_of_a_block)
            self.program.launch_blocks(self.entry, grid, arguments, stream)
            return
        items = min(launch.rows, self.program.resident(self.entry))
        if buffers.scratch is not None:
            items = min(items, int(buffers.scratch.shape[0]))
        arguments = self.program.arguments(self.entry, **values)
        self.program.launch(self.entry, items, arguments, stream)

    def _job(
        self, launch: Launch, buffers: SampleBuffers, strides: _Strides, stream: Stream
    ) -> dict[str, Any]:
        """`OdeJob` of csrc/ode/ode.h, which every method is given."""
        return {
            "keys": self._keys.of(launch.seed, stream),
            "per_point": launch.per_point,
            "first": launch.first,
            "rows": launch.rows,
            **self._spans,
            "inputs": launch.constants,
            "inputs_stride": stride_of(launch.constants),
            "kept": launch.kept,
            "kept_step": buffers.steps,
            "kept_queue": buffers.kept_queue,
            "keep_queue": buffers.keep_queue,
            "priors": self._priors,
            "next_row": buffers.row_counter,
            "samples": {
                "at": buffers.reals,
                "row_stride": strides.row,
                "time_stride": strides.time,
                "quantity_stride": strides.quantity,
            },
            "drawn": buffers.drawn,
            "drawn_row": strides.drawn_row,
            "drawn_prior": strides.drawn_prior,
            "final": buffers.final_amounts,
            "final_count": self.system.species,
            "last": self._n_times - 1,
            "status": buffers.status,
            "steps": buffers.work,
        }

    def _own_arguments(self, max_steps: int, scratch: Any) -> dict[str, Any]:
        """Kernel arguments that only this method has."""
        given = self.settings
        if given.solver == "rk4":
            return {"substeps": given.substeps}
        own = {"relative": given.rtol, "absolute": given.atol, "most": max_steps}
        if given.solver == "dopri5":
            return {**own, "scratch": scratch}
        return {**own, **self._elimination, "scratch": scratch}


def on_lanes(backend: Backend, system: OdeSystem, settings: OdeSettings, trajectories: int) -> bool:
    """Return whether a thread runs a trajectory on each of its SIMD lanes; changes no result.

    `trajectories` is how many the device will run about, 0 for very many.
    """
    each = trajectories / backend.multiprocessors
    small = len(system.variables) <= MOST_ON_LANES
    fits = settings.precision == "double" and not system.watched
    return backend.style.on_lanes(each, FEWEST_ON_LANES) and small and fits


def with_layout(choice: OdeLayout) -> Callable[[OdeSystem, CodeWriter], str] | None:
    """Text that the layout needs in the header."""
    sizes = (
        f"constexpr i64 BLOCK_BYTES = {choice.bytes_of_a_block};\n"
        f"constexpr int LEAST_BLOCKS = {max(1, choice.blocks)};\n"
        f"constexpr int BIN_PLANES = {choice.planes};\n"
    )
    if choice.groups:
        return lambda system, writer: sizes + group_functions(system, choice.groups, writer)
    if not choice.in_blocks:
        return None
    sizes += (
        f"constexpr bool SHARED_CONSTANTS = {str(choice.shared_constants).lower()};\n"
        f"constexpr int COMPUTE_THREADS = {choice.width};\n"
    )
    return lambda *_: sizes

"""The ODE engine: ensembles of trajectories of ordinary differential equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.kernels.backends.base import Backend, Grid, KernelSource, Program, Stream
from tauslab.kernels.ode_codegen import (
    PRECISIONS,
    Writer,
    ode_header,
)
from tauslab.kernels.ode_jacobian import jacobian
from tauslab.kernels.ode_lowering import OdeSystem, spans
from tauslab.kernels.ode_parts_codegen import group_functions, jacobian_functions
from tauslab.kernels.ode_placement import LANES, Choice, chosen
from tauslab.kernels.ode_sampling import Priors
from tauslab.kernels.ssa import (
    LAUNCHES_IN_FLIGHT,
    MAX_STEPS,
    Launch,
    SampleBuffers,
    philox_keys,
    stride_of,
)
from tauslab.model.errors import ConfigError

SOLVERS = ("rk4", "dopri5", "rosenbrock")
LAYOUTS = ("auto", "thread", "warps")
DEFAULT_SUBSTEPS = 10
MOST_SUBSTEPS = 2**40


@dataclass(frozen=True)
class OdeSettings:
    """How equations are integrated.

    Parameters
    ----------
    solver
        ``rk4``: fixed steps; ``dopri5``: steps that adapt; ``rosenbrock``: the same for stiff
        equations.
    substeps
        Of ``rk4``: steps between one sample or event and the next.
    rtol, atol
        Of the others: bounds on the error of a step, relative to a variable and absolute (in the
        unit of amounts).
    precision
        ``double`` or ``single``.
    layout
        Of ``rk4`` on a device with warps: ``thread``, a trajectory per thread; ``warps``, its
        equations spread over several warps; ``auto`` takes what is predicted to be faster. Changes
        no result.

    Raises
    ------
    ConfigError
        A choice that is not known, or a number outside what is allowed.
    """

    solver: str = "rk4"
    substeps: int = DEFAULT_SUBSTEPS
    rtol: float = 1e-6
    atol: float = 1e-9
    precision: str = "double"
    layout: str = "auto"

    def __post_init__(self) -> None:
        """Check the choices."""
        if self.solver not in SOLVERS:
            raise ConfigError(
                f"--ode-solver {self.solver!r} is not known; allowed are {', '.join(SOLVERS)}"
            )
        if self.layout not in LAYOUTS:
            raise ConfigError(
                f"--ode-layout {self.layout!r} is not known; allowed are {', '.join(LAYOUTS)}"
            )
        if self.precision not in PRECISIONS:
            raise ConfigError(
                f"--precision {self.precision!r} is not known; allowed are {', '.join(PRECISIONS)}"
            )
        if not 1 <= self.substeps <= MOST_SUBSTEPS:
            raise ConfigError(
                f"--substeps {self.substeps} is not allowed: a whole number from 1 to "
                f"{MOST_SUBSTEPS}"
            )
        for option, value in (("--rtol", self.rtol), ("--atol", self.atol)):
            if not 0 < value < 1e300:
                raise ConfigError(f"{option} {value:g} is not allowed: a finite number above 0")


class Ode:
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
        A layout in place of the predicted one, on a device with warps.
    """

    def __init__(
        self,
        backend: Backend,
        system: OdeSystem,
        times: Sequence[float],
        settings: OdeSettings,
        *,
        priors: Priors | None = None,
        wide: bool = True,
        choice: Choice | None = None,
    ) -> None:
        self.backend, self.system, self.settings = backend, system, settings
        self.priors = priors or Priors()
        self._n_times = len(times)
        cut = spans(times, system.events)
        self._spans = [backend.upload(a) for a in (cut.begin, cut.end, cut.event, cut.sample)]
        self._n_spans = len(cut.end)
        numbers, table = self.priors.numbers(system.inputs), self.priors.table
        self._priors = [
            backend.upload(numbers) if len(numbers) else None, len(numbers),
            backend.upload(table) if table.size else None, *table.shape,
        ]  # fmt: skip
        self._round_keys: dict[int, Any] = {}
        self._real = np.dtype(np.float32 if settings.precision == "single" else np.float64)
        self.sample_dtype = np.dtype(
            np.float64 if wide or settings.precision == "double" else np.float32
        )
        self.entry = f"ode_{settings.solver}"
        self._elimination: list[Any] = []
        self._words = 0  # of memory that a trajectory in flight needs beside registers
        self.choice: Choice | None = None
        more, block_bytes = None, 0
        if settings.solver == "rosenbrock":
            more = self._with_jacobian()
        elif settings.solver == "rk4" and backend.style.warps and system.variables:
            self.choice = choice or chosen(system, settings.precision, settings.layout)
            if self.choice.placement is not None:
                self.entry, block_bytes = "ode_warps", self.choice.bytes_of_a_block
                more = with_groups(self.choice)
        header = ode_header(system, precision=settings.precision, wide=wide, more=more)
        source = KernelSource(
            f"{self.entry}.cc", (self.entry,), {"model.h": header}, block_bytes=block_bytes
        )
        self.program: Program = backend.compile(source)

    def _with_jacobian(self) -> Callable[[OdeSystem, Writer], str]:
        """What the stiff method needs: derivatives in the header, tables of an elimination."""
        found = jacobian(self.system)
        solve = found.elimination
        tables = (solve.source, solve.diagonal, solve.steps, solve.starts)
        self._elimination = [self.backend.upload(t if t.size else t.reshape(0)) for t in tables]
        self._words = solve.cells + len(found.nodes)
        return lambda _, writer: jacobian_functions(found, writer)

    def trajectories_in_flight(self, launches: int = 1) -> int:
        """Trajectories that run at the same time."""
        if self.entry == "ode_warps":
            return self._blocks() * self._lanes_of_a_block
        resident = self.program.resident(self.entry)
        if not self._words:
            return resident
        share = self.backend.free_memory() // (2 * launches)
        return max(1, min(resident, share // (self._words * self._real.itemsize)))

    @property
    def _threads_of_a_block(self) -> int:
        assert self.choice is not None
        return LANES * self.choice.warps * self.choice.groups

    @property
    def _lanes_of_a_block(self) -> int:
        assert self.choice is not None
        return LANES * self.choice.groups

    def _blocks(self) -> int:
        return max(1, self.program.resident_blocks(self.entry, self._threads_of_a_block))

    def _items(self, rows: int) -> int:
        return min(rows, self.trajectories_in_flight(LAUNCHES_IN_FLIGHT))

    def scratch(self, rows: int) -> Any:
        """Memory of trajectories in flight; None where registers hold it."""
        if not self._words:
            return None
        items = self.backend.launched_items(self._items(rows))
        return self.backend.empty((items, self._words), self._real)

    def start(
        self,
        launch: Launch,
        buffers: SampleBuffers,
        stream: Stream,
        *,
        seed: int,
        max_steps: int = MAX_STEPS,
    ) -> None:
        """Put one launch on `stream`; samples go to ``buffers.observables`` by row.

        `launch.constants` holds the inputs ``[inputs, names]``.
        """
        quantities = len(self.system.quantities)
        strides = (self._n_times * quantities, quantities, 1, len(self.priors.priors), 1)
        self._launch(launch, buffers, strides, stream, seed=seed, max_steps=max_steps)

    def start_columns(
        self,
        launch: Launch,
        buffers: SampleBuffers,
        stream: Stream,
        *,
        seed: int,
        max_steps: int = MAX_STEPS,
    ) -> None:
        """The same with samples of all rows side by side: ``[time, quantity, row]``.

        ``buffers.observables`` has `sample_dtype` and this shape, with ``launch.rows`` rows, and
        ``buffers.drawn`` the shape ``[prior, row]``.
        """
        strides = (1, len(self.system.quantities) * launch.rows, launch.rows, 1, launch.rows)
        self._launch(launch, buffers, strides, stream, seed=seed, max_steps=max_steps)

    def _launch(
        self,
        launch: Launch,
        buffers: SampleBuffers,
        strides: tuple[int, ...],
        stream: Stream,
        *,
        seed: int,
        max_steps: int,
    ) -> None:
        backend = self.backend
        backend.clear(buffers.row_counter, stream)
        backend.clear(buffers.work, stream)
        arguments = [
            self._key(seed), launch.per_point, launch.first, launch.rows,
            *self._spans, self._n_spans, launch.constants, stride_of(launch.constants),
            *self._priors, buffers.row_counter, buffers.observables, *strides[:3],
            buffers.drawn, *strides[3:],
            buffers.final, self.system.species, self._n_times - 1, buffers.status, buffers.work,
            *self._own_arguments(max_steps, buffers.scratch),
        ]  # fmt: skip
        if self.entry == "ode_warps":
            blocks = min(self._blocks(), -(-launch.rows // self._lanes_of_a_block))
            grid = Grid(blocks, self._threads_of_a_block)
            self.program.launch_blocks(self.entry, grid, arguments, stream)
            return
        items = min(launch.rows, self.program.resident(self.entry))
        if buffers.scratch is not None:
            items = min(items, int(buffers.scratch.shape[0]))
        self.program.launch(self.entry, items, arguments, stream)

    def _own_arguments(self, max_steps: int, scratch: Any) -> list[Any]:
        """Kernel arguments that only this method has."""
        chosen = self.settings
        if chosen.solver == "rk4":
            return [chosen.substeps]
        own = [chosen.rtol, chosen.atol, np.uint64(max_steps)]
        return own if chosen.solver == "dopri5" else [*own, *self._elimination, scratch]

    def _key(self, seed: int) -> Any:
        """The seed as the kernel takes it: `PhiloxKeys` on the device."""
        if seed not in self._round_keys:
            self._round_keys = {seed: self.backend.upload(philox_keys(seed))}
        return self._round_keys[seed]


def with_groups(choice: Choice) -> Callable[[OdeSystem, Writer], str]:
    """What the layout with warps needs in the header."""
    placement = choice.placement
    assert placement is not None
    bytes_of_a_block = choice.bytes_of_a_block
    return lambda system, writer: (
        f"constexpr i64 BLOCK_BYTES = {bytes_of_a_block};\n"
        + group_functions(system, placement.groups, writer, choice.groups)
    )

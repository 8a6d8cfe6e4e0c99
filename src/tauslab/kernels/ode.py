"""The ODE engine: ensembles of trajectories of ordinary differential equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.kernels.backends.base import Backend, KernelSource, Program, Stream
from tauslab.kernels.ode_codegen import PRECISIONS, Writer, jacobian_functions, ode_header
from tauslab.kernels.ode_jacobian import jacobian
from tauslab.kernels.ode_lowering import OdeSystem, spans
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

    def __post_init__(self) -> None:
        """Check the choices."""
        if self.solver not in SOLVERS:
            raise ConfigError(
                f"--ode-solver {self.solver!r} is not known; allowed are {', '.join(SOLVERS)}"
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
        more = self._with_jacobian() if settings.solver == "rosenbrock" else None
        header = ode_header(system, precision=settings.precision, wide=wide, more=more)
        source = KernelSource(f"{self.entry}.cc", (self.entry,), {"model.h": header})
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
        resident = self.program.resident(self.entry)
        if not self._words:
            return resident
        share = self.backend.free_memory() // (2 * launches)
        return max(1, min(resident, share // (self._words * self._real.itemsize)))

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

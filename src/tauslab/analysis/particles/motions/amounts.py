"""Particles of ordinary differential equations: amounts and steps, each with its own values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tauslab.analysis.particles.motions.given import Given, behind_exponents, number_of
from tauslab.analysis.particles.motions.motion import Motion, own_rows, require_each
from tauslab.analysis.particles.shares import Copies, Shares
from tauslab.base.arrays import Array, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.events.tables import queue_words, queues_fit
from tauslab.kernels.ode.codegen import event_shapes
from tauslab.kernels.ode.engine import Ode
from tauslab.kernels.ode.lowering import OdeSystem
from tauslab.kernels.ode.settings import SOLVERS
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.methods import with_choices
from tauslab.runner.ensemble.choices.solver_choice import wants_solver, with_solver
from tauslab.runner.ensemble.ode_task import OdeTask, prepare_ode, with_inputs
from tauslab.store.state import State

_PAST = {"delay", "delayed reaction"}  # features of networks that look back
_BEFORE = "dopri5"  # which computes the start, before a solver is chosen
_FOR = 1024  # particles for which a solver is chosen: their number changes no result


class OdeMotion(Motion):
    """Amounts of particles of networks, moved by a solver of ordinary differential equations.

    `_table` holds all recorded quantities now, f64 ``[particle, quantity]``: species, then rules.
    After new values, what follows from them is computed when it is looked at: `_held` lacks it.
    Steps go on where they were, so that an ensemble that is advanced through some times has the
    bits of a run with these sample times. A solver is chosen at the first advance, and kept.

    Attributes
    ----------
    solver
        The one that was chosen; empty before that, and where one is given.
    """

    missing = float("nan")

    def __init__(
        self,
        network: Network,
        options: Options,
        rows: Mapping[str, Any],
        backend: Backend,
        comm: Communicator,
    ) -> None:
        self._network, self._options = network, options
        super().__init__(options.n, backend, comm)
        self._engine: Ode | None = None
        self.solver = ""
        self._key: Any = None
        self._given: Given | None = None
        self.in_kernels = behind_exponents(network)
        self._at_start: dict[str, Any] = {}  # amounts with which particles began
        self.task: OdeTask
        self.prepare(rows, options.n)
        self._rows.require_memory(options.n, self._bytes, network.name)
        self._held: Any = None
        self._late: float | None = None  # time of values for which `_held` lacks what follows
        self._steps: Any = None
        self._host_steps: FloatArray | None = None  # the same on the host, if they were asked for
        self._queue: Any = None  # f64 [own, word] where there are triggers

    @property
    def species(self) -> tuple[str, ...]:
        """Names of the columns of amounts."""
        return self.task.species

    @property
    def observables(self) -> tuple[str, ...]:
        """Names of recorded rules."""
        return self.task.observables

    def device_counts(self) -> Any:
        """Amounts f64 ``[particle of this rank, species]`` on the device."""
        return self._table[:, : len(self.species)]

    @property
    def _table(self) -> Any:
        """Recorded quantities now, with what follows from values that were put."""
        if self._late is not None:
            now, self._late, steps = self._late, None, self._steps
            self._steps = self._zeros()
            variables = self._variables()
            self._on_host = None
            self._held, _ = self._launch(now, now, variables)
            self._rows.copies.record().wait()
            self._steps = steps
        return self._held

    @_table.setter
    def _table(self, table: Any) -> None:
        self._held, self._on_host, self._host_steps, self._late = table, None, None, None

    def _host_table(self, table: Any) -> FloatArray:
        """`_held` or `_table` on the host, copied once for all that look; not to be written to."""
        if isinstance(table, np.ndarray):
            return table
        if self._on_host is None:
            self._on_host = self._rows.host(table)
        result: FloatArray = self._on_host
        return result

    @property
    def _places(self) -> Mapping[str, int]:
        """Columns of amounts by name."""
        return self._system.places

    @property
    def _system(self) -> OdeSystem:
        return self.task.system

    @property
    def _all_moves(self) -> bool:
        """Return whether all quantities are variables, so that none follows from new values."""
        return not self.observables and self.species == self._system.variables

    @property
    def looks(self) -> bool:
        """Return whether new values may set off events at once."""
        return bool(self._system.triggered)

    @property
    def by_chance(self) -> bool:
        """As of `Motion`: triggered events may draw."""
        return self.looks

    @property
    def _words(self) -> int:
        """Doubles of what waits with a particle; 0 without triggers."""
        return queue_words(event_shapes(self._system)) if self.looks else 0

    @property
    def _bytes(self) -> int:
        """Bytes of a particle: its state before and after a move, and the input of kernels."""
        words = len(self._system.quantities) + 1 + self._words
        return 8 * (2 * words + len(self._system.variables))

    # ---------------------------------------------------------------- values

    def prepare(self, rows: Mapping[str, Any], n: int) -> None:
        """Take values of parameters, one per particle or one for all."""
        if {feature.kind for feature in self._network.features} & _PAST:
            raise ConfigError(
                f"{self._network.name} has delays, which {opt('method', 'ode')} does not move as "
                "particles: their past is not kept; ts.run does"
            )
        began = {
            name: np.zeros(n) if np.ndim(value) else value
            for name, value in self._at_start.items()
            if name not in rows
        }
        given = Given.of({**began, **rows}, n, self.apart)
        if self._inputs_alone(given):
            self.task = with_inputs(self.task, given.columns)
        else:
            self._prepare_all(given)
        self._given = given
        self._at_start |= {name: row for name, row in rows.items() if self.holds(name)}
        self._inputs = self._upload_own(self.task.constants, n)

    def read_as_inputs(self, names: Iterable[str]) -> None:
        """Let kernels read these values from now on, so that a new one needs no new kernel."""
        new = [name for name in names if name not in self.apart and name not in self.in_kernels]
        self.apart |= {name: number_of(self._network, name) for name in new}

    def _inputs_alone(self, given: Given) -> bool:
        """Return whether kernels and all that was computed before them stay as they are."""
        if self._given is None or not given.like(self._given):
            return False
        amounts = [name in self._network.species for name in given.names]
        return bool(np.isfinite(given.table).all() and (given.table[:, amounts] >= 0).all())

    def _prepare_all(self, given: Given) -> None:
        """Make the equations anew, and kernels where they change."""
        task = prepare_ode(self._network, given.options(self._options))
        self.task = replace(task, options=given.of_all(task.options))
        self._moved = frozenset(self._system.variables)
        if self._system.looks_back:
            raise ConfigError(
                f"{self._network.name} has delays, and particles of {opt('method', 'ode')} keep no "
                "past"
            )
        key = (sorted(given.names), given.numbers)
        if key != self._key:
            self._key, self._engine = key, None

    def holds(self, name: str) -> bool:
        """Return whether equations or events change an amount of this name."""
        return name in self._moved

    def change(self, names: tuple[str, ...], values: FloatArray) -> bool:
        """As of `Motion`."""
        given = None if self._given is None else self._given.with_columns(names, values)
        inputs, constants, known = self._system.columns, self.task.constants, self._network.species
        if given is None or len(constants) != len(given.table):
            return False
        least = np.array([0.0 if name in known else -np.inf for name in names])
        if not (np.isfinite(values) & (values >= least)).all():
            return False
        read = [place for place, name in enumerate(names) if name in inputs]
        constants = constants.copy()
        constants[:, [inputs[names[place]] for place in read]] = values[:, read]
        self.task, self._given = replace(self.task, constants=constants), given
        self._inputs = self._upload_own(constants, self.n)
        return True

    def put_table(self, names: tuple[str, ...], values: FloatArray, now: float) -> None:
        """Replace amounts ``[1 or particle, name]``; compute what follows anew.

        Particles whose amounts are other ones choose the length of their steps anew.

        Raises
        ------
        ConfigError
            One is not finite, or an amount without a rate rule is negative.
        """
        if names:
            if not (values.min(initial=0.0) >= 0 and values.max(initial=0.0) < np.inf):
                low = [-np.inf if name in self._network.rates else 0.0 for name in names]
                good = np.isfinite(values) & (values >= np.array(low))
                require_each(good, names, "amounts must be finite, and 0 or more")
            table, given = self._host_table(self._held), own_rows(values, self.shares.own)
            table = table.copy() if table is self._held else table
            kept = np.ones(len(table), bool)
            for place, name in enumerate(names):
                column, new = table[:, self._places[name]], given[:, place]
                kept &= column == new
                column[...] = new
            self._held, self._on_host = self._backend.upload(table), table
            if kept.any():
                steps = self._host_steps
                steps = self._rows.host(self._steps) if steps is None else steps
                self._steps = self._backend.upload(np.where(kept, steps, 0.0))
            else:
                self._backend.clear(self._steps, self._rows.stream)
                self._rows.follow()
            self._host_steps = None
        if not self.looks and not self._all_moves:
            self._late = now

    # ---------------------------------------------------------------- moving

    def begin(self, seed: int, first: int) -> None:
        """Put all particles at the start, after events at time 0."""
        self._steps, self._queue = self._zeros(), None
        self._table, _ = self._launch(0.0, 0.0, None, seed, first)
        self._rows.copies.record().wait()

    def place(self, columns: Mapping[str, IntArray], seed: int, first: int) -> None:
        """As of `Motion`; a model with triggers is refused."""
        if self.looks:
            raise ConfigError(
                f"{self._network.name} has triggers, which {opt('method', 'ode')} evaluates before "
                "amounts are drawn: give amounts as arrays in set=, not in initial="
            )
        super().place(columns, seed, first)

    def advance(self, start: float, end: float, seed: int, *, first: int = 0) -> Array:
        """Move all particles; how each ended, u8 ``[particle]`` as in /status."""
        if end > start or not self.looks:
            self.foresee(end)
        looked = self._on_host is not None  # as then the new amounts will be, too
        self._table, status = self._launch(start, end, self._variables(), seed, first)
        ended = self._ends(status, *((self._held, self._steps) if looked else ()))
        if self._arrived:
            self._on_host, self._host_steps = self._arrived
        return ended

    def observe_own(self, now: float) -> FloatArray:  # noqa: ARG002 - as every motion
        """Recorded rules ``[particle of this rank, observable]``."""
        return self._host_table(self._table)[:, len(self.species) :].copy()

    def own_counts(self) -> FloatArray:
        """A copy of the amounts ``[particle of this rank, species]`` on the host."""
        return self._host_table(self._table)[:, : len(self.species)].copy()

    def own_columns(self, columns: IntArray) -> FloatArray:
        """As of `Motion`."""
        result: FloatArray = np.take(self._host_table(self._table), columns, axis=1)
        return result

    def own_count(self, number: int) -> Array:
        """A copy of one column of them."""
        return self._rows.column(self._table, number)

    def take(self, ancestors: IntArray) -> None:
        """Make particle i what particle ``ancestors[i]`` was; their number may change."""
        if len(ancestors) > self.n:
            self._rows.require_memory(len(ancestors), self._bytes, self._network.name)
        self._hold(self._rows.taken(self.shares, self._sources(), ancestors))
        self.shares = Shares(len(ancestors), self._comm)

    def copy(self, copies: Copies) -> None:
        """As of `Motion`."""
        self._hold([self._rows.copied(self.shares, one, copies) for one in self._sources()])

    def _sources(self) -> list[Any]:
        """All that a particle is."""
        result = [self._table, self._steps.reshape(-1, 1)]
        return [*result, self._queue] if self.looks else result

    def _hold(self, moved: list[Any]) -> None:
        self._table, steps, *queue = moved
        self._steps = steps.reshape(-1)
        self._queue = queue[0] if queue else None

    def stored(self) -> dict[str, Array]:
        """Amounts of all particles, their steps, and what waits with them."""
        joined, host = self.shares.joined, self._rows.host
        queue = {"queue": joined(host(self._queue))} if self.looks else {}
        return {
            **queue,
            "amounts": joined(host(self._table)),
            "steps": joined(host(self._steps)),
            "solver": np.bytes_(self.solver),
        }

    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave."""
        own, n, upload = self.shares.own, self.n, self._backend.upload
        table = state.take("amounts", np.float64, n, len(self._system.quantities), nan=True)
        steps = state.take("steps", np.float64, n)
        if self.looks:
            queue = state.take("queue", np.float64, n, self._words, nan=True)
            if not queues_fit(queue, event_shapes(self._system)):
                raise state.damaged("what waits in it fits no event")
            self._queue = upload(np.ascontiguousarray(queue[own]))
        self._table = upload(np.ascontiguousarray(table[own]))
        self._steps = upload(np.ascontiguousarray(steps[own]))
        solver = state.text("solver")
        if solver and solver not in SOLVERS:
            raise state.damaged(f"{solver!r} is no solver")
        self.go_on_by(solver)

    def go_on_by(self, solver: str) -> None:
        """Keep to a solver that was chosen; empty where none was."""
        if solver != self.solver:
            self.solver, self._engine = solver, None

    # ---------------------------------------------------------------- inside

    def foresee(self, end: float) -> None:
        """Choose a solver, where none is given, by the first particle alone. Collective."""
        if self.solver or not wants_solver(self.task):
            return
        options = replace(self.task.options, times=np.array([end]), quiet=True, n=_FOR, set={})
        first = replace(self.task, options=options, constants=self.task.constants[:1])
        chosen = with_solver(first, self._backend, self._comm)
        self.solver = chosen.options.integration.solver
        if self.solver != _BEFORE:
            self._engine = None

    def _compiled(self) -> Ode:
        if self._engine is None:
            options = self.task.options
            if wants_solver(self.task):
                chosen = with_choices(options.method, solver=self.solver or _BEFORE)
                options = replace(options, method=chosen)
            rows = self.shares.own.stop - self.shares.own.start
            self._engine = Ode(
                self._backend, self._system, [0.0], options.integration, trajectories=rows
            )
        return self._engine

    def _zeros(self) -> Any:
        own = self.shares.own
        return self._backend.upload(np.zeros(own.stop - own.start))

    def _variables(self) -> Any:
        """Amounts that equations move, f64 ``[particle of this rank, variable]``."""
        places = self._places
        columns = [places[name] for name in self._system.variables]
        if columns == list(range(self._held.shape[1])):
            return self._held
        if self._on_host is not None:  # as the device has them
            return self._backend.upload(np.take(self._on_host, columns, axis=1))
        result = self._backend.empty((self._held.shape[0], len(columns)), np.float64)
        result[...] = self._held[:, columns]
        return result

    def _launch(
        self, start: float, end: float, kept: Any, seed: int = 0, first: int = 0
    ) -> tuple[Any, Any]:
        """Quantities at `end` of states at `start`; and how each ended."""
        backend, own = self._backend, self.shares.own
        rows = own.stop - own.start
        table = backend.empty((rows, 1, len(self._system.quantities)), np.float64)
        queue, self._queue = self._queue, backend.empty((rows, self._words), np.float64)
        buffers = SampleBuffers.of(
            backend, rows, self._rows.row_counter(), reals=table, steps=self._steps,
            kept_queue=queue if self.looks else None,
            keep_queue=self._queue if self.looks else None,
        )  # fmt: skip
        table = table.reshape(rows, table.shape[2])
        if not rows:
            self._launched()
            return table, buffers.status
        engine = self._compiled()
        engine.between(start, end)
        buffers.scratch = self._scratch_of(engine, rows)
        launch = Launch(
            first + own.start, rows, None, self._inputs, kept=kept, seed=seed,
            max_steps=self.task.options.max_steps,
        )  # fmt: skip
        engine.start(launch, buffers, self._rows.stream)
        self._launched()
        return table, buffers.status

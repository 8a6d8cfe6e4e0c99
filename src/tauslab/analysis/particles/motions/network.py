"""Particles of networks: counts, and what events keep, which engines of runs move."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tauslab.analysis.particles.motions.given import (
    Following,
    Given,
    behind_amounts,
    behind_exponents,
    number_of,
)
from tauslab.analysis.particles.motions.held import counts_anew, held_alike, held_amounts
from tauslab.analysis.particles.motions.motion import Motion, own_rows, require_each
from tauslab.analysis.particles.motions.turns import Turns, turns_of
from tauslab.analysis.particles.shares import Copies, Shares
from tauslab.base.arrays import Array, BoolArray, FloatArray, Int32Array, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt, warn
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.events.codegen import completions, shape
from tauslab.kernels.events.divide import Divide
from tauslab.kernels.events.tables import (
    DELAY_QUEUE,
    completions_fit,
    kept_words,
    queue_words,
    queues_fit,
)
from tauslab.kernels.leaping.choice import leaper_of
from tauslab.kernels.network.counters import apart
from tauslab.kernels.network.lowering import Constant
from tauslab.kernels.particles.initial import DrawInitial
from tauslab.model.network.counts import some
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.methods import ODE, SSA, TauLeaping
from tauslab.runner.ensemble.task import NetworkTask, prepare, with_rates
from tauslab.store.state import State


class NetworkMotion(Motion):
    """Counts of particles of networks, moved by exact steps or leaps.

    A state is counts int32 ``[particle, species]``; of a network with events, rate rules or delayed
    reactions also `kept`, f64 ``[particle, words]``, which holds quantities that are not whole,
    triggers, executions that wait and reactions that complete later.

    Parameters
    ----------
    drawn
        Species whose initial counts the ensemble draws, in place of the model.
    counted
        Reactions whose firings are counted: columns of the device's counts behind those of species
        (`tauslab.kernels.network.counters`). After each launch they are added to 64-bit numbers,
        and begin again with 0.
    """

    def __init__(
        self,
        network: Network,
        options: Options,
        rows: Mapping[str, Any],
        backend: Backend,
        comm: Communicator,
        drawn: Collection[str] = (),
        counted: Sequence[str] = (),
    ) -> None:
        self._network, self._options, self._drawn = network, options, drawn
        self._counted = tuple(counted)
        self._unchanged = frozenset(network.constant_species())
        self._behind_amounts = behind_amounts(network)
        self.in_kernels = behind_exponents(network)
        self._given: Given | None = None
        self._follow: Following | None = None
        super().__init__(options.n, backend, comm)
        self._time: tuple[float, Any] | None = None
        self._engine: Engine | None = None
        self._turns: Turns | None = None
        self._divide: Divide | None = None
        self._drawing: DrawInitial | None = None
        self.task: NetworkTask
        self.prepare(rows, options.n)
        self._check_memory(options.n)
        self._warn_of_shared_changes()
        self.counts: Any = self._first_counts()
        self.kept: Any = None  # before the first launch counts alone are known
        self._fired: Any = self._none_fired()

    @property
    def counts(self) -> Any:
        """Counts int32 ``[particle of this rank, species and counters]`` on the device."""
        return self._counts

    @counts.setter
    def counts(self, counts: Any) -> None:
        self._counts, self._on_host = counts, None

    def _host_counts(self) -> Int32Array:
        """`counts` on the host, copied once for all that look at them; not to be written to."""
        if isinstance(self.counts, np.ndarray):
            return self.counts
        if self._on_host is None:
            self._on_host = self._rows.host(self.counts)
        result: Int32Array = self._on_host
        return result

    @property
    def species(self) -> tuple[str, ...]:
        """Names of the columns of counts."""
        return self._species

    @property
    def reaction_names(self) -> tuple[str, ...]:
        """Reactions whose firings are counted."""
        return self._counted

    @property
    def observables(self) -> tuple[str, ...]:
        """Names of recorded rules, and of quantities that hold any number."""
        return self.task.observables

    @property
    def waits(self) -> bool:
        """Return whether something is still to happen at the present time: events at time 0."""
        return self.kept is None and self.words > 0

    @property
    def looks(self) -> bool:
        """Return whether new values may set off events at once."""
        return self.kept is not None

    @property
    def reals(self) -> Mapping[str, int]:
        """Quantities that hold any number, by name, with their place in `kept`."""
        return self.task.lowered.real_places

    @property
    def words(self) -> int:
        """Doubles of a row of `kept`; 0 where counts are the whole state."""
        dynamics = self.task.lowered.dynamics
        if dynamics is None:
            return 0
        shapes = [shape(event) for event in dynamics.events]
        delays = any(reaction.completions for reaction in self.task.lowered.reactions)
        queue = self._delay_queue if delays else 0
        return kept_words(len(self.task.lowered.species), shapes, queue)

    @property
    def draws(self) -> bool:
        """Return whether initial amounts are drawn as the model says: by the first launch."""
        dynamics = self.task.lowered.dynamics
        return dynamics is not None and bool(dynamics.drawn)

    @property
    def _delay_queue(self) -> int:
        method = self._options.method
        return method.delay_queue if isinstance(method, SSA) else DELAY_QUEUE

    def prepare(self, rows: Mapping[str, Any], n: int) -> None:
        """Take values of parameters, one per particle or one for all."""
        if any(feature.kind == "delay" for feature in self._network.features):
            raise ConfigError(
                f"{self._network.name} looks back, which particles do not: what is put into them "
                "has no past; ts.run does"
            )
        given = Given.of(rows, n, self.apart)
        changes = self._rates_alone(given)
        if changes is None:
            self._prepare_all(given)
        elif changes:
            self.task = with_rates(self.task, given.columns)
            self._constants = self._upload_own(self.task.constants, n)
        self._given = given

    def change(self, names: tuple[str, ...], values: FloatArray) -> bool:
        """As of `Motion`: constants of rate laws follow, and nothing else."""
        if not self._behind_amounts.isdisjoint(names) or not np.isfinite(values).all():
            return False
        given = None if self._given is None else self._given.with_columns(names, values)
        if given is None or len(given.table) != len(self.task.constants):
            return False
        follow = self._following(names)
        constants = follow.constants(self.task, given, values)
        if not (np.isfinite(constants) & (constants >= 0)).all():
            return False
        self.task = replace(self.task, constants=constants)
        self._constants = self._upload_own(constants, self.n)
        self._given = given
        return True

    def refused(self, names: tuple[str, ...], values: FloatArray) -> BoolArray:
        """As of `Motion`: where a rate constant of mass action is negative."""
        result = super().refused(names, values)
        self._make_columns(names)
        given = None if self._given is None else self._given.with_columns(names, values)
        if given is not None and len(given.table) == len(self.task.constants):
            constants = self._following(names).constants(self.task, given, values)
            each = [one.constant for one in self.task.lowered.reactions]
            places = [one.index for one in each if isinstance(one, Constant)]
            result |= (constants[:, places] < 0).any(axis=1)
        return result

    def _make_columns(self, names: tuple[str, ...]) -> None:
        """Let each particle have a value of its own of these, at first that which it has now."""
        given = self._given
        if given is None or given.with_columns(names, np.zeros((self.n, len(names)))) is not None:
            return
        held: dict[str, Any] = {**given.numbers, **given.columns}
        rows = self._network.parameter_values() | held
        for name in names:
            if name not in rows and name in self.task.lowered.species:
                rows[name] = held_amounts(self.task, name, slice(None))
        if rows.keys() >= set(names):
            own = {name: np.broadcast_to(rows[name], self.n) for name in names}
            self.prepare(held | own, self.n)

    def _following(self, names: tuple[str, ...]) -> Following:
        lowered = self.task.lowered
        if self._follow is None or not self._follow.of(lowered, names):
            self._follow = Following(lowered, names)
        return self._follow

    def read_as_inputs(self, names: Iterable[str]) -> None:
        """Let kernels read these parameters from now on, so that a new value needs no new one."""
        new = [name for name in names if name not in self.apart and name not in self.in_kernels]
        parameters = self._network.parameters
        self.apart |= {n: number_of(self._network, n) for n in new if n in parameters}

    def _rates_alone(self, given: Given) -> dict[str, FloatArray] | None:
        """Columns that have changed, if nothing but the constants of rate laws follows them."""
        if self._given is None or not given.like(self._given):
            return None
        changes = given.changes(self._given)
        finite = bool(np.isfinite(given.table).all())
        return changes if finite and self._behind_amounts.isdisjoint(changes) else None

    def _prepare_all(self, given: Given) -> None:
        """Make the task anew, and kernels where they change."""
        before = self.task if hasattr(self, "task") else None
        # Numbers are loaded as constants where kernels can: other numbers need no other kernel.
        result = prepare(
            self._network, given.options(self._options), shares_kernel=True, counted=self._counted
        )
        result = replace(result, options=given.of_all(result.options))
        self.task = _without_draws(result, self._drawn)
        self._species = self.task.species[: len(self.task.species) - len(self._counted)]
        if before is not None and _kernel_parts(before.lowered) != _kernel_parts(self.task.lowered):
            self._engine = None
        self._constants = self._upload_own(self.task.constants, given.n)
        if before is not None and hasattr(self, "counts"):
            self._hold_anew(before)

    def _hold_anew(self, before: NetworkTask) -> None:
        """Let states hold the amounts that species which nothing changes have now."""
        names = self._unchanged
        if not names or held_alike(before, self.task, names):
            return
        own = self.shares.own
        counts = counts_anew(before, self.task, names, self._rows.host(self.counts), own)
        self.counts = self._backend.upload(counts)
        if self.kept is not None:
            kept = self._rows.host(self.kept)
            for name in names:
                number = self.task.lowered.species.index(name)
                kept[:, number] = held_amounts(self.task, name, own)
            self.kept = self._backend.upload(kept)

    def _first_counts(self) -> Any:
        """Initial counts ``[particle of this rank, species]`` as the model and its values say."""
        initial = self.task.initial[:, list(self.task.lowered.recorded)]
        own = self.shares.own
        if len(initial) == 1:
            return self._rows.filled(initial, own.stop - own.start)
        return self._backend.upload(np.array(own_rows(initial, own)))

    def begin(self, seed: int, first: int) -> None:  # noqa: ARG002 - as every motion
        """Put all particles at the start."""
        self.kept = None
        self.counts = self._first_counts()
        self._fired = self._none_fired()

    def draw(
        self, initial: Mapping[str, FloatArray], seed: int, size: int, group: int, purpose: int
    ) -> bool:
        """Put all particles at the start, and draw initial counts of some species on the device."""
        self.kept = None
        self._fired = self._none_fired()
        self.counts = self._first_counts()
        if self._drawing is None:
            self._drawing = DrawInitial(self._backend)
        for number, name in enumerate(self.species):
            if name in initial:
                self._drawing.start(
                    self.counts, self.task.lowered.columns[name], initial[name], self._rows.stream,
                    first=self.shares.own.start, size=size, group=group, seed=seed,
                    purpose=purpose, number=number,
                )  # fmt: skip
        return True

    def holds(self, name: str) -> bool:
        """Return whether reactions or events change a species of this name."""
        if name in self._unchanged:
            return False
        if self.kept is not None and name in self.reals:
            return True
        return name in self.task.lowered.columns and not self._network.species[name].fixed

    def advance(
        self, start: float, end: float, seed: int, *, first: int = 0, halt: int = -1
    ) -> Array:
        """As of `Motion`; `halt` is the place of the quantity that halts a particle, or -1."""
        looked = self._on_host is not None  # as then the new counts will be, too
        status = self._launch(start, end, seed, first, halt)
        ended = self._ends(status, *((self.counts,) if looked else ()))
        self._on_host = self._arrived[0] if self._arrived else None
        return ended

    def observe_own(self, now: float) -> FloatArray:
        """Observables ``[particle of this rank, observable]``."""
        backend, task = self._backend, self.task
        rows = self.counts.shape[0]
        result = backend.empty((rows, 1, len(task.observables)), np.float64)
        if rows and task.observables:
            buffers = SampleBuffers.of(backend, rows, reals=result)
            self._start(now if task.lowered.dynamics is not None else 0.0, 0, buffers)
        return self._rows.host(result)[:, 0]

    def device_counts(self) -> Any:
        """Counts int32 ``[particle of this rank, species]`` on the device."""
        return self.counts[:, : len(self.species)] if self._counted else self.counts

    def own_fired(self) -> IntArray:
        """Firings int64 ``[particle of this rank, reaction]`` since the last call."""
        result = self._rows.host(self._fired)
        self._fired = self._none_fired()
        return result

    def _none_fired(self) -> Any:
        own, counted = self.shares.own, len(self._counted)
        if not counted:  # nothing to upload and to wait for
            return self._backend.empty((own.stop - own.start, 0), np.int64)
        return self._backend.upload(np.zeros((own.stop - own.start, counted), np.int64))

    def _harvest(self) -> None:
        """Add what counters have to `_fired`, and let them begin with 0, where states have them."""
        if not self._counted or not len(self._fired):
            return
        self._rows.stream.record().wait()
        counters = self.counts[:, len(self.species) :]
        self._fired += counters
        counters[...] = 0
        if self.kept is not None:  # there they are species behind all others
            last = self.task.initial.shape[1]
            self.kept[:, last - len(self._counted) : last] = 0

    def _warn_of_shared_changes(self) -> None:
        """Warn where leaps draw other numbers with counters than without."""
        leaps = isinstance(self._options.method, TauLeaping)
        if leaps and leaper_of(self.task.lowered) == "unrolled":
            result = apart(self.task.lowered, self._counted)
            if result:
                warn(
                    f"{some(dict.fromkeys(result))} change the same as other reactions, and tau "
                    "draws one number for all of these: where they are counted each has its own, "
                    "so that the same seed gives other bits than without count_reactions, of the "
                    "same distribution"
                )

    def take(self, ancestors: IntArray) -> None:
        """Make particle i what particle ``ancestors[i]`` was; their number may change."""
        if len(ancestors) > self.n:
            self._check_memory(len(ancestors))
        moved = self._rows.taken(self.shares, self._sources(), ancestors)
        self.shares = Shares(len(ancestors), self._comm)
        self._hold(moved)

    def copy(self, copies: Copies) -> None:
        """As of `Motion`."""
        self.begin_copy(copies)()

    def begin_copy(self, copies: Copies) -> Callable[[], None]:
        """As of `Motion`."""
        moved = [self._rows.copied(self.shares, one, copies) for one in self._sources()]
        return partial(self._hold, moved)

    def _sources(self) -> list[Any]:
        """All that a particle is."""
        result = [self.counts, self._fired] if self._counted else [self.counts]
        return result if self.kept is None else [*result, self.kept]

    def _hold(self, moved: list[Any]) -> None:
        self.counts = moved[0]
        self._fired = moved[1] if self._counted else self._none_fired()
        if self.kept is not None:
            self.kept = moved[-1]

    def put_table(self, names: tuple[str, ...], values: FloatArray, now: float) -> None:  # noqa: ARG002 - as every motion
        """Replace counts, and quantities that hold any number: one upload for all.

        Raises
        ------
        ConfigError
            A count that is negative or not whole, a quantity that is not finite.
        """
        if not names:
            return
        reals = {} if self.kept is None else self.reals
        moved = [place for place, name in enumerate(names) if name in reals]
        whole = [place for place, name in enumerate(names) if name not in reals]
        own, counts = self.shares.own, self._host_counts()
        if whole:
            given = values[:, whole] if moved else values
            columns = [names[place] for place in whole]
            good = (given >= 0) & (given <= 2**31 - 1) & (given == np.rint(given))
            require_each(good, columns, "counts must be whole numbers from 0 to 2147483647")
            places = [self.task.lowered.columns[name] for name in columns]
            counts = counts.copy() if counts is self.counts else counts
            counts[:, places] = own_rows(given, own)
            self.counts = self._backend.upload(counts)
            self._on_host = counts
        if self.kept is not None:
            self._put_kept([names[place] for place in moved], values[:, moved], counts)

    def _put_kept(self, names: list[str], values: FloatArray, counts: Int32Array) -> None:
        """Replace quantities that hold any number, and what `kept` has of counts."""
        kept = self._rows.host(self.kept)
        if names:
            require_each(np.isfinite(values), names, "values must be finite")
            kept[:, [self.reals[name] for name in names]] = own_rows(values, self.shares.own)
        kept[:, list(self.task.lowered.recorded)] = counts
        self.kept = self._backend.upload(kept)

    def stored(self) -> dict[str, Array]:
        """Counts of all particles, and what events keep of them."""
        result = {"counts": self.shares.joined(self.own_counts())}
        if self._counted:
            result["fired"] = self.shares.joined(self._rows.host(self._fired))
        if self.kept is not None:
            result["kept"] = self.shares.joined(self._rows.host(self.kept))
        return result

    def take_up(self, state: State) -> None:
        """Go on from what `stored` gave."""
        own = self.shares.own
        counts = state.take("counts", np.int32, self.n, len(self.species))
        none = ((0, 0), (0, len(self._counted)))
        self.counts = self._backend.upload(np.ascontiguousarray(np.pad(counts[own], none)))
        if self._counted:
            fired = state.take("fired", np.int64, self.n, len(self._counted))
            self._fired = self._backend.upload(np.ascontiguousarray(fired[own]))
        self.kept = None
        if "kept" in state:
            kept = state.take("kept", np.float64, self.n, self.words, nan=True)
            self._require_kept(state, kept)
            self.kept = self._backend.upload(np.ascontiguousarray(kept[own]))

    def _require_kept(self, state: State, kept: FloatArray) -> None:
        """Refuse rows whose numbers would lead a kernel out of its memory."""
        lowered = self.task.lowered
        assert lowered.dynamics is not None
        shapes = [shape(event) for event in lowered.dynamics.events]
        first = len(lowered.species) + 1
        last = first + queue_words(shapes)
        fits = queues_fit(kept[:, first:last], shapes)
        if last < self.words:
            waiting = 1 + max(completions(lowered), default=-1)
            fits = fits and completions_fit(kept[:, last:], waiting, self._delay_queue)
        if not fits:
            raise state.damaged("what waits in it fits no event and no reaction")

    def rows_of(self, which: IntArray) -> FloatArray:
        """Values of all species and the time ``[row, species + 1]`` of particles `which`.

        Their numbers increase.
        """
        own = self.shares.own
        local = which[(which >= own.start) & (which < own.stop)] - own.start
        species = self.task.initial.shape[1]
        result = self._rows.host(self._rows.gathered(self.kept, local.astype(np.int64)))[
            :, : species + 1
        ]
        return np.asarray(self.shares.gathered(result))

    def divide(
        self, side: Array, mother: IntArray, part: FloatArray, share: Array, *, seed: int, halt: int
    ) -> None:
        """Let copies of mothers take the parts of daughters: see `Divide.start`, for all ranks."""
        if self._divide is None:
            self._divide = Divide(self._backend)
        own, stream = self.shares.own, self._rows.stream
        each = (side[own], mother[own], part[own])
        self._divide.start(self.kept, *each, share, stream, seed=seed, halt=halt)

    def own_counts(self) -> Int32Array:
        """A copy of the counts ``[particle of this rank, species]`` on the host."""
        return self._host_counts()[:, : len(self.species)].copy()

    def own_columns(self, columns: IntArray) -> FloatArray:
        """As of `Motion`."""
        return np.take(self._host_counts(), columns, axis=1).astype(np.float64)

    def own_count(self, number: int) -> Array:
        """A copy of one column of them."""
        return self._rows.column(self.counts, number)

    def _launch(self, start: float, end: float, seed: int, first: int, halt: int) -> Any:
        backend, moves = self._backend, self.task.lowered.dynamics is not None
        rows = self.counts.shape[0]
        counts, keep = backend.empty(self.counts.shape, np.int32), self.kept
        if moves and keep is None:
            keep = backend.empty((rows, self.words), np.float64)
        buffers = SampleBuffers.of(
            backend, rows, self._rows.row_counter(), final_counts=counts, keep=keep
        )
        if rows:
            self._start(end if moves else end - start, seed, buffers, first, halt)
        else:
            self._launched()
        self.counts, self.kept = counts, keep
        self._harvest()
        if self._turns is not None:
            self._turns.over()
        return buffers.status

    def _start(
        self, time: float, seed: int, buffers: SampleBuffers, first: int = 0, halt: int = -1
    ) -> None:
        task, own, engine = self.task, self.shares.own, self._compiled()
        rows = own.stop - own.start
        self._turns = turns = turns_of(self._turns, engine, self._rows, rows)
        if turns is not None:
            buffers.lengths = turns.lengths
        launch = Launch(
            first + own.start, rows, self._initial(), self._constants,
            times=self._uploaded(time), kept=self.kept, halt=halt, seed=seed,
            order=None if turns is None else turns.order, max_steps=task.options.max_steps,
        )  # fmt: skip
        buffers.scratch = self._scratch_of(engine, launch.rows)
        engine.start(launch, buffers, self._rows.stream)
        self._launched()

    def _uploaded(self, time: float) -> Any:
        """A sample time on the device, which is often that of the launch before."""
        if self._time is None or self._time[0] != time:
            self._time = time, self._backend.upload(np.array([time]), self._rows.stream)
        return self._time[1]

    def _initial(self) -> Any:
        """Counts of all species; 0 of a quantity that holds any number.

        Kernels read a row of them also where states that are kept take their place.
        """
        recorded = list(self.task.lowered.recorded)
        species = self.task.initial.shape[1]
        if len(recorded) == species:
            return self.counts
        if self.kept is not None:
            return self._backend.upload(np.zeros((1, species), np.int32))
        initial = np.zeros((self.counts.shape[0], species), np.int32)
        initial[:, recorded] = self._rows.host(self.counts)
        return self._backend.upload(initial)

    def _compiled(self) -> Engine:
        if self._engine is None:
            task = replace(self.task, options=replace(self.task.options, times=np.zeros(1)))
            self._engine = task.engine(self._backend, devices=self._comm.size, goes_on=True)
        return self._engine

    def _check_memory(self, n: int) -> None:
        # Counts before and after, and copied ones; whole states before and after.
        each = 12 * len(self.task.species) + 16 * self.words + 16 * len(self._counted)
        self._rows.require_memory(n, each, self._network.name)


def _kernel_parts(lowered: Any) -> tuple[Any, ...]:
    """The parts of a lowered network from which kernels are made."""
    return (
        lowered.reactions, lowered.constants, lowered.observables, lowered.dynamics,
        lowered.recorded,
    )  # fmt: skip


def _without_draws(task: NetworkTask, names: Collection[str]) -> NetworkTask:
    """The task where initial amounts of some species are not drawn as the model says."""
    dynamics = task.lowered.dynamics
    if dynamics is None or not names:
        return task
    left = tuple(one for one in dynamics.drawn if task.lowered.species[one[0]] not in names)
    return replace(task, lowered=replace(task.lowered, dynamics=replace(dynamics, drawn=left)))


def require_method(options: Options) -> None:
    """Refuse methods that no ensemble has."""
    if not isinstance(options.method, SSA | TauLeaping | ODE):
        raise ConfigError(
            f"{opt('method', options.method.word)} is not for an ensemble of particles: ssa, tau "
            "or ode"
        )

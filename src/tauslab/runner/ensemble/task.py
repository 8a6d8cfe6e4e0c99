"""A model and the user's options made into what a device runs: settings applied, rows of inputs."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.option_names import command_line, opt, warn
from tauslab.kernels.backends import Backend
from tauslab.kernels.coupled.engines import common_paths
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.events.tables import DELAY_QUEUE
from tauslab.kernels.exact.selectors import (
    LARGEST_UNROLLED,
    LARGEST_WITH_EVENTS,
    PilotCounts,
    pilot_events,
    selector_of,
)
from tauslab.kernels.exact.ssa import can_resume_exactly, exact_engine
from tauslab.kernels.exact.table_network import Expected
from tauslab.kernels.leaping.choice import leaper_of, leaping_engine
from tauslab.kernels.leaping.langevin import LangevinEngine
from tauslab.kernels.leaping.tau_leap import LARGEST_LEAPING
from tauslab.kernels.network.counters import counting, with_counters
from tauslab.kernels.network.lowering import (
    Constant,
    Count,
    LoweredNetwork,
    Operation,
    changed_by,
    has_dynamics,
    jumps_within,
    lower,
    operations_first,
    relations_of_flows,
)
from tauslab.kernels.network.thinning import thinned
from tauslab.model.expressions.expression import Expression, Number, symbols
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.unfolding import unfold
from tauslab.model.network.canonical import canonical_text, with_numbers_of
from tauslab.model.network.counts import MOST, round_counts
from tauslab.model.network.diagnosis.check import check_rates, require_support, without_missing
from tauslab.model.network.diagnosis.events import rounded_constants, warn_of_model
from tauslab.model.network.diagnosis.narrow_windows import levels_of_pulses
from tauslab.model.network.diagnosis.time_breaks import (
    names_beside_time,
    set_or_drawn,
    unchanged_species,
    uses_time,
    with_clocks,
)
from tauslab.model.network.network import Feature, Network
from tauslab.model.network.partition import Partition, partition_of
from tauslab.model.network.past import Past, with_pasts
from tauslab.options.ensemble import Options
from tauslab.options.methods import (
    DEFAULT_MANY,
    SSA,
    Auto,
    Langevin,
    Method,
    Partitioned,
    TauLeaping,
    turned_into,
    with_choices,
)
from tauslab.options.record import SAMPLED, STATE, Record
from tauslab.options.sweep import Design, Sweep, column_of
from tauslab.options.values.texts import some
from tauslab.runner.ensemble.breaks import breaks_of, depending, moving_breaks
from tauslab.runner.ensemble.initial import require_followed
from tauslab.store.format.versions import (
    BESIDE_NOISE,
    CLOCKS,
    JUMPS,
    MIXED_EVENTS,
    SET_BY_EVENTS,
    THINNED_RATES,
    UNCHANGED,
    WITHIN_STEPS,
    conditions,
)
from tauslab.store.results.approximation import approximation, approximation_of_kinds

DEFAULT_TRAJECTORY_BYTES = 1 << 30  # samples are kept by default while they stay below this
_MOST_PARAMETERS = 256  # which follow one another: their dependence takes quadratic time
_MOST_CONSTANTS = 16  # that a trajectory loads in place of literals: registers hold them

CountArray = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """An ensemble, ready to run; every rank runs its share.

    `initial` int32 ``[inputs, species]`` in molecules; `constants` f64 ``[inputs, constants]``:
    one row for all, or one per trajectory, or with a sweep one per point. `method_choice` says why
    the method was chosen, if it was not given. `begun` f64 ``[trajectory, state]`` is where
    trajectories go on, as an earlier run recorded it in `states`; None where they begin.
    """

    network: Network
    options: Options
    initial: CountArray
    constants: FloatArray
    record: Record
    stored_model: str
    sha256: str
    method_choice: str | None = None
    begun: FloatArray | None = None

    amounts: ClassVar[bool] = False  # whether species are recorded as real numbers, not counts

    def clocks(self, varying: Collection[str]) -> dict[str, str]:
        """Attributes of the file where laws or triggers use a clock or `moving_breaks`.

        Others where species that are not fixed, but that nothing changes, move pulses, and where
        some events have times and others triggers.
        """
        network = self.network
        result = self._clocks(varying)
        if len({*map(type, network.events)}) > 1:
            result |= {MIXED_EVENTS: "1"}
        if network.rates or uses_time(network):
            moving, _ = names_beside_time(with_clocks(network))
            if moving & unchanged_species(network) - {*network.constant_species()}:
                result |= {UNCHANGED: "1"}
        return result

    def _clocks(self, varying: Collection[str]) -> dict[str, str]:
        network = self.network
        changed = {*network.rates, *set_or_drawn(network)}
        result: list[Expression] = []
        if changed or (varying and uses_time(network)):
            values = network.parameter_values()
            result = moving_breaks(network, values, varying, reals=None if self.amounts else ())
        if any(symbols(one) & changed for one in result):
            return {CLOCKS: SET_BY_EVENTS}
        return {CLOCKS: "1"} if result or with_clocks(network) is not network else {}

    @property
    @abstractmethod
    def species(self) -> tuple[str, ...]:
        """Names of the recorded species."""

    @property
    @abstractmethod
    def observables(self) -> tuple[str, ...]:
        """Names of the recorded observables."""

    @abstractmethod
    def engine(
        self,
        backend: Backend,
        pilot: PilotCounts | None = None,
        devices: int = 0,
        *,
        goes_on: bool = False,
    ) -> Engine:
        """The compiled kernels on this rank's device, one of `devices`; 0 where nobody knows.

        With `goes_on`, trajectories may begin from other counts than `initial`, and there is one
        launch at a time.
        """

    @property
    def settled_method(self) -> Method:
        """The method with all that was chosen for it: what the file says of it."""
        return self.options.method

    @property
    def attributes(self) -> dict[str, str]:
        """Further attributes of the file."""
        return {}

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of the recorded species that are whole numbers."""
        return () if self.amounts else self.species

    @property
    def reals(self) -> tuple[str, ...]:
        """Names of the recorded quantities that are real numbers."""
        return (*self.species, *self.observables) if self.amounts else self.observables

    @property
    def final_type(self) -> np.dtype[np.generic]:
        """Type of the last state of a species."""
        return np.dtype(np.float64 if self.amounts else np.int32)

    @property
    def drawn(self) -> tuple[str, ...]:
        """Names of the datasets of what every trajectory draws, where it is recorded."""
        names = self.options.sample.names if self.record.sampled else ()
        return tuple(f"{SAMPLED}:{name}" for name in names)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the datasets of where trajectories stand at the end, where it is recorded.

        Raises
        ------
        ConfigError
            The method cannot go on from there with the same draws.
        """
        if not self.record.state:
            return ()
        raise ConfigError(
            f"{opt('record', STATE)} is of ssa with the selector linear, without events, delays, "
            f"common random numbers or rates that depend on time: {opt('extend')} simulates others "
            "again from t = 0"
        )

    @property
    def sweep(self) -> Sweep | None:
        """The points, drawn if they are those of a design."""
        assert not isinstance(self.options.sweep, Design)
        return self.options.sweep

    @property
    def per_point(self) -> int:
        """Trajectories per point of a sweep; 0 without one."""
        return self.options.n if self.options.sweep is not None else 0

    @property
    def rows_differ(self) -> bool:
        """Return whether trajectories of the run have inputs of their own, without a sweep."""
        return self.options.sweep is None and any(map(np.ndim, self.options.set.values()))

    @property
    def per_sum(self) -> int:
        """Trajectories that are summed together; 0 where all are."""
        return self.per_point or self.options.portion.group

    def sums_of(self, first: int, end: int) -> slice:
        """Sums to which trajectories ``first .. end - 1`` belong."""
        return slice(first // self.per_sum, -(-end // self.per_sum))

    def points_of(self, first: int, end: int) -> slice:
        """Points of the sweep to which trajectories ``first .. end - 1`` belong."""
        return slice(first // self.per_point, -(-end // self.per_point))

    @property
    def sample_bytes(self) -> int:
        """Bytes of the samples of one trajectory."""
        per_time = 4 * len(self.counted) + 8 * len(self.reals)
        return per_time * len(self.options.times)


@dataclass(frozen=True, kw_only=True)
class NetworkTask(Task):
    """An ensemble of a reaction network, `lowered`.

    `unrounded` are fixed species whose amounts are not whole and stay so; `varying` has the columns
    of which `constants` are computed. `loads` says whether the scalars of ``set`` stand in these
    and in the model's parameters, and nowhere else.
    """

    lowered: LoweredNetwork
    unrounded: tuple[str, ...] = ()
    loads: bool = False
    varying: Mapping[str, FloatArray]

    @property
    def species(self) -> tuple[str, ...]:
        """Names of the recorded species."""
        return tuple(self.lowered.columns)

    @property
    def observables(self) -> tuple[str, ...]:
        """Names of the recorded observables."""
        return tuple(name for name, _ in self.lowered.observables)

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes of the file on leaps, thinned rates, conditions, and what is not rounded."""
        method = self.options.method
        result = {} if self.loads else self.clocks(self.varying)  # which no law reads then
        if isinstance(method, TauLeaping):
            with command_line():  # files hold one spelling
                result["approximate"] = approximation(method.epsilon)
            result["leaper"] = leaper_of(self.lowered)
        if self.lowered.thinning is not None:
            result[THINNED_RATES] = "1"
        if self.lowered.dynamics is not None:
            result |= conditions(
                relations_of_flows(self.lowered), pulses=bool(self.lowered.dynamics.pulses)
            )
        return {**result, "unrounded": ",".join(self.unrounded)} if self.unrounded else result

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the datasets of where trajectories stand: csrc/ensemble/standing.h."""
        exact = isinstance(self.options.method, SSA) and not self.options.common
        if not (self.record.state and exact and can_resume_exactly(self.lowered, self.selector)):
            return super().states
        return tuple(f"{STATE}:{name}" for name in (*self.lowered.species, "time", "draws"))

    @cached_property
    def selector(self) -> str:
        """Selector of the next reaction: as given, or by the network; a pilot may replace it."""
        if self.options.common:
            return "linear"
        method = self.options.method
        return selector_of(self.lowered, method.selector if isinstance(method, SSA) else None)

    @property
    def leaps(self) -> TauLeaping:
        """Options of leaps, also where none are made."""
        method = self.options.method
        result = turned_into("tau", method)
        assert isinstance(result, TauLeaping)
        return result

    @property
    def team(self) -> int:
        """Threads that run one trajectory of a large network; 0 leaves it to the engine."""
        method = self.options.method
        return method.team if isinstance(method, SSA | Auto) else 0

    @property
    def settled_method(self) -> Method:
        """The method with all that was chosen for it: what the file says of it."""
        method = self.options.method
        if isinstance(method, SSA):
            return with_choices(method, selector=self.selector, presimulation=self.presimulation)
        return method

    @property
    def presimulation(self) -> int:
        """Events of a pilot trajectory that orders the network; 0 for none."""
        method = self.options.method
        given = method.presimulation if isinstance(method, SSA | Auto) else None
        if given is not None:
            return given if self.selector != "linear" else 0
        return pilot_events(self.lowered, self.selector, self.options.total)

    def engine(
        self,
        backend: Backend,
        pilot: PilotCounts | None = None,
        devices: int = 0,
        *,
        goes_on: bool = False,
    ) -> Engine:
        """The compiled kernels of the method."""
        times, options = self.options.times.tolist(), self.options
        each = -(-options.total // devices) if devices else 0
        method = options.method
        if isinstance(method, TauLeaping) and self.lowered.reactions:
            checked = method.post_leap_check
            return leaping_engine(
                backend, self.lowered, times, method.epsilon, checked=checked, trajectories=each
            )
        if options.common:
            return common_paths(backend, self.lowered, times, one_trajectory=self.rows_differ)
        delay_queue = method.delay_queue if isinstance(method, SSA) else DELAY_QUEUE
        highest = None if goes_on else self.initial.max(axis=0).astype(np.int64)
        expected = Expected(each, highest, delay_queue, ends=goes_on)
        return exact_engine(
            backend, self.lowered, times, selector=self.selector, team=self.team,
            firings=None if pilot is None else pilot.firings, expected=expected,
            keeps=bool(self.states),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class HybridTask(NetworkTask):
    """An ensemble of a network whose reactions are of several kinds; species are real numbers."""

    partition: Partition
    judged: str = ""  # what a pilot says of its error
    amounts = True

    @property
    def species(self) -> tuple[str, ...]:
        """Names of the recorded species."""
        return tuple(name for name, _ in self.lowered.observables[: self.lowered.amounts])

    @property
    def observables(self) -> tuple[str, ...]:
        """Names of the recorded observables."""
        return tuple(name for name, _ in self.lowered.observables[self.lowered.amounts :])

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes of the file on what is approximate, and on species that are not rounded."""
        result = super().attributes
        if jumps_within(self.lowered):
            result[JUMPS] = WITHIN_STEPS
        elif isinstance(self.options.method, Partitioned) and not self.partition.is_exact:
            result[JUMPS] = BESIDE_NOISE
        if kinds := self.partition.described():
            with command_line():
                result["approximate"] = approximation_of_kinds(kinds, self.judged)
        return result

    def engine(
        self,
        backend: Backend,
        pilot: PilotCounts | None = None,
        devices: int = 0,
        *,
        goes_on: bool = False,
    ) -> Engine:
        """The compiled kernels: exact ones where reactions are events and equations alone."""
        if self.partition.is_exact:
            return super().engine(backend, pilot, devices, goes_on=goes_on)
        method = self.options.method
        assert isinstance(method, Partitioned | Langevin)
        many = method.many if isinstance(method, Partitioned) else DEFAULT_MANY
        return LangevinEngine(
            backend, self.lowered, self.options.times.tolist(), self.partition.kinds,
            method.epsilon, many,
        )  # fmt: skip


def prepare(
    network: Network,
    options: Options,
    *,
    shares_kernel: bool = False,
    counted: Sequence[str] = (),
    like: NetworkTask | None = None,
) -> NetworkTask:
    """Check a model against the options and lower it.

    Parameters
    ----------
    shares_kernel
        Whether parameters that options set may become constants, so that runs with other values
        have the same kernel. No bit depends on it.
    counted
        Reactions whose firings are counted, each in a column behind those of the species.
    like
        The task that this gave for the same model and options with other scalars for the same
        names, and another seed: what cannot differ is taken from there.

    Raises
    ------
    ModelError
        A feature that the method cannot honour, a negative rate, an unknown rate law.
    ConfigError
        A name in the options that the model does not have.
    """
    if like is None:
        check_names(network, options)
    model = _valued(network, options, checked=like is not None)
    start = _started(model)
    recorded = recorded_names(model.network, model.options)
    loaded = _loaded_constants(model) if shares_kernel else {}
    if like is not None and loaded and _starts_alike(start, like):
        lowered, varying, n_rows = like.lowered, loaded, 1
    else:
        lowered, varying, n_rows = _lowered(model, start, recorded, counted, loaded)
    constants = _constant_rows(lowered, varying, n_rows, each_of(options))
    limits = start.partition is not None
    canonical, digest = identity(model.network, model.options, model.rows, limits=limits)
    kind = (
        NetworkTask if start.partition is None else partial(HybridTask, partition=start.partition)
    )
    # Pasts take their first counts from what they hold, and counters begin with 0.
    hidden = len(model.pasts) + len(counted)
    task = kind(
        network=model.network, options=model.options, lowered=lowered,
        initial=np.pad(start.initial, ((0, 0), (0, hidden))) if hidden else start.initial,
        constants=constants,
        record=Record(), stored_model=canonical, sha256=digest, unrounded=start.held,
        varying=varying,
        loads=_loads_alone(model, varying, canonical),
    )  # fmt: skip
    return replace(task, record=checked_record(task))


def _loads_alone(model: _Valued, varying: Collection[str], canonical: str) -> bool:
    """Return whether kernels load all scalars of ``set``, `varying`, and nothing else needs them.

    They then decide no initial amount, and `canonical` names no parts of laws.
    """
    given, network = model.options.set.keys(), model.network
    if not given or given != {*varying} or model.rows:  # amounts, and literals, are not loaded
        return False
    moved = depending(network, {*given}) & network.species.keys()
    return not moved and with_numbers_of(network, canonical) == canonical


def with_values(task: NetworkTask, options: Options) -> NetworkTask | None:
    """The task with other scalars for the same names in ``set``, and another seed.

    It is what `prepare` gives without a warning; None where more may differ, or a value may not be.
    """
    if not task.loads:
        return None
    varying = {name: np.array([value], np.float64) for name, value in options.set.items()}
    known = task.lowered.constants
    constants = task.lowered.constant_rows(varying, 1) if known else task.constants
    if not (np.isfinite(constants) & (constants >= 0)).all():
        return None
    numbers = {name: Number(float(column[0])) for name, column in varying.items()}
    network = task.network.with_parameters(numbers)
    text = with_numbers_of(network, task.stored_model)
    return replace(
        task, network=network, options=options.with_method(task.options.method),
        constants=constants, varying=varying, stored_model=text,
        sha256=hashlib.sha256(_hashed(network, text, limits=False).encode()).hexdigest(),
    )  # fmt: skip


def with_length(task: Task, options: Options) -> NetworkTask | None:
    """The task with another number of trajectories and other sample times, and another seed.

    It is what `prepare` gives, with the values of `task` and without warnings; None where more may
    differ: where values differ between trajectories, or what is lowered depends on the end.
    """
    network = task.network
    if type(task) is not NetworkTask or task.lowered.dynamics is not None:
        return None
    varies = any(map(np.ndim, options.set.values())) or network.events or network.rates
    if varies or uses_time(network):
        return None
    result = replace(task, options=options, record=Record())
    return replace(result, record=checked_record(result))


@dataclass(frozen=True)
class _Valued:
    """A model with the values of a run: rows of what varies, parameters, reactions with pasts."""

    network: Network
    options: Options
    rows: dict[str, FloatArray]
    n_rows: int
    values: dict[str, float]
    forward: Network
    pasts: Sequence[Past]
    partition: Partition | None
    pulses: Sequence[Expression]


def _valued(network: Network, options: Options, *, checked: bool) -> _Valued:
    """Put the values into the network and check it; not its names again if they are `checked`."""
    network, options, rows, n_rows = choose_values(network, options)
    if not checked:
        network.validate()
    values = network.parameter_values()
    partition = _partition(network, options.method)
    flowing = set() if partition is None else changed_by(network, partition.integrated(network))
    lost, seen = depending(network, {*rows}), isinstance(options.method, SSA | Partitioned)
    warn_of_model(
        network, values, rows, each_of(options), options.times,
        varying=lost, flowing=flowing, seen=seen,
    )  # fmt: skip
    pulses = levels_of_pulses(network, values, lost, flowing=flowing) if seen else ()
    forward, pasts = with_pasts(network, rows)
    check_rates(forward, values)
    return _Valued(network, options, rows, n_rows, values, forward, pasts, partition, pulses)


@dataclass(frozen=True)
class _Start:
    """Initial states of trajectories, and the kinds of reactions.

    `counts` are those of the first row, `initial` int32 ``[row, species]`` of all; `reals` are
    amounts that need not be whole, of which nothing changes those that are `held`.
    """

    counts: dict[str, int]
    initial: CountArray
    varying: dict[str, FloatArray]
    reals: dict[str, float]
    held: tuple[str, ...]
    partition: Partition | None
    flowing: Collection[str] | None


def _started(model: _Valued) -> _Start:
    """Round initial amounts, and say what remains real; warns of what that changes."""
    network, values, rows = model.network, model.values, model.rows
    amounts = network.initial_amounts(values)
    columns = _initial_columns(network, rows, values, model.n_rows) if rows else {}
    held = _held_fractions(network, amounts, columns)
    partition = model.partition
    flowing = None if partition is None else partition.integrated(network)
    parts = sorted(changed_by(network, flowing or ()))
    reals = {name: amounts[name] for name in [*network.real_species(), *held, *parts]}
    amounts = {name: 0.0 if name in reals else amount for name, amount in amounts.items()}
    for sentence in rounded_constants(network, values, reals):
        warn(sentence)
    counted = {name: column for name, column in columns.items() if name not in reals}
    varied = [name for name, column in counted.items() if (np.rint(column) != column).any()]
    counts = round_counts(amounts, _compartments(network, values), warn, varied)
    _refuse_negative(counts)
    _warn_of_net_laws(network)
    whole = {name: _rounded(name, column) for name, column in counted.items()}
    initial = _initial_rows(counts, whole, model.n_rows)
    varying = {**rows, **columns, **{n: column.astype(np.float64) for n, column in whole.items()}}
    return _Start(counts, initial, varying, reals, tuple(held), partition, flowing)


def _lowered(
    model: _Valued,
    start: _Start,
    recorded: Collection[str] | None,
    counted: Sequence[str],
    loaded: Mapping[str, FloatArray],
) -> tuple[LoweredNetwork, dict[str, FloatArray], int]:
    """The network for kernels, the columns of which its constants are computed, and their rows.

    Parameters `loaded` become constants where kernels can load them.
    """
    network, options = model.network, model.options
    exact = isinstance(options.method, SSA)
    differing = {*start.varying, *model.rows}
    breaks = breaks_of(
        network, options, model.values, differing, model.rows,
        thinned=exact and not network.rates, reals=start.reals,
    )  # fmt: skip
    lowered_with = partial(
        lower,
        breaks.applied(with_counters(model.forward, counted), all_tables=False),
        parameters=model.values,
        counts=start.counts,
        recorded=recorded,
        reals=start.reals,
        pasts=model.pasts,
        breaks=(
            *breaks.times,
            *moving_breaks(network, model.values, differing, reals=start.reals),
        ),
        flowing=start.flowing,
        pulses=model.pulses,
    )
    varying, n_rows = start.varying, model.n_rows
    lowered = _unless_written_out(lowered_with(varying=loaded.keys())) if loaded else None
    if lowered is None:
        lowered = lowered_with(varying=varying.keys())
    else:
        varying, n_rows = dict(loaded), 1
    lowered = counting(lowered, counted)
    if lowered.dynamics is not None and options.common:
        raise ModelError(f"{network.name} has {_moving(lowered)}: {opt('common')} cannot run it")
    _refuse_idle_queue(network, options, lowered)
    if recorded is not None:
        chosen = tuple(o for o in lowered.observables if o[0] in recorded)
        lowered = replace(lowered, observables=chosen)
    if start.partition is not None:
        lowered = _with_amounts(lowered, network, recorded)
    return lowered, varying, n_rows


def _loaded_constants(model: _Valued) -> dict[str, FloatArray]:
    """Parameters that the options set and that kernels may load in place of literals."""
    network, options = model.network, model.options
    if model.rows or model.pasts or not _may_load_constants(options, network):
        return {}
    return {n: np.array([model.values[n]]) for n in options.set if n in network.parameters}


def _starts_alike(start: _Start, like: NetworkTask) -> bool:
    """Return whether nothing that is lowered depends on a value in which two tasks differ.

    Values that kernels load stand nowhere in a lowered network; initial amounts may.
    """
    loaded = like.varying.keys() == set(like.options.set)  # it had no species, nor literals
    return loaded and not start.reals and np.array_equal(start.initial, like.initial)


def _initial_rows(
    counts: Mapping[str, int], columns: Mapping[str, npt.NDArray[np.int32]], n_rows: int
) -> npt.NDArray[np.int32]:
    """Initial counts ``[row, species]``: a row for all, or a row per value where some vary."""
    initial = np.array([list(counts.values())], np.int32)
    if columns:
        initial = np.repeat(initial, n_rows, axis=0)
    for index, name in enumerate(counts):
        if name in columns:
            initial[:, index] = columns[name]
    return initial


def _partition(network: Network, method: Method) -> Partition | None:
    """Kind of each reaction; None for a method in which all are events."""
    if isinstance(method, Langevin):
        return Partition(("langevin",) * len(network.reactions))
    if not isinstance(method, Partitioned):
        return None
    partition = partition_of(network, method.marks())
    if not partition.is_exact:
        require_support(network, "cle", noise_of=method.word)
    return partition


def _with_amounts(
    lowered: LoweredNetwork, network: Network, recorded: Collection[str] | None
) -> LoweredNetwork:
    """The network with its recorded species as observables, before all others."""
    known = dict(lowered.observables)
    chosen = [name for name in network.species if recorded is None or name in recorded]
    number = {name: index for index, name in enumerate(lowered.species)}
    amounts = tuple((name, known.pop(name, Count(number[name]))) for name in chosen)
    return replace(
        lowered, recorded=(), observables=(*amounts, *known.items()), amounts=len(amounts)
    )


def with_thinning(task: NetworkTask) -> NetworkTask:
    """The task with bounds of rates that change with time alone, if all such rates have bounds.

    Events are then drawn exactly, by thinning, and leaps use the rates of their middle. Without
    bounds the rates are integrated.
    """
    method, lowered = task.options.method, task.lowered
    in_tables = None
    if isinstance(method, TauLeaping):
        most, epsilon, possible = LARGEST_LEAPING, method.epsilon, not method.post_leap_check
    else:
        most, epsilon = LARGEST_UNROLLED, 0.0
        selector = method.selector if isinstance(method, SSA) else "none"
        possible = selector in (None, "linear", "tree")
        in_tables = None if selector is None else selector == "tree"
    result = None
    if possible and len(lowered.reactions) <= LARGEST_WITH_EVENTS:
        end = float(task.options.times[-1])
        result = thinned(lowered, task.constants, end, most, epsilon, in_tables=in_tables)
    if result is None:
        if isinstance(method, SSA) and lowered.dynamics is not None and not task.network.rates:
            # Rates are integrated: warn of pulses that steps may pass over.
            values = task.network.parameter_values()
            breaks_of(task.network, task.options, values, task.varying, task.varying)
        return task
    return replace(task, lowered=result.network, constants=result.rows)


def with_rates(task: NetworkTask, columns: Mapping[str, FloatArray]) -> NetworkTask:
    """The task with other values of parameters that vary and that no initial amount uses.

    What the file would say of the model and its values stays as it was.

    Raises
    ------
    ModelError
        A rate constant is negative or not finite.
    """
    varying = {**task.varying, **columns}
    rows, each = len(task.constants), each_of(task.options)
    constants = _constant_rows(task.lowered, varying, rows, each)
    return replace(task, varying=varying, constants=constants)


def _may_load_constants(options: Options, network: Network) -> bool:
    """Return whether unrolled code of the method may load constants in place of literals."""
    method = options.method
    if not options.set or not isinstance(method, SSA) or method.selector not in (None, "linear"):
        return False
    unrolled = not has_dynamics(network) and len(network.reactions) <= LARGEST_UNROLLED
    few = len(network.parameters) <= _MOST_PARAMETERS
    return unrolled and few and not options.common


def _unless_written_out(lowered: LoweredNetwork) -> LoweredNetwork | None:
    """None if a constant stands where kernels write a number out: an exponent, an observable."""
    laws = [reaction.law for reaction in lowered.reactions if reaction.law is not None]
    powers = (
        part.arguments[1]
        for law in laws
        for part in operations_first(law)
        if isinstance(part, Operation) and part.function == "pow"
    )
    parts = [*powers, *(p for _, law in lowered.observables for p in operations_first(law))]
    if any(isinstance(part, Constant) for part in parts):
        return None
    return lowered if len(lowered.constants) <= _MOST_CONSTANTS else None


def identity(
    network: Network, options: Options, rows: Mapping[str, FloatArray], *, limits: bool = False
) -> tuple[str, str]:
    """Canonical text for the file, and the SHA-256 of the model with the values of all rows.

    Parameters
    ----------
    limits
        True if the limits of rate laws for large counts belong to the model, as for ``ode``.
    """
    canonical = canonical_text(network)
    digest = hashlib.sha256(_hashed(network, canonical, limits=limits).encode())
    if options.sweep is not None:
        digest.update(b"sweep\0")
    for name in sorted(rows):
        digest.update(name.encode() + b"\0" + rows[name].astype("<f8").tobytes())
    if options.sample.names:
        digest.update(options.sample.digest())
    # The file holds no values per trajectory, so it must not rerun without them.
    if rows and options.sweep is None:
        feature = Feature(
            "values per trajectory", "model", f"the run set {', '.join(sorted(rows))}"
        )
        canonical = canonical_text(replace(network, features=[feature]))
    return canonical, digest.hexdigest()


def _hashed(network: Network, canonical: str, *, limits: bool) -> str:
    has_limits = any(reaction.limit is not None for reaction in network.reactions)
    return canonical if limits or not has_limits else canonical_text(network, limits=False)


def _compartments(network: Network, values: Mapping[str, float]) -> dict[str, tuple[str, float]]:
    """Name and size of the compartment of each species that has one."""
    return {
        name: (one.compartment, values[one.compartment])
        for name, one in network.species.items()
        if one.compartment is not None and one.compartment in values
    }


def recorded_names(network: Network, options: Options) -> tuple[str, ...] | None:
    """Species and observables to sample; where samples are only reduced, those that this needs."""
    if options.species is not None or options.record is None or not options.record.reduced:
        return options.species
    for spec in options.record.summaries:
        if spec.quantity not in network.species and spec.quantity not in network.rules:
            raise ConfigError(
                f"{opt('record', 'summary:' + spec.name)}: {spec.quantity} is neither a species "
                f"nor an observable of {network.name}; it has "
                f"{some([*network.species, *network.rules])}{_called(network, spec.quantity)}"
            )
    used = [h.species for h in options.record.histograms]
    return tuple(dict.fromkeys([*used, *(s.quantity for s in options.record.summaries)]))


def check_names(network: Network, options: Options) -> None:
    """Refuse what the method cannot honour, and species that the model does not have."""
    method = "ssa" if isinstance(options.method, Auto) else options.method.word
    require_support(without_missing(network, options.set.keys()), method)
    if not network.species and (method == "tau" or not network.rules):
        raise ModelError(f"{network.name} has no species: there is nothing to simulate")
    for name in options.species or ():
        if name not in network.species and name not in network.rules:
            raise ConfigError(
                f"{opt('species', name)}: not a species of {network.name}; it has "
                f"{some(network.species)}{_called(network, name)}"
            )


def checked_record(task: Task) -> Record:
    """Check the record, by default chosen by size; a ConfigError says what cannot be."""
    record = task.options.record or _default_record(task)
    if record.statistics and not task.species:
        raise ConfigError(
            f"{opt('species')} needs a species, not observables only, for {opt('record')} "
            "statistics"
        )
    for histogram in record.histograms:
        if task.amounts:
            raise ConfigError(
                f"{opt('record')} histogram of {histogram.species}: histograms are of counts, not "
                "of the amounts of ode; record trajectories"
            )
        if histogram.species not in task.species:
            why = f"not a recorded species; recorded are {some(task.species)}"
            if histogram.species in task.reals:
                why = (
                    "an observable, not a count; record trajectories: plot makes histograms of them"
                )
            raise ConfigError(f"{opt('record')} histogram of {histogram.species}: {why}")
    if record.sampled and not task.options.sample.names:
        raise ConfigError(f"{opt('record', 'sampled')} needs {opt('sample')}: nothing is drawn")
    for spec in record.summaries:
        spec.summary(task.options.times, task.counted, task.reals)
    return record


def choose_values(
    network: Network, options: Options
) -> tuple[Network, Options, dict[str, FloatArray], int]:
    """Values put into the network, points drawn; rows of what varies by name, and their number."""
    network = with_settings(network, options.set)
    if isinstance(options.sweep, Design):
        assert options.seed is not None
        options = replace(options, sweep=options.sweep.draw(options.seed))
    if isinstance(options.sweep, Sweep):
        rows = options.sweep.columns()
        require_followed(network, rows, {*rows, *options.set}, options.sweep.origin)
        network = with_settings(network, rows, options.sweep.origin)
        return network, options, rows, options.sweep.points
    rows = {k: np.asarray(v, np.float64) for k, v in options.set.items() if np.ndim(v) == 1}
    return network, options, rows, options.n


def _default_record(task: Task) -> Record:
    small = task.sample_bytes * task.options.total < DEFAULT_TRAJECTORY_BYTES
    return Record(trajectories=True) if small else Record(statistics=True, final=True)


def with_settings(
    network: Network, settings: Mapping[str, float | FloatArray], option: str = "set"
) -> Network:
    """A copy in which parameters and initial amounts have the values that were set.

    Of an array the first value stands in the copy, so that what is computed from it is right for
    the first trajectory or point; rows replace it.
    """
    parameters: dict[str, Expression] = dict(network.parameters)
    species = dict(network.species)
    for name, given in settings.items():
        value = float(np.asarray(given, np.float64).flat[0])
        if name in parameters:
            parameters[name] = Number(value)
        elif name in species:
            if np.min(given) < 0 and name not in network.real_species():
                raise ConfigError(
                    f"initial amount of {name} cannot be {np.min(given):g}: 0 or more"
                )
            species[name] = replace(species[name], initial=Number(value))
        else:
            raise ConfigError(
                f"{column_of(option, name)}: neither a parameter nor a species of {network.name}; "
                f"parameters: {some(parameters)}; species: {some(network.species)}"
                f"{_called(network, name)}"
            )
    changed = replace(network, parameters=parameters, species=species)
    return without_missing(changed, settings.keys())


def _initial_columns(
    network: Network, rows: Mapping[str, FloatArray], values: Mapping[str, float], n: int
) -> dict[str, FloatArray]:
    """Initial amounts per trajectory or point, of the species for which they vary."""
    trees = {name: species.initial for name, species in network.species.items()}
    trees |= network.rule_expressions() | network.parameters
    unfolded = unfold({k: t for k, t in trees.items() if k not in rows}, "initial amount")
    columns = {}
    computed = {*network.real_species(), *network.drawn_amounts()}
    computed -= set(network.constant_species())  # the kernel computes what moves alone
    for name in [n for n in network.species if n not in computed]:
        if name in rows:
            columns[name] = rows[name]
            continue
        used = sorted(symbols(unfolded[name]) & rows.keys())
        if used:
            each = ({u: float(rows[u][i]) for u in used} for i in range(n))
            amounts = [evaluate(unfolded[name], {**values, **own}) for own in each]
            columns[name] = np.array(amounts)
    return columns


def constant_amounts(network: Network, options: Options) -> dict[str, FloatArray]:
    """Amounts, of all or ``[trajectory]``, of species that nothing changes."""
    network, options, rows, n = choose_values(network, options)
    values = network.parameter_values()
    amounts = network.initial_amounts(values)
    columns = _initial_columns(network, rows, values, n) if rows else {}
    return {
        name: np.asarray(columns.get(name, amounts[name])) for name in network.constant_species()
    }


def _held_fractions(
    network: Network, amounts: Mapping[str, float], columns: Mapping[str, FloatArray]
) -> list[str]:
    """Species that nothing changes and that are not whole, in any row: numbers in rate laws."""
    return [
        name
        for name in network.constant_species()
        if np.any(np.rint(column := columns.get(name, np.array(amounts[name]))) != column)
        and np.all((column >= 0) & (column <= MOST))
    ]


def _refuse_negative(counts: Mapping[str, int]) -> None:
    """Counts below zero, which equations allow of what an event sets."""
    for name, count in counts.items():
        if count < 0:
            raise ModelError(f"species {name}: initial amount {count} is not allowed, 0 or more")


def _moving(lowered: LoweredNetwork) -> str:
    """Elements beside reactions that change the state, for messages."""
    dynamics = lowered.dynamics
    drawn = dynamics is not None and dynamics.drawn
    return "values that it draws" if drawn else "events, or rate laws that depend on the time"


def _refuse_idle_queue(network: Network, options: Options, lowered: LoweredNetwork) -> None:
    """Refuse a length of the queue of delays where nothing would wait in it."""
    length = options.method.delay_queue if isinstance(options.method, SSA) else DELAY_QUEUE
    jumps = lowered.dynamics.jumps if lowered.dynamics is not None else ()
    if length != DELAY_QUEUE and not jumps and not any(r.completions for r in lowered.reactions):
        raise ConfigError(
            f"{opt('delay_queue', length)}: {network.name} has no delays, so nothing waits: leave "
            "it out"
        )


def _warn_of_net_laws(network: Network) -> None:
    """Noise is less than a mechanism has whose directions the file does not tell."""
    both = [f.element for f in network.features if f.kind == "net law"]
    if both:
        warn(
            f"rates that may be negative ({opt('net_laws')}): these reactions then run backwards; "
            "means follow the rate laws, and the noise is the least that they allow: "
            f"{some(dict.fromkeys(both))}",
        )


def each_of(options: Options) -> str:
    """Name of a row of values in messages."""
    return "trajectory" if options.sweep is None else "point"


def _rounded(name: str, amounts: FloatArray) -> CountArray:
    if not (np.isfinite(amounts) & (amounts >= 0) & (amounts <= 2**31 - 1)).all():
        raise ModelError(f"species {name}: every initial amount must be 0 to 2147483647")
    return np.rint(amounts).astype(np.int32)


def _constant_rows(
    lowered: LoweredNetwork, columns: Mapping[str, FloatArray], n: int, each: str
) -> FloatArray:
    """Constants per trajectory or point (`each`); those of mass action must be 0 or more."""
    if not lowered.constants:
        return np.zeros((1, 1))
    table = lowered.constant_rows(columns, n)
    if (np.isfinite(table) & (table >= 0)).all():
        return table
    for reaction in lowered.reactions:
        if isinstance(reaction.constant, Constant):
            column = table[:, reaction.constant.index]
            good = np.isfinite(column) & (column >= 0)
            if not good.all():
                i = int(np.flatnonzero(~good)[0])
                raise ModelError(
                    f"reaction {reaction.name}: its rate constant is {column[i]:g} in {each} "
                    f"{i}; it must be finite and 0 or more"
                )
    return table


def _called(network: Network, pattern: str) -> str:
    """Say what a species is called that was given by BioNetGen's pattern for it."""
    for name, label in network.labels.items():
        if label == pattern:
            return f"; {pattern} is called {name}"
    return ""

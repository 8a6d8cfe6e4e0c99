"""Prepared runs that are kept, for the next run of the same model with the same options.

A run of a small model takes longer to prepare than to compute. So what was prepared stays beside
its model, while that lives and has not changed: the task, loaded kernels, buffers, an open device.
Any part of a model that is another object than it was counts as a change. One caller at a time has
a kept run; a second thread prepares its own. A run with other sample times, or another number of
trajectories, takes the task of a kept run, and compiles kernels of its own.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter, is_

import numpy as np

from tauslab.base.host import bound_to
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.ensemble.engine import Engine
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Event, NetworkData, TimedEvent
from tauslab.options.ensemble import Options, Portion
from tauslab.options.methods import ODE, SSA, Auto, TauLeaping
from tauslab.runner.ensemble.choices.outlook import FEW_EVENTS, Outlook, is_tried
from tauslab.runner.ensemble.lane import Lane, Reductions
from tauslab.runner.ensemble.lanes import DeviceLanes, ProfileRow
from tauslab.runner.ensemble.task import HybridTask, NetworkTask, Task

MOST_KEPT = 64  # prepared runs of a process
MOST_BYTES = 256 << 20  # of all of them together
_BYTES_OF_TEXT = 20  # of a prepared model, for a character of its normal form
_FEW_TRAJECTORIES = 128  # of a run that needs no trial: with FEW_EVENTS each it takes a moment
_MOMENT, _FEW_EVENTS = 0.02, 1e5  # seconds and events of a run that nobody need be able to stop
# What may differ between runs that share what is prepared.
_OWN = {
    "first", "seed", "set", "given", "output", "overwrite", "writer", "hints", "compress", "note",
    "sample",
}  # fmt: skip
_OF_LENGTH = {"n", "times"}
_alike = attrgetter(*(one.name for one in fields(Options) if one.name not in _OWN | _OF_LENGTH))
_WHOLE = Portion()
_NO_MAPPING = (str, float, int, type(None))  # to ask these whether they are mappings takes long
_PARTS = [one.name for one in fields(NetworkData) if one.init]


@dataclass
class Setup:
    """Kernels on this rank's device and the choices made; all portions of a run share them.

    `row` begins this rank's row of /profile. `lanes`, `trial` and `outlook` are those of the last
    run of `task`, or of a task that differs in seed and values, for the next.
    """

    task: Task
    engine: Engine
    reductions: Reductions
    row: ProfileRow
    lanes: DeviceLanes | None = None
    trial: Lane | None = None
    outlook: Outlook | None = None

    def is_short(self, events: float) -> bool:
        """Return whether a run of about so many `events` takes a moment, as the last ones did."""
        return 0 < events < _FEW_EVENTS and self.was_short

    def may_be_short(self, task: Task) -> bool:
        """Return whether a run of `task`, for which there is no estimate, may be short.

        It then runs with a limit of steps, instead of trial trajectories before it.
        """
        held = self.lanes is not None and self.lanes.waited and self.was_short
        small = task.options.total <= _FEW_TRAJECTORIES and task.options.max_steps > FEW_EVENTS
        return held and small and self.outlook is None and is_tried(task)

    @property
    def nbytes(self) -> int:
        """Bytes of buffers on the device, and about those of the model."""
        buffers = 0 if self.lanes is None else self.lanes.nbytes
        return buffers + _BYTES_OF_TEXT * len(self.task.stored_model)

    @property
    def was_short(self) -> bool:
        """Return whether the last run took a moment."""
        return self.lanes is not None and self.lanes.seconds < _MOMENT


@dataclass(frozen=True)
class Content:
    """The parts of a model, which cannot change, and how many there are of each kind."""

    parts: tuple[object, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, network: NetworkData) -> Content:
        """Take the parts in their order, and those of parts that could be changed in place."""
        return cls.of_kinds(_groups(network))

    @classmethod
    def of_kinds(cls, kinds: Iterable[list[object]]) -> Content:
        """Take the parts of each kind in their order."""
        parts, sizes = list[object](), list[int]()
        for group in kinds:
            parts += group
            sizes.append(len(group))
        return cls(tuple(parts), tuple(sizes))

    def same(self, other: Content) -> bool:
        """Return whether all parts are the same objects."""
        return self.sizes == other.sizes and all(map(is_, self.parts, other.parts))


def _groups(network: NetworkData) -> Iterator[list[object]]:
    for name in _PARTS:
        yield listed(getattr(network, name))
    for reaction in network.reactions:  # quick: of a large network there are many
        yield [*reaction.reactants, *reaction.reactants.values()]
        yield [*reaction.products, *reaction.products.values()]
    for event in network.events:
        assert isinstance(event, Event | TimedEvent)
        yield listed(event.assignments)


def listed(value: object) -> list[object]:
    """Return the parts of a part: keys and values, elements, or itself."""
    if isinstance(value, list):
        return list(value)
    if isinstance(value, _NO_MAPPING) or not isinstance(value, Mapping):
        return [value]
    return [*value.keys(), *value.values()]


@dataclass(frozen=True)
class Request:
    """Options of a run that decide what is prepared for it.

    Parameters
    ----------
    options
        The options in which runs must agree to share what is prepared.
    length
        Number of trajectories and sample times: runs that agree in them too share kernels.
    values
        Those of ``set``: runs that agree in them too have the same task.
    """

    content: Content
    options: tuple[object, ...]
    length: tuple[object, ...]
    values: tuple[object, ...]
    seed: int

    def same_model(self, other: Request) -> bool:
        """Return whether model and options are the same, if not length, values and seed."""
        return self.options == other.options and self.content.same(other.content)


def request_of(network: Network, options: Options, comm: Communicator) -> Request | None:
    """The request of a run; None for one that keeps nothing and takes nothing that is kept.

    That is a run that goes on with a file, is a portion of another, draws or sweeps points, runs on
    workers, or shows progress.
    """
    assert options.seed is not None
    grows = options.grows or options.until is not None or options.portion != _WHOLE
    if grows or options.resume or options.dask is not None or options.sweep is not None:
        return None
    if options.sample.names or options.quiet is False or options.verbose:
        return None
    place = (comm.rank, comm.size, comm.gpu_rank, comm.core_sharers, bound_to())
    chosen = _alike(options)
    values = tuple((name, _frozen(np.asarray(v, np.float64))) for name, v in options.set.items())
    shapes = tuple((name, np.shape(v)) for name, v in options.set.items())
    try:
        hash(chosen)  # nothing in it can change
    except TypeError:
        return None
    length = options.n, _frozen(options.times)
    return Request(Content.of(network), (place, shapes, *chosen), length, values, options.seed)


def _frozen(value: object) -> object:
    """A value that cannot change and compares by all of its bits."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    return value


@dataclass
class Kept:
    """A prepared run that is not in use.

    Parameters
    ----------
    prepared
        The task before anything was chosen for it by pilots.
    messages
        Warnings of what was prepared, which every run repeats; the first `of_task` are of the task.
    by_seed
        Whether a choice depends on the seed.
    opened
        Closes the device when it is dropped.
    """

    request: Request
    setup: Setup
    prepared: Task
    messages: list[str | Warning]
    of_task: int
    by_seed: bool
    opened: ExitStack
    model: weakref.ref[Network] = field(init=False)

    def serves(self, request: Request) -> bool:
        """Return whether it is of this model and these options, if not of these values."""
        seeds = (self.request.seed, request.seed) if self.by_seed else (0, 0)
        alike = self.request.length == request.length and seeds[0] == seeds[1]
        return alike and self.request.same_model(request)

    def task_with(self, options: Options) -> Task:
        """The task with another seed, and what else makes no other task."""
        task = self.setup.task
        return replace(task, options=options.with_method(task.options.method))

    def renewed(self, task: Task) -> Setup:
        """Kernels and buffers, for a task that has the same."""
        held = self.setup
        same = task.constants is held.task.constants
        known = held.outlook is not None and not held.outlook.long  # which is announced
        held.engine.backend.use()
        row = {**held.row, "compile": 0.0}
        return replace(held, task=task, row=row, outlook=held.outlook if same and known else None)

    def has_kernels_of(self, task: Task) -> bool:
        """Return whether the engine that was made is the one that `task` would get."""
        mine = self.setup.task
        if not (type(task) is type(mine) is NetworkTask) or task.lowered.dynamics is not None:
            return False
        if isinstance(task.options.method, Auto):  # values decide between events and leaps
            return False
        leaps = isinstance(task.options.method, TauLeaping)
        same_rows = len(task.initial) == len(mine.initial)
        same_rows = same_rows and task.constants.shape == mine.constants.shape
        same = task.lowered is mine.lowered or task.lowered == mine.lowered
        return same_rows and (leaps or task.selector == "linear") and same


class PreparedRuns:
    """The kept runs of a process, the one used last at the end."""

    def __init__(self) -> None:
        # A model may end in the midst of a call, and with it what is kept of it.
        self._lock = threading.RLock()
        self._held: list[Kept] = []

    def take(self, network: Network, request: Request) -> Kept | None:
        """The kept run for a request, or one for other values; None if there is none."""
        with self._lock:
            mine = [one for one in self._held if one.model() is network]
            fitting = [one for one in mine if one.serves(request)]
            result = next((one for one in fitting if one.request.values == request.values), None)
            result = result or (fitting[-1] if fitting else None)
            # A changed model is never asked for again what it was.
            stale = [one for one in mine if not one.request.content.same(request.content)]
            ended = [one for one in self._held if one.model() is None]  # in the midst of a call
            gone = [result, *stale, *ended]
            self._held = [one for one in self._held if not any(one is other for other in gone)]
        return result

    def like(self, network: Network, request: Request) -> Kept | None:
        """A kept run of the same model and options, best of the same values; others may take it."""
        with self._lock:
            mine = [one for one in self._held if one.model() is network]
        alike = [one for one in mine if one.request.same_model(request)]
        alike.sort(key=lambda one: one.request.values != request.values)
        return alike[0] if alike else None

    def keep(self, network: Network, kept: Kept) -> None:
        """Keep a run while its model lives; ends the one that was not used for longest."""
        kept.model = weakref.ref(network, self._drop)
        with self._lock:
            held = [*self._held, kept][-MOST_KEPT:]
            while sum(one.setup.nbytes for one in held) > MOST_BYTES:
                held = held[1:]
            self._held = held

    def forget(self) -> None:
        """Drop all."""
        with self._lock:
            self._held = []

    def _drop(self, model: weakref.ref[Network]) -> None:
        with self._lock:
            self._held = [one for one in self._held if one.model is not model]

    def __len__(self) -> int:
        return len(self._held)

    def leave_to_parent(self) -> None:
        """In a forked process: begin anew; devices are those of the process that opened them."""
        _of_parents.append(self._held)
        self._lock, self._held = threading.RLock(), []


_of_parents: list[list[Kept]] = []
kept_runs = PreparedRuns()
os.register_at_fork(after_in_child=kept_runs.leave_to_parent)
atexit.register(kept_runs.forget)


def depends_on_seed(asked: Options, task: Task) -> bool:
    """Return whether what was prepared may be another with another seed."""
    if isinstance(asked.method, ODE):
        return False
    if isinstance(task, HybridTask) or not isinstance(task, NetworkTask):
        return True
    method = asked.method
    return not isinstance(method, SSA | TauLeaping) or (
        isinstance(method, SSA) and task.presimulation > 0
    )

"""The base of both lattice engines: the state of a slab on one device, batches of steps, counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, DeviceArray, FloatArray, IntArray
from tauslab.kernels.backends.base import Backend, Stream
from tauslab.kernels.lattice.changing import Changing
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.reshaping import Reshaping
from tauslab.kernels.lattice.state import (
    FULL,
    SINCE_START,
    WAITING,
    WAITING_0,
    WORK,
    LatticeState,
    Samples,
    Slab,
    chained,
    counted_columns,
    first_entries,
    in_order,
)

_LEAST_CAPACITY = 4096
_SITES_PER_ENTRY = 64  # room at first for waiting particles: one in this many sites
_GROWTH = 4


class Stepping(Protocol):
    """A runner of the steps of a slab: the engine itself, or a rank that shares the lattice."""

    def run(self, steps: int) -> None:
        """Put steps on the stream."""

    def must_repeat(self) -> bool:
        """Return whether the last steps had too little space, and have to be done again."""


class SlabMemory(ABC):
    """A slab of a lattice on one device, whatever form its particles have there.

    Parameters
    ----------
    sites
        Sites in memory.

    Attributes
    ----------
    step
        Of the state, and of all draws; `seed` and `replica` are the others of their address.
    capacity
        Particles that can wait for a slot before a batch of steps is done again with more room.
    places
        By site type what `tauslab.options.hook_view.LatticeView` knows of its sites.
    calls
        A step, and how many calls between it and the next have drawn random numbers.
    """

    KEPT: ClassVar[tuple[str, ...]]  # buffers of a batch that may be repeated, beside `_waiting`
    SLOTS_APART: ClassVar[bool]  # whether slots are made of the content, and it of them
    _heads: Any  # [2, list]: the first that waits on each list of `lists_of`

    def __init__(
        self, backend: Backend, lattice: LoweredLattice, slab: Slab, *, seed: int, replica: int,
        capacity: int | None, sites: int,
    ) -> None:  # fmt: skip
        self.backend, self.lattice, self.slab = backend, lattice, slab
        self.seed, self.replica, self.step = seed, replica, 0
        self.stream: Stream = backend.stream()
        self._kept: dict[str, Any] = {}
        self._one_row: tuple[Any, Array] | None = None  # of `count`, and its mirror
        self._frames: dict[int, tuple[Any, Array, Stream]] = {}
        self._fired: Any = backend.empty((max(1, len(lattice.reactions)),), np.uint64)
        self.work: Any = backend.empty((WORK,), np.uint64)
        self.capacity = capacity or max(_LEAST_CAPACITY, sites // _SITES_PER_ENTRY)
        self._waiting = self._empty_waiting()
        self.places: dict[str | None, tuple[IntArray, int, int]] = {}
        self.calls = 0, 0

    def _empty_waiting(self) -> Any:
        return self.backend.empty((2, self.capacity, WAITING.itemsize // 8), np.uint64)

    @property
    @abstractmethod
    def rates(self) -> FloatArray:
        """Stochastic constants ``[reaction, site type]`` per site; `set_rates` changes them."""

    @abstractmethod
    def set_rates(self, reactions: IntArray, rates: FloatArray) -> str | None:
        """Give reactions other stochastic constants ``[reaction, site type]`` from now on.

        Returns
        -------
        A sentence where turns of hops and reactions cost more than with all rates before.
        """

    def set_rate(self, reaction: int, rates: npt.ArrayLike) -> None:
        """Give a reaction other stochastic constants ``[site type]`` per site, from now on."""
        self.set_rates(np.array([reaction]), np.asarray(rates, np.float64)[None])

    # ---------------------------------------------------------------- changes between two steps

    @property
    @abstractmethod
    def changing(self) -> Changing:
        """Kernels that change particles in `content`."""

    @cached_property
    def reshaping(self) -> Reshaping:
        """Kernels that give sites other types, and move particles that may not stay there."""
        return Reshaping(self.backend, self.lattice, self.stream)

    @property
    @abstractmethod
    def content(self) -> DeviceArray:
        """The particles in own sites, in the form that the engine has."""

    @property
    @abstractmethod
    def types(self) -> Any:
        """Site types ``[plane, y, x]`` on the device; None where there is one."""

    @abstractmethod
    def set_types(self, types: DeviceArray) -> None:
        """Give all planes in memory other site types ``[plane, y, x]``; not where there is one.

        They are the engine's from then on.
        """

    def set_lattice_types(self, types: DeviceArray) -> None:
        """Do so with copies of those ``[z, y, x]`` of the whole lattice."""
        slab, shape = self.slab, self.lattice.shape
        planes = np.arange(slab.begin - slab.below, slab.end + slab.above) % shape[0]
        self.set_types(types.reshape(shape)[self.backend.upload(planes)])

    @property
    def own(self) -> slice:
        """The slab's own planes among those in memory."""
        slab = self.slab
        return slice(slab.below, slab.below + slab.end - slab.begin)

    @abstractmethod
    def in_slots(self, buffer: DeviceArray | None = None) -> DeviceArray:
        """The own particles ``[plane, y, x, slot]``, species + 1, put into a buffer if it is given.

        Without one they may be the content itself: see `SLOTS_APART`.
        """

    @abstractmethod
    def from_slots(self, cells: DeviceArray) -> None:
        """Make the particles in `cells` the content; those that hold no species are left out."""

    # ---------------------------------------------------------------- states

    @abstractmethod
    def load_start(self) -> None:
        """Put the model's particles at t = 0 on the device."""

    @abstractmethod
    def load(self, state: LatticeState) -> None:
        """Go on from a state of the slab's own planes."""

    @abstractmethod
    def take_up(self, state: LatticeState, content: DeviceArray) -> None:
        """Go on from a state whose particles are `content`; those of `state` are not read."""

    @abstractmethod
    def lists_of(self, sites: Array) -> IntArray:
        """Lists, of all in `_heads`, of particles that wait at numbered sites of the lattice."""

    def let_wait(self) -> None:  # noqa: B027 - an engine may always do so
        """Let particles wait for a slot from now on."""

    def mark_all(self) -> None:  # noqa: B027 - an engine may know nothing of them
        """Forget which sites are empty: after particles were changed from outside."""

    def _take_up_rest(self, state: LatticeState) -> None:
        """Go on from a state whose particles stand in the sites."""
        self.step = state.step
        fired = np.zeros(self._fired.shape, np.uint64)
        fired[: len(state.fired)] = state.fired
        self._fired[...] = self.backend.upload(fired)
        self._load_waiting(state.waiting, state.since_start)
        self.mark_all()

    def _load_waiting(self, waiting: Array, counted: Mapping[str, int]) -> None:
        """Put waiting particles in the list that the next step reads."""
        while self.capacity < 2 * len(waiting):
            self.capacity *= _GROWTH
            self._waiting = self._empty_waiting()
        work, current = np.zeros(WORK, np.uint64), self.step & 1
        work[WAITING_0 + current] = len(waiting)
        for name, count in counted.items():
            work[SINCE_START[name]] = count
        entries, lists = chained(waiting, self.lists_of(waiting["site"]))
        heads = np.full(self._heads.shape, -1, np.int32)
        heads[current].reshape(-1)[lists] = first_entries(entries, lists)
        upload = self.backend.upload
        self._heads[...], self.work[...] = upload(heads), upload(work)
        if len(entries):
            self._waiting[current, : len(entries)] = upload(entries.view(np.uint64).reshape(-1, 3))

    def replace_waiting(self, waiting: Array, added: int) -> None:
        """Put other particles on the list of those that wait; `added` of them are new."""
        counted = self._since_start()
        counted["spills"] += added
        self._load_waiting(waiting, counted)
        self.mark_all()

    def _since_start(self) -> dict[str, int]:
        """The numbers of `SINCE_START` so far."""
        counted = self.host(self.work)[[*SINCE_START.values()]].tolist()
        return dict(zip(SINCE_START, counted, strict=True))

    def save(self) -> LatticeState:
        """The state on the host."""
        self.synchronize()
        return replace(self.rest(), particles=self.host(self.in_slots()))

    def rest(self) -> LatticeState:
        """The state on the host, with no particles in sites: these stay on the device."""
        self.synchronize()
        fired = self.host(self._fired)[: len(self.lattice.reactions)].astype(np.int64)
        none = np.zeros((0, 0, 0, 0), self.lattice.particle_type)
        return LatticeState(none, self.waiting(), self.step, fired, **self._since_start())

    def save_later(self, place: int) -> Callable[[], LatticeState]:
        """Save while later steps run: the particles travel to the host beside them.

        Returns what waits for them and gives the state, to be called by any thread. Its particles
        lie in buffers of `place` (0, 1, ...), which the next call with that place uses again.
        """
        backend = self.backend
        if place not in self._frames:
            buffer = self._empty_slots(self.slab.end - self.slab.begin)
            self._frames[place] = (buffer, backend.mirror(buffer), backend.stream())
        buffer, mirror, copies = self._frames[place]
        self.in_slots(buffer)
        copies.wait_for(self.stream.record())
        backend.download(buffer, mirror, len(buffer), copies)
        arrived, rest = copies.record(), self.rest()

        def state() -> LatticeState:
            backend.use()
            arrived.wait()
            return replace(rest, particles=mirror)

        return state

    def _empty_slots(self, planes: int) -> Any:
        lattice = self.lattice
        shape = (planes, *lattice.shape[1:], lattice.slots)
        return self.backend.empty(shape, lattice.particle_type)

    def waiting(self) -> Array:
        """Particles that wait for a slot, ordered by site and age."""
        self.synchronize()
        current = self.step & 1
        held = int(self.host(self.work)[WAITING_0 + current])
        if held == 0:
            return np.zeros(0, WAITING)
        words = np.ascontiguousarray(self.host(self._waiting[current, :held]))
        sites = self.lattice.shape[1] * self.lattice.shape[2]
        entries = words.view(WAITING).reshape(-1)
        return in_order(entries, self.slab.begin * sites, self.slab.end * sites)

    def synchronize(self) -> None:
        """Wait until all steps that were asked for are done."""
        self.stream.record().wait()

    def host(self, buffer: DeviceArray) -> Array:
        """A copy of device memory on the host."""
        return self.seen(buffer).copy()

    def seen(self, buffer: DeviceArray) -> Array:
        """Device memory on the host, to be read now: where both are one it is no copy."""
        return seen(self.backend, self.stream, buffer)

    def snapshot(self) -> dict[str, Any]:
        """Copies with which a batch that is done again begins."""
        names = (*self.KEPT, "_waiting")
        for name in names:
            buffer = getattr(self, name)
            if name not in self._kept or self._kept[name].shape != buffer.shape:
                self._kept[name] = self.backend.empty(buffer.shape, buffer.dtype)
            self.backend.copy(buffer, self._kept[name], self.stream)
        return {"step": self.step, **{name: self._kept[name] for name in names}}

    def restore(self, before: dict[str, Any]) -> None:
        """Go back to a snapshot, with more room for waiting particles."""
        self.step = before["step"]
        for name in self.KEPT:
            self.backend.copy(before[name], getattr(self, name), self.stream)
        self.synchronize()
        self.capacity *= _GROWTH
        kept = before["_waiting"]  # of the first try
        self._waiting = self._empty_waiting()
        self._waiting[:, : kept.shape[1]] = kept
        self.mark_all()

    # ---------------------------------------------------------------- steps

    @abstractmethod
    def run(self, steps: int) -> None:
        """Put steps on the stream. Ask `must_repeat` before the result is used."""

    @abstractmethod
    def _counts_while(self, steps: int) -> bool:
        """Return whether the kernel of so many steps can count after some of them."""

    @abstractmethod
    def _run_counting(self, marks: Sequence[int], rows: DeviceArray) -> None:
        """Put steps on the stream, and counts ``[mark, column]`` after `marks` of them."""

    @abstractmethod
    def _count(self, row: DeviceArray) -> None:
        """Put a count ``[column]`` on the stream."""

    def _samples(self, rows: Array) -> Samples:
        return Samples.of_rows(rows, self.lattice.sizes)

    def follow(self) -> None:  # noqa: B027 - an engine may have no choice
        """Choose again how steps are done, by the particles there are now; changes no bit."""

    def run_sampled(self, marks: Sequence[int], steps: Stepping | None = None) -> Samples:
        """Run until each of `marks` in turn, steps from now, ascending, and count there.

        Where the list of waiting particles is full, all is done again with more room. `steps` does
        them, by default the engine itself.
        """
        steps = steps or self
        if steps is self:
            self.follow()
        before = self.snapshot()
        while True:
            values = self.host(self._start_sampled(marks, steps))
            if not steps.must_repeat():
                return self._samples(values)
            self.restore(before)

    def run_through(self, steps: int) -> None:
        """Run some steps; all again with more room where the list of waiting particles was full."""
        self.follow()
        before = self.snapshot()
        self.run(steps)
        while self.must_repeat():
            self.restore(before)
            self.run(steps)

    def _rows(self, number: int) -> Any:
        """Memory for counts ``[number, column]``, of 0."""
        rows = self.backend.empty((number, counted_columns(self.lattice.sizes)), np.uint64)
        self.backend.clear(rows, self.stream)
        return rows

    def _start_sampled(self, marks: Sequence[int], steps: Stepping) -> Any:
        """Put the steps and counts of `run_sampled` on the stream; the memory of the counts."""
        rows = self._rows(len(marks))
        # A kernel counts once after a step, and not before the first.
        apart = marks[0] > 0 and len({*marks}) == len(marks)
        if steps is self and apart and self._counts_while(marks[-1]):
            self._run_counting(marks, rows)
            return rows
        done = 0
        for index, mark in enumerate(marks):
            steps.run(mark - done)
            done = mark
            self._count(rows[index])
        return rows

    def start_sampled(self, marks: Sequence[int]) -> Callable[[], Samples]:
        """Begin `run_sampled` of the engine alone, beside others; a call of the answer ends it."""
        self.follow()
        before = self.snapshot()
        rows = self._start_sampled(marks, self)

        return partial(self._finish, marks, rows, before)

    def start_beside(
        self, others: Sequence[Any], marks: Sequence[int]
    ) -> list[Callable[[], Samples]]:
        """Do so of this engine and of others, all of one model, seed and number of steps."""
        return [each.start_sampled(marks) for each in (self, *others)]

    def _finish(self, marks: Sequence[int], rows: Any, before: dict[str, Any]) -> Samples:
        """Wait for counts, and do all again where the list of waiting particles was full."""
        values = self.host(rows)
        if not self.must_repeat():
            return self._samples(values)
        self.restore(before)
        return self.run_sampled(marks)

    def must_repeat(self) -> bool:
        """Return whether the list of waiting particles was full."""
        return bool(self.host(self.work)[FULL])

    def count(self) -> Samples:
        """Count now."""
        if self._one_row is None:
            rows = self._rows(1)
            self._one_row = rows, self.backend.mirror(rows)
        rows, mirror = self._one_row
        self.backend.clear(rows, self.stream)
        self._count(rows[0])
        self.backend.download(rows, mirror, 1, self.stream)
        self.synchronize()
        return self._samples(mirror)


def seen(backend: Backend, stream: Stream, buffer: DeviceArray) -> Array:
    """Device memory on the host after what is on a stream: where both are one it is no copy."""
    mirror = backend.mirror(buffer)
    backend.download(buffer, mirror, len(buffer), stream)
    stream.record().wait()
    return mirror

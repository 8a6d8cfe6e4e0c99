"""Many lattices of one model on one device: they lie side by side, and small ones move at once.

A small lattice in slots is done by one block, and blocks do as many lattices as the device has room
for at a time; those in planes share the blocks of a launch. Large ones are done one after another
by their engine, with all blocks for each. Which way is taken changes no bit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, BoolArray, DeviceArray, FloatArray, IntArray
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid
from tauslab.kernels.ensemble.gather import Gather
from tauslab.kernels.lattice.changing import PLACES, drawn_places, first_of
from tauslab.kernels.lattice.codegen import chances
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.halving import Half, Halving
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.objects import Ground, Objects
from tauslab.kernels.lattice.rates import RateBounds
from tauslab.kernels.lattice.reshaping import Gather as Gathers
from tauslab.kernels.lattice.reshaping import Reshaped
from tauslab.kernels.lattice.slab_memory import SlabMemory
from tauslab.kernels.lattice.state import (
    FULL,
    SINCE_START,
    WAITING,
    WAITING_0,
    WORK,
    LatticeState,
    chained,
    counted_columns,
    first_entries,
    in_order,
    waiting_anew,
)
from tauslab.model.lattice.placement import random_words

SUMMED = ("fired", *SINCE_START)  # of `Rest`: slabs of a lattice have parts of it
COUNTED = (*SUMMED, "steps", "puts", "shapes")  # of `Rest`, in its order
_CAPACITY = 256  # particles of a lattice that can wait, at first
_GROWTH = 4
PLACED = 1 << 28  # bytes of lattices that are placed at once on the host
_LOOKED_AT = 1 << 26  # bytes of lattices that are counted at once
_ROUNDS = 4  # lattices of a launch for each that is done at the same time


@dataclass(frozen=True)
class Rest:
    """The state of lattices beside particles in sites, on the host.

    waiting: an array of `WAITING` for each; fired int64 ``[lattice, reaction]``, spills and
    truncated int64 ``[lattice]`` since the start; steps int64 ``[lattice]``, of the engine, that
    were made; puts and shapes int64 ``[lattice]``: how often its particles, and site types, were
    given anew, which number draws; types: site types u8 ``[z, y, x]`` of each that was reshaped,
    None of others;
    objects: of several sites, as `Objects.stored` gives them.
    """

    waiting: list[Array]
    fired: IntArray
    spills: IntArray
    truncated: IntArray
    steps: IntArray
    puts: IntArray
    shapes: IntArray
    types: list[Array | None] = field(kw_only=True)
    objects: list[Mapping[str, Any]] = field(kw_only=True)

    @classmethod
    def joined(cls, parts: Sequence[Rest]) -> Rest:
        """The lattices of all parts, one or more, in their order."""
        return cls(
            [one for part in parts for one in part.waiting],
            *(np.concatenate([getattr(part, name) for part in parts]) for name in COUNTED),
            types=[one for part in parts for one in part.types],
            objects=[one for part in parts for one in part.objects],
        )

    def take(self, index: IntArray) -> Rest:
        """Take some lattices."""
        counted = (getattr(self, name)[index] for name in COUNTED)
        types, objects = [self.types[i] for i in index], [self.objects[i] for i in index]
        waiting = [self.waiting[i] for i in index]
        return Rest(waiting, *counted, types=types, objects=objects)


class Replicas(ABC):
    """Lattices of one model, each with random draws of its number.

    Attributes
    ----------
    particles
        u32 ``[lattice, word]`` on the device: those of sites, as the engine has them.
    rest
        What else each lattice has.
    """

    def __init__(self, engine: SlabMemory) -> None:
        self._engine, self.backend, self.lattice = engine, engine.backend, engine.lattice
        self._gather = Gather(self.backend)
        self.sites = math.prod(self.lattice.shape)
        self.words = engine.content.size * engine.content.dtype.itemsize // 4
        self.particles: Any = self.backend.empty((0, self.words), np.uint32)
        self.rest = self._none(0)
        self._own_rates = engine.rates.copy()
        self._rates: FloatArray | None = None
        self._types: Array | None = None  # that the engine has; None: the model's
        self._objects = Objects(self.lattice)
        self._gathers: Gathers = lambda *own: [own]  # arrays of all slabs of a lattice

    def _none(self, n: int) -> Rest:
        nothing = np.zeros(0, WAITING)
        fired = np.zeros((n, len(self.lattice.reactions)), np.int64)
        counted = np.zeros((len(COUNTED) - 1, n), np.int64)
        return Rest([nothing] * n, fired, *counted, types=[None] * n, objects=[{}] * n)

    def __len__(self) -> int:
        """Number of lattices."""
        return int(self.particles.shape[0])

    @property
    def waiting(self) -> int:
        """Particles of all lattices that wait for a slot."""
        return sum(map(len, self.rest.waiting))

    @abstractmethod
    def in_slots(self, rows: slice) -> Any:
        """Species + 1, 0 for an empty slot, of some lattices ``[lattice, z, y, x, slot]``."""

    @property
    def _counted(self) -> tuple[int, int, int]:
        """Lattices, site types and species, of counts."""
        return len(self), len(self.lattice.site_types), len(self.lattice.species)

    @property
    def cells(self) -> DeviceArray:
        """The same of all lattices."""
        result: DeviceArray = self.in_slots(slice(0, len(self)))
        return result

    def host_cells(self) -> Array:
        """The same on the host."""
        return self.host(self.cells)

    def profile(self, particle: int, axis: int) -> IntArray:
        """Particles int64 ``[lattice, plane]`` of a kind along an axis, with those that wait."""
        others = tuple(i for i in range(1, 5) if i != axis + 1)
        result = np.zeros((len(self), self.lattice.shape[axis]), np.int64)
        most = max(1, _LOOKED_AT // (self.sites * self.lattice.slots))
        for begin in range(0, len(self), most):
            part = (self.in_slots(slice(begin, begin + most)) == particle).sum(axis=others)
            result[begin : begin + most] = self._of_planes(self.host(part), axis)
        for row, waiting in enumerate(self.rest.waiting):
            sites = waiting["site"][waiting["particle"] == particle].astype(np.int64)
            if len(sites):
                plane = np.unravel_index(sites, self.lattice.shape)[axis]
                result[row] += np.bincount(plane, minlength=result.shape[1])
        return result

    def _of_planes(self, part: IntArray, axis: int) -> IntArray:
        """Numbers ``[lattice, plane]`` along an axis, of those in the planes that are here."""
        del axis
        return part

    @abstractmethod
    def take_up(self, cells: Array, rest: Rest) -> None:
        """Replace all lattices by those with `cells` on the host."""

    # ---------------------------------------------------------------- states

    @abstractmethod
    def begin(self, starts: Sequence[tuple[LoweredLattice, int]], seed: int) -> None:
        """Place particles at t = 0: of each lattice by its model and the number of its draws."""

    def put(self, particles: DeviceArray, rest: Rest) -> None:
        """Replace all lattices; `particles` are on the device."""
        self._engine.changing.forget()
        self.particles, self.rest = particles, rest

    def rows(self, index: IntArray) -> DeviceArray:
        """A copy of particles ``[row, word]`` of some lattices, on the device."""
        target = self.backend.empty((len(index), self.words), np.uint32)
        if len(index):
            ancestors = self.backend.upload(np.ascontiguousarray(index, np.int64))
            self._gather.start(self.particles, ancestors, target, self._engine.stream)
            self._engine.synchronize()
        return target

    @abstractmethod
    def _listed(self, numbers: IntArray, **draws: int) -> Array:
        """Candidates of the kinds in ``numbers[lattice, species + 1]``, by sites of all lattices.

        Further arguments are the draws' of `Changing.candidates`.
        """

    @abstractmethod
    def _take(self, chosen: Array) -> None:
        """Take out candidates."""

    @abstractmethod
    def _put(self, at: IntArray, particles: IntArray) -> BoolArray:
        """Put particles at sites of all lattices, which ascend: those that found no slot."""

    def take_out(self, numbers: IntArray, *, seed: int, call: int, first: int) -> Array:
        """Take out ``numbers[lattice, species + 1]`` particles, drawn at random.

        First those with a slot; where these are too few, some that wait.

        Parameters
        ----------
        seed, call
            Of the draws, with `Rest.puts`.
        first
            Number of the first lattice.

        Returns
        -------
        Lattice, site and species + 1 of each, int64 ``[3, particle]``.
        """
        if not numbers.any():
            return np.zeros((3, 0), np.int64)
        at, puts = {"seed": seed, "call": call}, self.rest.puts
        listed = []
        for step in np.unique(puts[numbers.any(axis=1)]).tolist():
            own = numbers * (puts == step)[:, None]
            some = self._listed(own, replica=first, step=step, **at)
            listed.append(some[puts[some["site"].astype(np.int64) // self.sites] == step])
        chosen = first_of(np.concatenate(listed), numbers, self.sites)
        self._take(chosen)
        rows, sites = np.divmod(chosen["site"].astype(np.int64), self.sites)
        gone = [np.stack([rows, sites, chosen["particle"].astype(np.int64)])]
        left = numbers.copy()
        np.subtract.at(left, (gone[0][0], gone[0][2]), 1)
        for row, kind in np.argwhere(left > 0).tolist():
            waiting = self.rest.waiting[row]
            of_kind = np.flatnonzero(waiting["particle"] == kind)
            step = int(puts[row])
            draws = drawn_places(len(of_kind), 1 << 62, replica=first + row, step=step, **at)
            out = of_kind[np.argsort(draws, kind="stable")[: left[row, kind]]]
            places = waiting["site"][out].astype(np.int64)
            gone.append(np.stack([np.full_like(places, row), places, np.full_like(places, kind)]))
            self.rest.waiting[row] = np.delete(waiting, out)
        return np.concatenate(gone, axis=1)

    def put_in(self, rows: IntArray, sites: IntArray, particles: IntArray) -> None:
        """Put particles at sites of lattices: into slots, or on the lists of those that wait."""
        at = rows * self.sites + sites
        order = np.argsort(at, kind="stable")
        at, particles = at[order], particles[order]
        left = self._put(at, particles)
        at, particles = at[left], particles[left]
        for row in np.unique(at // self.sites).tolist():
            local = at // self.sites == row
            waiting, step = self.rest.waiting[row], int(self.rest.steps[row])
            fresh = waiting_anew(waiting, at[local] % self.sites, particles[local], step)
            both = np.concatenate([waiting, fresh])
            self.rest.waiting[row] = in_order(both, 0, self.sites)
            self.rest.spills[row] += len(fresh)

    def reshape(
        self, row: int, types: Array, follow: Mapping[str, str], *, seed: int, number: int,
        call: int, reach: int,
    ) -> Reshaped:  # fmt: skip
        """Give a lattice other site types ``[z, y, x]``, as `Reshaping.run` does.

        Parameters
        ----------
        follow
            How species go with a shape, by name.
        seed, number, call
            Of the draws, with the steps that the lattice has made.

        Raises
        ------
        ConfigError
            The lattice has no site left where some of its particles may be.
        """
        engine, how = self._engine, self._engine.reshaping
        self._load_alone(row, self.rest, seed, number)
        result = how.run(
            engine, types, how.following(follow), call=call, gather=self._gathers, reach=reach
        )
        self._store_alone(row, self.rest)
        self._types = self.rest.types[row] = types
        return result

    def halve(
        self, row: int, kept: int, how: Halving, *, seed: int, number: int, mother: int, step: int,
        call: int,
    ) -> Half:  # fmt: skip
        """Keep one daughter, 1 or 2, of a lattice that divides; 0: look what both get.

        Parameters
        ----------
        number, mother
            Of the lattice, and of the mother of which it is a copy.
        seed, step, call
            Of the draws, with `mother`.

        Returns
        -------
        What stays, and what both daughters get.
        """
        engine, rest, shape = self._engine, self.rest, self.lattice.shape
        self._load_alone(row, rest, seed, number)
        engine.synchronize()
        slots = engine.in_slots()
        cells = np.concatenate([part[0] for part in self._gathers(self.host(slots))])
        types = rest.types[row]
        if types is None:
            types = self.lattice.sites(0, shape[0])
        self._objects.take_up(rest.objects[row])
        half = how.half(
            cells, rest.waiting[row], self._objects.without(types.reshape(shape)),
            how.plane.sides(shape, self.lattice.spacing), kept or 1,
            random_words(seed, PLACES, mother, call, step),
        )  # fmt: skip
        if not kept:
            return half
        own = slice(engine.slab.begin, engine.slab.end)
        slots[...] = self.backend.upload(np.ascontiguousarray(half.cells[own]))
        engine.from_slots(slots)
        self.backend.copy(engine.content, self._content(row), engine.stream)
        engine.synchronize()
        none = rest.waiting[row][:0]
        rest.waiting[row] = waiting_anew(none, *half.waiting, int(rest.steps[row]))
        if self._objects:
            move = np.zeros(3, np.int64)
            move[how.plane.axis] = -half.shift
            self._objects.halve(half.origins, move)
            rest.objects[row] = self._objects.stored()
        if how.plane.inside is not None or self._objects:
            rest.types[row] = self.with_objects(row, half.types)
        return half

    def with_objects(self, row: int, types: Array) -> Array:
        """Site types ``[z, y, x]`` with those of the objects of a lattice over them."""
        if not self._objects:
            return types
        self._objects.take_up(self.rest.objects[row])
        made = self._objects.over(types)
        self.rest.objects[row] = self._objects.stored()
        return made

    def place_objects(self, numbers: Sequence[int], *, seed: int) -> None:
        """Place the objects of lattices that begin."""
        for row, number in enumerate(numbers if self._objects else ()):
            with self._on_ground(row, self.rest, seed, number) as ground:
                self._objects.begin(ground)

    def settle_objects(self, row: int, number: int, *, seed: int, time: int) -> None:
        """Place objects of a lattice that lost their sites: see `Objects.settle`."""
        with self._on_ground(row, self.rest, seed, number) as ground:
            self._objects.settle(ground, time)

    @contextmanager
    def _on_ground(self, row: int, rest: Rest, seed: int, number: int) -> Iterator[Ground]:
        """Give the objects of a lattice, which the engine has, and keep what becomes of it."""
        self._load_alone(row, rest, seed, number)
        self._objects.take_up(rest.objects[row])
        self._types = np.zeros(0, np.uint8)  # nobody's: objects change those of the engine
        yield Ground(self._engine, lambda *own: [own])
        self._store_alone(row, rest)
        rest.objects[row] = self._objects.stored()
        self._types = rest.types[row] = self.host(self._engine.types)

    def close(self) -> None:  # noqa: B027 - an engine of its own holds nothing outside
        """Give back what other ranks reach. Collective."""

    def use_rates(self, rates: FloatArray | None) -> None:
        """Give each lattice stochastic constants ``[lattice, reaction, site type]``, or none."""
        self._rates = None if rates is None or not len(rates) else rates

    def host(self, buffer: DeviceArray) -> Array:
        """A copy on the host of device memory."""
        return self._engine.host(buffer) if len(buffer) else np.zeros(buffer.shape, buffer.dtype)

    # ---------------------------------------------------------------- steps

    def count(self) -> IntArray:
        """Particles int64 ``[lattice, site type, species]``, with those that wait."""
        return np.asarray(self.run_sampled([0], range(len(self)), seed=0)[0])

    def run_sampled(self, marks: Sequence[int], numbers: Sequence[int], *, seed: int) -> IntArray:
        """Run until each of `marks` in turn, steps of the engine from now, ascending, and count.

        Parameters
        ----------
        numbers
            Of each lattice, the number of which its draws are made.

        Returns
        -------
        Particles int64 ``[mark, lattice, site type, species]``, with those that wait.
        """
        n = len(self)
        result = np.zeros((len(marks), *self._counted), np.int64)
        rest = self.rest.take(np.arange(n))
        self._move(marks, rest, seed, numbers, result)
        rest.steps[:] += marks[-1] if len(marks) else 0
        self.rest = rest
        return result

    def advance(self, done: int, due: int, numbers: Sequence[int], *, seed: int) -> IntArray:
        """Make the steps of the model behind `done` up to `due`, and the moves of objects there.

        Returns
        -------
        Particles int64 ``[lattice, site type, species]``, with those that wait.
        """
        substeps = self.lattice.diffusion_substeps
        if not self._objects or due == done:
            return np.asarray(self.run_sampled([(due - done) * substeps], numbers, seed=seed)[0])
        rest = self.rest.take(np.arange(len(self)))
        result = np.zeros(self._counted, np.int64)
        for row, number in enumerate(numbers):
            with self._on_ground(row, rest, seed, number) as ground:
                for before, step in pairwise([done, *self._objects.stops(done, due)]):
                    self._engine.run_through((step - before) * substeps)
                    self._objects.move(ground, step)
                result[row] = self._engine.count().by_type[0]
        rest.steps[:] += (due - done) * substeps
        self.rest = rest
        return result

    def _move(
        self, marks: Sequence[int], rest: Rest, seed: int, numbers: Sequence[int], found: IntArray
    ) -> None:
        """Run all lattices, one after another, and put counts at `marks` into `found`."""
        for row in range(len(self)):
            found[:, row] = self._alone(marks, row, rest, seed, numbers[row])

    def _content(self, row: int) -> Any:
        """A lattice in the form of the engine."""
        held = self._engine.content
        return self.particles[row].view(held.dtype).reshape(held.shape)

    def _alone(
        self, marks: Sequence[int], row: int, rest: Rest, seed: int, number: int
    ) -> IntArray:
        self._load_alone(row, rest, seed, number)
        by_type = self._sampled(marks)
        if marks[-1]:
            self._store_alone(row, rest)
        return by_type

    def _sampled(self, marks: Sequence[int]) -> IntArray:
        """Let the engine make steps, and count ``[mark, site type, species]``."""
        return self._engine.run_sampled(marks).by_type

    def _load_alone(self, row: int, rest: Rest, seed: int, number: int) -> None:
        """Let the engine go on from the state of a lattice."""
        self._use_types(rest.types[row])
        self._load(self._engine, row, rest, seed, number)

    def _load(self, engine: SlabMemory, row: int, rest: Rest, seed: int, number: int) -> None:
        """Let an engine go on from the state of a lattice of the same site types."""
        engine.seed, engine.replica = seed, int(number)
        self._use_rates(engine, self._own_rates if self._rates is None else self._rates[row])
        none = np.zeros((0, 0, 0, 0), self.lattice.particle_type)
        counted = {name: int(getattr(rest, name)[row]) for name in SINCE_START}
        engine.take_up(
            LatticeState(none, rest.waiting[row], int(rest.steps[row]), rest.fired[row], **counted),
            self._content(row),
        )

    def _use_types(self, types: Array | None) -> None:
        """Let the engine have site types; None: the model's."""
        if types is not self._types:
            model = self.lattice.sites(0, self.lattice.shape[0])
            self._engine.set_lattice_types(self.backend.upload(model if types is None else types))
            self._types = types

    def _use_rates(self, engine: SlabMemory, rates: FloatArray) -> None:
        """Let an engine have rates ``[reaction, type]``."""
        others = np.flatnonzero((rates != engine.rates).any(axis=1))
        if len(others):
            engine.set_rates(others, rates[others])

    def _store_alone(self, row: int, rest: Rest) -> None:
        """Keep the state of the engine as that of a lattice."""
        self._store(self._engine, row, rest)

    def _store(self, engine: SlabMemory, row: int, rest: Rest) -> None:
        """Keep the state of an engine as that of a lattice."""
        after = engine.rest()
        self.backend.copy(engine.content, self._content(row), engine.stream)
        engine.synchronize()
        rest.waiting[row] = after.waiting
        rest.fired[row] = after.fired
        for name, count in after.since_start.items():
            getattr(rest, name)[row] = count

    @property
    def bytes_each(self) -> int:
        """Device memory of a lattice that rests."""
        return 4 * self.words


class ManyReplicas(Replicas):
    """Lattices that move at once: the buffers of each follow those of the one before."""

    def __init__(self, engine: SlabMemory) -> None:
        super().__init__(engine)
        self._room: dict[str, Any] = {}
        self._capacity = _CAPACITY

    @abstractmethod
    def _of_a_launch(self, n: int) -> int:
        """Lattices that are done at once; 0: one after another, with all blocks for each."""

    @abstractmethod
    def _mover(self, n: int) -> SlabMemory:
        """An engine of the model's site types and rates, whose kernels move n lattices at once."""

    @abstractmethod
    def _new_room(self, n: int) -> dict[str, Any]:
        """Memory for n lattices that move: heads of lists of waiting particles, and what else."""

    @abstractmethod
    def _try(
        self, marks: Sequence[int], rows: slice, rest: Rest, seed: int, numbers: Sequence[int],
        capacity: int,
    ) -> IntArray:  # fmt: skip
        """All steps up to the last mark; void where a list of waiting particles was full."""

    def _move(
        self, marks: Sequence[int], rest: Rest, seed: int, numbers: Sequence[int], found: IntArray
    ) -> None:
        """As of `Replicas`, or many at once."""
        n = len(self)
        size = self._of_a_launch(n)
        if not size:
            super()._move(marks, rest, seed, numbers, found)
            return
        for begin in range(0, n, size):
            rows = slice(begin, min(n, begin + size))
            found[:, rows] = self._launched(marks, rows, rest, seed, numbers[rows])

    def _launched(
        self, marks: Sequence[int], rows: slice, rest: Rest, seed: int, numbers: Sequence[int]
    ) -> IntArray:
        """Make all steps up to the last mark; again with more room where a list was full."""
        n, engine = rows.stop - rows.start, self._mover(rows.stop - rows.start)
        held = max((len(rest.waiting[row]) for row in range(rows.start, rows.stop)), default=0)
        capacity = self._capacity
        while capacity < 2 * held:
            capacity *= _GROWTH
        if held:
            engine.let_wait()
        backend, stream = self.backend, engine.stream
        state = self.particles[rows]
        before = self._buffers(n, capacity)["before"][:n]
        backend.copy(state, before, stream)
        while True:
            self._load_rows(rows, rest, engine)
            counts = self._try(marks, rows, rest, seed, numbers, capacity)
            work = engine.host(self._room["work"][:n])
            if not work[:, FULL].any():
                break
            capacity *= _GROWTH
            engine.let_wait()
            kept = self._room["before"]
            backend.copy(kept[:n], state, stream)
            engine.synchronize()
            self._capacity = capacity
            self._buffers(n, capacity, before=kept)
        self._take_back(rows, rest, work, marks[-1], engine)
        return counts

    def _buffers(self, n: int, capacity: int, before: Any = None) -> dict[str, Any]:
        """Memory for n lattices that move."""
        space = self._room
        if space and len(space["work"]) >= n and space["waiting"].shape[2] == capacity:
            return space
        backend = self.backend
        self._room = {}  # given back before more is taken
        self._room = {
            "before": backend.empty((n, self.words), np.uint32) if before is None else before,
            "waiting": backend.empty((n, 2, capacity, WAITING.itemsize // 8), np.uint64),
            "work": backend.empty((n, WORK), np.uint64),
            "fired": backend.empty((n, max(1, len(self.lattice.reactions))), np.uint64),
            **self._new_room(n),
        }
        return self._room

    def _load_rows(self, rows: slice, rest: Rest, engine: SlabMemory) -> None:
        """Put what waits and what was counted where kernels find it."""
        backend, space, n = self.backend, self._room, rows.stop - rows.start
        steps = rest.steps[rows]
        work = np.zeros((n, WORK), np.uint64)
        for name, word in SINCE_START.items():
            work[:, word] = getattr(rest, name)[rows]
        fired = np.zeros((n, max(1, len(self.lattice.reactions))), np.uint64)
        fired[:, : rest.fired.shape[1]] = rest.fired[rows]
        space["heads"][:n] = np.int32(-1)
        for at in range(n):
            waiting, current = rest.waiting[rows.start + at], int(steps[at]) & 1
            if not len(waiting):
                continue
            work[at, WAITING_0 + current] = len(waiting)
            entries, lists = chained(waiting, engine.lists_of(waiting["site"]))
            heads = np.full(space["heads"].shape[2:], -1, np.int32)
            heads.reshape(-1)[lists] = first_entries(entries, lists)
            space["heads"][at, current] = backend.upload(heads)
            words = entries.view(np.uint64).reshape(-1, 3)
            space["waiting"][at, current, : len(entries)] = backend.upload(words)
        space["work"][:n] = backend.upload(work)
        space["fired"][:n] = backend.upload(fired)

    def _take_back(
        self, rows: slice, rest: Rest, work: Array, done: int, engine: SlabMemory
    ) -> None:
        """Take back waiting particles and counters after all steps."""
        n = rows.stop - rows.start
        for name, word in SINCE_START.items():
            getattr(rest, name)[rows] = work[:, word]
        fired = engine.host(self._room["fired"][:n])
        rest.fired[rows] = fired[:, : rest.fired.shape[1]]
        for at in range(n):
            current = (int(rest.steps[rows.start + at]) + done) & 1
            held = int(work[at, WAITING_0 + current])
            entries = np.zeros(0, WAITING)
            if held:
                words = engine.host(self._room["waiting"][at, current, :held])
                entries = in_order(
                    np.ascontiguousarray(words).view(WAITING).reshape(-1), 0, self.sites
                )
            rest.waiting[rows.start + at] = entries


class LatticeReplicas(ManyReplicas):
    """Lattices in slots: a block does a small one."""

    _engine: LatticeEngine

    def __init__(self, backend: Backend, lattice: LoweredLattice) -> None:
        engine = LatticeEngine(backend, lattice, seed=0, follows=False)
        super().__init__(engine)
        self._plan = engine.plan
        self.program: Any = None
        if self._plan.together:
            self.program = backend.compile(
                KernelSource(
                    "lattice/replicas.cc",
                    ("rdme_replicas", "rdme_count_replicas"),
                    self._plan.header,
                )
            )
        self._tables: tuple[Any, Any] | None = None  # of rates
        self._bounds: RateBounds | None = None

    def in_slots(self, rows: slice) -> DeviceArray:
        """As of `Replicas`; no copy."""
        lattice = self.lattice
        some = self.particles[rows].view(lattice.particle_type)
        result: DeviceArray = some.reshape((-1, *lattice.shape, lattice.slots))
        return result

    def take_up(self, cells: Array, rest: Rest) -> None:
        """As of `Replicas`."""
        words = np.ascontiguousarray(cells).reshape(-1).view(np.uint32)
        self.put(self.backend.upload(words.reshape(len(cells), self.words)), rest)

    def begin(self, starts: Sequence[tuple[LoweredLattice, int]], seed: int) -> None:
        """As of `Replicas`."""
        backend, nz = self.backend, self.lattice.shape[0]
        self.particles = backend.empty((len(starts), self.words), np.uint32)
        self.rest = self._none(len(starts))
        most = max(1, PLACED // (4 * self.words))
        for begin in range(0, len(starts), most):
            placed = [
                lattice.particles(0, nz, seed, number).reshape(-1).view(np.uint32)
                for lattice, number in starts[begin : begin + most]
            ]
            self.particles[begin : begin + len(placed)] = backend.upload(np.stack(placed))

    def _listed(self, numbers: IntArray, **draws: int) -> Array:
        wanted = np.asarray(numbers.any(axis=0))
        return self._engine.changing.candidates(
            self.cells, wanted, each=self.sites, first=0, **draws
        )

    def _take(self, chosen: Array) -> None:
        self._engine.changing.take(self.cells, chosen)

    def _put(self, at: IntArray, particles: IntArray) -> BoolArray:
        return self._engine.changing.put(self.cells, at, particles)

    def use_rates(self, rates: FloatArray | None) -> None:
        """As of `Replicas`."""
        super().use_rates(rates)
        self._tables = None
        if self._rates is None:
            return
        chance = np.stack([chances(self.lattice, each) for each in self._rates])
        self._bounds = bounds = self._bounds or RateBounds(self.lattice)
        bound = np.empty((len(chance), *bounds.table.shape), np.uint32)
        for row, each in enumerate(chance):
            bounds.update(each)
            bound[row] = bounds.table
        upload = self.backend.upload
        self._tables = (upload(np.ascontiguousarray(chance)), upload(np.ascontiguousarray(bound)))

    # ---------------------------------------------------------------- steps

    def _of_a_launch(self, n: int) -> int:
        """Lattices that are done at once; 0: one after another, with all blocks for each."""
        backend = self.backend
        if self.program is None or not n or any(one is not None for one in self.rest.types):
            return 0
        threads = self._plan.tile.threads
        resident = int(self.program.resident_blocks("rdme_replicas", threads))
        blocks = min(resident, max(1, self.sites // backend.sites_of_a_block), self._tiles)
        if min(n, resident) < blocks:
            return 0
        share = backend.free_memory() // (4 * self.bytes_in_flight)
        return int(max(1, min(n, share, _ROUNDS * resident)))

    @property
    def _tiles(self) -> int:
        return self._plan.tiles * self.lattice.shape[0]

    @property
    def bytes_in_flight(self) -> int:
        """Device memory of a lattice that moves, beside it."""
        bits = 2 if self.lattice.slots <= 16 else 4
        tiles = 4 * self._tiles * 10
        return 2 * self.bytes_each + 2 * bits * self.sites + tiles + 48 * _CAPACITY

    def _mover(self, n: int) -> SlabMemory:
        del n
        self._use_types(None)  # a lattice that moved alone may have had others
        self._use_rates(self._engine, self._own_rates)
        return self._engine

    def _new_room(self, n: int) -> dict[str, Any]:
        backend, planes, tiles = self.backend, self.lattice.shape[0], self._plan.tiles
        bits = np.uint16 if self.lattice.slots <= 16 else np.uint32
        return {
            "moved": backend.empty((n, self.words), np.uint32),
            "state_stamps": backend.empty((n, planes, tiles), np.uint32),
            "moved_stamps": backend.empty((n, planes, tiles), np.uint32),
            "z_moves": backend.empty((n, self.sites, 2), bits),
            "listed": backend.empty((n, 6, planes, tiles), np.int32),
            "heads": backend.empty((n, 2, planes, tiles), np.int32),
        }

    def _try(
        self, marks: Sequence[int], rows: slice, rest: Rest, seed: int, numbers: Sequence[int],
        capacity: int,
    ) -> IntArray:  # fmt: skip
        """All steps up to the last mark; void where a list of waiting particles was full."""
        backend, engine, n = self.backend, self._engine, rows.stop - rows.start
        lattice = self.lattice
        steps = rest.steps[rows]
        for name, more in (("state_stamps", 1), ("moved_stamps", 0)):
            stamps = ((steps + more) & 0xFFFFFFFF).astype(np.uint32)
            self._room[name][:n] = backend.upload(stamps[:, None, None])
        places = np.stack([np.asarray(numbers, np.int64), steps], axis=1)
        self._room["places"] = backend.upload(np.ascontiguousarray(places))
        bins = len(lattice.site_types) * len(lattice.species)
        counts = backend.empty((len(marks), n, counted_columns(lattice.sizes)), np.uint64)
        backend.clear(counts, engine.stream)
        done = 0
        for index, mark in enumerate(marks):
            if mark > done:
                self._start("rdme_replicas", rows, seed, capacity, done, mark - done, None)
            done = mark
            self._start("rdme_count_replicas", rows, seed, capacity, done, 0, counts[index])
        result = self._engine.host(counts)[:, :, :bins].astype(np.int64)
        return result.reshape(len(marks), n, len(lattice.site_types), len(lattice.species))

    def _start(
        self, entry: str, rows: slice, seed: int, capacity: int, done: int, steps: int,
        counts: DeviceArray | None,
    ) -> None:  # fmt: skip
        """Put steps, or a count, of all lattices of a launch on the stream."""
        engine, space, n = self._engine, self._room, rows.stop - rows.start
        tables = {} if self._tables is None else {
            "chances": self._tables[0][rows], "bounds": self._tables[1][rows]
        }  # fmt: skip
        buffers = ("moved_stamps", "state_stamps", "fired", "waiting", "heads", "work")
        lattice = {
            **engine.arguments(),
            **{name: space[name] for name in buffers},
            "state": self.cells[rows],
            "moved": space["moved"].view(self.lattice.particle_type),
            "capacity": capacity,
            "seed": seed,
            **tables,
        }
        arguments = self.program.arguments(
            entry, lattice=lattice, z_moves=space["z_moves"], listed=space["listed"],
            places=space["places"], replicas=n, done=done, steps=steps,
            own_rates=self._tables is not None, counts=counts,
            columns=0 if counts is None else int(counts.shape[1]),
        )  # fmt: skip
        threads = self._plan.tile.threads
        blocks = min(n, int(self.program.resident_blocks(entry, threads)))
        self.program.launch_blocks(entry, LaunchGrid(blocks, threads), arguments, engine.stream)

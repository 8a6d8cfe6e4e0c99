"""Objects of several sites: rigid sets of sites that move with their particles.

Between two steps, some time apart, each object may move by one site. All ranks know all objects,
draw the same moves, and see the sites that these reach; so nothing depends on cuts or devices.

Objects move one after another in a drawn order, each with the same probability to either side of
an axis, and stay where another object, a wall or a pinned particle is. So the equilibrium is the
uniform one of all states without an overlap. Particles that may not be in the object change places
with it along each line of its sites, which a move back undoes.

The moves are decided on the device: csrc/lattice/objects.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, BoolArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.kernels.backends.base import KernelSource, LaunchGrid
from tauslab.kernels.lattice.lowering import LatticeObject, LoweredLattice
from tauslab.kernels.lattice.slab_memory import SlabMemory
from tauslab.kernels.lattice.state import GONE, TRACKED
from tauslab.model.lattice.placement import random_words

Gather = Callable[..., Sequence[tuple[Array, ...]]]  # arrays of all slabs, in their order

_MOVE, _PLACE = 6, 7  # streams of draws, as those of csrc/lattice/place.cc
_CALL = 1 << 20  # of the draws of a new shape
_TRIES = 1000  # places that are drawn for an object at the start
_ONE = 2.0**-53
_ENTRY, _THREADS, _MOVES = "rdme_move_objects", 512, 2  # as csrc/lattice/objects.cc has them
_SIDES = np.array([[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]])


class Ground:
    """The sites of the whole lattice, of which this rank has those of a slab."""

    def __init__(self, memory: SlabMemory, gather: Gather) -> None:
        self.memory, self.gather = memory, gather
        lattice, slab = memory.lattice, memory.slab
        self._plane = lattice.shape[1] * lattice.shape[2]
        self._first, self._end = slab.begin * self._plane, slab.end * self._plane

    def followers(self, wanted: BoolArray) -> tuple[IntArray, IntArray]:
        """Sites of particles, which ascend, and what these are."""
        memory = self.memory
        memory.synchronize()
        own = memory.changing.candidates(
            memory.content, wanted, each=self._end, first=self._first, seed=0, step=0,
            call=0, replica=0,
        )  # fmt: skip
        own = own[np.lexsort((own["slot"], own["site"]))]
        return self._joined(own, self._first)

    def waiting(self) -> tuple[IntArray, IntArray]:
        """The same of all particles that wait for a slot."""
        return self._joined(self.memory.waiting(), 0)

    def _joined(self, own: Array, first: int) -> tuple[IntArray, IntArray]:
        parts = self.gather(
            own["site"].astype(np.int64) + first, own["particle"].astype(np.int64)
        )  # fmt: skip
        sites, particles = (np.concatenate([part[i] for part in parts]) for i in range(2))
        return sites, particles

    def all_types(self) -> Array:
        """Types of all sites of the lattice."""
        memory = self.memory
        own = memory.host(memory.types)[memory.own].reshape(-1)
        return np.concatenate([part[0] for part in self.gather(own)])

    def _cells(self) -> Any:
        return self.memory.in_slots().reshape(-1, self.memory.lattice.slots)

    def _own(self, sites: IntArray) -> tuple[int, int]:
        begin, end = np.searchsorted(sites, [self._first, self._end]).tolist()
        return begin, end

    def _found(self, at: IntArray) -> tuple[Any, Any]:
        """Types and particles of own sites, on the device."""
        memory, where = self.memory, self.memory.backend.upload(at)
        memory.synchronize()
        return memory.types[memory.own].reshape(-1)[where], self._cells()[where]

    def read(self, sites: IntArray) -> tuple[Array, Array]:
        """Types ``[site]`` and particles ``[site, slot]`` of sites, which ascend and differ."""
        memory = self.memory
        begin, end = self._own(sites)
        types = np.zeros(0, np.uint8)
        cells = np.zeros((0, memory.lattice.slots), memory.lattice.particle_type)
        if end > begin:
            types, cells = map(memory.host, self._found(sites[begin:end] - self._first))
        parts = self.gather(types, cells)
        return (
            np.concatenate([part[0] for part in parts]),
            np.concatenate([part[1] for part in parts]),
        )

    def write(self, sites: IntArray, types: Any, cells: Any | None) -> None:
        """Give sites, which ascend, types and particles."""
        memory, upload = self.memory, self.memory.backend.upload
        begin, end = self._own(sites)
        if cells is not None and end > begin:
            at = upload(sites[begin:end] - self._first)
            self._cells()[at] = upload(np.ascontiguousarray(cells[begin:end]))
        every = memory.types.reshape(-1)
        whole = memory.lattice.shape[0] * self._plane
        first = (sites - self._first + memory.slab.below * self._plane) % whole
        for place in range(0, every.size, whole):  # neighbours' planes may be own ones too
            local = first + place < every.size
            every[upload(first[local] + place)] = upload(types[local])
        self._changed()

    def _changed(self) -> None:
        self.memory.places.clear()
        self.memory.mark_all()

    def move(self, sites: IntArray, decide: Callable[[Any, Any], BoolArray]) -> BoolArray:
        """Let `decide` change types and particles of sites, which ascend, on the device.

        Returns
        -------
        The value of `decide`: which objects moved, bool ``[object]``.
        """
        memory, upload = self.memory, self.memory.backend.upload
        if self._end - self._first < memory.lattice.shape[0] * self._plane:
            types, cells = map(upload, self.read(sites))
            moved = decide(types, cells)
            self.write(sites, memory.host(types), memory.host(cells))
            return moved
        types, cells = self._found(sites)
        moved, where = decide(types, cells), upload(sites)
        memory.types.reshape(-1)[where], self._cells()[where] = types, cells
        self._changed()
        return moved

    def reshape(self, types: Array, call: int) -> None:
        """Give all sites types; particles that may not stay go to the nearest free sites."""
        memory, how = self.memory, self.memory.reshaping
        how.run(
            memory, types.reshape(memory.lattice.shape), how.following({}), call=call,
            gather=self.gather,
        )  # fmt: skip
        memory.places.clear()


class _Form:
    """The sites of objects of one kind in a lattice.

    Attributes
    ----------
    enters, leaves
        Numbers ``[side, site]`` of the sites of an object that enter a new one when it moves by
        one, -1 behind them; and of those that it leaves, each on the line of one that it enters.
    centre
        ``[side]``: the particle's new site, among those of the object and, behind these, those
        that it enters.
    """

    def __init__(self, lattice: LoweredLattice, offsets: IntArray) -> None:
        self.shape, self.offsets = np.array(lattice.shape), offsets
        self._periodic = [lattice.boundary[face] == "periodic" for face in (0, 2, 4)]
        sides = [self._side(step) for step in _SIDES]
        self.enters = np.full((len(sides), max(len(enters) for enters, _, _ in sides)), -1)
        self.leaves = np.zeros_like(self.enters)
        for at, (enters, leaves, _) in enumerate(sides):
            self.enters[at, : len(enters)], self.leaves[at, : len(leaves)] = enters, leaves
        self.centre = np.array([centre for _, _, centre in sides])

    def _side(self, step: IntArray) -> tuple[list[int], list[int], int]:
        place = {tuple(one): at for at, one in enumerate(self.offsets.tolist())}
        enters, leaves = [], []
        for at, one in enumerate(self.offsets):
            if tuple((one + step).tolist()) in place:
                continue
            last = one
            while tuple((last - step).tolist()) in place:
                last = last - step
            enters.append(at)
            leaves.append(place[tuple(last.tolist())])
        inside = place.get(tuple(step.tolist()))
        return enters, leaves, len(self.offsets) + enters.index(0) if inside is None else inside

    def sites(self, centres: IntArray, step: Any = 0) -> IntArray:
        """Sites ``[object, site]`` of objects a step away; -1 beyond a face of the lattice."""
        result = np.zeros((len(centres), len(self.offsets)), np.int64)
        outside = np.zeros(result.shape, bool)
        along = zip(
            np.unravel_index(centres, tuple(self.shape)),
            np.broadcast_to(step, (len(centres), 3)).T, self.offsets.T, self.shape, self._periodic,
            strict=True,
        )  # fmt: skip
        for own, steps, offset, size, periodic in along:
            at = (own + steps)[:, None] + offset
            if periodic:
                at %= size
            else:
                outside |= (at < 0) | (at >= size)
            result *= size
            result += at
        result[outside] = -1
        return result

    def entered(self, centres: IntArray, sides: IntArray) -> tuple[IntArray, BoolArray]:
        """Sites ``[object, site]`` that objects enter when they move to a side, -1 behind them.

        Also which objects stay within the lattice.
        """
        enters = self.enters[sides]
        new = np.take_along_axis(self.sites(centres, _SIDES[sides]), enters, axis=1)
        inside = np.asarray(((new >= 0) | (enters < 0)).all(axis=1))
        return np.where(enters < 0, -1, new), inside


@dataclass
class Roster:
    """Objects of one kind: numbers of the sites of their particles, their own, and their moves.

    `numbers` count from 0 in the order in which objects came; `moved` ``[object, 3]`` are sites
    along z, y and x from where each came, across periodic faces too; `came` so many came so far.
    """

    sites: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    numbers: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    moved: IntArray = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    came: int = 0

    def keep(self, which: BoolArray) -> None:
        """Forget the others."""
        self.sites, self.numbers, self.moved = (
            one[which] for one in (self.sites, self.numbers, self.moved)
        )

    def add(self, sites: IntArray) -> None:
        """Add objects."""
        n = len(sites)
        self.sites = np.concatenate([self.sites, sites])
        self.numbers = np.concatenate([self.numbers, self.came + np.arange(n)])
        self.moved = np.concatenate([self.moved, np.zeros((n, 3), np.int64)])
        self.came += n


class Objects:
    """All objects of a lattice that runs. Methods with a ground are collective."""

    def __init__(self, lattice: LoweredLattice) -> None:
        self._kinds = [_Kind(lattice, one, at) for at, one in enumerate(lattice.objects)]

    def __bool__(self) -> bool:
        """Return whether the model has any."""
        return bool(self._kinds)

    @property
    def intervals(self) -> list[int]:
        """Steps of the model between two moves of each kind."""
        return [kind.one.every for kind in self._kinds]

    @property
    def rosters(self) -> dict[str, Roster]:
        """Objects by the name of their kind."""
        return {kind.one.name: kind.roster for kind in self._kinds}

    def begin(self, ground: Ground) -> None:
        """Place the objects of the particles at t = 0.

        Raises
        ------
        ConfigError
            They do not all fit.
        """
        for kind in self._kinds:
            kind.roster = Roster()
            kind.begin(ground)

    def settle(self, ground: Ground, time: int) -> None:
        """Place those that lost their sites: where their particles are, or at drawn places.

        `time` is of the draws. Those that find no place wait, as later ones do.
        """
        for kind in self._kinds:
            kind.settle(ground, time)

    def stops(self, done: int, due: int) -> list[int]:
        """Steps of the model behind `done` after which some move; and `due`, the last one."""
        moves = {at for n in self.intervals for at in range(done // n * n + n, due, n)}
        return sorted({*moves, due})

    def move(self, ground: Ground, step: int) -> None:
        """Let those move whose time it is after so many steps of the model."""
        for kind in self._kinds:
            if step and step % kind.one.every == 0:
                kind.meet(ground)
                for number in range(kind.one.moves):
                    kind.move(ground, number)

    def over(self, types: Array) -> Array:
        """Site types of the whole lattice, with those of objects where these cover others.

        An object whose particle has no site of the type that it covers is forgotten.
        """
        made = types.reshape(-1).copy()
        for kind in self._kinds:
            kind.cover(made)
        return made.reshape(types.shape)

    @property
    def site_types(self) -> set[int]:
        """Numbers of the site types that objects cover sites with."""
        return {kind.one.site_type for kind in self._kinds}

    def without(self, types: Array) -> Array:
        """Site types with those that objects cover in place of their own."""
        made = types.copy()
        for kind in self._kinds:
            made[made == kind.one.site_type] = kind.one.within
        return made

    def halve(self, origins: IntArray, step: IntArray) -> None:
        """Keep objects whose particles were at these sites, and move them by a step."""
        for kind in self._kinds:
            roster = kind.roster
            roster.keep(np.isin(roster.sites, origins))
            at = np.stack(np.unravel_index(roster.sites, tuple(kind.form.shape))) + step[:, None]
            roster.sites = np.ravel_multi_index(tuple(at), tuple(kind.form.shape))
            roster.moved = roster.moved + step

    def positions(self, samples: int) -> dict[str, IntArray]:
        """Positions ``[sample, object, 3]`` of the objects of t = 0, now, by the field's name.

        They go on beyond periodic faces.
        """
        parts = [kind.positions() for kind in self._kinds]
        now = np.concatenate(parts) if parts else np.zeros((0, 3), np.int64)
        return {TRACKED.name: np.broadcast_to(now, (samples, *now.shape))} if parts else {}

    def stored(self) -> dict[str, Any]:
        """Values of JSON."""
        return {
            name: {
                "sites": one.sites.tolist(), "numbers": one.numbers.tolist(),
                "moved": one.moved.tolist(), "came": one.came,
            }
            for name, one in self.rosters.items()
        }  # fmt: skip

    def take_up(self, stored: Mapping[str, Any]) -> None:
        """Go on from what `stored` gave."""
        for kind in self._kinds:
            held = stored.get(kind.one.name)
            if held is None:
                kind.roster = Roster()
                continue
            moved = np.array(held["moved"], np.int64).reshape(-1, 3)
            numbers = np.array(held["numbers"], np.int64)
            kind.roster = Roster(np.array(held["sites"], np.int64), numbers, moved, held["came"])


class _Kind:
    """Objects of one kind."""

    def __init__(self, lattice: LoweredLattice, one: LatticeObject, at: int) -> None:
        self.one, self._at, self._lattice = one, at, lattice
        self.roster = Roster()
        self.form = _Form(lattice, one.offsets)
        kinds = len(lattice.species) + 1
        self._follows = np.zeros(kinds, bool)
        self._follows[np.array(one.species) + 1] = True
        self._chances = np.zeros(kinds)
        self._chances[np.array(one.species) + 1] = one.hops
        kept_out, pinned = np.zeros(kinds, bool), np.zeros(kinds, bool)
        kept_out[1:] = ~one.enters
        pinned[np.array(lattice.pinned, np.int64) + 1] = True
        self.goes, self.stays = kept_out & ~pinned, kept_out & pinned
        self._tracked = sum(p.count for p in lattice.start.placed if p.species in one.species)
        self.awaited = np.zeros(0, np.int64)  # sites where particles wait that may not be in it
        self.particles = np.zeros(0, np.int64)  # of the roster; 0 where one waits for a slot
        self._tables: Any = None  # on the device
        self._program: Any = None

    # ---------------------------------------------------------------- who there is

    def begin(self, ground: Ground) -> None:
        """Place all; those that do not fit at other places, which are drawn."""
        sites, particles = ground.followers(self._follows)
        if self._follows[ground.waiting()[1]].any():
            raise ConfigError(f"object {self.one.name}: its particles lack free slots at the start")
        if not len(sites):
            return
        types = ground.all_types()
        covered = np.zeros(len(types), bool)
        fits = self._try(ground, sites, types, covered)
        to, left = self._drawn(ground, sites, types, covered, fits)
        if len(left):
            raise ConfigError(
                f"object {self.one.name}: {len(left)} of {len(sites)} do not fit among the sites "
                f"of {self._lattice.site_types[self.one.within]}"
            )
        self._carry(ground, sites, to, particles)
        self._unfold(ground, np.sort(to), types)

    def settle(self, ground: Ground, time: int) -> None:
        """Draw places for those whose particles have none around them."""
        self.meet(ground)
        sites, particles = ground.followers(self._follows)
        alone = ~np.isin(sites, self.roster.sites)
        sites, particles = sites[alone], particles[alone]
        if not len(sites):
            return
        types = ground.all_types()
        covered = np.zeros(len(types), bool)
        covered[self.form.sites(self.roster.sites)] = True
        none = np.zeros(len(sites), bool)
        to, left = self._drawn(ground, sites, types, covered, none, time)
        result = np.setdiff1d(np.arange(len(sites)), left)
        self._carry(ground, sites[result], to[result], particles[result])
        self._unfold(ground, np.sort(to[result]), types)

    def _drawn(
        self, ground: Ground, sites: IntArray, types: Array, covered: BoolArray, fits: BoolArray,
        time: int = 0,
    ) -> tuple[IntArray, IntArray]:  # fmt: skip
        """Places of objects, drawn for those that do not fit; and who found none."""
        open_sites = np.flatnonzero(types == self.one.within)
        left, to = np.flatnonzero(~fits), sites.copy()
        words = random_words(ground.memory.seed, _PLACE, ground.memory.replica, self._at, time)
        for _ in range(_TRIES):
            if not len(left) or not len(open_sites):
                break
            drawn = words.random_raw(len(left)) % np.uint64(len(open_sites))
            to[left] = open_sites[drawn.astype(np.int64)]
            fits = self._try(ground, to[left], types, covered, came=True)
            left = left[~fits]
        return to, left

    def _try(
        self, ground: Ground, centres: IntArray, types: Array, covered: BoolArray, *,
        came: bool = False,
    ) -> BoolArray:  # fmt: skip
        """Which objects fit, one after another; they are `covered` then."""
        own = self.form.sites(centres)
        inside = (own >= 0).all(axis=1)
        open_ = np.asarray(inside & (types[own] == self.one.within).all(axis=1))
        if self.stays.any() or came:
            every = np.unique(own[open_])
            cells = ground.read(every)[1]
            held = np.asarray(self.stays[cells].any(axis=1))
            open_[open_] &= ~held[np.searchsorted(every, own[open_])].any(axis=1)
            full = np.asarray((cells > 0).all(axis=1))
            open_[open_] &= ~(came & full[np.searchsorted(every, own[open_, 0])])
        for at in np.flatnonzero(open_).tolist():
            if covered[own[at]].any():
                open_[at] = False
            else:
                covered[own[at]] = True
        return open_

    def _carry(self, ground: Ground, sites: IntArray, to: IntArray, particles: IntArray) -> None:
        """Take particles from sites to others that have a free slot."""
        goes = sites != to
        if not goes.any():
            return
        every = np.unique(np.concatenate([sites[goes], to[goes]]))
        types, cells = ground.read(every)
        rows = [[p for p in row if p] for row in cells.tolist()]
        for before, after, particle in zip(
            np.searchsorted(every, sites[goes]).tolist(),
            np.searchsorted(every, to[goes]).tolist(), particles[goes].tolist(), strict=True,
        ):  # fmt: skip
            rows[before].remove(particle)
            rows[after].append(particle)
        cells[...] = 0
        for at, row in enumerate(rows):
            if len(row) > cells.shape[1]:
                raise ConfigError(f"object {self.one.name}: a site is full at the start")
            cells[at, : len(row)] = row
        ground.write(every, types, cells)

    def _unfold(self, ground: Ground, centres: IntArray, types: Array) -> None:
        """Let new objects cover their sites; particles that may not be there leave."""
        self.roster.add(centres)
        types = types.copy()
        types[self.form.sites(centres)] = self.one.site_type
        ground.reshape(types, _CALL + self._at)

    def meet(self, ground: Ground) -> None:
        """Look whose particles there are: some went, some came."""
        roster = self.roster
        sites, particles = ground.followers(self._follows)
        where, kinds = ground.waiting()
        waits = where[self._follows[kinds]]
        self.awaited = where[self.goes[kinds] | self.stays[kinds]]
        sites, first = np.unique(sites, return_index=True)
        particles = particles[first]
        gone = ~(_among(sites, roster.sites)[1] | np.isin(roster.sites, waits))
        if gone.any():
            self._leave(ground, np.unique(self.form.sites(roster.sites[gone])))
            roster.keep(~gone)
        fresh = sites[~_among(np.sort(roster.sites), sites)[1]]
        if len(fresh):
            self._come(ground, fresh)
        at, result = _among(sites, roster.sites)
        self.particles = np.zeros(len(at), np.int64)
        self.particles[result] = particles[at[result]]

    def _leave(self, ground: Ground, sites: IntArray) -> None:
        types, _ = ground.read(sites)
        types[types == self.one.site_type] = self.one.within
        ground.write(sites, types, None)

    def _come(self, ground: Ground, fresh: IntArray) -> None:
        own = np.unique(self.form.sites(fresh))
        own = own[own >= 0]
        if not len(own):
            return
        open_ = ground.read(own)[0] == self.one.within
        sites = self.form.sites(fresh)
        maybe = (sites >= 0).all(axis=1)
        maybe &= open_[np.searchsorted(own, np.maximum(sites, own[0]))].all(axis=1)
        if not maybe.any():
            return
        types = ground.all_types()
        covered = np.zeros(len(types), bool)
        covered[self.form.sites(self.roster.sites)] = True
        fits = self._try(ground, fresh, types, covered)
        if fits.any():
            self._unfold(ground, fresh[fits], types)

    def positions(self) -> IntArray:
        """Positions ``[object, 3]`` of those that were there at t = 0; `GONE` of others."""
        roster, shape = self.roster, np.array(self._lattice.shape)
        result = np.full((self._tracked, 3), GONE)
        at = np.stack(np.unravel_index(roster.sites, tuple(shape)), axis=-1)
        old = roster.numbers < self._tracked
        origin = (at - roster.moved) % shape
        result[roster.numbers[old]] = (origin + roster.moved)[old]
        return result

    def cover(self, types: Array) -> None:
        """Mark the sites of objects in types ``[site]``; forget those outside."""
        self.roster.keep(types[self.roster.sites] == self.one.within)
        own = self.form.sites(self.roster.sites).reshape(-1)
        types[own[types[own] == self.one.within]] = self.one.site_type

    # ---------------------------------------------------------------- moves

    def move(self, ground: Ground, number: int) -> None:
        """Let each object move by one site, or stay."""
        roster = self.roster
        own = self.form.sites(roster.sites)
        who, sides = self._requests(ground.memory, number)
        entered, inside = self.form.entered(roster.sites[who], sides)
        who, sides, entered = who[inside], sides[inside], entered[inside]
        if not len(who):
            return
        touched = np.concatenate([own[who], entered], axis=1)
        sites = np.sort(touched, axis=None)
        sites = sites[np.diff(sites, prepend=-1) > 0]
        places = np.where(touched < 0, -1, np.searchsorted(sites, touched))
        columns = [sides[:, None], self.particles[who][:, None], places]
        objects = np.concatenate(columns, axis=1).astype(np.int32)
        at, result = _among(sites, np.append(own, self.awaited))
        taken = np.zeros(len(sites), np.uint8)
        taken[at[result]] = 1
        moved = ground.move(sites, partial(self._decide, ground.memory, objects, taken))
        who, sides = who[moved], sides[moved]
        roster.sites[who] = touched[moved, self.form.centre[sides]]
        roster.moved[who] += _SIDES[sides]

    def _requests(self, memory: SlabMemory, number: int) -> tuple[IntArray, IntArray]:
        """Objects that may move, in their turns, and to which sides."""
        roster = self.roster
        words = random_words(
            memory.seed, _MOVE, memory.replica, self._at << 32 | number, memory.step
        ).random_raw(2 * len(roster.sites))
        chances = self._chances[self.particles]
        drawn = (words[::2] >> np.uint64(11)).astype(np.float64) * _ONE
        who = np.lexsort((roster.numbers, words[1::2]))
        who = who[drawn[who] < len(_SIDES) * chances[who]]
        sides = (drawn[who] / chances[who]).astype(np.int64)
        return who[sides < len(_SIDES)], sides[sides < len(_SIDES)]

    def _decide(
        self, memory: SlabMemory, objects: Array, taken: Array, types: Any, cells: Any
    ) -> BoolArray:
        """Which objects move, on the device: csrc/lattice/objects.cc."""
        backend, one = memory.backend, self.one
        upload = backend.upload
        if self._tables is None:
            form, both = self.form, np.stack([self.goes, self.stays]).astype(np.uint8)
            tables = form.leaves.astype(np.int32), form.centre.astype(np.int32), both
            self._tables = [upload(table) for table in tables]
            self._program = backend.compile(KernelSource("lattice/objects.cc", (_ENTRY,)))
        leaves, centre, (goes, stays) = self._tables
        wide = cells.astype(np.uint16)
        claims = backend.empty((len(taken),), np.uint64)
        moved = backend.empty((len(objects),), np.uint8)
        for buffer in (claims, moved):
            backend.clear(buffer, memory.stream)
        arguments = self._program.arguments(
            _ENTRY, cells=wide, types=types, taken=upload(taken), claims=claims,
            objects=upload(objects), moved=moved, leaves=leaves, centre=centre, goes=goes,
            stays=stays, count=len(objects), own=len(one.offsets),
            entered=int(self.form.enters.shape[1]), slots=int(cells.shape[1]), within=one.within,
            site_type=one.site_type,
        )  # fmt: skip
        self._program.launch_blocks(_ENTRY, LaunchGrid(1, _THREADS), arguments, memory.stream)
        result = memory.host(moved) == _MOVES
        cells[...] = wide.astype(cells.dtype)
        return np.asarray(result)


def _among(sorted_: IntArray, sites: IntArray) -> tuple[IntArray, BoolArray]:
    """Places of sites among others, which ascend, and whether they are there."""
    at = np.searchsorted(sorted_, sites)
    there = at < len(sorted_)
    there[there] = sorted_[at[there]] == sites[there]
    return at, there

"""Objects of several sites: rigid sets of sites that move with their particles.

Between two steps, some time apart, each object may move by one site. All ranks know all objects,
draw the same moves, and see the sites that these reach; so nothing depends on cuts or devices.

Objects move one after another in a drawn order, each with the same probability to either side of
an axis, and stay where another object, a wall or a pinned particle is. So the equilibrium is the
uniform one of all states without an overlap. Particles that may not be in the object change places
with it along each line of its sites, which a move back undoes.

Objects that share no site with an undecided one of an earlier turn are decided together: the
outcome is that of one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tauslab.base.arrays import Array, BoolArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.kernels.lattice.lowering import LatticeObject, LoweredLattice
from tauslab.kernels.lattice.slab_memory import SlabMemory
from tauslab.kernels.lattice.state import GONE, TRACKED
from tauslab.model.lattice.placement import random_words

Gather = Callable[..., Sequence[tuple[Array, ...]]]  # arrays of all slabs, in their order

_MOVE, _PLACE = 6, 7  # streams of draws, as those of csrc/lattice/place.cc
_CALL = 1 << 20  # of the draws of a new shape
_TRIES = 1000  # places that are drawn for an object at the start
_ONE = 2.0**-53
_SIDES = np.array([[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1]])


class Ground:
    """The sites of the whole lattice, of which this rank has those of a slab."""

    def __init__(self, memory: SlabMemory, gather: Gather) -> None:
        self.memory, self.gather = memory, gather
        lattice, slab = memory.lattice, memory.slab
        self._plane = lattice.shape[1] * lattice.shape[2]
        self._first, self._end = slab.begin * self._plane, slab.end * self._plane
        self._types: Array | None = None

    def followers(self, wanted: BoolArray) -> tuple[IntArray, IntArray]:
        """Sites of particles, which ascend, and what these are."""
        memory = self.memory
        memory.synchronize()
        own = memory.changing.candidates(
            memory.content, wanted, each=self._end, first=self._first, seed=0, step=0, call=0,
            replica=0,
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

    def _stored(self) -> Array:
        """Types of all sites in memory, on the host."""
        if self._types is None:
            self.memory.wait_for_arrays()
            self._types = self.memory.host(self.memory.types).reshape(-1)
        return self._types

    def types(self) -> Array:
        """Types of the slab's own sites on the host."""
        below = self.memory.slab.below * self._plane
        return self._stored()[below : below + self._end - self._first]

    def all_types(self) -> Array:
        """Types of all sites of the lattice."""
        return np.concatenate([part[0] for part in self.gather(self.types())])

    def _cells(self) -> Any:
        return self.memory.in_slots().reshape(-1, self.memory.lattice.slots)

    def _own(self, sites: IntArray) -> tuple[int, int]:
        begin, end = np.searchsorted(sites, [self._first, self._end]).tolist()
        return begin, end

    def read(self, sites: IntArray) -> tuple[Array, Array]:
        """Types ``[site]`` and particles ``[site, slot]`` of sites, which ascend and differ."""
        memory = self.memory
        begin, end = self._own(sites)
        at = sites[begin:end] - self._first
        cells = np.zeros((0, memory.lattice.slots), memory.lattice.particle_type)
        if len(at):
            memory.synchronize()
            some = self._cells()[memory.backend.upload(at)]
            memory.wait_for_arrays()
            cells = memory.host(some)
        parts = self.gather(self.types()[at], cells)
        return (
            np.concatenate([part[0] for part in parts]),
            np.concatenate([part[1] for part in parts]),
        )

    def write(self, sites: IntArray, types: Array, cells: Array | None) -> None:
        """Give sites, which ascend, types and particles."""
        memory, lattice = self.memory, self.memory.lattice
        begin, end = self._own(sites)
        if cells is not None and end > begin:
            at = memory.backend.upload(sites[begin:end] - self._first)
            self._cells()[at] = memory.backend.upload(np.ascontiguousarray(cells[begin:end]))
        stored, whole = self._stored(), lattice.shape[0] * self._plane
        first = (sites - self._first + memory.slab.below * self._plane) % whole
        for place in range(0, len(stored), whole):  # neighbours' planes may be own ones too
            here = first + place < len(stored)
            stored[first[here] + place] = types[here]
            where = memory.backend.upload(first[here] + place)
            memory.types.reshape(-1)[where] = memory.backend.upload(types[here])
        memory.places.clear()
        memory.mark_all()

    def reshape(self, types: Array, call: int) -> None:
        """Give all sites types; particles that may not stay go to the nearest free sites."""
        memory, how = self.memory, self.memory.reshaping
        how.run(
            memory, types.reshape(memory.lattice.shape), how.following({}), call=call,
            gather=self.gather,
        )  # fmt: skip
        memory.places.clear()
        self._types = None


class _Form:
    """The sites of objects of one kind in a lattice.

    Columns are of the sites of an object, then of those that it enters when it moves by one site.

    Attributes
    ----------
    enters, leaves
        ``[side, site]``: sites of an object that enter a new one, -1 behind them; and the columns
        of those that it leaves, each on the line of one that it enters.
    centre
        ``[side]``: column of the particle's new site.
    nowhere
        Site of columns that a side lacks.
    """

    def __init__(self, lattice: LoweredLattice, offsets: IntArray) -> None:
        self.shape, self.offsets = np.array(lattice.shape), offsets
        self.nowhere = int(self.shape.prod())
        self._periodic = [lattice.boundary[face] == "periodic" for face in (0, 2, 4)]
        sides = [self._side(step) for step in _SIDES]
        n, most = len(offsets), max(len(enters) for enters, _, _ in sides)
        self.enters = np.full((len(sides), most), -1)
        self.leaves = np.tile(n + np.arange(most), (len(sides), 1))
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
        found = np.zeros((len(centres), len(self.offsets)), np.int64)
        outside = np.zeros(found.shape, bool)
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
            found *= size
            found += at
        found[outside] = -1
        return found

    def touched(self, centres: IntArray, sides: IntArray) -> IntArray:
        """Sites ``[object, column]`` of objects that move to a side; -1 beyond a face."""
        enters = self.enters[sides]
        new = np.take_along_axis(self.sites(centres, _SIDES[sides]), enters, axis=1)
        new[enters < 0] = self.nowhere
        return np.concatenate([self.sites(centres), new], axis=1)


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

    def move(self, ground: Ground, step: int) -> bool:
        """Let those move whose time it is after so many steps of the model: whether there are."""
        kinds = [kind for kind in self._kinds if step and step % kind.one.every == 0]
        for kind in kinds:
            kind.meet(ground)
            for number in range(kind.one.moves):
                kind.move(ground, number)
        return bool(kinds)

    def over(self, types: Array) -> Array:
        """Site types of the whole lattice, with those of objects where these cover others.

        An object whose particle has no site of the type that it covers is forgotten.
        """
        made = types.reshape(-1).copy()
        for kind in self._kinds:
            kind.cover(made)
        return made.reshape(types.shape)

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
        found = np.setdiff1d(np.arange(len(sites)), left)
        self._carry(ground, sites[found], to[found], particles[found])
        self._unfold(ground, np.sort(to[found]), types)

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
        at, found = _among(sites, roster.sites)
        self.particles = np.zeros(len(at), np.int64)
        self.particles[found] = particles[at[found]]

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
        found = np.full((self._tracked, 3), GONE)
        at = np.stack(np.unravel_index(roster.sites, tuple(shape)), axis=-1)
        old = roster.numbers < self._tracked
        origin = (at - roster.moved) % shape
        found[roster.numbers[old]] = (origin + roster.moved)[old]
        return found

    def cover(self, types: Array) -> None:
        """Mark the sites of objects in types ``[site]``; forget those outside."""
        self.roster.keep(types[self.roster.sites] == self.one.within)
        own = self.form.sites(self.roster.sites).reshape(-1)
        types[own[types[own] == self.one.within]] = self.one.site_type

    # ---------------------------------------------------------------- moves

    def move(self, ground: Ground, number: int) -> None:
        """Let each object move by one site, or stay."""
        wishes = self._wishes(ground.memory, number)
        if len(wishes.who):
            _Moves(self, ground, wishes).go(wishes)

    def _wishes(self, memory: SlabMemory, number: int) -> _Wishes:
        """Objects that may move; those whose turn is last come first."""
        roster = self.roster
        words = random_words(
            memory.seed, _MOVE, memory.replica, self._at << 32 | number, memory.step
        ).random_raw(2 * len(roster.sites))
        chances = self._chances[self.particles]
        drawn = (words[::2] >> np.uint64(11)).astype(np.float64) * _ONE
        who = np.lexsort((roster.numbers, words[1::2]))[::-1]
        who = who[drawn[who] < len(_SIDES) * chances[who]]
        sides = (drawn[who] / chances[who]).astype(np.int64)
        who, sides = who[sides < len(_SIDES)], sides[sides < len(_SIDES)]
        touched = self.form.touched(roster.sites[who], sides)
        return _Wishes(who, sides, touched).some((touched >= 0).all(axis=1))


class _Wishes(NamedTuple):
    """Objects, to which side each wants to move, and the sites ``[object, column]`` it touches."""

    who: IntArray
    sides: IntArray
    touched: IntArray

    def some(self, which: Any) -> _Wishes:
        """Some of them, in their order."""
        return _Wishes(*(one[which] for one in self))


class _Moves:
    """The moves of the objects of one kind, at one time."""

    def __init__(self, kind: _Kind, ground: Ground, wishes: _Wishes) -> None:
        self._kind, self._ground = kind, ground
        sites = np.sort(np.append(wishes.touched, kind.form.nowhere))
        self._sites = sites[np.diff(sites, prepend=-1) > 0]
        types, cells = ground.read(self._sites[:-1])
        self._types = np.append(types, types.dtype.type(kind.one.within))
        self._cells = np.concatenate([cells, np.zeros_like(cells[:1])])
        taken = np.append(kind.form.sites(kind.roster.sites), kind.awaited)
        at, found = _among(self._sites, taken)
        self._taken = np.zeros(len(self._sites), bool)
        self._taken[at[found]] = True

    def go(self, wishes: _Wishes) -> None:
        """Decide all, in their turns."""
        types, cells = self._types.copy(), self._cells.copy()
        left = wishes._replace(touched=np.searchsorted(self._sites, wishes.touched))
        first = np.zeros(len(self._sites), np.int64)
        while len(left.who):
            turns = np.arange(len(left.who))[:, None]
            first[left.touched] = turns  # the last one stays, whose turn is first
            first[-1] = 0
            now = (first[left.touched] <= turns).all(axis=1)
            self._decide(left.some(now))
            left = left.some(~now)
        changed = (types != self._types) | (cells != self._cells).any(axis=1)
        if changed.any():
            self._ground.write(self._sites[changed], self._types[changed], self._cells[changed])

    def _decide(self, wishes: _Wishes) -> None:
        """Move objects that share no site, where they can."""
        kind, one, form = self._kind, self._kind.one, self._kind.form
        entered = wishes.touched[:, len(one.offsets) :]
        free = (self._types[entered] == one.within) & ~self._taken[entered]
        wishes = wishes.some(free.all(axis=1))
        cells, may = self._changed(wishes)
        who, sides, at = wishes = wishes.some(may)
        self._cells[at] = _packed(cells[may])[..., : cells.shape[-1] // 2]
        entered, behind = at[:, len(one.offsets) :], self._behind(wishes)
        types = self._types[behind]
        self._types[behind] = np.where(types == one.site_type, one.within, types)
        self._types[entered] = one.site_type
        self._taken[behind], self._taken[entered] = False, True
        self._types[-1], self._taken[-1] = one.within, False
        kind.roster.sites[who] = self._sites[at[np.arange(len(at)), form.centre[sides]]]
        kind.roster.moved[who] += _SIDES[sides]

    def _behind(self, wishes: _Wishes) -> IntArray:
        """The sites ``[object, site]`` that objects leave."""
        return np.take_along_axis(wishes.touched, self._kind.form.leaves[wishes.sides], axis=1)

    def _changed(self, wishes: _Wishes) -> tuple[Array, BoolArray]:
        """Particles ``[object, column, place]`` after moves, unpacked, and which moves may be.

        Pinned particles stop an object; so do walls behind it, if particles would come there, and
        sites that would hold too many.
        """
        kind, n = self._kind, len(self._kind.one.offsets)
        who, sides, at = wishes
        held, rows, particles = self._cells[at], np.arange(len(at)), kind.particles[who]
        slots = held.shape[-1]
        own = held[:, 0] == particles[:, None].astype(held.dtype)
        held[rows, 0, own.argmax(axis=1)] = 0
        met = held[:, n:]
        may = ~kind.stays[met].any(axis=(1, 2))
        goes = np.where(kind.goes[met], met, 0)
        held[:, n:] -= goes
        cells = np.concatenate([held, np.zeros_like(held)], axis=-1)
        cells[rows[:, None], kind.form.leaves[sides], slots:] = goes
        cells[rows, kind.form.centre[sides], slots] = particles
        walls = self._types[self._behind(wishes)] != kind.one.site_type
        walls &= kind.form.enters[sides] >= 0
        may &= ~(goes.any(axis=(1, 2)) & walls.any(axis=1))
        return cells, np.asarray(may & ((cells > 0).sum(axis=-1) <= slots).all(axis=1))


def _among(sorted_: IntArray, sites: IntArray) -> tuple[IntArray, BoolArray]:
    """Places of sites among others, which ascend, and whether they are there."""
    at = np.searchsorted(sorted_, sites)
    there = at < len(sorted_)
    there[there] = sorted_[at[there]] == sites[there]
    return at, there


def _packed(cells: Array) -> Array:
    """The same with empty places behind the others."""
    filled = cells > 0
    made = np.zeros_like(cells)
    made[np.arange(cells.shape[-1]) < filled.sum(axis=-1)[..., None]] = cells[filled]
    return made

"""Other site types between two steps, and new places for particles that may not stay.

csrc/lattice/reshape.cc says how particles share the sites out; a particle that finds no free slot
within reach waits at the nearest site where it may be, as one that finds its site full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from tauslab.base.arrays import Array, BoolArray, DeviceArray, Int32Array, IntArray
from tauslab.base.errors import ConfigError, one_of
from tauslab.kernels.backends.base import Backend, KernelSource, Stream
from tauslab.kernels.lattice.changing import drawn_places
from tauslab.kernels.lattice.codegen import site_header
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.state import Slab, waiting_anew

FOLLOWS = ("stay", "shell", "pinned")
REACH = 8  # sites
MOST_REACH = 16
_ENTRIES = ("rdme_leave", "rdme_ask", "rdme_enter", "rdme_nearest")
_CHUNK = 64  # sites that a thread does
# `Leaver` of csrc/lattice/reshape.cc.
LEAVER = np.dtype(
    [("turn", "<u8"), ("site", "<u8"), ("ties", "<u8"), ("particle", "<u4"), ("follows", "<u4")]
)
Gather = Callable[..., Sequence[tuple[Array, ...]]]  # arrays of all slabs, in their order


class Reshaped(NamedTuple):
    """Numbers of sites and particles that a new shape changed, over the whole lattice."""

    sites: int
    """Sites of another type."""
    moved: int
    """Particles that came to another site."""
    waiting: int
    """Those of them that wait there for a slot."""


class Memory(Protocol):
    """A slab of a lattice on a device: what of `SlabMemory` a reshape uses."""

    lattice: LoweredLattice
    slab: Slab
    seed: int
    step: int
    replica: int

    @property
    def types(self) -> Any: ...  # noqa: D102
    @property
    def own(self) -> slice: ...  # noqa: D102
    def in_slots(self) -> DeviceArray: ...  # noqa: D102
    def from_slots(self, cells: DeviceArray) -> None: ...  # noqa: D102
    def set_lattice_types(self, types: DeviceArray) -> None: ...  # noqa: D102
    def waiting(self) -> Array: ...  # noqa: D102
    def replace_waiting(self, waiting: Array, added: int) -> None: ...  # noqa: D102
    def mark_all(self) -> None: ...  # noqa: D102
    def synchronize(self) -> None: ...  # noqa: D102


@dataclass(frozen=True)
class FollowingParticles:
    """How particles go with a shape.

    Attributes
    ----------
    stays
        Whether they may stay where the type is now this, u8 ``[type, particle]``.
    follows
        Whether they go with the type of their site, u8 ``[particle]``.
    """

    stays: Array
    follows: Array


def habitats(lattice: LoweredLattice) -> BoolArray:
    """Site types ``[type, species]`` where species may be.

    Those from or to which they hop; of a species that never hops, those where it is at the start,
    else where it reacts, else all. Of a pinned one all; of one that an object follows those that
    the object covers. Sites of an object count only where a species can enter them.
    """
    hops = np.asarray(lattice.hop) > 0
    result: BoolArray = np.asarray(hops.any(axis=0)) | np.asarray(hops.any(axis=1))
    alone = np.asarray(~result.any(axis=0))
    for placed in lattice.start.placed:
        if not alone[placed.species]:
            continue
        if placed.positions is None:
            result[placed.site_type, placed.species] = True
        for z, y, x in () if placed.positions is None else placed.positions.tolist():
            result[lattice.sites(z, z + 1)[0, y, x], placed.species] = True
    alone = np.asarray(~result.any(axis=0))
    for reaction in lattice.reactions:
        for species in {*reaction.reactants, *reaction.products}:
            if alone[species]:
                result[:, species] |= np.asarray(reaction.rates) > 0
    result[:, ~result.any(axis=0)] = True
    for one in lattice.objects:
        result[one.site_type] = (result[one.site_type] | result[one.within]) & one.enters
    result[:, list(lattice.pinned)] = True
    for one in lattice.objects:
        result[:, one.species] = False
        result[np.ix_([one.within, one.site_type], one.species)] = True
    return result


class Reshaping:
    """The device operation, of a lattice of several site types."""

    def __init__(self, backend: Backend, lattice: LoweredLattice, stream: Stream) -> None:
        self._backend, self._lattice, self._stream = backend, lattice, stream
        header = {"model.h": reshape_header(lattice)}
        self._program = backend.compile(KernelSource("lattice/reshape.cc", _ENTRIES, header))
        self.habitats = habitats(lattice)
        self._enters = backend.upload(_by_particle(self.habitats))
        self._tables: tuple[Any, tuple[Any, Any]] = (None, (None, None))
        self._rings: dict[int, tuple[Any, Any, int]] = {}

    def following(self, particles: Mapping[str, str]) -> FollowingParticles:
        """Return how species go with a shape, as `particles` says by name.

        Raises
        ------
        ConfigError
            There is no such species, or way to follow.
        """
        stays, follows = self.habitats.copy(), np.zeros(len(self._lattice.species) + 1, np.uint8)
        for name, how in particles.items():
            number = self._lattice.numbers.get(name)
            if number is None:
                raise ConfigError(f"particles: {name!r} is not a species of {self._lattice.name}")
            one_of("particles", how, FOLLOWS)
            follows[number + 1] = how == "shell"
            if how == "pinned":
                stays[:, number] = self._open
        return FollowingParticles(_by_particle(stays), follows)

    @cached_property
    def _open(self) -> BoolArray:
        """Site types in which any species that hops may be."""
        return np.asarray((np.asarray(self._lattice.hop) > 0).any(axis=(0, 2)))

    def run(
        self, memory: Memory, types: Array, following: FollowingParticles, *, call: int,
        gather: Gather, reach: int = REACH, meanwhile: Callable[[], None] | None = None,
    ) -> Reshaped:  # fmt: skip
        """Give the whole lattice other site types, and move the particles of the slab.

        Parameters
        ----------
        types
            Site types u8 ``[z, y, x]`` of the whole lattice.
        call
            Of the draws, with seed, step and replica of the memory.
        gather
            Gives arrays of all slabs. Collective.
        reach
            Sites, along a line, that a particle goes at most, if it finds a free slot there.
        meanwhile
            Called while the device works.

        Raises
        ------
        ConfigError
            The lattice has no site left where some of the particles may be.
        """
        return _Run(self, memory, types, following, call, gather, reach).go(meanwhile)

    # ---------------------------------------------------------------- tables

    def ground(self, types: DeviceArray, reach: int) -> dict[str, Any]:
        """`Ground` of the kernels, of site types of the whole lattice."""
        nz, ny, nx = self._lattice.shape
        wraps = [int(self._lattice.boundary[face] == "periodic") for face in (0, 2, 4)]
        if reach not in self._rings:
            offsets, rings = preferences(reach)
            upload = self._backend.upload
            self._rings[reach] = upload(offsets), upload(rings), len(rings) - 1
        offsets, rings, n_rings = self._rings[reach]
        return {
            "types": types, "nz": nz, "ny": ny, "nx": nx, "wraps_z": wraps[0], "wraps_y": wraps[1],
            "wraps_x": wraps[2], "enters": self._enters, "offsets": offsets, "rings": rings,
            "n_rings": n_rings,
        }  # fmt: skip

    def uploaded(self, following: FollowingParticles) -> tuple[Any, Any]:
        """`stays` and `follows` on the device."""
        if self._tables[0] is not following:
            upload = self._backend.upload
            self._tables = following, (upload(following.stays), upload(following.follows))
        return self._tables[1]

    def launch(self, entry: str, items: int, **values: Any) -> None:
        """Launch a kernel; `host` waits for it."""
        self._kept = values  # buffers live until the kernel has run
        self._program.launch(entry, items, self._program.arguments(entry, **values), self._stream)

    def host(self, buffer: DeviceArray) -> Array:
        """A copy on the host after all that was launched."""
        mirror = self._backend.mirror(buffer)
        self._backend.download(buffer, mirror, len(buffer), self._stream)
        self._stream.record().wait()
        return mirror.copy()

    def zeros(self, *shape: int, dtype: Any = np.uint64) -> Any:
        """Zeroed device memory."""
        buffer = self._backend.empty(shape, dtype)
        self.clear(buffer)
        return buffer

    def clear(self, buffer: DeviceArray) -> None:
        """Zero device memory."""
        self._backend.clear(buffer, self._stream)

    def upload(self, array: Array) -> Any:
        """Copy to the device."""
        return self._backend.upload(array)


class _Run:
    """A reshape of one lattice."""

    def __init__(
        self, how: Reshaping, memory: Memory, types: Array, following: FollowingParticles,
        call: int, gather: Gather, reach: int,
    ) -> None:  # fmt: skip
        self._how, self._memory, self._following = how, memory, following
        self._gather, self._reach = gather, reach
        lattice, slab = memory.lattice, memory.slab
        self._plane = lattice.shape[1] * lattice.shape[2]
        self._first, self._n = slab.begin * self._plane, (slab.end - slab.begin) * self._plane
        memory.synchronize()
        self._cells = memory.in_slots()
        self._sites = self._cells.reshape(-1)
        self._before = memory.types[memory.own].reshape(-1)
        self._types = np.ascontiguousarray(types, np.uint8).reshape(-1)
        self._present = np.array(
            [(self._types == kind).any() for kind in range(len(lattice.site_types))]
        )
        self._draws: dict[str, Any] = {
            "seed": memory.seed, "step": memory.step, "call": call, "replica": memory.replica,
        }  # fmt: skip
        self._after = how.upload(self._types)
        self._has = how.upload(self._present.astype(np.uint8))

    def go(self, meanwhile: Callable[[], None] | None) -> Reshaped:
        """Do all of it, and something else beside."""
        waiting = self._memory.waiting()
        displaced = self._displaced(waiting)
        chunks = -(-self._n // _CHUNK)
        sizes = 8, 4 * chunks, len(self._following.follows)
        reported = self._how.zeros(sum(sizes), dtype=np.uint8)
        changed, counts, asking = _parts(reported, sizes)
        self._leave(changed=changed.view(np.uint64), counts=counts.view(np.uint32), asking=asking)
        if meanwhile is not None:
            meanwhile()
        changed, counts, asking = _parts(self._how.host(reported), sizes)
        each, requested = counts.view(np.uint32).astype(np.int64), asking > 0
        local = np.array([changed.view(np.uint64)[0], each.sum(), displaced.sum()], np.int64)
        requested[waiting["particle"][displaced]] = True
        parts = self._gather(local, np.array([self._first]), requested)
        totals = np.sum([part[0] for part in parts], axis=0)
        self._require_sites(np.logical_or.reduce([part[2] for part in parts]))
        before = sum(int(part[0][1]) for part in parts if part[1][0] < self._first)
        leavers = self._leavers(each, before, waiting, displaced, totals, alone=len(parts) == 1)
        left = self._share_out(leavers, int(totals[1:].sum()), alone=len(parts) == 1)
        self._memory.from_slots(self._cells)
        self._memory.set_lattice_types(self._after)
        self._let_wait(waiting, displaced, leavers, left)
        return Reshaped(int(totals[0]), int(totals[1:].sum()), len(left))

    def _require_sites(self, asking: BoolArray) -> None:
        """Refuse a shape without a site for particles that have to go somewhere."""
        lattice = self._memory.lattice
        homes = self._how.habitats[self._present].any(axis=0)
        for species in np.flatnonzero(asking[1:] & ~homes)[:1].tolist():
            raise ConfigError(
                f"reshape: the lattice has no site left where {lattice.species[species]} may be, "
                "and some of its particles lose theirs"
            )

    def _displaced(self, waiting: Array) -> BoolArray:
        """Which of the particles that wait leave the sites at which they do."""
        if not len(waiting):
            return np.zeros(0, bool)
        where = waiting["site"].astype(np.int64)
        before = self._how.host(self._before)[where - self._first]
        after, particle = self._types[where], waiting["particle"]
        follows = (self._following.follows[particle] > 0) & self._present[before]
        leaves = follows | (self._following.stays[after, particle] == 0)
        return np.asarray((before != after) & leaves)

    def _leave(self, **values: Any) -> None:
        stays, follows = self._how.uploaded(self._following)
        given = {
            "counts": None, "changed": None, "asking": None, "begins": None, "first_leaver": 0,
            "leavers": None,
        }  # fmt: skip
        self._how.launch(
            "rdme_leave", -(-self._n // _CHUNK), sites=self._sites, before=self._before,
            after=self._after[self._first : self._first + self._n], n_sites=self._n, chunk=_CHUNK,
            first_site=self._first, stays=stays, follows=follows,
            present=self._has, **self._draws, **{**given, **values},
        )  # fmt: skip

    def _leavers(
        self, each: IntArray, before: int, waiting: Array, displaced: BoolArray, totals: IntArray,
        *, alone: bool,
    ) -> Any:  # fmt: skip
        """Take the leavers of all slabs out; they are numbered by site, then those that waited."""
        own = int(each.sum())
        buffer = self._how.zeros(max(1, own), LEAVER.itemsize // 8)
        if own:
            begins = self._how.upload(before + np.cumsum(each) - each)
            self._leave(begins=begins, first_leaver=before, leavers=buffer)
        if alone and not displaced.any():
            return buffer
        words = self._how.host(buffer)[:own]
        result = np.ascontiguousarray(words).view(LEAVER).reshape(-1)
        late = self._late_leavers(waiting[displaced])
        parts = self._gather(result, late)
        every = np.concatenate([*(part[0] for part in parts), *(part[1] for part in parts)])
        drawn = every[int(totals[1]) :]
        random = drawn_places(
            2 * len(drawn), 1 << 32, seed=self._draws["seed"], step=self._draws["step"],
            call=self._draws["call"] | 1 << 32, replica=self._draws["replica"],
        ).astype(np.uint64)  # fmt: skip
        numbers = np.arange(totals[1], len(every)).astype(np.uint64)
        drawn["turn"] = random[::2] << np.uint64(32) | (numbers + np.uint64(1))
        drawn["ties"] = random[1::2]
        if not len(every):
            return buffer
        return self._how.upload(every.view(np.uint64).reshape(len(every), -1))

    def _late_leavers(self, waiting: Array) -> Array:
        """Leavers, without draws, of particles that wait."""
        late = np.zeros(len(waiting), LEAVER)
        late["site"], late["particle"] = waiting["site"], waiting["particle"]
        if len(late):
            where = late["site"].astype(np.int64) - self._first
            before = self._how.host(self._before)[where].astype(np.uint32)
            follows = (self._following.follows[late["particle"]] > 0) & self._present[before]
            late["follows"] = np.where(follows, before + 1, 0)
        return late

    def _share_out(self, leavers: DeviceArray, count: int, *, alone: bool) -> IntArray:
        """Put leavers into free slots; the numbers of those that found none, on any slab."""
        if not count:
            return np.zeros(0, np.int64)
        how, slots = self._how, self._memory.lattice.slots
        buckets = 1 << (2 * count - 1).bit_length()
        sizes = 2, buckets, buckets * slots, count, count
        counted, keys, kept, requested, left = _parts(how.zeros(sum(sizes)), sizes)
        left = left.view(np.uint32)
        others: Any = None
        if not alone:
            others = how.zeros(count, 2)
        starts, goes_on = count, None
        while starts:
            how.launch(
                "rdme_ask", starts, ground=how.ground(self._after, self._reach), sites=self._sites,
                n_sites=self._n, first_site=self._first, leavers=leavers, asked=requested,
                goes_on=goes_on, count=starts, keys=keys, kept=kept, buckets=buckets,
                others=others, others_count=counted, left=left, left_count=counted[1:],
            )  # fmt: skip
            if alone:
                break
            sent = int(how.host(counted)[0])
            parts = self._gather(how.host(others)[:sent] if sent else np.zeros((0, 2), np.uint64))
            going = np.concatenate([part[0] for part in parts])
            starts = len(going)
            if starts:
                goes_on = how.upload(going)
                how.clear(counted[:1])
        how.launch(
            "rdme_enter", buckets, sites=self._sites, first_site=self._first, leavers=leavers,
            keys=keys, kept=kept, buckets=buckets,
        )  # fmt: skip
        number = int(how.host(counted)[1])
        mine = how.host(left)[:number] if number else np.zeros(0, np.uint32)
        every = np.concatenate([part[0] for part in self._gather(mine)])
        return np.unique(every).astype(np.int64)

    def _let_wait(
        self, waiting: Array, displaced: BoolArray, leavers: DeviceArray, left: IntArray
    ) -> None:
        """Put those without a slot on the lists of the nearest sites where they may be."""
        fresh = waiting[:0]
        if len(left):
            nearest = self._how.zeros(len(left), dtype=np.int64)
            self._how.launch(
                "rdme_nearest", len(left), ground=self._how.ground(self._after, self._reach),
                leavers=leavers, numbers=self._how.upload(left.astype(np.uint32)), count=len(left),
                nearest=nearest,
            )  # fmt: skip
            sites = self._how.host(nearest)
            all_of = np.ascontiguousarray(self._how.host(leavers)).view(LEAVER).reshape(-1)[left]
            order = np.lexsort((~all_of["turn"], sites))
            order = order[(sites[order] >= self._first) & (sites[order] < self._first + self._n)]
            if len(order):
                fresh = waiting_anew(
                    waiting[~displaced], sites[order], all_of["particle"][order], self._memory.step
                )
        if len(fresh) or displaced.any():
            rest = np.concatenate([waiting[~displaced], fresh])
            self._memory.replace_waiting(rest, len(fresh))
        self._memory.mark_all()


def _parts(buffer: Any, sizes: Sequence[int]) -> list[Any]:
    """Parts of a buffer, one behind the other."""
    ends = np.cumsum(sizes).tolist()
    return [buffer[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def reshape_header(lattice: LoweredLattice) -> str:
    """`model.h` of the kernels: what a site holds, and sizes of tables."""
    return (
        f"{site_header(lattice)}"
        f"constexpr int N_SPECIES = {len(lattice.species)};\n"
        f"constexpr int N_TYPES = {len(lattice.site_types)};\n"
    )


def preferences(reach: int) -> tuple[Int32Array, Int32Array]:
    """Offsets ``[place, 3]`` along z, y, x within some sites, and where equally long ones begin."""
    side = np.arange(-reach, reach + 1)
    offsets = np.stack(np.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)
    squared = (offsets**2).sum(axis=1)
    order = np.argsort(squared, kind="stable")
    order = order[squared[order] <= reach * reach]
    begins = np.flatnonzero(np.diff(squared[order], prepend=-1))
    rings = np.append(begins, len(order)).astype(np.int32)
    return offsets[order].astype(np.int32), rings


def as_site_types(lattice: LoweredLattice, given: Any) -> Array:
    """Numbers of site types u8 ``[z, y, x]`` of the whole lattice.

    Parameters
    ----------
    given
        Whole numbers ``[z, y, x]``; or masks by site type, of which a later one replaces those
        before it. Sites in no mask have the first type.

    Raises
    ------
    ConfigError
        They have another shape, or there is no such site type.
    """
    names, shape = lattice.site_types, lattice.shape
    if len(names) == 1:
        raise ConfigError(f"reshape: all sites of {lattice.name} are of one type")
    if isinstance(given, Mapping):
        types = np.zeros(shape, np.uint8)
        for name, mask in given.items():
            if name not in names:
                raise ConfigError(
                    f"reshape: {name!r} is not a site type; there are {', '.join(names)}"
                )
            if getattr(mask, "shape", None) != shape or mask.dtype != np.bool_:
                raise ConfigError(
                    f"reshape: {name!r} takes a mask of the whole lattice: booleans {list(shape)}"
                )
            types[np.asarray(mask)] = names.index(name)
        return types
    types = np.asarray(given)
    if types.shape != shape or types.dtype.kind not in "iu":
        raise ConfigError(
            f"reshape: site types are whole numbers {list(shape)} of the whole lattice, or masks "
            "by name"
        )
    if types.min() < 0 or types.max() >= len(names):
        raise ConfigError(f"reshape: numbers of site types are 0 to {len(names) - 1}")
    return np.ascontiguousarray(types, np.uint8)


def as_reach(reach: Any) -> int:
    """Return the sites that a particle goes at most.

    Raises
    ------
    ConfigError
        No whole number from 1 to `MOST_REACH`.
    """
    if isinstance(reach, int | np.integer) and 1 <= reach <= MOST_REACH:
        return int(reach)
    raise ConfigError(f"reach = {reach!r:.80}: a particle goes 1 to {MOST_REACH} sites")


def _by_particle(table: BoolArray) -> Array:
    """A table ``[type, species]`` as u8 ``[type, species + 1]``."""
    made = np.zeros((table.shape[0], table.shape[1] + 1), np.uint8)
    made[:, 1:] = table
    return made

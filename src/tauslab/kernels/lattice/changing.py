"""Changes of particles between two steps: many species, or many sites, in one launch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, BoolArray, DeviceArray, IntArray, Uint32Array
from tauslab.kernels.backends.arguments import KeptArguments
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid, Program, Stream
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.model.lattice.placement import random_words

_ENTRIES = ("rdme_become", "rdme_list", "rdme_take", "rdme_put")
_ROOM = 1 << 14  # candidates that are listed at once, at first
_LOOKED_AT = 1 << 22  # slots at a time
_BITS_OF_KEY = 32  # at least, which rarely fail to order the candidates of a kind
_MARGIN = 8  # so much of the candidates of a call more are likely in the next
PLACES = 4  # a stream of draws, as those of csrc/lattice/place.cc; 3 is of csrc/lattice/change.cc
# `Candidate` of csrc/lattice/change.cc.
CANDIDATE = np.dtype([("key", "<u8"), ("site", "<u8"), ("particle", "<u4"), ("slot", "<u4")])


class Changing(ABC):
    """Kernels that change particles in `content`: an engine's memory of sites, or a part of it."""

    def __init__(self, backend: Backend, program: Program, species: int, stream: Stream) -> None:
        self._backend, self._program, self._stream = backend, program, stream
        self._structs = KeptArguments(program)
        self._arguments_of = self._structs.of
        self._changed: Any = backend.empty((max(1, species),), np.uint64)
        self._mirror = backend.mirror(self._changed)
        self._list_room(_ROOM)

    def _list_room(self, room: int) -> None:
        """Make room for candidates; in the first row is how many there are."""
        self._room, self._likely = room, 0  # of which so many are likely
        self._listed: Any = self._backend.empty((room + 1, 3), np.uint64)
        self._listed_mirror = self._backend.mirror(self._listed)

    def forget(self) -> None:
        """Let go of the buffers of the last call of each kernel."""
        self._structs.forget()

    @abstractmethod
    def _become(self, content: DeviceArray, where: DeviceArray | None, **values: Any) -> None:
        """Launch the kernel of `become`."""

    @abstractmethod
    def _list(self, content: DeviceArray, *, each: int, first: int, **values: Any) -> None:
        """Launch the kernel of `candidates`."""

    def become(
        self, content: DeviceArray, table: Uint32Array, where: DeviceArray | None
    ) -> IntArray:
        """Turn particles into others in one pass; in a site they keep their order.

        Parameters
        ----------
        table
            What each particle becomes, ``[species + 1]``; 0: it is taken out.
        where
            Booleans of the sites.

        Returns
        -------
        Particles that became others, int64 ``[species]``.
        """
        backend, stream = self._backend, self._stream
        backend.clear(self._changed, stream)
        becomes = backend.upload(table, stream)
        mask = None if where is None else where.view(np.uint8)
        self._become(content, mask, becomes=becomes, changed=self._changed)
        return self._host(self._changed, self._mirror).astype(np.int64)

    def candidates(
        self, content: DeviceArray, wanted: BoolArray, *, each: int, first: int,
        seed: int, step: int, call: int, replica: int,
    ) -> Array:  # fmt: skip
        """Particles of some species, each with a key that is drawn for its place.

        Parameters
        ----------
        wanted
            ``[species + 1]``.
        each, first
            Sites of a lattice, and the number of the content's first site in it.
        seed, step, call, replica
            Of the draws: those of a call of a step; the replica is that of the first lattice.

        Returns
        -------
        `CANDIDATE` ``[particle]``, in any order; their sites are numbered in the content. Good
        until the next call.
        """
        backend, stream = self._backend, self._stream
        wants = backend.upload(wanted.astype(np.uint8), stream)
        while True:
            head = self._listed[0]
            backend.clear(head, stream)
            self._list(
                content, each=each, first=first, wanted=wants, seed=seed, step=step, call=call,
                replica=replica, candidates=self._listed[1:], count=head, room=self._room,
            )  # fmt: skip
            found = self._told(1 + min(self._likely, self._room))
            if found <= self._room:
                break
            self._list_room(1 << (found - 1).bit_length())
        if found > self._likely:
            self._told(1 + found)
        self._likely = found + found // _MARGIN
        return self._listed_mirror[1 : 1 + found].view(CANDIDATE).reshape(-1)

    def _told(self, rows: int) -> int:
        """Copy rows of the list to the host; how many candidates there are."""
        self._backend.download(self._listed, self._listed_mirror, rows, self._stream)
        self._stream.record().wait()
        return int(self._listed_mirror[0, 0])

    @abstractmethod
    def take(self, content: DeviceArray, chosen: Array) -> None:
        """Take out candidates that were listed since the last change."""

    @abstractmethod
    def put(self, content: DeviceArray, places: IntArray, particles: IntArray) -> BoolArray:
        """Put particles at `places`, which ascend, into free slots in the order given.

        Returns
        -------
        Which found none, bool ``[particle]``.
        """

    def _launch(self, entry: str, items: int, **values: Any) -> None:
        """Launch a kernel; its buffers live until the next call."""
        self._program.launch(entry, items, self._arguments_of(entry, **values), self._stream)

    def _host(self, buffer: DeviceArray, mirror: Array | None = None) -> Array:
        """A copy of a buffer, or its mirror, when all that was launched has run."""
        kept = self._backend.mirror(buffer) if mirror is None else mirror
        self._backend.download(buffer, kept, len(buffer), self._stream)
        self._stream.record().wait()
        return kept.copy() if mirror is None else kept


class SlotsChanging(Changing):
    """Changes sites ``[site, slot]``: species + 1, first slots first.

    Sites are those of a slab, or of lattices of `each` sites one behind the other.

    Parameters
    ----------
    header
        The generated headers of the lattice's kernels.
    threads
        Of a block.
    stream
        On which changes follow each other, and the steps.
    """

    def __init__(
        self,
        backend: Backend,
        lattice: LoweredLattice,
        header: Mapping[str, str],
        threads: int,
        stream: Stream,
    ) -> None:
        program = backend.compile(KernelSource("lattice/change.cc", _ENTRIES, header))
        super().__init__(backend, program, len(lattice.species), stream)
        self._threads, self._slots = threads, lattice.slots
        self._room_of_put: tuple[Any, Array] | None = None
        self._most = program.resident_blocks("rdme_become", threads)

    def _become(self, content: DeviceArray, where: DeviceArray | None, **values: Any) -> None:
        n = self._sites(content)
        arguments = self._arguments_of(
            "rdme_become", sites=content, where=where, n_sites=n, **values
        )
        grid = LaunchGrid(max(1, min(-(-n // self._threads), self._most)), self._threads)
        self._program.launch_blocks("rdme_become", grid, arguments, self._stream)

    def _list(self, content: DeviceArray, *, each: int, first: int, **values: Any) -> None:
        n = self._sites(content)
        self._launch(
            "rdme_list", n, sites=content, n_sites=n, each=each, first_site=first, **values
        )

    def take(self, content: DeviceArray, chosen: Array) -> None:
        """As of `Changing`."""
        if not len(chosen):
            return
        order = np.argsort(chosen["site"])
        sites = chosen["site"][order].astype(np.int64)
        begins = np.flatnonzero(np.diff(sites, prepend=-1))
        bits = np.uint32(1) << chosen["slot"][order]
        count = len(begins)
        given = np.empty(count + (count + 1) // 2, np.int64)
        given[:count] = sites[begins]
        given[count:].view(np.uint32)[:count] = np.bitwise_or.reduceat(bits, begins)
        there = self._backend.upload(given, self._stream)
        at, slots = there[:count], there[count:].view(np.uint32)
        self._launch("rdme_take", count, sites=content, at=at, slots=slots, count=count)
        self._stream.record().wait()

    def put(self, content: DeviceArray, places: IntArray, particles: IntArray) -> BoolArray:
        """As of `Changing`."""
        if not len(places):
            return np.zeros(0, bool)
        begins = (places[1:] != places[:-1]).nonzero()[0] + 1
        ends = np.concatenate([[0], begins, [len(places)]])  # and begins
        count, begins = len(ends) - 1, ends[:-1]
        if self._room_of_put is None or len(self._room_of_put[1]) < count:
            room = self._backend.empty((1 << count.bit_length(),), np.int32)
            self._room_of_put = room, self._backend.mirror(room)
        room, mirror = self._room_of_put
        given = np.concatenate([places[begins], ends, particles], dtype=np.int64)
        self._launch(
            "rdme_put", count, sites=content, given=self._backend.upload(given, self._stream),
            count=count, room=room,
        )  # fmt: skip
        self._backend.download(room, mirror, count, self._stream)
        self._stream.record().wait()
        full, sizes = begins + mirror[:count], ends[1:] - begins  # the first that finds no slot
        if (full == ends[1:]).all():
            return np.zeros(len(places), bool)
        return np.asarray(np.arange(len(places)) >= np.repeat(full, sizes))

    def _sites(self, content: DeviceArray) -> int:
        return int(content.size) // self._slots


def drawn_places(
    count: int, among: int | IntArray, *, seed: int, step: int, call: int, replica: int
) -> IntArray:
    """Numbers int64 ``[count]`` below `among`, one or ``[count]``, for particles put at random."""
    words = random_words(seed, PLACES, replica, call, step).random_raw(count)
    return np.asarray(words % np.asarray(among, np.uint64), np.int64).reshape(count)


def first_of(candidates: Array, numbers: IntArray, each: int | None = None) -> Array:
    """Candidates with the smallest keys of each species, ``numbers[lattice, particle]`` of them.

    Their sites are those of lattices of `each` sites, by default of one.
    """
    kind = candidates["particle"].astype(np.int64)
    if each is not None:
        kind += candidates["site"].astype(np.int64) // each * numbers.shape[-1]
    flat = numbers.reshape(-1)
    order, kind = _by_kind_and_key(candidates, kind, flat.size)
    begins = np.concatenate([[0], np.flatnonzero(kind[1:] != kind[:-1]) + 1])[: len(kind)]
    taken = np.minimum(np.diff(begins, append=len(kind)), flat[kind[begins]])
    before = np.cumsum(taken) - taken
    found: Array = candidates[order[np.repeat(begins - before, taken) + np.arange(taken.sum())]]
    return found


def _by_kind_and_key(candidates: Array, kind: IntArray, kinds: int) -> tuple[Array, IntArray]:
    """The order by kind, key and site, by words of all where these have bits; and kinds in it."""
    of_kind, of_place = (max(1, (size - 1).bit_length()) for size in (kinds, len(kind)))
    if of_kind + of_place <= 64 - _BITS_OF_KEY:
        shift = np.uint64(64 - of_kind)
        words = kind.astype(np.uint64) << shift
        words |= candidates["key"] >> np.uint64(of_kind + of_place) << np.uint64(of_place)
        words |= np.arange(len(kind), dtype=np.uint64)
        words.sort()
        if np.diff(words >> np.uint64(of_place)).all():
            return words & np.uint64((1 << of_place) - 1), (words >> shift).astype(np.int64)
    order = np.lexsort((candidates["site"], candidates["key"], kind))
    return order, kind[order]


def faulty_slots(cells: Any, species: int) -> IntArray:
    """How many slots ``[plane, y, x, slot]`` hold no species, and how many come after an empty one.

    Returns
    -------
    int64 ``[2]``.
    """
    planes = max(1, _LOOKED_AT * len(cells) // max(1, cells.size))
    wrong = holes = 0
    for z in range(0, len(cells), planes):
        part = cells[z : z + planes]
        wrong += int((part > species).sum())
        holes += int(((part[..., 1:] > 0) & (part[..., :-1] == 0)).sum())
    return np.array([wrong, holes])

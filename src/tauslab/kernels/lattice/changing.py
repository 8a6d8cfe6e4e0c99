"""Changes of particles between two steps: many species, or many sites, in one launch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, BoolArray, DeviceArray, IntArray, Uint32Array
from tauslab.kernels.backends.arguments import KeptArguments
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid, Program, Stream
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.model.lattice.placement import random_words

_ENTRIES = ("become", "list", "take", "edit")
_ROOM = 1 << 14  # candidates that are listed at once, at first
_LOOKED_AT = 1 << 22  # slots at a time
_BITS_OF_KEY = 32  # at least, which rarely fail to order the candidates of a kind
_MARGIN = 8  # so much of the candidates of a call more are likely in the next
# Of n wanted particles n + 4 sqrt(n) + 5 are listed, and fewer than n once in 20,000 times. Counts
# of species are learned anew where so many times as many are listed.
_DEVIATIONS, _BESIDE, _TOO_MANY = 4, 9, 2
# A device takes particles out by itself where no species has more candidates than it can compare
# with each other, and all lists have no more places.
_MOST_COMPARED, _MOST_PLACES = 256, 1 << 18
_TAKERS = 256  # of csrc/lattice/candidate.h, as are the words of `Taking::state`
_TAKING_WORDS = 3
_ALL = (1 << 32) - 1
PLACES = 4  # a stream of draws, as those of csrc/lattice/place.cc; 3 is of csrc/lattice/candidate.h
# `Candidate` of csrc/lattice/candidate.h.
CANDIDATE = np.dtype([("key", "<u8"), ("site", "<u8"), ("particle", "<u4"), ("slot", "<u4")])


class _Sent:
    """Device memory, and pinned host memory from which it is filled without a wait.

    A batch may be given when the copy of the one before has been waited for.
    """

    def __init__(self, backend: Backend, stream: Stream, dtype: npt.DTypeLike, *row: int) -> None:
        self._backend, self._stream, self._dtype, self._row = backend, stream, dtype, row
        self.room(1)

    def room(self, rows: int) -> None:
        """Make room for at least so many rows."""
        size = 1 << (rows - 1).bit_length()
        self._buffer: Any = self._backend.empty((size, *self._row), self._dtype)
        self._mirror = self._backend.mirror(self._buffer)

    def __call__(self, rows: Array) -> DeviceArray:
        """Send rows; they are there for what follows on the stream."""
        if len(self._mirror) < len(rows):
            self.room(len(rows))
        mirror: Array = self._mirror[: len(rows)]
        buffer: DeviceArray = self._buffer[: len(rows)]
        mirror[...] = rows
        self._backend.upload_mirror(mirror, buffer, self._stream)
        return buffer


@dataclass(frozen=True)
class _Lists:
    """Candidates of `Changing.remove` on a device, for equal calls.

    Attributes
    ----------
    kinds, numbers
        Species + 1, and how many are wanted.
    most, least
        How many candidates are likely, and how many a list has to have.
    room
        Of each list.
    counts, mirror
        Candidates of the lists, then `Taking::state` of csrc/lattice/candidate.h.
    listing, taking
        Their kernel arguments, by name.
    """

    kinds: IntArray
    numbers: IntArray
    most: IntArray
    least: IntArray
    room: int
    counts: DeviceArray
    mirror: Array
    listing: dict[str, Any]
    taking: dict[str, Any]


class Changing(ABC):
    """Kernels that change particles in `content`: an engine's memory of sites, or a part of it.

    Parameters
    ----------
    file, header
        Of the kernels, and what is generated for the model.
    prefix
        Of their names.
    stream
        On which changes follow each other, and the steps.
    """

    def __init__(
        self, backend: Backend, file: str, header: Mapping[str, str], prefix: str, species: int,
        stream: Stream,
    ) -> None:  # fmt: skip
        self._backend, self._stream, self._prefix = backend, stream, prefix
        entries = tuple(f"{prefix}_{entry}" for entry in _ENTRIES)
        self._program: Program = backend.compile(KernelSource(file, entries, header))
        self._structs = KeptArguments(self._program)
        self._species = species
        self._changed: Any = backend.empty((max(1, species),), np.uint64)
        self._mirror = backend.mirror(self._changed)
        self._table = _Sent(backend, stream, np.uint32)
        self._limits = _Sent(backend, stream, np.uint32, 3)
        self._given = _Sent(backend, stream, np.uint64, 3)
        self._removed = KeptArguments(self._program)
        self._wanted = _Sent(backend, stream, np.uint32, 3)
        self._lists: _Lists | None = None
        # Particles of each species, where many were listed; else 0.
        self._there = np.zeros(species + 1, np.int64)
        self._allocate_candidates(_ROOM)
        self._allocate_answers(1)

    def _allocate_candidates(self, room: int) -> None:
        """Make room for candidates; in the first row is how many there are."""
        self._room, self._likely = room, 0  # of which so many are likely
        self._listed: Any = self._backend.empty((room + 1, 3), np.uint64)
        self._listed_mirror = self._backend.mirror(self._listed)

    def _allocate_answers(self, room: int) -> None:
        """Make room for what `put` answers."""
        self._left: Any = self._backend.empty((room,), np.uint8)
        self._left_mirror = self._backend.mirror(self._left)

    def forget(self) -> None:
        """Let go of the buffers of the last call of each kernel."""
        self._structs.forget()
        self._lists = None

    @abstractmethod
    def _of(self, content: DeviceArray, each: int | None = None, first: int = 0) -> dict[str, Any]:
        """What kernels take for the content, by name; `each` and `first` as of `candidates`."""

    @abstractmethod
    def _items(self, content: DeviceArray) -> int:
        """Threads that a pass over the content can use."""

    def become(
        self, content: DeviceArray, before: IntArray, after: IntArray | None,
        where: DeviceArray | None,
    ) -> IntArray:  # fmt: skip
        """Turn particles into others in one pass; in a site they keep their order.

        Parameters
        ----------
        before, after
            Numbers of species, and of those that they become; None: they are taken out.
        where
            Booleans of the sites.

        Returns
        -------
        Particles that became others, int64 ``[species]``.
        """
        table = np.arange(self._species + 1, dtype=np.uint32)
        table[before + 1] = 0 if after is None else after + 1
        self._backend.clear(self._changed, self._stream)
        self._become(
            content, becomes=self._table(table), changed=self._changed,
            where=None if where is None else where.view(np.uint8),
        )  # fmt: skip
        return self._host(self._changed, self._mirror).astype(np.int64)

    def _become(self, content: DeviceArray, **values: Any) -> None:
        """Launch the kernel of `become`."""
        self._launch("become", self._items(content), lattice=self._of(content), **values)

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
        limits = np.zeros((len(wanted), 3), np.uint32)
        limits[:, 0] = np.where(wanted, _ALL, 0)
        at = {"each": each, "first": first, "seed": seed, "step": step, "call": call}
        return self._candidates(content, limits, replica=replica, **at)

    def _candidates(
        self, content: DeviceArray, limits: Uint32Array, *, each: int, first: int, **draws: int
    ) -> Array:
        """Candidates, of which `limits` of csrc/lattice/candidate.h says how many."""
        backend, stream = self._backend, self._stream
        given = self._limits(limits)
        while True:
            head = self._listed[0]
            backend.clear(head, stream)
            to = {"limits": given, "candidates": self._listed[1:], "count": head, **draws}
            lattice = self._of(content, each, first)
            self._launch(
                "list", self._items(content), lattice=lattice, to=to | {"room": self._room}
            )
            result = self._read_candidates(1 + min(self._likely, self._room))
            if result <= self._room:
                break
            self._allocate_candidates(1 << (result - 1).bit_length())
        if result > self._likely:
            self._read_candidates(1 + result)
        self._likely = result + result // _MARGIN
        return self._listed_mirror[1 : 1 + result].view(CANDIDATE).reshape(-1)

    def chosen(self, content: DeviceArray, kinds: IntArray, numbers: IntArray, **at: int) -> Array:
        """Candidates with the smallest keys, so many of each of different species + 1, or all.

        `at` is what `candidates` takes, of one lattice. Where many are likely, only such as may be
        chosen are listed; what is chosen does not depend on this.
        """
        there, wanted = self._there, np.zeros(self._species + 1, np.int64)
        wanted[kinds] = numbers
        most = _likely_most(np.minimum(numbers, _ALL // 2))
        limits = np.zeros((len(wanted), 3), np.uint32)
        limits[kinds, 0], limits[kinds, 1] = most, there[kinds]
        own = self._candidates(content, limits, **at)
        result = first_of(own, wanted)
        if len(result) < numbers.sum():
            short = _by_kind(own, len(wanted))[kinds] < numbers
            if (short & (there[kinds] > most)).any():
                there[:] = 0
                own = self.candidates(content, wanted > 0, **at)
                result = first_of(own, wanted)
        if len(own) > _TOO_MANY * most.sum():
            self._there = _by_kind(own, len(wanted)) if not there.any() else np.zeros_like(there)
        return result

    def remove(
        self, content: DeviceArray, kinds: IntArray, numbers: IntArray, **at: int
    ) -> IntArray | None:
        """Take out what `chosen` chooses, without the host, where this is little.

        Returns
        -------
        How many of each, or None, and nothing was taken.
        """
        for _ in range(2):  # the first time many may be listed, and so be counted
            lists = self._lists_of(kinds, numbers)
            if lists is None:
                return None
            result, refused = self._take_of_lists(content, lists, **at)
            if not refused:
                return np.minimum(result, numbers)
            self._lists, most = None, np.maximum(lists.most, 1)
            known = self._there[kinds]
            wrong = (result > lists.room) | (result < lists.least)
            self._there[kinds] = np.where(wrong, np.maximum(result, result * known // most), known)
        return None

    def _lists_of(self, kinds: IntArray, numbers: IntArray) -> _Lists | None:
        """A list for each of the species + 1 that are wanted; None where these are too many."""
        kept = self._lists
        if (
            kept is not None
            and np.array_equal(kept.kinds, kinds)
            and np.array_equal(kept.numbers, numbers)
        ):
            return kept
        size, lists = self._species + 1, len(kinds)
        most = _likely_most(np.minimum(numbers, _MOST_COMPARED))
        space = int(_likely_most(most.max(initial=0)))
        if space > _MOST_COMPARED or not 0 < lists * space <= _MOST_PLACES:
            return None
        known = self._there[kinds]
        least = np.where(known > most, numbers, 0)
        rows = np.zeros((size + lists, 3), np.uint32)
        rows[kinds, 0], rows[kinds, 1], rows[kinds, 2] = most, known, range(lists)
        rows[size:, 0], rows[size:, 1] = numbers, least
        limits = self._wanted(rows)
        counts: Any = self._backend.empty((lists + _TAKING_WORDS,), np.uint64)
        listing = {
            "limits": limits, "candidates": self._backend.empty((lists * space, 3), np.uint64),
            "count": counts, "room": space,
        }  # fmt: skip
        taking = {
            "numbers": limits[size:], "lists": lists, "state": counts[lists:],
            "chosen": self._backend.empty((lists * space,), np.uint32),
        }  # fmt: skip
        mirror = self._backend.mirror(counts)
        self._removed.forget()
        self._lists = _Lists(
            kinds.copy(), numbers.copy(), most, least, space, counts, mirror, listing, taking
        )
        return self._lists

    def _take_of_lists(
        self, content: DeviceArray, lists: _Lists, *, each: int, first: int, **draws: int
    ) -> tuple[IntArray, bool]:
        """How many candidates each list has, and whether they were refused."""
        backend, stream = self._backend, self._stream
        lattice, names = self._of(content, each, first), ("list", "take")
        of_list, of_take = (f"{self._prefix}_{name}" for name in names)
        backend.clear(lists.counts, stream)
        given = self._removed.of(of_list, lattice=lattice, to=lists.listing | draws)
        self._program.launch(of_list, self._items(content), given, stream)
        given = self._removed.of(
            of_take, lattice=lattice, of=lists.taking | {"from": lists.listing | draws}
        )
        grid = LaunchGrid(-(-len(lists.kinds) * lists.room // _TAKERS), _TAKERS)
        self._program.launch_blocks(of_take, grid, given, stream)
        backend.download(lists.counts, lists.mirror, len(lists.mirror), stream)
        stream.record().wait()
        result: IntArray = lists.mirror.astype(np.int64)
        return result[: len(lists.kinds)], bool(result[len(lists.kinds)])

    def _read_candidates(self, rows: int) -> int:
        """Copy rows of the list to the host; how many candidates there are."""
        self._backend.download(self._listed, self._listed_mirror, rows, self._stream)
        self._stream.record().wait()
        return int(self._listed_mirror[0, 0])

    def take(self, content: DeviceArray, chosen: Array) -> None:
        """Take out candidates that were listed since the last change."""
        if len(chosen):
            self._edit(content, chosen[chosen["site"].argsort(kind="stable")], None)
            self._stream.record().wait()

    def put(self, content: DeviceArray, places: IntArray, particles: IntArray) -> BoolArray:
        """Put particles at `places`, which ascend, into free slots in the order given.

        Returns
        -------
        Which found none, bool ``[particle]``.
        """
        count = len(places)
        if count == 0:
            return np.zeros(0, bool)
        if len(self._left) < count:
            self._allocate_answers(1 << (count - 1).bit_length())
        given = np.empty(count, CANDIDATE)
        given["site"], given["particle"] = places, particles
        self._edit(content, given, self._left)
        self._backend.download(self._left, self._left_mirror, count, self._stream)
        self._stream.record().wait()
        return self._left_mirror[:count].astype(bool)

    def _edit(self, content: DeviceArray, given: Array, left: DeviceArray | None) -> None:
        self._launch(
            "edit", len(given), lattice=self._of(content), count=len(given), left=left,
            given=self._given(given.view(np.uint64).reshape(-1, 3)),
        )  # fmt: skip

    def _launch(self, entry: str, items: int, **values: Any) -> None:
        """Launch a kernel; its buffers live until the next call."""
        name = f"{self._prefix}_{entry}"
        self._program.launch(name, items, self._structs.of(name, **values), self._stream)

    def _host(self, buffer: DeviceArray, mirror: Array) -> Array:
        """The mirror of a buffer, when all that was launched has run."""
        self._backend.download(buffer, mirror, len(buffer), self._stream)
        self._stream.record().wait()
        return mirror


class SlotsChanging(Changing):
    """Changes sites ``[site, slot]``: species + 1, first slots first.

    Sites are those of a slab, or of lattices of `each` sites one behind the other.

    Parameters
    ----------
    header
        The generated headers of the lattice's kernels.
    threads
        Of a block.
    """

    def __init__(
        self, backend: Backend, lattice: LoweredLattice, header: Mapping[str, str], threads: int,
        stream: Stream,
    ) -> None:  # fmt: skip
        species = len(lattice.species)
        super().__init__(backend, "lattice/change.cc", header, "rdme", species, stream)
        self._threads, self._slots = threads, lattice.slots
        self._most = self._program.resident_blocks("rdme_become", threads)

    def _become(self, content: DeviceArray, **values: Any) -> None:
        arguments = self._structs.of("rdme_become", lattice=self._of(content), **values)
        blocks = max(1, min(-(-self._items(content) // self._threads), self._most))
        grid = LaunchGrid(blocks, self._threads)
        self._program.launch_blocks("rdme_become", grid, arguments, self._stream)

    def _items(self, content: DeviceArray) -> int:
        return int(content.size) // self._slots

    def _of(self, content: DeviceArray, each: int | None = None, first: int = 0) -> dict[str, Any]:
        n = self._items(content)
        return {"sites": content, "n_sites": n, "each": each or n, "first_site": first}


def _likely_most(numbers: IntArray) -> IntArray:
    """How many candidates are to be listed for so many that are wanted."""
    beside = (numbers > 0) * (_DEVIATIONS * np.sqrt(numbers) + _BESIDE)
    return np.asarray(numbers + beside, np.int64)


def _by_kind(candidates: Array, kinds: int) -> IntArray:
    """How many there are of each species + 1."""
    return np.bincount(candidates["particle"].astype(np.int64), minlength=kinds)


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
    result: Array = candidates[order[np.repeat(begins - before, taken) + np.arange(taken.sum())]]
    return result


def _by_kind_and_key(candidates: Array, kind: IntArray, kinds: int) -> tuple[Array, IntArray]:
    """The order by kind, key and site, by words of all where these have bits; and kinds in it."""
    of_kind, of_place = (max(1, (size - 1).bit_length()) for size in (kinds, len(kind)))
    if of_kind + of_place <= 64 - _BITS_OF_KEY:
        shift = np.uint64(64 - of_kind)
        words = kind.astype(np.uint64) << shift
        words |= candidates["key"] >> np.uint64(of_kind + of_place) << np.uint64(of_place)
        words |= np.arange(len(kind), dtype=np.uint64)
        words.sort()
        above = words >> np.uint64(of_place)
        if (above[1:] != above[:-1]).all():
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

"""Changes of particles between two steps: many species, or many sites, in one launch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, BoolArray, DeviceArray, IntArray
from tauslab.kernels.backends.base import Backend, KernelSource, LaunchGrid, Program, Stream
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.model.lattice.placement import random_words

_ENTRIES = ("rdme_become", "rdme_list", "rdme_take", "rdme_put")
_ROOM = 1 << 14  # candidates that are listed at once, at first
_LOOKED_AT = 1 << 22  # slots at a time
_FEW_KINDS = 24  # bits of a number of kinds, beside which 40 bits of a key rarely fail to order
PLACES = 4  # a stream of draws, as those of csrc/lattice/place.cc; 3 is of csrc/lattice/change.cc
# `Candidate` of csrc/lattice/change.cc.
CANDIDATE = np.dtype([("key", "<u8"), ("site", "<u8"), ("particle", "<u4"), ("slot", "<u4")])


class Changing(ABC):
    """Kernels that change particles in `content`: an engine's memory of sites, or a part of it."""

    def __init__(self, backend: Backend, program: Program, species: int, stream: Stream) -> None:
        self._backend, self._program, self._stream = backend, program, stream
        self._changed: Any = backend.empty((max(1, species),), np.uint64)
        self._room = 0
        self._candidates: Any = None

    @abstractmethod
    def _become(self, content: DeviceArray, where: DeviceArray | None, **values: Any) -> None:
        """Launch the kernel of `become`."""

    @abstractmethod
    def _list(self, content: DeviceArray, *, each: int, first: int, **values: Any) -> None:
        """Launch the kernel of `candidates`."""

    def become(self, content: DeviceArray, table: IntArray, where: DeviceArray | None) -> IntArray:
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
        backend = self._backend
        backend.clear(self._changed, self._stream)
        becomes = backend.upload(table.astype(np.uint32))
        mask = None if where is None else where.view(np.uint8)
        self._become(content, mask, becomes=becomes, changed=self._changed)
        return self._host(self._changed).astype(np.int64)

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
        `CANDIDATE` ``[particle]``, in any order; their sites are numbered in the content.
        """
        backend, wants = self._backend, self._backend.upload(wanted.astype(np.uint8))
        found = max(self._room, _ROOM)
        while True:
            if found > self._room or self._candidates is None:
                self._room = 1 << (found - 1).bit_length()
                self._candidates = backend.empty((self._room, 3), np.uint64)
            count = backend.upload(np.zeros(1, np.uint64))
            self._list(
                content, each=each, first=first, wanted=wants, seed=seed, step=step, call=call,
                replica=replica, candidates=self._candidates, count=count, room=self._room,
            )  # fmt: skip
            found = int(self._host(count)[0])
            if found <= self._room:
                break
        if not found:
            return np.zeros(0, CANDIDATE)
        words = np.ascontiguousarray(self._host(self._candidates[:found]))
        return words.view(CANDIDATE).reshape(-1)

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
        """Launch a kernel, and keep its buffers until it has run."""
        arguments = self._program.arguments(entry, **values)
        self._program.launch(entry, items, arguments, self._stream)
        self._stream.record().wait()

    def _host(self, buffer: DeviceArray) -> Array:
        mirror = self._backend.mirror(buffer)
        self._backend.download(buffer, mirror, len(buffer), self._stream)
        self._stream.record().wait()
        return mirror.copy()


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
        self._most = program.resident_blocks("rdme_become", threads)

    def _become(self, content: DeviceArray, where: DeviceArray | None, **values: Any) -> None:
        n = self._sites(content)
        arguments = self._program.arguments(
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
        at, which = np.unique(chosen["site"].astype(np.int64), return_inverse=True)
        slots = np.zeros(len(at), np.uint32)
        np.bitwise_or.at(slots, which, np.uint32(1) << chosen["slot"])
        upload = self._backend.upload
        self._launch(
            "rdme_take", len(at), sites=content, at=upload(at), slots=upload(slots), count=len(at)
        )

    def put(self, content: DeviceArray, places: IntArray, particles: IntArray) -> BoolArray:
        """As of `Changing`."""
        if not len(places):
            return np.zeros(0, bool)
        at, begins, numbers = np.unique(places, return_index=True, return_counts=True)
        count, room = len(at), self._backend.empty((len(at),), np.int32)
        given = self._backend.upload(
            np.concatenate([at, begins, [len(places)], particles], dtype=np.int64)
        )
        self._launch(
            "rdme_put", count, sites=content, at=given[:count], begins=given[count : 2 * count + 1],
            particles=given[2 * count + 1 :], count=count, room=room,
        )  # fmt: skip
        found = self._host(room)
        order = np.arange(len(places)) - np.repeat(begins, numbers)
        return np.asarray(order >= np.repeat(found, numbers))

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
    order = _by_kind_and_key(candidates, kind, flat.size)
    kind = kind[order]
    begins = np.searchsorted(kind, np.arange(flat.size))
    found: Array = candidates[order[np.arange(len(kind)) - begins[kind] < flat[kind]]]
    return found


def _by_kind_and_key(candidates: Array, kind: IntArray, kinds: int) -> IntArray:
    """The order by kind, key and site; one sort where the first bits of the keys tell it."""
    bits = max(1, (kinds - 1).bit_length())
    if bits <= _FEW_KINDS:
        first = kind.astype(np.uint64) << np.uint64(64 - bits)
        first |= candidates["key"] >> np.uint64(bits)
        order: IntArray = np.argsort(first)
        if (np.diff(first[order]) != 0).all():
            return order
    return np.lexsort((candidates["site"], candidates["key"], kind))


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

"""Particles at t = 0: any slab of planes of the same start, whoever asks for it.

A particle of a placement by count goes to a site of its type, all alike, whatever stands there.
One that finds its site full goes to another of the same *patch*, 4096 sites of that type that
follow each other in the lattice.  So a slab needs the draws of all particles, which are cheap, and
the sites of its own patches, but nobody's occupancy beyond them.  The draws are raw words of
NumPy's Philox4x64 (Salmon et al. 2011), whose output NumPy keeps from version to version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import IntArray
from tauslab.base.errors import ModelError
from tauslab.base.host import allowed_cores
from tauslab.model.lattice.site_map import SiteMap
from tauslab.model.lattice.values import Placed

PATCH = 4096
_CHUNK_BITS = 20
_CHUNK = 1 << _CHUNK_BITS  # draws at a time; more than the slots of any patch
_MOST_THREADS = 16
_FIRST, _AGAIN = 1, 2  # streams: the second word of the Philox key; csrc/lattice/place.cc has them

Particles = npt.NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True)
class ParticleStart:
    """The positions of particles at t = 0.

    Attributes
    ----------
    sites
        Type of every site.
    placed
        Placements in the model's order, which the slots of a site keep; positions come first.
    slots
        Particles a site can hold.
    dtype
        Of a particle, stored as species + 1: uint8 or uint16.
    type_names
        For messages.
    """

    sites: SiteMap
    placed: Sequence[Placed]
    slots: int
    dtype: type[np.uint8 | np.uint16]
    type_names: Sequence[str]

    def planes(self, z0: int, z1: int, seed: int, replica: int = 0) -> Particles:
        """Particles ``[z1 - z0, y, x, slots]`` of planes z0 to z1 - 1, first slots filled first.

        Raises
        ------
        ModelError
            More particles than slots in a patch.
        """
        _, y, x = self.sites.shape
        out: Particles = np.zeros((z1 - z0, y * x, self.slots), self.dtype)
        fixed, per_plane = self.at_positions(), self.sites.per_plane
        # Each piece repeats the draws of all particles, which take a tenth of the time of the rest.
        cuts = np.linspace(z0, z1, self._pieces(z1 - z0) + 1).astype(int).tolist()

        def fill(begin: int, end: int) -> None:
            own = out[begin - z0 : end - z0].reshape(-1, self.slots)
            put = _Slab(own, begin * y * x)
            put(fixed.cells, fixed.slots, fixed.species)
            for site_type in self.spread_types:
                counted = per_plane[:, site_type]
                patches = Patches.around(self.sites, counted, site_type, begin, end)
                if patches is not None:
                    self._spread(put, patches, fixed.cells, seed, replica)

        if len(cuts) == 2:
            fill(z0, z1)
        else:
            with ThreadPoolExecutor(len(cuts) - 1, thread_name_prefix="tauslab-place") as threads:
                for _ in threads.map(fill, cuts[:-1], cuts[1:]):
                    pass
        return out.reshape(z1 - z0, y, x, self.slots)

    def _pieces(self, planes: int) -> int:
        """Into how many pieces to cut so many planes, a thread each."""
        particles = self.spread * planes / self.sites.shape[0]
        most = min(planes, _MOST_THREADS, int(particles) >> _CHUNK_BITS)
        return min(most, allowed_cores()) if most > 1 else 1

    @property
    def spread(self) -> int:
        """Particles of all placements by count."""
        return sum(p.count for p in self.placed if p.positions is None)

    @property
    def spread_types(self) -> list[int]:
        """Site types that have such particles."""
        return sorted({p.site_type for p in self.placed if p.positions is None})

    @cached_property
    def crowding(self) -> float:
        """Particles a site on average, of the kind of site that holds most; without positions."""
        sites = self.sites.per_plane.sum(axis=0)
        placed = np.zeros(len(sites))
        for one in self.placed:
            if one.positions is None:
                placed[one.site_type] += one.count
        return float((placed / np.maximum(sites, 1)).max(initial=0.0))

    @cached_property
    def density(self) -> float:
        """Particles a site on average, of all kinds of sites that particles are spread over."""
        sites = self.sites.per_plane.sum(axis=0)
        spread = {one.site_type for one in self.placed if one.positions is None and one.count}
        space = sum(int(sites[one]) for one in spread) or int(sites.sum())
        return self.number / max(1, space)

    @property
    def number(self) -> int:
        """Particles of all placements."""
        return sum(one.count for one in self.placed)

    def at_positions(self) -> Fixed:
        """All particles with positions."""
        shape = self.sites.shape
        given = [(p.species, p.positions) for p in self.placed if p.positions is not None]
        flat = [np.ravel_multi_index(tuple(at.T), shape) for _, at in given]
        places = np.concatenate(flat) if flat else np.zeros(0, np.int64)
        species = np.repeat([which for which, _ in given], [len(at) for _, at in given])
        order = np.argsort(places, kind="stable")
        places, species = places[order], species[order]
        return Fixed(places, _rank(places), species)

    def _spread(
        self, put: _Slab, patches: Patches, fixed: IntArray, seed: int, replica: int
    ) -> None:
        """Put down all particles of placements in the type of `patches`."""
        cells = patches.cells
        filled = np.searchsorted(fixed, cells, "right") - np.searchsorted(fixed, cells, "left")
        left_over: list[tuple[IntArray, IntArray]] = []
        for drawn, species in _together(self._draws(patches, seed, replica)):
            slot = _take(filled, drawn)
            stands = slot < self.slots
            put(cells[drawn[stands]], slot[stands], species[stands])
            if not stands.all():
                left_over.append((drawn[~stands], species[~stands]))
        np.minimum(filled, self.slots, out=filled)
        if left_over:
            place, species_of = _joined(left_over)
            patch_of = patches.patch_of(place)
            order = np.argsort(patch_of, kind="stable")
            cuts = np.flatnonzero(np.diff(patch_of[order])) + 1
            for mine in np.split(order, cuts):
                patch = int(patch_of[mine[0]])
                start, stop = patches.bounds(patch)
                words = random_words(seed, _AGAIN, replica, patches.site_type, patch)
                drawn, slot = self._again(len(mine), filled[start:stop], words, patches.site_type)
                put(cells[start + drawn], slot, species_of[mine])

    def _draws(self, patches: Patches, seed: int, replica: int) -> Iterator[tuple[IntArray, int]]:
        """Sites drawn, as indices of ``patches.cells``, and their species, in the order placed."""
        for number, placed in enumerate(self.placed):
            if placed.positions is not None or placed.site_type != patches.site_type:
                continue
            words = random_words(seed, _FIRST, replica, number)
            for done in range(0, placed.count, _CHUNK):
                raw = words.random_raw(min(_CHUNK, placed.count - done))
                drawn = (raw % np.uint64(patches.total)).astype(np.int64) - patches.first
                yield drawn[(drawn >= 0) & (drawn < len(patches.cells))], placed.species

    def _again(
        self, particles: int, filled: IntArray, words: np.random.Philox, site_type: int
    ) -> tuple[IntArray, IntArray]:
        """Sites of one patch and free slots there, for particles that found none so far."""
        if particles > self.slots * len(filled) - filled.sum():
            raise self.too_many(site_type)
        place, slot = np.zeros(particles, np.int64), np.zeros(particles, np.int64)
        left = np.arange(particles)
        while len(left):
            drawn = (words.random_raw(len(left)) % np.uint64(len(filled))).astype(np.int64)
            tried = _take(filled, drawn)
            np.minimum(filled, self.slots, out=filled)
            stands = tried < self.slots
            place[left[stands]], slot[left[stands]] = drawn[stands], tried[stands]
            left = left[~stands]
        return place, slot

    def too_many(self, site_type: int) -> ModelError:
        """Return the error for particles of a patch that do not fit."""
        return ModelError(
            f"site type {self.type_names[site_type]!r}: more particles are placed than "
            f"{self.slots} slots a site can hold in some region; use more slots"
        )


@dataclass(frozen=True)
class Fixed:
    """Particles with positions: flat numbers of their sites in order, slots there, and species."""

    cells: IntArray
    slots: IntArray
    species: IntArray


@dataclass(frozen=True)
class _Slab:
    """The sites ``[site, slot]`` of a slab, of which the first is number `first` of the lattice."""

    particles: Particles
    first: int

    def __call__(self, cells: IntArray, slots: IntArray, species: int | IntArray) -> None:
        """Put particles into those of `cells` that are in the slab."""
        at = cells - self.first
        inside = (at >= 0) & (at < len(self.particles))
        stored = species[inside] if isinstance(species, np.ndarray) else species
        self.particles[at[inside], slots[inside]] = stored + 1


@dataclass(frozen=True)
class Reach:
    """Sites of a type in the patches that touch a slab: `first` to ``stop - 1`` of `total`.

    They are in planes `top` to ``bottom - 1``, of whose sites of this type the first `skip` are not
    among them.
    """

    first: int
    stop: int
    total: int
    top: int
    bottom: int
    skip: int

    @classmethod
    def around(cls, per_plane: IntArray, z0: int, z1: int) -> Reach | None:
        """Patches with a site in planes z0 to z1 - 1; None if there is no such site."""
        before = np.concatenate([[0], np.cumsum(per_plane)])
        total, low, high = int(before[-1]), int(before[z0]), int(before[z1])
        if low == high:
            return None
        whole = max(1, total // PATCH)
        first = min(low // PATCH, whole - 1) * PATCH
        last = min((high - 1) // PATCH, whole - 1)
        stop = total if last == whole - 1 else (last + 1) * PATCH
        top = int(np.searchsorted(before, first, "right")) - 1
        bottom = int(np.searchsorted(before, stop, "left"))
        return cls(first, stop, total, top, bottom, first - int(before[top]))


@dataclass(frozen=True)
class Patches:
    """The patches of a site type that touch a slab.

    `cells` are the flat numbers of their sites, in order; the first of them is number `first` of
    the `total` sites of that type.
    """

    site_type: int
    cells: IntArray
    first: int
    total: int

    @classmethod
    def around(
        cls, sites: SiteMap, per_plane: IntArray, site_type: int, z0: int, z1: int
    ) -> Patches | None:
        """Patches with a site in planes z0 to z1 - 1; None if there is no such site."""
        reach = Reach.around(per_plane, z0, z1)
        if reach is None:
            return None
        planes = sites.planes(reach.top, reach.bottom)
        cells = np.flatnonzero(planes == site_type) + reach.top * planes.shape[1] * planes.shape[2]
        cells = cells[reach.skip : reach.skip + reach.stop - reach.first]
        return cls(site_type, cells, reach.first, reach.total)

    def patch_of(self, place: IntArray) -> IntArray:
        """Numbers of the patches of sites that are given as indices of `cells`."""
        return np.minimum((place + self.first) // PATCH, max(1, self.total // PATCH) - 1)

    def bounds(self, patch: int) -> tuple[int, int]:
        """First and last-but-one index in `cells` of a patch."""
        start = patch * PATCH - self.first
        last = patch == max(1, self.total // PATCH) - 1
        return start, self.total - self.first if last else start + PATCH


def random_words(seed: int, stream: int, replica: int, *address: int) -> np.random.Philox:
    """Raw words of one stream and address; the low 64 bits of the Philox counter run."""
    high = [*address, 0, 0][:2]
    return np.random.Philox(
        key=np.array([seed, stream], np.uint64),
        counter=np.array([0, high[0], high[1], replica], np.uint64),
    )


def _together(draws: Iterable[tuple[IntArray, int]]) -> Iterator[tuple[IntArray, IntArray]]:
    """Sites drawn and their species, of as many placements at a time as a chunk takes.

    Most placements of many species are of a few particles, which take no longer together.
    """
    some: list[tuple[IntArray, IntArray]] = []
    size = 0
    for drawn, species in draws:
        if size + len(drawn) > _CHUNK:
            yield _joined(some)
            some, size = [], 0
        some.append((drawn, np.full(len(drawn), species)))
        size += len(drawn)
    if some:
        yield _joined(some)


def _joined(some: Iterable[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    drawn, species = zip(*some, strict=True)
    return np.concatenate(drawn), np.concatenate(species)


def _rank(ordered: IntArray) -> IntArray:
    """Count the equal entries before each entry of a sorted array."""
    if not len(ordered):
        return np.zeros(0, np.int64)
    index = np.arange(len(ordered))
    new = np.ones(len(ordered), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return index - np.maximum.accumulate(np.where(new, index, 0))


def _take(filled: IntArray, drawn: IntArray) -> IntArray:
    """Slots that particles take one after the other in the sites `drawn`; `filled` grows."""
    # Sorting site and place in one number is stable, and faster than a stable argsort.
    keys = np.sort((drawn << _CHUNK_BITS) | np.arange(len(drawn)))
    order, ordered = keys & (_CHUNK - 1), keys >> _CHUNK_BITS
    taken = filled[ordered] + _rank(ordered)
    filled[ordered] = taken + 1  # of several entries for a site the last one stays
    slot = np.empty(len(drawn), np.int64)
    slot[order] = taken
    return slot

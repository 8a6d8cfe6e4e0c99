"""Particles at t = 0 placed by a device, where they are many: as `ParticleStart.planes` does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, IntArray
from tauslab.kernels.backends.base import Backend, KernelSource, Program, Stream
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.planes import planes_in_slots
from tauslab.kernels.lattice.state import Slab
from tauslab.model.lattice.placement import Fixed, ParticleStart, Reach

# Particles of the lattice, or sites of the slab, from which a device places particles: a thread of
# the host takes 0.2 s.
MANY = 1 << 21
_MOST_SITES = 1 << 32  # that a kernel numbers
_SITES_AT_ONCE = 1 << 28  # for each such part of a slab the draws of all particles are repeated
_CHUNK = 1024  # sites that a thread looks at
_ROOM = 1 << 16  # at first for particles that find their sites full
_DRAWS = 4  # of a thread at a time
_NOWHERE: dict[str, Any] = {
    "narrow": None, "wide": None, "planes": None, "each": 0, "nx": 1, "first": 0,
    "apart": 0, "more": 0,
}  # fmt: skip
_ENTRIES = ("place_sites", "place_given", "place_drawn", "place_again")


def are_many(start: ParticleStart, slab: Slab) -> bool:
    """Return whether a device is to place the particles of a slab."""
    z, y, x = start.sites.shape
    # The patches of a rare type of site may reach through the whole lattice.
    planes = slab.end - slab.begin if len(start.type_names) == 1 else z
    own = (slab.end - slab.begin) * y * x
    many = start.spread >= MANY or (start.spread > 0 and own >= MANY)
    return many and planes * y * x < _MOST_SITES // 2


def planes_at_once(lattice: LoweredLattice, planes: int) -> int:
    """Return of how many of a slab's planes the particles are placed at a time, in bit planes."""
    _, y, x = lattice.shape
    each = max(1, _SITES_AT_ONCE // (y * x))
    many = are_many(lattice.start, Slab(0, min(each, planes)))
    return each if many else planes_in_slots(lattice)


def into_slots(particles: Any) -> dict[str, Any]:
    """Particles ``[plane, y, x, slot]``, as a target."""
    return {"narrow" if particles.dtype == np.uint8 else "wide": particles}


class Placing:
    """Puts the particles of a start into the own planes of a slab.

    Parameters
    ----------
    into
        `Target` of csrc/lattice/place.cc, by name: where particles are put. All is 0 there.
    stream
        On which it is done; other streams wait for nothing.
    """

    def __init__(
        self, backend: Backend, start: ParticleStart, slab: Slab, into: Mapping[str, Any],
        stream: Stream,
    ) -> None:  # fmt: skip
        self._backend, self._start, self._slab, self._stream = backend, start, slab, stream
        _, y, x = start.sites.shape
        self._first, self._own = slab.begin * y * x, (slab.end - slab.begin) * y * x
        self._into = {**_NOWHERE, "slots": start.slots, **into}
        self._program: Program = backend.compile(KernelSource("lattice/place.cc", _ENTRIES))

    def run(self, seed: int, replica: int) -> None:
        """Place all of them, and wait until they stand.

        Raises
        ------
        ModelError
            More particles than slots in a patch.
        """
        start, slab = self._start, self._slab
        fixed, per_plane = start.at_positions(), start.sites.per_plane
        at = fixed.cells - self._first
        inside = np.flatnonzero((at >= 0) & (at < self._own))
        self._put(fixed, inside, at[inside])
        for site_type in start.spread_types:
            reach = Reach.around(per_plane[:, site_type], slab.begin, slab.end)
            if reach is not None:
                self._spread(self._sites(site_type, reach), fixed, seed, replica)

    def _sites(self, site_type: int, reach: Reach) -> _Sites:
        """Places of the sites of a type."""
        backend, sites = self._backend, self._start.sites
        if len(self._start.type_names) == 1:
            return _Sites(site_type, reach, reach.first)
        types = sites.planes(reach.top, reach.bottom).reshape(-1)
        chunks, kept = -(-len(types) // _CHUNK), reach.stop - reach.first
        counts, cells = backend.empty((chunks,), np.uint32), backend.empty((kept,), np.uint32)
        known = {
            "types": backend.upload(types), "sites": len(types), "chunk": _CHUNK,
            "site_type": site_type, "counts": counts, "kept": kept, "cells": cells,
        }  # fmt: skip
        self._launch("place_sites", chunks, begins=None, **known)
        before = np.cumsum(self._host(counts), dtype=np.int64)
        before = np.concatenate([[0], before[:-1]]) - reach.skip
        self._launch("place_sites", chunks, begins=backend.upload(before), **known)
        _, y, x = sites.shape
        return _Sites(site_type, reach, reach.top * y * x, cells, types, before)

    def _put(self, fixed: Fixed, which: IntArray, sites: IntArray, filled: Any = None) -> None:
        """Put particles with positions into the slab, or, with `filled`, only count them there."""
        if not len(which):
            return
        upload = self._backend.upload
        self._launch(
            "place_given", len(which), filled=filled, sites=upload(sites),
            slots=upload(fixed.slots[which].astype(np.int32)),
            species=upload(fixed.species[which].astype(np.int32)), count=len(which),
            into=self._into,
        )  # fmt: skip

    def _spread(self, sites: _Sites, fixed: Fixed, seed: int, replica: int) -> None:
        """Put down all particles of placements in one type of site."""
        backend, reach = self._backend, sites.reach
        filled = backend.empty((reach.stop - reach.first,), np.uint32)
        of = {
            "into": self._into, "filled": filled, "cells": sites.cells,
            "sites": len(filled), "base": sites.begin - self._first, "own": self._own,
            "first": reach.first, "total": reach.total, "seed": seed, "replica": replica,
        }  # fmt: skip
        space, result, into = 0, _ROOM, self._into
        while result > space:  # the second time only the list is made: particles are placed
            space = result
            backend.clear(filled, self._stream)
            self._put(fixed, *sites.numbers(fixed.cells), filled)
            left, result = self._draw(sites.site_type, {**of, "into": into}, space)
            into = {**into, **_NOWHERE}
        if result:
            self._again(sites.site_type, of, np.sort(self._host(left)[:result]))

    def _draw(self, site_type: int, of: dict[str, Any], room: int) -> tuple[Any, int]:
        """Put down all that find a slot; a list of the others, and how many they are."""
        backend = self._backend
        left, count = backend.empty((room,), np.uint64), backend.upload(np.zeros(1, np.uint64))
        for number, placed in enumerate(self._start.placed):
            if placed.positions is None and placed.site_type == site_type and placed.count:
                self._launch(
                    "place_drawn", -(-placed.count // _DRAWS), of=of, left=left, count=count,
                    room=room, placement=number, particles=placed.count, species=placed.species,
                )  # fmt: skip
        return left, int(self._host(count)[0])

    def _again(self, site_type: int, of: dict[str, Any], left: Array) -> None:
        """Find slots in the same patches for particles without one."""
        upload = self._backend.upload
        patch = left >> np.uint64(32)
        begins = np.flatnonzero(np.append(True, patch[1:] != patch[:-1]))
        refused = upload(np.zeros(1, np.uint64))
        self._launch(
            "place_again", len(begins), of=of, left=upload(left),
            begins=upload(np.append(begins, len(left))),
            species=upload(np.array([p.species for p in self._start.placed], np.int32)),
            patches=len(begins), site_type=site_type, refused=refused,
        )  # fmt: skip
        if self._host(refused)[0]:
            raise self._start.too_many(site_type)

    def _launch(self, entry: str, items: int, **values: Any) -> None:
        """Launch a kernel, and keep its buffers until it has run."""
        arguments = self._program.arguments(entry, **values)
        self._program.launch(entry, items, arguments, self._stream)
        self._stream.record().wait()

    def _host(self, buffer: Any) -> Array:
        mirror = self._backend.mirror(buffer)
        self._backend.download(buffer, mirror, len(buffer), self._stream)
        self._stream.record().wait()
        return mirror


@dataclass(frozen=True)
class _Sites:
    """Sites of a type in the patches that touch a slab.

    `cells` are on the device their numbers from site `begin` of the lattice on; None: they follow
    each other. `types` are those of the lattice from there on, and `before` how many of this type
    stand before each chunk of them, without those that are not in the patches.
    """

    site_type: int
    reach: Reach
    begin: int
    cells: Any = None
    types: Array | None = None
    before: IntArray | None = None

    def numbers(self, places: IntArray) -> tuple[IntArray, IntArray]:
        """Indices of the `places` in the lattice, in order, that are here, and their numbers."""
        at = places - self.begin
        if self.types is None or self.before is None:
            which = np.flatnonzero((at >= 0) & (at < self.reach.stop - self.reach.first))
            return which, at[which]
        which = np.flatnonzero((at >= 0) & (at < len(self.types)))
        which = which[self.types[at[which]] == self.site_type]
        numbers = np.empty(len(which), np.int64)
        chunks, firsts = np.unique(at[which] // _CHUNK, return_index=True)
        ends = [*firsts[1:].tolist(), len(which)]
        for chunk, first, end in zip(chunks.tolist(), firsts.tolist(), ends, strict=False):
            begin, mine = chunk * _CHUNK, slice(first, end)
            result = np.cumsum(self.types[begin : begin + _CHUNK] == self.site_type) - 1
            numbers[mine] = self.before[chunk] + result[at[which[mine]] - begin]
        kept = (numbers >= 0) & (numbers < self.reach.stop - self.reach.first)
        return which[kept], numbers[kept]

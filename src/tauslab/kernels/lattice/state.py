"""Values that a lattice engine takes and gives: a slab of planes, a state, samples.

Particles that wait for a slot have on the host a list as csrc/lattice/site/waiting.h keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np

from tauslab.base.arrays import Array, IntArray
from tauslab.base.errors import ConfigError
from tauslab.kernels.fields import Field

# Words of `work`: WorkWord of csrc/lattice/site/work.h.
WORK, WAITING_0, FULL, MESSAGE_FULL = 14, 0, 3, 6
_HOOK_ORDER = 0xF000  # in an age: after all passes of a step
_LAST_ORDER = 0xFFFF
# Those that count on through a run, by their names in `LatticeState`.
SINCE_START = {"spills": 2, "truncated": 13}


@dataclass(frozen=True)
class Slab:
    """Planes ``begin .. end - 1`` of the lattice, and how many more are kept beside them."""

    begin: int
    end: int
    below: int = 0
    above: int = 0

    @property
    def planes(self) -> int:
        """Planes in memory."""
        return self.below + self.end - self.begin + self.above

    def tiles_of(self, sites: Array, shape: Sequence[int], tile_y: int, tile_x: int) -> Array:
        """Tile, of all planes in memory, of numbered sites of a lattice ``[z, y, x]``."""
        z, y, x = np.unravel_index(sites.astype(np.int64), tuple(shape))
        along_y, along_x = -(-shape[1] // tile_y), -(-shape[2] // tile_x)
        plane = z - self.begin + self.below
        return np.asarray((plane * along_y + y // tile_y) * along_x + x // tile_x)


def _counted(name: str, *axes: str, since: int = 2, unit: str = "") -> dict[str, Field]:
    """Metadata of an entry of `Samples`: its field in a file."""
    return {"recorded": Field(name, ("time", *axes), "<i8", since=since, unit=unit)}


@dataclass(frozen=True)
class Samples:
    """Counts at some steps: the numbers of `rdme_count`, in its order.

    counts ``[sample, species]`` and by_type ``[sample, site type, species]``, with those that wait;
    fired ``[sample, reaction]`` and spills ``[sample]`` since the start: reactions, and particles
    that found no room; waiting ``[sample]``: those that wait at the moment; truncated ``[sample]``
    since the start: passes of a site that ended before their time (csrc/lattice/site/react.h).
    """

    by_type: IntArray = field(
        metadata=_counted("counts_by_site_type", "site_type", "species", unit="particles")
    )
    fired: IntArray = field(metadata=_counted("reactions_fired", "reaction"))
    spills: IntArray = field(metadata=_counted("overflow"))
    waiting: IntArray = field(metadata=_counted("waiting", since=3, unit="particles"))
    truncated: IntArray = field(metadata=_counted("truncated_passes", since=3))

    @property
    def counts(self) -> IntArray:
        """Particles ``[sample, species]``."""
        return np.asarray(self.by_type.sum(axis=1))

    @classmethod
    def of_rows(cls, rows: Array, sizes: Mapping[str, int]) -> Self:
        """From numbers ``[sample, column]``, by the sizes of axes."""
        shapes = [each.shape({**sizes, "time": len(rows)}) for each in SAMPLED[1:]]
        cuts = np.cumsum([math.prod(shape[1:]) for shape in shapes])[:-1]
        parts = np.split(rows.astype(np.int64), cuts, axis=1)
        return cls(*(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)))

    def rows(self) -> IntArray:
        """The inverse of `of_rows`."""
        parts = [getattr(self, entry.name) for entry in fields(self)]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    def recorded(self) -> dict[str, IntArray]:
        """Arrays of a file, by the names of `SAMPLED`."""
        own = {e.metadata["recorded"].name: getattr(self, e.name) for e in fields(self)}
        return {"counts": self.counts, **own}


# What files hold of every sample, in the order in which its checksum takes them.
SAMPLED: tuple[Field, ...] = (
    Field("counts", ("time", "species"), "<i8", unit="particles"),
    *(entry.metadata["recorded"] for entry in fields(Samples)),
)

# Beside them, of a lattice with objects of several sites: where these are.
TRACKED = Field("object_positions", ("time", "object", "axis"), "<i8", unit="sites")
GONE = -(1 << 62)  # in place of the position of an object that is no more
RECORDED = (*SAMPLED, TRACKED)


def counted_columns(sizes: Mapping[str, int]) -> int:
    """Numbers that ``rdme_count`` makes of a sample, by the sizes of axes."""
    return sum(math.prod(each.shape({**sizes, "time": 1})) for each in SAMPLED[1:])


@dataclass(frozen=True)
class LatticeState:
    """All that a run goes on from, on the host.

    particles ``[plane, y, x, slot]`` of the slab's own planes; waiting: those without a slot,
    ordered by site and age; step: steps done; fired ``[reaction]``, spills and truncated since the
    start.
    """

    particles: Array
    waiting: Array
    step: int
    fired: IntArray
    spills: int
    truncated: int = 0

    @property
    def since_start(self) -> dict[str, int]:
        """The numbers of `SINCE_START`."""
        return {name: getattr(self, name) for name in SINCE_START}


# `Waiting` in csrc/lattice/site/work.h.
WAITING = np.dtype([("site", "<u8"), ("age", "<u8"), ("particle", "<u4"), ("next", "<i4")])


def waiting_anew(waiting: Array, sites: IntArray, particles: IntArray, step: int) -> Array:
    """Entries of particles that are put at full sites, which ascend, between two steps.

    Parameters
    ----------
    waiting
        Particles that wait already.
    step
        Steps of the engine that are done.

    Raises
    ------
    ConfigError
        More would wait at a site than there are numbers for.
    """
    fresh = np.zeros(len(sites), WAITING)
    same = np.concatenate([[0], np.cumsum(sites[1:] != sites[:-1])])
    # They come between steps: older than what comes later, younger than what waits already.
    last = np.uint64(max(step, 1) - 1)
    first = last << np.uint64(16) | np.uint64(_HOOK_ORDER)
    before = waiting[waiting["age"] >= first]
    before = before[np.lexsort((before["age"], before["site"]))]
    # Behind the youngest that waits there: of those before it some may be gone.
    ends = np.searchsorted(before["site"].astype(np.int64), sites, "right")
    begins = np.full(len(sites), first)
    if len(before):
        youngest = before[np.maximum(ends, 1) - 1]
        there = (ends > 0) & (youngest["site"].astype(np.int64) == sites)
        begins[there] = youngest["age"][there] + np.uint64(1)
    ages = begins + (np.arange(len(sites)) - np.searchsorted(same, same)).astype(np.uint64)
    if ages.max(initial=0) > last << np.uint64(16) | np.uint64(_LAST_ORDER):
        raise ConfigError(
            f"add: more than {_LAST_ORDER - _HOOK_ORDER + 1} particles would wait at a site"
        )
    fresh["site"], fresh["particle"], fresh["age"] = sites, particles, ages
    fresh["next"] = -1
    return fresh


def chained(entries: Array, tiles: Array) -> tuple[Array, Array]:
    """Entries in the order of their tiles, those of a tile chained; and their tiles."""
    order = np.argsort(tiles, kind="stable")
    entries, tiles = entries[order].copy(), tiles[order]
    entries["next"] = -1
    if len(entries) > 1:
        following = np.arange(1, len(entries))
        entries["next"][:-1] = np.where(tiles[1:] == tiles[:-1], following, -1)
    return entries, tiles


def first_entries(entries: Array, tiles: Array) -> Array:
    """Place of the first entry of the tile of each entry."""
    return np.searchsorted(tiles, tiles, "left").astype(np.int32) if len(entries) else tiles


def in_order(entries: Array, first_site: int, end_site: int) -> Array:
    """Entries of sites ``first_site .. end_site - 1``, unchained, by site and age."""
    site = entries["site"]
    entries = entries[(site >= first_site) & (site < end_site)].copy()
    entries["next"] = -1
    return entries[np.lexsort((entries["age"], entries["site"]))]

"""Device tables of a lattice: site types, hops, reactions, ghosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, BoolArray, DeviceArray, FloatArray, IntArray
from tauslab.kernels.backends.base import Backend, Stream
from tauslab.kernels.lattice.codegen import (
    ReactionTables,
    Tile,
    chances,
    ghost_tables,
    hop_thresholds,
    pass_length,
)
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.rates import RateBounds, RateJudge
from tauslab.kernels.lattice.state import Slab


class LatticeTables:
    """Tables that a step reads and never writes; rates may be changed between steps.

    Attributes
    ----------
    types
        Site types ``[plane, y, x]`` of the slab on the device; None where there is one. Objects
        that move change them there; `set_types` makes other changes.
    of_model
        Whether they are those of the model, but for objects.
    rates
        Stochastic constants ``[reaction, site type]`` per site, on the host.
    """

    def __init__(
        self, backend: Backend, lattice: LoweredLattice, slab: Slab, tile: Tile,
        reactions: ReactionTables, *, host: Callable[[Any], Array], closed: bool = False,
    ) -> None:  # fmt: skip
        self._backend, self._lattice, self._slab, self._tile = backend, lattice, slab, tile
        self._host, self._closed = host, np.logical_and(closed, lattice.closed)
        thresholds = hop_thresholds(lattice)
        self._hop = backend.upload(thresholds)
        self._hop_high = backend.upload((thresholds >> np.uint64(48)).astype(np.uint16))
        self._reactions = backend.upload(reactions.array)
        ghosts = ghost_tables(lattice)
        self._ghost_rows = backend.upload(ghosts.rows)
        self._ghosts = backend.upload(ghosts.words) if ghosts.words.size else None
        one_type = len(lattice.site_types) == 1
        self.types: Any = None if one_type else backend.upload(self._stored(lattice.sites))
        self.of_model = True
        self.rates = np.array([r.rates for r in lattice.reactions], np.float64).reshape(
            len(lattice.reactions), len(lattice.site_types)
        )
        self._births = [j for j, r in enumerate(lattice.reactions) if not r.reactants]
        self._limits = RateBounds(lattice)
        self._judge = RateJudge(lattice, self._limits.groups)
        chance = chances(lattice, self.rates)
        self._limits.update(chance)
        # Tables on the device, and the host memory from which their changes are copied.
        self._chances: Any = backend.upload(chance if chance.size else np.zeros((1, 1)))
        self._chance = backend.mirror(self._chances)
        self._chance[...] = chance if chance.size else 0.0
        self._bounds: Any = backend.upload(self._limits.table.copy())
        self._limits.table, table = backend.mirror(self._bounds), self._limits.table
        self._limits.table[...] = table
        self._use_tiles()

    def cut(self, tile: Tile, *, closed: bool) -> None:
        """Update what other kernels read of tiles."""
        self._tile, self._closed = tile, np.logical_and(closed, self._lattice.closed)
        self._use_tiles()

    def arguments(self) -> dict[str, Any]:
        """The tables in `LatticeArguments` of csrc/lattice/site/lattice.h, by name."""
        return {
            "always": self._always_active, "types": self.types, "hop_high": self._hop_high,
            "hop": self._hop, "tables": self._reactions, "chances": self._chances,
            "bounds": self._bounds, "ghost_rows": self._ghost_rows, "ghosts": self._ghosts,
        }  # fmt: skip

    def set_rates(self, reactions: IntArray, rates: FloatArray, stream: Stream) -> str | None:
        """Give reactions other stochastic constants ``[reaction, site type]`` per site.

        Nothing may be on the stream, and work that is put there afterwards reads the new ones.

        Returns
        -------
        A sentence where turns of hops and reactions cost more than with all rates before.
        """
        born = self._born()
        self.rates[reactions] = rates
        self._chance[reactions] = chances(self._lattice, rates)
        groups, sums = self._limits.update(self._chance, reactions)
        self._backend.upload_mirror(self._chance, self._chances, stream)
        self._backend.upload_mirror(self._limits.table, self._bounds, stream)
        if (self._born() != born).any():
            self._use_tiles()
        return self._judge.sentence(
            self.rates, reactions, groups, sums / pass_length(self._lattice)
        )

    def set_types(self, types: DeviceArray) -> None:
        """Give all stored planes other site types ``[plane, y, x]``; not where there is one."""
        self.types, self.of_model = types, False
        self._use_tiles()

    def _stored(self, planes: Callable[[int, int], Array]) -> Array:
        """Planes that a function of ``(z0, z1)`` gives, as they are stored, neighbours included."""
        nz, slab = self._lattice.shape[0], self._slab
        parts = [planes(z % nz, z % nz + 1) for z in range(slab.begin - slab.below, slab.begin)]
        parts.append(planes(slab.begin, slab.end))
        parts += [planes(z % nz, z % nz + 1) for z in range(slab.end, slab.end + slab.above)]
        return np.ascontiguousarray(np.concatenate(parts))

    def _born(self) -> BoolArray:
        """Site types in which particles come from nowhere, wherever objects are."""
        if not self._births:
            return np.zeros(self.rates.shape[1], bool)
        return self._lattice.with_objects(np.asarray((self.rates[self._births] > 0).any(axis=0)))

    def _use_tiles(self) -> None:
        always = self._always()
        self._always_active = None if always is None else self._backend.upload(always)

    def _always(self) -> Array | None:
        """Tiles ``[plane, tile]`` that particles enter from nowhere: bit 0 by x, y; bit 1 by z.

        Bit 2: all sites of the tile are such that no particle can hop there.
        """
        lattice, slab, tile = self._lattice, self._slab, self._tile
        nz, ny, nx = lattice.shape
        held = [kind == "held" for kind in lattice.boundary]
        made = self._born()
        if not any(held) and not made.any() and not self._closed.any():
            return None
        flags = np.zeros((slab.planes, -(-ny // tile.y), -(-nx // tile.x)), np.uint8)
        for face, where in ((2, np.s_[:, 0]), (3, np.s_[:, -1]),
                            (4, np.s_[:, :, 0]), (5, np.s_[:, :, -1])):  # fmt: skip
            flags[where] |= held[face]
        for face, z in ((0, 0), (1, nz - 1)):
            plane = z - slab.begin + slab.below
            if held[face] and 0 <= plane < slab.planes:
                flags[plane] |= 2
        if made.any():
            flags[self._any_in_tile(made)] |= 2
        if self._closed.any():
            flags[~self._any_in_tile(~self._closed)] |= 4
        return flags.reshape(slab.planes, -1)

    def _any_in_tile(self, chosen: Array) -> Array:
        """Tiles ``[plane, y, x]`` with a site of a chosen type."""
        one_type = self.types is None
        types = self._stored(self._lattice.sites) if one_type else self._host(self.types)
        kinds = np.flatnonzero(chosen).tolist()
        if len(kinds) <= 8:  # comparing takes a fifth of the time of a look-up
            sites: Array = np.zeros(types.shape, bool)
            for kind in kinds:
                sites |= types == kind
        else:
            sites = np.asarray(chosen).take(types)
        nz, ny, nx = sites.shape
        tile = self._tile
        rows = np.zeros((nz, -(-ny // tile.y), nx), bool)
        for y in range(min(tile.y, ny)):
            part = sites[:, y :: tile.y]
            rows[:, : part.shape[1]] |= part
        tiles = np.zeros((*rows.shape[:2], -(-nx // tile.x)), bool)
        for x in range(min(tile.x, nx)):
            part = rows[:, :, x :: tile.x]
            tiles[:, :, : part.shape[2]] |= part
        return tiles

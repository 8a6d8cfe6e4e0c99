"""What a lattice engine takes and gives: a slab of planes, a state, samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tauslab.model.arrays import Array, IntArray


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


@dataclass(frozen=True)
class Samples:
    """What was counted at some steps.

    counts ``[sample, species]`` and by_type ``[sample, site type, species]``, with those that wait;
    fired ``[sample, reaction]`` and spills ``[sample]`` since the start: reactions, and particles
    that found no room; waiting ``[sample]``: those that wait at the moment; truncated ``[sample]``
    since the start: passes of a site that ended before their time (csrc/lattice/site/react.h).
    """

    by_type: IntArray
    fired: IntArray
    spills: IntArray
    waiting: IntArray
    truncated: IntArray

    @property
    def counts(self) -> IntArray:
        """Particles ``[sample, species]``."""
        return np.asarray(self.by_type.sum(axis=1))


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

"""Cuts of a lattice with which its ranks take the same time: by estimates, and measured seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.base.arrays import IntArray
from tauslab.decomposition.slab import cut_planes
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.planes_engine import PlanesEngine
from tauslab.runner.ensemble.driver import covered

_OCCUPIED = 20  # what a tile with particles costs; an empty one costs 1
_WORTH = 0.95  # of the slowest slab's time: a new cut must promise this or less
_RESOLUTION = 1 << 30  # of weights made of seconds


def plane_costs(engine: LatticeEngine | PlanesEngine) -> IntArray:
    """Estimated cost of each of the slab's own planes: by its tiles, or words, with particles."""
    if isinstance(engine, PlanesEngine):
        return engine.plane_words + (_OCCUPIED - 1) * engine.filled_words()
    return engine.plan.tiles + (_OCCUPIED - 1) * engine.filled_tiles()


def filled_share(costs: Sequence[int], tiles: int) -> float:
    """Share of the tiles that hold particles, of planes of so many tiles and of `plane_costs`.

    >>> filled_share([4, 4 + 2 * 19], 4)
    0.25
    """
    everywhere = len(costs) * tiles * (_OCCUPIED - 1)
    return float(sum(costs) - len(costs) * tiles) / max(1, everywhere)


def balanced(
    bounds: Sequence[int], seconds: Sequence[float], costs: Sequence[int], least: int
) -> tuple[int, ...]:
    """New bounds by the time that each slab took, or the old ones if that gains too little.

    Parameters
    ----------
    seconds
        Time of each slab. Within a slab it is shared out by `costs` ``[plane]``.
    least
        Planes that a slab has at least.

    >>> balanced((0, 4, 8), [3.0, 1.0], [1] * 8, 1)
    (0, 3, 8)
    >>> balanced((0, 4, 8), [1.02, 1.0], [1] * 8, 1)
    (0, 4, 8)
    """
    slabs = len(bounds) - 1
    old = tuple(int(bound) for bound in bounds)
    share = np.array(costs, np.float64)
    for slab in range(slabs):
        own = slice(old[slab], old[slab + 1])
        share[own] *= seconds[slab] / max(1.0, share[own].sum())
    if not share.sum() > 0:
        return old
    weights = np.rint(share / share.sum() * _RESOLUTION).astype(np.int64)
    new = cut_planes(len(costs), slabs, weights=weights.tolist(), least=least)
    slowest = [_slowest(weights, cut) for cut in (new, old)]
    return new if slowest[0] <= _WORTH * slowest[1] else old


def _slowest(weights: IntArray, bounds: Sequence[int]) -> int:
    return int(np.add.reduceat(weights, np.asarray(bounds[:-1])).max())


def traced_seconds(trace: Sequence[tuple[str, int, Any]]) -> float:
    """Device seconds in which anything was computed, of `SlabEngine.trace`."""
    if not trace:
        return 0.0
    origin = trace[0][2]
    origin.wait()
    begun: dict[str, float] = {}
    intervals = []
    for name, end, event in trace:
        event.wait()
        at = event.seconds_since(origin)
        if not end:
            begun[name] = at
        elif name in begun:
            intervals.append((begun.pop(name), at))
    return covered(intervals)

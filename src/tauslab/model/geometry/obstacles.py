"""Random obstacles: spheres that fill a part of a region, as in a crowded cell."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray, is_number
from tauslab.base.errors import ModelError
from tauslab.base.host import require_memory
from tauslab.model.geometry.shapes import Grid, Mask, require_grid
from tauslab.model.lattice.parts import positive, short
from tauslab.model.lattice.placement import random_words

_STREAM = 3  # of the Philox key; lower ones belong to placements
_BATCH = 4096
_CELLS = 1 << 19  # sites that are looked at together
_SPHERE_BYTES, _SITE_BYTES = 120, 26  # of what is computed for a site around, or of the region
HOPELESS = 100_000  # tries in a row that found no room


def obstacles(
    grid: Grid, inside: Mask, radius: float, fraction: float, *, seed: int, overlap: bool = False
) -> Mask:
    """Sites covered by spheres at random points, which together occupy `fraction` of a region.

    A sphere covers the sites whose centres lie in it. The last sphere is cut, so that the number
    of covered sites is round(fraction x sites).

    Parameters
    ----------
    grid
        The lattice.
    inside
        The region, which contains all sites of the spheres.
    radius
        In metres.
    fraction
        Covered fraction of the sites of the region.
    seed
        64 bits; the same seed gives the same obstacles with every version of NumPy.
    overlap
        Whether spheres may share sites.

    Raises
    ------
    ModelError
        The fraction is not from 0 to 1, or cannot be packed.
    """
    require_grid(grid)
    if np.shape(inside) != tuple(grid.shape):
        raise ModelError(f"obstacles: inside must be booleans {list(grid.shape)}, [z, y, x]")
    if not (is_number(fraction) and 0 <= fraction <= 1):
        raise ModelError(f"obstacles: fraction {short(fraction)}; it must be from 0 to 1")
    radius = positive(radius, "obstacles: radius", "metres")
    if not (isinstance(seed, Integral) and 0 <= seed < 1 << 64):
        raise ModelError(f"obstacles: seed {short(seed)}; it must be 0 to 2^64 - 1")
    if radius > grid.spacing * max(grid.shape):
        raise ModelError(
            f"obstacles: spheres of {radius:g} m are larger than the lattice, whose longest side "
            f"is {grid.spacing * max(grid.shape):g} m"
        )
    cube = 2 * int(radius / grid.spacing) + 3
    require_memory(_SPHERE_BYTES * cube**3, f"obstacles: a sphere of {radius:g} m")
    require_memory(_SITE_BYTES * inside.size, f"obstacles in {inside.size} sites")
    wanted = round(fraction * int(inside.sum()))
    covered = np.zeros(grid.shape, bool)
    region = np.argwhere(inside)
    points = _Points(region, grid.spacing, seed, centred=2 * radius < grid.spacing)
    reach = np.arange(-int(radius / grid.spacing) - 1, int(radius / grid.spacing) + 2)
    around = np.stack(np.meshgrid(reach, reach, reach, indexing="ij"), axis=-1).reshape(-1, 3)
    edge = cube // 2 + 1
    free = np.pad(inside, edge)  # sites that a sphere may cover; none beyond the lattice
    together = max(1, min(_BATCH, _CELLS // len(around)))
    done = tried = last = 0
    while done < wanted:
        batch = points.next(together)
        near, covers = _sites_within(batch, radius, grid, around)
        allowed = (free[tuple(np.moveaxis(near + edge, -1, 0))] | ~covers).all(axis=1)
        for index in np.flatnonzero(allowed & covers.any(axis=1)).tolist():
            sites = near[index][covers[index]]
            if done == wanted or tried + index - last >= HOPELESS:
                break
            if not (overlap or free[tuple((sites + edge).T)].all()):
                continue  # of another sphere of the batch
            new = sites[~covered[tuple(sites.T)]][: wanted - done]
            covered[tuple(new.T)] = True
            free[tuple((sites + edge).T)] = overlap
            done, last = done + len(new), tried + index + 1
        tried += together
        if done < wanted and tried - last >= HOPELESS:
            raise ModelError(
                f"obstacles: spheres of {radius:g} m fill {done / len(region):.3g} of the region, "
                f"not {fraction:g}, and {HOPELESS} tries placed no other sphere; allow overlap or "
                "a smaller fraction"
            )
    return covered


def _sites_within(
    batch: FloatArray, radius: float, grid: Grid, around: IntArray
) -> tuple[IntArray, Mask]:
    """Sites around points ``[point, site, 3]``; whether their centres lie within `radius`."""
    near = np.floor(batch / grid.spacing).astype(np.int64)[:, None] + around
    distance = ((near + 0.5) * grid.spacing - batch[:, None]) ** 2
    return near, distance.sum(axis=-1) <= radius * radius


class _Points:
    """Points (z, y, x) in metres, uniform over the sites of a region.

    A sphere thinner than a site covers one centre or none, each with the same chance, so its point
    may as well be the centre of a site (`centred`): no draw is in vain.
    """

    def __init__(self, sites: IntArray, spacing: float, seed: int, *, centred: bool) -> None:
        self._sites, self._spacing, self._centred = sites, spacing, centred
        self._words = random_words(seed, _STREAM, 0)

    def next(self, number: int) -> FloatArray:
        """The next points ``[number, 3]``."""
        raw = self._words.random_raw(4 * number).reshape(number, 4)
        sites = self._sites[(raw[:, 0] % np.uint64(len(self._sites))).astype(np.int64)]
        within = 0.5 if self._centred else (raw[:, 1:] >> np.uint64(11)) * 2.0**-53
        points: FloatArray = (sites + within) * self._spacing
        return points

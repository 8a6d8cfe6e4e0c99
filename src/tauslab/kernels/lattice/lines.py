"""Lines of 32 sites, which blocks of a GPU keep for many steps (csrc/lattice/lines).

A block has who stays in a line's sites in its own memory, so lattices are small; and eight
particles of a site in registers, so sites are not crowded. Most sites should hold particles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.kernels.backends.base import Backend
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.model.arrays import Array, Int32Array

LANES = 32
NONE = -1
_HELD = 8  # particles of a site that registers hold
_MOST_BYTES = 32  # of a site
_MOST_TYPES = 15  # a row of thresholds for each two of them has a byte
_FEWEST_LANES = 0.75  # of a line's that have a site
_RIM = 4  # lines beside those of a block whose hops along x it repeats
_THREADS, _BLOCKS = 768, 1  # of a block; of a multiprocessor
_TABLES = 36 * 1024  # bytes of other tables in a block's memory
_RESERVED = 8 * 1024  # of a processor beyond `Backend.fast_memory`


def in_lines(lattice: LoweredLattice) -> bool:
    """Whether the sites of a lattice are such that lines serve it."""
    nx = lattice.shape[2]
    lanes = nx / (LANES * -(-nx // LANES))
    return (
        "held" not in lattice.boundary
        and lattice.slots * np.dtype(lattice.particle_type).itemsize <= _MOST_BYTES
        and len(lattice.site_types) <= _MOST_TYPES
        and lattice.start.crowding <= 0.4 * _HELD
        and lanes >= _FEWEST_LANES
    )


@dataclass(frozen=True)
class LinePlan:
    """How blocks share out the lines.

    Attributes
    ----------
    blocks
        Of a launch; `threads` of each.
    most
        Lines that a block has room for, with those beside its own.
    bytes
        Memory of a block for them.
    lines
        The list, see `list_lines`.
    """

    blocks: int
    threads: int
    most: int
    bytes: int
    lines: Int32Array

    def sizes(self) -> dict[str, int]:
        """Constants of `model.h`."""
        return {
            "LINE_THREADS": self.threads,
            "LINE_BLOCKS": _BLOCKS,
            "MOST_LINES": self.most,
            "LINE_BYTES": self.bytes,
        }


def line_plan(
    backend: Backend, lattice: LoweredLattice, *, sharing: int = 1, wanted: bool | None = None
) -> LinePlan | None:
    """The plan for one of `sharing` engines on a device; None where lines do not serve it.

    `wanted` says so whatever the sites are like, where the kernel can do them.
    """
    if not (in_lines(lattice) if wanted is None else wanted):
        return None
    types = None if len(lattice.site_types) == 1 else lattice.sites(0, lattice.shape[0])
    lines = list_lines(lattice, types, closed_types(lattice))
    blocks = max(1, min(len(lines), backend.multiprocessors * _BLOCKS // sharing))
    most = -(-len(lines) // blocks) + _RIM
    slot = np.dtype(lattice.particle_type).itemsize
    part, site = 4 * slot, lattice.slots * slot
    one_kind = len(lattice.site_types) == 1 and set(lattice.boundary) == {"periodic"}
    sites = 2 * part + 8 * slot + 4 + 1 + (0 if one_kind else 8)
    size = most * (LANES * sites + 2 * part + 24) + 2 * LANES * part + _THREADS * site + 1024
    if size + _TABLES > (backend.fast_memory + _RESERVED) // _BLOCKS:
        return None
    return LinePlan(blocks, _THREADS, most, size, lines)


def closed_types(lattice: LoweredLattice) -> npt.NDArray[np.bool_]:
    """Whether no particle can hop into a site, by its type."""
    return np.asarray(~(lattice.hop > 0).any(axis=(0, 2)))


def list_lines(
    lattice: LoweredLattice, types: Array | None, closed: npt.NDArray[np.bool_]
) -> Int32Array:
    """Lines with a site that may hold particles, int32 ``[line, 6]``: `Line` of lattice/lines.

    `types` are those of all sites, `closed` of which types none is listed for. Lines begin where
    there are fewest.
    """
    nz, ny, nx = lattice.shape
    opened = np.ones(lattice.shape, bool) if types is None else ~closed[types]
    if opened.all():
        shift, held = 0, _lines_with(opened, 0)
    else:
        few = min(range(LANES), key=lambda by: int(_lines_with(opened, by).sum()))
        shift, held = few, _lines_with(opened, few)
    strips = held.shape[2]
    order = held.transpose(0, 2, 1)  # along y first
    number = np.full(order.shape, NONE, np.int32)
    number[order] = np.arange(int(held.sum()))
    z, strip, y = np.nonzero(order)
    x = LANES * strip - shift
    columns = [(z * ny + y) * nx + x, x]
    for axis, face in ((2, 2), (0, 0)):
        for step in (-1, 1):
            columns.append(_beside(number, axis, step, lattice.boundary[face])[z, strip, y])
    del strips
    return np.ascontiguousarray(np.stack(columns, axis=1), np.int32)


def _lines_with(opened: npt.NDArray[np.bool_], shift: int) -> npt.NDArray[np.bool_]:
    """Whether ``[z, y, strip]`` has such a site, where the first strip begins at -`shift`."""
    starts = np.maximum(np.arange(-shift, opened.shape[2], LANES), 0)
    return np.asarray(np.logical_or.reduceat(opened, starts, axis=2))


def _beside(number: Int32Array, axis: int, step: int, face: str) -> Int32Array:
    """The numbers of what lies a step along an axis."""
    moved = np.roll(number, -step, axis=axis)
    if face != "periodic":
        edge: list[slice | int] = [slice(None)] * 3
        edge[axis] = 0 if step < 0 else -1
        moved[tuple(edge)] = NONE
    return moved

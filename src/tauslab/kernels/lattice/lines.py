"""Lines of 32 sites, which blocks of a GPU keep for many steps (csrc/lattice/lines).

A block has who stays in a line's sites in its own memory, so lattices are small; and eight
particles of a site in registers, so sites are not crowded. Most sites should hold particles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, DeviceArray, Int32Array
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.lattice.lowering import LoweredLattice

LANES = 32
NONE = -1
_HELD = 8  # particles of a site that registers hold
_MOST_BYTES = 32  # of a site
_MOST_TYPES = 15  # a row of thresholds for each two of them has a byte
_FEWEST_LANES = 0.75  # of a line's that have a site
_RIM = 4  # lines beside those of a block whose hops along x it repeats
_THREADS, _BLOCKS = 768, 1  # of a block; of a multiprocessor
_TABLES = 36 * 1024  # bytes of other tables in a block's memory
_MORE = 4  # of the lines there is room for one in so many more, for other site types
_RESERVED = 8 * 1024  # of a processor beyond `Backend.fast_memory`


def in_lines(lattice: LoweredLattice) -> bool:
    """Return whether lines serve the sites of a lattice well, if a warp has a line."""
    nx = lattice.shape[2]
    lanes = nx / (LANES * -(-nx // LANES))
    once = lattice.reaction_substeps == lattice.diffusion_substeps  # one pass of reactions
    return lattice.crowding <= 0.4 * _HELD and lanes >= _FEWEST_LANES and once


@dataclass(frozen=True)
class LinePlan:
    """Shares of blocks in the lines.

    Attributes
    ----------
    blocks
        Of a launch, at most; `threads` of each.
    most
        Lines that a block has room for, with those beside its own.
    bytes
        Memory of a block for them.
    ahead
        Whether random bits are drawn ahead, while a block waits for others.
    """

    blocks: int
    threads: int
    most: int
    bytes: int
    ahead: bool

    @property
    def room(self) -> int:
        """Lines of all blocks."""
        return self.blocks * (self.most - _RIM)

    def sizes(self) -> dict[str, int]:
        """Constants of `model.h`."""
        return {
            "LINE_THREADS": self.threads,
            "LINE_BLOCKS": _BLOCKS,
            "MOST_LINES": self.most,
            "LINE_BYTES": self.bytes,
            "DRAWS_LINES_AHEAD": int(self.ahead),
        }


def line_plan(
    backend: Backend, lattice: LoweredLattice, lines: int, sharing: int
) -> LinePlan | None:
    """The plan for so many lines and one of `sharing` engines on a device, if there is room."""
    slot = np.dtype(lattice.particle_type).itemsize
    part, site = 4 * slot, lattice.slots * slot
    if len(lattice.species) == np.iinfo(lattice.particle_type).max:  # four of the last: MANY_PART
        return None
    if site > _MOST_BYTES or len(lattice.site_types) > _MOST_TYPES or "held" in lattice.boundary:
        return None
    blocks = max(1, min(lines, backend.multiprocessors * _BLOCKS // sharing))
    nz, ny, nx = lattice.shape
    space = min(lines + lines // _MORE, nz * ny * -(-nx // LANES))
    most = -(-max(lines, space) // blocks) + _RIM
    one_kind = len(lattice.site_types) == 1 and set(lattice.boundary) == {"periodic"}
    sites = 2 * part + 8 * slot + 8 + 1 + (0 if one_kind else 8)
    size = most * (LANES * sites + 2 * part + 32) + 2 * LANES * part + _THREADS * site + 2048
    drawn = most * (LANES * 24 + 16)
    memory = (backend.fast_memory + _RESERVED) // _BLOCKS - _TABLES
    if size > memory:
        return None
    ahead = size + drawn <= memory
    return LinePlan(blocks, _THREADS, most, size + ahead * drawn, ahead)


@dataclass(frozen=True)
class ListedLines:
    """Lines of a lattice, as of `list_lines`, and how blocks share them out."""

    plan: LinePlan
    listed: Int32Array


class DeviceLines:
    """The list of lines on a device, and memory for what hops between them."""

    def __init__(self, backend: Backend, lattice: LoweredLattice, lines: ListedLines) -> None:
        plan = lines.plan
        self._backend, self._lattice, self.plan = backend, lattice, plan
        shape, wide = lattice.shape, lattice.particle_type == np.uint16
        self._after_x = backend.empty((*shape, lattice.slots), lattice.particle_type)
        self._moves = backend.empty((2, *shape, 2), np.uint32)
        self._parts = backend.empty((2, plan.room, LANES), np.uint64 if wide else np.uint32)
        self._reached = backend.empty((plan.blocks, LANES), np.uint32)
        self.apart = True  # whether blocks wait for those near them only
        self._known = False  # whether no particle is outside of the lines
        self.types: Any = None  # of all sites on the device, for which they were listed
        self._use(lines.listed)

    def _use(self, listed: Int32Array) -> None:
        self._list = self._backend.upload(listed)
        self.blocks = min(self.plan.blocks, len(listed))
        self._known = False
        near = blocks_near(listed, self.blocks)
        self.apart = self.apart and near is not None
        self._near = self._backend.upload(np.zeros((1, LANES), np.int32) if near is None else near)
        outside = sites_outside(self._lattice, listed)
        self._outside = self._backend.upload(outside) if len(outside) else None

    def forget(self) -> None:
        """Particles were changed from outside."""
        self._known = False

    def update(
        self, types: DeviceArray | None, particles: DeviceArray, host: Callable[[Any], Array]
    ) -> bool:
        """List other lines if site types, or particles, ask for it; whether there is room.

        `types` and `particles` are on the device, of which `host` makes a copy.
        """
        if types is not self.types:
            closed = closed_types(self._lattice)
            if not self._use_if_it_fits(list_lines(self._lattice, host(types), closed)):
                return False
            self.types = types
        if not self._known and self._outside is not None:
            first = particles.reshape(-1, self._lattice.slots)[self._outside, 0]
            if bool(first.any()) and not self._use_if_it_fits(list_lines(self._lattice, None)):
                return False
        self._known = True
        return True

    def _use_if_it_fits(self, listed: Int32Array) -> bool:
        if len(listed) > self.plan.room:
            return False
        self._use(listed)
        return True

    def arguments(self, steps: int) -> dict[str, Any]:
        """Arguments of `rdme_line_steps` by name, for so many steps."""
        return {
            "near": self._near,
            "reached": self._reached,
            "apart": self.apart,
            "steps": steps,
            "lines": self._list,
            "after_x": self._after_x,
            "y_moves": self._moves[0],
            "z_moves": self._moves[1],
            "minus_out": self._parts[0],
            "plus_out": self._parts[1],
            "n_lines": len(self._list),
        }


def planned_lines(
    backend: Backend, lattice: LoweredLattice, *, sharing: int = 1, wanted: bool | None = None
) -> ListedLines | None:
    """Lines of a lattice for one of `sharing` engines on a device; None where they do not serve it.

    `wanted` says whether they do, where the kernel can do them.
    """
    serve = in_lines(lattice) if wanted is None else wanted
    if backend.style.warp != LANES or not serve:
        return None
    listed = lines_of(lattice)
    plan = line_plan(backend, lattice, len(listed), sharing) if len(listed) else None
    return ListedLines(plan, listed) if plan else None


def sharing_in_lines(backend: Backend, lattice: LoweredLattice, most: int) -> int:
    """Number of engines, up to `most`, that should share a device where lines serve; else 0.

    More would find no room, or none to draw ahead.
    """
    if backend.style.warp != LANES or not in_lines(lattice):
        return 0
    count = len(lines_of(lattice))
    for sharing in range(most, 0, -1):
        plan = line_plan(backend, lattice, count, sharing)
        if plan and (plan.ahead or sharing == 1):
            return sharing
    return 0


def lines_of(lattice: LoweredLattice) -> Int32Array:
    """Lines of a lattice with the site types of its model."""
    types = None if len(lattice.site_types) == 1 else lattice.sites(0, lattice.shape[0])
    return list_lines(lattice, types, closed_types(lattice))


def closed_types(lattice: LoweredLattice) -> npt.NDArray[np.bool_]:
    """Return whether no particle can get into a site, by its type.

    None is, where some reaction makes particles of nothing: its rates may change.
    """
    made = any(not reaction.reactants for reaction in lattice.reactions)
    return np.asarray(lattice.closed & (not made))


def list_lines(
    lattice: LoweredLattice, types: Array | None, closed: npt.NDArray[np.bool_] | None = None
) -> Int32Array:
    """Lines with a site that may hold particles, int32 ``[line, 8]``: `Line` of lattice/lines.

    `types` are those of all sites, `closed` of which types none is listed for; without them all
    lines are. Lines begin where there are fewest.
    """
    _, ny, nx = lattice.shape
    opened = np.ones(lattice.shape, bool)
    if types is not None and closed is not None:
        opened = ~closed[types]
    before = np.zeros((opened.shape[2] + 1, *opened.shape[:2]), np.int32)  # of these along x
    np.cumsum(opened.transpose(2, 0, 1), axis=0, out=before[1:])
    shift = 0
    if not opened.all():
        shift = min(range(LANES), key=lambda by: np.count_nonzero(_lines_with(before, by)))
    order = _lines_with(before, shift).transpose(1, 0, 2)  # along y first
    number = np.full(order.shape, NONE, np.int32)
    z, strip, y = np.nonzero(order)
    number[z, strip, y] = np.arange(len(z))
    x = LANES * strip - shift
    columns = [(z * ny + y) * nx + x, x]
    for axis, face in ((2, 2), (0, 0), (1, 4)):
        below, above = (_beside(number, axis, step, lattice.boundary[face]) for step in (-1, 1))
        columns += [below[z, strip, y], above[z, strip, y]]
    return np.ascontiguousarray(np.stack(columns, axis=1), np.int32)


def blocks_near(listed: Int32Array, blocks: int) -> Int32Array | None:
    """Blocks ``[block, LANES]`` with lines beside those of each, -1 behind them.

    Of such two blocks one reads what the other writes: sites beside a line and its rim, parts that
    hop along z. None where a block has more than `LANES`.
    """
    firsts = len(listed) * np.arange(1, blocks, dtype=np.int64) // blocks
    block = np.searchsorted(firsts, np.arange(len(listed)), side="right")
    pairs = np.zeros((blocks, blocks), bool)

    def join(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> None:
        both = (a != NONE) & (b != NONE)
        pairs[block[a[both]], block[b[both]]] = pairs[block[b[both]], block[a[both]]] = True

    lines = np.arange(len(listed))
    beside = listed[:, 2:].astype(np.int64)
    for column in beside.T:
        join(lines, column)
    for along_y in (beside[:, 0], beside[:, 1]):
        there = along_y != NONE
        for side in (4, 5):
            join(lines[there], beside[along_y[there], side])
    np.fill_diagonal(pairs, False)
    if pairs.sum(axis=1).max(initial=0) > LANES:
        return None
    near = np.full((blocks, LANES), NONE, np.int32)
    for own in range(blocks):
        others = np.flatnonzero(pairs[own])
        near[own, : len(others)] = others
    return near


def sites_outside(lattice: LoweredLattice, listed: Int32Array) -> npt.NDArray[np.int64]:
    """Numbers of the sites that no line has."""
    nx, sites = lattice.shape[2], int(np.prod(lattice.shape))
    lane = np.arange(LANES)
    x, index = listed[:, 1:2] + lane, listed[:, :1] + lane
    covered = np.zeros(sites, bool)
    covered[index[(x >= 0) & (x < nx)]] = True
    return np.flatnonzero(~covered)


def _lines_with(before: Int32Array, shift: int) -> npt.NDArray[np.bool_]:
    """Return whether ``[strip, z, y]`` has such a site; the first strip begins at -`shift`.

    ``before[x, z, y]`` counts those below x.
    """
    nx = len(before) - 1
    edges = np.append(np.maximum(np.arange(-shift, nx, LANES), 0), nx)
    return np.asarray(np.diff(before[edges], axis=0) > 0)


def _beside(number: Int32Array, axis: int, step: int, face: str) -> Int32Array:
    """The numbers of what lies a step along an axis."""
    moved = np.roll(number, -step, axis=axis)
    if face != "periodic":
        edge: list[slice | int] = [slice(None)] * 3
        edge[axis] = 0 if step < 0 else -1
        moved[tuple(edge)] = NONE
    return moved

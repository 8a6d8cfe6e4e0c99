"""The kernel that does the steps of a lattice on a device, and how: one choice, as data.

It follows how full the lattice is: steps look for the sites that hold particles, or go through all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

import numpy as np

from tauslab.kernels.backends.base import Backend
from tauslab.kernels.lattice.codegen import (
    SECTION,
    STRIP,
    Tile,
    has_sections,
    lanes_of,
    lattice_header,
    may_be_sparse,
    reaction_tables,
    section_blocks,
    sparse_threads,
    tile_of,
    words_in_registers,
)
from tauslab.kernels.lattice.lines import ListedLines, in_lines, planned_lines, sharing_in_lines
from tauslab.kernels.lattice.lowering import LoweredLattice

# Particles a site. With more than FEW a warp has too few lanes for those of a tile, and a large
# lattice is no faster than where no site is left out.
FEW = 0.1
# A step of A + B <-> C in 64^3 sites with 0.16, 0.32 and 0.48 particles each takes 0.6, 0.8 and 1.0
# times as long on an H200 if it looks for those that hold particles.
MANY = 0.4
# By how much a lattice passes such a number before the choice is made again, which takes longer
# than some steps.
BEYOND = 1.25


class Filling(IntEnum):
    """Few particles, more of them, or so many that steps go through all sites."""

    FEW = 0
    SOME = 1
    MANY = 2


def filling_of(density: float, before: Filling | None = None) -> Filling:
    """Return how full a lattice is with so many particles a site.

    Near a limit it stays what it was before.

    >>> filling_of(0.3), filling_of(0.45), filling_of(0.45, Filling.SOME)
    (<Filling.SOME: 1>, <Filling.MANY: 2>, <Filling.SOME: 1>)
    """
    if before is None:
        return Filling((density > FEW) + (density > MANY))
    least, most = filling_of(density / BEYOND), filling_of(density * BEYOND)
    return max(least, min(before, most))


TALL_FROM = 1 << 24  # sites of a device, see `tile_of`


class Way(Enum):
    """Ways in which blocks of a launch share out steps; none changes a bit."""

    PLANES = "one step by two launches, whose blocks go through planes"
    LISTED = "many steps; blocks share out the tiles that may hold particles"
    SPARSE = "many steps; warps share out the tiles, lanes the sites that hold particles"
    SECTIONS = "as SPARSE, but blocks share out sections of the lattice, with one barrier a step"
    LINES = "many steps; blocks keep lines of sites"


@dataclass(frozen=True)
class LatticeRequests:
    """Choices that are asked for; None leaves one to `plan_of`.

    Attributes
    ----------
    together
        Whether a launch does many steps; by default up to `Backend.sites_together`, and of a
        sparse lattice at any size.
    sparse
        Whether a launch of many steps looks for the sites that hold particles, by default as
        `Filling` says, and on a CPU where the sites of a step take less time than a launch: this
        launch also counts at many times, where others need two launches for each.
    sections
        Whether blocks of a sparse lattice do sections of it, with one barrier a step, by default
        on a GPU where `has_sections` says so.
    lines
        Whether blocks of a launch of many steps keep lines of sites, by default as `planned_lines`
        says.
    """

    together: bool | None = None
    sparse: bool | None = None
    sections: bool | None = None
    lines: bool | None = None


NO_REQUESTS = LatticeRequests()


@dataclass(frozen=True)
class Share:
    """The share of an engine in a lattice and in a device.

    The `whole` lattice or a slab of it, of so many `sites` in memory; `sharing` engines take steps
    at the same time, and `tall` is as of `tile_of`.
    """

    whole: bool
    sites: int
    sharing: int
    tall: bool


@dataclass(frozen=True)
class StepPlan:
    """A kernel and its launches.

    Attributes
    ----------
    threads, block_bytes
        Of a block; the bytes are fast memory.
    warps
        Of a block, that do tiles of their own.
    tiles, columns
        Of a plane: tiles, and blocks of a launch of `Way.PLANES`.
    halves
        Whether two warps may share a tile: more of its sites than a warp has lanes.
    lanes
        Threads of a block that go together.
    header
        `model.h` of all kernels of the lattice.
    """

    way: Way
    sharing: int
    tile: Tile
    threads: int
    block_bytes: int
    warps: int
    tiles: int
    columns: int
    halves: bool
    lanes: int
    header: Mapping[str, str]
    lines: ListedLines | None = None

    @property
    def together(self) -> bool:
        """Return whether a launch does many steps."""
        return self.way is not Way.PLANES

    @property
    def lists_tiles(self) -> bool:
        """Return whether a launch lists the tiles that may hold particles."""
        return self.together and self.way is not Way.LINES

    @property
    def sparse(self) -> bool:
        """Return whether a launch looks for the sites that hold particles."""
        return self.way in (Way.SPARSE, Way.SECTIONS)


def requests_of(backend: Backend, share: Share, asked: LatticeRequests) -> LatticeRequests:
    """The requests that were asked for; steps of few sites look for those that hold particles."""
    few = share.sites * backend.site_seconds < backend.launch_seconds
    if asked.sparse is None and few:
        return replace(asked, sparse=True)
    return asked


def _in_warps(backend: Backend) -> bool:
    """Return whether a warp has a lane for each site of a strip."""
    return backend.style.warp == STRIP


def may_change(backend: Backend, lattice: LoweredLattice, requests: LatticeRequests) -> bool:
    """Return whether another plan may be better when the lattice's particles have changed."""
    return _in_warps(backend) or (requests.sparse is None and may_be_sparse(lattice))


def crowded_by(backend: Backend, lattice: LoweredLattice, held: float) -> LoweredLattice:
    """The lattice with this crowding, if lanes of a warp are to keep other sites then."""

    def kept(particles: float) -> tuple[int, bool]:
        reported = replace(lattice, crowded=particles)
        return words_in_registers(reported), in_lines(reported)

    now = kept(lattice.crowding)
    if not _in_warps(backend) or now in map(kept, (held / BEYOND, held, held * BEYOND)):
        return lattice
    return replace(lattice, crowded=held)


def plan_of(
    backend: Backend,
    lattice: LoweredLattice,
    share: Share,
    requests: LatticeRequests,
    filling: Filling,
) -> StepPlan:
    """The plan for a lattice that is so full."""
    wants = share.whole and may_be_sparse(lattice, wanted=requests.sparse)
    wants = wants and (filling < Filling.MANY if requests.sparse is None else requests.sparse)
    few = wants and filling == Filling.FEW
    small = share.sites <= backend.sites_together or few
    together = small if requests.together is None else requests.together
    way, lines = Way.LISTED, None
    if not (share.whole and together):
        way = Way.PLANES
    elif wants:
        sections = _has_sections(backend, lattice, share) and few
        sections = sections if requests.sections is None else requests.sections
        way = Way.SECTIONS if sections else Way.SPARSE
    else:
        lines = planned_lines(backend, lattice, sharing=share.sharing, wanted=requests.lines)
        way = Way.LINES if lines else way
    return _planned(backend, lattice, share, way, lines, halves=not few)


def _has_sections(backend: Backend, lattice: LoweredLattice, share: Share) -> bool:
    """Return whether a GPU does all sections at the same time."""
    at_once = backend.multiprocessors * section_blocks() // share.sharing
    reactions = reaction_tables(lattice.reactions, len(lattice.species))
    return _in_warps(backend) and has_sections(lattice, reactions, at_once)


def _planned(
    backend: Backend, lattice: LoweredLattice, share: Share, way: Way, lines: ListedLines | None, *,
    halves: bool,
) -> StepPlan:  # fmt: skip
    """The sizes of a way to do steps."""
    warps, tall = _in_warps(backend), share.tall
    sparse, together = way in (Way.SPARSE, Way.SECTIONS), way is not Way.PLANES
    small = sparse or (together and warps)
    section = SECTION if way is Way.SECTIONS else 0
    header = lattice_header(
        lattice, reaction_tables(lattice.reactions, len(lattice.species)), small=small, tall=tall,
        together=together, section=section, more=lines.plan.sizes() if lines else None,
    )  # fmt: skip
    tile = tile_of(lattice, small=small, tall=tall)
    own_warps, rows = lanes_of(lattice, small=small, tall=tall) if warps else (1, 1)
    _, ny, nx = lattice.shape
    tiles = -(-ny // tile.y) * -(-nx // tile.x)
    threads = sparse_threads(lattice, section) if sparse else tile.threads
    return StepPlan(
        way, share.sharing, tile, lines.plan.threads if lines else threads,
        lines.plan.bytes if lines else 0, own_warps, tiles, -(-tiles * rows // own_warps), halves,
        STRIP if warps else threads, {"model.h": header}, lines,
    )  # fmt: skip


_COPIES = 4  # of the particles: before and after hops, of the start of a batch, and tables


def replicas_at_a_time(backend: Backend, lattice: LoweredLattice, runs: int) -> int:
    """Return how many of `runs` lattices gain speed and fit.

    On a GPU a small lattice waits for its slowest block twice in a step, and others use that time:
    `examples/minde.toml` 7.3 us a step alone, 2.5 with seven others on an H200. On a CPU each
    has a thread, and none waits. Where blocks keep lines of sites (kernels/lattice/lines.py), as
    many as fit: 64^3 sites, 10 % full, take 20 us a step alone, and 28 eight at a time with
    lists of tiles.
    """
    nz, ny, nx = lattice.shape
    sites = nz * ny * nx
    if runs == 1 or sites > backend.sites_beside:
        return 1
    most = min(runs, backend.concurrent_lattices)
    if filling_of(lattice.start.density) == Filling.MANY or not may_be_sparse(lattice):
        most = sharing_in_lines(backend, lattice, most) or most
    each = _COPIES * sites * (lattice.slots * np.dtype(lattice.particle_type).itemsize + 1)
    most = max(1, min(most, backend.free_memory() // 2 // each))
    rounds = -(-runs // most)
    return max(1, -(-runs // rounds))

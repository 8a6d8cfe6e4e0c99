"""Writes the `model.h` of a lattice, and the tables its kernels read.

Reactions are sparse tables: zeroth order in one list, first order in a list per species, pairs in
a list per species of lower number.  So compile time and the work of a site grow with what can
happen at the site and not with the number of reactions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from tauslab.base.arrays import FloatArray, Int32Array, UintArray
from tauslab.base.errors import ConfigError
from tauslab.kernels.lattice.lowering import LatticeReaction, LoweredLattice

FACE_KINDS = {"periodic": 0, "reflecting": 1, "absorbing": 2, "held": 3}
MOST_PASSES = 4096  # the number of a pass has 12 bits in a draw's address
_MOST_GHOST_SPECIES = (1 << 18) // 6  # see ghost_draw in csrc/lattice/site/hop.h
_CERTAIN = 2**64 - 1


STRIP = 32  # sites along x that a warp has in a row
# Of sites that a warp keeps in registers: how many may have particles beyond two words, and how
# full they may be. A row of 32 sites of which one has more goes another way.
FEW_BEYOND, MOST_FILLED = 1e-3, 0.4
# Sites that memory of a warp has room for (lattice/sparse/hops.h), by bytes of a site: three rows
# of a tile with its rim at least. Memory of a block stays below 48 KiB.
SPARSE_ROOM = {8: 96, 16: 80, 32: 56, 64: 32}
SECTION_ROOM = {8: 90, 16: 76}  # the same of a warp of a section (lattice/sparse/section.h)
SPARSE_RESIDENT = 512  # threads of a multiprocessor that registers have room for
SECTION_TABLES = 12 << 10  # bytes of tables beside them
SECTION = 4  # planes of a section, each done by a warp, and one more on either side


@dataclass(frozen=True)
class Tile:
    """Sites along x and y that a block works on, and its threads.

    A block's memory for it stays below 48 KiB, whatever a site holds.
    """

    x: int
    y: int
    threads: int


def tile_of(lattice: LoweredLattice, *, small: bool = False, tall: bool = False) -> Tile:
    """The tile for a lattice: no larger than its planes, nor than a block's memory allows.

    Those of a small lattice are so small that a thread has one site of them and the rim around.
    Those that a warp goes through are tall where there are many: fewer rows are done twice, and a
    step of 256^3 sites takes 5 % less time on an H200, one of 128 x 128 x 256 sites 1 % more.
    """
    site_bytes = lattice.slots * np.dtype(lattice.particle_type).itemsize
    x, y = {8: (32, 16), 16: (32, 16), 32: (32, 8), 64: (16, 8)}[site_bytes]
    threads = 128
    if small:  # an H200 takes 1.1 to 1.4 times as long a step with 8 x 8 sites everywhere
        x, y, threads = {32: (16, 8, 192), 64: (8, 8, 128)}.get(site_bytes, (16, 16, 352))
    elif tall and in_warp_tiles(lattice):
        y = 2 * y
    _, ny, nx = lattice.shape
    x, y = min(x, _power_of_two(nx)), min(y, _power_of_two(ny))
    return Tile(x, y, threads if small else min(128, max(64, x * y)))


def words_in_registers(lattice: LoweredLattice, *, small: bool = False) -> int:
    """Words of a site that lanes keep in registers (lattice/registers.h): 2 or 4; 0: they do not.

    What has more goes another way, and a warp waits for it. A small lattice has too few rows of
    sites to give each multiprocessor enough warps.
    """
    slot, mean = np.dtype(lattice.particle_type).itemsize, lattice.crowding
    site_bytes = lattice.slots * slot
    if small or "held" in lattice.boundary or site_bytes > 16 or tile_of(lattice).x != STRIP:
        return 0
    if mean > MOST_FILLED * lattice.slots:
        return 0
    return 2 if site_bytes == 8 or _share_above(8 // slot, mean) <= FEW_BEYOND else 4


def _share_above(most: int, mean: float) -> float:
    """Share of numbers above `most` of a Poisson distribution."""
    terms = (math.exp(-mean) * mean**n / math.factorial(n) for n in range(most + 1))
    return max(0.0, 1 - sum(terms))


def in_warp_tiles(lattice: LoweredLattice, *, small: bool = False) -> bool:
    """Return whether lanes keep sites in registers (lattice/warp_plane.h)."""
    return words_in_registers(lattice, small=small) > 0


def may_be_sparse(lattice: LoweredLattice, *, wanted: bool | None = None) -> bool:
    """Return whether steps may look for the sites that hold particles (lattice/sparse/steps.cc).

    They may if nothing comes into an empty site from nowhere, and if that is not unwanted.
    """
    nothing_enters = "held" not in lattice.boundary and all(r.reactants for r in lattice.reactions)
    return nothing_enters and wanted is not False


def lanes_of(
    lattice: LoweredLattice, *, small: bool = False, tall: bool = False
) -> tuple[int, int]:
    """Warps of a block that do tiles, and rows of tiles, of their own; and rows of a tile."""
    tile = tile_of(lattice, small=small, tall=tall)
    return (tile.threads // STRIP, tile.y) if in_warp_tiles(lattice, small=small) else (1, 1)


def sparse_threads(lattice: LoweredLattice, section: int = 0) -> int:
    """Threads of a block of a sparse lattice: as many warps as its memory has room for.

    With sections of so many planes a warp for each, and for those beside it.
    """
    if section:
        return 32 * (section + 2)
    return 32 * (4 if _site_bytes(lattice) != 32 else 3)


def section_blocks() -> int:
    """Blocks of a multiprocessor that do sections at the same time."""
    return SPARSE_RESIDENT // (32 * (SECTION + 2))


def has_sections(lattice: LoweredLattice, tables: ReactionTables, most: int) -> bool:
    """Return whether a step of a sparse lattice needs one barrier (lattice/sparse/sections.cc).

    Its sections then all run at the same time, `most` at most. Larger sites have no room in a
    block's memory, nor have long tables beside sites.
    """
    nz, ny, nx = lattice.shape
    tile = tile_of(lattice, small=True)
    sections = -(-nz // SECTION) * -(-ny // tile.y) * -(-nx // tile.x)
    types, species = len(lattice.site_types), len(lattice.species) + 1
    by_type = 8 * len(lattice.reactions) + 12 * species  # chances; bounds, and counts
    space = 4 * len(tables.array) + types * by_type + 16 * (types**2 + 1) + 2 * types**2 * species
    return _site_bytes(lattice) in SECTION_ROOM and sections <= most and space <= SECTION_TABLES


def _site_bytes(lattice: LoweredLattice) -> int:
    return int(lattice.slots * np.dtype(lattice.particle_type).itemsize)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


@dataclass(frozen=True)
class ReactionTables:
    """Whole-number tables in one array, and where each begins in it."""

    array: Int32Array
    offsets: dict[str, int]
    n_zeroth: int


def reaction_tables(reactions: Sequence[LatticeReaction], n_species: int) -> ReactionTables:
    """Tables that csrc/lattice/site/react.h walks; a particle is its species + 1."""
    zeroth = [j for j, r in enumerate(reactions) if not r.reactants]
    first: list[list[int]] = [[] for _ in range(n_species + 1)]
    pairs: list[list[tuple[int, int]]] = [[] for _ in range(n_species + 1)]
    reactants, products, starts = [], [], [0]
    for j, reaction in enumerate(reactions):
        kinds = [species + 1 for species in reaction.reactants]
        if len(kinds) == 1:
            first[kinds[0]].append(j)
        elif kinds:
            pairs[min(kinds)].append((max(kinds), j))
        reactants += [*kinds, 0, 0][:2]
        products += [species + 1 for species in reaction.products]
        starts.append(len(products))
    for listed in pairs:
        listed.sort()
    columns = {
        "ZEROTH": zeroth,
        "FIRST_START": _starts(first),
        "FIRST_REACTION": [j for listed in first for j in listed],
        "PAIR_START": _starts(pairs),
        "PAIR_OTHER": [other for listed in pairs for other, _ in listed],
        "PAIR_REACTION": [j for listed in pairs for _, j in listed],
        "REACTANTS": reactants,
        "PRODUCT_START": starts,
        "PRODUCTS": products,
    }
    offsets, position = {}, 0
    for name, column in columns.items():
        offsets[name], position = position, position + len(column)
    array = np.array([value for column in columns.values() for value in column], np.int32)
    return ReactionTables(array, offsets, len(zeroth))


def _starts(lists: Sequence[Sequence[object]]) -> list[int]:
    return [0, *np.cumsum([len(listed) for listed in lists]).tolist()]


def reaction_passes(lattice: LoweredLattice) -> int:
    """Passes of reactions after each pass of hops.

    Raises
    ------
    ConfigError
        More than the address of a random draw can distinguish.
    """
    passes = lattice.reaction_substeps // lattice.diffusion_substeps
    if passes > MOST_PASSES:
        raise ConfigError(
            f"{lattice.name}: {passes} passes of reactions in a step; at most {MOST_PASSES} are "
            "possible: choose a shorter step"
        )
    return passes


def pass_length(lattice: LoweredLattice) -> float:
    """Seconds of a pass of reactions."""
    return lattice.step / lattice.diffusion_substeps / reaction_passes(lattice)


def chances(lattice: LoweredLattice, rates: FloatArray) -> FloatArray:
    """Rates ``[reaction, site type]`` times the length of a pass."""
    return np.ascontiguousarray(rates * pass_length(lattice))


def hop_thresholds(lattice: LoweredLattice) -> UintArray:
    """Hop probabilities times 2^64, ``[from, to, particle]`` flat, then a row of zeros: walls."""
    n_types, n_species = len(lattice.site_types), len(lattice.species)
    table = np.zeros((n_types * n_types + 1, n_species + 1), np.uint64)
    scaled = np.ldexp(np.asarray(lattice.hop, np.float64), 64)  # below 2^63, exact
    table[:-1, 1:] = scaled.astype(np.uint64).reshape(n_types * n_types, n_species)
    return table.ravel()


@dataclass(frozen=True)
class GhostTables:
    """Rows ``[face, site type, species]`` into `words`, -1 for none; see lattice/site/hop.h."""

    rows: Int32Array
    words: UintArray


def ghost_tables(lattice: LoweredLattice) -> GhostTables:
    """Laws of the numbers that hop in from ghost sites: Poisson with mean ghost times q.

    A ghost site holds a Poisson number of particles, fresh at every step; each hops in with
    probability q, so that the number of those is Poisson too.
    """
    n_types, n_species = len(lattice.site_types), len(lattice.species)
    rows = np.full((6, n_types, n_species), -1, np.int32)
    words: list[int] = []
    if "held" in lattice.boundary and n_species > _MOST_GHOST_SPECIES:
        raise ConfigError(
            f"{lattice.name}: a held boundary is possible with at most {_MOST_GHOST_SPECIES} "
            f"species; the model has {n_species}"
        )
    for face, kind in enumerate(lattice.boundary):
        if kind != "held":
            continue
        mean = lattice.ghost[face] * lattice.hop[lattice.ghost_type[face]]
        for where in np.argwhere(mean > 0):
            rows[face, where[0], where[1]] = len(words)
            words += poisson_thresholds(float(mean[tuple(where)]))
    return GhostTables(rows, np.array(words, np.uint64))


def poisson_thresholds(mean: float) -> list[int]:
    """P(N <= k) 2^64 for k = 0, 1, ...; the last is 2^64 - 1."""
    with localcontext() as context:
        context.prec = 60
        term = (-Decimal(mean)).exp()
        total, k, listed = term, 0, []
        while True:
            word = min(int(total * 2**64), _CERTAIN)
            listed.append(word)
            if word == _CERTAIN or (k > mean and term * 2**66 < 1):
                return [*listed[:-1], _CERTAIN]
            k += 1
            term = term * Decimal(mean) / k
            total += term


def lattice_header(
    lattice: LoweredLattice, tables: ReactionTables, *, small: bool = False, tall: bool = False,
    together: bool = True, section: int = 0, more: Mapping[str, int] | None = None,
) -> str:  # fmt: skip
    """`model.h`: sizes, faces and where tables begin.

    Parameters
    ----------
    small, tall
        Whether tiles are small or tall, as `tile_of` says.
    together
        Whether a launch may do many steps.
    section
        Planes of a section of a sparse lattice, or 0.
    more
        Other constants by name.
    """
    tile = tile_of(lattice, small=small, tall=tall)
    site_bytes = _site_bytes(lattice)
    resident = 768 if site_bytes < 64 else 640  # threads of a processor
    blocks = resident // tile.threads if small else _blocks(lattice)
    sizes = {
        "N_SPECIES": len(lattice.species),
        "N_TYPES": len(lattice.site_types),
        "N_REACTIONS": len(lattice.reactions),
        "N_ZEROTH": tables.n_zeroth,
        "TABLE_ENTRIES": len(tables.array),
        "REACTION_PASSES": reaction_passes(lattice),
        "MOST_PRODUCTS": max((len(r.products) for r in lattice.reactions), default=0),
        "TILE_X": tile.x,
        "TILE_Y": tile.y,
        "TILE_THREADS": tile.threads,
        "TILE_BLOCKS": blocks,
        "COLUMN_BLOCKS": blocks,
        "TOGETHER_BLOCKS": resident // tile.threads,
        "MOST_HELD": (SECTION_ROOM if section else SPARSE_ROOM)[site_bytes],
        "SPARSE_THREADS": sparse_threads(lattice, section),
        "SPARSE_BLOCKS": SPARSE_RESIDENT // sparse_threads(lattice, section),
        "SECTION_PLANES": section,
        **(more or {}),
    }
    lines = [f"constexpr int {name} = {value};\n" for name, value in sizes.items()]
    lines += [f"constexpr int {name} = {value};\n" for name, value in tables.offsets.items()]
    kinds = [FACE_KINDS[kind] for kind in lattice.boundary]
    return (
        f"{site_header(lattice)}"
        "// Its sizes, its faces, and where its tables begin.\n"
        f"#define WORDS_IN_REGISTERS {words_in_registers(lattice, small=small)}\n"
        f"#define MANY_STEPS {int(together)}  // whether a launch may do many steps\n"
        f"{''.join(lines)}{_of_face('face_kind', kinds)}"
        f"{_of_face('ghost_type', list(lattice.ghost_type))}"
    )


def site_header(lattice: LoweredLattice) -> str:
    """`model.h` of kernels that read sites alone: all lattices with such sites share them."""
    particle_bytes = np.dtype(lattice.particle_type).itemsize
    return (
        "// Generated from the lattice: what a site holds.\n"
        '#pragma once\n#include "device/prelude.h"\n'
        f"typedef u{8 * particle_bytes} Particle;\n"
        f"typedef u{32 if lattice.slots > 16 else 16} SlotBits;  // one for each slot\n"
        f"constexpr int SLOTS = {lattice.slots};\n"
    )


def _blocks(lattice: LoweredLattice) -> int:
    """Blocks that fit on a multiprocessor; with more, registers would go to local memory.

    An H200 takes 0.559 ms a step of 256^3 sites of 16 bytes in strips with 6, 0.565 with 7, 0.599
    with 8.
    """
    site_bytes = lattice.slots * np.dtype(lattice.particle_type).itemsize
    return 7 if site_bytes <= (8 if in_warp_tiles(lattice) else 16) else 6


def _of_face(name: str, values: Sequence[int]) -> str:
    cases = "".join(f"face == {face} ? {value} : " for face, value in enumerate(values[:5]))
    return f"DEVICE constexpr int {name}(int face) {{\n    return {cases}{values[5]};\n}}\n"

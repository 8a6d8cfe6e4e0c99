"""Counts in bit planes: which lattices have them, and the header and tables of their kernels.

Bit i of the number of particles of a species in each of 32 sites side by side along x is a word.
`docs/decisions/planes.md` says what that decides; csrc/lattice/planes has the kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tauslab.base.arrays import Array, FloatArray, Int32Array, Uint32Array, UintArray
from tauslab.kernels.lattice.codegen import (
    FACE_KINDS,
    ReactionTables,
    ghost_tables,
    reaction_tables,
)
from tauslab.kernels.lattice.lowering import LoweredLattice

WORD = 32  # sites of a word
PLANES_OF_SLOTS = {8: 4, 16: 5, 32: 6}
_SLOT_BYTES = 1 << 28  # of planes that are put into slots at a time
_WAITING_BYTES = 2  # of a site: lists of particles that wait, and a copy
# Of a GPU's blocks: threads, where a team has fewer, and blocks that a multiprocessor has room for.
MANY_THREADS, MANY_BLOCKS, MOST_BLOCKS = 64, 8, 10
FEW_THREADS, FEW_BLOCKS = 96, 4
MANY_WORDS = 1 << 18  # from here on there are MOST_BLOCKS
# Warps have one species each where there are at most so many words: FEW_BLOCKS teams on each of the
# multiprocessors of a large GPU; or twice as many of both, with registers for so many species.
FEW_WORDS, FEW_SPECIES = 1 << 14, 3
# Where there are at most so many words and species, teams have helpers, and multiprocessors room
# for so many blocks.
HELPED_WORDS, HELPED_SPECIES, HELPED_BLOCKS = 1 << 13, 5, 2
# Particles of a species in a site of which helpers decide, with at least MANY_AHEAD_DENSITY
# particles a site at the start and with fewer.
MANY_AHEAD_DENSITY, MANY_AHEAD, FEW_AHEAD = 0.5, 4, 2
LEAST_DENSITY, DENSE = 0.02, 0.1  # particles a site where they are, at the start
LEAST_SITES = 1 << 12  # with fewer a core takes less time in slots if particles are few
MANY_SITES = 1 << 17  # from which on only sites where particles are count
LARGE = 1 << 19  # sites from which on the least density is enough
MOST_SPECIES = 8
MOST_TYPES = 16
MOST_CLASSES = 24  # hop probabilities of all species
MOST_WORDS = 1 << 29
_REACTIONS_IN_TEXT = 16  # as MOST_IN_TEXT of planes/react.h
_LEAST_CHANCE = 30  # a candidate has a probability of 2^-30 or more
# Combinations of reactants of sites with at most 1, and at most 3, of each species.
_COMBINATIONS = {0: (1, 1), 1: (1, 3), 2: (1, 9)}
_OF_TWO_ALIKE = (0, 3)


class LatticeEngineName(StrEnum):
    """How a lattice is kept while it runs, which decides the bits of its result."""

    PLANES = "planes"
    SLOTS = "slots"


def engine_of(lattice: LoweredLattice) -> LatticeEngineName:
    """Return the engine of a lattice: a pure function of the model.

    Of a lattice with few particles at its start most words are empty, and the slots engine looks
    only for sites that hold some.
    """
    sites, start = math.prod(lattice.shape), lattice.start
    if sites >= MANY_SITES:
        # A step is one pass where a warp has whole planes.
        gains = sites >= LARGE or WORD % words_of(lattice) == 0
        planes = start.density >= (LEAST_DENSITY if gains else DENSE)
    else:  # words are half full at least, and blocks of a GPU may have helpers
        enough = sites >= LEAST_SITES and start.number >= DENSE * sites
        full = 2 * lattice.shape[2] >= WORD
        planes = enough and full and len(lattice.species) <= HELPED_SPECIES
    planes = planes and missing_in_planes(lattice) is None
    return LatticeEngineName.PLANES if planes else LatticeEngineName.SLOTS


def planes_in_slots(lattice: LoweredLattice) -> int:
    """Return of how many planes of the lattice the slots are made at a time."""
    _, ny, nx = lattice.shape
    return max(1, _SLOT_BYTES // (ny * nx * lattice.slots))


def bytes_of_site(lattice: LoweredLattice) -> int:
    """Return the memory of a site: counts, those of a batch's start, what moves, masks."""
    counts = 6 * len(lattice.species) * PLANES_OF_SLOTS[lattice.slots]
    masks = 6 * sum(map(len, hop_classes(lattice))) + len(lattice.site_types)
    bits = counts + is_masked(lattice) * masks + 2 * len(lattice.species)
    return -(-bits // 8) + _WAITING_BYTES


def missing_in_planes(lattice: LoweredLattice) -> str | None:
    """Return what the kernels of planes lack of what the lattice has; None: nothing."""
    if lattice.objects:
        return "planes have no objects of several sites"
    classes = sum(map(len, hop_classes(lattice)))
    for number, most, what in (
        (len(lattice.species), MOST_SPECIES, "species"),
        (len(lattice.site_types), MOST_TYPES, "site types"),
        (classes, MOST_CLASSES, "different hop probabilities"),
        (words_of(lattice) * lattice.shape[0], MOST_WORDS, "words of 32 sites"),
    ):
        if number > most:
            return f"planes have at most {most} {what}, and here are {number}"
    return None


@dataclass(frozen=True)
class Teams:
    """How the threads of a GPU share words: a team does 32 of them.

    Attributes
    ----------
    warps
        Warps of a team: one, or one for each species.
    number
        Teams of a block.
    levels_ahead
        Particles of a species in a site of whose hops helpers decide; 0: there are no helpers.
    blocks
        Blocks that a multiprocessor has room for.
    """

    warps: int
    number: int
    levels_ahead: int
    blocks: int

    @property
    def threads(self) -> int:
        """Threads of a block: of its teams, and as many helpers where there are some."""
        return WORD * self.warps * self.number * (1 + (self.levels_ahead > 0))


def teams_of(lattice: LoweredLattice, lattices: int = 1) -> Teams:
    """Return the teams where so many lattices are done at the same time."""
    words, species = lattices * words_of(lattice) * lattice.shape[0], len(lattice.species)
    twice = 1 < species <= FEW_SPECIES
    if words > FEW_WORDS * (1 + twice):
        blocks = MOST_BLOCKS if words >= MANY_WORDS else MANY_BLOCKS
        return Teams(1, MANY_THREADS // WORD, 0, blocks)
    number = max(1, FEW_THREADS // (WORD * species))
    if words <= HELPED_WORDS and 1 < species <= HELPED_SPECIES:
        most = MANY_AHEAD if lattice.start.density >= MANY_AHEAD_DENSITY else FEW_AHEAD
        return Teams(species, number, min(most, 16 // species), HELPED_BLOCKS)
    blocks = FEW_BLOCKS if words <= FEW_WORDS else 2 * FEW_BLOCKS
    return Teams(species, number, 0, blocks)


def words_of(lattice: LoweredLattice) -> int:
    """Words of a plane."""
    _, ny, nx = lattice.shape
    return ny * -(-nx // WORD)


def _thresholds(lattice: LoweredLattice) -> UintArray:
    """Return 2^64 times the hop probabilities, below 2^63: rounded, they may reach 1/2."""
    scaled = np.ldexp(np.asarray(lattice.hop, np.float64), 64)
    return np.minimum(scaled.astype(np.uint64), np.uint64(2**63 - 1))


def hop_classes(lattice: LoweredLattice) -> list[UintArray]:
    """Return the different thresholds above 0 of each species, ascending."""
    thresholds = _thresholds(lattice)
    result = [np.unique(thresholds[..., s]) for s in range(len(lattice.species))]
    return [values[values > 0] for values in result]


def is_masked(lattice: LoweredLattice) -> bool:
    """Return whether sites differ in where their particles can hop."""
    return len(lattice.site_types) > 1 or set(lattice.boundary) != {"periodic"}


@dataclass(frozen=True)
class HopTables:
    """Thresholds of hops.

    Attributes
    ----------
    bits
        ``[class, 64]``: 0 or ~0 for each bit of a threshold, the highest first, which is 0.
    class_of
        ``[from type, to type, species]``: class, of all species, -1 for a wall.
    """

    bits: Uint32Array
    class_of: Int32Array


def hop_tables(lattice: LoweredLattice) -> HopTables:
    """Return the thresholds of all species."""
    thresholds = _thresholds(lattice)
    class_of = np.full(thresholds.shape, -1, np.int32)
    classes = hop_classes(lattice)
    first = 0
    for species, values in enumerate(classes):
        for number, value in enumerate(values):
            class_of[..., species][thresholds[..., species] == value] = first + number
        first += len(values)
    every = np.concatenate([*classes, np.zeros(0, np.uint64)])
    return HopTables(_bits_of(every), class_of)


@dataclass(frozen=True)
class GhostThresholds:
    """Laws of the numbers that come in through held faces (`arrive_ghosts` of planes/hops.h).

    Attributes
    ----------
    rows
        ``[face, type, species]``: the first threshold, -1 where none come.
    bits
        ``[threshold, 64]``: 0 or ~0 for each bit, the highest first; the last of a row is 0.
    """

    rows: Int32Array
    bits: Uint32Array


def ghost_thresholds(lattice: LoweredLattice) -> GhostThresholds:
    """Return with which probability a number that has reached k passes it, k = 0, 1, ..."""
    tables = ghost_tables(lattice)
    rows, thresholds = np.full(tables.rows.shape, -1, np.int32), list[int]()
    for where in np.argwhere(tables.rows >= 0):
        rows[tuple(where)] = len(thresholds)
        left, certain = 1 << 64, (1 << 64) - 1  # P(N >= k) 2^64
        for word in tables.words[tables.rows[tuple(where)] :].tolist():
            beyond = 0 if word == certain else (1 << 64) - word
            thresholds.append(min(certain, (beyond << 64) // left))
            if not beyond:
                break
            left = beyond
    every = np.array(thresholds, np.uint64)
    return GhostThresholds(rows, _bits_of(every))


def _bits_of(thresholds: UintArray) -> Uint32Array:
    """Return 0 or ~0 for each of 64 bits, the highest first."""
    shifts = np.arange(63, -1, -1, dtype=np.uint64)
    ones = (thresholds[:, None] >> shifts & np.uint64(1)).astype(np.int64)
    return np.ascontiguousarray((-ones & 0xFFFFFFFF).astype(np.uint32))


def causes_of(lattice: LoweredLattice) -> list[tuple[int, ...]]:
    """Return the different sets of reactants, by species numbers."""
    return list(dict.fromkeys(reaction.reactants for reaction in lattice.reactions))


@dataclass(frozen=True)
class ReactionMasks:
    """Where reactions can happen, and how many sites are candidates (planes/react.h).

    Attributes
    ----------
    cause_types
        ``[cause]``: a bit for each site type in which a reaction of these reactants has a rate.
    thinning
        ``[type, class]``: random words of which a candidate has all bits.
    thinned
        ``[entry, 3]``: the same with its type and class, in ascending order.
    """

    cause_types: Uint32Array
    thinning: Int32Array
    thinned: Int32Array


def reaction_masks(lattice: LoweredLattice, chance: FloatArray) -> ReactionMasks:
    """Return the masks for rates ``[reaction, type]`` times the length of a pass."""
    causes, types = causes_of(lattice), len(lattice.site_types)
    happens = np.zeros(len(causes), np.uint32)
    most = np.zeros((types, 2))
    for reaction, row in zip(lattice.reactions, chance, strict=True):
        happens[causes.index(reaction.reactants)] |= sum(1 << t for t in np.flatnonzero(row > 0))
        alike = len(reaction.reactants) == 2 and len({*reaction.reactants}) == 1
        factors = _OF_TWO_ALIKE if alike else _COMBINATIONS[len(reaction.reactants)]
        most += row[:, None] * np.array(factors)
    words = np.array([[_candidate_words(x) for x in row] for row in most.tolist()], np.int32)
    entries = sorted((int(words[t, c]), t, c) for t in range(types) for c in range(2))
    return ReactionMasks(happens, words, np.array(entries, np.int32))


def _candidate_words(most: float) -> int:
    """Return k with ``most <= 2^-k``."""
    return min(_LEAST_CHANCE, max(0, -math.frexp(most)[1])) if most > 0 else _LEAST_CHANCE


def rate_tables(lattice: LoweredLattice, rates: Array) -> dict[str, Array]:
    """Return what `PlaneArguments` has of rates ``[reaction, type]``, by name."""
    chance = pass_chances(lattice, rates)
    masks = reaction_masks(lattice, chance)
    return {
        "chances": chance if chance.size else np.zeros(1),
        "cause_types": masks.cause_types if masks.cause_types.size else np.zeros(1, np.uint32),
        "thinned": masks.thinned,
        "thinning": masks.thinning,
    }


def pass_chances(lattice: LoweredLattice, rates: Array) -> FloatArray:
    """Return rates ``[reaction, type]`` times the length of a pass; a step has one."""
    return np.ascontiguousarray(rates * (lattice.step / lattice.diffusion_substeps))


def planes_header(lattice: LoweredLattice, *, cut: bool = False, lattices: int = 1) -> str:
    """Return `model.h` of the kernels of planes. It has no rates and no hop probabilities.

    With `cut` they are of slabs; with `lattices` they do so many at the same time.
    """
    teams = teams_of(lattice, lattices)
    tables: ReactionTables = reaction_tables(lattice.reactions, len(lattice.species))
    classes, causes = hop_classes(lattice), causes_of(lattice)
    counts = [len(values) for values in classes]
    sizes = {
        "N_SPECIES": len(lattice.species),
        "N_TYPES": len(lattice.site_types),
        "N_REACTIONS": len(lattice.reactions),
        "N_CAUSES": len(causes),
        "MOST_PRODUCTS": max((len(r.products) for r in lattice.reactions), default=0),
        "SLOTS": lattice.slots,
        "HOP_CLASSES": sum(counts),
        "MOST_CLASSES": max(counts, default=0),
        "TABLE_ENTRIES": len(tables.array),
        "TEAMS": teams.number,
        "PLANE_BLOCKS": teams.blocks,
        "LEVELS_AHEAD": teams.levels_ahead,
        **{name: tables.offsets[name] for name in ("REACTANTS", "PRODUCT_START", "PRODUCTS")},
    }
    listed = {
        "face_kind": [FACE_KINDS[kind] for kind in lattice.boundary],
        "ghost_type": list(lattice.ghost_type),
        "classes_of": counts,
        "first_class": [sum(counts[:s]) for s in range(len(counts))],
        "first_reactant": _nth_reactants(lattice, 0),
        "second_reactant": _nth_reactants(lattice, 1),
        "cause_first": [cause[0] if cause else -1 for cause in causes],
        "cause_second": [cause[1] if len(cause) > 1 else -1 for cause in causes],
    }
    return (
        "// Generated from the lattice: its sizes, its faces, and which species can do what.\n"
        '#pragma once\n#include "device/prelude.h"\n'
        + "".join(f"constexpr int {name} = {value};\n" for name, value in sizes.items())
        + f"constexpr bool TEAMED = {str(teams.warps > 1).lower()};\n"
        + f"constexpr bool BESIDE = {str(lattices > 1).lower()};\n"
        + f"constexpr bool WHOLE_ROWS = {str(WORD % -(-lattice.shape[2] // WORD) == 0).lower()};\n"
        + f"constexpr bool WHOLE_PLANES = {str(WORD % words_of(lattice) == 0).lower()};\n"
        + f"constexpr bool CUT = {str(cut).lower()};\n"
        + f"constexpr bool MASKED = {str(is_masked(lattice)).lower()};\n"
        + f"constexpr bool SOME_HELD = {str('held' in lattice.boundary).lower()};\n"
        + "".join(_function(name, values) for name, values in listed.items())
    )


def _nth_reactants(lattice: LoweredLattice, n: int) -> list[int]:
    """Return a reactant of each reaction, -1 where it has none."""
    return [[*reaction.reactants, -1, -1][n] for reaction in lattice.reactions[:_REACTIONS_IN_TEXT]]


def _function(name: str, values: list[int]) -> str:
    """Return a function that the compiler evaluates."""
    cases = "".join(f"i == {i} ? {value} : " for i, value in enumerate(values))
    return f"DEVICE constexpr int {name}(int i) {{\n    return {cases}-1;\n}}\n"

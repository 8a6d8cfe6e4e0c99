"""Changes that a firing makes and what they invalidate, the *plan* of a reaction, as tables.

Those for csrc/tables/firing.h are lists; where firings change few counts and few propensities,
there are records for csrc/tables/short_firing.h.

A plan is a list of pairs, cut into sections: species and by how much their counts change, whole
numbers and by how much they change, then what is computed again, stage by stage. Reactions that
change the same have one list. A reaction's *row* holds the sections' beginnings and the end, so
that a firing loads its row, then its list at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.kernels.exact.forest import ForestTables
from tauslab.kernels.exact.owners import LITERAL_CONSTANT, constant_source, literal_of
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.kernels.network.tables import (
    MOST_ENTRIES,
    Pairs,
    TableBook,
    TableRows,
    distinct_pairs,
    padded,
)

# Up to this many entries, repeats counted, what is computed again is stored per reaction; beyond it
# per species. No result depends on it.
MOST_PLANNED = 1 << 23
# The same of whole numbers: longer lists of them are better shared, since each is read once.
MOST_TOUCHED = 1 << 20

Columns = tuple[IntArray, IntArray, IntArray]  # (list, first number, second number)


def write_plans(
    book: TableBook,
    network: LoweredNetwork,
    forest: ForestTables,
    more: Sequence[tuple[tuple[int, int], ...]] = (),
) -> None:
    """Write the rows and lists of all reactions, and behind them of `more` changes."""
    n_species = len(network.species)
    changes = [*(reaction.change for reaction in network.reactions), *more]
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    list_of = np.fromiter((numbers.setdefault(c, len(numbers)) for c in changes), np.int64)
    pairs = Pairs.of(numbers)
    by_list = TableRows.of([[i for i, _ in change] for change in numbers])
    leaves, chunks = readers_of(network, forest)
    touch, times = _touched(forest, n_species, book["N_WHOLE"])

    touches = _touches_of_lists(pairs, touch, times, book["N_WHOLE"])
    of_species = touches is None
    book.constant("TOUCH_OF_SPECIES", of_species)
    book.whole("TOUCH_ROW", touch.start if of_species else [])
    book.records("TOUCH", [touch.items, times] if of_species else [[], []])
    sizes = np.diff(leaves.start) + np.diff(chunks.start)
    planned = int(sizes[by_list.items].sum()) <= MOST_PLANNED
    book.constant("PLAN_OF_SPECIES", not planned)
    one_each = TableRows(np.arange(n_species + 1), np.arange(n_species))
    stages = _stages(forest, by_list if planned else one_each, leaves, chunks)
    none = np.zeros(0, np.int64)
    empty = none, none, none
    sections = [(pairs.row, pairs.species, pairs.number), touches or empty]
    sections += stages if planned else [empty] * len(stages)
    starts, entries = _lists(sections, len(numbers))
    part_starts, part_entries = _lists([] if planned else stages, n_species)
    book.whole("PART_ROW", part_starts + entries.shape[1])
    book.records("ENTRY", list(np.concatenate([entries, part_entries], axis=1)))
    width = len(sections) + 1
    rows = starts[(list_of * len(sections))[:, None] + np.arange(width)]
    book.records("LEAF_EVENT", [forest.stored, rows[forest.stored, 0]])
    words = padded(width, 4)
    book.records("PLAN", list(np.pad(rows, ((0, 0), (0, words - width))).reshape(-1, 4).T))
    book.constant("PLAN_WORDS", words)
    book.constant("PLAN_STAGES", len(stages))


def readers_of(network: LoweredNetwork, forest: ForestTables) -> tuple[TableRows, TableRows]:
    """Stored leaves and chunks that a species is read by."""
    reads = [
        (i, leaf)
        for leaf, j in enumerate(forest.stored.tolist())
        for i in network.reactions[j].depends_on()
    ]
    read = np.array(reads, np.int64).reshape(-1, 2)
    n = len(network.species)
    leaves = TableRows.sorted_pairs(read[:, 0], read[:, 1], n, max(1, len(forest.stored)))
    n_chunks = max(1, len(forest.chunks.owner))
    return leaves, TableRows.sorted_pairs(*forest.species_chunk, n, n_chunks)


def _touched(forest: ForestTables, n_species: int, n_whole: int) -> tuple[TableRows, IntArray]:
    """Whole numbers that contain a species' count, and how often each does."""
    species, whole = forest.touched
    key, times = np.unique(species * n_whole + whole, return_counts=True)
    start = np.searchsorted(key, np.arange(n_species + 1) * n_whole)
    return TableRows(start, key % n_whole), times


def _touches_of_lists(
    pairs: Pairs, touch: TableRows, times: IntArray, n_whole: int
) -> Columns | None:
    """(list, whole number, change), or None where they are many."""
    if int(np.diff(touch.start)[pairs.species].sum()) > MOST_TOUCHED:
        return None
    which, whole = touch.expand(pairs.species)
    _, often = TableRows(touch.start, times).expand(pairs.species)
    key = pairs.row[which] * n_whole + whole
    order = np.argsort(key, kind="stable")
    by = (pairs.number[which] * often)[order]
    firsts = np.flatnonzero(np.diff(key[order], prepend=-1))
    change = np.add.reduceat(by, firsts) if len(firsts) else by
    if (np.abs(change) > MOST_ENTRIES).any():
        return None
    key, change = key[order][firsts][change != 0], change[change != 0]
    return key // n_whole, key % n_whole, change


def _stages(
    forest: ForestTables, lists: TableRows, leaves: TableRows, chunks: TableRows
) -> list[Columns]:
    """Values to compute again after changes of a list's species: leaves, chunks, owners, nodes.

    Of a leaf its reaction and place, of a chunk its record in two entries, of an owner of several
    chunks its number and the place of their sum, of a node its first child and its place. An
    owner's only chunk is made again with the owner's count as well: its sum need not be kept.
    """
    parent, stage_of, value = forest.sums.parents()
    child, _ = forest.sums.nodes()
    which, species = lists.expand(np.arange(len(lists.start) - 1))
    pair, leaf = leaves.expand(species)
    in_list, leaf = distinct_pairs(which[pair], leaf)
    stages = [(in_list, forest.stored[leaf], forest.leaves_at + leaf)]
    updated = [(in_list, forest.leaves_at + leaf)]
    pair, chunk = chunks.expand(species)
    changed, own = _owners_among(forest, species, wide=False)
    in_list, chunk = distinct_pairs(
        np.concatenate([which[pair], which[changed]]),
        np.concatenate([chunk, forest.chunks.first[own]]),
    )
    term, place, owner_species, shape = forest.chunk_records(chunk)
    columns = (in_list, in_list), (term, owner_species), (place, shape)
    first, second, third = (np.stack(two, axis=1).ravel() for two in columns)
    stages.append((first, second, third))
    updated.append((in_list, place))
    nodes: list[Columns] = []
    for stage in range(max(forest.lower, len(forest.sums.node_child)) + 1):
        if stage == forest.lower:
            in_list, owner = _owners(forest, which, species, updated)
            stages.append((in_list, owner, forest.root[owner]))
            updated.append((in_list, owner))  # the leaf of an owner stands at its number
        if stage < len(forest.sums.node_child):
            in_list, place = _joined(updated)
            above = parent[place]
            local = (above >= 0) & (stage_of[above] == stage)
            in_list, node = distinct_pairs(in_list[local], above[local])
            nodes.append((in_list, child[node], value[node]))
            updated.append((in_list, value[node]))
    return stages + nodes


def _owners(
    forest: ForestTables,
    which: IntArray,
    species: IntArray,
    updated: list[tuple[IntArray, IntArray]],
) -> tuple[IntArray, IntArray]:
    """Owners of several chunks whose count or sum of chunks is among what was made again."""
    wide = np.flatnonzero(forest.root >= 0)
    of_place = np.full(forest.sums.n_values, -1, np.int64)
    of_place[forest.root[wide]] = wide
    in_list, place = _joined(updated)
    met = of_place[place]
    changed, own = _owners_among(forest, species, wide=True)
    return distinct_pairs(
        np.concatenate([in_list[met >= 0], which[changed]]), np.concatenate([met[met >= 0], own])
    )


def _owners_among(
    forest: ForestTables, species: IntArray, *, wide: bool
) -> tuple[IntArray, IntArray]:
    """Indices of the species that are owners of several chunks, or of one; and these owners."""
    owners = forest.terms.owners
    chosen = np.flatnonzero((forest.root >= 0) == wide)
    of_species = np.full(1 + max(species.max(initial=-1), owners.max(initial=-1)), -1, np.int64)
    of_species[owners[chosen]] = chosen
    result = of_species[species]
    return np.flatnonzero(result >= 0), result[result >= 0]


def _lists(sections: list[Columns], n_lists: int) -> tuple[IntArray, IntArray]:
    """Beginnings of every section of every list, and the end; all entries ``[2, entry]``."""
    if not sections:
        return np.zeros(1, np.int64), np.zeros((2, 0), np.int64)
    at = np.concatenate([part * len(sections) + k for k, (part, _, _) in enumerate(sections)])
    order = np.argsort(at, kind="stable")
    entries = np.stack([np.concatenate([part[k] for part in sections]) for k in (1, 2)])
    starts = np.searchsorted(at[order], np.arange(n_lists * len(sections) + 1))
    return starts, entries[:, order]


def _joined(pairs: list[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


TEAMS_OF_SHORT = (8,)
MOST_SLOTS = 8  # threads of the smallest team
MOST_WORDS = 1 << 28  # of all records
LONGER = 4  # as in csrc/tables/propensities.h


def write_no_short(book: TableBook) -> None:
    """Say that firings have no such records, and that all sums are together."""
    for name in ("SHORT_CHANGES", "SHORT_PAIRS", "AT_SHORT", "AT_SHORT_RATE"):
        book.constant(name, 0)
    book.macro("SHORT_SLOTS", 0)
    book.constant("FAST_VALUES", 0)
    levels = len(book.places_of("STORED_LEVEL")) + len(book.places_of("TOP_LEVEL"))
    book.constant("FAST_LEVEL", levels)
    book.constant("FAST_PLACE", book["N_VALUES"])


def write_short(
    book: TableBook, network: LoweredNetwork, forest: ForestTables, forms: IntArray
) -> None:
    """Write a record of the firing of each leaf's reaction, if all are short.

    `forms`: species and kind of every reaction's propensity, ``[reaction, 3]``.
    """
    stored = forest.stored
    if len(forest.terms.owners) or len(forest.sums.node_child) == 0:
        return
    if (forms[stored, 2] == LONGER).any():
        return
    changes = Pairs.of(network.reactions[j].change for j in stored.tolist())
    leaves, _ = readers_of(network, forest)
    if int(np.diff(leaves.start)[changes.species].max(initial=0)) > MOST_SLOTS:
        return
    which, leaf = leaves.expand(changes.species)
    n = len(stored)
    key = np.unique(changes.row[which] * n + leaf)
    of, leaf = key // n, key % n
    most = max(np.bincount(rows, minlength=1).max() for rows in (changes.row, of))
    if most > MOST_SLOTS or 8 * MOST_SLOTS * n > MOST_WORDS:
        return
    slots = 1 << int(most - 1).bit_length()
    one, two = np.zeros((n, slots, 4), np.int64), np.zeros((n, slots, 4), np.int64)
    rate = np.zeros((n, slots))
    one[:, :, 2] = -1
    slot = _places(changes.row)
    one[changes.row, slot, 0], one[changes.row, slot, 1] = changes.species, changes.number
    reaction, slot = stored[leaf], _places(of)
    one[of, slot, 2], one[of, slot, 3] = leaf, forms[reaction, 2]
    sources = np.array([constant_source(r) for r in network.reactions], np.int64)
    literals: FloatArray = np.array([literal_of(r) for r in network.reactions], np.float64)
    two[:, :, 2] = LITERAL_CONSTANT
    two[of, slot, 0], two[of, slot, 1] = forms[reaction, 0], forms[reaction, 1]
    two[of, slot, 2], rate[of, slot] = sources[reaction], literals[reaction]
    book.records("SHORT", list(np.concatenate([one, two], axis=2).reshape(-1, 4).T))
    book.real("SHORT_RATE", rate)
    book.macro("SHORT_SLOTS", slots)
    book.constant("SHORT_CHANGES", int(np.bincount(changes.row, minlength=1).max()))
    book.constant("SHORT_PAIRS", bool((forms[stored, 2] == 2).any()))


def _places(rows: IntArray) -> IntArray:
    """Number of every entry among those of its row; rows are in order."""
    new = np.flatnonzero(np.diff(rows, prepend=-1))
    return np.arange(len(rows)) - np.repeat(new, np.diff([*new, len(rows)]))


def fast_level(book: TableBook, room: int) -> int:
    """Keep the highest levels of sums in shared memory that `room` bytes hold; returns the bytes.

    Teams of a warp use different banks: half of all banks lie between them.
    """
    places = book.places_of("STORED_LEVEL")
    for level in range(1, len(places)):
        values = book["N_VALUES"] - places[level]
        values += (8 - values) % 16
        if 8 * values <= room:
            book.constant("FAST_LEVEL", level)
            book.constant("FAST_PLACE", places[level])
            book.constant("FAST_VALUES", values)
            return 8 * values
    return 0

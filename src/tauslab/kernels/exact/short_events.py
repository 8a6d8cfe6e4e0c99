"""Records of events that change few counts and few propensities, for tables/short_event.h."""

from __future__ import annotations

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.kernels.exact.event_tables import readers_of
from tauslab.kernels.exact.forest import ForestTables
from tauslab.kernels.exact.owners import LITERAL_CONSTANT, constant_source, literal_of
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.kernels.network.tables import Pairs, TableBook

TEAMS_OF_SHORT = (8,)
MOST_SLOTS = 8  # threads of the smallest team
MOST_WORDS = 1 << 28  # of all records
LONGER = 4  # as in csrc/tables/propensities.h


def write_no_short(book: TableBook) -> None:
    """Say that events have no such records, and that all sums are together."""
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
    """Write a record of each leaf, if all are short.

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
    """Of every entry its number among those of its row; rows are in order."""
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

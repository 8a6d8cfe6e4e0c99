"""Tables of the selector `rssa`, rejection with bounds that seldom change: csrc/rejection.h."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tauslab.kernels.lowering import FloatArray, LoweredNetwork, LoweredReaction
from tauslab.kernels.tables import LANES, IntArray, Rows, TableBook, distinct_pairs, padded
from tauslab.kernels.terms import constant_source, literal_of

# As in csrc/rejection_bounds.h and csrc/rejection.h.
LONGER, MANY_CHANGES = 4, 5
WIDE, EXACT, UNREAD = 0, 1, 2
CHANGES = 4
# Molecules by which a change of a count may differ from 0 in a record: 32 of them fit into 16 bits.
MOST_CHANGE = 1000
NODE_SIZE = 2 * LANES  # doubles of a node: its children and their partial sums
# Counts from which on an interval is wider than one count; below, a bound is the propensity. So where
# no propensity asks for more molecules, a bound is zero only with the propensity.
NARROW = 8


def write_items(
    book: TableBook, network: LoweredNetwork, forms: IntArray, firings: FloatArray | None
) -> None:
    """Write the items, most frequent first, and what each species is read by.

    Parameters
    ----------
    forms
        Species and kind of every reaction's propensity, as its record of csrc/propensities.h has
        them, ``[reaction, 3]``.
    firings
        How often each reaction fired in a pilot, f64 ``[reaction]``; None keeps their order.
    """
    n = len(network.reactions)
    order = np.arange(n) if firings is None else np.argsort(-firings, kind="stable")
    levels = _lay_out(book, n)
    book.whole("ITEM", order)
    _write_records(book, [network.reactions[j] for j in order.tolist()], forms[order], len(network.species))
    book.whole("INTERVAL", _intervals(network))
    item_of = np.empty(n, np.int64)
    item_of[order] = np.arange(n)
    _write_readers(book, network, item_of, levels)
    places = len(network.species) + 1  # one is of no species
    book.constant("N_PLACES", places)
    book.constant("N_COUNTS", padded(2 * places, 4))  # counts, and how far they may get
    book.constant("N_WHOLE", padded(4 * places, 4))  # of intervals, see csrc/rejection_bounds.h
    book.constant("FAST_WHOLE", 0)
    book.macro("WIDE_WHOLE", value=False)
    book.macro("IS_DENSE", value=False)


def _lay_out(book: TableBook, items: int) -> list[int]:
    """Nodes of the tree: the first node of each level, from the one that holds items up."""
    levels, node, children = [], 1, items - (LANES - 1)
    while items > LANES and (not levels or children > 1):
        levels.append(node)
        children = -(-children // LANES)
        node += children
    book.constant("N_ITEMS", items)
    book.constant("N_NODES", node)
    book.constant("ITEM_LEVELS", len(levels))
    book.places("ITEM_LEVEL", levels)
    book.constant("N_VALUES", NODE_SIZE * node)
    return levels


def _write_records(
    book: TableBook, reactions: Sequence[LoweredReaction], forms: IntArray, n_species: int
) -> None:
    """Two records of four numbers an item, its rate constant; and all its changes."""
    nothing = n_species, 0
    records = []
    for reaction, (first, second, kind) in zip(reactions, forms.tolist(), strict=True):
        change = dict(reaction.change)
        read = [first, second][: 2 if kind == 2 else 1 if kind in (1, 3) else 0]
        moved = [(i, change.pop(i, 0)) for i in read] + list(change.items())
        many = len(moved) > CHANGES or any(abs(by) > MOST_CHANGE for _, by in moved)
        kept = [*([] if many else moved), *[nothing] * CHANGES][:CHANGES]
        (i, a), (j, b), (k, c), (m, d) = kept
        kind = MANY_CHANGES if many else kind
        records += [(kind, constant_source(reaction), i, j), (k, m, _two(a, b), _two(c, d))]
    book.records("RECORD", list(np.array(records, np.int64).reshape(-1, 4).T))
    book.real("RECORD_RATE", [literal_of(reaction) for reaction in reactions])
    flat = [pair for reaction in reactions for pair in reaction.change]
    book.whole("CHANGE_ROW", np.cumsum([0] + [len(reaction.change) for reaction in reactions]))
    book.records("CHANGE", [[i for i, _ in flat], [by for _, by in flat]])


def _two(low: int, high: int) -> int:
    """Two numbers of 16 bits in one of 32."""
    word = (high & 0xFFFF) << 16 | (low & 0xFFFF)
    return word - (1 << 32) if word >> 31 else word


def _intervals(network: LoweredNetwork) -> IntArray:
    """Which species may have an interval that is wider than one count."""
    kinds = np.full(len(network.species) + 1, UNREAD)
    for reaction in network.reactions:
        kinds[list(reaction.depends_on())] = WIDE
    for reaction in network.reactions:
        if reaction.law is not None:
            kinds[list(reaction.depends_on())] = EXACT
        for index, number in (*reaction.orders, *reaction.needs):
            if number >= NARROW:
                kinds[index] = EXACT
    return kinds


def _write_readers(
    book: TableBook, network: LoweredNetwork, item_of: IntArray, levels: list[int]
) -> None:
    """Of every species the items that read it, then nodes above them, level by level."""
    pairs = [(i, j) for j, reaction in enumerate(network.reactions) for i in reaction.depends_on()]
    species, reaction = np.array(pairs, np.int64).reshape(-1, 2).T
    n_places, sections = len(network.species) + 1, len(levels) + 1
    items = item_of[reaction]
    in_root = len(item_of) if not levels else LANES - 1
    rows, entries = [species * sections], [items]
    other = items >= in_root
    above, place = species[other], items[other] - in_root
    for level, first in enumerate(levels):
        above, place = distinct_pairs(above, place // LANES)
        rows.append(above * sections + 1 + level)
        entries.append(first + place)
    row, entry = np.concatenate(rows), np.concatenate(entries)
    found = Rows.sorted_pairs(row, entry, n_places * sections, int(entry.max(initial=0)) + 1)
    book.rows("READ_ROW", "READ", found)

"""Tables of the selector `rssa` for csrc/tables/rejection/rejection.h."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.exact.owners import LITERAL_CONSTANT, constant_source, literal_of
from tauslab.kernels.exact.table_selector import (
    THREADS_OF_A_BLOCK,
    Contents,
    TableSelector,
    fast_parts,
)
from tauslab.kernels.network.lowering import LoweredNetwork, LoweredReaction
from tauslab.kernels.network.tables import LANES, TableBook, TableRows, padded

# As in csrc/tables/rejection/bounds.h and csrc/tables/rejection/rejection.h.
LONGER, MANY_CHANGES = 4, 5
WIDE, EXACT, UNREAD = 0, 1, 2
CHANGES = 4
# Molecules by which a change of a count may differ from 0 in a record: 32 of them fit into 16 bits.
MOST_CHANGE = 1000
MOST_SHORT = 1 << 16  # numbers of species that 16 bits of a record hold
NODE_SIZE = 2 * LANES  # doubles of a node: its children and their partial sums
# Children of the root that are no items, at most: a frequent reaction should stand there itself.
MOST_TREES = 16
# Molecules that a propensity may ask for of a species with a wide interval. Those begin at 8
# molecules and reach down to three quarters of a count: a bound is zero only with the propensity.
MOST_ASKED = 4
# Blocks of a multiprocessor: more registers are worth more than more warps.
FEWEST_BLOCKS, MOST_BLOCKS = 2, 4


class Rejection(TableSelector):
    """Rejection with bounds, Thanh, Priami & Zunino 2014."""

    name = "rssa"
    entry = "ssa_rejection"
    folder = "rejection"

    def write(self, book: TableBook, of: Contents) -> None:
        """Write items, and what each species is read by."""
        write_items(book, of.network, of.forms, of.firings, of.watched, of.late)

    def lay_out(
        self, book: TableBook, parts: Sequence[int], team: int, trajectories: int, backend: Backend
    ) -> int:
        """Keep the root, counts and upper nodes in shared memory."""
        del parts  # which it counts itself
        by_words = {words: shared_parts(book, words) for words in (4, 2)}
        blocks, words, fast = rejection_layout(by_words, team, trajectories, backend)
        book.macro("TEAM_BLOCKS", blocks)
        book.constant("WORDS_OF_COUNT", words)
        book.constant("SHARED_PARTS", fast)
        return sum(by_words[words][:fast])


def write_items(
    book: TableBook, network: LoweredNetwork, forms: IntArray, firings: FloatArray | None,
    alone: BoolArray, more: Sequence[tuple[tuple[int, int], ...]] = (),
) -> None:  # fmt: skip
    """Write the items, most frequent first, and what each species is read by.

    Parameters
    ----------
    forms
        Species and kind of every reaction's propensity, as its record of tables/propensities.h has
        them, ``[reaction, 3]``. What events may change the constant of has the kind `LONGER` here.
    firings
        How often each reaction fired in a pilot, f64 ``[reaction]``; None keeps their order.
    alone
        Reactions behind which events may happen, ``[reaction]``: their items are taken alone.
    more
        Changes behind those of all items.
    """
    n = len(network.reactions)
    order = np.arange(n) if firings is None else np.argsort(-firings, kind="stable")
    _lay_out(book, n)
    book.whole("ITEM", order)
    ordered = [network.reactions[j] for j in order.tolist()]
    scaled = np.array([reaction.quantity is not None for reaction in network.reactions], bool)
    forms = np.where(scaled[:, None], [0, 0, LONGER], forms)
    _write_records(book, ordered, forms[order], alone[order], len(network.species))
    changes = [*(reaction.change for reaction in ordered), *more]
    flat = [pair for change in changes for pair in change]
    book.whole("CHANGE_ROW", np.cumsum([0, *map(len, changes)]))
    book.records("CHANGE", [[i for i, _ in flat], [by for _, by in flat]])
    item_of = np.empty(n, np.int64)
    item_of[order] = np.arange(n)
    _write_readers(book, network, item_of, forms)
    places = len(network.species) + 1  # one is of no species
    book.constant("N_PLACES", places)
    # One thread has counts apart from intervals; a team has all that it knows of a species
    # together.
    book.constant("N_COUNTS", padded(places, 4))
    book.constant("N_WHOLE", 4 * places)
    book.constant("WORDS_OF_COUNT", 4)
    book.constant("SHARED_WHOLE", 0)
    book.macro("WIDE_WHOLE", value=False)
    book.macro("IS_DENSE", value=False)


def _lay_out(book: TableBook, items: int) -> None:
    """Places of items and nodes: what stands in the root, and the levels of the trees below it."""
    levels = tops = 0
    while items > LANES and not 0 < tops <= MOST_TREES:
        levels += 1
        tops = -(-(items - LANES) // (LANES**levels - 1))  # each takes the place of an item
    in_root = min(items, LANES - tops)
    sizes = [-(-(items - in_root) // LANES ** (level + 1)) for level in range(levels)]
    first = np.cumsum([1, *sizes])  # node 0 is the root
    book.constant("N_ITEMS", items)
    book.constant("ROOT_ITEMS", in_root)
    book.constant("ITEM_LEVELS", levels)
    book.places("ITEM_LEVEL", first[:-1].tolist())
    book.whole("LEVEL_NODES", sizes)
    book.constant("N_VALUES", NODE_SIZE * int(first[-1]))
    book.constant("UPPER_NODES", sum(sizes[1:]))


def _write_records(
    book: TableBook,
    reactions: Sequence[LoweredReaction],
    forms: IntArray,
    alone: BoolArray,
    n_species: int,
) -> None:
    """A record of eight numbers an item, or of twelve if species need more than 16 bits."""
    nothing = n_species, 0
    wide = n_species >= MOST_SHORT
    records = []
    rows = zip(reactions, forms.tolist(), alone.tolist(), strict=True)
    for reaction, (first, second, kind), apart in rows:
        change = dict(reaction.change)
        read = [first, second][: 2 if kind == 2 else 1 if kind in (1, 3) else 0]
        moved = [(i, change.pop(i, 0)) for i in read] + list(change.items())
        many = apart or len(moved) > CHANGES or any(abs(by) > MOST_CHANGE for _, by in moved)
        kept = [*([] if many else moved), *[nothing] * CHANGES][:CHANGES]
        (i, a), (j, b), (k, c), (m, d) = kept
        source = max(constant_source(reaction), LITERAL_CONSTANT) - LITERAL_CONSTANT
        low, high = np.array([literal_of(reaction)]).view(np.int32).tolist()
        records += [8 * source + (MANY_CHANGES if many else kind), _two(a, b), _two(c, d), 0]
        records += [high, low, *((i, j, k, m, 0, 0) if wide else (_two(i, j), _two(k, m)))]
    book.records("RECORD", list(np.array(records, np.int64).reshape(-1, 4).T))
    book.macro("WIDE_SPECIES", wide)


def _two(low: int, high: int) -> int:
    """Two numbers of 16 bits in one of 32."""
    word = (high & 0xFFFF) << 16 | (low & 0xFFFF)
    return word - (1 << 32) if word >> 31 else word


def _intervals(network: LoweredNetwork) -> IntArray:
    """Kind of interval of each species: wider than one count, exact, or unread."""
    kinds = np.full(len(network.species) + 1, UNREAD)
    for reaction in network.reactions:
        kinds[list(reaction.depends_on())] = WIDE
    for reaction in network.reactions:
        if reaction.law is not None:
            kinds[list(reaction.depends_on())] = EXACT
        for index, number in (*reaction.orders, *reaction.needs):
            if number > MOST_ASKED:
                kinds[index] = EXACT
    return kinds


def _write_readers(
    book: TableBook, network: LoweredNetwork, item_of: IntArray, forms: IntArray
) -> None:
    """Write of every species its kind of interval, and the items that read it, in order.

    A reader has a record of all that its bound is made of: item, constant, the other species, kind.
    """
    reactions = network.reactions
    pairs = [(i, j) for j, reaction in enumerate(reactions) for i in reaction.depends_on()]
    species, reaction = np.array(pairs, np.int64).reshape(-1, 2).T
    n_places, n_items = len(network.species) + 1, max(1, len(item_of))
    result = TableRows.sorted_pairs(species, item_of[reaction], n_places, n_items)
    starts, ends = result.start[:-1], result.start[1:]
    book.records("READERS", [_intervals(network), starts, ends, np.zeros(n_places)])
    order = np.argsort(item_of)
    read = order[result.items]
    own = np.repeat(np.arange(n_places), ends - starts)
    first, second, kind = forms[read].T
    sources = np.array([constant_source(one) for one in reactions], np.int64)
    other = np.where(first == own, second, first)
    book.records("READER", [result.items, sources[read], other, kind])
    literals = np.array([literal_of(one) for one in reactions], np.float64)
    book.real("READER_RATE", literals[read])


def shared_parts(book: TableBook, words: int) -> list[int]:
    """Bytes of a team's state that may be in shared memory.

    The root and so many words of each species; nodes above the lowest level: see
    csrc/tables/rejection/tree_of_lanes.h.
    """
    first = 8 * NODE_SIZE + 4 * padded(words * book["N_PLACES"], 4)
    return [first, 8 * NODE_SIZE * book["UPPER_NODES"]]


def rejection_layout(
    parts: Mapping[int, Sequence[int]], team: int, trajectories: int, backend: Backend
) -> tuple[int, int, int]:
    """With `rssa`: blocks of a multiprocessor, words of each species together, and fast parts.

    `parts` are those of the state by words of a species, the most first. Registers have to do for
    as many blocks as all trajectories take. There are fewer words together, and then fewer blocks,
    where otherwise nothing would be in shared memory.
    """
    teams = max(1, THREADS_OF_A_BLOCK // team)
    most = -(-trajectories // (backend.multiprocessors * teams)) if trajectories else MOST_BLOCKS
    most = max(FEWEST_BLOCKS, min(MOST_BLOCKS, most))
    for blocks in range(most, FEWEST_BLOCKS - 1, -1):
        for words, sizes in parts.items():
            if fast := fast_parts(sizes, team, trajectories, backend, blocks * teams):
                return blocks, words, fast
    return most, max(parts), 0

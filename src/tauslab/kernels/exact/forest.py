"""The forest of sum trees that a large network is simulated with, as tables for tables/forest.h.

Every sum has a *place* in a trajectory's array of values: the levels of the top tree (leaves
first, the total last), the chunks of terms, sums of chunks where an owner has more than one, and
the stored tree. All groups of 32 neighbours begin at a multiple of 32 within their level.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tauslab.base.arrays import IntArray
from tauslab.kernels.exact.owners import (
    FIXED,
    LITERAL_CONSTANT,
    PARTNERS,
    SAME_SPECIES,
    Terms,
    narrowest,
    width_of,
)
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.kernels.network.tables import LANES, TableBook, padded

# Of whole numbers that are no sums of counts, in place of their first run: as in tables/forest.h.
NO_PARTNERS = -2
OCTET = 8  # whole numbers that a CPU loads at once


@dataclass
class Chunks:
    """Chunks of an owner's terms, widest first.

    `owner`, `width`, `term` (first padded term), one entry a chunk; owners with more than one chunk
    begin at a multiple of 32, empty chunks between have owner -1. `place` maps terms to padded
    terms, of which there are `n_terms`, the last 32 always empty. `of_term`: chunk of each term.
    """

    owner: IntArray
    width: IntArray
    term: IntArray
    place: IntArray
    of_term: IntArray
    n_terms: int
    first: IntArray
    count: IntArray

    @property
    def wide(self) -> IntArray:
        """Owners with more than one chunk."""
        return np.flatnonzero(self.count > 1)


def cut_into_chunks(terms: Terms) -> Chunks:
    """Give every term a place; a chunk of a lone owner is as wide as the next power of two."""
    counts = np.bincount(terms.owner, minlength=len(terms.owners))
    least = narrowest(counts)
    count = -(-counts // LANES)
    width = np.array([max(least, width_of(c)) for c in counts.tolist()], np.int64)
    width[count > 1] = LANES
    owners, widths, first = [], [], np.zeros(len(counts), np.int64)
    wide = np.flatnonzero(count > 1)
    taken = 0
    for owner in wide.tolist():
        first[owner] = taken
        size = padded(int(count[owner]))
        taken += size
        owners.append(np.where(np.arange(size) < count[owner], owner, -1))
        widths.append(np.full(size, LANES))
    alone = np.flatnonzero(count == 1)
    alone = alone[np.argsort(-width[alone], kind="stable")]
    first[alone] = taken + np.arange(len(alone))
    owner_of = np.concatenate([*owners, alone]).astype(np.int64)
    width_of_chunk = np.concatenate([*widths, width[alone]]).astype(np.int64)

    used = np.where(owner_of >= 0, width_of_chunk, 0)
    begin = np.cumsum(used) - used
    n_terms = int(used.sum()) + LANES
    begin[owner_of < 0] = n_terms - LANES
    starts = np.cumsum(counts) - counts
    within = np.arange(len(terms.owner)) - starts[terms.owner]
    of_term = first[terms.owner] + within // LANES
    place = begin[of_term] + within % LANES
    return Chunks(owner_of, width_of_chunk, begin, place, of_term, n_terms, first, count)


@dataclass(frozen=True)
class Numbers:
    """Terms that have a whole number that is stored: the first `stored` of every chunk.

    Those of a chunk begin at `first`; `of_term` has the place of each term's, or -1. The others are
    numbers of reactions, which never change, times constants that all trajectories share.
    """

    first: IntArray
    stored: IntArray
    of_term: IntArray
    total: int


def number_terms(terms: Terms, chunks: Chunks) -> Numbers:
    """Give a place to every whole number that changes, or whose constant is a trajectory's own."""
    lane = chunks.place - chunks.term[chunks.of_term]
    changes = (terms.kind != FIXED) | (terms.source != LITERAL_CONSTANT)
    stored = np.zeros(len(chunks.width), np.int64)
    np.maximum.at(stored, chunks.of_term[changes], lane[changes] + 1)
    first = np.cumsum(stored) - stored
    of_term = np.where(lane < stored[chunks.of_term], first[chunks.of_term] + lane, -1)
    return Numbers(first, stored, of_term, int(stored.sum()))


@dataclass
class Sums:
    """Places of sums: what is a child of what, by stages from the leaves up."""

    n_values: int = 0
    node_child: list[IntArray] = field(default_factory=list)
    node_value: list[IntArray] = field(default_factory=list)

    def take(self, count: int) -> int:
        """Take `count` values, of which several begin where memory is fetched from at once."""
        begin = padded(self.n_values) if count > 1 else self.n_values
        self.n_values = begin + count
        return begin

    def level(self, stage: int, child: IntArray, value: IntArray) -> None:
        """Nodes that sum 32 values from `child` on, in one stage."""
        while len(self.node_child) <= stage:
            self.node_child.append(np.zeros(0, np.int64))
            self.node_value.append(np.zeros(0, np.int64))
        self.node_child[stage] = np.concatenate([self.node_child[stage], child])
        self.node_value[stage] = np.concatenate([self.node_value[stage], value])

    def nodes(self) -> tuple[IntArray, IntArray]:
        """First child and place of every node."""
        none = [np.zeros(0, np.int64)]
        return np.concatenate(none + self.node_child), np.concatenate(none + self.node_value)

    def parents(self) -> tuple[IntArray, IntArray, IntArray]:
        """Node in which each value is summed, or -1; every node's stage and value."""
        child, value = self.nodes()
        sizes = [len(nodes) for nodes in self.node_child]
        parent = np.full(self.n_values, -1, np.int64)
        if len(child):
            below = (child[:, None] + np.arange(LANES)).ravel()
            parent[below] = np.repeat(np.arange(len(child)), LANES)
        return parent, np.repeat(np.arange(len(sizes)), sizes), value


def tree_sizes(leaves: int) -> list[int]:
    """Values of each level of a sum tree, padded, and of its root.

    >>> tree_sizes(33)
    [64, 32, 1]
    """
    sizes = [padded(max(1, leaves))]
    while sizes[-1] > LANES:
        sizes.append(padded(sizes[-1] // LANES))
    return [*sizes, 1]


class ForestTables:
    """Lays the forest out and writes its tables into a book.

    Parameters
    ----------
    terms
        Of the reactions that have owners.
    stored
        Numbers of the other reactions, whose propensities are leaves of a tree of their own.

    Attributes
    ----------
    chunks_at, leaves_at
        Places of the first chunk of owners with several, and of the first stored leaf.
    root
        Place of the sum of an owner's chunks; -1 where it has one, whose sum is not kept.
    lower
        Stages of sums below the owners.
    species_chunk, touched
        (species, chunk) and (species, whole number) where a count is part of a term.
    """

    def __init__(
        self, book: TableBook, network: LoweredNetwork, terms: Terms, stored: IntArray
    ) -> None:
        self._book, self._network, self.terms, self.stored = book, network, terms, stored
        self.sums = Sums()
        self.chunks = cut_into_chunks(terms)
        self.numbers = number_terms(terms, self.chunks)
        self._lay_out()
        self._write_terms()
        self._write_partners()

    # ------------------------------------------------------------------ places

    def _lay_out(self) -> None:
        sums, chunks, book = self.sums, self.chunks, self._book
        owners, stored = len(self.terms.owners), len(self.stored)
        top = tree_sizes(owners + (stored > 0))[:-1] if owners else []
        top_at = [sums.take(size) for size in top]
        alone = chunks.count == 1
        self.chunks_at = sums.take(padded(len(chunks.owner) - int(alone.sum())))
        self.root = np.where(alone, -1, self.chunks_at + chunks.first)
        upper_at, upper_child, self.lower = self._lay_out_wide()
        self.leaves_at = padded(sums.n_values)
        stored_at: list[int] = []
        if stored or not owners:
            sizes = tree_sizes(stored)
            stored_at = [sums.take(size) for size in sizes[:-1]]
            at = [*stored_at, owners] if owners else stored_at  # the sum of all is a leaf, or none
            self._link(0, sizes[: len(at)], at)
            self.lower = max(self.lower, len(at) - 1)
        if owners:
            self._link(self.lower, top, top_at)
        book.places("TOP_LEVEL", top_at)
        book.places("STORED_LEVEL", stored_at)
        book.whole("UPPER_CHILD", upper_child)
        term, _, _, shape = self.chunk_records(chunks.first)
        book.records("OWNER", [self.terms.owners, self.root, term, shape])
        book.whole("LEAF_REACTION", self.stored)
        for name, value in (
            ("N_OWNERS", owners), ("N_LEAVES", stored), ("N_VALUES", padded(sums.n_values)),
            ("V_TOP", 0), ("V_CHUNKS", self.chunks_at), ("V_UPPER", upper_at),
            ("V_LEAVES", self.leaves_at), ("V_ROOT", (top_at or stored_at)[-1]),
            ("HAS_UPPER", len(upper_child) > 0), ("TOP_LEVELS", len(top)),
            ("ROOT_LANES", _lanes_of_root(owners + (stored > 0) if owners else stored)),
            ("STORED_LEVELS", len(stored_at)), ("NODE_STAGES", len(sums.node_child)),
            ("LOWER_STAGES", self.lower),
        ):  # fmt: skip
            book.constant(name, value)
        book.records("NODE", list(sums.nodes()))
        book.whole("STAGE_NODE", np.cumsum([0, *map(len, sums.node_child)]))

    def _link(self, stage: int, sizes: list[int], at: list[int]) -> None:
        """Nodes between the levels of one tree."""
        for depth, size in enumerate(sizes[:-1]):
            groups = np.arange(size // LANES)
            self.sums.level(stage + depth, at[depth] + groups * LANES, at[depth + 1] + groups)

    def _lay_out_wide(self) -> tuple[int, IntArray, int]:
        """Sums above the chunks of owners that have several.

        Returns where they begin, the first child of each, and how many stages there are.
        """
        chunks, sums = self.chunks, self.sums
        upper_at = sums.n_values
        children: list[IntArray] = []
        stages = 0
        for owner in chunks.wide.tolist():
            begin, count, stage = int(self.root[owner]), int(chunks.count[owner]), 0
            while count > 1:
                groups = np.arange(-(-count // LANES))
                space = 1 if len(groups) == 1 else padded(len(groups))
                above = sums.take(space)
                sums.level(stage, begin + groups * LANES, above + groups)
                children.append(np.resize(begin + groups * LANES, space))
                begin, count, stage = above, len(groups), stage + 1
            self.root[owner] = begin
            stages = max(stages, stage)
        flat = np.concatenate(children) if children else np.zeros(0, np.int64)
        return upper_at, flat, stages

    def chunk_records(self, chunk: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """First term, place, species of the owner, and the word of csrc/tables/forest.h's `Shape`.

        The only chunk of an owner has no place but the owner's, where its sum times the count of
        the species belongs. A chunk of several has its own, and no species, -1.
        """
        chunks = self.chunks
        owner = chunks.owner[chunk]
        alone = (owner >= 0) & (chunks.count[owner] == 1)
        place = np.where(alone, owner, self.chunks_at + chunk)
        species = np.where(alone, self.terms.owners[owner], -1)
        numbers = self.numbers.first[chunk] * 64 + self.numbers.stored[chunk]
        shape = numbers * 8 + _exponent(chunks.width)[chunk]
        return chunks.term[chunk], place, species, shape

    # ------------------------------------------------------------------ terms and partners

    def _write_terms(self) -> None:
        terms, chunks, book = self.terms, self.chunks, self._book
        literal, source = np.zeros((2, chunks.n_terms)), np.full(chunks.n_terms, -2)
        literal[:, chunks.place], source[chunks.place] = terms.literal, terms.source
        literal[1, chunks.place] *= np.where(self.numbers.of_term < 0, terms.sizes, 1)
        book.real("TERM_RATE", literal[0])
        book.real("TERM_LITERAL", literal[1])
        if self._network.constants:
            book.whole("TERM_SOURCE", source)
        else:
            book.constant("AT_TERM_SOURCE", 0)
        book.records("CHUNK", self.chunk_records(np.arange(len(chunks.width))))
        book.constant("N_CHUNKS", len(chunks.width))

    def _write_partners(self) -> None:
        """Whole numbers of terms, then of runs of 32 partners; and which a species touches."""
        terms, chunks, book = self.terms, self.chunks, self._book
        number, n = self.numbers.of_term, self.numbers.total
        long = np.flatnonzero((terms.kind == PARTNERS) & (terms.sizes > LANES))
        runs = -(-terms.sizes[long] // LANES)
        first_run = np.zeros(len(terms.kind), np.int64)
        first_run[long] = n + np.cumsum(runs) - runs
        which = np.repeat(np.arange(len(long)), runs)
        within = np.arange(len(which)) - np.repeat(np.cumsum(runs) - runs, runs)
        run_begin = terms.start[long][which] + within * LANES
        run_end = np.minimum(run_begin + LANES, terms.start[long + 1][which])
        kind = np.where(terms.kind == PARTNERS, first_run, -terms.kind)
        columns = terms.start[:-1], terms.start[1:], kind, terms.reaction[terms.start[:-1]]
        records = np.zeros((4, chunks.n_terms), np.int64)
        records[2] = NO_PARTNERS
        records[:, chunks.place] = columns
        book.records("TERM", list(records))
        # The next trajectory begins on a line, and eight numbers may be loaded at once.
        numbers = np.zeros((4, padded(n + len(which) + OCTET)), np.int64)
        numbers[2] = NO_PARTNERS
        numbers[:, number[number >= 0]] = np.stack(columns)[:, number >= 0]
        numbers[:, n : n + len(which)] = run_begin, run_end, 0 * which, 0 * which
        book.records("NUMBER", list(numbers))
        book.records("MEMBER", [terms.reaction, terms.partner])
        book.constant("N_WHOLE", numbers.shape[1])

        term = np.repeat(np.arange(len(terms.owner)), terms.sizes)
        moves = terms.kind[term] <= SAME_SPECIES
        species, of = terms.partner[moves], term[moves]
        touched = number[of]
        self.species_chunk = species, chunks.of_term[of]
        position = np.flatnonzero(moves)
        in_run = first_run[of] > 0
        run = first_run[of] + (position - terms.start[of]) // LANES
        self.touched = (
            np.concatenate([species, species[in_run]]),
            np.concatenate([touched, run[in_run]]),
        )


def _lanes_of_root(leaves: int) -> int:
    """The power of two that holds the sums below the root of a tree of so many leaves."""
    while leaves > LANES:
        leaves = -(-leaves // LANES)
    return max(2, width_of(leaves))


def _exponent(width: IntArray) -> IntArray:
    """Exponents of powers of two up to 32."""
    return np.searchsorted(1 << np.arange(6), width)

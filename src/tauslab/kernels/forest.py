"""The forest of sum trees that a large network is simulated with, as tables for csrc/forest.h.

Every sum has a *place* in a trajectory's array of values: the levels of the top tree (leaves
first, the total last), the chunks of terms, sums of chunks where an owner has more than one, and
the stored tree. All groups of 32 neighbours begin at a multiple of 32 within their level.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tauslab.kernels.lowering import LoweredNetwork
from tauslab.kernels.tables import LANES, IntArray, TableBook, padded
from tauslab.kernels.terms import PARTNERS, SAME_SPECIES, Terms, narrowest, width_of

# Of whole numbers that are no sums of counts, in place of their first run: as in csrc/forest.h.
NO_PARTNERS = -2


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


@dataclass
class Sums:
    """Places of sums: what is a child of what, by stages from the leaves up."""

    n_values: int = 0
    node_child: list[IntArray] = field(default_factory=list)
    node_value: list[IntArray] = field(default_factory=list)

    def take(self, count: int) -> int:
        """Room for `count` values, of which several begin where memory is fetched from at once."""
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
        """For every value the node it is summed in, or -1; every node's stage and value."""
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
    levels
        Of sums above the stored leaves, if not all up to the total.

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
        self,
        book: TableBook,
        network: LoweredNetwork,
        terms: Terms,
        stored: IntArray,
        *,
        levels: int | None = None,
    ) -> None:
        self._book, self._network, self.terms, self.stored = book, network, terms, stored
        self.sums = Sums()
        self._levels = levels
        self.chunks = cut_into_chunks(terms)
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
            kept = sizes[:-1] if self._levels is None else sizes[: self._levels + 1]
            stored_at = [sums.take(size) for size in kept]
            at = [*stored_at, owners] if owners else stored_at  # the sum of all is a leaf, or none
            self._link(0, sizes[: len(at)], at)
            self.lower = max(self.lower, len(at) - 1)
        if owners:
            self._link(self.lower, top, top_at)
        book.places("TOP_LEVEL", top_at)
        book.places("STORED_LEVEL", stored_at)
        book.whole("UPPER_CHILD", upper_child)
        term, place, _ = self.chunk_records(chunks.first)
        book.records("OWNER", [self.terms.owners, self.root, term, place % 8])
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
                room = 1 if len(groups) == 1 else padded(len(groups))
                above = sums.take(room)
                sums.level(stage, begin + groups * LANES, above + groups)
                children.append(np.resize(begin + groups * LANES, room))
                begin, count, stage = above, len(groups), stage + 1
            self.root[owner] = begin
            stages = max(stages, stage)
        flat = np.concatenate(children) if children else np.zeros(0, np.int64)
        return upper_at, flat, stages

    def chunk_records(self, chunk: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """First term; place times 8 plus the exponent of the width; species of the owner.

        The only chunk of an owner has no place but the owner's, where its sum times the count of
        the species belongs. A chunk of several has its own, and no species, -1.
        """
        chunks = self.chunks
        owner = chunks.owner[chunk]
        alone = (owner >= 0) & (chunks.count[owner] == 1)
        place = np.where(alone, owner, self.chunks_at + chunk)
        species = np.where(alone, self.terms.owners[owner], -1)
        return chunks.term[chunk], place * 8 + _exponent(chunks.width)[chunk], species

    # ------------------------------------------------------------------ terms and partners

    def _write_terms(self) -> None:
        terms, chunks, book = self.terms, self.chunks, self._book
        literal, source = np.zeros(chunks.n_terms), np.full(chunks.n_terms, -2)
        literal[chunks.place], source[chunks.place] = terms.literal, terms.source
        book.real("TERM_LITERAL", literal)
        if self._network.constants:
            book.whole("TERM_SOURCE", source)
        else:
            book.constant("AT_TERM_SOURCE", 0)
        term, place, species = self.chunk_records(np.arange(len(chunks.width)))
        book.records("CHUNK", [term, place, species, 0 * term])
        book.constant("N_CHUNKS", len(chunks.width))

    def _write_partners(self) -> None:
        """Whole numbers of terms, then of runs of 32 partners; and which a species touches."""
        terms, chunks, book = self.terms, self.chunks, self._book
        n = chunks.n_terms
        begin, end, kind = np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, 2)
        begin[chunks.place], end[chunks.place] = terms.start[:-1], terms.start[1:]
        kind[chunks.place] = terms.kind
        long = np.flatnonzero((terms.kind == PARTNERS) & (terms.sizes > LANES))
        runs = -(-terms.sizes[long] // LANES)
        first_run = np.zeros(n, np.int64)
        first_run[chunks.place[long]] = n + np.cumsum(runs) - runs
        which = np.repeat(np.arange(len(long)), runs)
        within = np.arange(len(which)) - np.repeat(np.cumsum(runs) - runs, runs)
        run_begin = terms.start[long][which] + within * LANES
        run_end = np.minimum(run_begin + LANES, terms.start[long + 1][which])
        first = np.zeros(n, np.int64)
        first[chunks.place] = terms.reaction[terms.start[:-1]]
        rest = padded(n + len(which)) - n - len(which)  # the next trajectory begins on a line
        fixed = np.full(rest, NO_PARTNERS), np.zeros(rest)
        book.records(
            "WHOLE",
            [
                np.concatenate([begin, run_begin, fixed[1]]),
                np.concatenate([end, run_end, fixed[1]]),
                np.concatenate([np.where(kind == PARTNERS, first_run, -kind), 0 * which, fixed[0]]),
                np.concatenate([first, 0 * which, fixed[1]]),
            ],
        )
        book.records("MEMBER", [terms.reaction, terms.partner])
        book.constant("N_WHOLE", n + len(which) + rest)

        term = np.repeat(np.arange(len(terms.owner)), terms.sizes)
        moves = terms.kind[term] <= SAME_SPECIES
        species, touched = terms.partner[moves], chunks.place[term[moves]]
        self.species_chunk = species, chunks.of_term[term[moves]]
        position = np.flatnonzero(moves)
        in_run = first_run[touched] > 0
        run = first_run[touched] + (position - terms.start[term[moves]]) // LANES
        self.touched = (
            np.concatenate([species, species[in_run]]), np.concatenate([touched, run[in_run]]),
        )  # fmt: skip


def _lanes_of_root(leaves: int) -> int:
    """The power of two that holds the sums below the root of a tree of so many leaves."""
    while leaves > LANES:
        leaves = -(-leaves // LANES)
    return max(2, width_of(leaves))


def _exponent(width: IntArray) -> IntArray:
    """Of powers of two up to 32."""
    return np.searchsorted(1 << np.arange(6), width)

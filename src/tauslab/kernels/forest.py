"""The forest of sum trees that a large network is simulated with, as tables for csrc/forest.h.

Every sum has a *place* in a trajectory's array of values: the levels of the top tree (leaves
first, the total last), the chunks of terms, sums of chunks where an owner has more than one, and
the stored tree. All groups of 32 neighbours begin at a multiple of 32 within their level.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tauslab.kernels.lowering import LoweredNetwork
from tauslab.kernels.tables import LANES, IntArray, Rows, TableBook, distinct, padded
from tauslab.kernels.terms import PARTNERS, SAME_SPECIES, Terms, narrowest, width_of

# Up to this many entries the plans of events are stored per set of changed species, without
# repeats; beyond it, per species.  No result depends on it.
MOST_PLANNED = 1 << 23


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
        """Room for `count` values; where it begins."""
        begin = self.n_values
        self.n_values += count
        return begin

    def level(self, stage: int, child: IntArray, value: IntArray) -> None:
        """Nodes that sum 32 values from `child` on, in one stage."""
        while len(self.node_child) <= stage:
            self.node_child.append(np.zeros(0, np.int64))
            self.node_value.append(np.zeros(0, np.int64))
        self.node_child[stage] = np.concatenate([self.node_child[stage], child])
        self.node_value[stage] = np.concatenate([self.node_value[stage], value])

    def parents(self) -> tuple[IntArray, IntArray, IntArray]:
        """For every value the node it is summed in, or -1; every node's stage and value."""
        child, value = np.concatenate(self.node_child), np.concatenate(self.node_value)
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
    """

    def __init__(
        self, book: TableBook, network: LoweredNetwork, terms: Terms, stored: IntArray
    ) -> None:
        self._book, self._network, self._terms, self._stored = book, network, terms, stored
        self._sums = Sums()
        self._chunks = cut_into_chunks(terms)
        self._lay_out()
        self._write_terms()
        self._write_partners()
        self._write_plan()

    # ------------------------------------------------------------------ places

    def _lay_out(self) -> None:
        sums, chunks, book = self._sums, self._chunks, self._book
        owners, stored = len(self._terms.owners), len(self._stored)
        top = tree_sizes(owners + (stored > 0)) if owners else []
        top_at = [sums.take(size) for size in top]
        chunks_at = sums.take(padded(len(chunks.owner)))
        root = chunks_at + chunks.first  # of each owner's terms
        upper_at, upper_child, lower = self._lay_out_wide(chunks_at, root)
        leaves_at = sums.n_values
        stored_levels: list[int] = []
        if stored or not owners:
            sizes = tree_sizes(stored)
            stored_levels = [sums.take(size) for size in sizes[:-1]]
            stored_root = owners or sums.take(1)
            self._link(0, sizes, [*stored_levels, stored_root])
            lower = max(lower, len(sizes) - 1)
        if owners:
            self._link(lower, top, top_at)
        if not sums.node_child:
            sums.level(0, np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._chunks_at, self._leaves_at, self._root, self._lower = (
            chunks_at, leaves_at, root, lower,
        )  # fmt: skip
        book.whole("TOP_LEVEL", top_at[:-1])
        book.whole("STORED_LEVEL", stored_levels)
        book.whole("UPPER_CHILD", upper_child)
        book.whole("OWNER_SPECIES", self._terms.owners)
        book.whole("OWNER_VALUE", root)
        book.whole("LEAF_REACTION", self._stored)
        total = top_at[-1] if owners else sums.n_values - 1
        for name, value in (
            ("N_OWNERS", owners), ("N_LEAVES", stored), ("N_VALUES", sums.n_values),
            ("V_TOP", 0), ("V_CHUNKS", chunks_at), ("V_UPPER", upper_at), ("V_LEAVES", leaves_at),
            ("V_TOTAL", total), ("HAS_UPPER", len(upper_child) > 0),
            ("TOP_LEVELS", max(0, len(top) - 1)), ("STORED_LEVELS", len(stored_levels)),
            ("NODE_STAGES", len(sums.node_child)), ("LOWER_STAGES", lower),
        ):  # fmt: skip
            book.constant(name, value)
        book.whole("NODE_CHILD", np.concatenate(sums.node_child))
        book.whole("NODE_VALUE", np.concatenate(sums.node_value))
        book.whole("STAGE_NODE", np.cumsum([0, *map(len, sums.node_child)]))

    def _link(self, stage: int, sizes: list[int], at: list[int]) -> None:
        """Nodes between the levels of one tree."""
        for depth, size in enumerate(sizes[:-1]):
            groups = np.arange(size // LANES)
            self._sums.level(stage + depth, at[depth] + groups * LANES, at[depth + 1] + groups)

    def _lay_out_wide(self, chunks_at: int, root: IntArray) -> tuple[int, IntArray, int]:
        """Sums above the chunks of owners that have several.

        Returns where they begin, the first child of each, and how many stages there are.
        """
        chunks, sums = self._chunks, self._sums
        upper_at = sums.n_values
        children: list[IntArray] = []
        stages = 0
        for owner in chunks.wide.tolist():
            begin, count, stage = chunks_at + int(chunks.first[owner]), int(chunks.count[owner]), 0
            while count > 1:
                groups = np.arange(-(-count // LANES))
                room = 1 if len(groups) == 1 else padded(len(groups))
                above = sums.take(room)
                sums.level(stage, begin + groups * LANES, above + groups)
                children.append(np.resize(begin + groups * LANES, room))
                begin, count, stage = above, len(groups), stage + 1
            root[owner] = begin
            stages = max(stages, stage)
        flat = np.concatenate(children) if children else np.zeros(0, np.int64)
        return upper_at, flat, stages

    # ------------------------------------------------------------------ terms and partners

    def _write_terms(self) -> None:
        terms, chunks, book = self._terms, self._chunks, self._book
        literal, source = np.zeros(chunks.n_terms), np.full(chunks.n_terms, -2)
        literal[chunks.place], source[chunks.place] = terms.literal, terms.source
        book.real("TERM_LITERAL", literal)
        if self._network.constants:
            book.whole("TERM_SOURCE", source)
        else:
            book.constant("AT_TERM_SOURCE", 0)
        book.whole("CHUNK_WIDTH", chunks.width)
        book.whole("CHUNK_TERM", chunks.term)
        book.constant("N_CHUNKS", len(chunks.width))

    def _write_partners(self) -> None:
        """Whole numbers of terms, then of runs of 32 partners; and which a species touches."""
        terms, chunks, book = self._terms, self._chunks, self._book
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
        book.whole("WHOLE_BEGIN", np.concatenate([begin, run_begin]))
        book.whole("WHOLE_END", np.concatenate([end, run_end]))
        book.whole("WHOLE_KIND", np.concatenate([kind, np.zeros(len(which))]))
        book.whole("TERM_RUNS", first_run)
        book.whole("MEMBER", terms.reaction)
        book.whole("PARTNER", terms.partner)
        book.constant("N_WHOLE", n + len(which))

        term = np.repeat(np.arange(len(terms.owner)), terms.sizes)
        moves = terms.kind[term] <= SAME_SPECIES
        species, touched = terms.partner[moves], chunks.place[term[moves]]
        self._species_chunk = species, chunks.of_term[term[moves]]
        position = np.flatnonzero(moves)
        in_run = first_run[touched] > 0
        run = first_run[touched] + (position - terms.start[term[moves]]) // LANES
        self._write_touch(
            np.concatenate([species, species[in_run]]), np.concatenate([touched, run[in_run]])
        )

    def _write_touch(self, species: IntArray, whole: IntArray) -> None:
        book, width = self._book, max(1, self._book["N_WHOLE"])
        key, times = np.unique(species * width + whole, return_counts=True)
        rows = np.searchsorted(key, np.arange(len(self._network.species) + 1) * width)
        book.whole("TOUCH_ROW", rows)
        book.whole("TOUCH_WHOLE", key % width)
        book.whole("TOUCH_TIMES", times)

    # ------------------------------------------------------------------ plans

    def _write_plan(self) -> None:
        network, book = self._network, self._book
        n_species = len(network.species)
        slot = {int(j): leaf for leaf, j in enumerate(self._stored.tolist())}
        reads = [(i, leaf) for j, leaf in slot.items() for i in network.reactions[j].depends_on()]
        read = np.array(reads, np.int64).reshape(-1, 2)
        leaves = Rows.sorted_pairs(read[:, 0], read[:, 1], n_species, max(1, len(self._stored)))
        chunks = Rows.sorted_pairs(*self._species_chunk, n_species, max(1, len(self._chunks.owner)))
        sets: dict[tuple[int, ...], int] = {}
        changed = [tuple(i for i, _ in r.change) for r in network.reactions]
        for key in changed:
            sets.setdefault(key, len(sets))
        sizes = np.diff(leaves.start) + np.diff(chunks.start)
        species_of_set = Rows.of(sets)
        if int(sizes[species_of_set.items].sum()) <= MOST_PLANNED:
            parts, plan = species_of_set, Rows.of([sets[key]] for key in changed)
        else:
            one_each = np.arange(n_species)
            parts, plan = Rows(np.arange(n_species + 1), one_each), Rows.of(changed)
        book.rows("PLAN_ROW", "PLAN_PART", plan)
        stages = self._stages(parts, leaves, chunks)
        self._write_parts(stages, len(parts.start) - 1)

    def _stages(self, parts: Rows, leaves: Rows, chunks: Rows) -> list[tuple[IntArray, IntArray]]:
        """(part, item) of leaves, chunks, owners, and nodes stage by stage."""
        parent, stage_of, value = self._sums.parents()
        which, species = parts.expand(np.arange(len(parts.start) - 1))
        stages: list[tuple[IntArray, IntArray]] = []
        updated: list[tuple[IntArray, IntArray]] = []  # (part, place)
        for rows, at in ((leaves, self._leaves_at), (chunks, self._chunks_at)):
            pair, item = rows.expand(species)
            stages.append(_distinct(which[pair], item))
            updated.append((stages[-1][0], stages[-1][1] + at))
        owner_of_place = np.full(self._sums.n_values, -1, np.int64)
        owner_of_place[self._root] = np.arange(len(self._root))
        owner_of_species = np.full(len(self._network.species), -1, np.int64)
        owner_of_species[self._terms.owners] = np.arange(len(self._terms.owners))
        own = owner_of_species[species]
        nodes = []
        for stage in range(len(self._sums.node_child)):
            if stage == self._lower and len(self._root):
                part, place = _joined(updated)
                met = owner_of_place[place]
                stages.append(
                    _distinct(
                        np.concatenate([part[met >= 0], which[own >= 0]]),
                        np.concatenate([met[met >= 0], own[own >= 0]]),
                    )
                )
                updated.append(stages[-1])  # the leaf of an owner stands at its number
            part, place = _joined(updated)
            above = parent[place]
            here = (above >= 0) & (stage_of[above] == stage)
            nodes.append(_distinct(part[here], above[here]))
            updated.append((nodes[-1][0], value[nodes[-1][1]]))
        if len(stages) == 2:
            stages.append((np.zeros(0, np.int64), np.zeros(0, np.int64)))
        return stages + nodes

    def _write_parts(self, stages: list[tuple[IntArray, IntArray]], n_parts: int) -> None:
        """Items by part and stage."""
        book, n_stages = self._book, len(stages)
        row = np.concatenate([part * n_stages + s for s, (part, _) in enumerate(stages)])
        item = np.concatenate([item for _, item in stages])
        order = np.argsort(row, kind="stable")
        book.whole("PART_ROW", np.searchsorted(row[order], np.arange(n_parts * n_stages + 1)))
        book.whole("PART_ITEM", item[order])
        book.constant("PLAN_STAGES", n_stages)


def _joined(pairs: list[tuple[IntArray, IntArray]]) -> tuple[IntArray, IntArray]:
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def _distinct(part: IntArray, item: IntArray) -> tuple[IntArray, IntArray]:
    """Distinct pairs, sorted."""
    width = int(item.max()) + 1 if len(item) else 1
    key = distinct(part * width + item)
    return key // width, key % width

"""Tables of a network for leaps that many threads take together, see ``leaping/fine/network.h``."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tauslab.base.arrays import IntArray
from tauslab.kernels.exact.owners import constant_source, literal_of
from tauslab.kernels.exact.table_network import write_samples
from tauslab.kernels.leaping.codegen import CRITICAL_FIRINGS
from tauslab.kernels.network.lowering import LoweredNetwork, LoweredReaction, counts_in
from tauslab.kernels.network.tables import LANES, Pairs, TableBook, TableRows, padded

NO_REACTANT, OTHER_REACTION = -1, -2  # as in csrc/leaping/fine/network.h
SHORT_ROW = 32
_MOST_FEW = 2**15 - 1  # that fit beside another in a word
_PACKED_LEAVES, _PACKED_BY = 2**27, 7


class FineTables:
    """Lays a network out and writes its tables into `book`.

    Reactions are leaves, sorted by their reactants, so that those that read the same counts are
    neighbours. The order is a function of the network, and part of the method.
    """

    def __init__(self, network: LoweredNetwork) -> None:
        self._network = network
        self._species = len(network.species)
        self._leaves = len(network.reactions)
        reactions = network.reactions
        first, second = (
            Pairs.of(r.orders for r in reactions).first_of(self._leaves, i)[0] for i in (0, 1)
        )
        self._number = np.lexsort((np.arange(self._leaves), second, first))
        self._reactions = [reactions[j] for j in self._number.tolist()]
        self.book = TableBook()
        self._write_leaves()
        self._write_flows()
        self._write_orders()
        self._write_events()
        self._write_levels()
        write_samples(self.book, network)

    # ------------------------------------------------------------------ reactions

    @cached_property
    def _orders(self) -> Pairs:
        return Pairs.of(r.orders for r in self._reactions)

    @cached_property
    def _changes(self) -> Pairs:
        return Pairs.of(r.change for r in self._reactions)

    def _write_leaves(self) -> None:
        book, reactions, n = self.book, self._reactions, self._leaves
        first, first_copies = self._orders.first_of(n, 0)
        second, _ = self._orders.first_of(n, 1)
        molecules = np.bincount(self._orders.row, self._orders.number, n).astype(np.int64)
        few_first, few_second = np.zeros(n, np.int64), np.zeros(n, np.int64)
        takes = self._changes.number < 0
        leaf, species = self._changes.row[takes], self._changes.species[takes]
        few = -self._changes.number[takes] * CRITICAL_FIRINGS
        is_first, is_second = species == first[leaf], species == second[leaf]
        few_first[leaf[is_first]] = few[is_first]
        few_second[leaf[is_second]] = few[is_second]
        other = (molecules > 2) | (np.maximum(few_first, few_second) > _MOST_FEW)
        other[leaf[~(is_first | is_second)]] = True
        other |= np.fromiter((bool(r.needs) or r.law is not None for r in reactions), bool, n)
        second = np.where((first_copies == 2) & (second < 0), first, second)
        chosen = np.flatnonzero(other)
        word = few_first | few_second << 16
        word[chosen] = np.arange(len(chosen))
        book.whole(
            "FIRST", np.where(other, OTHER_REACTION, np.where(first < 0, NO_REACTANT, first))
        )
        book.whole("SECOND", second)
        book.whole("FEW", word)
        book.real("RATE", [literal_of(r) for r in reactions])
        if self._network.constants:
            book.whole("SOURCE", [constant_source(r) for r in reactions])
        else:
            book.constant("AT_SOURCE", 0)
        self._write_others([reactions[leaf] for leaf in chosen.tolist()], self._number[chosen])

    def _write_others(self, reactions: list[LoweredReaction], numbers: IntArray) -> None:
        """Rows of reactions that are not a constant times two counts at most."""
        book = self.book
        is_law = np.array([r.law is not None for r in reactions], bool)
        book.whole("OTHER_LAW", np.where(is_law, numbers, -1))
        takes = [[(i, -by * CRITICAL_FIRINGS) for i, by in r.change if by < 0] for r in reactions]
        for name, value, rows in (
            ("ORDER", "COUNT", [r.orders for r in reactions]),
            ("NEED", "COUNT", [r.needs for r in reactions]),
            ("TAKE", "FEW", [tuple(row) for row in takes]),
        ):
            book.pairs(name, value, rows)

    # ------------------------------------------------------------------ species

    def _write_flows(self) -> None:
        """The transposed stoichiometry: for each species, leaves in order and changes."""
        book, changes = self.book, self._changes
        order = np.lexsort((changes.row, changes.species))
        leaf, by = changes.row[order], changes.number[order]
        row = np.searchsorted(changes.species[order], np.arange(self._species + 1))
        packed = self._leaves < _PACKED_LEAVES and bool((np.abs(by) <= _PACKED_BY).all())
        book.whole("FLOW_ROW", row)
        book.whole("FLOW", leaf << 4 | (by + 8) if packed else leaf)
        book.whole("FLOW_BY", [] if packed else by)
        book.constant("FLOWS_PACKED", packed)
        long = np.flatnonzero(np.diff(row) > SHORT_ROW)
        book.whole("LONG_ROW", long)
        book.constant("N_LONG_ROWS", len(long))

    def _write_orders(self) -> None:
        """Write how species limit leaps: the highest order of their reactions, and copies."""
        book, orders = self.book, self._orders
        molecules = np.bincount(orders.row, orders.number, self._leaves).astype(np.int64)
        highest = np.zeros(self._species, np.int64)
        highest[np.flatnonzero(np.diff(self._readers.start))] = 1
        alone = orders.number == 1
        np.maximum.at(highest, orders.species[alone], molecules[orders.row[alone]])
        kinds: dict[int, set[tuple[int, int]]] = {}
        several = np.flatnonzero(~alone)
        for i in several.tolist():
            kind = int(molecules[orders.row[i]]), int(orders.number[i])
            kinds.setdefault(int(orders.species[i]), set()).add(kind)
        sets: dict[tuple[tuple[int, int], ...], int] = {(): 0}
        code = highest
        for species, own in kinds.items():
            code[species] |= sets.setdefault(tuple(sorted(own)), len(sets)) << 8
        changed = np.zeros(self._species, bool)
        changed[self._changes.species] = True
        book.whole("ORDER", np.where(changed, code, 0))
        listed = [kind for row in sets for kind in row]
        book.whole("SET_ROW", np.cumsum([0, *map(len, sets)]))
        book.whole("SET_COPIES", [copies for _, copies in listed])
        book.real("SET_RATIO", [whole / copies for whole, copies in listed])

    @cached_property
    def _laws(self) -> TableRows:
        """Leaves whose rate law reads each species."""
        pairs = [
            (i, leaf)
            for leaf in range(self._leaves)
            if (law := self._reactions[leaf].law) is not None
            for i in counts_in(law)
        ]
        flat = np.array(pairs, np.int64).reshape(-1, 2)
        return TableRows.sorted_pairs(flat[:, 0], flat[:, 1], self._species, self._leaves)

    @cached_property
    def _readers(self) -> TableRows:
        """Leaves whose propensity reads each species."""
        needs = Pairs.of(r.needs for r in self._reactions)
        laws = self._laws
        by_law = np.repeat(np.arange(self._species), np.diff(laws.start))
        species = np.concatenate([self._orders.species, needs.species, by_law])
        leaves = np.concatenate([self._orders.row, needs.row, laws.items])
        return TableRows.sorted_pairs(species, leaves, self._species, max(1, self._leaves))

    # ------------------------------------------------------------------ firings one by one, sums

    def _write_events(self) -> None:
        book, changes = self.book, self._changes
        book.whole("CHANGE_ROW", np.searchsorted(changes.row, np.arange(self._leaves + 1)))
        book.whole("CHANGE_SPECIES", changes.species)
        book.whole("CHANGE_BY", changes.number)
        book.rows("READER_ROW", "READER", self._readers)
        book.rows("LAW_ROW", "LAW_LEAF", self._laws)
        book.constant("N_LAW_READS", len(self._laws.items))

    def _write_levels(self) -> None:
        book = self.book
        nodes = [padded(max(1, self._leaves))]
        while nodes[-1] > 1:
            nodes.append(-(-nodes[-1] // LANES))
        begins = np.cumsum([0, *(padded(count) for count in nodes)])
        book.whole("LEVEL", begins[:-1])
        book.whole("NODES", nodes)
        book.constant("LEVELS", len(nodes) - 1)
        book.constant("N_SUMS", int(begins[-1] - begins[1]))
        book.constant("N_VALUES", int(begins[-1] + begins[-1] - begins[1]))

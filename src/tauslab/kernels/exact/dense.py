"""Strongly coupled networks, which look at every owner after a firing: tables/dense.h.

Where a firing changes the partial propensities of many owners, a list of them costs more than a
look at all: no result depends on which is done, so it may be chosen by anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.kernels.exact.forest import ForestTables
from tauslab.kernels.exact.owners import FIXED, PARTNERS, SAME_SPECIES
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.kernels.network.tables import LANES, TableBook, padded

MOST_SPECIES = 1024  # a lane looks at up to 32 of them in the choice of a partner
MOST_CHANGED = 4  # species that a firing changes, whose numbers are in registers
MOST_CHANGE = 1 << 20  # of a count, so that the sum of four fits into 32 bits
# Part of the owners that a firing touches on average. Colloidal aggregation has 0.25 to 0.4.
LEAST_TOUCHED = 1 / 8


@dataclass(frozen=True)
class Positions:
    """Species in the order of the dense tables, owners first, and who is whose partner.

    `species` has the species of every position; `partner` int64 ``[owner, position]`` the reaction
    of an owner with each species, -1 where there is none.
    """

    species: IntArray
    partner: IntArray

    @property
    def of_species(self) -> IntArray:
        """Position of each species."""
        return np.argsort(self.species)


def positions_of(
    network: LoweredNetwork, forest: ForestTables, weights: FloatArray
) -> Positions | None:
    """Positions of a network that is to be dense; None if it cannot or need not be."""
    terms, n = forest.terms, len(network.species)
    single = np.bincount(terms.owner * 3 + terms.kind, minlength=1).max() == 1
    small = n <= MOST_SPECIES and all(
        len(r.change) <= MOST_CHANGED and all(abs(by) <= MOST_CHANGE for _, by in r.change)
        for r in network.reactions
    )
    if len(forest.stored) or network.constants or not (single and small and len(terms.owners)):
        return None
    ranking = np.argsort(-weights, kind="stable")
    species = np.concatenate([terms.owners, ranking[~np.isin(ranking, terms.owners)]])
    place = np.argsort(species)
    term = np.repeat(np.arange(len(terms.owner)), terms.sizes)
    has = terms.kind[term] == PARTNERS
    row, column = terms.owner[term[has]], place[terms.partner[has]]
    in_order = np.diff(row * n + column) > 0  # as the members of the term stand, each once
    if not in_order.all():
        return None
    partner = np.full((len(terms.owners), n), -1)
    partner[row, column] = terms.reaction[has]
    readers = (partner >= 0).sum(axis=0)
    changed = [place[i] for r in network.reactions for i, _ in r.change]
    touched = float(readers[changed].sum()) / max(1, len(network.reactions))
    return Positions(species, partner) if touched >= LEAST_TOUCHED * len(terms.owners) else None


def write_dense(
    book: TableBook, network: LoweredNetwork, forest: ForestTables, positions: Positions
) -> None:
    """Write the tables, and places that take the room of those that are not needed."""
    owners, n = positions.partner.shape
    groups, run = padded(owners) // LANES, 1
    while run * LANES < n:
        run *= 2
    partner = np.pad(positions.partner, ((0, 0), (0, run * LANES - n)), constant_values=-1)
    touched = np.zeros((run * LANES + 1, groups * LANES), bool)
    touched[:-1, :owners] = (partner >= 0).T
    book.whole("TOUCHED_OWNERS", _bits(touched))
    of_lane = np.zeros((len(touched), LANES, LANES), bool)  # a bit for each group
    of_lane[:, :, :groups] = touched.reshape(-1, groups, LANES).transpose(0, 2, 1)
    book.whole("TOUCHED_OF_LANE", _bits(of_lane.reshape(-1, LANES)))
    book.whole("PARTNERS", _bits(partner >= 0))
    book.whole("REACTION_WITH", partner)
    book.whole("SPECIES_AT", positions.species)
    _write_changes(book, network, positions.of_species, nothing=run * LANES)
    _write_rates(book, forest, groups * LANES)
    first = forest.chunks_at
    for name, value in (
        ("OWNER_GROUPS", groups), ("RUN_OF_POSITIONS", run), ("V_PARTNERS", first),
        ("V_COUNT", first + groups * LANES), ("N_WHOLE", 0),
        ("N_VALUES", first + (groups + run + 1) * LANES),  # with gaps between counts
    ):  # fmt: skip
        book.constant(name, value)


def _write_changes(book: TableBook, network: LoweredNetwork, place: IntArray, nothing: int) -> None:
    """Positions and changes of every reaction, in pairs, an even number of them."""
    width = padded(max(len(r.change) for r in network.reactions), 2)
    pairs = np.zeros((len(network.reactions), width, 2), np.int64)
    pairs[:, :, 0] = nothing
    for j, reaction in enumerate(network.reactions):
        for k, (species, by) in enumerate(reaction.change):
            pairs[j, k] = place[species], by
    book.records("DENSE_CHANGE", list(pairs.reshape(-1, 4).T))
    book.constant("DENSE_CHANGES", width)
    book.constant("MOST_CHANGED", max(len(r.change) for r in network.reactions))


def _write_rates(book: TableBook, forest: ForestTables, n: int) -> None:
    """Rate constants of owners by kind of term; of reactions of one molecule times their number."""
    terms = forest.terms
    number = np.where(terms.kind == FIXED, terms.sizes, 1)
    for name, kind in (("PARTNER_RATE", PARTNERS), ("SAME_RATE", SAME_SPECIES), ("ALONE", FIXED)):
        rate, which = np.zeros(n), terms.kind == kind
        rate[terms.owner[which]] = (terms.literal * number)[which]
        book.real(name, rate)


def _bits(rows: BoolArray) -> IntArray:
    """Words of 32 bits of every row, the first bit lowest."""
    packed = np.packbits(rows, axis=1, bitorder="little")
    return packed.view("<i4").astype(np.int64)

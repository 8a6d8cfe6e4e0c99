"""Selectors that search sums with one number: `tree`, and `pdm` with partial propensities.

Sums of counts have 32 bits where that is proved to do. The proof takes masses: whole numbers m >= 1
of all species such that no reaction makes mass. Then the sum of all counts is at most the mass,
which is at most that of the start, in every state that can be reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.exact.dense import positions_of, write_dense
from tauslab.kernels.exact.forest import ForestTables
from tauslab.kernels.exact.owners import FIXED, Terms, build_terms, can_be_owned, change_weights
from tauslab.kernels.exact.plans import (
    TEAMS_OF_SHORT,
    fast_level,
    write_no_short,
    write_plans,
    write_short,
)
from tauslab.kernels.exact.table_selector import (
    THREADS_OF_A_BLOCK,
    Contents,
    TableSelector,
    fast_parts,
    shared_bytes,
    shared_bytes_of_team,
)
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.kernels.network.tables import LANES, Pairs, TableBook

# Blocks of a multiprocessor: fewer than 8 if all trajectories fit, so that a thread has more
# registers: 128 with 4 blocks, in which a team of a warp keeps partial sums. Dense networks have
# more than 64 to say: ns a firing of colloidal aggregation on an H200 with 8, 6 and 5 blocks, 8,192
# trajectories: 1.38, 1.25, 1.36.
FEW_BLOCKS, DENSE_BLOCKS, MOST_BLOCKS = 4, 6, 8
# Trajectories of a dense network whose sums are in shared memory, if there is not enough for all.
FEWEST_DENSE = 12


class Tree(TableSelector):
    """Direct method: every propensity is a leaf of a tree of sums."""

    name = "tree"
    entry = "ssa_table"
    owns: ClassVar[bool] = False  # whether species own what their reactions have in common

    def write(self, book: TableBook, of: Contents) -> None:
        """Write the forest of sums."""
        network, reactions = of.network, of.network.reactions
        weights = change_weights(network, of.firings)
        owned = np.array([self.owns and can_be_owned(r) for r in reactions], bool)
        terms = build_terms(network, np.flatnonzero(owned), weights)
        stored = _by_updates(network, np.flatnonzero(~owned), weights)
        forest = ForestTables(book, network, terms, stored)
        dense = None if network.dynamics else positions_of(network, forest, weights)
        book.macro("IS_DENSE", dense is not None)
        if dense is None:
            # The plan of a variable that an event sets changes it by 0.
            write_plans(book, network, forest, [*(((i, 0),) for i in of.variables), *of.late])
        else:
            write_dense(book, network, forest, dense)
        book.constant("N_COUNTS", len(network.species))
        write_no_short(book)
        if of.team in TEAMS_OF_SHORT and not network.dynamics:
            write_short(book, network, forest, of.forms)
        # Events make mass.
        small = not network.dynamics and narrow(network, terms, of.highest)
        book.macro("WIDE_WHOLE", not small)
        book.constant("SHARED_WHOLE", 0)

    def lay_out(
        self, book: TableBook, parts: Sequence[int], team: int, trajectories: int, backend: Backend
    ) -> int:
        """Keep in shared memory what changes most, as far as all trajectories find room."""
        dense = bool(book["IS_DENSE"])
        blocks = blocks_of_a_multiprocessor(
            team, trajectories, backend.multiprocessors, dense=dense
        )
        keeps = team == LANES and blocks == FEW_BLOCKS and book["NODE_STAGES"] and not dense
        book.macro("TEAM_BLOCKS", blocks)
        book.macro("KEEPS_SUMS", bool(keeps))
        if dense:  # counts by species are for records alone
            fast = fast_parts(parts[:1], team, trajectories, backend, FEWEST_DENSE)
            book.constant("SHARED_PARTS", fast)
            return sum(parts[:fast])
        if book["SHORT_SLOTS"]:
            return fast_level(book, shared_bytes_of_team(team, trajectories, backend))
        fast = fast_parts(parts, team, trajectories, backend)
        book.constant("SHARED_PARTS", fast)
        taken = sum(parts[:fast])
        if fast == len(parts) - 1:  # of whole numbers those that change most stand first
            size = 8 if book["WIDE_WHOLE"] else 4
            space = shared_bytes(team, trajectories, backend) - taken
            whole = space // (LANES * size) * LANES
            book.constant("SHARED_WHOLE", whole)
            return taken + whole * size
        book.constant("SHARED_WHOLE", book["N_WHOLE"] if fast == len(parts) else 0)
        return taken


class PartialPropensities(Tree):
    """Partial propensities, Ramaswamy, González-Segredo & Sbalzarini 2009."""

    name = "pdm"
    owns = True


def blocks_of_a_multiprocessor(
    team: int, trajectories: int, multiprocessors: int, *, dense: bool = False
) -> int:
    """Blocks of teams for which registers have to do: as many as all trajectories take."""
    teams = multiprocessors * (THREADS_OF_A_BLOCK // team)
    most = DENSE_BLOCKS if dense else MOST_BLOCKS
    needed = -(-trajectories // teams) if trajectories else most
    return max(FEW_BLOCKS, min(most, needed))


def _by_updates(network: LoweredNetwork, chosen: IntArray, weights: FloatArray) -> IntArray:
    """Reactions whose propensity changes most often first."""
    reads = [sorted(network.reactions[j].depends_on()) for j in chosen.tolist()]
    often = np.array([float(weights[species].sum()) for species in reads])
    return chosen[np.argsort(-often, kind="stable")]


# Sums of counts of which twice as much, a sum and a change of it, fit into 32 bits.
MOST_NARROW = 2**30 - 1
_TURNS = 100  # complexes are built of others: some turns do, if any number does
_HEAVIEST = 1 << 20


def masses(network: LoweredNetwork) -> IntArray | None:
    """Masses that no reaction adds to, int64 ``[species]``; None where there are none.

    They begin at 1. What falls apart gets the mass of its parts, until nothing that falls apart
    makes mass; then no other reaction may either.
    """
    pairs = Pairs.of(reaction.change for reaction in network.reactions)
    n = len(network.reactions)
    lost = pairs.number < 0
    losing = np.bincount(pairs.row[lost], minlength=n)
    species, amount = np.zeros(n, np.int64), np.ones(n, np.int64)
    species[pairs.row[lost]], amount[pairs.row[lost]] = pairs.species[lost], -pairs.number[lost]
    mass = np.ones(len(network.species), np.int64)
    for _ in range(_TURNS):
        made = _sums(pairs, mass, n)
        making = made > 0
        if not making.any():
            return mass
        apart = making & (losing == 1)
        if not apart.any():
            return None
        needed = mass[species[apart]] + -(-made[apart] // amount[apart])
        np.maximum.at(mass, species[apart], needed)
        if mass.max() > _HEAVIEST:
            return None
    return None


def narrow(network: LoweredNetwork, terms: Terms, highest: IntArray | None) -> bool:
    """Return whether 32 bits do for the whole numbers of all terms, whatever happens.

    `highest` int ``[species]``: initial counts that no trajectory exceeds; None: not known.
    """
    if highest is None:
        return False
    mass = masses(network)
    if mass is None:
        return False
    total = sum(m * x for m, x in zip(mass.tolist(), highest.tolist(), strict=True))
    term = np.repeat(np.arange(len(terms.owner)), terms.sizes)
    counted = terms.kind[term] != FIXED
    key = (term * (len(mass) + 1) + terms.partner)[counted]
    _, times = np.unique(key, return_counts=True)
    return bool(total * int(times.max(initial=1)) <= MOST_NARROW)


def _sums(pairs: Pairs, mass: IntArray, n: int) -> IntArray:
    """Mass that every reaction makes."""
    start = np.searchsorted(pairs.row, np.arange(n + 1))
    running = np.concatenate([[0], np.cumsum(pairs.number * mass[pairs.species])])
    made: IntArray = running[start[1:]] - running[start[:-1]]
    return made

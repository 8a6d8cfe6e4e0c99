"""Selectors that search sums with one number: `tree`, and `pdm` with partial propensities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.exact.bounds import narrow
from tauslab.kernels.exact.dense import positions_of, write_dense
from tauslab.kernels.exact.event_tables import write_plans
from tauslab.kernels.exact.fast_memory import (
    THREADS_OF_A_BLOCK,
    fast_parts,
    fast_room,
    room_of_team,
)
from tauslab.kernels.exact.forest import ForestTables
from tauslab.kernels.exact.owners import build_terms, can_be_owned, change_weights
from tauslab.kernels.exact.short_events import (
    TEAMS_OF_SHORT,
    fast_level,
    write_no_short,
    write_short,
)
from tauslab.kernels.exact.table_selector import Contents, TableSelector
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.kernels.network.tables import LANES, TableBook

# Blocks of a multiprocessor: fewer than 8 if all trajectories fit, so that a thread has more
# registers: 128 with 4 blocks, in which a team of a warp keeps partial sums. Dense networks have
# more than 64 to say: ns an event of colloidal aggregation on an H200 with 8, 6 and 5 blocks, 8,192
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
            return fast_level(book, room_of_team(team, trajectories, backend))
        fast = fast_parts(parts, team, trajectories, backend)
        book.constant("SHARED_PARTS", fast)
        taken = sum(parts[:fast])
        if fast == len(parts) - 1:  # of whole numbers those that change most stand first
            size = 8 if book["WIDE_WHOLE"] else 4
            room = fast_room(team, trajectories, backend) - taken
            whole = room // (LANES * size) * LANES
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

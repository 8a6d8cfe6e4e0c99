"""A network on a device for kernels that read it from tables; see ``csrc/tables/forest.h``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.kernels.backends.base import Backend, Style
from tauslab.kernels.events.large import behind_counts, large_events_text, write_events
from tauslab.kernels.events.tables import DELAY_QUEUE
from tauslab.kernels.exact import rejection as _rejection  # noqa: F401 - a selector, which registers
from tauslab.kernels.exact.owners import constant_source, literal_of
from tauslab.kernels.exact.table_selector import WARPS_OF_A_MULTIPROCESSOR, Contents, TableSelector
from tauslab.kernels.exact.tree_pdm import MOST_BLOCKS
from tauslab.kernels.network.codegen import table_header, weighted_sums
from tauslab.kernels.network.lowering import LoweredNetwork, LoweredReaction
from tauslab.kernels.network.tables import TableBook, TableRows, padded

HOMODIMER, LONGER = 3, 4  # as in csrc/tables/propensities.h

# Threads that run one trajectory: one, a quarter of a warp, a warp, a block of warps.
TEAMS = (1, 8, 32, 128)
# Four trajectories share a warp where there are more than the warps of a GPU, and where a firing
# makes few numbers old: with many, 32 threads have work. ns a firing on an H200, 8 threads against
# 32: egfr_net (164 dependents) 1.29 and 1.33 with 4,096 trajectories, 0.52 and 1.19 with 16,384; a
# chain of 10,000 0.98 and 1.24 with 8,192; colloidal aggregation (585) 14.3 and 9.0 with as many.
MOST_DEPENDENTS_OF_EIGHT = 256.0


MOST_KEPT_BYTES = 128 << 20  # of tables that stay for the next engine of a network


@dataclass(frozen=True)
class Expected:
    """Expected trajectories when kernels are compiled; no result depends on them.

    `trajectories`: how many this device will run, 0 where nobody knows. `highest` int
    ``[species]``: initial counts that none exceeds, or None. `delay_queue`: delayed reactions that
    may wait in a trajectory, beyond which it ends. `ends`: whether there is one launch at a time.
    """

    trajectories: int = 0
    highest: IntArray | None = None
    delay_queue: int = DELAY_QUEUE
    ends: bool = False


NOTHING_KNOWN = Expected()


def team_of(style: Style, multiprocessors: int, trajectories: int, dependents: float) -> int:
    """Threads for a trajectory; no result depends on it.

    A small team where `trajectories`, those of this device, are more than the teams of a warp that
    its multiprocessors hold, and the propensities that depend on a reaction, on average
    `dependents`, are few.
    """
    many = trajectories > WARPS_OF_A_MULTIPROCESSOR * multiprocessors
    small = many and dependents <= MOST_DEPENDENTS_OF_EIGHT
    return style.small_team if small else style.team


class LargeNetwork:
    """Tables of a network, and the memory of its trajectories in flight.

    Parameters
    ----------
    selector
        ``pdm``, ``rssa``, or ``tree``, with which no reaction has an owner.
    team
        Threads that run one trajectory.
    firings
        How often each reaction fired in a pilot, f64 ``[reaction]``; None guesses it from the
        network.
    pilot
        Count in `firings`, u64 ``[reaction + 2]``, how often each reaction fires; then come what
        `rssa` tries and computes: candidates, and bounds of propensities that were made again.
    expected
        How many trajectories will run, and from which counts.

    Attributes
    ----------
    lane_bytes
        Fast memory for each thread of a team.

    Raises
    ------
    ConfigError
        There are more delays of reactions than the kernel is made for.
    """

    def __init__(
        self, backend: Backend, network: LoweredNetwork, selector: str, team: int, *,
        firings: FloatArray | None = None, pilot: bool = False, expected: Expected = NOTHING_KNOWN,
    ) -> None:  # fmt: skip
        self._backend = backend
        slot = "tables of a pilot" if pilot else "tables"
        network, book = _with_tables(
            network, slot, selector, firings, expected.highest, expected.delay_queue, team
        )
        self._sizes = (book["N_VALUES"], book["N_COUNTS"], book["N_WHOLE"])
        whole = np.int64 if book["WIDE_WHOLE"] else np.int32
        self._types: tuple[type[np.generic], ...] = (np.float64, np.int32, whole)
        parts = [padded(size * kind().itemsize, 8) for size, kind in self._arrays_of_state()]
        kind = TableSelector.registered[selector]
        taken = kind.lay_out(book, parts, team, expected.trajectories, backend)
        self.lane_bytes = -(-taken // team)
        events = network.dynamics is not None
        waiting = 2 * book["DELAY_QUEUE"] if events and book["HAS_DELAYS"] else 0
        self._of_events = (book["N_REALS"], book["EVENT_WORDS"], waiting) if events else (0, 0, 0)
        self.header = header_of(network, book, team, pilot=pilot)
        counts = np.zeros(len(network.reactions) + 2, np.uint64)
        self.firings = backend.upload(counts) if pilot else None
        self._arrays = [backend.upload(array) for array in book.arrays()]

    @property
    def bytes_per_trajectory(self) -> int:
        """Device memory that one trajectory in flight takes."""
        own = sum(size * kind().itemsize for size, kind in self._arrays_of_state())
        return own + 8 * sum(self._of_events)

    def scratch(self, teams: int) -> tuple[Any, ...]:
        """State of trajectories in flight: sums, counts, whole numbers of terms; of events too."""
        result = [
            self._backend.empty((max(1, teams), size), kind)
            for size, kind in self._arrays_of_state()
        ]
        kinds = (np.float64, np.uint64, np.uint64)
        own = zip(self._of_events, kinds, strict=True)
        more = [self._backend.empty((max(1, teams), n), kind) if n else None for n, kind in own]
        return (*result, *more)

    def arguments(self, scratch: tuple[Any, ...]) -> dict[str, Any]:
        """Arguments beside those of the launch: `TableArguments` of csrc/tables/arguments.h."""
        whole_tables, real_tables = self._arrays
        values, counts, whole, reals, events, waiting = scratch
        return {
            "whole_tables": whole_tables, "real_tables": real_tables, "values": values,
            "team_counts": counts, "whole": whole, "firings": self.firings, "reals": reals,
            "events": events, "waiting": waiting,
        }  # fmt: skip

    def _arrays_of_state(self) -> list[tuple[int, type[np.generic]]]:
        return list(zip(self._sizes, self._types, strict=True))


def header_of(network: LoweredNetwork, book: TableBook, team: int, *, pilot: bool = False) -> str:
    """`model.h` for the kernels of a network's tables; with events of one of `behind_counts`."""
    if network.dynamics is None:
        return table_header(network, book.header(), team, pilot=pilot)

    def events(names: dict[int, str]) -> str:
        return large_events_text(network, names)

    return table_header(network, book.header(), team, pilot=pilot, events=events)


def _with_tables(
    network: LoweredNetwork, slot: str, selector: str, firings: FloatArray | None,
    highest: IntArray | None, delay_queue: int, team: int,
) -> tuple[LoweredNetwork, TableBook]:  # fmt: skip
    """The network behind counts, and `tables_of` it: those of the last engine if they are alike.

    A run of another length has the same, with the same pilot if it has one.
    """
    orders = (None if one is None else one.tobytes() for one in (firings, highest))
    key = (selector, *orders, delay_queue, team)
    held = network.made.get(slot, (None,))
    if held[0] != key:
        own = network if network.dynamics is None else behind_counts(network)
        held = key, own, tables_of(own, selector, firings, highest, delay_queue, team)
        if held[2].nbytes <= MOST_KEPT_BYTES:
            network.made[slot] = held
    return held[1], held[2].copy()


def tables_of(
    network: LoweredNetwork, selector: str, firings: FloatArray | None = None,
    highest: IntArray | None = None, delay_queue: int = DELAY_QUEUE, team: int = 1,
) -> TableBook:  # fmt: skip
    """All tables of a network for a selector; with events one of `behind_counts`."""
    book = TableBook()
    reactions = network.reactions
    forms = _write_laws(book, reactions)
    book.real("LITERAL", [literal_of(r) for r in reactions])
    write_samples(book, network)
    book.constant("SHARED_PARTS", 0)
    book.macro("KEEPS_SUMS", value=False)
    book.macro("TEAM_BLOCKS", MOST_BLOCKS)
    book.constant("WORDS_OF_COUNT", 1)
    flags = np.zeros(len(reactions), np.int64)
    variables, late = list[int](), list[tuple[tuple[int, int], ...]]()
    if network.dynamics is not None:
        flags, variables, late = write_events(book, network, delay_queue)
    contents = Contents(network, forms, firings, highest, team, flags > 0, variables, late)
    TableSelector.registered[selector].write(book, contents)
    return book


def write_samples(book: TableBook, network: LoweredNetwork) -> None:
    """Write what is recorded: species, and observables and rules that are sums of counts."""
    book.whole("RECORDED", network.recorded)
    sums = weighted_sums(network)
    book.rows("SUM_ROW", "SUM_SPECIES", TableRows.of([list(weights) for weights in sums]))
    book.real("SUM_WEIGHT", [weight for weights in sums for weight in weights.values()])


def _write_laws(book: TableBook, reactions: Sequence[LoweredReaction]) -> IntArray:
    """Write a record of constant, species and kind for every reaction, and rows of longer ones.

    Returns species and kind, ``[reaction, 3]``.
    """
    forms = [_form(reaction) for reaction in reactions]
    longer = [r for r, (_, _, kind) in zip(reactions, forms, strict=True) if kind == LONGER]
    kept = {id(reaction) for reaction in longer}
    sources = [constant_source(reaction) for reaction in reactions]
    form = np.array(forms, np.int64).reshape(-1, 3)
    book.records("LAW", [sources, form[:, 0], form[:, 1], form[:, 2]])
    book.constant("HAS_LONGER", bool(longer))
    book.pairs("ORDER", "COUNT", [r.orders if id(r) in kept else () for r in reactions])
    book.pairs("NEED", "COUNT", [r.needs if id(r) in kept else () for r in reactions])
    return form


def _form(reaction: LoweredReaction) -> tuple[int, int, int]:
    """Two species whose counts a propensity is made of, and how."""
    species = [i for i, _ in reaction.orders]
    orders = [order for _, order in reaction.orders]
    if reaction.law is not None or reaction.needs or sum(orders) > 2:
        return 0, 0, LONGER
    first, second = (*species, 0, 0)[:2]
    return first, second, HOMODIMER if orders == [2] else len(species)

"""Selectors of networks in tables: a class for each, which registers itself by its name.

A selector also chooses how much of a trajectory's state is in the shared memory of a GPU's blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.kernels.backends.base import Backend
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.kernels.network.tables import TableBook, padded


@dataclass(frozen=True)
class Contents:
    """Contents of the tables of a selector.

    Parameters
    ----------
    network
        With events one of `behind_counts`.
    forms
        Species and kind of every reaction's propensity, ``[reaction, 3]``.
    firings
        How often each reaction fired in a pilot, f64 ``[reaction]``, or None.
    highest
        Initial counts that no trajectory exceeds, int ``[species]``, or None.
    team
        Threads that run one trajectory.
    watched
        Reactions behind which events may happen, ``[reaction]``.
    variables
        Those that events set.
    late
        Changes of delayed reactions when they complete.
    """

    network: LoweredNetwork
    forms: IntArray
    firings: FloatArray | None
    highest: IntArray | None
    team: int
    watched: BoolArray
    variables: Sequence[int]
    late: Sequence[tuple[tuple[int, int], ...]]


class TableSelector(ABC):
    """A way to choose the next reaction of a network in tables.

    Attributes
    ----------
    name
        As a user and a file name it.
    entry, folder
        Its kernel, of networks with events and without, and where that is below csrc/tables.
    """

    name: ClassVar[str]
    entry: ClassVar[str]
    folder: ClassVar[str] = ""
    registered: ClassVar[dict[str, TableSelector]] = {}

    def __init_subclass__(cls) -> None:
        """Register a selector, once."""
        TableSelector.registered[cls.name] = cls()

    @abstractmethod
    def write(self, book: TableBook, of: Contents) -> None:
        """Write the tables that it searches, and what a firing makes old in them."""

    @abstractmethod
    def lay_out(
        self, book: TableBook, parts: Sequence[int], team: int, trajectories: int, backend: Backend
    ) -> int:
        """Choose what is in shared memory, and how many blocks; return the bytes that it takes.

        Parameters
        ----------
        parts
            Bytes of a trajectory's sums, counts and whole numbers.
        trajectories
            That the device runs, 0 where nobody knows.
        """


def entry_of(selector: str) -> str:
    """The kernel of a selector."""
    return TableSelector.registered[selector].entry


def file_of(selector: str) -> str:
    """The file of that kernel."""
    folder = TableSelector.registered[selector].folder
    return "/".join(filter(None, ("tables", folder, f"{entry_of(selector)}.cc")))


THREADS_OF_A_BLOCK = 128
# That run at the same time: csrc/team/team.h gives a thread 64 registers.
WARPS_OF_A_MULTIPROCESSOR = 32
# Threads of the smallest team whose state may be in shared memory; threads of a multiprocessor.
FEWEST_FAST = 32
THREADS_OF_A_MULTIPROCESSOR = 32 * WARPS_OF_A_MULTIPROCESSOR


def fast_parts(
    parts: Sequence[int], team: int, trajectories: int, backend: Backend, least: int = 0
) -> int:
    """Number of parts of a state, of so many bytes each, in shared memory, first ones first.

    There must be room for them as `shared_bytes` has it. No result depends on it.
    """
    space = shared_bytes(team, trajectories, backend, least)
    return int((np.cumsum(parts) <= space).sum()) if space else 0


def shared_bytes(team: int, trajectories: int, backend: Backend, least: int = 0) -> int:
    """Bytes of shared memory for a trajectory.

    There must be room in every multiprocessor for all `trajectories` that run at the same time, 0
    for as many as can, or for `least` of them.
    """
    if team < FEWEST_FAST or not backend.fast_memory:
        return 0
    return shared_bytes_of_team(team, trajectories, backend, least)


def shared_bytes_of_team(team: int, trajectories: int, backend: Backend, least: int = 0) -> int:
    """Bytes of shared memory for a trajectory of teams of any size."""
    together = THREADS_OF_A_MULTIPROCESSOR // team
    if trajectories:
        together = min(together, -(-trajectories // backend.multiprocessors))
    together = min(together, least or together)
    return backend.fast_memory // padded(together, max(1, THREADS_OF_A_BLOCK // team))

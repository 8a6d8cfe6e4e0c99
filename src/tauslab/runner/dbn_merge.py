"""Counts of several ranks, and of an earlier attempt, added entry by entry."""

from __future__ import annotations

import numpy as np

from tauslab.kernels.dbn import CountTables
from tauslab.kernels.dbn_entries import CountArray, Entries, Keys
from tauslab.runner.dbn_network import DynamicNetwork
from tauslab.runner.mpi import Communicator

_MESSAGE = 1 << 22  # entries that a rank sends at a time


def merged(entries: Entries, comm: Communicator) -> Entries:
    """A node's entries of all ranks, added on rank 0; in pieces, as messages have a limit."""
    total = Entries.merged([])
    for piece in range(max(comm.allgather(-(-len(entries.counts) // _MESSAGE)))):
        own = slice(piece * _MESSAGE, (piece + 1) * _MESSAGE)
        part = Entries(entries.high[own], entries.low[own], entries.counts[own])
        parts = comm.gather(part)
        if parts is not None:
            total = Entries.merged([total, *parts])
    return total


def with_before(
    before: DynamicNetwork,
    tables: CountTables,
    found: list[Entries],
    cells: tuple[CountArray, CountArray],
) -> tuple[list[Entries], tuple[CountArray, CountArray]]:
    """The counts of rank 0 with those of the file that is resumed."""
    names = before.variables
    earlier = [_entries(before, name, keys) for name, keys in zip(names, tables.keys, strict=True)]
    entries = [Entries.merged(pair) for pair in zip(found, earlier, strict=True)]
    columns = [np.hstack([before.marginals[n], before.outside[n]]) for n in before.structure.names]
    variables = np.hstack(columns[: len(names)])
    parameters = np.hstack([np.zeros((1, 0), np.uint64), *columns[len(names) :]])[0]
    own = cells[1].copy()
    own[: len(parameters)] += parameters
    return entries, (cells[0] + variables, own)


def _entries(network: DynamicNetwork, name: str, keys: Keys) -> Entries:
    table = network.tables[name]
    steps = np.repeat(np.arange(len(table.offsets) - 1), np.diff(table.offsets))
    return Entries(*keys.words(steps.astype(np.uint64), table.bins), table.counts)

"""Counts of several ranks, and of an earlier attempt, added entry by entry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tauslab.kernels.dbn_entries import Entries, Keys
from tauslab.runner.dbn_network import DynamicNetwork, Table
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


def added(one: DynamicNetwork, other: DynamicNetwork) -> DynamicNetwork:
    """The counts of two networks of the same build together; all else as in the second."""
    names, steps = one.structure.names, len(one.times) - 1
    bins = [one.bins(name) for name in names]
    tables = {}
    for family in one.structure.families():
        keys = Keys.of(family, bins, steps + 1)
        pair = [_entries(network, family.name, keys) for network in (one, other)]
        tables[family.name] = Table.of(Entries.merged(pair), keys, steps)
    return replace(
        other,
        tables=tables,
        marginals={name: one.marginals[name] + other.marginals[name] for name in names},
        outside={name: one.outside[name] + other.outside[name] for name in names},
    )


def _entries(network: DynamicNetwork, name: str, keys: Keys) -> Entries:
    table = network.tables[name]
    steps = np.repeat(np.arange(len(table.offsets) - 1), np.diff(table.offsets))
    return Entries(*keys.words(steps.astype(np.uint64), table.bins), table.counts)

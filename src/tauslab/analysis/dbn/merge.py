"""Counts of several ranks, and of an earlier attempt, added entry by entry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tauslab.analysis.dbn.results.network import CountTable, DynamicNetwork
from tauslab.decomposition.ranks.mpi import Communicator, Parcel
from tauslab.kernels.dbn.entries import Entries, Keys


def merged(entries: Entries, comm: Communicator) -> Entries:
    """A node's entries of all ranks, added on rank 0; none elsewhere. Collective.

    By pairs, then pairs of pairs: no rank holds the entries of more than two others at a time,
    and a thousand ranks take ten rounds.
    """
    apart = 1  # ranks between the two of a pair
    while apart < comm.size:
        lengths = comm.allgather(len(entries.counts))
        place = comm.rank % (2 * apart)
        if place == apart:
            _pass(entries, comm, comm.rank - apart, sent=True)
            entries = Entries.merged([])
        elif place == 0 and comm.rank + apart < comm.size:
            other = _room(lengths[comm.rank + apart], entries)
            _pass(other, comm, comm.rank + apart, sent=False)
            entries = Entries.merged([entries, other])
        apart *= 2
    return entries


def _room(length: int, like: Entries) -> Entries:
    """As many entries, not filled yet."""
    high, low, counts = (np.empty(length, a.dtype) for a in (like.high, like.low, like.counts))
    return Entries(high, low, counts)


def _pass(entries: Entries, comm: Communicator, other: int, *, sent: bool) -> None:
    """Send entries to a rank, or fill them with what it sends."""
    arrays = (entries.high, entries.low, entries.counts)
    comm.exchange([Parcel(other, np.ascontiguousarray(a), sent) for a in arrays])


def added(one: DynamicNetwork, other: DynamicNetwork) -> DynamicNetwork:
    """The counts of two networks of the same build together; all else as in the second."""
    names, steps = one.structure.names, len(one.times) - 1
    bins = [one.bins(name) for name in names]
    tables = {}
    for family in one.structure.families():
        keys = Keys.of(family, bins, steps + 1)
        pair = [_entries(network, family.name, keys) for network in (one, other)]
        tables[family.name] = CountTable.of(Entries.merged(pair), keys, steps)
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

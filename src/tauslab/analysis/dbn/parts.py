"""Counts of ranks and attempts, added entry by entry, and kept in files beside the network.

A part is a network of the blocks that one rank has counted in one attempt, under ``NAME.h5.parts``.
It is written anew under a temporary name and renamed, so it is whole at any moment; a killed build
loses what its ranks counted since. Parts of several attempts may lie side by side: the blocks of
each are its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from tauslab.analysis.dbn.results.file import counted_blocks, load, save
from tauslab.analysis.dbn.results.network import CountTable, DynamicNetwork
from tauslab.base.arrays import BoolArray
from tauslab.base.errors import InputFileError
from tauslab.base.files.drafts import make_own_folder
from tauslab.decomposition.ranks.mpi import Communicator, Parcel
from tauslab.decomposition.ranks.pace import RARELY, next_due
from tauslab.kernels.dbn.entries import Entries, Keys
from tauslab.store.targets import part_files, parts_folder

SECONDS = 30.0  # from one part to the next
_RARELY = RARELY
PART_NAMES = "dbn-*.h5"


class PartWriter:
    """Writes the part of one rank in one attempt, now and then; does nothing without a file."""

    def __init__(self, output: Path | None, attempt: int, rank: int) -> None:
        self._path: Path | None = None
        if output is not None:
            self._path = parts_folder(output) / f"dbn-{attempt:04}-{rank:05}.h5"
        self._due = time.monotonic() + SECONDS

    @property
    def due(self) -> bool:
        """Return whether `offer` would write."""
        return self._path is not None and time.monotonic() >= self._due

    def offer(self, counted: Callable[[], DynamicNetwork], blocks: BoolArray) -> None:
        """Write what is `counted` of `blocks`, if it is time to."""
        if self._path is None or not self.due:
            return
        began = time.monotonic()
        make_own_folder(self._path.parent)
        save(counted(), self._path, blocks)
        self._due = next_due(began, time.monotonic(), SECONDS, _RARELY)


def parts_of(output: Path) -> list[Path]:
    """Parts beside a file, in the order of attempts."""
    return part_files(parts_folder(output), PART_NAMES)


def next_attempt(output: Path | None) -> int:
    """A number that no part has."""
    parts = parts_of(output) if output is not None else []
    return 1 + max((int(part.name.split("-")[1]) for part in parts), default=0)


def gathered(output: Path) -> tuple[DynamicNetwork, BoolArray] | None:
    """The sum of a file and its parts, and which blocks it has; None without any file.

    Raises
    ------
    InputFileError
        A file is none of these, or holds some blocks of another and some that are new.
    """
    result: tuple[DynamicNetwork, BoolArray] | None = None
    for path in _files(output):
        network, blocks = load(path, unfinished=True), counted_blocks(path)
        if result is None:
            result = network, blocks
        elif blocks.shape != result[1].shape:
            raise InputFileError(f"{path} is of another build than {output}: remove it")
        elif not (blocks & result[1]).any():
            result = added(result[0], network), result[1] | blocks
        elif (blocks & ~result[1]).any():
            raise InputFileError(f"{path} holds blocks that {output} has in part: remove it")
    return result


def _files(output: Path) -> Iterator[Path]:
    if output.exists():
        yield output
    yield from parts_of(output)


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
            other = _empty_entries(lengths[comm.rank + apart], entries)
            _pass(other, comm, comm.rank + apart, sent=False)
            entries = Entries.merged([entries, other])
        apart *= 2
    return entries


def _empty_entries(length: int, like: Entries) -> Entries:
    """Return an array with room for as many entries, not filled."""
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

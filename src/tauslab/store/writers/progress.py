"""The progress of an unfinished run: files with storage blocks, and what can be taken from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray
from tauslab.base.errors import OutputError
from tauslab.base.files.opening import open_h5
from tauslab.base.files.seals import SealedFile, safe_attributes
from tauslab.store.checking.opening import open_own_file
from tauslab.store.format.layout import SAMPLES, Accumulators, FlatRows, Layout
from tauslab.store.format.schema import CHECKPOINT_SLOTS
from tauslab.store.format.statistics import accumulate, add_accumulators, zero_accumulators
from tauslab.store.hdf5.disk import Disk
from tauslab.store.hdf5.in_place import Location, RawFile, locate
from tauslab.store.writers.checkpoint import Checkpoint, decode
from tauslab.store.writers.rows import CHECKSUMS, MARKS, checksum

_READ_BYTES = 32 << 20


@dataclass(frozen=True)
class Source:
    """A file with storage blocks.

    Parameters
    ----------
    blocks
        The block in each of its slots ``[slot]``; -1 for none that is complete.
    rows
        Shape of its arrays with a row per trajectory: ``[row]``, or ``[point, trajectory]`` of the
        whole result of a sweep.
    checkpoints
        Slots with a correct checksum, the newest first.
    damaged
        Slots that are marked and whose checksum is wrong; they do not count in `blocks`.
    sums
        Checksums ``[slot, array]`` of the rows, arrays by their names.
    """

    path: Path
    blocks: npt.NDArray[np.int64]
    rows: tuple[int, ...]
    checkpoints: tuple[Checkpoint, ...]
    damaged: tuple[int, ...] = ()
    sums: npt.NDArray[np.uint32] | None = None


@dataclass(frozen=True)
class Run:
    """Slots ``slot .. slot + count - 1`` of a source hold blocks ``block .. block + count - 1``."""

    source: Source
    slot: int
    block: int
    count: int


@dataclass(frozen=True)
class StoredProgress:
    """The data of an unfinished run that are on disk.

    Parameters
    ----------
    completed
        Blocks that need not be run again ``[block]``.
    restored
        Statistics of these; None where none are recorded.
    generation
        The highest of the checkpoints that were taken; 0 for none.
    """

    completed: BoolArray
    restored: Accumulators | None
    generation: int


def read_source(path: Path, layout: Layout, run: str, *, verify: bool = False) -> Source | None:
    """The run's data in a file; None if the file belongs to another run.

    With `verify` all its rows are read and compared with their checksums.

    Raises
    ------
    OutputError
        The file cannot be read.
    """
    try:
        with open_h5(path) as file:
            attributes = safe_attributes(file)
            if attributes.get("run") != run:
                return None
            names = SealedFile(path, file, OutputError, attributes=attributes).names
            blocks, sums = np.empty(0, np.int64), None
            if MARKS in names:
                sums = file[CHECKSUMS][()]
                blocks = _numbers(file, names, layout)
            rows = tuple(file["status"].shape) if "status" in names else (0,)
            damaged = _damaged(path, file, layout, blocks) if verify else ()
            blocks[list(damaged)] = -1
            checkpoints = [
                decode(layout, file[name][()]) for name in CHECKPOINT_SLOTS if name in names
            ]
    except OutputError:  # an OSError too, and a sentence already
        raise
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise OutputError(f"{path} cannot be read: {error}") from error
    valid = sorted((c for c in checkpoints if c is not None), key=lambda c: -c.generation)
    return Source(path, blocks, rows, tuple(valid), damaged, sums)


def belongs_to(path: Path, run: str) -> bool:
    """Return whether a file is that of a run, which has just made it."""
    with open_own_file(path) as file:
        return safe_attributes(file).get("run") == run


def _numbers(file: Any, names: Sequence[str], layout: Layout) -> npt.NDArray[np.int64]:
    """The block in each slot ``[slot]``; -1 for none that is marked, or that there can be."""
    marks = file[MARKS][()] == 1
    numbers = np.arange(len(marks))
    if "progress/block_ids" in names:
        numbers = file["progress/block_ids"][()]
    return np.where(marks & (numbers >= 0) & (numbers < layout.n_blocks), numbers, -1)


def _damaged(
    path: Path, file: Any, layout: Layout, blocks: npt.NDArray[np.int64]
) -> tuple[int, ...]:
    """Marked slots whose rows are not what was written."""
    if MARKS not in file:
        return ()
    damaged, stored = [], file[CHECKSUMS][()]
    arrays = sorted(layout.row_arrays(), key=lambda array: array.name)
    places = {array.name: locate(file[array.name]) for array in arrays}
    with path.open("rb") as raw:
        for slot in np.flatnonzero(blocks >= 0).tolist():
            block = int(blocks[slot])
            start, stop = layout.block_rows(block, block + 1)
            for column, array in enumerate(arrays):
                first = slot * layout.block * array.row_bytes
                length = (stop - start) * array.row_bytes
                cells = read_cells(raw, places[array.name], first, length)
                if checksum(block, cells) != stored[slot, column]:
                    damaged.append(slot)
                    break
    return tuple(damaged)


def read_cells(raw: BinaryIO, place: Location, first: int, length: int) -> npt.NDArray[np.uint8]:
    """Bytes ``first .. first + length - 1`` of the cells of a dataset; zeros beyond the file."""
    data = np.zeros(length, np.uint8)
    for offset, position, size in place.ranges(first, length):
        raw.seek(offset)
        raw.readinto(data[position : position + size].data)  # type: ignore[attr-defined]
    return data


def distrust(source: Source, disk: Disk) -> None:
    """Take the marks of damaged blocks away, so that they are run again.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    if not source.damaged:
        return
    with closing(RawFile(source.path, [MARKS], disk)) as file:
        for slot in source.damaged:
            file.write(MARKS, slot, np.zeros(1, np.uint8))
        file.sync()


def block_sums(layout: Layout, sources: Sequence[Source]) -> npt.NDArray[np.uint32]:
    """Checksums ``[block, array]`` of the rows as they were written, of all blocks."""
    sums = np.zeros((layout.n_blocks, len(layout.row_arrays())), np.uint32)
    for run in find_runs(layout, sources):
        assert run.source.sums is not None
        sums[run.block : run.block + run.count] = run.source.sums[run.slot :][: run.count]
    return sums


def marked_blocks(layout: Layout, sources: Sequence[Source]) -> BoolArray:
    """Blocks whose rows are on disk ``[block]``."""
    marked = np.zeros(layout.n_blocks, np.bool_)
    for source in sources:
        marked[source.blocks[source.blocks >= 0]] = True
    return marked


def find_runs(layout: Layout, sources: Sequence[Source]) -> list[Run]:
    """Every block that is on disk once, in runs as long as possible, in order."""
    owner = np.full(layout.n_blocks, -1, np.int64)
    slot = np.zeros(layout.n_blocks, np.int64)
    for index, source in enumerate(sources):
        slots = np.flatnonzero(source.blocks >= 0)
        blocks = source.blocks[slots]
        owner[blocks], slot[blocks] = index, slots
    breaks = (np.diff(owner) != 0) | (np.diff(slot) != 1)
    starts = np.append(0, np.flatnonzero(breaks) + 1)
    ends = np.append(starts[1:], layout.n_blocks)
    return [
        Run(sources[owner[start]], int(slot[start]), int(start), int(end - start))
        for start, end in zip(starts, ends, strict=True)
        if owner[start] >= 0
    ]


def runs_of_sources(layout: Layout, sources: Sequence[Source]) -> list[list[Run]]:
    """Runs as of `find_runs`, by their sources, so that a file is opened once.

    Blocks of many ranks alternate, and a run is often a block.
    """
    runs: dict[Path, list[Run]] = {}
    for run in find_runs(layout, sources):
        runs.setdefault(run.source.path, []).append(run)
    return list(runs.values())


def progress(layout: Layout, sources: Sequence[Source]) -> StoredProgress:
    """Blocks that need not be run again, with their statistics.

    Where samples are recorded, statistics are summed from them. Where only sums are, the blocks
    count that a checkpoint includes: one checkpoint per source, the newest first, each only if its
    rows are all there and none of its blocks was counted already. (A later attempt's checkpoint may
    include what it restored from earlier ones.)
    """
    marked = marked_blocks(layout, sources)
    if not layout.accumulator_shapes():
        return StoredProgress(marked, None, 0)
    totals = zero_accumulators(layout)
    if not layout.needs_checkpoint:
        for runs in runs_of_sources(layout, sources):
            for start, samples in _samples(layout, runs):
                where = layout.points_of(start, start + len(next(iter(samples.values()))))
                add_accumulators(totals, accumulate(layout, samples, start), where)
        return StoredProgress(marked, totals, 0)
    taken = np.zeros(layout.n_blocks, np.bool_)
    best = [next((c for c in s.checkpoints if not np.any(c.done & ~marked)), None) for s in sources]
    generation = 0
    for checkpoint in sorted((c for c in best if c is not None), key=lambda c: -c.generation):
        if not np.any(checkpoint.done & taken):
            add_accumulators(totals, checkpoint.totals)
            taken |= checkpoint.done
            generation = max(generation, checkpoint.generation)
    return StoredProgress(taken, totals, generation)


def _samples(
    layout: Layout, runs: Sequence[Run]
) -> Iterator[tuple[int, dict[str, npt.NDArray[Any]]]]:
    """Recorded samples of one source, some rows at a time, with the first one's trajectory."""
    arrays = [a for a in layout.row_arrays() if a.name in SAMPLES]
    step = max(1, _READ_BYTES // max(1, sum(a.row_bytes for a in arrays)))
    source = runs[0].source
    flat: Any = FlatRows if len(source.rows) == 2 else lambda dataset: dataset
    with open_own_file(source.path) as file:
        for run in runs:
            start, stop = layout.block_rows(run.block, run.block + run.count)
            shift = run.slot * layout.block - start
            for first in range(start, stop, step):
                rows = slice(first + shift, min(first + step, stop) + shift)
                yield first, {a.name: np.asarray(flat(file[a.name])[rows]) for a in arrays}

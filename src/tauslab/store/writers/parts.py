"""The writer for several ranks: each fills parts of its own; rank 0 makes one file of them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray
from tauslab.base.errors import OutputError
from tauslab.base.files.drafts import make_own_folder
from tauslab.base.files.opening import lacks_memory
from tauslab.base.host import in_bytes
from tauslab.base.option_names import warn
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.together import agree
from tauslab.store.format.layout import Accumulators, Chunk, Layout, chunk_blocks
from tauslab.store.format.schema import (
    CHECKPOINT_SLOTS,
    DatasetSpec,
    checkpoint_specs,
    file_specs,
    profile_contents,
    root_attributes,
    segment_specs,
)
from tauslab.store.format.statistics import statistics_contents
from tauslab.store.format.versions import WRITERS, with_this_program
from tauslab.store.hdf5.disk import Disk, publish, write_error
from tauslab.store.hdf5.in_place import RawFile, note_writer, stored_writers
from tauslab.store.hdf5.skeleton import build_file
from tauslab.store.targets import part_files, parts_folder, remove_parts
from tauslab.store.writers.admission import Existing
from tauslab.store.writers.checkpoint import CheckpointSlots, slot_bytes
from tauslab.store.writers.merge import publish_rows, publish_view, rows_of_parts, views_of_parts
from tauslab.store.writers.progress import (
    Source,
    block_sums,
    distrust,
    find_runs,
    marked_blocks,
    progress,
    read_source,
)
from tauslab.store.writers.rows import (
    CHECKSUMS,
    COMPLETE,
    MARKS,
    block_checksums,
    row_names,
    write_marks,
    write_rows,
)
from tauslab.store.writers.single import require_all

if TYPE_CHECKING:
    from tauslab.decomposition.ranks.mpi import Communicator

SEGMENT_BYTES = 256 << 20
MERGE_BYTES = 1 << 30
_BLOCK_IDS = "progress/block_ids"
PART_NAME = re.compile(r"r(\d+)-(\d+)\.h5")
_ADOPTED = "base.h5"


@dataclass(frozen=True)
class PartsOptions:
    """Sizes, in bytes: of a segment's rows, and of the largest result that is merged.

    With `compress`, a level of gzip, every result is merged.
    """

    segment_bytes: int = SEGMENT_BYTES
    merge_bytes: int = MERGE_BYTES
    compress: int = 0


@dataclass(frozen=True)
class AttemptStart:
    """The start of an attempt, as rank 0 reports it to the others."""

    run: str
    names: tuple[str, ...]
    completed: BoolArray
    generation: int


@dataclass
class _Segment:
    """The part that a rank fills now; its slots are taken in turn."""

    file: RawFile
    slots: int
    used: int = 0


class PartsWriter:
    """Writes a rank's blocks into parts beside the result; all ranks construct it together.

    Parameters
    ----------
    existing
        The unfinished result to go on from, whatever number of ranks wrote it; rank 0's counts.
    run
        Identity of a new run; rank 0's counts.

    Raises
    ------
    OutputError
        A file cannot be written or read.
    """

    def __init__(
        self, path: Path, layout: Layout, comm: Communicator, disk: Disk, existing: Existing | None,
        run: str, options: PartsOptions,
    ) -> None:  # fmt: skip
        self._path, self._layout, self._comm, self._disk = path, layout, comm, disk
        self._options = options
        self._folder = parts_folder(path)
        self.restored: Accumulators | None = None
        if existing is not None:
            self._drop_damaged_parts(existing.run)
        start: AttemptStart = on_root(comm, lambda: self._start(existing, run))
        self.completed = start.completed
        self._run = start.run
        self._generation = start.generation
        taken = [m for m in map(PART_NAME.fullmatch, start.names) if m and int(m[1]) == comm.rank]
        self._next_part = 1 + max((int(m[2]) for m in taken), default=-1)
        #: Blocks of this rank's share beyond the parts that it has made.
        self._share = -(-int((~self.completed).sum()) // comm.size)
        self._least = max(1, self._share // 16)
        self._segment: _Segment | None = None
        self._slots: tuple[RawFile, CheckpointSlots] | None = None

    def _start(self, existing: Existing | None, run: str) -> AttemptStart:
        """On rank 0: make the result's file visible, and see what earlier attempts left."""
        if existing is None:
            try:
                self._disk.require_space(self._path.parent, self._layout.payload_bytes)
            except OSError as error:
                raise write_error(self._path, error) from error
        if existing is not None:
            run = existing.run
        if existing is not None and existing.storage == "plain":
            make_own_folder(self._folder)
            self._disk.remove(self._folder / _ADOPTED)
            self._disk.link(self._path, self._folder / _ADOPTED)
            self._drop_damaged(run, [self._folder / _ADOPTED])
        if existing is None or existing.storage == "plain":
            attributes = root_attributes(self._layout, "parts", run)
            before = () if existing is None else stored_writers(self._path)
            contents = {WRITERS: with_this_program(before)}
            specs = file_specs(
                self._layout, self._comm.size, rows=False, in_place=True, contents=contents
            )
            self._publish(self._path, specs, attributes)
        else:
            note_writer(self._path, self._disk)
        if existing is None:
            remove_parts(self._path, self._disk)
        make_own_folder(self._folder)
        sources = self._sources(run)
        done = progress(self._layout, sources)
        if existing is not None:
            self.restored = done.restored
        names = tuple(source.path.name for source in sources)
        return AttemptStart(run, names, done.completed, done.generation)

    def _drop_damaged_parts(self, run: str) -> None:
        """Each rank looks at some of the parts: all that was written is read. Collective."""
        comm = self._comm
        paths = on_root(comm, lambda: part_files(self._folder))
        agree(comm, lambda: self._drop_damaged(run, paths[comm.rank :: comm.size]))

    def _drop_damaged(self, run: str, paths: Sequence[Path]) -> None:
        """Remove parts that cannot be read, and marks of blocks that are not what was written."""
        for path in paths:
            try:
                source = read_source(path, self._layout, run, verify=True)
            except OutputError as error:
                of_system = getattr(error.__cause__, "errno", None) is not None  # as of NFS
                if of_system or not os.access(path, os.R_OK) or lacks_memory(error):
                    raise  # it may be good
                try:
                    self._disk.remove(path)
                except OSError as error:
                    raise write_error(path, error) from error
            else:
                if source is not None:
                    distrust(source, self._disk)

    def _sources(self, run: str) -> list[Source]:
        read = [read_source(p, self._layout, run) for p in part_files(self._folder)]
        return [source for source in read if source is not None]

    def write(self, chunk: Chunk) -> None:
        """Write whole blocks into free slots and mark them."""
        begin, end = chunk_blocks(self._layout, chunk)
        sums, first = block_checksums(self._layout, chunk), begin
        while first < end:
            segment = self._segment
            if segment is None or segment.used == segment.slots:
                segment = self._new_segment()
            count = min(end - first, segment.slots - segment.used)
            self._write_slots(segment, chunk, first, sums[first - begin :][:count])
            segment.used += count
            first += count

    def _write_slots(
        self, segment: _Segment, chunk: Chunk, first: int, sums: npt.NDArray[np.uint32]
    ) -> None:
        layout, slot, count = self._layout, segment.used, len(sums)
        start, stop = layout.block_rows(first, first + count)
        rows = slice(start - chunk.start, stop - chunk.start)
        write_rows(segment.file, layout, chunk, slot * layout.block, rows)
        segment.file.write(CHECKSUMS, 4 * slot * sums.shape[1], sums)
        segment.file.write(_BLOCK_IDS, 8 * slot, np.arange(first, first + count, dtype="<i8"))
        write_marks(segment.file, slot, count)

    def _new_segment(self) -> _Segment:
        """A part for this rank's share of the job, or for as much as a part may hold.

        A rank that computes more than its share, because it is faster, writes the rest to small
        parts.
        """
        self._close_segment()
        layout = self._layout
        block_bytes = layout.block * sum(array.row_bytes for array in layout.row_arrays())
        most = max(1, self._options.segment_bytes // block_bytes)
        slots = min(most, self._share or self._least)
        self._share = max(0, self._share - slots)
        path = self._new_part(segment_specs(layout, slots))
        file = RawFile(path, [*row_names(layout), _BLOCK_IDS, CHECKSUMS, MARKS], self._disk)
        self._segment = _Segment(file, slots)
        return self._segment

    def _new_part(self, specs: Sequence[DatasetSpec]) -> Path:
        path = self._folder / f"r{self._comm.rank:04d}-{self._next_part:03d}.h5"
        self._next_part += 1
        attributes = {"format": "tauslab part", "run": self._run}
        self._publish(path, specs, attributes)
        return path

    def _publish(
        self, path: Path, specs: Sequence[DatasetSpec], attributes: dict[str, Any]
    ) -> None:
        disk = self._disk
        publish(path, disk, lambda temporary: build_file(temporary, specs, attributes, disk))

    def _close_segment(self) -> None:
        if self._segment is not None:
            self._segment.file.sync()
            self._segment.file.close()
            self._segment = None

    def checkpoint(self, totals: Accumulators, done: BoolArray) -> None:
        """Write this rank's statistics; `done` are the blocks that they include."""
        if not self._layout.needs_checkpoint:
            return
        if self._slots is None:
            path = self._new_part(checkpoint_specs(slot_bytes(self._layout)))
            file = RawFile(path, CHECKPOINT_SLOTS, self._disk)
            self._slots = (file, CheckpointSlots(file, self._layout, self._generation, fresh=True))
        if self._segment is not None:
            self._segment.file.sync()  # a checkpoint counts only if its blocks are marked
        self._slots[1].write(totals, done)

    def finish(self, totals: Accumulators, profile: list[dict[str, float | str]]) -> None:
        """Close this rank's parts; the final file is then made of all parts. Collective.

        Raises
        ------
        OutputError
            Some block was never written, or a file cannot be written or read.
        """
        self._close_segment()
        self.abort()
        self._comm.barrier()
        on_root(self._comm, lambda: self._assemble(totals, profile))

    def _assemble(self, totals: Accumulators, profile: list[dict[str, float | str]]) -> None:
        """Rank 0 makes the final file."""
        layout = self._layout
        sources = self._sources(self._run)
        require_all(self._path, marked_blocks(layout, sources))
        contents = statistics_contents(layout, totals) | profile_contents(profile)
        contents[MARKS] = np.ones(layout.n_blocks, np.uint8)
        contents[CHECKSUMS] = block_sums(layout, sources)
        contents[COMPLETE] = np.ones((), np.uint8)
        contents[WRITERS] = with_this_program(stored_writers(self._path))
        compress, size = self._options.compress, layout.payload_bytes
        small = size < self._options.merge_bytes
        fits = not small or size < (free := self._disk.free_bytes(self._folder))
        if not compress and not fits:
            warn(
                f"the parts are not merged into {self._path}: that takes {in_bytes(size)}, and "
                f"{in_bytes(free)} are free"
            )
        merged = compress > 0 or (small and fits)
        attributes = root_attributes(layout, "plain" if merged else "virtual", self._run)
        if merged:
            rows = rows_of_parts(layout, sources)
            publish_rows(self._path, layout, rows, contents, attributes, self._disk, compress)
            remove_parts(self._path, self._disk)
            return
        views = views_of_parts(layout, sources, self._folder.name)
        publish_view(self._path, layout, views, contents, attributes, self._disk)
        needed = {run.source.path for run in find_runs(layout, sources)}
        for source in sources:
            if source.path not in needed:
                self._disk.remove(source.path)

    def abort(self) -> None:
        """Close this rank's parts; complete blocks stay for --resume."""
        if self._segment is not None:
            self._segment.file.close()
            self._segment = None
        if self._slots is not None:
            self._slots[0].close()
            self._slots = None

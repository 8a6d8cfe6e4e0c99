"""The writer for one rank: the final file, written in place."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tauslab.base.arrays import BoolArray
from tauslab.base.errors import OutputError
from tauslab.base.files.seals import SEALS, final_seals
from tauslab.store.checking.opening import open_own_file
from tauslab.store.format.layout import Accumulators, Chunk, Layout, chunk_blocks
from tauslab.store.format.schema import (
    TEXT,
    DatasetSpec,
    file_specs,
    profile_contents,
    root_attributes,
)
from tauslab.store.format.statistics import statistics_contents
from tauslab.store.format.versions import WRITERS
from tauslab.store.hdf5.disk import Disk, publish
from tauslab.store.hdf5.in_place import RawFile, note_writer
from tauslab.store.hdf5.skeleton import build_file
from tauslab.store.targets import remove_parts
from tauslab.store.writers.admission import Existing
from tauslab.store.writers.checkpoint import CheckpointSlots, slot_bytes
from tauslab.store.writers.progress import (
    StoredProgress,
    belongs_to,
    distrust,
    marked_blocks,
    progress,
    read_source,
)
from tauslab.store.writers.rows import CHECKSUMS, COMPLETE, block_checksums, write_marks, write_rows


class SingleWriter:
    """Writes the final file of a run on one rank.

    Parameters
    ----------
    existing
        The unfinished result at `path` to go on from; None makes a new file, over one that may be
        there.
    run
        Identity of a new run.

    Raises
    ------
    OutputError
        The file cannot be written, or the one to go on from cannot be read.
    """

    def __init__(
        self, path: Path, layout: Layout, disk: Disk, existing: Existing | None, run: str
    ) -> None:
        self._path, self._layout, self._disk = path, layout, disk
        specs = file_specs(layout, 1, in_place=True, checkpoint_bytes=slot_bytes(layout))
        if existing is None:
            attributes = root_attributes(layout, "plain", run)
            publish(path, disk, lambda temporary: build_file(temporary, specs, attributes, disk))
            remove_parts(path, disk)
        else:
            note_writer(path, disk)
        done, self._marked = _begun(path, layout, disk, existing, run)
        self.completed, self.restored = done.completed, done.restored
        self._file = RawFile(path, names_in_place(specs), disk)
        self._slots = CheckpointSlots(self._file, layout, done.generation, fresh=existing is None)

    def write(self, chunk: Chunk) -> None:
        """Write whole blocks and mark them."""
        first, end = chunk_blocks(self._layout, chunk)
        write_rows(self._file, self._layout, chunk, chunk.start, slice(None))
        sums = block_checksums(self._layout, chunk)
        self._file.write(CHECKSUMS, 4 * first * sums.shape[1], sums)
        write_marks(self._file, first, end - first)
        self._marked[first:end] = True

    def checkpoint(self, totals: Accumulators, done: BoolArray) -> None:
        """Write the statistics of the blocks `done`, restored ones included."""
        if self._layout.needs_checkpoint:
            self._slots.write(totals, done)

    def finish(self, totals: Accumulators, profile: list[dict[str, float | str]]) -> None:
        """Write statistics and profile, then declare the file complete.

        Raises
        ------
        OutputError
            Some block was never written, or writing failed.
        """
        require_all(self._path, self._marked)
        complete_in_place(self._file, self._layout, totals, profile[:1])
        remove_parts(self._path, self._disk)

    def abort(self) -> None:
        """Close; complete blocks stay for --resume."""
        self._file.close()


def _begun(
    path: Path, layout: Layout, disk: Disk, existing: Existing | None, run: str
) -> tuple[StoredProgress, BoolArray]:
    """The progress of the run in its file, and a mask of the marked blocks ``[block]``."""
    if existing is None:
        if not belongs_to(path, run):
            raise OutputError(f"{path} was replaced by another run just now")
        nothing = np.zeros(layout.n_blocks, np.bool_)
        return StoredProgress(nothing, None, 0), nothing.copy()
    source = read_source(path, layout, existing.run, verify=True)
    if source is None:
        raise OutputError(f"{path} was replaced by another run just now")
    distrust(source, disk)
    return progress(layout, [source]), marked_blocks(layout, [source])


def names_in_place(specs: list[DatasetSpec]) -> list[str]:
    """Datasets of a file that are written in place.

    Texts are not, nor is the list of writers, which files of earlier versions lack.
    """
    names = [spec.name for spec in specs if spec.dtype != TEXT and spec.allocated]
    return [*(name for name in names if name != WRITERS), SEALS]


def complete_in_place(
    file: RawFile, layout: Layout, totals: Accumulators, profile: list[dict[str, float | str]]
) -> None:
    """Write statistics, profile and seals, put them on the device, mark the file complete, close.

    The profile gets as many rows as /profile has: an earlier attempt may have had more ranks, or
    fewer.
    """
    rows = file.locations["profile/rank"].group_bytes // 4
    each = [*profile[:rows], *({} for _ in range(rows - len(profile)))]
    contents = statistics_contents(layout, totals) | profile_contents(each)
    for name, values in contents.items():
        file.write(name, 0, values)
    with open_own_file(file.path) as finished:
        seals = final_seals(finished, contents)
    file.write(SEALS, 0, seals)
    file.sync()
    file.write(COMPLETE, 0, np.ones(1, np.uint8))
    file.sync()
    file.close()


def require_all(path: Path, marked: BoolArray) -> None:
    """Refuse to finish a result that lacks blocks."""
    missing = int((~marked).sum())
    if missing:
        raise OutputError(
            f"{path} cannot be finished: {missing} of {len(marked)} blocks were not written"
        )

"""A compressed file from the parts of several ranks, each of which compresses its share.

The run itself writes plain parts, which a crash cannot hurt. In the end rank 0 makes the file, and
all ranks read parts in turn and write through HDF5's collective filters, under a temporary name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tauslab.base.errors import OutputError
from tauslab.base.files.drafts import draft_of
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.store.format.flat import Selection
from tauslab.store.format.layout import Accumulators, Layout
from tauslab.store.format.schema import root_attributes
from tauslab.store.hdf5.disk import Disk, write_error
from tauslab.store.targets import remove_parts
from tauslab.store.writers.admission import Existing
from tauslab.store.writers.merge import create_compressed, places_of_rows, read_run
from tauslab.store.writers.mpio import write_box
from tauslab.store.writers.parts import PartsOptions, PartsWriter
from tauslab.store.writers.progress import Run, Source, find_runs

if TYPE_CHECKING:
    from tauslab.decomposition.ranks.mpi import Communicator

_ROUND_BYTES = 32 << 20


@dataclass(frozen=True)
class _Share:
    """Flat rows ``start .. stop - 1`` of a run of blocks, a box of the file's arrays."""

    run: Run
    start: int
    stop: int
    box: Selection


class CompressedWriter(PartsWriter):
    """Writes parts as `PartsWriter` does, and compresses them by all ranks together."""

    def __init__(
        self,
        path: Path,
        layout: Layout,
        comm: Communicator,
        disk: Disk,
        existing: Existing | None,
        run: str,
        options: PartsOptions,
    ) -> None:
        super().__init__(path, layout, comm, disk, existing, run, options)
        self._ranks = comm.for_files()

    def _join(self, totals: Accumulators, profile: list[dict[str, float | str]]) -> None:
        """All ranks make the final file."""
        temporary, sources = on_root(self._comm, lambda: self._create(totals, profile))
        try:
            self._write_all(temporary, sources)
        except OutputError:
            raise
        except (OSError, RuntimeError) as error:
            raise write_error(self._path, error) from error
        self._comm.barrier()
        on_root(self._comm, lambda: self._rename(temporary))

    def _create(
        self, totals: Accumulators, profile: list[dict[str, float | str]]
    ) -> tuple[Path, list[Source]]:
        """On rank 0: a file that lacks nothing but the rows."""
        layout, disk, level = self._layout, self._disk, self._options.compress
        sources, contents = self._whole(totals, profile)
        attributes = root_attributes(layout, "plain", self._run)
        temporary = draft_of(self._path)
        try:
            disk.create(temporary)
            create_compressed(temporary, layout, contents, attributes, disk, level)
        except OSError as error:
            disk.remove(temporary)
            raise write_error(self._path, error) from error
        return temporary, sources

    def _write_all(self, temporary: Path, sources: list[Source]) -> None:
        import h5py

        shares = list(_shares(self._layout, sources))
        with h5py.File(temporary, "r+", driver="mpio", comm=self._ranks.comm) as file:
            for first in range(0, len(shares), self._comm.size):
                mine = first + self._comm.rank
                self._write_share(file, shares[mine] if mine < len(shares) else None)

    def _write_share(self, file: Any, share: _Share | None) -> None:
        """Take part in a round; None for a rank that has nothing left."""
        rows = {} if share is None else _read(self._layout, share)
        for array in self._layout.row_arrays():
            box = None if share is None else share.box
            write_box(file[array.name], box, rows.get(array.name))

    def _rename(self, temporary: Path) -> None:
        with temporary.open("rb+") as file:
            self._disk.sync(file.fileno())
        self._disk.replace(temporary, self._path)
        remove_parts(self._path, self._disk)


def _shares(layout: Layout, sources: list[Source]) -> Iterator[_Share]:
    """All rows, in pieces for one round of one rank; the same on every rank."""
    row_bytes = sum(array.row_bytes for array in layout.row_arrays())
    step = max(1, _ROUND_BYTES // (layout.block * row_bytes))
    for run in find_runs(layout, sources):
        end = run.block + run.count
        for first in range(run.block, end, step):
            start, stop = layout.block_rows(first, min(first + step, end))
            for box, rows in layout.selections(start, stop):
                yield _Share(run, start + rows.start, start + rows.stop, box)


def _read(layout: Layout, share: _Share) -> dict[str, npt.NDArray[Any]]:
    """The rows of a share from its part, by the names of the arrays."""
    path = share.run.source.path
    places = places_of_rows(layout, path)
    with path.open("rb") as raw:
        rows = read_run(layout, share.run, share.start, share.stop, places, raw)
        return {array.name: values for array, _, values in rows}

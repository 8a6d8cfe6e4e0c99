"""The final file of a run that was written in parts: one plain file, or a view of the parts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tauslab.base.files.opening import open_h5
from tauslab.base.files.text import put_attributes
from tauslab.store.format.flat import boxes
from tauslab.store.format.layout import Layout, RowArray
from tauslab.store.format.schema import Contents, finished_specs, row_spec
from tauslab.store.hdf5.buffers import Hdf5OnDisk
from tauslab.store.hdf5.disk import Disk, publish
from tauslab.store.hdf5.in_place import Location, RawFile, locate
from tauslab.store.hdf5.skeleton import (
    attach_scales,
    build_file,
    create_dataset,
    seal_specs,
)
from tauslab.store.hdf5.views import Box, Mapped, create_view
from tauslab.store.writers.resume import parts_folder
from tauslab.store.writers.rows import CHECKSUMS, RunningSums, row_names
from tauslab.store.writers.sources import (
    Run,
    Source,
    find_runs,
    read_cells,
    runs_of_sources,
)

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

_COPY_BYTES = 32 << 20


def publish_merged(
    path: Path,
    layout: Layout,
    sources: Sequence[Source],
    contents: Contents,
    attributes: dict[str, Any],
    disk: Disk,
) -> None:
    """Put one plain file with all rows in place of `path`; the parts are left alone."""
    specs = finished_specs(layout, contents)
    names = row_names(layout)
    # Every row is copied before the file gets its name: fill values would be written for nothing.
    specs = [replace(spec, prefill=spec.name not in names) for spec in specs]

    def build(temporary: Path) -> None:
        build_file(temporary, specs, attributes, disk)
        target = RawFile(temporary, names, disk)
        try:
            for runs in runs_of_sources(layout, sources):
                _copy_runs(layout, runs, target)
        finally:
            target.close()

    publish(path, disk, build)


def publish_compressed(
    path: Path,
    layout: Layout,
    rows: Iterable[tuple[RowArray, int, npt.NDArray[Any]]],
    contents: Contents,
    attributes: dict[str, Any],
    disk: Disk,
    level: int,
) -> None:
    """Put one file with compressed chunks in place of `path`.

    `rows` are those of all arrays in any order, each with the flat number of the first; in order
    where `contents` has no checksums of blocks.

    Raises
    ------
    OutputError
        It cannot be written; `path` is what it was.
    """

    def build(temporary: Path) -> None:
        create_compressed(temporary, layout, contents, attributes, disk, level)
        with Hdf5OnDisk(temporary, disk, "r+") as opened:
            sums = RunningSums(layout)
            for array, start, values in rows:
                put_rows(opened.file[array.name], layout, start, values)
                if CHECKSUMS not in contents:
                    sums.add(array.name, start, values)
                opened.check()
            if CHECKSUMS not in contents:
                opened.file[CHECKSUMS][...] = sums.values

    publish(path, disk, build)


def create_compressed(
    path: Path,
    layout: Layout,
    contents: Contents,
    attributes: dict[str, Any],
    disk: Disk,
    level: int,
) -> None:
    """Make an empty file one that lacks nothing but the rows."""
    names = row_names(layout)
    specs = [
        replace(spec, compress=level) if spec.name in names and spec.chunks is not None else spec
        for spec in finished_specs(layout, contents)
    ]
    with Hdf5OnDisk(path, disk, libver=("v110", "v110")) as opened:
        attach_scales({spec.name: create_dataset(opened.file, spec) for spec in specs}, specs)
        put_attributes(opened.file, attributes)
        seal_specs(opened.file, specs)


def put_rows(dataset: Any, layout: Layout, start: int, values: npt.NDArray[Any]) -> None:
    """Write flat rows from `start` on through HDF5."""
    if layout.sweep is None:
        dataset[start : start + len(values)] = values
        return
    first = 0
    for box in boxes(start, start + len(values), layout.n):
        shape = tuple(side.stop - side.start for side in box)
        count = shape[0] * shape[1]
        dataset[box] = values[first : first + count].reshape(*shape, *values.shape[1:])
        first += count


def rows_of_runs(
    layout: Layout, sources: Sequence[Source]
) -> Iterator[tuple[RowArray, int, npt.NDArray[Any]]]:
    """All rows that the sources hold, a storage block or more at a time."""
    row_bytes = next(iter(layout.row_arrays())).row_bytes
    step = max(1, _COPY_BYTES // max(1, layout.block * row_bytes))
    for runs in runs_of_sources(layout, sources):
        path = runs[0].source.path
        places = _places(layout, path)
        with path.open("rb") as raw:
            for run in runs:
                for first in range(0, run.count, step):
                    count = min(step, run.count - first)
                    slot, block = run.slot + first, run.block + first
                    part = replace(run, slot=slot, block=block, count=count)
                    yield from _read_run(layout, part, places, raw)


def _read_run(
    layout: Layout, run: Run, places: Mapping[str, Location], raw: BinaryIO
) -> Iterator[tuple[RowArray, int, npt.NDArray[Any]]]:
    """The rows of consecutive blocks, array by array, as they lie in their file."""
    start, stop = layout.block_rows(run.block, run.block + run.count)
    for array in layout.row_arrays():
        first = run.slot * layout.block * array.row_bytes
        data = read_cells(raw, places[array.name], first, (stop - start) * array.row_bytes)
        yield array, start, data.view(array.dtype).reshape(stop - start, *array.inner)


def _places(layout: Layout, path: Path) -> dict[str, Location]:
    """Places of a part's rows in its file. The file is closed again: the caller may write."""
    with open_h5(path) as file:
        return {array.name: locate(file[array.name]) for array in layout.row_arrays()}


def _copy_runs(layout: Layout, runs: Sequence[Run], target: RawFile) -> None:
    """Copy the rows that one source has, as bytes."""
    path = runs[0].source.path
    places = _places(layout, path)
    with path.open("rb") as raw:
        for run in runs:
            start, stop = layout.block_rows(run.block, run.block + run.count)
            for array in layout.row_arrays():
                first = run.slot * layout.block * array.row_bytes
                length = (stop - start) * array.row_bytes
                for offset, position, size in places[array.name].ranges(first, length):
                    raw.seek(offset)
                    for done in range(0, size, _COPY_BYTES):
                        data = raw.read(min(_COPY_BYTES, size - done))
                        byte = start * array.row_bytes + position + done
                        target.write(array.name, byte, np.frombuffer(data, np.uint8))


def publish_virtual(
    path: Path,
    layout: Layout,
    sources: Sequence[Source],
    contents: Contents,
    attributes: dict[str, Any],
    disk: Disk,
) -> None:
    """Put a small file in place of `path` that shows the rows in the parts as one."""
    specs = finished_specs(layout, contents)
    rows = {array.name: array for array in layout.row_arrays()}
    own = [spec for spec in specs if spec.name not in rows]
    runs, folder = find_runs(layout, sources), parts_folder(path).name

    def add_views(file: h5py.File) -> None:
        views = [row_spec(layout, array) for array in rows.values()]
        for spec in views:
            array = rows[spec.name]
            create_view(file, spec, array.fill, _mappings(layout, array, runs, folder))
        attach_scales(file, views)

    def build(temporary: Path) -> None:
        build_file(temporary, own, attributes, disk, add_views, opened=rows)

    publish(path, disk, build)


def _mappings(
    layout: Layout, array: RowArray, runs: Sequence[Run], folder: str
) -> Iterator[Mapped]:
    """Places of rows; file names are relative, so that file and folder may move together."""
    zeros = (0,) * len(array.inner)
    for run in runs:
        name = f"{folder}/{run.source.path.name}"
        shape = (*run.source.rows, *array.inner)
        start, stop = layout.block_rows(run.block, run.block + run.count)
        first = run.slot * layout.block
        flat: list[Box] = [((start,), (stop - start,))]
        if layout.sweep is not None:
            found = boxes(start, stop, layout.n)
            flat = [((p.start, t.start), (p.stop - p.start, t.stop - t.start)) for p, t in found]
        for begin, count in flat:
            rows = math.prod(count)
            target: Box = ((*begin, *zeros), (*count, *array.inner))
            source: Box = ((first, *zeros), (rows, *array.inner))
            # An adopted file of the whole sweep has its points too.
            yield Mapped(name, target, target if len(run.source.rows) == 2 else source, shape)
            first += rows

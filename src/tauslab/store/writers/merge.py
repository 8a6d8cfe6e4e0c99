"""The final file of rows that lie elsewhere: copies, or a view of the files that hold them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy.typing as npt

from tauslab.base.files.opening import open_h5
from tauslab.base.files.text import put_attributes
from tauslab.store.format.layout import Layout, RowArray
from tauslab.store.format.schema import Contents, finished_specs, row_spec
from tauslab.store.hdf5.buffers import Hdf5OnDisk
from tauslab.store.hdf5.disk import Disk, publish
from tauslab.store.hdf5.in_place import Location, RawFile, locate
from tauslab.store.hdf5.skeleton import (
    Box,
    Mapped,
    attach_scales,
    build_file,
    create_dataset,
    create_view,
    seal_specs,
)
from tauslab.store.writers.progress import Run, Source, find_runs, read_cells, runs_of_sources
from tauslab.store.writers.rows import CHECKSUMS, RunningSums, row_names

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

_COPY_BYTES = 32 << 20

# Rows of an array, with the flat number of the first.
Rows = Iterable[tuple[RowArray, int, npt.NDArray[Any]]]


def publish_rows(
    path: Path, layout: Layout, rows: Rows, contents: Contents, attributes: dict[str, Any],
    disk: Disk, compress: int = 0,
) -> None:  # fmt: skip
    """Put one file that holds all rows in place of `path`.

    Parameters
    ----------
    rows
        All rows of all arrays, in any order; in order where `contents` has no checksums of blocks.
    compress
        Level of gzip for chunks; 0 for a plain file.

    Raises
    ------
    OutputError
        It cannot be written; `path` is what it was.
    """
    sums = None if CHECKSUMS in contents else RunningSums(layout)

    def counted() -> Iterator[tuple[RowArray, int, npt.NDArray[Any]]]:
        for array, start, values in rows:
            if sums is not None:
                sums.add(array.name, start, values)
            yield array, start, values

    def build_compressed(temporary: Path) -> None:
        names = row_names(layout)
        specs = [
            replace(spec, compress=compress) if spec.name in names and spec.chunks else spec
            for spec in finished_specs(layout, contents)
        ]
        with Hdf5OnDisk(temporary, disk, libver=("v110", "v110")) as opened:
            attach_scales({spec.name: create_dataset(opened.file, spec) for spec in specs}, specs)
            put_attributes(opened.file, attributes)
            seal_specs(opened.file, specs)
        with Hdf5OnDisk(temporary, disk, "r+") as opened:
            for array, start, values in counted():
                for place, own in layout.selections(start, start + len(values)):
                    dataset = opened.file[array.name]
                    shape = (*(side.stop - side.start for side in place), *array.inner)
                    dataset[place] = values[own].reshape(shape)
                opened.check()
            if sums is not None:
                opened.file[CHECKSUMS][...] = sums.values

    def build(temporary: Path) -> None:
        names = row_names(layout)
        # Every row is copied before the file has its name: it needs no fill values.
        specs = [
            replace(spec, prefill=spec.name not in names)
            for spec in finished_specs(layout, contents)
        ]
        build_file(temporary, specs, attributes, disk)
        with closing(RawFile(temporary, [*names, CHECKSUMS], disk)) as target:
            for array, start, values in counted():
                target.write(array.name, start * array.row_bytes, values)
            if sums is not None:
                target.write(CHECKSUMS, 0, sums.values)

    publish(path, disk, build_compressed if compress else build)


def publish_view(
    path: Path, layout: Layout, mappings: Callable[[RowArray], Iterable[Mapped]],
    contents: Contents, attributes: dict[str, Any], disk: Disk,
) -> None:  # fmt: skip
    """Put a small file in place of `path` that shows rows of other files; `mappings` place them."""
    rows = list(layout.row_arrays())
    names = [array.name for array in rows]
    own = [spec for spec in finished_specs(layout, contents) if spec.name not in names]

    def add_views(file: h5py.File) -> None:
        views = [row_spec(layout, array) for array in rows]
        for array, spec in zip(rows, views, strict=True):
            create_view(file, spec, array.fill, mappings(array))
        attach_scales(file, views)

    def build(temporary: Path) -> None:
        build_file(temporary, own, attributes, disk, add_views, opened=names)

    publish(path, disk, build)


# ---------------------------------------------------------------- rows in parts


def rows_of_parts(layout: Layout, sources: Sequence[Source]) -> Rows:
    """All rows of the parts of a run, a storage block or more at a time."""
    largest = max(array.row_bytes for array in layout.row_arrays())
    step = max(1, _COPY_BYTES // max(1, layout.block * largest))
    for runs in runs_of_sources(layout, sources):
        path = runs[0].source.path
        places = places_of_rows(layout, path)
        with path.open("rb") as raw:
            for run in runs:
                end = run.block + run.count
                for first in range(run.block, end, step):
                    start, stop = layout.block_rows(first, min(first + step, end))
                    yield from read_run(layout, run, start, stop, places, raw)


def read_run(
    layout: Layout, run: Run, start: int, stop: int, places: Mapping[str, Location], raw: BinaryIO
) -> Rows:
    """Flat rows ``start .. stop - 1`` of a run, array by array, as they lie in its file."""
    row = run.slot * layout.block + start - run.block * layout.block
    for array in layout.row_arrays():
        size = array.row_bytes
        data = read_cells(raw, places[array.name], row * size, (stop - start) * size)
        yield array, start, data.view(array.dtype).reshape(stop - start, *array.inner)


def places_of_rows(layout: Layout, path: Path) -> dict[str, Location]:
    """Places of a part's rows in its file. The file is closed again: the caller may write."""
    with open_h5(path) as file:
        return {array.name: locate(file[array.name]) for array in layout.row_arrays()}


def views_of_parts(
    layout: Layout, sources: Sequence[Source], folder: str
) -> Callable[[RowArray], Iterator[Mapped]]:
    """For each array the places of its rows in parts.

    Names of files are relative, so that the file and its folder of parts may move together.
    """
    runs = find_runs(layout, sources)

    def mappings(array: RowArray) -> Iterator[Mapped]:
        zeros = (0,) * len(array.inner)
        for run in runs:
            name = f"{folder}/{run.source.path.name}"
            shape = (*run.source.rows, *array.inner)
            first = run.slot * layout.block
            for place, _ in layout.selections(*layout.block_rows(run.block, run.block + run.count)):
                count = tuple(side.stop - side.start for side in place)
                begin = tuple(side.start for side in place)
                target: Box = ((*begin, *zeros), (*count, *array.inner))
                source: Box = ((first, *zeros), (math.prod(count), *array.inner))
                # An adopted file of the whole sweep has its points too.
                yield Mapped(name, target, target if len(run.source.rows) == 2 else source, shape)
                first += math.prod(count)

    return mappings

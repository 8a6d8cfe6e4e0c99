"""Results of consecutive trajectories joined into one, as a single run would have given it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.files.drafts import make_own_folder
from tauslab.store.format.layout import Accumulators, Layout, RowArray
from tauslab.store.format.schema import PROFILE_COLUMNS, Contents, root_attributes
from tauslab.store.format.statistics import statistics_contents, stored_accumulators
from tauslab.store.format.versions import WRITERS, with_this_program, writers_of
from tauslab.store.hdf5.disk import Disk
from tauslab.store.hdf5.skeleton import Box, Mapped
from tauslab.store.targets import part_files, parts_folder, remove_parts
from tauslab.store.writers.memory import with_axes
from tauslab.store.writers.merge import publish_rows, publish_view
from tauslab.store.writers.parts import MERGE_BYTES
from tauslab.store.writers.rows import CHECKSUMS, COMPLETE, MARKS, RunningSums

_COPY_BYTES = 32 << 20


@dataclass(frozen=True)
class ResultPiece:
    """The first `rows` trajectories, at each point, of a finished result.

    Parameters
    ----------
    data
        Arrays or datasets by their names in a file.
    path
        The file that they come from; None in memory.
    storage
        As in `schema.root_attributes`.
    """

    data: Mapping[str, Any]
    rows: int
    path: Path | None = None
    storage: str = "memory"


def joined_contents(
    layout: Layout, pieces: Sequence[ResultPiece], totals: Accumulators
) -> dict[str, npt.NDArray[Any]]:
    """Statistics, profile and marks of the whole; the profile is that of the last piece."""
    contents = statistics_contents(layout, totals)
    last = pieces[-1].data
    columns = [f"profile/{name}" for name in PROFILE_COLUMNS]
    # A file of an earlier version lacks columns that came later.
    contents |= {name: last[name][()] for name in columns if name in last}
    contents[MARKS] = np.ones(layout.n_blocks, np.uint8)
    contents[COMPLETE] = np.ones((), np.uint8)
    contents[WRITERS] = with_this_program(*(writers_of(piece.data) for piece in pieces))
    return contents


def join_memory(
    layout: Layout, pieces: Sequence[ResultPiece], totals: Accumulators
) -> dict[str, npt.NDArray[Any]]:
    """Arrays of the whole without a sweep, by their names in a file."""
    arrays = joined_contents(layout, pieces, totals)
    for array in layout.row_arrays():
        parts = [np.asarray(piece.data[array.name][: piece.rows]) for piece in pieces]
        arrays[array.name] = np.concatenate(parts)
    return with_axes(layout, arrays)


def save_result(
    path: Path, data: Mapping[str, Any], layout: Layout, run: str, compress: int
) -> None:
    """Write a result in memory to a file, as its run would have."""
    totals = stored_accumulators(layout, data)
    piece = ResultPiece(data, layout.n)
    join_files(path, layout, [piece], totals, run, Disk(), compress, whole=True)


def join_files(
    path: Path, layout: Layout, pieces: Sequence[ResultPiece], totals: Accumulators, run: str,
    disk: Disk, compress: int = 0, *, whole: bool = False,
) -> None:  # fmt: skip
    """Put the whole in place of `path`, by a rename: until then what was there stays.

    Below 1 GiB, or compressed, it is one file; above, a view of the pieces, which get names in the
    folder of parts. Pieces elsewhere are left alone. With `whole` it is one file in any case.
    """
    contents = joined_contents(layout, pieces, totals)
    limit = min(MERGE_BYTES, disk.free_bytes(path.parent))
    if whole or compress or layout.payload_bytes < limit:
        attributes = root_attributes(layout, "plain", run)
        rows = _all_rows(layout, pieces)
        publish_rows(path, layout, rows, contents, attributes, disk, compress)
        remove_parts(path, disk)
    else:
        attributes = root_attributes(layout, "virtual", run)
        _publish_view(path, layout, pieces, contents, attributes, disk)


def _all_rows(
    layout: Layout, pieces: Sequence[ResultPiece]
) -> Iterator[tuple[RowArray, int, npt.NDArray[Any]]]:
    """Every row of every array, in order: the array, the flat number of the first, the rows."""
    for array in layout.row_arrays():
        step = max(1, _COPY_BYTES // max(1, array.row_bytes))
        sources = [(piece.data[array.name], piece.rows) for piece in pieces]
        if layout.sweep is None:
            start = 0
            for source, count in sources:
                for first in range(0, count, step):
                    rows = np.asarray(source[first : min(first + step, count)], array.dtype)
                    yield array, start + first, rows
                start += count
            continue
        points = max(1, step // layout.n)
        for point in range(0, layout.points, points):
            part = slice(point, point + points)
            both = [np.asarray(source[part, :count], array.dtype) for source, count in sources]
            rows = np.concatenate(both, axis=1).reshape(-1, *array.inner)
            yield array, point * layout.n, rows


def _publish_view(
    path: Path, layout: Layout, pieces: Sequence[ResultPiece], contents: Contents,
    attributes: dict[str, Any], disk: Disk,
) -> None:  # fmt: skip
    sums = RunningSums(layout)
    for array, start, values in _all_rows(layout, pieces):  # blocks are cut anew
        sums.add(array.name, start, values)
    starts = list(accumulate((piece.rows for piece in pieces[:-1]), initial=0))
    names = [_adopt(path, start, piece, disk) for start, piece in zip(starts, pieces, strict=True)]

    def mappings(array: RowArray) -> Iterator[Mapped]:
        for piece, renamed, before in zip(pieces, names, starts, strict=True):
            yield from _mappings(piece, array.name, renamed, before, len(layout.lead))

    whole = {**contents, CHECKSUMS: sums.values}
    publish_view(path, layout, mappings, whole, attributes, disk)


def _adopt(path: Path, start: int, piece: ResultPiece, disk: Disk) -> dict[str, str]:
    """Give the files of a piece names in the folder of parts; the new name of each."""
    assert piece.path is not None
    folder, theirs = parts_folder(path), parts_folder(piece.path)
    make_own_folder(folder)
    files = [piece.path] if piece.storage == "plain" else part_files(theirs)
    renamed = {}
    for file in files:
        inside = file.parent == folder
        name = file.name if inside else f"{start}-{piece.rows}-{file.name.removesuffix('.h5')}.h5"
        if not inside:
            disk.remove(folder / name)
            disk.link(file, folder / name)
        renamed["" if file == piece.path else f"{theirs.name}/{file.name}"] = (
            f"{folder.name}/{name}"
        )
    return renamed


def _mappings(
    piece: ResultPiece, name: str, renamed: Mapping[str, str], before: int, axis: int
) -> Iterator[Mapped]:
    """Places of a piece's rows; along `axis` of the whole they follow `before` others."""
    dataset = piece.data[name]
    zeros = (0,) * dataset.ndim
    if not dataset.is_virtual:
        count = (*dataset.shape[:axis], piece.rows, *dataset.shape[axis + 1 :])
        target = (*zeros[:axis], before, *zeros[axis + 1 :])
        yield Mapped(renamed[""], (target, count), (zeros, count), dataset.shape)
        return
    settings = dataset.id.get_create_plist()
    for index in range(settings.get_virtual_count()):
        start, count = _box(settings.get_virtual_vspace(index))
        space = settings.get_virtual_srcspace(index)
        source, taken = _box(space)
        left = min(count[axis], piece.rows - start[axis])
        if left < 1:
            continue
        if left < count[axis]:  # without points only: there both are cut along the first axis
            count, taken = (left, *count[1:]), (left, *taken[1:])
        target = (*start[:axis], start[axis] + before, *start[axis + 1 :])
        file = renamed[settings.get_virtual_filename(index)]
        yield Mapped(file, (target, count), (source, taken), space.get_simple_extent_dims())


def _box(space: Any) -> Box:
    start, _, count, block = space.get_regular_hyperslab()
    sizes = tuple(int(c) * int(b) for c, b in zip(count, block, strict=True))
    return tuple(int(s) for s in start), sizes

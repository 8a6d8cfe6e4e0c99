"""Results as tables, for spreadsheets, R and pandas: names of columns, and pieces of rows."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import replacing
from tauslab.base.files.extras import installing
from tauslab.base.option_names import assigned
from tauslab.options.python_values import listed
from tauslab.options.values.texts import some
from tauslab.store.format.schema import STATUS_NAMES
from tauslab.store.results import columns
from tauslab.store.results.ensemble_data import EnsembleData
from tauslab.store.results.samples import (
    column_of,
    flat_rows,
    has_samples,
    place_of,
    require_samples,
    require_some,
    summary_name,
)

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = ".parquet"
SUFFIXES = (*SEPARATORS, PARQUET)
_OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet computes a cell that begins so
WHAT = ("trajectories", "statistics", "final", "summaries")

Columns = list[npt.NDArray[Any]]


@dataclass(frozen=True)
class ResultTable:
    """A header, and rows in pieces: an array of one length per column.

    A count below 0 and a NaN are values that are not there. `unfinished` says of an unfinished run
    how much of it the table holds.
    """

    header: tuple[str, ...]
    pieces: Iterator[Columns]
    unfinished: str = ""


def table_of(
    result: EnsembleData, what: str | None = None, names: Sequence[str] = ()
) -> ResultTable:
    """The recorded data as one table; the swept values come first in every row.

    Parameters
    ----------
    what
        ``trajectories``: a row per trajectory and sample time, a column per species and
        observable. ``statistics``: a row per sample time with mean and sd of each. ``final``
        and ``summaries``: a row per trajectory. By default the first of these that was recorded.
    names
        Species and observables, or summaries; all by default.

    Raises
    ------
    ConfigError
        It was not recorded, or a name is not known.
    """
    names = listed(names)
    if what is None:
        what = next((form for form in WHAT if _holds(result, form)), WHAT[0])
    if what not in WHAT:
        raise ConfigError(f"{assigned('what')}{what!r} is not known; allowed are {', '.join(WHAT)}")
    if what != "statistics":
        require_samples(result)
    require_some(result)
    if what == "summaries":
        return replace(_summaries(result, names), unfinished=result.unfinished)
    known = result.species + (() if what == "final" else result.observables)
    for name in names:
        if name not in known:
            raise ConfigError(f"{name!r} is not in {result.name}; it has {some(known, 20)}")
    chosen = tuple(names) or known
    make = {"statistics": _statistics, "final": _final}.get(what, _trajectories)
    return replace(make(result, chosen), unfinished=result.unfinished)


def write_table(table: ResultTable, path: Path) -> None:
    """Write ``.csv``, ``.tsv`` or ``.parquet``, under a temporary name; what is missing is empty.

    Of an unfinished run a first line, a comment after ``#``, says how much of it is there.

    Raises
    ------
    ConfigError
        Another suffix, or no pyarrow for Parquet.
    OutputError
        The file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix == PARQUET:
        _write_parquet(table, path)
        return
    separator = SEPARATORS.get(suffix)
    if separator is None:
        raise ConfigError(f"{path}: tables are written as {', '.join(SEPARATORS)} or {PARQUET}")
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        if table.unfinished:
            file.write(f"# unfinished: {table.unfinished}\n")
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(map(plain_text, table.header))
        for piece in table.pieces:
            writer.writerows(zip(*(_cells(values) for values in piece), strict=True))


def _write_parquet(table: ResultTable, path: Path) -> None:
    """A row group per piece; missing values are null, and metadata says what is unfinished."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(f"{path}: Parquet needs pyarrow: {installing('pyarrow')}") from None
    remark = {"unfinished": table.unfinished} if table.unfinished else None

    def group_of(piece: Columns) -> Any:
        arrays = [pa.array(values, mask=_missing(values)) for values in piece]
        return pa.Table.from_arrays(arrays, list(table.header)).replace_schema_metadata(remark)

    empty = [np.empty(0)] * len(table.header)
    first = group_of(next(table.pieces, empty))
    with replacing(path) as draft, parquet.ParquetWriter(draft, first.schema) as writer:
        writer.write_table(first)
        for piece in table.pieces:
            writer.write_table(group_of(piece))


def to_pandas(table: ResultTable) -> pd.DataFrame:
    """All of it in memory; what is not there is NaN."""
    import pandas as pd

    pieces = list(table.pieces)
    data = {}
    for index in range(len(table.header)):
        parts = [piece[index] for piece in pieces]
        values = np.concatenate(parts) if parts else np.empty(0)
        lacks = values.dtype.kind == "i" and (values < 0).any()
        data[index] = np.where(values < 0, math.nan, values) if lacks else values
    frame = pd.DataFrame(data)
    frame.columns = pd.Index(table.header)
    if table.unfinished:
        frame.attrs["unfinished"] = table.unfinished
    return frame


def plain_text(cell: str) -> str:
    """A text that no spreadsheet takes for a formula: one that begins as such after a ``'``.

    >>> plain_text("=1+1"), plain_text("X")
    ("'=1+1", 'X')
    """
    return f"'{cell}" if cell.startswith(_OF_FORMULAS) else cell


def _cells(values: npt.NDArray[Any]) -> list[Any]:
    if values.dtype.kind in "UO":
        return [plain_text(cell) if isinstance(cell, str) else cell for cell in values.tolist()]
    absent = _missing(values)
    if absent is None or not absent.any():
        cells: list[Any] = values.tolist()
        return cells
    return [None if gone else cell for cell, gone in zip(values.tolist(), absent, strict=True)]


def _missing(values: npt.NDArray[Any]) -> Any:
    """Mask of missing values: counts below 0 and NaN; None for other types."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    return values < 0 if values.dtype.kind == "i" else None


def _holds(result: EnsembleData, what: str) -> bool:
    names = (result.species + result.observables)[:1]
    if what == "trajectories":
        return any(has_samples(result, name) for name in names)
    if what == "statistics":
        return any(f"{place_of(result, name)[1]}/n" in result.data for name in names)
    return "final" in result.data if what == "final" else bool(result.summaries)


def _rows(result: EnsembleData, row_bytes: int) -> Iterator[slice]:
    """Flat rows of trajectories that are there, a few megabytes at a time."""
    total = result.n_points * result.n
    return columns.rows((total,), row_bytes, result.block, result.completed_blocks)


def _header(
    result: EnsembleData, own: tuple[str, ...], names: Sequence[str] = ()
) -> tuple[str, ...]:
    """Names of columns, each once: swept names, then the columns of the table, then `names`.

    What was swept is called ``NAME_swept`` where NAME is a column, and a species or observable that
    has the name of one of the table's own columns ``NAME_species``.
    """
    all_columns = (*own, *columns.apart(names, own, "species"))
    return (*columns.apart(tuple(result.points), all_columns, "swept"), *all_columns)


def _numbers(result: EnsembleData, rows: slice) -> tuple[Columns, npt.NDArray[np.int64]]:
    """The swept values of flat rows, and the number of each trajectory at its point."""
    point, trajectory = np.divmod(np.arange(rows.start, rows.stop), result.n)
    return [values[point] for values in result.points.values()], trajectory


def _trajectories(result: EnsembleData, names: tuple[str, ...]) -> ResultTable:
    for name in names:
        column_of(result, name)  # refuses what was not recorded
    times = result.times
    datasets = sorted({place_of(result, name)[0] for name in names})
    width = sum(result.data[d].dtype.itemsize * result.data[d].shape[-1] for d in datasets)

    def pieces() -> Iterator[Columns]:
        for rows in _rows(result, len(times) * (width + 8 * len(names))):
            swept, trajectory = _numbers(result, rows)
            read = {d: flat_rows(result, d)[rows] for d in datasets}
            piece = [np.repeat(v, len(times)) for v in (*swept, trajectory)]
            piece.append(np.tile(times, len(trajectory)))
            for name in names:
                dataset, _, axis = place_of(result, name)
                piece.append(read[dataset][:, :, axis.index(name)].reshape(-1))
            yield piece

    return ResultTable(_header(result, ("trajectory", "time"), names), pieces())


def _statistics(result: EnsembleData, names: tuple[str, ...]) -> ResultTable:
    moments = [(result.mean(name), result.std(name)) for name in names]
    times, points = result.times, result.n_points
    piece = [np.repeat(values, len(times)) for values in result.points.values()]
    piece.append(np.tile(times, points))
    for mean, std in moments:
        piece += [np.ravel(mean), np.ravel(std)]
    both = [f"{name}_{kind}" for name in names for kind in ("mean", "sd")]
    return ResultTable(_header(result, ("time",), both), iter([piece]))


def _final(result: EnsembleData, names: tuple[str, ...]) -> ResultTable:
    if "final" not in result.data:
        for name in names:
            column_of(result, name)  # refuses what was not recorded
    dataset = "final" if "final" in result.data else place_of(result, names[0])[0]

    def pieces() -> Iterator[Columns]:
        data, status = flat_rows(result, dataset), flat_rows(result, "status")
        width = data.dtype.itemsize * math.prod(data.shape[1:])
        for rows in _rows(result, width):
            swept, trajectory = _numbers(result, rows)
            values = data[rows] if dataset == "final" else data[rows][:, -1]
            ends = np.array([STATUS_NAMES[end] for end in status[rows].tolist()])
            own = [values[:, result.species.index(name)] for name in names]
            yield [*swept, trajectory, ends, *own]

    return ResultTable(_header(result, ("trajectory", "status"), names), pieces())


def _summaries(result: EnsembleData, names: Sequence[str]) -> ResultTable:
    chosen = tuple(summary_name(result, name) for name in names) or result.summaries
    if not chosen:
        raise ConfigError(f'{result.name} was run without {assigned("record")}"summary:..."')

    def pieces() -> Iterator[Columns]:
        for rows in _rows(result, 8 * len(chosen)):
            swept, trajectory = _numbers(result, rows)
            own = [flat_rows(result, f"summary/{name}")[rows] for name in chosen]
            yield [*swept, trajectory, *own]

    return ResultTable(_header(result, ("trajectory",), chosen), pieces())

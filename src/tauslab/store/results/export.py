"""Results as xarray datasets and dask arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.base.files.extras import installing
from tauslab.store.format.layout import ROW_AXES
from tauslab.store.results import columns
from tauslab.store.results.recorded import Recorded
from tauslab.store.results.samples import (
    finished_rows,
    flat_rows,
    require_samples,
    require_some,
    require_whole_points,
)
from tauslab.store.results.validity import ended_early

if TYPE_CHECKING:
    import dask.array
    import xarray


_SUMMARIES = "summary/"
_COUNTS = ("counts", "final")  # whole numbers; one below 0 stands for a sample that is not there
_SAMPLES = {"counts": "species", "amounts": "species", "observables": "observable"}
_MOST_CHUNKS = 4096  # by default: a graph of tasks that is planned in a moment
_DIMENSIONS = {
    **{name: ("trajectory", *axes) for name, axes in ROW_AXES.items()},
    "statistics/amounts/mean": ("time", "species"),
    "statistics/amounts/variance": ("time", "species"),
    "statistics/mean": ("time", "species"),
    "statistics/variance": ("time", "species"),
    "statistics/n": ("time",),
}


def dimensions(name: str) -> tuple[str, ...]:
    """Axes of a dataset, but for the points of a sweep; empty for one that is not known."""
    return ("trajectory",) if name.startswith(_SUMMARIES) else _DIMENSIONS.get(name, ())


class FileArray:
    """A dataset that opens its file for each read: safe under threads, and small to pickle."""

    def __init__(
        self, reopen: Callable[..., Any], path: str, name: str, shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:  # fmt: skip
        self._reopen, self.path, self.name = reopen, path, name
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        """Read a part, the blocks of which are compared with their checksums."""
        with self._reopen(self.path, checked=True) as result:
            return np.asarray(result.data[self.name][index])


def select(result: Recorded, values: Mapping[str, float]) -> xarray.Dataset:
    """The dataset at the points with these swept values: `Result.sel`."""
    same = result.points_with(values)
    dataset = to_xarray(result)
    if "point" in dataset.dims:
        return dataset.isel(point=same)
    held = {name: result.points[name][same][0] for name in values}
    names = {name: name if name in dataset.dims else f"{name}_swept" for name in held}
    return dataset.sel({names[name]: value for name, value in held.items()})


def to_dask(result: Recorded, name: str, blocks: int | None = None) -> dask.array.Array:
    """A dataset, `blocks` storage blocks of trajectories in a chunk; see `Result.to_dask`."""
    try:
        import dask.array
    except ImportError:
        raise ConfigError(f"to_dask needs dask: {installing('dask')}") from None
    if name not in result.data:
        names = [key for key in result.data if not key.startswith(("model/", "progress/"))]
        raise ConfigError(f"{result.name} has no dataset {name!r}; it has {', '.join(names)}")
    require_samples(result)
    require_some(result)
    data = result.data[name]
    shape: tuple[int, ...] = tuple(data.shape)
    chunks = shape
    if dimensions(name)[:1] == ("trajectory",):
        wanted = -(-len(result.completed_blocks) // _MOST_CHUNKS) if blocks is None else blocks
        size = max(1, wanted) * result.block
        rows = (size,) if not result.swept else _rows_of_chunk(result, size)
        chunks = (*rows, *shape[len(rows) :])
    from_array: Any = dask.array.from_array
    if result.path is None:
        return _there(result, name, from_array(np.asarray(data), chunks=chunks))
    # The time of the last change keeps two states of a file apart in dask's caches.
    path = os.fspath(result.path.resolve())
    assert result.reopen is not None
    source = FileArray(result.reopen, path, name, shape, np.dtype(data.dtype.str))
    label = f"tauslab-{name}-{dask.base.tokenize(path, name, result.path.stat().st_mtime_ns)}"
    return _there(result, name, from_array(source, chunks=chunks, name=label))


def _there(result: Recorded, name: str, array: dask.array.Array) -> dask.array.Array:
    """Drop trajectories of unfinished blocks; NaN for counts of trajectories that ended early."""
    import dask.array

    if dimensions(name)[:1] != ("trajectory",):
        return array
    if not result.complete:
        require_whole_points(result)
        done = result.completed_blocks
        runs = columns.rows(array.shape, array.dtype.itemsize, result.block, done)
        concatenate: Any = dask.array.concatenate
        array = concatenate([array[rows] for rows in runs])
    if name in _COUNTS and _any_ended_early(result):
        array = dask.array.where(array < 0, np.nan, array)
    return array


def _any_ended_early(result: Recorded) -> bool:
    """Return whether counts have fill values; statuses are read in pieces."""
    status, done = flat_rows(result, "status"), result.completed_blocks
    pieces = columns.rows(status.shape, status.dtype.itemsize, result.block, done)
    return any(ended_early(np.asarray(status[rows])).any() for rows in pieces)


def _rows_of_chunk(result: Recorded, size: int) -> tuple[int, int]:
    """Points and trajectories that make about `size` trajectories."""
    return max(1, size // result.n), min(size, result.n)


def to_xarray(result: Recorded, *, chunked: bool = False, by_name: bool = False) -> xarray.Dataset:
    """All of a result with named dimensions; see `Result.to_xarray`."""
    dataset = _with_axes(result, chunked=chunked)
    return _named(dataset) if by_name else dataset


def _named(dataset: xarray.Dataset) -> xarray.Dataset:
    """With samples of each species and observable as a variable of its own."""
    close = dataset.close
    for samples, axis in _SAMPLES.items():
        if samples not in dataset:
            continue
        table = dataset[samples]
        dataset = dataset.drop_vars(samples)
        labels = [str(label) for label in table[axis].values]
        names = columns.apart(labels, {*map(str, dataset.variables), *map(str, dataset.dims)}, axis)
        dataset = dataset.assign(
            {name: table.isel({axis: i}, drop=True) for i, name in enumerate(names)}
        )
    dataset.set_close(close)
    return dataset


def _with_axes(result: Recorded, *, chunked: bool) -> xarray.Dataset:
    """All of a result, with species and observables as axes."""
    import xarray

    require_samples(result)
    require_some(result)
    if not result.complete:
        require_whole_points(result)
    coordinates: dict[str, Any] = {"time": result.times, "species": list(result.species)}
    if result.observables:
        coordinates["observable"] = list(result.observables)
    if result.path is not None and result.complete:
        if not chunked and hasattr(result.data, "verify"):  # xarray reads the file itself
            result.data.verify()
        dataset = _open(result)
        if chunked:
            dataset = _in_chunks(dataset, result)
        known = {k: v for k, v in coordinates.items() if k in dataset.dims}
        return _with_units(_with_points(dataset.assign_coords(known), result), result)
    lead = ("point",) if result.swept else ()
    variables = {
        name.removeprefix("statistics/").removeprefix("amounts/"): (
            (*lead, *dims),
            _values(result, name, chunked=chunked),
        )
        for name, dims in _DIMENSIONS.items()
        if name in result.data
    }
    variables |= {
        name: ((*lead, "trajectory"), _values(result, _SUMMARIES + name, chunked=chunked))
        for name in result.summaries
    }
    dataset = xarray.Dataset(variables, coordinates, dict(result.attributes))
    return _with_units(_with_points(dataset, result), result)


def _values(result: Recorded, name: str, *, chunked: bool) -> Any:
    """A dataset of finished blocks; NaN for counts of trajectories that ended early."""
    rows = dimensions(name)[:1] == ("trajectory",)
    if chunked and rows and result.path is not None:
        return to_dask(result, name)
    values = finished_rows(result, result.data[name]) if rows else np.asarray(result.data[name][()])
    early = name in _COUNTS and _any_ended_early(result)
    return np.where(values < 0, np.nan, values) if early else values


def _with_units(dataset: xarray.Dataset, result: Recorded) -> xarray.Dataset:
    """With the attribute ``units`` on times and amounts, where it is known."""
    if result.time_unit and "time" in dataset.variables:
        dataset["time"].attrs["units"] = result.time_unit
    for name in ("counts", "amounts", "final", "mean"):
        if name in dataset.variables and result.amount_unit:
            dataset[name].attrs["units"] = result.amount_unit
    return dataset


def _in_chunks(dataset: xarray.Dataset, result: Recorded) -> xarray.Dataset:
    """With dask arrays in place of arrays that have a row per trajectory."""
    paths = [name for name, dims in _DIMENSIONS.items() if dims[0] == "trajectory"]
    paths += [_SUMMARIES + name for name in result.summaries]
    for path in paths:
        name = path.removeprefix(_SUMMARIES)
        if path in result.data:
            variable = dataset[name].variable
            dataset = dataset.assign({name: (variable.dims, to_dask(result, path), variable.attrs)})
    return dataset


def _with_points(dataset: xarray.Dataset, result: Recorded) -> xarray.Dataset:
    """With the swept values as coordinates of the points; ``NAME_swept`` where NAME is taken."""
    taken = set(map(str, (*dataset.variables, *dataset.dims)))
    points = tuple(result.points)
    names = dict(zip(points, columns.apart(points, taken, "swept"), strict=True))
    dataset = dataset.assign_coords({names[k]: ("point", v) for k, v in result.points.items()})
    axes = list(names.values())
    if "grid" not in result.attributes:
        return dataset
    index = dataset.set_index(point=axes)
    if index.indexes["point"].has_duplicates:
        return dataset
    if len(axes) == 1:
        return dataset.swap_dims({"point": axes[0]})
    return index.unstack("point").transpose(*axes, ...)


def _open(result: Recorded) -> xarray.Dataset:
    """Datasets of the file's root, of its summaries, and of its statistics with named dimensions.

    Counts stay integers, unless trajectories ended early: then a fill value is NaN.
    """
    import xarray

    path = os.fspath(result.path or "")
    options: dict[str, Any] = {"engine": "h5netcdf", "decode_cf": False, "phony_dims": "sort"}
    dataset = xarray.open_dataset(path, **options)
    merged, opened = dataset, [dataset]
    wanted: dict[str, tuple[str, ...]] = {
        "statistics": ("n", "mean", "variance"),
        "statistics/amounts": ("mean", "variance"),
        "summary": result.summaries,
    }
    for group, names in wanted.items():
        present = [name for name in names if f"{group}/{name}" in result.data]
        if present:
            opened.append(xarray.open_dataset(path, group=group, **options))
            merged = merged.assign({name: opened[-1][name] for name in present})

    def close() -> None:
        for one in opened:
            one.close()

    if _any_ended_early(result):
        merged = merged.assign({k: _masked(merged[k].variable) for k in _COUNTS if k in merged})
    merged.set_close(close)
    return merged


def _masked(counts: xarray.Variable) -> xarray.Variable:
    """With NaN in place of -1, when it is read."""
    import xarray

    filled = counts.copy(deep=False)
    filled.attrs = {**counts.attrs, "_FillValue": counts.dtype.type(-1)}
    decoded = xarray.decode_cf(xarray.Dataset({"counts": filled}), decode_times=False)
    return decoded["counts"].variable

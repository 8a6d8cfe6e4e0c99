"""Samples of an ensemble, which may not fit in memory; users ask a `Result`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.option_names import assigned, opt
from tauslab.options.values.texts import formula_hint, some
from tauslab.store.format.layout import FlatRows
from tauslab.store.results import columns, of_run
from tauslab.store.results.columns import Column
from tauslab.store.results.recorded import Recorded

_MANY_SPECIES = 12  # more than a look takes in
_NO_STATUS = 255


def place_of(result: Recorded, name: str) -> tuple[str, str, tuple[str, ...]]:
    """Dataset of a quantity's samples, group of its statistics, names on its axis."""
    if name not in result.species:
        return "observables", "statistics/observables", result.observables
    if result.continuous:
        return "amounts", "statistics/amounts", result.species
    return "counts", "statistics", result.species


def is_whole(result: Recorded, name: str) -> bool:
    """Return whether a quantity is a count."""
    return name in result.species and not result.continuous


def main_quantities(result: Recorded) -> tuple[str, ...]:
    """Species and observables; observables first where there are more than 12 species.

    Of a network that rules have made, observables are what its author gave names.
    """
    if len(result.species) > _MANY_SPECIES:
        return result.observables + result.species
    return result.species + result.observables


def summary_name(result: Recorded, name: str) -> str:
    """The full name of a recorded summary, from a beginning of it up to a colon.

    Raises
    ------
    ConfigError
        No summary, or more than one, has this name.
    """
    matching = [name] if name in result.summaries else []
    matching = matching or [full for full in result.summaries if full.startswith(f"{name}:")]
    if len(matching) != 1:
        listed = ", ".join(result.summaries) or "none"
        which = "not one" if matching else "no"
        raise ConfigError(f"{name!r} is {which} summary of {result.name}; it has {listed}")
    return matching[0]


def require_some(result: Recorded) -> None:
    """Refuse an unfinished run without a finished block; warn, once, of one with some.

    Raises
    ------
    InputFileError
        There is nothing that could be averaged.
    """
    there = result.complete or bool(result.completed_blocks.any())
    of_run.require_some(result, "completed block", there=there)


def require_whole_points(result: Recorded) -> None:
    """Refuse an unfinished sweep, whose points have unlike numbers of trajectories.

    Raises
    ------
    InputFileError
        It is one.
    """
    if result.swept and not result.complete:
        raise InputFileError(
            f"{result.name} is an unfinished sweep ({result.unfinished}) and has no array over all "
            "trajectories of all points: take means, quantiles, histograms or to_pandas(), or "
            f"complete it with {opt('resume')}"
        )


def finished_rows(
    result: Recorded, dataset: Any, of_row: tuple[Any, ...] = (), *, missing: float | None = None
) -> npt.NDArray[Any]:
    """A dataset with a row per trajectory, without trajectories of unfinished blocks.

    Parameters
    ----------
    of_row
        Index of what is taken of each row.
    missing
        Stands for what an unfinished sweep lacks, whose points have unlike numbers of rows.

    Raises
    ------
    InputFileError
        It is an unfinished sweep, and there is no value for what is missing; or no block is
        finished.
    """
    if result.complete and not of_row:
        return np.asarray(dataset[()])
    if result.complete and isinstance(dataset, np.ndarray):
        lead = (slice(None),) * (2 if result.swept else 1)
        return dataset[(*lead, *of_row)].copy()
    require_some(result)
    if missing is None:
        require_whole_points(result)
    flat, inside = _flat(result, dataset), (slice(None), *of_row)
    size, done = dataset.dtype.itemsize, result.completed_blocks
    there = list(columns.rows(flat.shape, size, result.block, done))
    number = flat.shape[0] if result.swept else sum(rows.stop - rows.start for rows in there)
    inner = np.empty((0, *flat.shape[1:]))[inside].shape[1:]
    values = np.full((number, *inner), missing or 0, dataset.dtype)
    at = 0
    for rows in there:
        at = rows.start if result.swept else at
        piece = flat[rows][inside]
        values[at : at + len(piece)] = piece
        at += len(piece)
    return values.reshape(result.n_points, result.n, *inner) if result.swept else values


def column_of(result: Recorded, name: str, point: int = 0) -> Column:
    """Recorded samples of a species or observable, to be streamed; in a sweep, of one point."""
    dataset, index = _samples(result, name)
    part = slice(point * result.n, (point + 1) * result.n)
    pieces = partial(_pieces, result, dataset, index, part)
    return Column(pieces, len(result.times), is_whole(result, name))


def numbered(result: Recorded, name: str) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """All recorded samples ``[trajectories, time]``, with the number of the first trajectory.

    Points of a sweep follow each other.
    """
    yield from _numbered(result, *_samples(result, name), slice(None))


def flat_rows(result: Recorded, name: str) -> Any:
    """A dataset with a row per trajectory; points of a sweep follow each other."""
    return _flat(result, result.data[name])


def row_bytes(result: Recorded, name: str) -> int:
    """Bytes of a trajectory's samples of all species, or all observables."""
    dataset, _ = _samples(result, name)
    return int(dataset.dtype.itemsize * math.prod(dataset.shape[1:]))


def samples_at_points(result: Recorded, name: str, points: slice) -> npt.NDArray[Any]:
    """Samples ``[point, trajectory, time]``; -1 or NaN where a block is not complete."""
    dataset, index = _samples(result, name)
    first, end = points.start * result.n, points.stop * result.n
    samples = np.array(dataset[first:end][:, :, index])
    if not result.completed_blocks.all():
        done = result.completed_blocks[np.arange(first, end) // result.block]
        samples[~done] = -1 if samples.dtype.kind == "i" else math.nan
    return samples.reshape(-1, result.n, len(result.times))


def has_samples(result: Recorded, name: str) -> bool:
    """Return whether every sample of a species or observable was recorded."""
    require_known(result, name)
    return place_of(result, name)[0] in result.data


def require_samples(result: Recorded) -> None:
    """Refuse a run of several ranks that was broken off: the file itself has no samples yet."""
    if result.attributes.get("storage") == "parts":
        raise InputFileError(
            f"{result.name} is unfinished and its samples still lie in parts, one per rank: "
            f"complete it with {opt('resume')}"
        )


def _samples(result: Recorded, name: str) -> tuple[Any, int]:
    """Flat dataset that holds a species or observable, and its place there."""
    require_known(result, name)
    stored, _, names = place_of(result, name)
    dataset = _flat(result, dataset_of(result, stored, "trajectories"))
    require_some(result)
    return dataset, names.index(name)


def _numbered(
    result: Recorded, dataset: Any, index: int, part: slice
) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    size = dataset.dtype.itemsize
    for rows in columns.rows(dataset.shape, size, result.block, result.completed_blocks, part):
        # A copy: a view would keep the samples of all species in memory.
        yield rows.start, np.array(dataset[rows][:, :, index])


def _pieces(result: Recorded, dataset: Any, index: int, part: slice) -> Iterator[npt.NDArray[Any]]:
    """Samples without their numbers; a single row that does not count where there are none."""
    some_there = False
    for _, piece in _numbered(result, dataset, index, part):
        some_there = True
        yield piece
    if not some_there:
        missing = -1 if dataset.dtype.kind == "i" else math.nan
        yield np.full((1, len(result.times)), missing, dataset.dtype)


def _flat(result: Recorded, dataset: Any) -> Any:
    return FlatRows(dataset) if result.swept else dataset


def dataset_of(result: Recorded, dataset: str, option: str) -> Any:
    """A dataset; refuses what was not recorded, as `option` would."""
    if dataset not in result.data:
        raise missing_error(result, option)
    require_samples(result)
    return result.data[dataset]


def status_of(result: Recorded) -> npt.NDArray[np.uint8]:
    """Status in which each trajectory ended, `Result.status`."""
    require_samples(result)
    return np.asarray(finished_rows(result, result.data["status"], missing=_NO_STATUS), np.uint8)


def missing_error(result: Recorded, option: str) -> ConfigError | InputFileError:
    """The error where nothing of an option was recorded, or is there yet."""
    if not result.complete:
        return InputFileError(
            f"{result.name} is unfinished and holds no {option} yet: "
            f"complete it with {opt('resume')}"
        )
    return ConfigError(f"{result.name} was run without " + f'{assigned("record")}"{option}"')


def require_known(result: Recorded, name: str) -> None:
    """Refuse what is neither a species nor an observable."""
    if name not in result.species and name not in result.observables:
        index_of(result, name, main_quantities(result))


def index_of(result: Recorded, name: str, names: Sequence[str]) -> int:
    """Place of a name in an axis; a `ConfigError` that lists the names where it is not there."""
    if name in result.observables and name not in names:
        raise ConfigError(
            f"{name!r} is an observable, and this is of species: result[{name!r}][..., -1] is "
            f"its value at the end of each trajectory, and mean({name!r}) its mean"
        )
    if name not in names:
        raise ConfigError(
            f"{name!r} is not recorded in {result.name}; it has {some(names, 20)}"
            f"{formula_hint(name, names)}"
        )
    return names.index(name)

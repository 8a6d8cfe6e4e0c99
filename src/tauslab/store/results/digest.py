"""SHA-256 digests of a result: equal if and only if the results are equal, however they are stored.

A line covers one dataset, or one species of it: its path, dtype and shape as text, then its values
as little-endian bytes in C order. Attributes, derived floating-point statistics, progress and
profile do not count.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.option_names import opt
from tauslab.kernels.ensemble.sums import POWERS
from tauslab.options.record import quantity_of
from tauslab.store.format.layout import ROW_AXES, FlatRows
from tauslab.store.results import columns
from tauslab.store.results.columns import texts
from tauslab.store.results.recorded import Recorded

# The version of the file format whose fields are covered: later ones are not, so that
# the digest of a run stays what it was.
COVERED = 2

_SUMMARIES = "summary/"
_COUNT_SUMS = sorted(
    f"statistics/{name}" for power in POWERS if power.since <= COVERED for name in power.stored
)
# What is covered, in order; a name that ends in / stands for all datasets under it, by name,
# and a histogram for its cells and edges.
_COVERED = (
    "time", "species", "sweep/", "status", "counts", "amounts", "observables", "statistics/n",
    *_COUNT_SUMS, "statistics/amounts/", "statistics/observables/", "statistics/histogram",
    "final", _SUMMARIES,
)  # fmt: skip
_PER_SPECIES = {"counts", "amounts", "final", *_COUNT_SUMS}
# Of the amounts of ordinary differential equations, a line per species and dataset too; digits of
# sums have an axis of their own behind that of species.
_AMOUNTS = "statistics/amounts/"
_WITH_DIGITS = ("sum", "sumsq")
_OBSERVABLES = ("observables", "statistics/observables/")
_DERIVED = ("mean", "variance")

Lines = list[tuple[str, str]]


def digest_lines(result: Recorded, species: Sequence[str] | None = None) -> Lines:
    """Name and SHA-256 of every dataset that counts.

    Parameters
    ----------
    species
        Cover these only, so that a run which recorded just them has the same lines; observables
        are left out, since such a run has none.

    Raises
    ------
    InputFileError
        The result is unfinished.
    ConfigError
        A species was not recorded.
    """
    if not result.complete:
        done, all_blocks = int(result.completed_blocks.sum()), len(result.completed_blocks)
        raise InputFileError(
            f"{result.path} is unfinished ({done} of {all_blocks} blocks are there), "
            f"so it has no digest: complete it with {opt('resume')}"
        )
    chosen = _choose(result, species)
    lines: Lines = []
    for name in _names(result, chosen, species_only=species is not None):
        dataset = result.data[name]
        if name == "species":
            lines.append((name, text_digest(name, chosen)))
        elif name in _PER_SPECIES or name.startswith(_AMOUNTS):
            lines += _species_lines(
                name, dataset, [result.species.index(s) for s in chosen], chosen
            )
        else:
            lines.append((name, dataset_digest(name, dataset)))
    return lines


def digest_total(lines: Lines) -> str:
    """SHA-256 over the lines, each as ``name hex`` and a newline."""
    return hashlib.sha256(
        "".join(f"{name} {value}\n" for name, value in lines).encode()
    ).hexdigest()


def _choose(result: Recorded, species: Sequence[str] | None) -> list[str]:
    """Chosen species in the order of the file, which does not depend on how they were named."""
    for name in species or ():
        if name not in result.species:
            raise ConfigError(
                f"{name!r} is not a species of {result.path or 'this result'}; "
                f"it has {', '.join(result.species)}"
            )
    return [name for name in result.species if species is None or name in species]


def _names(result: Recorded, chosen: list[str], *, species_only: bool) -> Iterator[str]:
    for covered in _COVERED:
        if covered == "statistics/histogram":
            for key in [f"{covered}/{species}" for species in chosen]:
                yield from [key, f"{key}_edges"] if key in result.data else []
        elif species_only and covered in _OBSERVABLES:
            continue
        elif covered.endswith("/"):
            names = [name for name in result.data if name.startswith(covered)]
            if species_only and covered == _SUMMARIES:
                names = [name for name in names if quantity_of(name) in chosen]
            yield from sorted(name for name in names if name.split("/")[-1] not in _DERIVED)
        elif covered in result.data:
            yield covered


def _species_lines(name: str, dataset: Any, indices: list[int], chosen: list[str]) -> Lines:
    """A line per species, all from one pass over the dataset."""
    digits = name.startswith(_AMOUNTS) and name.rpartition("/")[2] in _WITH_DIGITS
    axis = -2 if digits else -1
    shape = (*dataset.shape[:axis], *dataset.shape[len(dataset.shape) + axis + 1 :])
    hashes: list[Any] = [
        begin_digest(f"{name}/{species}", dataset.dtype, shape) for species in chosen
    ]
    for piece in _pieces(name, dataset):
        for sha, index in zip(hashes, indices, strict=True):
            sha.update(canonical_bytes(piece.take(index, axis)))
    return [(f"{name}/{s}", sha.hexdigest()) for s, sha in zip(chosen, hashes, strict=True)]


def dataset_digest(name: str, dataset: Any) -> str:
    """SHA-256 of a dataset or an array: its name, type and shape, and its values."""
    if dataset.dtype.kind in "OSU":
        return text_digest(name, texts(dataset))
    sha = begin_digest(name, dataset.dtype, dataset.shape)
    for piece in _pieces(name, dataset):
        sha.update(canonical_bytes(piece))
    return str(sha.hexdigest())


def text_digest(name: str, values: Sequence[str]) -> str:
    """Text counts as UTF-8, each string ended by a zero byte, whatever way a file stores it."""
    sha = hashlib.sha256(f"{name}\ntext\n{[len(values)]}\n".encode())
    sha.update(b"".join(value.encode() + b"\0" for value in values))
    return sha.hexdigest()


def begin_digest(name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> Any:
    """A digest that has taken in path, dtype and shape."""
    text = np.dtype(dtype.str).newbyteorder("<").str
    return hashlib.sha256(f"{name}\n{text}\n{[int(size) for size in shape]}\n".encode())


def _pieces(name: str, dataset: Any) -> Iterator[npt.NDArray[Any]]:
    """A dataset in runs along its first axis; of a sweep, in runs of trajectories."""
    if 0 in dataset.shape:
        return
    if not dataset.shape:
        yield np.asarray(dataset[()])
        return
    if name in ROW_AXES and len(dataset.shape) > 1 + len(ROW_AXES[name]):
        dataset = FlatRows(dataset)
    row_bytes = dataset.dtype.itemsize * math.prod(dataset.shape[1:])
    rows = columns.READ_BYTES // max(1, row_bytes)
    chunk = (getattr(dataset, "chunks", None) or (1,))[0]
    step = max(chunk, rows - rows % chunk)
    for start in range(0, dataset.shape[0], step):
        yield np.asarray(dataset[start : start + step])


def canonical_bytes(values: npt.NDArray[Any]) -> bytes:
    """Little-endian bytes in C order; every NaN has the same bits."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    return values.astype(np.dtype(values.dtype.str).newbyteorder("<"), copy=False).tobytes()

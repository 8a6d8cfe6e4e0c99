"""Checks of the file of an ensemble: attributes, types and shapes, by themselves and together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.errors import InputFileError, TauslabError
from tauslab.base.files.opening import reading
from tauslab.base.files.seals import SealedFile, require_sound_heaps
from tauslab.store.checking.opening import OTHER_KINDS, ended_by_signals, known_attributes
from tauslab.store.format.layout import RowArray, is_row_name

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

METHODS = ("ssa", "tau", "ode", "hybrid", "cle")
OF_AMOUNTS = ("ode", "hybrid", "cle")  # whose species are real numbers
STORAGES = ("plain", "parts", "virtual")
_NEEDED = (
    "time", "status", "model/source", "model/canonical", "progress/blocks", "progress/block_size",
    "progress/complete", "progress/checksums", "profile/rank",
)  # fmt: skip
_NEEDED_TEXTS = ("run", "record")
_TEXTS = (*_NEEDED_TEXTS, "model_sha256", "command", "sweep", "grid", "sample", "selector")
_MOST = 1 << 62
Shape = tuple[int, ...]


def checked_ensemble(
    path: Path, file: h5py.File, kind: type[TauslabError] = InputFileError
) -> SealedFile:
    """Check the open file of an ensemble; nothing but what is small is read.

    Raises
    ------
    TauslabError
        A `kind`: the file is another program's, of another version or kind, or not what was
        written.
    """
    with reading(path, kind), ended_by_signals():
        attributes = known_attributes(path, file, kind)
        method = attributes.get("method")
        if method in OTHER_KINDS:
            raise kind(f"{path} holds {OTHER_KINDS[method]}, not an ensemble of trajectories")
        views = attributes.get("storage") == "virtual"
        if views:
            require_sound_heaps(path, kind)
        sealed = SealedFile(path, file, kind, views=views, attributes=attributes)
        for wrong in _wrong(sealed.attributes, file, sealed):
            raise sealed.damaged(wrong)
        return sealed


def _wrong(attributes: Mapping[str, Any], file: h5py.File, sealed: SealedFile) -> Iterator[str]:
    """Contradictions in the file; the first one is reported."""
    names = sealed.names
    yield from _wrong_attributes(attributes)
    yield from (f"it has no /{name}" for name in _NEEDED if name not in names)
    sizes = {}
    for axis in ("time", "species", "observable"):
        shape: Shape = file[axis].shape if axis in names else (0,)
        if len(shape) != 1:
            yield f"/{axis} is not a list"
        if axis != "time" and axis in names and file[axis].dtype.kind != "S":
            yield f"/{axis} holds no names"
        sizes[axis] = shape[0]
    for name in ("model/source", "model/canonical"):
        if file[name].dtype.kind != "S" or file[name].shape:
            yield f"/{name} is not one text"
    times = file["time"][()]
    if not len(times) or times.dtype.kind != "f" or not np.isfinite(times).all():
        yield "/time is not a list of finite numbers"
    if (np.diff(times) <= 0).any():
        yield "/time does not increase"
    swept = [name for name in names if name.startswith("sweep/")]
    lead, wrong = points_axis(attributes, file, swept)
    yield from wrong
    yield from _wrong_rows(attributes, file, names, lead, sizes)
    yield from _wrong_progress(attributes, file, complete=sealed.complete)


def _wrong_attributes(attributes: Mapping[str, Any]) -> Iterator[str]:
    for name, least, most in (("n", 1, _MOST), ("block", 1, _MOST), ("seed", 0, 2**64 - 1)):
        value = attributes.get(name)
        if not isinstance(value, int) or not least <= value <= most:
            yield f"its attribute {name!r} is {value!r}, not a whole number from {least} on"
    for name, known in (("method", METHODS), ("storage", STORAGES)):
        if attributes.get(name) not in known:
            yield f"its attribute {name!r} is {attributes.get(name)!r}, not {' or '.join(known)}"
    for name in _TEXTS:
        if not isinstance(attributes.get(name, "" if name not in _NEEDED_TEXTS else None), str):
            yield f"its attribute {name!r} is no text"


def points_axis(
    attributes: Mapping[str, Any], file: h5py.File, swept: list[str]
) -> tuple[Shape, list[str]]:
    """The axis of points, and what is wrong with it."""
    names = str(attributes["sweep"]).split(",") if "sweep" in attributes else []
    if sorted(f"sweep/{name}" for name in names) != swept:
        return (), ["its attribute 'sweep' does not name what is in /sweep"]
    if not names:
        return (), ["it has a grid without a sweep"] if "grid" in attributes else []
    shapes = {file[name].shape for name in swept}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1 or not next(iter(shapes))[0]:
        return (), ["what is in /sweep differs in length"]
    lead: Shape = next(iter(shapes))
    if any(file[name].dtype.kind != "f" for name in swept):
        return lead, ["what is in /sweep are not numbers"]
    if "grid" in attributes:
        sides = str(attributes["grid"]).split(",")
        whole = all(side.isascii() and side.isdigit() for side in sides)
        if not whole or math.prod(map(int, sides)) != lead[0] or len(sides) != len(names):
            return lead, [f"its attribute 'grid' is {attributes['grid']!r} for {lead[0]} points"]
    return lead, []


def _wrong_rows(
    attributes: Mapping[str, Any],
    file: h5py.File,
    names: list[str],
    lead: Shape,
    sizes: Mapping[str, int],
) -> Iterator[str]:
    before = (*lead, attributes["n"])
    real = attributes["method"] in OF_AMOUNTS
    rows = [RowArray.of(name, sizes, real=real) for name in names if is_row_name(name)]
    for row in rows:
        dataset = file[row.name]
        if dataset.shape != (*before, *row.inner) or np.dtype(dataset.dtype.str) != row.dtype:
            is_now = f"{dataset.dtype} {list(dataset.shape)}"
            yield f"/{row.name} is {is_now}, not {row.dtype} {[*before, *row.inner]}"
    # Equations may have observables alone.
    samples = {"amounts", "observables"} if real else {"counts"}
    if samples.isdisjoint(names) and "trajectories" in str(attributes["record"]).split(","):
        yield "it has no samples, and its attribute 'record' says that it has"
    blocks = -(-math.prod(before) // attributes["block"])
    sums, marks = file["progress/checksums"], file["progress/blocks"]
    if sums.shape != (blocks, len(rows)) or sums.dtype != np.dtype("<u4"):
        yield "it has not a checksum for each block"
    if marks.shape != (blocks,) or marks.dtype != np.dtype("u1"):
        yield f"it has not a mark for each of {blocks} blocks"


def _wrong_progress(
    attributes: Mapping[str, Any], file: h5py.File, *, complete: bool
) -> Iterator[str]:
    size = file["progress/block_size"][()]
    if np.ndim(size) or size != attributes["block"]:
        yield f"its blocks are of {size} trajectories, and its attribute 'block' is another"
    marks = file["progress/blocks"][()]
    if (marks > 1).any() or (complete and not marks.all()):
        yield "its marks of complete blocks are not what was written"
    if attributes["storage"] == "virtual" and not complete:
        yield "it shows parts as one, and is not complete"

"""Datasets of a layout, with shapes, types, fill values and dimension scales."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.kernels.ensemble.sums import DIGIT_BITS, DIGITS
from tauslab.store.format.layout import SAMPLES, Layout, RowArray
from tauslab.store.format.statistics import stored_fields
from tauslab.store.format.versions import WRITERS, head_of_file, with_this_program

MOST_CHUNK_BYTES = 8 << 20
PREFILL_BYTES = 1 << 30  # a larger result would be written twice for the sake of fill values

# Types that numpy has no name for: UTF-8 of a fixed length, and the enumeration of /status.
TEXT = "text"
STATUS = "status"
STATUS_VALUES = {
    "done": 0, "absorbed": 1, "overflow": 2, "step_limit": 3, "nan": 4, "event_queue": 5,
    "event_cascade": 6, "delay_queue": 8, "negative_delay": 9, "delay_history": 10,
    "missing": 255,
}  # fmt: skip
STATUS_NAMES = {value: name for name, value in STATUS_VALUES.items()}

CHECKPOINT_SLOTS = ("progress/checkpoint_0", "progress/checkpoint_1")
PROFILE_COLUMNS = {
    "device": "S64",
    "layout": "S96",
    **dict.fromkeys(("compile", "compute", "copy", "write", "wait", "wall"), "<f8"),
    **dict.fromkeys(("launches", "events", "leaps", "exact_events", "halved", "rejected"), "<u8"),
}

_PROFILE_TYPES = {column: np.dtype(one) for column, one in PROFILE_COLUMNS.items()}
Contents = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class DatasetSpec:
    """One dataset of a file.

    Parameters
    ----------
    dtype
        A numpy type string, `TEXT` or `STATUS`.
    axes
        Dataset names of the dimension scales, one per axis; a scale names itself.
    fill
        Value of cells that were never written.
    data
        Content from the start.
    chunks
        Shape of a chunk; None for a contiguous dataset.
    allocated
        Whether its bytes are laid out at creation; otherwise it takes no space, shows fill values
        and cannot be written in place. A scale without bytes only names its axis.
    prefill
        Whether fill values are written at creation; otherwise cells that were never written read
        as zero, and the file system need not store them.
    compress
        Level of gzip for its chunks; 0 for none.
    opened
        Whether it changes while a run goes on and is not sealed: it has checksums of its own, or
        is checked by what it says.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    axes: tuple[str, ...] = ()
    fill: float = 0
    data: Any = None
    chunks: tuple[int, ...] | None = None
    allocated: bool = True
    prefill: bool = True
    compress: int = 0
    attributes: tuple[tuple[str, str], ...] = ()
    opened: bool = False

    @property
    def n_bytes(self) -> int:
        """Bytes of its cells; 0 for text, which is small."""
        if self.dtype == TEXT or not self.allocated:
            return 0
        size = 1 if self.dtype == STATUS else np.dtype(self.dtype).itemsize
        return size * math.prod(self.shape)

    @property
    def needs_filling(self) -> bool:
        """Return whether fill values are to be written: they are not zero, over no content."""
        return self.prefill and self.data is None and self.fill != 0 and self.n_bytes > 0

    def filled(self, contents: Contents) -> DatasetSpec:
        """Take its content from `contents`, where it is there."""
        return replace(self, data=contents[self.name]) if self.name in contents else self


def root_attributes(layout: Layout, storage: str, run: str) -> dict[str, Any]:
    """Attributes of the root group.

    Parameters
    ----------
    storage
        ``plain`` (data in this file), ``parts`` (in the folder beside it, run unfinished),
        ``virtual`` (in the folder beside it, run complete) or ``memory``.
    run
        A random text that ties parts to their run.
    """
    attributes: dict[str, Any] = {
        **head_of_file(layout.format_version), **layout.attributes, "n": layout.n,
        "block": layout.block, "record": layout.record, "storage": storage, "run": run,
        "amount_unit": layout.amount_unit,
    }  # fmt: skip
    if layout.time_unit:
        attributes["time_unit"] = layout.time_unit
    if layout.sweep is not None:
        attributes["sweep"] = ",".join(layout.sweep)
    if layout.grid is not None:
        attributes["grid"] = ",".join(map(str, layout.grid))
    if "seed" in attributes:
        attributes["seed"] = np.uint64(attributes["seed"])
    return attributes


def file_specs(
    layout: Layout, n_ranks: int, *, rows: bool = True, in_place: bool = False,
    checkpoint_bytes: int = 0, contents: Contents | None = None,
) -> list[DatasetSpec]:  # fmt: skip
    """All datasets of a result file, scales first.

    Parameters
    ----------
    rows
        Whether the arrays with a row per trajectory are laid out; otherwise they show fill values.
    in_place
        Whether the file is written block by block, each with a checksum.
    checkpoint_bytes
        Size of a checkpoint slot; 0 for none.
    contents
        Data to create the file with, by dataset name.
    """
    specs = [*_axes(layout)]
    of_rows = [row_spec(layout, array) for array in layout.row_arrays()]
    specs += of_rows if rows else [replace(spec, allocated=False) for spec in of_rows]
    specs += [*_statistics(layout), *_progress(layout), *_profile(n_ranks)]
    if in_place:
        specs.append(checksum_spec(layout, layout.n_blocks))
    if checkpoint_bytes:
        specs += checkpoint_specs(checkpoint_bytes)
    specs += _model(layout)
    return [_with_units(spec.filled(contents or {}), layout) for spec in specs]


def known_specs(layout: Layout, n_ranks: int) -> list[DatasetSpec]:
    """Datasets whose data are known before a run, among those of `file_specs`."""
    return [*_axes(layout), *_progress(layout), _ranks(n_ranks), *_model(layout)]


def _model(layout: Layout) -> Iterator[DatasetSpec]:
    name = (("name", layout.model_name),)
    yield DatasetSpec("model/source", (), TEXT, data=layout.model_source, attributes=name)
    yield DatasetSpec("model/canonical", (), TEXT, data=layout.model_canonical)


def _with_units(spec: DatasetSpec, layout: Layout) -> DatasetSpec:
    """With the attribute ``units`` as the CF conventions have it, where there is a unit."""
    amounts = ("counts", "amounts", "final", "statistics/mean", "statistics/amounts/mean")
    unit = {"time": layout.time_unit, **dict.fromkeys(amounts, layout.amount_unit)}.get(spec.name)
    return replace(spec, attributes=(*spec.attributes, ("units", unit))) if unit else spec


def finished_specs(layout: Layout, contents: Contents) -> list[DatasetSpec]:
    """All datasets of a finished file, with a row of the profile for each rank."""
    return file_specs(layout, len(contents["profile/device"]), in_place=True, contents=contents)


def row_spec(layout: Layout, array: RowArray) -> DatasetSpec:
    """Dataset of an array with a row per trajectory, in a file that holds all trajectories."""
    return DatasetSpec(
        array.name,
        (*layout.lead, layout.n, *array.inner),
        STATUS if array.name == "status" else array.dtype.str,
        (*_lead_axes(layout), "trajectory", *array.axes),
        array.fill,
        chunks=chunk_shape(layout, array),
        # The status is small, and says what is missing wherever rows have no fill values.
        prefill=array.name == "status" or layout.payload_bytes <= PREFILL_BYTES,
        opened=True,
    )


def checksum_spec(layout: Layout, slots: int) -> DatasetSpec:
    """Checksums ``[slot, array]``, of each block's rows of each array, arrays by their names."""
    shape = (slots, len(layout.row_arrays()))
    return DatasetSpec("progress/checksums", shape, "<u4", opened=True)


def segment_specs(layout: Layout, slots: int) -> list[DatasetSpec]:
    """Datasets of a part for `slots` storage blocks, in any order.

    Contiguous, so that the data of slot i begins at i times the bytes of a block.
    """
    specs = [
        replace(row_spec(layout, array), shape=(slots * layout.block, *array.inner), axes=())
        for array in layout.row_arrays()
    ]
    return [
        *(replace(spec, chunks=None) for spec in specs),
        DatasetSpec("progress/block_ids", (slots,), "<i8", fill=-1, opened=True),
        DatasetSpec("progress/blocks", (slots,), "|u1", opened=True),
        checksum_spec(layout, slots),
    ]


def checkpoint_specs(slot_bytes: int) -> list[DatasetSpec]:
    """The two alternating slots for statistics."""
    return [
        DatasetSpec(name, (slot_bytes,), "|u1", (name,), opened=True) for name in CHECKPOINT_SLOTS
    ]


def chunk_shape(layout: Layout, array: RowArray) -> tuple[int, ...] | None:
    """Chunks of at most 8 MiB that tile storage blocks exactly, in the order of memory.

    Whole rows where a row fits: the largest divisor of the storage block. Otherwise a row is cut
    along its first axis, or its last. None (contiguous) for arrays that are small per trajectory,
    for a file of one block, and in a sweep for blocks that neither divide nor hold whole points.
    """
    if array.name not in SAMPLES or layout.n_blocks == 1 or not array.row_bytes:
        return None
    most_rows = MOST_CHUNK_BYTES // array.row_bytes
    columns = array.inner[-1]
    column_bytes = array.dtype.itemsize * columns
    lead = _rows_of_chunk(layout, max(1, most_rows))
    if most_rows or lead is None:
        return None if lead is None else (*lead, *array.inner)
    if column_bytes <= MOST_CHUNK_BYTES:
        return (*lead, MOST_CHUNK_BYTES // column_bytes, columns)
    return (*lead, 1, MOST_CHUNK_BYTES // array.dtype.itemsize)


def _rows_of_chunk(layout: Layout, most_rows: int) -> tuple[int, ...] | None:
    """Trajectories of a chunk; in a sweep points before: a fraction of one, or whole points."""
    n, block = layout.n, layout.block
    if layout.sweep is None:
        return (largest_divisor(block, most_rows),)
    if n % block and block % n:
        return None
    if n > most_rows or block < n:
        return 1, largest_divisor(min(n, block), most_rows)
    return largest_divisor(block // n, most_rows // n), n


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of `number` that is at most `most`."""
    return next(d for d in range(min(number, most), 0, -1) if number % d == 0)


def profile_contents(profile: list[dict[str, float | str]]) -> dict[str, npt.NDArray[Any]]:
    """Columns of /profile, a row per rank."""
    contents: dict[str, npt.NDArray[Any]] = {}
    for column, dtype in _PROFILE_TYPES.items():
        held = np.zeros(len(profile), dtype)
        for rank, row in enumerate(profile):
            if value := row.get(column):
                held[rank] = value.encode() if isinstance(value, str) else value
        contents[f"profile/{column}"] = held
    return contents


def _axes(layout: Layout) -> Iterator[DatasetSpec]:
    def axis(name: str, dtype: str, data: Any) -> DatasetSpec:
        return DatasetSpec(name, (len(data),), dtype, (name,), data=data)

    yield axis("time", "<f8", np.asarray(layout.times, "<f8"))
    yield axis("species", TEXT, layout.species)
    if layout.observables:
        yield axis("observable", TEXT, layout.observables)
    if layout.sweep is not None:
        yield DatasetSpec("point", layout.lead, "|u1", ("point",), allocated=False)
        for name, values in layout.sweep.items():
            yield DatasetSpec(f"sweep/{name}", layout.lead, "<f8", ("point",), data=values)
    if layout.sweep is None and layout.group:
        yield DatasetSpec("group", layout.sum_lead, "|u1", ("group",), allocated=False)
    if layout.statistics and layout.reals:
        for name, digits in DIGITS.items():
            yield axis(f"statistics/{name}", "<i8", DIGIT_BITS * np.arange(digits))
    # Numbers 0 .. n - 1 would be most of a file that holds statistics only.
    yield DatasetSpec("trajectory", (layout.n,), "|u1", ("trajectory",), allocated=False)
    for spec in layout.histograms:
        # Lower edges of the cells. No name of a species holds a point, so the names are distinct.
        name = f"statistics/histogram/{spec.species}"
        yield axis(f"{name}.bin", "<f8", np.concatenate([[-np.inf], spec.edges]))
        yield axis(f"{name}_edges", "<f8", spec.edges)


def _statistics(layout: Layout) -> Iterator[DatasetSpec]:
    lead, before = layout.sum_lead, _sum_axes(layout)
    times, scales = len(layout.times), {name: f"statistics/{name}" for name in DIGITS}
    sizes = {"time": times, "species": len(layout.species), **DIGITS}
    sizes["observable"] = len(layout.observables)
    for field in stored_fields(layout):
        yield DatasetSpec(
            f"statistics/{field.name}",
            (*lead, *field.shape(sizes)),
            field.dtype,
            (*before, *(scales.get(axis, axis) for axis in field.axes)),
            math.nan if field.merge == "derived" else 0,
        )
    for spec in layout.histograms:
        name = f"statistics/histogram/{spec.species}"
        shape, axes = (*lead, times, spec.bins + 2), (*before, "time", f"{name}.bin")
        yield DatasetSpec(name, shape, "<u8", axes)


def _sum_axes(layout: Layout) -> tuple[str, ...]:
    return _lead_axes(layout) or (("group",) if layout.group else ())


def _lead_axes(layout: Layout) -> tuple[str, ...]:
    return () if layout.sweep is None else ("point",)


def _progress(layout: Layout) -> Iterator[DatasetSpec]:
    name = "progress/blocks"
    yield DatasetSpec(name, (layout.n_blocks,), "|u1", (name,), opened=True)
    yield DatasetSpec("progress/block_size", (), "<i8", data=np.int64(layout.block))
    yield DatasetSpec("progress/complete", (), "|u1", opened=True)
    yield writers_spec()


def writers_spec() -> DatasetSpec:
    """The versions of the program that wrote a file, of which this one is the first."""
    stored = with_this_program()
    return DatasetSpec(
        WRITERS, stored.shape, stored.dtype.str, (WRITERS,), data=stored, opened=True
    )


def _ranks(n_ranks: int) -> DatasetSpec:
    rank = "profile/rank"
    return DatasetSpec(rank, (n_ranks,), "<u4", (rank,), data=np.arange(n_ranks, dtype="<u4"))


def _profile(n_ranks: int) -> Iterator[DatasetSpec]:
    yield _ranks(n_ranks)
    for column, dtype in PROFILE_COLUMNS.items():
        yield DatasetSpec(f"profile/{column}", (n_ranks,), dtype, ("profile/rank",))

"""The contents of a run's file: a pure function of the job, the same on every rank."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.files.seals import FORMAT_VERSION
from tauslab.kernels.ensemble.sums import POWERS, Power, accumulator_shapes, accumulators
from tauslab.options.record import SAMPLED, STATE, HistogramSpec

Box = tuple[slice, slice]  # of points, and of trajectories
Selection = tuple[slice, ...]


def boxes(start: int, stop: int, n: int) -> Iterator[Box]:
    """Flat rows ``start .. stop - 1`` as boxes of ``[point, trajectory]``, in order.

    >>> list(boxes(1, 7, 2))
    [(slice(0, 1, None), slice(1, 2, None)), (slice(1, 3, None), slice(0, 2, None)), \
(slice(3, 4, None), slice(0, 1, None))]
    """
    while start < stop:
        point, first = divmod(start, n)
        whole = (stop - start) // n
        if first == 0 and whole:
            yield slice(point, point + whole), slice(0, n)
            start += whole * n
        else:
            end = min(n, first + stop - start)
            yield slice(point, point + 1), slice(first, end)
            start += end - first


def selections(start: int, stop: int, n: int | None) -> Iterator[tuple[Selection, slice]]:
    """Places of flat rows in an array, and which of the rows ``[0, stop - start)`` lie there.

    `n` is the number of trajectories at each point of a sweep; without one there is one place.

    >>> list(selections(1, 4, 2))
    [((slice(0, 1, None), slice(1, 2, None)), slice(0, 1, None)), \
((slice(1, 2, None), slice(0, 2, None)), slice(1, 3, None))]
    """
    if n is None:
        yield (slice(start, stop),), slice(0, stop - start)
        return
    first = 0
    for box in boxes(start, stop, n):
        count = math.prod(side.stop - side.start for side in box)
        yield box, slice(first, first + count)
        first += count


class FlatRows:
    """A dataset ``[point, trajectory, ...]`` read by slices of flat rows; nothing is held."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._n = int(dataset.shape[1])
        self.shape: tuple[int, ...] = (int(dataset.shape[0]) * self._n, *dataset.shape[2:])
        self.dtype: np.dtype[Any] = dataset.dtype
        chunks = getattr(dataset, "chunks", None)
        self.chunks = None if chunks is None else (chunks[0] * chunks[1], *chunks[2:])

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        """Rows ``start .. stop - 1``."""
        start, stop, _ = rows.indices(self.shape[0])
        pieces = [
            np.asarray(self._dataset[box]).reshape(-1, *self.shape[1:])
            for box in boxes(start, stop, self._n)
        ]
        nothing = np.empty((0, *self.shape[1:]), self.dtype)
        return pieces[0] if len(pieces) == 1 else np.concatenate([nothing, *pieces])


# Exact sums by name, all uint64: as in `kernels.ensemble.sums`, and histogram/SPECIES
# ``[time, bin]``. A sweep puts an axis of points before theirs. Sums of counts are added modulo
# 2^64, sums of real quantities, obs_..., are merged as `windows` says.
Accumulators = dict[str, npt.NDArray[np.uint64]]

MOST_SUMS_BYTES = 8 << 30  # of a sweep; a rank holds a few copies
MOST_NARROW = 1 << 32  # trajectories, whose sums of halves of squares fit in 64 bits


# Axes of a row of the arrays with a row per trajectory; summaries are numbers, and have none.
ROW_AXES: Mapping[str, tuple[str, ...]] = {
    "counts": ("time", "species"), "amounts": ("time", "species"),
    "observables": ("time", "observable"), "final": ("species",), "status": (),
}  # fmt: skip
SAMPLES = ("counts", "amounts", "observables")  # those with a value per sample time


def is_row_name(name: str) -> bool:
    """Return whether a dataset has a row per trajectory."""
    return name in ROW_AXES or name.startswith("summary/")


@dataclass(frozen=True)
class RowArray:
    """An array with a row per trajectory.

    Parameters
    ----------
    inner
        Shape of a row.
    axes
        Names of the axes of a row, after ``trajectory``.
    fill
        Sentinel where nothing was recorded.
    """

    name: str
    inner: tuple[int, ...]
    axes: tuple[str, ...]
    dtype: np.dtype[np.generic]
    fill: float

    @classmethod
    def of(cls, name: str, sizes: Mapping[str, int], *, real: bool) -> RowArray:
        """The array with this name; `sizes` are of axes, `real` says that species are no counts."""
        axes = ROW_AXES.get(name, ())
        inner = tuple(sizes[axis] for axis in axes)
        if name == "counts" or (name == "final" and not real):
            return cls(name, inner, axes, np.dtype("<i4"), -1)
        if name == "status":
            return cls(name, inner, axes, np.dtype("u1"), 255)
        return cls(name, inner, axes, np.dtype("<f8"), math.nan)

    @property
    def row_bytes(self) -> int:
        """Bytes of one trajectory."""
        return self.dtype.itemsize * math.prod(self.inner)


@dataclass(frozen=True)
class RealGroup:
    """Real quantities stored in one array: its name, theirs, the axis, their place among all."""

    name: str
    names: tuple[str, ...]
    axis: str
    where: slice


@dataclass(frozen=True)
class Layout:
    """Axes, record settings and attributes of a result.

    Parameters
    ----------
    n
        Number of trajectories; with a sweep, at each of its points.
    times
        Sample times ``[time]``.
    species, observables
        Names of the recorded species and observables.
    trajectories, final, statistics, histograms, summaries
        Recorded data; a summary has a name, such as ``amplitude:X:500``.
    block
        Trajectories in a storage block; blocks cut the flat order, in which points follow each
        other.
    sweep
        Values ``[point]`` of what is swept, by name, the slowest first; None without a sweep.
    grid
        Numbers of values of each name, if the points are all combinations.
    group
        Without a sweep: trajectories whose sums are kept apart; 0 for one sum over all.
    attributes
        Root attributes: method, seed, model_sha256, command, choices.
    model_name, model_source, model_canonical
        The model's file name, its text as given, and its normal form.
    amounts
        Whether species are real amounts, of ordinary differential equations, not counts.
    format_version
        Of the file: one that an earlier version began lacks what came later.
    amount_unit, time_unit
        Their names, such as ``molecules`` and ``s``; empty where the model states none.

    Raises
    ------
    ConfigError
        Two histograms of a species, or one of a species that is not recorded.
    """

    n: int
    times: FloatArray
    species: tuple[str, ...]
    observables: tuple[str, ...]
    trajectories: bool
    final: bool
    statistics: bool
    histograms: tuple[HistogramSpec, ...]
    block: int
    attributes: dict[str, str | int | float] = field(default_factory=dict)
    model_name: str = ""
    model_source: str = ""
    model_canonical: str = ""
    sweep: dict[str, FloatArray] | None = None
    grid: tuple[int, ...] | None = None
    summaries: tuple[str, ...] = ()
    group: int = 0
    amounts: bool = False
    format_version: int = FORMAT_VERSION
    amount_unit: str = "molecules"
    time_unit: str = ""

    def __post_init__(self) -> None:
        """Check the names of the histograms' datasets, and that the sums fit into memory."""
        sums = self.sums_bytes
        if self.sweep is not None and sums > MOST_SUMS_BYTES:
            raise ConfigError(
                f"statistics at {self.points} points and {len(self.times)} times need "
                f"{sums / 2**30:.3g} GiB of memory, more than {MOST_SUMS_BYTES >> 30}: record "
                "fewer species, times or bins"
            )
        names: set[str] = set()
        for spec in self.histograms:
            if spec.species not in self.species:
                raise ConfigError(
                    f"histogram of {spec.species}: it is not recorded; "
                    f"recorded are {', '.join(self.species)}"
                )
            wanted = {spec.species, f"{spec.species}_edges"}
            if names & wanted:
                raise ConfigError(
                    f"histogram of {spec.species}: its dataset {min(names & wanted)} is taken"
                )
            names |= wanted

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of the species that are whole numbers: all or none."""
        return () if self.amounts else self.species

    @property
    def reals(self) -> tuple[str, ...]:
        """Names of the quantities that are real numbers."""
        return (*self.species, *self.observables) if self.amounts else self.observables

    @property
    def real_groups(self) -> tuple[RealGroup, ...]:
        """The arrays in which real quantities are stored; none where there are none."""
        species = len(self.species) if self.amounts else 0
        groups = (
            RealGroup("amounts", self.species, "species", slice(0, species)),
            RealGroup("observables", self.observables, "observable", slice(species, None)),
        )
        return tuple(g for g in groups if g.names and (self.amounts or g.axis == "observable"))

    @property
    def points(self) -> int:
        """Number of points; 1 without a sweep."""
        return 1 if self.sweep is None else len(next(iter(self.sweep.values())))

    @cached_property
    def total(self) -> int:
        """Number of trajectories at all points together."""
        return self.points * self.n

    @property
    def lead(self) -> tuple[int, ...]:
        """Axes in front of a statistic: the points of a sweep, or none."""
        return () if self.sweep is None else (self.points,)

    @property
    def per_sum(self) -> int:
        """Trajectories that are summed together; 0 where all are."""
        return self.group if self.sweep is None else self.n

    @property
    def wide(self) -> bool:
        """Return whether sums of counts over the trajectories need more than 64 bits."""
        return bool(self.counted) and (self.per_sum or self.n) > MOST_NARROW

    @property
    def sum_lead(self) -> tuple[int, ...]:
        """Axes in front of a sum: the points of a sweep, or groups, or none."""
        return (-(-self.total // self.per_sum),) if self.per_sum else ()

    @property
    def n_blocks(self) -> int:
        """Number of storage blocks."""
        return -(-self.total // self.block)

    @property
    def record(self) -> str:
        """The recorded data, as the option ``--record`` spells them."""
        wanted = [name for name in ("trajectories", "statistics", "final") if getattr(self, name)]
        wanted += [f"histogram:{h.species}:{h.low!r}:{h.high!r}:{h.bins}" for h in self.histograms]
        kinds = [name.partition(":")[0] for name in self.summaries]
        apart = (SAMPLED, STATE)
        named = zip(self.summaries, kinds, strict=True)
        wanted += [f"summary:{name}" for name, kind in named if kind not in apart]
        wanted += [kind for kind in apart if kind in kinds]
        return ",".join(wanted)

    @property
    def payload_bytes(self) -> int:
        """Bytes of all arrays with a row per trajectory."""
        return self.total * sum(array.row_bytes for array in self.row_arrays())

    @property
    def needs_checkpoint(self) -> bool:
        """Return whether sums are recorded that no recorded samples can give back."""
        return not self.trajectories and bool(self.statistics or self.histograms)

    def block_rows(self, first: int, end: int) -> tuple[int, int]:
        """Trajectories of blocks ``first .. end - 1``, as (start, end)."""
        return first * self.block, min(self.total, end * self.block)

    def selections(self, start: int, stop: int) -> Iterator[tuple[Selection, slice]]:
        """Places of trajectories ``start .. stop - 1`` in an array, as `flat.selections`."""
        return selections(start, stop, None if self.sweep is None else self.n)

    def row_arrays(self) -> tuple[RowArray, ...]:
        """The arrays with a row per trajectory, in the order in which they are written."""
        return self._row_arrays

    @cached_property
    def _row_arrays(self) -> tuple[RowArray, ...]:
        names = [] if self.amounts or not self.trajectories else ["counts"]
        names += [group.name for group in self.real_groups if self.trajectories]
        names += ["final"] if self.final else []
        names += [*(f"summary/{name}" for name in self.summaries), "status"]
        sizes = {"time": len(self.times), "species": len(self.species)}
        sizes["observable"] = len(self.observables)
        return tuple(RowArray.of(name, sizes, real=self.amounts) for name in names)

    @property
    def powers(self) -> tuple[Power, ...]:
        """The powers of counts that are summed."""
        return tuple(power for power in POWERS if power.since <= self.format_version)

    def accumulator_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the accumulators, by name."""
        if not (self.statistics or self.histograms):
            return {}
        sizes = {"time": len(self.times), "species": len(self.counted), "real": len(self.reals)}
        fields = accumulators(self.powers, reals=bool(self.reals), wide=self.wide)
        cells = {spec.species: spec.bins + 2 for spec in self.histograms}
        shapes = accumulator_shapes(fields if self.statistics else (), sizes, cells)
        return {name: (*self.sum_lead, *shape) for name, shape in shapes.items()}

    @property
    def sums_bytes(self) -> int:
        """Bytes of all accumulators."""
        return 8 * sum(math.prod(shape) for shape in self.accumulator_shapes().values())

    def points_of(self, start: int, stop: int) -> slice:
        """Sums of trajectories ``start .. stop - 1``; all there is without points or groups."""
        per = self.per_sum
        return slice(start // per, -(-stop // per)) if per else slice(None)


@dataclass
class Chunk:
    """Recorded data of whole storage blocks: trajectories ``start .. start + m - 1``, flat.

    ``arrays`` holds what is recorded: status u8 ``[m]``, counts i32 ``[m, time, species]`` or
    amounts f64 of the same shape, observables f64 ``[m, time, observable]``, final (as counts or
    amounts) ``[m, species]``, summary/NAME f64 ``[m]``.
    """

    start: int
    arrays: dict[str, npt.NDArray[np.generic]]

    @property
    def rows(self) -> int:
        """Number of trajectories."""
        return len(self.arrays["status"])

    @property
    def span(self) -> tuple[int, int]:
        """The first trajectory, and the one behind the last."""
        return self.start, self.start + self.rows


def chunk_blocks(layout: Layout, chunk: Chunk) -> tuple[int, int]:
    """Storage blocks of a chunk, as (first, end).

    Raises
    ------
    ValueError
        The chunk does not begin and end with a block.
    """
    first, rest = divmod(chunk.start, layout.block)
    stop = chunk.start + chunk.rows
    end = -(-stop // layout.block)
    if rest or chunk.rows < 1 or stop != layout.block_rows(first, end)[1]:
        raise ValueError(f"trajectories {chunk.start} to {stop} are not whole storage blocks")
    return first, end

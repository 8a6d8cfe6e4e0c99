"""What a run recorded: settings, points of a sweep, and samples that may not fit in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.option_names import assigned, opt, warn
from tauslab.options.values.texts import some
from tauslab.store.format.flat import FlatRows
from tauslab.store.format.layout import Layout
from tauslab.store.results import columns
from tauslab.store.results.approximation import OF_SAMPLING, approximation
from tauslab.store.results.columns import BoolArray, Column, FloatArray

_MANY_SPECIES = 12  # more than a look takes in

_TIME_TOLERANCE = 1e-9
_NO_STATUS = 255


class Reopen(Protocol):
    """Opens a result file again; a function of a module, so that other processes have it too."""

    def __call__(self, path: str | Path, *, checked: bool = False) -> Any:
        """The result; `checked`: its parts were looked at before."""


class Recorded:
    """Arrays of a run by the names that they have in a file, and what they say of the run.

    Parameters
    ----------
    data
        Arrays, or HDF5 datasets, by the names they have in a file (``counts``,
        ``statistics/sum``, ...).
    attributes
        Root attributes: method, seed, model_sha256, choices made, ...
    path
        The file the data comes from, if any.
    close
        Called by `close`.
    reopen
        Opens the file again, for copies in other processes and for reads of a part.
    layout
        Of a result in memory: how it would lie in a file.
    saves
        Whether this rank writes what all ranks have.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        attributes: Mapping[str, Any],
        path: Path | None = None,
        close: Callable[[], None] | None = None,
        reopen: Reopen | None = None,
        layout: Layout | None = None,
        *,
        saves: bool = True,
    ) -> None:
        self.data = data
        self.path = path
        self.attributes = {name: _plain(value) for name, value in attributes.items()}
        self._close, self.reopen, self.layout = close, reopen, layout
        self.warned = self._warned_of_ends = False
        self.saves = saves

    # --- what was run ---

    @property
    def name(self) -> str:
        """The name of this result in messages: its file, if there is one."""
        return "the result in memory" if self.path is None else str(self.path)

    @property
    def method(self) -> str:
        """Name of the method, for example ``ssa``."""
        return str(self.attributes["method"])

    @property
    def approximate(self) -> str:
        """What is approximate in the numbers of the run; empty where they are exact.

        Leaps err by more than sampling does, however many trajectories there are. (The error of
        differential equations is that of their tolerances, see docs/ode.md.)
        """
        if self.method != "tau":
            return ""
        told = approximation(float(self.attributes["epsilon"]))
        tested = str(self.attributes.get("approximate", "")).endswith(OF_SAMPLING)
        return f"{told}; {OF_SAMPLING}" if tested else told

    @property
    def continuous(self) -> bool:
        """Whether species are real amounts, of ordinary differential equations, not counts."""
        return self.method == "ode"

    @property
    def amount_unit(self) -> str:
        """Unit of species: molecules, or that of the model; empty where the model states none."""
        return str(self.attributes.get("amount_unit", "molecules"))

    @property
    def time_unit(self) -> str:
        """Unit of time that the model states; empty where it states none."""
        return str(self.attributes.get("time_unit", ""))

    def is_whole(self, name: str) -> bool:
        """Whether a quantity is a count."""
        return name in self.species and not self.continuous

    def place_of(self, name: str) -> tuple[str, str, tuple[str, ...]]:
        """Dataset of a quantity's samples, group of its statistics, names on its axis."""
        if name not in self.species:
            return "observables", "statistics/observables", self.observables
        if self.continuous:
            return "amounts", "statistics/amounts", self.species
        return "counts", "statistics", self.species

    @property
    def seed(self) -> int:
        """The 64-bit seed."""
        return int(self.attributes["seed"])

    @property
    def n(self) -> int:
        """Number of trajectories; with a sweep, at each point."""
        return int(self.data["status"].shape[-1])

    @cached_property
    def points(self) -> dict[str, FloatArray]:
        """Values ``[point]`` of what was swept, by name; empty without a sweep."""
        names = str(self.attributes["sweep"]).split(",") if self.swept else []
        return {name: np.asarray(self.data[f"sweep/{name}"][()], np.float64) for name in names}

    @property
    def swept(self) -> bool:
        """Whether there is an axis of points."""
        return "sweep" in self.attributes

    @property
    def n_points(self) -> int:
        """Number of points; 1 without a sweep."""
        return int(self.data["status"].shape[0]) if self.swept else 1

    @cached_property
    def times(self) -> FloatArray:
        """Sample times ``[time]``, in the model's unit."""
        return np.asarray(self.data["time"][()], np.float64)

    @cached_property
    def species(self) -> tuple[str, ...]:
        """Names of the recorded species."""
        return columns.texts(self.data["species"]) if "species" in self.data else ()

    @cached_property
    def observables(self) -> tuple[str, ...]:
        """Names of the recorded observables."""
        return columns.texts(self.data["observable"]) if "observable" in self.data else ()

    @property
    def foremost(self) -> tuple[str, ...]:
        """Species and observables; observables first where there are more than 12 species.

        Of a network that rules have made, observables are what its author gave names.
        """
        if len(self.species) > _MANY_SPECIES:
            return self.observables + self.species
        return self.species + self.observables

    @cached_property
    def summaries(self) -> tuple[str, ...]:
        """Names of the recorded summaries, in alphabetical order."""
        prefix = "summary/"
        found = [key.removeprefix(prefix) for key in self.data if key.startswith(prefix)]
        return tuple(sorted(found))

    def summary_name(self, name: str) -> str:
        """The full name of a recorded summary, from a beginning of it up to a colon.

        Raises
        ------
        ConfigError
            No summary, or more than one, has this name.
        """
        found = [name] if name in self.summaries else []
        found = found or [full for full in self.summaries if full.startswith(f"{name}:")]
        if len(found) != 1:
            listed = ", ".join(self.summaries) or "none"
            which = "not one" if found else "no"
            raise ConfigError(f"{name!r} is {which} summary of {self.name}; it has {listed}")
        return found[0]

    def time_index(self, t: float) -> int:
        """Index of a sample time.

        Raises
        ------
        ConfigError
            `t` is none; the nearest one is named.
        """
        if not isinstance(t, int | float | np.number) or isinstance(t, bool):
            raise ConfigError(f"t={t!r} is not allowed: a sample time is a number")
        nearest = int(np.argmin(np.abs(self.times - t)))
        span = max(abs(float(self.times[-1])), abs(float(self.times[0])))
        if abs(float(self.times[nearest]) - t) <= _TIME_TOLERANCE * span:
            return nearest
        raise ConfigError(
            f"{t:g} is not a sample time of {self.name}: {len(self.times)} times from "
            f"{self.times[0]:g} to {self.times[-1]:g}, the nearest is {self.times[nearest]:g}"
        )

    @property
    def status(self) -> npt.NDArray[np.uint8]:
        """How each trajectory ended, ``[trajectory]``, of an unfinished run each that is there.

        0 done, 1 absorbed, 2 overflow, 3 step_limit, 4 nan, 5 event_queue, 6 event_cascade,
        8 delay_queue, 9 negative_delay, 10 delay_history; of an unfinished sweep 255 where a
        trajectory is not there yet.
        """
        self.require_samples()
        return np.asarray(self.rows_there(self.data["status"], missing=_NO_STATUS), np.uint8)

    @property
    def complete(self) -> bool:
        """Whether the run came to its end."""
        return "progress/complete" not in self.data or int(self.data["progress/complete"][()]) == 1

    @cached_property
    def completed_blocks(self) -> BoolArray:
        """Which storage blocks are there, ``[block]``."""
        if "progress/blocks" not in self.data:
            return np.ones(-(-self.n_points * self.n // self.block), np.bool_)
        return np.asarray(self.data["progress/blocks"][()] == 1, np.bool_)

    @property
    def block(self) -> int:
        """Trajectories in a storage block."""
        return int(self.attributes.get("block", self.n))

    @property
    def unfinished(self) -> str:
        """How much of an unfinished run is there, in words; empty where all is."""
        if self.complete:
            return ""
        done = self.completed_blocks
        return f"{int(done.sum()):,} of {len(done):,} blocks"

    def require_some(self) -> None:
        """Refuse an unfinished run without a finished block; warn, once, of one with some.

        Raises
        ------
        InputFileError
            There is nothing that could be averaged.
        """
        if self.complete:
            return
        if not self.completed_blocks.any():
            raise InputFileError(
                f"{self.name} is unfinished and holds no completed block yet: complete it with "
                f"{opt('resume')}"
            )
        if self.warned:
            return
        self.warned = True
        warn(
            f"{self.name} is unfinished: its numbers are those of {self.unfinished}; "
            f"{opt('resume')} completes it"
        )

    def rows_there(
        self, dataset: Any, of_row: tuple[Any, ...] = (), *, missing: float | None = None
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
        if self.complete and not of_row:
            return np.asarray(dataset[()])
        self.require_some()
        if missing is None:
            self.require_whole_points()
        flat, inside = self._flat(dataset), (slice(None), *of_row)
        size, done = dataset.dtype.itemsize, self.completed_blocks
        there = list(columns.rows(flat.shape, size, self.block, done))
        number = flat.shape[0] if self.swept else sum(rows.stop - rows.start for rows in there)
        inner = np.empty((0, *flat.shape[1:]))[inside].shape[1:]
        values = np.full((number, *inner), missing or 0, dataset.dtype)
        at = 0
        for rows in there:
            at = rows.start if self.swept else at
            piece = flat[rows][inside]
            values[at : at + len(piece)] = piece
            at += len(piece)
        return values.reshape(self.n_points, self.n, *inner) if self.swept else values

    def require_whole_points(self) -> None:
        """Refuse an unfinished sweep, whose points have unlike numbers of trajectories.

        Raises
        ------
        InputFileError
            It is one.
        """
        if self.swept and not self.complete:
            raise InputFileError(
                f"{self.name} is an unfinished sweep ({self.unfinished}) and has no array over all "
                "trajectories of all points: take means, quantiles, histograms or to_pandas(), or "
                f"complete it with {opt('resume')}"
            )

    # --- samples ---

    def column(self, name: str, point: int = 0) -> Column:
        """Recorded samples of a species or observable, to be streamed; in a sweep, of one point."""
        dataset, index = self._samples(name)
        part = slice(point * self.n, (point + 1) * self.n)
        pieces = partial(self._pieces, dataset, index, part)
        return Column(pieces, len(self.times), self.is_whole(name))

    def numbered(self, name: str) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """All recorded samples ``[trajectories, time]``, with the number of the first trajectory.

        Points of a sweep follow each other.
        """
        yield from self._numbered(*self._samples(name), slice(None))

    def flat(self, name: str) -> Any:
        """A dataset with a row per trajectory; points of a sweep follow each other."""
        return self._flat(self.data[name])

    def row_bytes(self, name: str) -> int:
        """Bytes of a trajectory's samples of all species, or all observables."""
        dataset, _ = self._samples(name)
        return int(dataset.dtype.itemsize * math.prod(dataset.shape[1:]))

    def samples_at_points(self, name: str, points: slice) -> npt.NDArray[Any]:
        """Samples ``[point, trajectory, time]``; -1 or NaN where a block is not complete."""
        dataset, index = self._samples(name)
        first, end = points.start * self.n, points.stop * self.n
        samples = np.array(dataset[first:end][:, :, index])
        if not self.completed_blocks.all():
            done = self.completed_blocks[np.arange(first, end) // self.block]
            samples[~done] = -1 if samples.dtype.kind == "i" else math.nan
        return samples.reshape(-1, self.n, len(self.times))

    def has_samples(self, name: str) -> bool:
        """Whether every sample of a species or observable was recorded."""
        self._check(name)
        return self.place_of(name)[0] in self.data

    def require_samples(self) -> None:
        """Refuse a run of several ranks that was broken off: the file itself has no samples yet."""
        if self.attributes.get("storage") == "parts":
            raise InputFileError(
                f"{self.name} is unfinished and its samples still lie in parts, one per rank: "
                f"complete it with {opt('resume')}"
            )

    # --- helpers ---

    def _samples(self, name: str) -> tuple[Any, int]:
        """Flat dataset that holds a species or observable, and its place there."""
        self._check(name)
        stored, _, names = self.place_of(name)
        dataset = self._flat(self.recorded(stored, "trajectories"))
        self.require_some()
        return dataset, names.index(name)

    def _numbered(
        self, dataset: Any, index: int, part: slice
    ) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        size = dataset.dtype.itemsize
        for rows in columns.rows(dataset.shape, size, self.block, self.completed_blocks, part):
            # A copy: a view would keep the samples of all species in memory.
            yield rows.start, np.array(dataset[rows][:, :, index])

    def _pieces(self, dataset: Any, index: int, part: slice) -> Iterator[npt.NDArray[Any]]:
        """Samples without their numbers; a single row that does not count where there are none."""
        found = False
        for _, piece in self._numbered(dataset, index, part):
            found = True
            yield piece
        if not found:
            missing = -1 if dataset.dtype.kind == "i" else math.nan
            yield np.full((1, len(self.times)), missing, dataset.dtype)

    def _flat(self, dataset: Any) -> Any:
        return FlatRows(dataset) if self.swept else dataset

    def recorded(self, dataset: str, option: str) -> Any:
        """A dataset; refuses what was not recorded, as `option` would."""
        if dataset not in self.data:
            raise self._missing(option)
        self.require_samples()
        return self.data[dataset]

    def _missing(self, option: str) -> ConfigError | InputFileError:
        if not self.complete:
            return InputFileError(
                f"{self.name} is unfinished and holds no {option} yet: "
                f"complete it with {opt('resume')}"
            )
        return ConfigError(f"{self.name} was run without " + f'{assigned("record")}"{option}"')

    def _check(self, name: str) -> None:
        if name not in self.species and name not in self.observables:
            self._index(name, self.foremost)

    def _index(self, name: str, names: Sequence[str]) -> int:
        if name in self.observables and name not in names:
            raise ConfigError(
                f"{name!r} is an observable, and this is of species: result[{name!r}][..., -1] is "
                f"its value at the end of each trajectory, and mean({name!r}) its mean"
            )
        if name not in names:
            raise ConfigError(f"{name!r} is not recorded in {self.name}; it has {some(names, 20)}")
        return names.index(name)


def _plain(value: Any) -> Any:
    """Attribute as a Python value."""
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if isinstance(value, np.generic) else value

"""What a run gives back: the same object for a file and for a run kept in memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError
from tauslab.runner.results import columns, export, pointwise, tables
from tauslab.runner.results.columns import FloatArray, UintArray
from tauslab.runner.results.modes import ALPHA, Modes, modes_at
from tauslab.runner.results.recorded import Recorded

if TYPE_CHECKING:
    import dask.array
    import pandas as pd
    import xarray
    from matplotlib.figure import Figure

BoolArray = npt.NDArray[np.bool_]


class Moments(NamedTuple):
    """Of a summary over the trajectories for which it is a number: how many, mean, deviation.

    `n`, `mean` and `std` are arrays ``[point]``, without a sweep single numbers.
    """

    n: npt.NDArray[np.int64]
    mean: FloatArray
    std: FloatArray


class Result(Recorded):
    """An ensemble of trajectories: samples, statistics or both, as they were recorded.

    Opened from a file (`tauslab.open`), it reads what is asked for and no more. A run that was
    broken off shows what its completed blocks hold. With a sweep, every array that a method gives
    has the points as its first axis. A ``with`` block closes the file at its end.

    ``data`` maps the names that arrays have in a file, such as ``statistics/sum`` or
    ``profile/wall``, to them; ``attributes`` holds what a file says of its run (seed, method,
    choices made); ``path`` is the file, or None. A method raises a `ConfigError` for a name that
    was not recorded, and an `InputFileError` where an unfinished file does not have it yet.
    """

    def counts(self, species: str | Sequence[str] | None = None) -> npt.NDArray[np.int32]:
        """Recorded counts, in molecules.

        Returns
        -------
        int32 ``[trajectory, time, species]``; ``[trajectory, time]`` for a single name. -1 after
        the end of a trajectory that overflowed, met a NaN or reached its limit of steps, and where
        a run that was broken off has not been yet.

        Raises
        ------
        ConfigError
            The species is not known, or counts were not recorded.
        """
        if self.continuous:
            raise ConfigError(f"{self.name} holds amounts, not counts: use amounts()")
        dataset = self._recorded("counts", "trajectories")
        if species is None:
            return self._with_sentinels(np.asarray(dataset[()]))
        names = [species] if isinstance(species, str) else species
        indices = [self._index(name, self.species) for name in names]
        shape, rows = dataset.shape[:-1], self._flat(dataset)
        chosen = np.empty((*rows.shape[:2], len(indices)), np.int32)
        everything = np.ones_like(self.completed_blocks)
        for part in columns.rows(rows.shape, rows.dtype.itemsize, self.block, everything):
            chosen[part] = rows[part][:, :, indices]
        chosen = self._with_sentinels(chosen.reshape(*shape, len(indices)))
        return chosen[..., 0] if isinstance(species, str) else chosen

    def amounts(self, species: str | Sequence[str] | None = None) -> FloatArray:
        """Recorded amounts of ordinary differential equations, in the model's unit.

        Returns
        -------
        f64 ``[trajectory, time, species]``; ``[trajectory, time]`` for a single name. NaN after the
        end of a trajectory that met a NaN or reached its limit of steps.
        """
        if not self.continuous:
            raise ConfigError(f"{self.name} holds counts, not amounts: use counts()")
        values = np.asarray(self._recorded("amounts", "trajectories")[()], np.float64)
        if species is None:
            return values
        if isinstance(species, str):
            return values[..., self._index(species, self.species)]
        return values[..., [self._index(name, self.species) for name in species]]

    def final(self, name: str) -> npt.NDArray[np.int32] | FloatArray:
        """Counts or amounts of a species at the last sample time ``[trajectory]``.

        -1, of amounts NaN, where a trajectory ended early.
        """
        index = self._index(name, self.species)
        if "final" in self.data:
            return np.asarray(self.data["final"][..., index])
        return np.asarray(self._recorded(self.place_of(name)[0], "final")[..., -1, index])

    def summary(self, name: str) -> FloatArray:
        """A recorded number per trajectory, f64 ``[trajectory]``.

        Parameters
        ----------
        name
            As in `summaries`, for example ``amplitude:cAMP:500``, or a beginning of it up to a
            colon that only one has, such as ``amplitude``.

        Returns
        -------
        NaN where a trajectory has no such number (docs/summaries.md says when), or ended early.

        Raises
        ------
        ConfigError
            No summary, or more than one, has this name.
        """
        dataset = self._recorded(f"summary/{self.summary_name(name)}", f"summary:{name}")
        values = np.array(dataset[()], np.float64)
        flat = values.reshape(-1)
        for b in np.flatnonzero(~self.completed_blocks):
            flat[b * self.block : (b + 1) * self.block] = np.nan
        return values

    def summary_moments(self, name: str) -> Moments:
        """Number, mean and standard deviation (n - 1) of a summary where it is not NaN.

        One of each without a sweep, else ``[point]``; NaN for too few numbers.
        """
        values = self.summary(name)
        valid = np.isfinite(values)
        n = valid.sum(-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(valid, values, 0.0).sum(-1) / n
            spread = np.where(valid, values - mean[..., None], 0.0)
            deviation = np.sqrt((spread**2).sum(-1) / np.where(n > 1, n - 1, np.nan))
        return Moments(n, mean, deviation)

    # --- statistics ---

    def mean(self, name: str) -> FloatArray:
        """Mean over the trajectories that had not ended early by then, ``[time]``, in molecules.

        Exact sums are divided once, so that the same run gives the same number whether statistics
        or trajectories were recorded.
        """
        return self._moments(name)[0]

    def variance(self, name: str) -> FloatArray:
        """Variance over the trajectories (divided by n - 1), ``[time]``, in molecules squared.

        Of the same trajectories as `mean`.
        """
        return self._moments(name)[1]

    def std(self, name: str) -> FloatArray:
        """Square root of `variance`, ``[time]``, in molecules."""
        return np.sqrt(self.variance(name))

    def quantile(self, name: str, q: float | Sequence[float]) -> FloatArray:
        """Quantile over the trajectories, from recorded samples.

        The smallest recorded value x with F(x) >= q, so always a value that occurs.

        Returns
        -------
        ``[time]``, or ``[level, time]`` for several levels; a sweep's points come before both.

        Raises
        ------
        ConfigError
            A level outside 0 to 1, an unknown name, or samples were not recorded.
        """
        levels = np.atleast_1d(np.asarray(q))
        if levels.dtype.kind not in "iuf" or not ((levels >= 0) & (levels <= 1)).all():
            raise ConfigError(f"quantile levels must lie between 0 and 1, not {q!r}")
        values = pointwise.quantiles(self, name, levels.tolist())
        values = values if self.swept else values[0]
        return values if np.ndim(q) else values[..., 0, :]

    def histogram(
        self, name: str, t: float, bins: int | Sequence[float] | FloatArray | None = None
    ) -> tuple[UintArray, FloatArray]:
        """Numbers of trajectories per bin at sample time `t`, and the edges of the bins.

        Parameters
        ----------
        bins
            As in `numpy.histogram`. By default a bin for each whole number between the smallest and
            the largest count (wider, still whole, beyond 4 million of them); where only histograms
            were recorded, their bins, without the cells under and over the range.

        Raises
        ------
        ConfigError
            `t` is not a sample time, or neither samples nor a histogram of `name` were recorded.
        """
        time = self.time_index(t)
        if not self.has_samples(name):
            cells, edges = self.stored_histogram(name)
            if bins is not None:
                raise ConfigError(
                    f"only a histogram of {name} was recorded, so its bins cannot be chosen"
                )
            return cells[..., time, 1:-1], edges
        numbers, edges = pointwise.histogram(self, name, time, bins)
        return (numbers if self.swept else numbers[0]), edges

    def modes(self, name: str, t: float | None = None, alpha: float = ALPHA) -> Modes:
        """Modes of the distribution at sample time `t` (by default the last): one, two, ...

        From samples, or a recorded histogram. Noise makes no modes: with probability 1 - `alpha`
        the distribution has at least as many as are found (taut string, docs/summaries.md).

        Returns
        -------
        `count`, `positions` ``[mode]`` and `weights` ``[mode]``, padded with NaN; with a sweep each
        has its points first.

        Raises
        ------
        ConfigError
            `t` is not a sample time, or neither samples nor a histogram of `name` were recorded.
        """
        at = float(self.times[-1]) if t is None else t
        return modes_at(self, name, at, alpha)

    def stored_histogram(self, name: str) -> tuple[UintArray, FloatArray]:
        """Histogram as the run recorded it: cells ``[time, bins + 2]`` and edges ``[bins + 1]``.

        The first cell holds what lies under the range, the last what lies over it.
        """
        self._check(name)
        key = f"statistics/histogram/{name}"
        if key not in self.data:
            raise ConfigError(
                f"{self.name}: neither trajectories nor a histogram of {name} were recorded "
                f"(--record trajectories or histogram:{name}:LO:HI:BINS)"
            )
        edges = np.asarray(self.data[f"{key}_edges"][()], np.float64)
        cells = np.asarray(self.data[key][()], np.uint64)
        return (cells.sum(axis=0) if "group" in self.attributes else cells), edges

    def grid(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """An array ``[point, ...]`` with an axis per swept name instead, in the order of `points`.

        Raises
        ------
        ConfigError
            The points are not all combinations of some values of each name.
        """
        return pointwise.on_grid(self, values)

    # --- other libraries ---

    def to_xarray(self, *, chunked: bool = False) -> xarray.Dataset:
        """All of it as an `xarray.Dataset` with dimensions trajectory, time, species, observable.

        From a file nothing is read before it is used. With `chunked`, what has a row per
        trajectory comes as dask arrays, so that computing with it needs not all of it in memory;
        a result in memory stays as it is. Close the dataset when done with it.
        """
        return export.to_xarray(self, chunked=chunked)

    def to_dask(self, name: str = "counts", blocks: int | None = None) -> dask.array.Array:
        """A dataset as a `dask.array.Array`, lazily, `blocks` storage blocks to a chunk.

        By default one, and more where there would be over 4096 chunks. Every task opens the file
        for itself, so that any scheduler may be used, also one with workers on other machines that
        see the file.
        """
        return export.to_dask(self, name, blocks)

    def to_pandas(self, what: str | None = None, names: Sequence[str] = ()) -> pd.DataFrame:
        """A table as a `pandas.DataFrame`, all of it in memory; NaN where a trajectory has ended.

        `what` is ``trajectories`` (a row per trajectory and sample time, a column per species and
        observable), ``statistics`` (a row per sample time), ``final`` or ``summaries`` (a row per
        trajectory); by default the first of these that was recorded. Swept values come first.
        `names` leaves out other species and observables.

        Raises
        ------
        ConfigError
            What was not recorded, an unknown name, or no pandas.
        """
        return tables.to_pandas(tables.table_of(self, what, names))

    def plot(
        self,
        name: str | Sequence[str] | None = None,
        kind: str = "auto",
        path: str | os.PathLike[str] | None = None,
        t: float | None = None,
    ) -> Figure:
        """Draw species, observables or summaries, each in a panel; needs matplotlib.

        Parameters
        ----------
        name
            One or several; by default the first four that ever change.
        kind
            ``trajectories``, ``mean``, ``histogram``, ``heatmap``, ``modes`` (where a sweep has
            several); ``auto`` takes what suits the data. A summary is drawn over what was swept.
        path
            File to write too: PNG or SVG by its suffix.
        t
            Sample time of a histogram, or of a sweep; by default the last.

        Raises
        ------
        ConfigError
            An unknown kind, name, time or suffix, data that was not recorded, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        from tauslab.runner.plots.ensemble import plot_result

        names = [name] if isinstance(name, str) else name
        return plot_result(self, kind, names, t, None if path is None else Path(path))

    # --- house-keeping ---

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._close is not None:
            self._close()

    def __enter__(self) -> Self:
        """Use as a context manager, closing at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """One line: what was run, how much of it, where it lies."""
        if getattr(self.data, "closed", False):
            return f"<Result {self.name}: closed>"
        shown = ", ".join(self.species[:4]) + (", ..." if len(self.species) > 4 else "")
        where = f" at {self.n_points} points" if self.swept else ""
        state = "" if self.complete else ", unfinished"
        place = "in memory" if self.path is None else self.name
        return (
            f"<Result {place}: {self._method_told()}, {self.n} trajectories{where}, "
            f"{len(self.times)} times, {len(self.species)} species ({shown}), "
            f"seed {self.seed}{state}>"
        )

    def __reduce__(self) -> str | tuple[Any, ...]:
        """A copy, as another process gets it, opens the file for itself."""
        if self.path is None:
            return Result, (self.data, self.attributes)
        from tauslab.runner.results.open import open_result

        return open_result, (self.path.absolute(),)

    # --- helpers ---

    def _method_told(self) -> str:
        """The method, and whether it is approximate."""
        if not self.approximate:
            return self.method
        epsilon = self.attributes.get("epsilon")
        return f"{self.method} (approximate, epsilon {epsilon:g})"

    def _moments(self, name: str) -> tuple[FloatArray, FloatArray]:
        self._check(name)
        if self.swept:
            return pointwise.moments(self, name)
        _, group, names = self.place_of(name)
        index = names.index(name)
        apart = "group" in self.attributes  # a portion of a run that goes on until it converges
        if f"{group}/exponent" in self.data:
            return columns.stored_moments(self.data, group, index, apart=apart)
        if f"{group}/n" in self.data:
            sums = columns.stored_sums(self.data, group, index, apart=apart)
        elif not self.has_samples(name):
            raise self._missing("statistics")
        elif self.is_whole(name):
            sums = columns.count_sums(self.column(name))
        else:
            return columns.real_moments(self.column(name))
        return sums.mean(), sums.variance()

"""The result of an ensemble: one class for a file and for a run kept in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tauslab.base.door import behind_door
from tauslab.base.errors import ConfigError
from tauslab.store.results import columns
from tauslab.store.results.ensemble_data import EnsembleData, Moments
from tauslab.store.results.modes import ALPHA, Modes, modes_at
from tauslab.store.results.samples import dataset_of, finished_rows, main_quantities

if TYPE_CHECKING:
    import dask.array
    import pandas as pd
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Moments", "Result"]


class Result(EnsembleData):
    """An ensemble of trajectories: samples, statistics or both, as they were recorded.

    Opened from a file (`tauslab.open`), it reads what is asked for and no more. An unfinished run
    shows its completed blocks. With a sweep, arrays have the points as their first axis. A ``with``
    block closes the file at its end.

    `data` maps datasets of the file, such as ``statistics/sum``, to arrays; `attributes` holds the
    settings of the run; `path` is the file, or None. A method raises a `ConfigError` for a name
    that was not recorded, and an `InputFileError` if an unfinished file does not have it yet.
    """

    def modes(self, name: str, t: float | None = None, alpha: float = ALPHA) -> Modes:
        """Estimate the modes of the distribution at sample time `t`, by default the last.

        From samples, or a recorded histogram (docs/run.md). With probability 1 - `alpha` the
        distribution has at least as many modes as are returned: at `alpha` = 0.01, 0.5 to 1 % of
        samples of a uniform one show a second. A mode far from others is detected in 90 % of
        samples if it holds 2.7 / sqrt(n) of the trajectories.

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

    def digest(self) -> str:
        """SHA-256 of the samples and sums, the total that ``tauslab digest`` prints of the file.

        Equal if and only if two results are equal, on any device and number of ranks.

        Raises
        ------
        InputFileError
            The result is unfinished.
        """
        from tauslab.store.results.digest import digest_lines, digest_total

        return digest_total(digest_lines(self))

    # --- other libraries ---

    def to_xarray(self, *, chunked: bool = False, by_name: bool = False) -> xarray.Dataset:
        """All of it as an `xarray.Dataset` with dimensions trajectory, time, species, observable.

        With `by_name`, samples are a variable ``[trajectory, time]`` for each species and
        observable, ``dataset["X"]``, in place of ``counts``, ``amounts`` and ``observables``;
        where a swept amount has the name, ``dataset["X_species"]``.

        A sweep over all combinations of distinct values has a dimension per swept name, so that
        ``dataset.sel(k_on=0.01, k_off=0.1)`` takes a point; another sweep has the dimension
        ``point``, with the swept values as coordinates on it.

        From a file nothing is read before it is used, except that a sweep over several names is
        read at once unless `chunked`. With `chunked`, what has a row per trajectory comes as dask
        arrays, so that computing with it needs not all of it in memory; a result in memory stays
        as it is. Close the dataset when done with it.
        """
        from tauslab.store.results import export

        return export.to_xarray(self, chunked=chunked, by_name=by_name)

    def sel(self, **values: float) -> xarray.Dataset:
        """The points of a sweep with these swept values, as `to_xarray` has them.

        ``result.sel(k_on=0.01)["counts"].mean("trajectory")``: values are compared to nine digits.

        Raises
        ------
        ConfigError
            A name that was not swept, or no point with these values.
        """
        from tauslab.store.results import export

        return export.select(self, values)

    def to_dask(self, name: str = "counts", blocks: int | None = None) -> dask.array.Array:
        """A dataset as a `dask.array.Array`, lazily, `blocks` storage blocks to a chunk.

        By default one, and more where there would be over 4096 chunks. Workers may be on other
        machines that see the file.
        """
        from tauslab.store.results import export

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
        from tauslab.store.results import tables

        return tables.to_pandas(tables.table_of(self, what, names))

    def plot(
        self, name: str | Sequence[str] | None = None, kind: str = "auto",
        path: str | os.PathLike[str] | None = None, t: float | None = None, *,
        ax: Axes | None = None,
    ) -> Figure:  # fmt: skip
        """Draw species, observables or summaries, each in a panel.

        A notebook shows what is returned. Trajectories of differential equations share one panel;
        of a species that is only ever 0 or 1, the share of trajectories with 1 is drawn.

        Parameters
        ----------
        name
            One or several; by default the first four (of equations ten) that ever change.
        kind
            ``trajectories``, ``mean``, ``histogram``, ``heatmap``, ``modes`` (where a sweep has
            several); ``auto`` takes what suits the data. A summary is drawn over what was swept.
        path
            File to write too: PNG, SVG or PDF by its suffix.
        t
            Sample time of a histogram, or of a sweep; by default the last.
        ax
            Axes of a matplotlib figure of your own to draw a single panel in.

        Raises
        ------
        ConfigError
            An unknown kind, name, time or suffix, data that was not recorded, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        names = [name] if isinstance(name, str) else name
        place = None if path is None else Path(path)
        figure: Figure = behind_door("Result.plot")(self, kind, names, t, place, ax=ax)
        return figure

    def save(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, compress: int = 0
    ) -> Path:
        """Write a result in memory to a file, as a run with ``output=`` would have.

        Of several ranks the first writes.

        Parameters
        ----------
        overwrite
            Replace a file that is there.
        compress
            Level of gzip, 1 to 9; 0 for none.

        Raises
        ------
        ConfigError
            The result lies in a file already, or was not made by a run; or the name is that of a
            table or a picture.
        OutputError
            The file is there already, or cannot be written.
        """
        from tauslab.store.writers.join import save_result

        own = self._new_file(path, overwrite=overwrite or not self._saves)
        if self.layout is None:
            raise ConfigError("this result was not made by a run: there is nothing to save it from")
        if not 0 <= compress <= 9:
            raise ConfigError(f"compress = {compress}: a level of gzip is 1 to 9, or 0 for none")
        if self._saves:  # all ranks have the same result
            save_result(own, self.data, self.layout, str(self.attributes["run"]), compress)
        return own

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Recorded samples ``[trajectory, time]`` of a species or observable, or a summary.

        With a sweep the points come first. ``result["time"]`` are the sample times; a species of
        that name is ``result["time_species"]``, as in tables.

        Raises
        ------
        ConfigError
            The name is not known, or was not recorded.
        """
        if name == "time":
            return self.times
        name = dict(zip(self._names(), main_quantities(self), strict=True)).get(name, name)
        if name in self.species:
            return self.amounts(name) if self.continuous else self.counts(name)
        if name in self.observables:
            dataset = dataset_of(self, "observables", "trajectories")
            of_row = slice(None), self.observables.index(name)
            return finished_rows(self, dataset, of_row, missing=math.nan)
        if self.summaries and name not in main_quantities(self):
            return self.summary(name)
        known = ", ".join(self.keys()[:20])
        raise ConfigError(f"{name!r} is not recorded in {self.name}; it has {known}")

    def keys(self) -> tuple[str, ...]:
        """Names that ``result[name]`` takes."""
        return ("time", *self._names(), *self.summaries)

    def _names(self) -> tuple[str, ...]:
        """Names of species and observables beside ``time``, which are the sample times."""
        return columns.apart(main_quantities(self), ("time",), "species")

    def _repr_html_(self) -> str:
        from tauslab.store.results.info import result_html

        return result_html(self, repr(self))

    def __repr__(self) -> str:
        """One line: what was run, how much of it, where it lies."""
        if getattr(self.data, "closed", False):
            return f"<Result {self.name}: closed>"
        shown = ", ".join(self.species[:4]) + (", ..." if len(self.species) > 4 else "")
        where = f" at {self.n_points} points" if self.swept else ""
        state = "" if self.complete else f", unfinished: {self.unfinished}"
        place = "in memory" if self.path is None else self.name
        number = f"{self.n} trajector{'y' if self.n == 1 else 'ies'}"
        return (
            f"<Result {place}: {self._method_text()}, {number}{where}, "
            f"{len(self.times)} times, {len(self.species)} species ({shown}), "
            f"seed {self.seed}{state}>"
        )

    def __reduce__(self) -> str | tuple[Any, ...]:
        """A copy, as another process gets it, opens the file for itself."""
        if self.path is None:
            return Result, (self.data, self.attributes, None, None, None, self.layout)
        assert self.reopen is not None
        return self.reopen, (self.path.absolute(),)

    # --- helpers ---

    def _method_text(self) -> str:
        """The method, and whether it is approximate."""
        if not self.approximate:
            return self.method
        epsilon = self.attributes.get("epsilon")
        return f"{self.method} (approximate, epsilon {epsilon:g})"

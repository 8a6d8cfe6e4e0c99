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
from tauslab.base.files.opening import at_home
from tauslab.options.python_values import listed
from tauslab.options.values.texts import formula_hint
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
    """An ensemble of trajectories: the recorded samples, statistics or both.

    Data of a file (`tauslab.open`) are read when they are used. Of an unfinished run, the
    completed blocks are read. In a sweep, the first axis of arrays is the point. A ``with`` block
    closes the file.

    `data` maps names of datasets, such as ``statistics/sum``, to arrays; `attributes` are the
    settings of the run; `path` is the file, or None. A method raises a `ConfigError` for a name
    that was not recorded, and an `InputFileError` if an unfinished file does not have it yet.
    """

    def modes(self, name: str, t: float | None = None, alpha: float = ALPHA) -> Modes:
        """Estimate the modes of the distribution at sample time `t`, by default the last.

        From samples, or a recorded histogram (docs/run.md). With probability 1 - `alpha` the
        distribution has at least as many modes as are returned. A mode far from others is detected
        in 90 % of samples if it contains a fraction of 2.7 / sqrt(n) of the trajectories.

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
        """SHA-256 hash of samples and sums, the total that ``tauslab digest`` prints for the file.

        Raises
        ------
        InputFileError
            The result is unfinished.
        """
        from tauslab.store.results.digest import digest_lines, digest_total

        return digest_total(digest_lines(self))

    # --- other libraries ---

    def to_xarray(self, *, chunked: bool = False, by_name: bool = False) -> xarray.Dataset:
        """An `xarray.Dataset` with dimensions trajectory, time, species, observable.

        With `by_name`, the dataset has a variable ``[trajectory, time]`` for each species and
        observable, such as ``dataset["X"]``, instead of ``counts``, ``amounts`` and
        ``observables``. If a swept amount has the same name, the variable is
        ``dataset["X_species"]``.

        A grid has a dimension per swept name, so that ``dataset.sel(k_on=0.01, k_off=0.1)``
        selects a point; another sweep has the dimension ``point``, with the swept values as
        coordinates.

        Data of a file are read when they are used, except that a grid is read immediately unless
        `chunked`. With `chunked`, arrays with a row per trajectory are dask arrays, which need not
        fit into memory. Close the dataset after use.
        """
        from tauslab.store.results import export

        return export.to_xarray(self, chunked=chunked, by_name=by_name)

    def sel(self, **values: float) -> xarray.Dataset:
        """The points of a sweep with these swept values, as `to_xarray` returns them.

        Values are compared to nine digits: ``result.sel(k_on=0.01)["counts"].mean("trajectory")``.

        Raises
        ------
        ConfigError
            A name that was not swept, or no point with these values.
        """
        from tauslab.store.results import export

        return export.select(self, values)

    def to_dask(self, name: str = "counts", blocks: int | None = None) -> dask.array.Array:
        """A dataset as a `dask.array.Array`, with `blocks` storage blocks per chunk.

        By default one block, or more if there would be over 4096 chunks. Workers may be on other
        machines that can read the file.
        """
        from tauslab.store.results import export

        return export.to_dask(self, name, blocks)

    def to_pandas(self, what: str | None = None, names: Sequence[str] = ()) -> pd.DataFrame:
        """A table as a `pandas.DataFrame` in memory; NaN after a trajectory ended early.

        `what` is ``trajectories`` (a row per trajectory and sample time, a column per species and
        observable), ``statistics`` (a row per sample time), ``final`` or ``summaries`` (a row per
        trajectory); by default the first of these that was recorded. Swept values come first.
        `names` selects species and observables.

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

        A notebook displays the returned figure. Trajectories of rate equations share one panel.

        Parameters
        ----------
        name
            One or several names; by default the first four (rate equations: ten) that change.
        kind
            ``trajectories``, ``mean``, ``histogram``, ``heatmap``, ``modes`` (over the swept
            values); ``auto`` depends on the data. A summary is drawn over the swept values.
        path
            File to write too: PNG, SVG or PDF by its suffix.
        t
            Sample time of a histogram, or of a sweep; by default the last.
        ax
            Matplotlib axes in which to draw a single panel.

        Raises
        ------
        ConfigError
            An unknown kind, name, time or suffix, data that was not recorded, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        names = None if name is None else listed(name)
        place = None if path is None else at_home(path)
        figure: Figure = behind_door("Result.plot")(self, kind, names, t, place, ax=ax)
        return figure

    def save(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, compress: int = 0
    ) -> Path:
        """Write a result in memory to a file, as a run with ``output=`` would have.

        Under ``mpirun`` the first rank writes.

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
        if not isinstance(name, str):
            raise ConfigError(f"result[NAME] takes one name, not {name!r:.60}")
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
        known = self.keys()
        raise ConfigError(
            f"{name!r} is not recorded in {self.name}; it has {', '.join(known[:20])}"
            f"{formula_hint(name, known)}"
        )

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

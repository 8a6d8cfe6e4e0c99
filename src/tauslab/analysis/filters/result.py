"""Results of filters: likelihoods of a time course, and the states behind it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tauslab.base.arrays import Array, FloatArray
from tauslab.store.checking.opening import FILTER, FILTERS
from tauslab.store.results.array_result import ArrayResult, named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.store.state import State
from tauslab.views.states import plot_moments, plot_traces

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _Filtered(ArrayResult):
    """Arrays of one filter or of many; of many the filters are the first axis."""

    _AXES: ClassVar = {
        "time": "time", "species": "species", "log_likelihood_term": "filter time",
        "mean": "filter time species", "sd": "filter time species",
        "effective_size": "filter time", "filter": "filter", "log_likelihood": "filter",
    }  # fmt: skip

    terms: FloatArray
    time: FloatArray
    species: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    effective_size: FloatArray

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them."""
        return {
            "time": self.time,
            "species": np.array(self.species),
            "log_likelihood_term": self.terms,
            "mean": self.mean,
            "sd": self.sd,
            "effective_size": self.effective_size,
        }

    def table(self, what: str | None = None) -> ResultTable:
        """A row per time, of several filters one per filter and time: terms, means, deviations."""
        del what
        times = self.time
        columns: dict[str, Array] = {}
        if self.terms.ndim == 2:
            columns["filter"] = np.repeat(np.arange(len(self.terms)), len(times))
            times = np.tile(times, len(self.terms))
        columns |= {
            "time": times,
            "log_likelihood_term": self.terms.ravel(),
            "effective_size": self.effective_size.ravel(),
        }
        for i, name in enumerate(self.species):
            columns[f"{name}_mean"] = self.mean[..., i].ravel()
            columns[f"{name}_sd"] = self.sd[..., i].ravel()
        return named_columns(columns)

    @staticmethod
    def _columns(
        stored: State,
    ) -> tuple[FloatArray, FloatArray, tuple[str, ...], FloatArray, FloatArray, FloatArray]:
        """Fields after the likelihood, in the order of both classes."""
        return (
            stored["log_likelihood_term"], stored["time"], tuple(stored["species"].tolist()),
            stored["mean"], stored["sd"], stored["effective_size"],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class FilterResult(_Filtered):
    """Result of a filter, made by `tauslab.particle_filter` and `tauslab.exact_filter`.

    Attributes
    ----------
    log_likelihood
        Logarithm of the density of all data; -inf where no particle can explain a row.
    terms
        f64 ``[time]``: of each row, given the rows before; their sum is `log_likelihood`.
    time
        f64 ``[time]``: times of the rows.
    species
        Names of the columns of `mean` and `sd`.
    mean, sd
        f64 ``[time, species]``: of the state given the data so far; NaN if not requested, or if no
        particle is left.
    effective_size
        f64 ``[time]``: effective sample size after each row; 0 for an exact filter.
    bound
        Exact filter: `log_likelihood` is too small by at most this; NaN for particle filters.
    """

    _METHODS = (FILTER,)
    _OPTIONAL = ("filter", "log_likelihood")

    log_likelihood: float
    terms: FloatArray
    time: FloatArray
    species: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    effective_size: FloatArray
    bound: float = float("nan")

    def __repr__(self) -> str:
        """One line: what was filtered, and its likelihood."""
        return (
            f"<FilterResult: log-likelihood {self.log_likelihood:.6g} of {len(self.time)} rows, "
            f"{len(self.species)} species>"
        )

    def plot(
        self, species: Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw mean and two standard deviations of species over time.

        Parameters
        ----------
        species
            Names; by default the first four.
        path
            File to write: PNG, SVG or PDF by its suffix.

        Raises
        ------
        ConfigError
            An unknown name or suffix, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        of = zip(self.species, zip(self.mean.T, self.sd.T, strict=True), strict=True)
        sizes = self.effective_size if (self.effective_size > 0).any() else None
        return plot_moments(
            self.time, dict(of), None if path is None else Path(path), species, sizes
        )

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON, with None for NaN."""
        moments = {"mean": self.mean, "sd": self.sd}
        return {
            "method": FILTER,
            "log_likelihood": numbers_or_none(self.log_likelihood),
            "time": self.time.tolist(),
            "terms": numbers_or_none(self.terms),
            "effective_size": self.effective_size.tolist(),
            **{
                what: {name: numbers_or_none(of[:, i]) for i, name in enumerate(self.species)}
                for what, of in moments.items()
            },
            **({} if math.isnan(self.bound) else {"bound": self.bound}),
        }

    def lines(self) -> list[str]:
        """The result in lines of text, as `tauslab info` prints it."""
        lines = [f"log-likelihood {self.log_likelihood:.6g} of {len(self.time)} rows"]
        if self.log_likelihood == -math.inf:
            row = int(np.flatnonzero(np.isneginf(self.terms))[0])
            cause = "no particle" if math.isnan(self.bound) else "no state"
            return [*lines, f"{cause} can explain the row at t = {self.time[row]:g}"]
        return [
            *lines,
            self._told_of_error(),
            *(
                f"{name} at t = {self.time[-1]:g}: mean {self.mean[-1, i]:.6g}, sd "
                f"{self.sd[-1, i]:.4g}"
                for i, name in enumerate(self.species[:8])
            ),
        ]

    def _told_of_error(self) -> str:
        if not math.isnan(self.bound):
            return f"exact: too small by {self.bound:.2g} at most"
        least = int(self.effective_size.argmin())
        fewest = f"{self.effective_size[least]:.1f} at t = {self.time[least]:g}"
        return f"fewest effective particles: {fewest}"

    def _attributes(self) -> dict[str, Any]:
        own = {"method": FILTER, "log_likelihood": self.log_likelihood}
        return own if math.isnan(self.bound) else own | {"bound": self.bound}

    @classmethod
    def _of(cls, stored: State) -> Self:
        bound = stored.real("bound") if "bound" in stored.attributes else math.nan
        return cls(stored.real("log_likelihood"), *cls._columns(stored), bound)


@dataclass(frozen=True, eq=False)
class FilterResults(_Filtered):
    """Result of many filters, made by `tauslab.particle_filters`.

    Attributes
    ----------
    log_likelihood
        f64 ``[filter]``; -inf where no particle can explain a row.
    terms, effective_size
        f64 ``[filter, time]``, as of `FilterResult`.
    time, species
        As of `FilterResult`.
    mean, sd
        f64 ``[filter, time, species]``; NaN if not requested.
    """

    _METHODS = (FILTERS,)

    log_likelihood: FloatArray
    terms: FloatArray
    time: FloatArray
    species: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    effective_size: FloatArray

    def __repr__(self) -> str:
        """One line: how many filters, and their likelihoods."""
        low, high = float(self.log_likelihood.min()), float(self.log_likelihood.max())
        return (
            f"<FilterResults: {len(self)} filters of {len(self.time)} rows, log-likelihoods "
            f"{low:.6g} to {high:.6g}>"
        )

    def __len__(self) -> int:
        """Number of filters."""
        return len(self.log_likelihood)

    def __getitem__(self, number: int) -> FilterResult:
        """The result of one filter."""
        return FilterResult(
            float(self.log_likelihood[number]), self.terms[number], self.time, self.species,
            self.mean[number], self.sd[number], self.effective_size[number],
        )  # fmt: skip

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them."""
        own = {"filter": np.arange(len(self)), "log_likelihood": self.log_likelihood}
        return super().arrays() | own

    def facts(self) -> dict[str, Any]:
        """How many filters, and what they say, for JSON; None for what is no number."""
        return {
            "method": FILTERS,
            "filters": len(self),
            "time": self.time.tolist(),
            "species": list(self.species),
            "log_likelihood": numbers_or_none(self.log_likelihood),
        }

    def lines(self) -> list[str]:
        """The result in lines of text, as `tauslab info` prints it."""
        best = int(self.log_likelihood.argmax())
        return [
            f"{len(self)} filters of {len(self.time)} rows",
            f"largest log-likelihood {self.log_likelihood[best]:.6g}, of filter {best}",
        ]

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw the log-likelihood of each filter.

        Parameters
        ----------
        path
            File to write: PNG, SVG or PDF by its suffix.

        Raises
        ------
        ConfigError
            Another suffix, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        rows = {"log-likelihood": self.log_likelihood[None]}
        return plot_traces(rows, "filter", (), None if path is None else Path(path))

    def _attributes(self) -> dict[str, Any]:
        return {"method": FILTERS}

    @classmethod
    def _of(cls, stored: State) -> Self:
        return cls(stored["log_likelihood"], *cls._columns(stored))

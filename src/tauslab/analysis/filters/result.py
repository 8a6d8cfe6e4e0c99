"""Results of filters: likelihoods of a time course, and the states behind it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from tauslab.base.arrays import Array, FloatArray
from tauslab.store.checking.opening import FILTER, FILTERS
from tauslab.store.results.array_result import FieldResult, named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.views.states import plot_moments, plot_traces

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_AXES = {
    "time": "time", "species": "species", "log_likelihood_term": "filter time",
    "mean": "filter time species", "sd": "filter time species",
    "effective_size": "filter time", "probability": "probability",
    "quantile": "filter time species probability",
}  # fmt: skip


class _Filtered(FieldResult):
    """Arrays of one filter or of many; of many the filters are the first axis."""

    _AXES: ClassVar = _AXES
    _FIELDS: ClassVar = {
        "log_likelihood_term": "terms", "probability": "probabilities", "quantile": "quantiles",
    }  # fmt: skip
    _OPTIONAL: ClassVar = ("probability", "quantile")

    terms: FloatArray
    time: FloatArray
    species: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    effective_size: FloatArray
    probabilities: FloatArray | None
    quantiles: FloatArray | None

    @property
    def times(self) -> FloatArray:
        """As `time`."""
        return self.time

    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"statistics": self._statistics}

    def _statistics(self) -> ResultTable:
        """A row per time, of several filters one per filter and time: terms, means, deviations."""
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
            if self.probabilities is not None and self.quantiles is not None:
                for p, values in zip(self.probabilities, self.quantiles.T, strict=True):
                    columns[f"{name}_{p}"] = values[i].T.ravel()
        return named_columns(columns)


Filtered = TypeVar("Filtered", "FilterResult", "FilterResults")


def joined(cells: Sequence[Filtered]) -> Filtered:
    """The result of all cells: rows of one after the other, sums of likelihoods and bounds."""
    first = cells[0]
    if len(cells) == 1:
        return first
    both: dict[str, Any] = {"time": np.concatenate([cell.time for cell in cells])}
    names = ["terms", "mean", "sd", "effective_size", "quantiles"]
    for name in names if first.probabilities is not None else names[:-1]:
        each = [getattr(cell, name) for cell in cells]
        both[name] = np.concatenate(each, axis=first.terms.ndim - 1)
    for name in ("log_likelihood", "bound"):
        if hasattr(first, name):
            both[name] = sum(getattr(cell, name) for cell in cells)
    return replace(first, **both)


@dataclass(frozen=True, eq=False)
class FilterResult(_Filtered):
    """Result of a filter, made by `tauslab.particle_filter` and `tauslab.exact_filter`.

    Attributes
    ----------
    log_likelihood
        Logarithm of the probability density of all data; -inf if no particle is compatible with a
        row.
    terms
        f64 ``[time]``: log-likelihood of each row given the rows before; the sum is
        `log_likelihood`.
    time
        f64 ``[time]``: times of the rows; for several cells, of one cell after the other.
    species
        Names of the columns of `mean` and `sd`.
    mean, sd
        f64 ``[time, species]``: mean and standard deviation of the state given the data up to this
        row; NaN if not requested, or if no particle is left.
    effective_size
        f64 ``[time]``: effective sample size after each row; 0 for an exact filter.
    bound
        Exact filter: `log_likelihood` is too small by at most this; NaN for particle filters.
    probabilities, quantiles
        f64 ``[probability]`` and ``[time, species, probability]``: the least value at which the
        distribution function of the state reaches the probability; None if not requested.
    """

    _METHODS = (FILTER,)

    log_likelihood: float
    terms: FloatArray
    time: FloatArray
    species: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    effective_size: FloatArray
    bound: float = float("nan")
    probabilities: FloatArray | None = None
    quantiles: FloatArray | None = None

    def __repr__(self) -> str:
        """One line: what was filtered, and its likelihood."""
        return (
            f"<FilterResult: log-likelihood {self.log_likelihood:.6g} of {len(self.time)} rows, "
            f"{len(self.species)} species>"
        )

    def plot(
        self, species: Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw mean and two standard deviations of species over time; `path` as of `Chain.plot`."""
        of = zip(self.species, zip(self.mean.T, self.sd.T, strict=True), strict=True)
        sizes = self.effective_size if (self.effective_size > 0).any() else None
        return plot_moments(self.time, dict(of), path, species, sizes)

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
            self._error_text(),
            *(
                f"{name} at t = {self.time[-1]:g}: mean {self.mean[-1, i]:.6g}, sd "
                f"{self.sd[-1, i]:.4g}"
                for i, name in enumerate(self.species[:8])
            ),
        ]

    def _error_text(self) -> str:
        if not math.isnan(self.bound):
            return f"exact: too small by {self.bound:.2g} at most"
        least = int(self.effective_size.argmin())
        fewest = f"{self.effective_size[least]:.1f} at t = {self.time[least]:g}"
        return f"fewest effective particles: {fewest}"


@dataclass(frozen=True, eq=False)
class FilterResults(_Filtered):
    """Result of many filters, made by `tauslab.particle_filters`.

    Attributes
    ----------
    log_likelihood
        f64 ``[filter]``; -inf if no particle is compatible with a row.
    terms, effective_size
        f64 ``[filter, time]``, as for `FilterResult`.
    time, species
        As of `FilterResult`.
    mean, sd, probabilities, quantiles
        As for `FilterResult`, with a first axis for the filters.
    """

    _METHODS = (FILTERS,)
    _AXES: ClassVar = {**_AXES, "filter": "filter", "log_likelihood": "filter"}

    log_likelihood: FloatArray
    terms: FloatArray
    time: FloatArray
    species: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    effective_size: FloatArray
    probabilities: FloatArray | None = None
    quantiles: FloatArray | None = None

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

    def part(self, filters: slice, rows: int) -> FilterResults:
        """The first rows of some filters, which have no more."""
        names = ("terms", "mean", "sd", "effective_size")
        return replace(
            self, log_likelihood=self.log_likelihood[filters], time=self.time[:rows],
            **{name: getattr(self, name)[filters, :rows] for name in names},
            quantiles=None if self.quantiles is None else self.quantiles[filters, :rows],
        )  # fmt: skip

    def __getitem__(self, number: int) -> FilterResult:
        """The result of one filter."""
        return FilterResult(
            float(self.log_likelihood[number]), self.terms[number], self.time, self.species,
            self.mean[number], self.sd[number], self.effective_size[number],
            probabilities=self.probabilities,
            quantiles=None if self.quantiles is None else self.quantiles[number],
        )  # fmt: skip

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
        """Draw the log-likelihood of each filter; `path` as of `Chain.plot`."""
        rows = {"log-likelihood": self.log_likelihood[None]}
        return plot_traces(rows, "filter", (), path)

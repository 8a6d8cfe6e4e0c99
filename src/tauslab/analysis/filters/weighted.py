"""Weighted draws of parameters in stages, of which the last is the posterior."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.store.results.array_result import ArrayResult, named_columns
from tauslab.store.results.tables import ResultTable
from tauslab.views.states import plot_weighted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_LEVELS = (0.05, 0.5, 0.95)


@dataclass(frozen=True, eq=False)
class WeightedDraws(ArrayResult):
    """Base of `AbcResult` and `Smc2Result`.

    Attributes
    ----------
    parameters
        Names of the columns of `values`.
    values
        f64 ``[stage, draw, parameter]``.
    weights
        f64 ``[stage, draw]``; weights of a stage have the sum 1.
    """

    parameters: tuple[str, ...]
    values: FloatArray
    weights: FloatArray

    def __getitem__(self, name: str) -> FloatArray:
        """Values ``[draw]`` of a parameter in the last stage; their weights are `weights[-1]`."""
        if name not in self.parameters:
            known = ", ".join(self.parameters)
            raise ConfigError(f"{name!r} is no parameter of this result; it has {known}")
        return np.asarray(self.values[-1, :, self.parameters.index(name)])

    def mean(self, name: str) -> float:
        """Weighted mean of a parameter in the last stage."""
        return float((self.weights[-1] * self[name]).sum())

    def sd(self, name: str) -> float:
        """Weighted standard deviation of a parameter in the last stage."""
        off = self[name] - self.mean(name)
        return float(np.sqrt((self.weights[-1] * off * off).sum()))

    def quantile(self, name: str, q: float) -> float:
        """Weighted quantile of a parameter in the last stage."""
        if not 0 <= q <= 1:
            raise ConfigError(f"q = {q:g} is not allowed: from 0 to 1")
        return quantile_of(self[name], self.weights[-1], q)

    @property
    def effective_size(self) -> FloatArray:
        """Effective sample size ``[stage]``: 1 over the sum of squared weights."""
        return np.asarray(1 / (self.weights**2).sum(axis=1))

    def summary(self) -> pd.DataFrame:
        """A row per parameter: mean, sd and quantiles of the last stage."""
        return self.to_pandas("summary")

    def plot(
        self, parameters: Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw weighted histograms of parameters in the last stage.

        Parameters
        ----------
        parameters
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
        rows = {name: self[name] for name in self.parameters}
        return plot_weighted(
            rows, self.weights[-1], parameters, None if path is None else Path(path)
        )

    def _summary_table(self) -> ResultTable:
        return named_columns({
            "parameter": np.array(self.parameters),
            "mean": np.array([self.mean(name) for name in self.parameters]),
            "sd": np.array([self.sd(name) for name in self.parameters]),
            **{
                f"q{100 * q:02.0f}": np.array([self.quantile(k, q) for k in self.parameters])
                for q in _LEVELS
            },
        })  # fmt: skip

    def _summary_lines(self) -> list[str]:
        return [
            f"{name}: mean {self.mean(name):.6g}, sd {self.sd(name):.4g}, 90 % from "
            f"{self.quantile(name, 0.05):.6g} to {self.quantile(name, 0.95):.6g}"
            for name in self.parameters
        ]

    def _moments(self) -> dict[str, Any]:
        """Means and deviations by name, for JSON."""
        return {
            "mean": {name: self.mean(name) for name in self.parameters},
            "sd": {name: self.sd(name) for name in self.parameters},
        }


def quantile_of(values: FloatArray, weights: FloatArray, part: float) -> float:
    """Return the least of the `values` with at least this part of the weights at or below it."""
    order = np.argsort(values, kind="stable")
    ladder = np.add.accumulate(weights[order])
    at = int(np.searchsorted(ladder, part * ladder[-1], side="left"))
    return float(values[order[min(at, len(order) - 1)]])

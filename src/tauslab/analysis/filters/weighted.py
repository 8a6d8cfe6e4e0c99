"""Weighted draws of parameters in stages, of which the last is the posterior."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tauslab.analysis.filters.parameters import Draws
from tauslab.analysis.particles.weights import ancestors_of
from tauslab.base.arrays import FloatArray, IntArray
from tauslab.views.states import plot_weighted

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class WeightedDraws(Draws):
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

    weights: FloatArray

    def __getitem__(self, name: str) -> FloatArray:
        """Values ``[draw]`` of a parameter, whose weights are `weights[-1]`."""
        return np.asarray(self.values[-1, :, self._place(name)])

    def mean(self, name: str) -> float:
        """Mean of a parameter with the weights `weights[-1]`."""
        return float((self.weights[-1] * self[name]).sum())

    def sd(self, name: str) -> float:
        """Standard deviation of a parameter with these weights."""
        off = self[name] - self.mean(name)
        return float(np.sqrt((self.weights[-1] * off * off).sum()))

    def _quantile(self, name: str, q: float) -> float:
        return quantile_of(self[name], self.weights[-1], q)

    def _equal_draws(self) -> FloatArray:
        return np.asarray(self.values[-1, ancestors_of(self.weights[-1], "systematic", 0, 0)])

    @property
    def effective_size(self) -> FloatArray:
        """Effective sample size of each row of `weights`: 1 over the sum of squares."""
        return np.asarray(1 / (self.weights**2).sum(axis=1))

    def _picture(self, parameters: Sequence[str], path: str | os.PathLike[str] | None) -> Figure:
        return plot_weighted(
            {name: self[name] for name in self.parameters}, self.weights[-1], parameters, path
        )

    def _resampled(self) -> tuple[IntArray, xarray.Dataset]:
        """Numbers of draws copied by their weights (systematic resampling), and the posterior."""
        import xarray

        chosen = ancestors_of(self.weights[-1], "systematic", 0, 0)
        rows = {name: (("chain", "draw"), self[name][None, chosen]) for name in self.parameters}
        return chosen, xarray.Dataset(rows, {"chain": [0], "draw": np.arange(len(chosen))})

    def _summary_lines(self) -> list[str]:
        return [
            f"{name}: mean {self.mean(name):.6g}, sd {self.sd(name):.4g}, 90 % from "
            f"{self.quantile(name, 0.05):.6g} to {self.quantile(name, 0.95):.6g}"
            for name in self.parameters
        ]


def quantile_of(values: FloatArray, weights: FloatArray, part: float) -> float:
    """Return the least of the `values` with at least this part of the weights at or below it."""
    order = np.argsort(values, kind="stable")
    ladder = np.add.accumulate(weights[order])
    at = int(np.searchsorted(ladder, part * ladder[-1], side="left"))
    return float(values[order[min(at, len(order) - 1)]])

"""Results about parameters: what chains, weighted draws and fits share."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tauslab.base.arrays import FloatArray, doubles, is_number
from tauslab.base.errors import ConfigError
from tauslab.store.results.array_result import FieldResult, named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class ParameterResult(FieldResult):
    """Base of `Chain`, `AbcResult`, `Smc2Result` and `FitResult`."""

    parameters: tuple[str, ...]
    values: FloatArray
    seed: int | None = field(default=None, kw_only=True)  # None in files of earlier versions

    def _seed_text(self) -> str:
        return "" if self.seed is None else f", seed {self.seed}"

    def _place(self, name: str) -> int:
        """Number of a parameter; a `ConfigError` for another name."""
        if name not in self.parameters:
            known = ", ".join(self.parameters)
            raise ConfigError(f"{name!r} is no parameter of this result; it has {known}")
        return self.parameters.index(name)

    def _by_parameter(self, numbers: Mapping[str, Callable[[str], float]]) -> ResultTable:
        """A row per parameter, with a column for each function of its name."""
        columns = {what: np.array([of(n) for n in self.parameters]) for what, of in numbers.items()}
        return named_columns({"parameter": np.array(self.parameters), **columns})

    def summary(self) -> pd.DataFrame:
        """A row per parameter, with its mean or estimate first: the table ``summary``."""
        return self.to_pandas("summary").set_index("parameter")

    def plot(
        self, parameters: Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw a panel for each parameter.

        For chains traces, for weighted draws histograms, for fits log-likelihoods, their profile
        and the 95 % interval.

        Parameters
        ----------
        parameters
            Names; by default the first four.
        path
            PNG, SVG or PDF to write.

        Raises
        ------
        ConfigError, OutputError
            A name or suffix is unknown, or the picture cannot be written.
        """
        return self._picture(parameters, path)

    @abstractmethod
    def _picture(self, parameters: Sequence[str], path: str | os.PathLike[str] | None) -> Figure:
        """Draw the picture of `plot`."""


def checked_level(level: float) -> float:
    """The level of an interval, if it is between 0 and 1."""
    if not (is_number(level) and 0 < level < 1):
        raise ConfigError(f"level={level!r:.60} is not allowed: a number between 0 and 1")
    return level


@dataclass(frozen=True, eq=False)
class Draws(ParameterResult):
    """Base of draws from a posterior."""

    @abstractmethod
    def __getitem__(self, name: str) -> FloatArray:
        """Values of a parameter."""

    @abstractmethod
    def mean(self, name: str) -> float:
        """Mean of a parameter."""

    @abstractmethod
    def sd(self, name: str) -> float:
        """Standard deviation of a parameter."""

    @overload
    def quantile(self, name: str, q: float) -> float: ...

    @overload
    def quantile(self, name: str, q: Sequence[float] | FloatArray) -> FloatArray: ...

    def quantile(self, name: str, q: float | Sequence[float] | FloatArray) -> float | FloatArray:
        """Quantile, or an array of several; of weighted draws, with `weights[-1]`.

        Raises
        ------
        ConfigError
            The name is not a parameter, or `q` is not from 0 to 1.
        """
        try:
            each = doubles(q)
        except ValueError:
            each = np.array(np.nan)
        if not ((each >= 0) & (each <= 1)).all():
            raise ConfigError(f"q={q!r:.60} is not allowed: numbers from 0 to 1")
        result = np.array([self._quantile(name, part) for part in each.ravel().tolist()])
        return result.reshape(each.shape) if each.ndim else float(result[0])

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Credible interval with equal tails.

        Raises
        ------
        ConfigError
            The name is not a parameter, or `level` is not between 0 and 1.
        """
        tail = 0.5 * (1 - checked_level(level))
        return self.quantile(name, tail), self.quantile(name, 1 - tail)

    def draws(self, n: int | None = None) -> dict[str, FloatArray]:
        """Draws ``[n]`` by parameter, by default all, for ``set=`` of `tauslab.run`.

        Raises
        ------
        ConfigError
            There are fewer draws than `n`.
        """
        # Of all chains, one after the other, evenly spaced; copies of weighted draws.
        rows = self._equal_draws()
        size = len(rows)
        if n is not None and not (isinstance(n, int | np.integer) and 1 <= n <= size):
            raise ConfigError(f"n={n!r:.60} is not allowed: from 1 to {size}, the number of draws")
        chosen = rows[(np.arange(n or size) * size) // (n or size)]
        return dict(zip(self.parameters, chosen.T.copy(), strict=True))

    @abstractmethod
    def _equal_draws(self) -> FloatArray:
        """Draws ``[draw, parameter]`` of equal weight."""

    @abstractmethod
    def _quantile(self, name: str, q: float) -> float:
        """Quantile of a parameter."""

    def _numbers_of_summary(self) -> dict[str, Callable[[str], float]]:
        """Columns of the table ``summary``."""
        return {
            "mean": self.mean, "sd": self.sd, "q05": lambda name: self.quantile(name, 0.05),
            "q50": lambda name: self.quantile(name, 0.5),
            "q95": lambda name: self.quantile(name, 0.95),
        }  # fmt: skip

    def _summary(self) -> ResultTable:
        return self._by_parameter(self._numbers_of_summary())

    def _moments(self) -> dict[str, Any]:
        """Means and deviations by name, for JSON: None for NaN."""
        return {
            "mean": {name: numbers_or_none(self.mean(name)) for name in self.parameters},
            "sd": {name: numbers_or_none(self.sd(name)) for name in self.parameters},
        }

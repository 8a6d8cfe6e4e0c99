"""The result of `tauslab.fit`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tauslab.analysis.filters.fitting.surface import Quadratic
from tauslab.base.arrays import Array, FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.model.portable import normal_quantile
from tauslab.store.checking.opening import FIT
from tauslab.store.results.array_result import ArrayResult, named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.store.state import State
from tauslab.views.states import Profile, plot_profiles

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_CURVE = 200  # places of a curve in a picture


@dataclass(frozen=True, eq=False)
class FitResult(ArrayResult):
    """Result of `tauslab.fit`.

    Attributes
    ----------
    parameters
        Names.
    values
        f64 ``[parameter]``: the estimates.
    covariance
        f64 ``[parameter, parameter]``: of the logarithms of estimates, with what simulations add;
        NaN where the data do not bound them on both sides.
    points, point_log_likelihood
        f64 ``[point, parameter]`` and ``[point]``: what the estimates are made of.
    log_likelihood, log_likelihood_error
        At the estimates, and its standard error by simulations.
    likelihood
        ``filter`` or ``synthetic``.
    converged
        Whether the search came to rest at a maximum.
    """

    _METHODS = (FIT,)
    _AXES: ClassVar = {
        "parameter": "parameter", "other": "other", "point": "point", "values": "parameter",
        "covariance": "parameter other", "points": "point parameter",
        "point_log_likelihood": "point",
    }  # fmt: skip

    parameters: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray
    points: FloatArray
    point_log_likelihood: FloatArray
    log_likelihood: float
    log_likelihood_error: float
    likelihood: str
    converged: bool

    def __getitem__(self, name: str) -> float:
        """The estimate of a parameter."""
        return float(self.values[self._place(name)])

    def error(self, name: str) -> float:
        """Standard error of a parameter: of its logarithm, times its estimate."""
        return self[name] * self._error_of_log(name)

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Bounds that hold the parameter with the probability `level`; above 0 always."""
        if not 0 < level < 1:
            raise ConfigError(f"level = {level:g} is not allowed: between 0 and 1")
        factor = float(normal_quantile(np.array([0.5 + level / 2]))[0]) * self._error_of_log(name)
        return self[name] * math.exp(-factor), self[name] * math.exp(factor)

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them."""
        names = np.array(self.parameters)
        return {
            "parameter": names,
            "other": names,
            "point": np.arange(len(self.points)),
            "values": self.values,
            "covariance": self.covariance,
            "points": self.points,
            "point_log_likelihood": self.point_log_likelihood,
        }

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON, with None for NaN."""
        rows = {n: (self[n], self.error(n), self.interval(n)) for n in self.parameters}
        return {
            **self._attributes(),
            "converged": self.converged,
            **{
                what: {name: numbers_or_none(row[i]) for name, row in rows.items()}
                for i, what in enumerate(("estimate", "error", "interval"))
            },
        }

    def lines(self) -> list[str]:
        """The result in lines of text, as `tauslab info` prints it."""
        rows = ((n, self[n], self.error(n), *self.interval(n)) for n in self.parameters)
        by = "filters" if self.likelihood == "filter" else "synthetic likelihoods"
        return [
            f"log-likelihood {self.log_likelihood:.6g} +- {self.log_likelihood_error:.2g}, by {by}",
            *([] if self.converged else ["not converged: no maximum was reached"]),
            *(
                f"{name}: {value:.6g}, error {error:.3g}, 95 % from {low:.6g} to {high:.6g}"
                for name, value, error, low, high in rows
            ),
        ]

    def table(self, what: str | None = None) -> ResultTable:
        """A table, chosen by `what`.

        Parameters
        ----------
        what
            ``summary``, by default, or ``points``: a row per point.

        Raises
        ------
        ConfigError
            Another word.
        """
        if what == "points":
            columns = dict(zip(self.parameters, self.points.T, strict=True))
            return named_columns({"log_likelihood": self.point_log_likelihood, **columns})
        if what not in (None, "summary"):
            raise ConfigError(f"{opt('what', what)}: of fits there are summary, points")
        bounds = np.array([self.interval(name) for name in self.parameters])
        return named_columns({
            "parameter": np.array(self.parameters),
            "estimate": self.values,
            "error": np.array([self.error(name) for name in self.parameters]),
            "low": bounds[:, 0],
            "high": bounds[:, 1],
        })  # fmt: skip

    def summary(self) -> pd.DataFrame:
        """A row per parameter: estimate, standard error, and bounds of 95 %."""
        return self.to_pandas("summary").set_index("parameter")

    def plot(
        self, parameters: Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw log-likelihoods over each parameter, their profile, and the interval of 95 %.

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
        logs = np.log(self.points / self.values)
        surface = Quadratic.of(logs, self.point_log_likelihood, cubes=True)
        left = self.point_log_likelihood - surface(logs)
        found = {}
        for axis, name in enumerate(self.parameters):
            own, heights, values = np.empty(0), np.empty(0), self.point_log_likelihood
            if np.isfinite(self.covariance).all():
                own = np.linspace(logs[:, axis].min(), logs[:, axis].max(), _CURVE)
                heights = surface.profile(axis, own)
                values = left + surface.profile(axis, logs[:, axis])
            found[name] = Profile(
                self[name], self.interval(name), self.points[:, axis], values,
                self[name] * np.exp(own), heights,
            )  # fmt: skip
        return plot_profiles(found, parameters, None if path is None else Path(path))

    def __repr__(self) -> str:
        """One line: estimates with errors."""
        told = ", ".join(f"{n} = {self[n]:.4g} +- {self.error(n):.2g}" for n in self.parameters)
        state = "" if self.converged else ", not converged"
        return f"<FitResult: {told}, log-likelihood {self.log_likelihood:.6g}{state}>"

    def _place(self, name: str) -> int:
        if name not in self.parameters:
            known = ", ".join(self.parameters)
            raise ConfigError(f"{name!r} is no parameter of this fit; it has {known}")
        return self.parameters.index(name)

    def _error_of_log(self, name: str) -> float:
        return float(np.sqrt(self.covariance[self._place(name), self._place(name)]))

    def _attributes(self) -> dict[str, Any]:
        return {
            "method": FIT,
            "log_likelihood": self.log_likelihood,
            "log_likelihood_error": self.log_likelihood_error,
            "likelihood": self.likelihood,
            "converged": int(self.converged),
        }

    @classmethod
    def _of(cls, stored: State) -> Self:
        return cls(
            tuple(stored["parameter"].tolist()), stored["values"], stored["covariance"],
            stored["points"], stored["point_log_likelihood"], stored.real("log_likelihood"),
            stored.real("log_likelihood_error"), stored.text("likelihood"),
            bool(stored.whole("converged", 0, 1)),
        )  # fmt: skip

"""The result of `tauslab.fit`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tauslab.analysis.filters.fitting.profile import bounds_of
from tauslab.analysis.filters.fitting.surface import Quadratic
from tauslab.analysis.filters.parameters import ParameterResult, checked_level
from tauslab.base.arrays import FloatArray
from tauslab.model.portable import normal_quantile
from tauslab.store.checking.opening import FIT
from tauslab.store.results.array_result import named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.views.states import Profile, plot_profiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVE = 200  # places of a curve in a picture


@dataclass(frozen=True, eq=False)
class FitResult(ParameterResult):
    """Result of `tauslab.fit`.

    Tables of `to_pandas`: ``summary``, by default, and ``points``, a row per point.

    Attributes
    ----------
    parameters
        Names.
    values
        f64 ``[parameter]``: the estimates.
    covariance
        f64 ``[parameter, parameter]``: covariance of the logarithms of the estimates, with the
        Monte Carlo error of the likelihoods; NaN if no quadratic describes the log-likelihood.
    profile, fall, fall_error
        f64 ``[parameter, place]``, where no quadratic does: values of each parameter, by how much
        the largest log-likelihood there is less than at the estimates, and its standard error.
        Else None.
    points, point_log_likelihood
        f64 ``[point, parameter]`` and ``[point]``: the points around the maximum to which the
        quadratic was fitted.
    log_likelihood, log_likelihood_error
        Log-likelihood at the estimates, and its standard error due to simulations.
    likelihood
        ``filter`` or ``synthetic``.
    converged
        Whether the search reached a maximum, from which the log-likelihood falls to both sides of
        each parameter, by at least 0.5.
    """

    _METHODS = (FIT,)
    _AXES: ClassVar = {
        "parameter": "parameter", "other": "other", "point": "point", "place": "place",
        "values": "parameter",
        "covariance": "parameter other", "points": "point parameter",
        "point_log_likelihood": "point", "profile": "parameter place",
        "fall": "parameter place", "fall_error": "parameter place",
    }  # fmt: skip
    _FIELDS: ClassVar = {"parameter": "parameters", "other": "parameters"}
    _OPTIONAL: ClassVar = ("place", "profile", "fall", "fall_error")

    covariance: FloatArray
    points: FloatArray
    point_log_likelihood: FloatArray
    log_likelihood: float
    log_likelihood_error: float
    likelihood: str
    converged: bool
    profile: FloatArray | None = None
    fall: FloatArray | None = None
    fall_error: FloatArray | None = None

    def __getitem__(self, name: str) -> float:
        """The estimate of a parameter."""
        return float(self.values[self._place(name)])

    def error(self, name: str) -> float:
        """Standard error of a parameter: that of its logarithm times the estimate.

        NaN where the log-likelihood has no symmetric top; `interval` holds there, too.
        """
        return self[name] * self._error_of_log(name)

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of a parameter; 0 or infinity where the data do not bound it.

        By the covariance of logarithms, or by the profile of the likelihood (Ionides and others,
        J. R. Soc. Interface 14, 20170126, 2017).

        Raises
        ------
        ConfigError
            The name is not a parameter, or `level` is not between 0 and 1.
        """
        middle = 0.5 + checked_level(level) / 2
        deviations = float(normal_quantile(np.array([middle]))[0])
        if self.profile is not None and self.fall is not None and self.fall_error is not None:
            at = self._place(name)
            return bounds_of(self.profile[at], self.fall[at], self.fall_error[at], deviations)
        factor = deviations * self._error_of_log(name)
        return self[name] * math.exp(-factor), self[name] * math.exp(factor)

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON, with None for NaN."""
        rows = {n: (self[n], self.error(n), self.interval(n)) for n in self.parameters}
        return {
            "method": FIT,
            "seed": self.seed,
            "log_likelihood": self.log_likelihood,
            "log_likelihood_error": self.log_likelihood_error,
            "likelihood": self.likelihood,
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
        error = f"{self.log_likelihood_error:.2g}"
        return [
            f"log-likelihood {self.log_likelihood:.6g} +- {error}, by {by}{self._seed_text()}",
            *([] if self.converged else ["not converged: no maximum was reached"]),
            *(
                f"{name}: {value:.6g}, error {error:.3g}, 95 % from {low:.6g} to {high:.6g}"
                for name, value, error, low, high in rows
            ),
        ]

    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"summary": self._summary, "points": self._points}

    def _summary(self) -> ResultTable:
        return self._by_parameter({
            "estimate": self.__getitem__, "error": self.error,
            "low": lambda name: self.interval(name)[0],
            "high": lambda name: self.interval(name)[1],
        })  # fmt: skip

    def _points(self) -> ResultTable:
        columns = dict(zip(self.parameters, self.points.T, strict=True))
        return named_columns({"log_likelihood": self.point_log_likelihood, **columns})

    def _picture(self, parameters: Sequence[str], path: str | os.PathLike[str] | None) -> Figure:
        logs = np.log(self.points / self.values)
        surface = Quadratic.of(logs, self.point_log_likelihood, cubes=True)
        left = self.point_log_likelihood - surface(logs)
        result = {}
        for axis, name in enumerate(self.parameters):
            own, heights, values = np.empty(0), np.empty(0), self.point_log_likelihood
            if self.profile is not None and self.fall is not None:
                own = np.log(self.profile[axis] / self[name])
                heights = self.log_likelihood - self.fall[axis]
            elif np.isfinite(self.covariance).all():
                own = np.linspace(logs[:, axis].min(), logs[:, axis].max(), _CURVE)
                heights = surface.profile(axis, own)
                values = left + surface.profile(axis, logs[:, axis])
            result[name] = Profile(
                self[name], self.interval(name), self.points[:, axis], values,
                self[name] * np.exp(own), heights,
            )  # fmt: skip
        return plot_profiles(result, parameters, path)

    def __repr__(self) -> str:
        """One line: estimates with errors."""
        reported = ", ".join(map(self._estimate, self.parameters))
        state = self._seed_text() + ("" if self.converged else ", not converged")
        return f"<FitResult: {reported}, log-likelihood {self.log_likelihood:.6g}{state}>"

    def _estimate(self, name: str) -> str:
        if self.profile is None:
            return f"{name} = {self[name]:.4g} +- {self.error(name):.2g}"
        low, high = self.interval(name)
        return f"{name} = {self[name]:.4g}, 95 % from {low:.4g} to {high:.4g}"

    def _error_of_log(self, name: str) -> float:
        return float(np.sqrt(self.covariance[self._place(name), self._place(name)]))

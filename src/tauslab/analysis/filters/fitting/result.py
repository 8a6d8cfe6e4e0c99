"""What `tauslab.fit` gives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.unknown import Hinting
from tauslab.model.portable import normal_quantile

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class FitResult(Hinting):
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
    log_likelihood, log_likelihood_error
        At the estimates, and its standard error by simulations.
    likelihood
        ``filter`` or ``synthetic``.
    converged
        Whether the search came to rest at a maximum.
    """

    parameters: tuple[str, ...]
    values: FloatArray
    covariance: FloatArray
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

    def summary(self) -> pd.DataFrame:
        """A row per parameter: estimate, standard error, and bounds of 95 %."""
        import pandas as pd

        rows = [(self[n], self.error(n), *self.interval(n)) for n in self.parameters]
        columns = ["estimate", "error", "low", "high"]
        return pd.DataFrame(rows, pd.Index(self.parameters, name="parameter"), columns)

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

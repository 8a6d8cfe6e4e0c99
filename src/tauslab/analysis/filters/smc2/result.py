"""Posteriors that follow the data: what `tauslab.smc2` gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tauslab.analysis.filters.arviz import inference_data, observed_data
from tauslab.analysis.filters.weighted import WeightedDraws
from tauslab.analysis.particles.weights import ancestors_of
from tauslab.base.arrays import Array, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.store.checking.opening import SMC2
from tauslab.store.results.array_result import named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.store.state import State


@dataclass(frozen=True, eq=False)
class Smc2Result(WeightedDraws):
    """Result of `tauslab.smc2`: weighted draws of the posterior after each row of the data.

    ``result["k"]`` are the values ``[draw]`` after the last row, with the weights
    ``result.weights[-1]``.

    Attributes
    ----------
    parameters
        Names of the columns of `values`.
    values
        f64 ``[time, draw, parameter]``.
    weights
        f64 ``[time, draw]``; weights of a time have the sum 1.
    time
        f64 ``[time]``: times of the rows.
    log_evidence
        f64 ``[time]``: logarithm of the marginal likelihood of the rows up to this time.
    acceptance
        f64 ``[time]``: accepted fraction of the moves at this row; NaN where none were made.
    particles
        i64 ``[time]``: particles of each filter after this row.
    """

    _METHODS = (SMC2,)
    _AXES: ClassVar = {
        "parameter": "parameter", "time": "time", "draw": "draw",
        "values": "time draw parameter", "weights": "time draw", "log_evidence": "time",
        "acceptance": "time", "particles": "time",
    }  # fmt: skip

    time: FloatArray
    log_evidence: FloatArray
    acceptance: FloatArray
    particles: IntArray

    def __repr__(self) -> str:
        """One line: of what, how many draws, the evidence."""
        return f"<Smc2Result of {', '.join(self.parameters)}: {self._reached()}>"

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them."""
        own = ("time", "values", "weights", "log_evidence", "acceptance", "particles")
        return {
            "parameter": np.array(self.parameters),
            "draw": np.arange(self.weights.shape[1]),
            **{name: getattr(self, name) for name in own},
        }

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON, with None for what is not finite."""
        return {
            "method": SMC2,
            "draws": self.weights.shape[1],
            "time": self.time.tolist(),
            "log_evidence": numbers_or_none(self.log_evidence),
            "acceptance": numbers_or_none(self.acceptance),
            "particles": self.particles.tolist(),
            "effective_size": numbers_or_none(self.effective_size),
            **self._moments(),
        }

    def lines(self) -> list[str]:
        """The result in lines of text, as `tauslab info` prints it."""
        return [self._reached(), *self._summary_lines()]

    def table(self, what: str | None = None) -> ResultTable:
        """A table, chosen by `what`.

        Parameters
        ----------
        what
            ``draws``, by default: a row per draw after the last row of the data. ``summary``: a row
            per parameter, with mean, sd, 5, 50 and 95 % quantiles. ``rows``: a row per row of the
            data.

        Raises
        ------
        ConfigError
            Another word.
        """
        if what == "summary":
            return self._summary_table()
        if what == "rows":
            return named_columns({
                "time": self.time, "log_evidence": self.log_evidence,
                "acceptance": self.acceptance, "particles": self.particles,
                "effective_size": self.effective_size,
            })  # fmt: skip
        if what not in (None, "draws"):
            raise ConfigError(f"{opt('what', what)}: of SMC² there are draws, summary, rows")
        last = {name: self[name] for name in self.parameters}
        return named_columns({"weight": self.weights[-1], **last})

    def to_arviz(self, data: Mapping[str, npt.ArrayLike] | None = None) -> Any:
        """The posterior after the last row as ArviZ takes it: draws of equal weight, in one chain.

        Draws are copied by their weights (systematic resampling). Groups are ``posterior`` and, of
        `data` as given to `tauslab.smc2`, ``observed_data``.

        Returns
        -------
        An `arviz.InferenceData`; where ArviZ is 1.0 or above, or is not installed, the
        `xarray.DataTree` that ArviZ 1.0 takes.
        """
        import xarray

        chosen = ancestors_of(self.weights[-1], "systematic", 0, 0)
        rows = {name: (("chain", "draw"), self[name][None, chosen]) for name in self.parameters}
        draws = {"chain": [0], "draw": np.arange(len(chosen))}
        return inference_data({"posterior": xarray.Dataset(rows, draws), **observed_data(data)})

    def _reached(self) -> str:
        rows, draws = self.weights.shape
        return (
            f"{draws:,} draws after {rows} rows, log-evidence {self.log_evidence[-1]:.6g}, "
            f"{self.particles[-1]:,} particles each, effective {self.effective_size[-1]:.4g}"
        )

    def _attributes(self) -> dict[str, Any]:
        return {"method": SMC2}

    @classmethod
    def _of(cls, stored: State) -> Self:
        names = ("values", "weights", "time", "log_evidence", "acceptance", "particles")
        return cls(tuple(stored["parameter"].tolist()), *(stored[name] for name in names))

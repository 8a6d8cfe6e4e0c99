"""Posteriors that follow the data: what `tauslab.smc2` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tauslab.analysis.filters.arviz import inference_data, observed_data
from tauslab.analysis.filters.weighted import WeightedDraws
from tauslab.base.arrays import FloatArray, IntArray
from tauslab.store.checking.opening import SMC2
from tauslab.store.results.array_result import named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable


@dataclass(frozen=True, eq=False)
class Smc2Result(WeightedDraws):
    """Result of `tauslab.smc2`: weighted draws of the posterior after each row of the data.

    ``result["k"]`` are the values ``[draw]`` after the last row, with the weights
    ``result.weights[-1]``.

    Tables of `to_pandas`: ``draws``, by default: of the last row; ``summary``: mean, sd, 5,
    50 and 95 % quantiles of each parameter; ``rows``: a row per row of the data.

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
        "parameter": "parameter", "draw": "draw", "time": "time",
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

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON, with None for what is not finite."""
        return {
            "method": SMC2,
            "seed": self.seed,
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

    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"draws": self._draws, "summary": self._summary, "rows": self._rows}

    def _draws(self) -> ResultTable:
        last = {name: self[name] for name in self.parameters}
        return named_columns({"weight": self.weights[-1], **last})

    def _rows(self) -> ResultTable:
        own = ("time", "log_evidence", "acceptance", "particles", "effective_size")
        return named_columns({name: getattr(self, name) for name in own})

    def to_arviz(self, data: Any = None) -> Any:
        """The posterior after the last row as ArviZ takes it: draws of equal weight, in one chain.

        Draws are copied by their weights (systematic resampling). Groups are ``posterior`` and, of
        `data` as given to `tauslab.smc2`, ``observed_data``.

        Returns
        -------
        An `arviz.InferenceData`; for ArviZ 1.0, or without ArviZ, an `xarray.DataTree`.
        """
        return inference_data({"posterior": self._resampled()[1], **observed_data(data)})

    def _reached(self) -> str:
        rows, draws = self.weights.shape
        return (
            f"{draws:,} draws after {rows} rows, log-evidence {self.log_evidence[-1]:.6g}, "
            f"{self.particles[-1]:,} particles each, effective {self.effective_size[-1]:.4g}"
            f"{self._seed_text()}"
        )

"""Populations of parameters: what `tauslab.abc_smc` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tauslab.analysis.filters.arviz import inference_data
from tauslab.analysis.filters.weighted import WeightedDraws
from tauslab.base.arrays import FloatArray, IntArray
from tauslab.store.checking.opening import ABC
from tauslab.store.results.array_result import named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable


@dataclass(frozen=True, eq=False)
class AbcResult(WeightedDraws):
    """Result of `tauslab.abc_smc`: weighted particles of all generations.

    ``result["k"]`` are the values ``[particle]`` of the last generation, with the weights
    ``result.weights[-1]``. Tables of `to_pandas`: ``particles`` of the last generation, by default;
    ``summary`` with mean, sd, 5, 50 and 95 % quantiles of each parameter; ``generations``.

    Attributes
    ----------
    parameters
        Names of the columns of `values`.
    values
        f64 ``[generation, particle, parameter]``.
    weights, distances
        f64 ``[generation, particle]``; weights of a generation have the sum 1. Distances are over
        the scale of the generation.
    epsilon
        f64 ``[generation]``: the largest distance that was kept; infinite in the first where
        thresholds are chosen by quantiles.
    simulations, acceptance
        i64 and f64 ``[generation]``: number of simulations, and the accepted fraction.
    scale
        f64 ``[generation, summary]``: numbers by which summaries were divided.
    summaries, time
        Names ``[summary]`` of columns of the data, or of summaries, and their times, NaN where they
        have none.
    observed
        f64 ``[summary]``: summaries of the data, NaN if missing.
    simulated
        f64 ``[particle, summary]``: of the particles of the last generation.
    ended
        Why the sampler stopped.
    """

    _METHODS = (ABC,)
    _AXES: ClassVar = {
        "parameter": "parameter", "generation": "generation", "particle": "particle",
        "summary": "summary", "values": "generation particle parameter",
        "weights": "generation particle", "distances": "generation particle",
        "epsilon": "generation", "simulations": "generation", "acceptance": "generation",
        "scale": "generation summary", "time": "summary", "observed": "summary",
        "simulated": "particle summary",
    }  # fmt: skip
    _FIELDS: ClassVar = {"parameter": "parameters", "summary": "summaries"}

    distances: FloatArray
    epsilon: FloatArray
    simulations: IntArray
    acceptance: FloatArray
    scale: FloatArray
    summaries: tuple[str, ...]
    time: FloatArray
    observed: FloatArray
    simulated: FloatArray
    ended: str

    def __repr__(self) -> str:
        """One line: of what, how many particles, how near."""
        return f"<AbcResult of {', '.join(self.parameters)}: {self._reached()}>"

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON, with None for what is not finite."""
        return {
            "method": ABC,
            "seed": self.seed,
            "generations": len(self.weights),
            "particles": self.weights.shape[1],
            "simulations": int(self.simulations.sum()),
            "ended": self.ended,
            "epsilon": numbers_or_none(self.epsilon),
            "acceptance": numbers_or_none(self.acceptance),
            "effective_size": numbers_or_none(self.effective_size),
            **self._moments(),
        }

    def lines(self) -> list[str]:
        """The result in lines of text, as `tauslab info` prints it."""
        return [self._reached(), f"ended: {self.ended}", *self._summary_lines()]

    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {
            "particles": self._particles, "summary": self._summary,
            "generations": self._generations,
        }  # fmt: skip

    def _particles(self) -> ResultTable:
        last = {name: self[name] for name in self.parameters}
        return named_columns({"weight": self.weights[-1], "distance": self.distances[-1], **last})

    def _generations(self) -> ResultTable:
        own = ("epsilon", "simulations", "acceptance", "effective_size")
        numbers = {name: getattr(self, name) for name in own}
        return named_columns({"generation": np.arange(len(self.weights)), **numbers})

    def to_arviz(self) -> Any:
        """The last generation as ArviZ takes it: n draws of equal weight, in one chain.

        Particles are copied by their weights (systematic resampling), so that draws repeat. Groups
        are ``posterior``, ``sample_stats`` (``distance``), ``posterior_predictive`` (the
        simulations of the particles) and ``observed_data``.

        Returns
        -------
        An `arviz.InferenceData`; for ArviZ 1.0, or without ArviZ, an `xarray.DataTree`.
        """
        import xarray

        chosen, posterior = self._resampled()
        axes, draws = ("chain", "draw"), dict(posterior.coords)
        stats = {"distance": (axes, self.distances[-1][None, chosen])}
        made, seen = self._by_name(self.simulated[None, chosen]), self._by_name(self.observed)
        times = {} if np.isnan(self.time).any() else {"time": np.unique(self.time)}
        on_time = (*axes, "time")
        return inference_data({
            "posterior": posterior,
            "sample_stats": xarray.Dataset(stats, draws),
            "posterior_predictive": xarray.Dataset(
                {name: (on_time[: x.ndim], x) for name, x in made.items()}, draws | times
            ),
            "observed_data": xarray.Dataset(
                {name: (on_time[2:][: x.ndim], x) for name, x in seen.items()}, times
            ),
        })  # fmt: skip

    def _by_name(self, values: FloatArray) -> Mapping[str, FloatArray]:
        """Values ``[..., summary]`` as ``[..., time]`` by column; without times ``[...]``."""
        names = np.array(self.summaries)
        result = {name: values[..., names == name] for name in dict.fromkeys(self.summaries)}
        return {k: v[..., 0] for k, v in result.items()} if np.isnan(self.time).any() else result

    def _reached(self) -> str:
        generations, particles = self.weights.shape
        return (
            f"{generations} generations of {particles:,} particles, {self.simulations.sum():,} "
            f"simulations, epsilon {self.epsilon[-1]:.4g}, effective "
            f"{self.effective_size[-1]:.4g}{self._seed_text()}"
        )

"""The likelihood of a stochastic model: a particle filter for each course of a problem."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tauslab.api.inference.particles import particle_filters
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.exchange.petab.formulas import PetabFormula
from tauslab.exchange.petab.likelihood import log_density
from tauslab.exchange.petab.tables import MeasurementRow, Observable
from tauslab.model.network.network import Network
from tauslab.options.lattice import point_seed

Values = Mapping[str, FloatArray]


class ConditionFilter:
    """Filters of one course: measurements of one realisation of the model, for many vectors.

    Parameters
    ----------
    network
        The model, with rules of what formulas read.
    rows
        The measurements of the course, at finite times, without preequilibration.
    observables
        By name.
    formulas
        Of value and noise, by the name of the observable.
    recorded
        Names in the formulas that are of the model, with the names of their rules.
    """

    def __init__(
        self,
        network: Network,
        rows: Sequence[MeasurementRow],
        observables: Mapping[str, Observable],
        formulas: Mapping[str, tuple[PetabFormula, PetabFormula]],
        recorded: Mapping[str, str],
    ) -> None:
        self._network = replace(network, read_at_start={})  # the courses' settings look at it
        self._rows, self._recorded = rows, recorded
        self._observables, self._formulas = observables, formulas
        self._times = np.array(sorted({row.time for row in rows}))

    def log_likelihood(
        self, starts: Values, constants: Sequence[Values], *, count: int, n: int, seed: int,
        number: int, **settings: Any,
    ) -> FloatArray:  # fmt: skip
        """Estimates ``[vector]``, by a filter of n particles for each vector.

        Parameters
        ----------
        starts
            Values ``[vector]`` that the course begins with, by name in the network.
        constants
            For each measurement, values ``[vector]`` of the names in its formulas that are not of
            the model.
        count
            Vectors.
        number
            Of the course, by which its draws are its own.
        settings
            Further keywords of `tauslab.particle_filters`.
        """
        at = {
            time: [i for i, row in enumerate(self._rows) if row.time == time]
            for time in self._times.tolist()
        }

        def observe(values: Any, _: Mapping[str, float], time: float) -> FloatArray:
            total = np.zeros(count * n)
            for i in at[time]:
                total = total + self._log_density(i, values, constants[i], count * n)
            return np.where(np.isnan(total), -np.inf, total)

        data = {"time": self._times, "measured": np.zeros(len(self._times))}
        result = particle_filters(
            self._network, data, observe=observe, n=n, filters=count, set=dict(starts),
            seed=point_seed(seed, number), **{"quiet": True, **settings},
        )  # fmt: skip
        return result.log_likelihood

    def _log_density(self, number: int, values: Any, constants: Values, size: int) -> FloatArray:
        """Log-density of a measurement, ``[particle]``; NaN where a particle's state has none."""
        row = self._rows[number]
        one = self._observables[row.observable]
        each = size // max(1, len(next(iter(constants.values())))) if constants else size
        known = {name: np.repeat(column, each) for name, column in constants.items()}
        simulated, sigma = (
            made({name: self._known(name, values, known, row) for name in made.names}, (size,))
            for made in self._formulas[row.observable]
        )
        return log_density(np.array(row.value), simulated, sigma, one.scale, one.noise)

    def _known(self, name: str, values: Any, constants: Values, row: MeasurementRow) -> Any:
        if name in self._recorded:
            return values(self._recorded[name])
        return row.time if name == "time" else constants[name]


def require_time_courses(rows: Sequence[MeasurementRow]) -> None:
    """Refuse measurements of a steady state, of which a stochastic model has none.

    Raises
    ------
    ConfigError
        It says which.
    """
    for row in rows:
        if row.before:
            raise ConfigError(
                f"a measurement of {row.observable} has preequilibration ({row.before}): a "
                "stochastic model has no steady state to start from; give its condition values"
            )
        if math.isinf(row.time):
            raise ConfigError(
                f"a measurement of {row.observable} is at the time inf: a stochastic model has no "
                "steady state; give a time"
            )

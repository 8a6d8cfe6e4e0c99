"""The exact filter: the forward algorithm on the states of a finite state projection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from tauslab.analysis.cme.keywords import ProjectionChoices
from tauslab.analysis.cme.projection import Projection
from tauslab.analysis.cme.propensities import observables_of
from tauslab.analysis.cme.solve import projecting
from tauslab.analysis.filters.keywords import DataKeywords
from tauslab.analysis.filters.observing import Observations
from tauslab.analysis.filters.result import FilterResult, joined
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt, warn
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.model.network.network import Network
from tauslab.options.python_values import one_number_each
from tauslab.options.values.definition import check_values, declared, option

_MOST_PASSES = 5
_MARGIN = 3.0  # of the logarithm of a smaller tolerance
_LOG_LEAST = -400.0  # of a tolerance, above the smallest probability that a projection holds


@declared
@dataclass(frozen=True)
class ExactFilterKeywords(DataKeywords, ProjectionChoices):
    """Keywords of `tauslab.exact_filter`."""

    _: KW_ONLY
    set: Mapping[str, float] | None = option(
        None, doc="Values of parameters and initial amounts by name."
    )  # fmt: skip


def exactly_filtered(network: Network, given: ExactFilterKeywords) -> FilterResult:
    """Predict by the master equation, weigh by the density of each row.

    With e the probability that is in no state, relative to what is, a row of which no state has a
    density above m and that has the mean density s leaves e m / s. The likelihood is then too small
    by the factor 1 + e at most. Of a function m is not known, and taken over the states there are.
    Rounding changes each probability by a part of itself, and only adds up.

    Rows multiply e, so that it may exceed the tolerance, which is of e in the end. Then all rows
    are filtered again, with a projection that loses less by this factor.
    """
    check_values(given)
    values = one_number_each("set", given.set, "a distribution has no particles")
    cells = given.observations()
    parameters = {name: value for name, value in values.items() if name in network.parameters}
    constants = {**network.parameter_values(parameters), **values}
    result = joined([_within(network, values, given, data, constants) for data in cells])
    most = given.tolerance * len(cells)
    if result.bound > most and result.log_likelihood > -math.inf:
        warn(
            f"{network.name}: the log-likelihood may be too small by up to {result.bound:.2g}, and "
            f"{opt('tolerance')}{given.tolerance:g} is less: the data are far from all states, or "
            "rounding, max_states= or max_seconds= allows no smaller error"
        )
    return result


def _within(
    network: Network, values: Mapping[str, float], given: ExactFilterKeywords, data: Observations,
    constants: Mapping[str, float],
) -> FilterResult:  # fmt: skip
    """The filter of one cell, whose projection is as large as the tolerance needs."""
    end = max(float(data.times[-1]), 1e-300)
    found: FilterResult | None = None
    log_goal = math.log(given.tolerance)
    log_inner, log_before = log_goal, math.inf
    for again in range(_MOST_PASSES):
        inner = replace(given, tolerance=math.exp(log_inner))
        try:
            with projecting(network, values, inner, end) as (projection, lowered):
                result, log_missing = _filtered(projection, lowered, data, constants)
        except ConfigError:
            if found is None:
                raise
            break  # more states, or seconds, than are allowed
        if found is None or log_missing < log_before:
            found, log_before = result, log_missing
        log_inner -= log_missing - log_goal + _MARGIN * 4**again  # what is lost falls in steps
        if not (log_goal < log_missing < math.inf) or log_inner < _LOG_LEAST:
            break
    assert found is not None
    return found


def _filtered(
    projection: Projection,
    lowered: LoweredNetwork,
    data: Observations,
    constants: Mapping[str, float],
) -> tuple[FilterResult, float]:
    """The filter, and the logarithm of e after the last row."""
    rows, species = len(data), lowered.species
    terms, log_missing = np.zeros(rows), _log(projection.lost)
    mean, sd = np.full((rows, len(species)), np.nan), np.full((rows, len(species)), np.nan)
    for row, t in enumerate(data.times.tolist()):
        lost = projection.lost
        projection.advance(t)
        log_missing = float(np.logaddexp(log_missing, _log(max(0.0, projection.lost - lost))))
        logs = data.log_density(row, _Values(projection, lowered), constants, projection.size)
        if logs is not None:
            largest = float(logs.max(initial=-np.inf))
            if np.isnan(logs).any() or largest == math.inf:
                raise ConfigError(f"observe= gave a density that is no number at t = {t:g}")
            held = projection.snapshot().probabilities > 0
            scale = float(logs[held].max(initial=-np.inf))  # so that some state keeps its share
            factors = np.exp(np.where(held, logs - scale, -np.inf)) if scale > -math.inf else None
            share = 0.0 if factors is None else projection.weigh(factors)
            if share == 0:
                terms[row:] = -math.inf
                never = largest == -math.inf and projection.closed  # in no state that there is
                if never or log_missing > -math.inf:
                    log_missing = -math.inf if never else math.inf
                break
            terms[row] = scale + math.log(share)
            most = data.log_most(row, constants)
            log_missing += (largest if most is None else most) - terms[row]
        mean[row], sd[row] = _moments(projection, lowered)
    log_missing += projection.rounding
    return FilterResult(
        float(terms.sum()), terms, data.times, species, mean, sd, np.zeros(rows),
        bound=float(np.logaddexp(0.0, log_missing)) + projection.rounding,
    ), log_missing  # fmt: skip


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


class _Values:
    """A species or an observable of every state by name."""

    def __init__(self, projection: Projection, lowered: LoweredNetwork) -> None:
        self._states, self._lowered = projection.snapshot().states, lowered

    def __call__(self, name: str) -> FloatArray:
        observables = observables_of(self._lowered, self._states)
        if name in self._lowered.species and name not in observables:
            return self._states[:, self._lowered.species.index(name)].astype(np.float64)
        if name not in observables:
            raise ConfigError(f"observe: {name!r} is neither a species nor an observable")
        return observables[name]


def _moments(projection: Projection, lowered: LoweredNetwork) -> tuple[FloatArray, FloatArray]:
    now = projection.snapshot()
    shares = now.probabilities / now.probabilities.sum()
    counts = now.states.astype(np.float64)
    for name, values in observables_of(lowered, now.states).items():
        if name in lowered.species:  # held at an amount that is not whole, which no state has
            counts[:, lowered.species.index(name)] = values
    means = shares @ counts
    return means, np.sqrt(shares @ (counts - means) ** 2)

"""The distribution of the state of a network at given times."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from tauslab.analysis.cme.keywords import ProjectionChoices
from tauslab.analysis.cme.projection import ROUNDED_SHARE, Projection, StateDistribution
from tauslab.analysis.cme.propensities import observables_of
from tauslab.analysis.cme.result import CmeResult
from tauslab.analysis.counts_alone import require_counts_only
from tauslab.base.arrays import FloatArray, Int32Array, IntArray
from tauslab.base.errors import ModelError
from tauslab.base.host import require_memory
from tauslab.base.option_names import opt, warn
from tauslab.decomposition.ranks.launcher import launched_rank
from tauslab.decomposition.ranks.progress import Progress
from tauslab.kernels.network.lowering import LoweredNetwork, has_dynamics, lower
from tauslab.model.network.counts import round_counts
from tauslab.model.network.diagnosis.check import check_rates, require_support, without_missing
from tauslab.model.network.diagnosis.events import warn_of_model
from tauslab.model.network.network import Network
from tauslab.options.values.definition import check_values
from tauslab.options.values.initial_counts import initial_distributions
from tauslab.runner.ensemble.initial import require_followed
from tauslab.runner.ensemble.task import with_settings

_SMALLEST_START = 1e-18  # probability of a first state, below which it counts as lost
_MOST_MISSING = 0.01  # of a mean or a variance, above which a warning says so


def lowered_counts(
    network: Network, values: Mapping[str, float]
) -> tuple[Network, LoweredNetwork, dict[str, int]]:
    """The network with values set, lowered, and its initial counts.

    Raises
    ------
    ModelError
        The exact method cannot honour the model.
    """
    require_counts_only(network, "a master equation")
    require_support(without_missing(network, values.keys()), "ssa")
    if not network.species:
        raise ModelError(f"{network.name} has no species: there is nothing to solve")
    require_followed(network, values, values)
    network = with_settings(network, values)
    network.validate()
    parameters = network.parameter_values()
    warn_of_model(network, parameters)
    check_rates(network, parameters)
    if has_dynamics(network):
        raise ModelError(
            f"{network.name}: its events, or rate laws that time changes, are no part of a master "
            "equation; ts.run(method='ssa') can run it"
        )
    amounts = network.initial_amounts(parameters)
    held = {n: amounts[n] for n in network.constant_species() if amounts[n] != round(amounts[n])}
    counts = round_counts(amounts | dict.fromkeys(held, 0.0), warn=warn)
    return network, lower(network, parameters=parameters, counts=counts, reals=held), counts


def first_distribution(
    counts: Mapping[str, int], initial: Mapping[str, FloatArray]
) -> tuple[Int32Array, FloatArray]:
    """States ``[state, species]`` and probabilities of independent initial counts."""
    cells = int(np.prod([float(np.count_nonzero(own)) for own in initial.values()]))
    require_memory(24 * cells * len(counts), f"an initial distribution of {cells} states")
    probabilities = np.ones(1)
    columns: list[Int32Array] = []
    for name, count in counts.items():
        given = initial.get(name)
        numbers = np.array([count]) if given is None else np.flatnonzero(given)
        own = np.ones(1) if given is None else given[numbers]
        columns = [np.repeat(column, len(numbers)) for column in columns]
        columns.append(np.tile(numbers.astype(np.int32), len(probabilities)))
        probabilities = (probabilities[:, None] * own).ravel()
        held = probabilities > _SMALLEST_START
        columns = [column[held] for column in columns]
        probabilities = probabilities[held]
    return np.stack(columns, axis=1), probabilities


@contextmanager
def projecting(
    network: Network, values: Mapping[str, float], given: ProjectionChoices, end: float
) -> Iterator[tuple[Projection, LoweredNetwork]]:
    """The projection at t = 0 and the lowered network, with a progress bar until `end`."""
    check_values(given)
    initial = initial_distributions(given.initial, network, values)
    network, lowered, counts = lowered_counts(network, values)
    states, probabilities = first_distribution(counts, initial)
    with Progress(
        100, launched_rank(), quiet=given.quiet, description=network.name, unit="% of the time"
    ) as bar:

        def report(time: float, size: int) -> None:
            bar.show(f"{size:,} states")
            bar.update(int(100 * time / end), 0)

        projection = Projection(
            lowered, states, probabilities, tolerance=given.tolerance, end=end,
            most=given.max_states, patience=given.max_seconds, name=network.name,
        )  # fmt: skip
        projection.report = report
        yield projection, lowered
        bar.update(100, 0)


def solve(
    network: Network, times: FloatArray, values: Mapping[str, float], given: ProjectionChoices
) -> CmeResult:
    """The distribution at each of `times`, which increase."""
    snapshots = []
    with projecting(network, values, given, float(times[-1])) as (projection, lowered):
        for t in times.tolist():
            projection.advance(t)
            snapshots.append(projection.snapshot())
    observables = [name for name, _ in lowered.observables]
    result = CmeResult(
        network.name, times, lowered.species, snapshots, observables,
        partial(_observed, lowered, snapshots),
    )  # fmt: skip
    _warn_of_error(result, projection, given.tolerance)
    if not projection.closed:
        _warn_of_moments(result, projection.largest_gain)
    return result


def _observed(
    lowered: LoweredNetwork, snapshots: Sequence[StateDistribution], at: int
) -> Mapping[str, FloatArray]:
    return observables_of(lowered, snapshots[at].states)


def _warn_of_error(result: CmeResult, projection: Projection, tolerance: float) -> None:
    """Say that an error is more than was asked for, and what makes it so."""
    late = result.bound > (1 + ROUNDED_SHARE) * tolerance
    if not late.any():
        return
    k = int(late.argmax())
    t = float(result.time[k])
    warn(
        f"{result.name}: the error of its probabilities is at most {result.bound[k]:.2g} at t = "
        f"{t:g}, and tolerance={tolerance:g} was asked for: {result.rounding[k]:.2g} is rounding, "
        f"because one of {projection.size} states is left {projection.fastest:.3g} times in a unit "
        "of time; it grows with time, so ask for an earlier time if probabilities no longer change"
    )


def _warn_of_moments(result: CmeResult, gains: IntArray) -> None:
    """Say that a mean or a variance lacks what states that were left out would add to it.

    The bound of probabilities tells nothing of it. By estimate each of these states has the largest
    count of the set, and what a reaction adds at most, `gains` ``[species]``.
    """
    worst, where = _MOST_MISSING, ""
    for one, t in zip(map(result.snapshot, result.time), result.time, strict=True):
        lost = max(0.0, one.lost - one.rounding)
        for column in np.flatnonzero(gains):
            counts = one.states[:, column].astype(np.float64)
            mean = float(one.probabilities @ counts)
            variance = float(one.probabilities @ (counts - mean) ** 2)
            beyond = float(counts.max()) + float(gains[column])
            missing = {"mean": (lost * beyond, mean),
                       "variance": (lost * (beyond - mean) ** 2, variance)}  # fmt: skip
            for moment, (more, value) in missing.items():
                share = more / value if value else math.inf if more else 0.0
                if share > worst:
                    worst = share
                    where = f"{moment} of {result.species[column]} at t = {t:g}"
    if where:
        by = "by all of it" if math.isinf(worst) else f"by about {100 * worst:.2g} %"
        warn(
            f"{result.name}: the {where} may be too small {by}, because states with many molecules "
            f"were left out; reduce {opt('tolerance')}"
        )

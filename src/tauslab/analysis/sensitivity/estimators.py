"""Derivatives of means by pairs of trajectories, and by likelihood ratios of single ones.

A pair gives a finite difference; a likelihood ratio is the product of an output and a score,
without a step. Both are summed over ranks as integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tauslab.analysis.sensitivity.certainty import DerivativeEstimates, certain, errors_of
from tauslab.analysis.sensitivity.steps import Step, side_rows, with_outputs
from tauslab.analysis.sensitivity.summing import Report, Summing, groups, silent, summed
from tauslab.base.arrays import Array, FloatArray, IntArray, UintArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.kernels.coupled.codegen import Slopes
from tauslab.kernels.coupled.engines import PAIR_COLUMNS, CoupledPairs, ScorePaths
from tauslab.kernels.network.lowering import Law
from tauslab.model.expressions.derivative import derivative
from tauslab.model.expressions.expression import Expression, Number, substitute
from tauslab.model.expressions.unfolding import unfold
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Rule
from tauslab.options.ensemble import MOST_TRAJECTORIES, Options
from tauslab.options.record import Record
from tauslab.options.sweep import MOST_POINTS
from tauslab.runner.ensemble.task import NetworkTask, prepare, with_settings
from tauslab.store.format.layout import Accumulators
from tauslab.store.format.statistics import moments_of_sums


def differences(
    network: Network, steps: Sequence[Step], outputs: Sequence[str], options: Options,
    backend: Backend, comm: Communicator, conditions: Mapping[str, FloatArray] | None = None, *,
    report: Report = silent,
) -> DerivativeEstimates:  # fmt: skip
    """Derivatives by coupled pairs, under one condition or several. Collective.

    All conditions share launches.

    Parameters
    ----------
    options
        With times, number of pairs, seed and `max_steps`.
    conditions
        Values of other names ``[condition]``.
    report
        Called with how many more pairs this rank has simulated.
    """
    rows = side_rows(network, steps, conditions)
    task = _task(network, rows, outputs, options)
    means, variances, valid = _moments(task, steps, options.n, backend, comm, report)
    lead = (len(means) // len(steps), len(steps), len(options.times))
    n = valid.reshape(lead)
    parts = (part.reshape(*lead, -1) for part in (means, variances))
    (difference, first, second, square), (spread, first_spread, second_spread, square_spread) = (
        np.split(part, PAIR_COLUMNS, axis=-1) for part in parts
    )
    width = np.array([step.width for step in steps])[:, None, None]
    known = certain(network, [step.name for step in steps], outputs, options.times)
    error, informative = errors_of(spread, square, square_spread, n[..., None], known)
    return DerivativeEstimates(
        difference / width,
        error / width,
        informative,
        np.add.reduce((first + second) / 2, axis=1) / len(steps),
        first_spread + second_spread,
        n,
    )


def _task(
    network: Network, rows: Mapping[str, FloatArray], outputs: Sequence[str], options: Options
) -> NetworkTask:
    """The network with its outputs, and rows of inputs: two for each point."""
    extended, recorded = with_outputs(network, outputs)
    both = Options(
        times=options.times,
        n=len(next(iter(rows.values()))),
        set=rows,
        species=recorded,
        record=Record(trajectories=True),
        seed=options.seed,
        max_steps=options.max_steps,
    )
    return prepare(extended, both)


def _moments(
    task: NetworkTask, steps: Sequence[Step], pairs: int, backend: Backend, comm: Communicator,
    report: Report,
) -> tuple[FloatArray, FloatArray, IntArray]:  # fmt: skip
    """Means and variances ``[point, time, 4 * output]``, and pairs that reached each time."""
    times, columns = len(task.options.times), PAIR_COLUMNS * len(task.observables)
    points = task.options.n // 2
    numbers = _numbers(task.network, steps, points)
    initial, constants = _sided(task.initial, points), _sided(task.constants, points)
    result: list[tuple[Array, Array, Array]] = []
    for some in groups(points, times * columns, backend):
        engine = CoupledPairs(
            backend, task.lowered, task.options.times.tolist(), initial[some],
            constants[some], numbers[some],
        )  # fmt: skip
        sums = _sums(
            engine, len(numbers[some]), (times, columns), task, pairs, backend, comm, report
        )
        result.append((*moments_of_sums(sums), sums["obs_n"]))
    mean, variance, n = (np.concatenate(part) for part in zip(*result, strict=True))
    return mean, variance, n.min(axis=-1).astype(np.int64)


def _numbers(network: Network, steps: Sequence[Step], points: int) -> UintArray:
    """Numbers of points in the address of draws: a parameter's does not depend on the others.

    Raises
    ------
    ConfigError
        There are more than the address has bits for.
    """
    names = [*network.parameters, *network.species]
    own = np.array([names.index(step.name) for step in steps], np.uint64)
    conditions = np.arange(points // len(steps), dtype=np.uint64)[:, None]
    numbers = (conditions * np.uint64(len(names)) + own).ravel()
    if int(numbers.max()) >= MOST_POINTS:
        raise ConfigError(
            f"{len(conditions)} conditions of {len(names)} parameters and species are more than "
            f"{MOST_POINTS} points"
        )
    return numbers


def _sums(
    engine: CoupledPairs, points: int, shape: tuple[int, int], task: NetworkTask, pairs: int,
    backend: Backend, comm: Communicator, report: Report,
) -> Accumulators:  # fmt: skip
    """Sums over all pairs of all ranks."""
    summing = Summing(backend, points, *shape)
    most = task.options.max_steps
    assert task.options.seed is not None
    start = partial(engine.run, seed=task.options.seed, max_steps=most)
    summing.run(range(pairs), start, comm, report, engine.rows)
    return summed(summing, comm, task.network.name, pairs)


def _sided(inputs: Array, points: int) -> Array:
    """Inputs ``[point, 2, column]`` of rows for every side, or of one row for all."""
    return np.broadcast_to(inputs, (2 * points, inputs.shape[1])).reshape(points, 2, -1)


# Trajectories whose means are subtracted from outputs. They have the highest numbers, which no
# run of less than 2^40 has, so that what is subtracted is independent of the others.
_PILOT = 256

_Named = dict[str, tuple[int, int]]


def likelihood_ratios(
    network: Network, names: Sequence[str], outputs: Sequence[str], options: Options,
    backend: Backend, comm: Communicator, report: Report = silent,
) -> DerivativeEstimates:  # fmt: skip
    """Derivatives by all `names` from the same trajectories. Collective.

    Raises
    ------
    ConfigError
        A name is an initial amount, or one depends on it.
    ModelError
        A rate is 0 at these values, and its derivative is not.
    """
    _require_no_amounts(network, names)
    task, slopes = _task_of_scores(network, names, outputs, options)
    engine = ScorePaths(
        backend, task.lowered, options.times.tolist(), slopes,
        task.initial, task.constants,
    )  # fmt: skip
    means, variances, valid = _moments_of_scores(engine, task, slopes, options.n, comm, report)
    products = len(names) * len(outputs)
    shape = (len(options.times), len(names), len(outputs))
    (value, spread), (square, square_spread) = (
        [np.moveaxis(part[:, columns].reshape(shape), 0, 1) for part in (means, variances)]
        for columns in (slice(products), slice(products, 2 * products))
    )
    reached = np.broadcast_to(valid, (len(names), len(valid)))
    known = certain(network, names, outputs, options.times)
    error, informative = errors_of(spread, square, square_spread, reached[..., None], known)
    none = np.full(value.shape, np.nan)
    return DerivativeEstimates(value, error, informative, means[:, 2 * products :], none, reached)


def _require_no_amounts(network: Network, names: Sequence[str]) -> None:
    """Refuse names that are initial amounts, or that one depends on."""
    parameters = network.parameter_values()
    amounts = network.initial_amounts(parameters)
    for name in names:
        moved = amounts
        if name in parameters:
            other = with_settings(network, {name: parameters[name] * 1.01 + 1e-9})
            moved = other.initial_amounts(other.parameter_values())
        if name not in parameters or moved != amounts:
            raise ConfigError(
                f"{name}: {opt('method', 'likelihood-ratio')} has no derivatives by initial "
                f"amounts, or by what they depend on: {opt('method', 'coupled')} has"
            )


def _task_of_scores(
    network: Network, names: Sequence[str], outputs: Sequence[str], options: Options
) -> tuple[NetworkTask, Slopes]:
    """The network with its outputs as observables, and derivatives by `names` as formulas."""
    extended, recorded = with_outputs(network, outputs)
    trees = extended.rule_expressions()
    derived = {n: t for n, t in network.parameters.items() if not isinstance(t, Number)}
    rules = dict(extended.rules)
    of_reactions: _Named = {}
    of_outputs: _Named = {}
    kept = None
    for p, name in enumerate(names):
        own = name if name in derived else ""  # which stays a symbol
        if own != kept:
            others = {n: tree for n, tree in derived.items() if n != own}
            kept, whole = own, unfold({**trees, **others}, "quantity")
            reactions = [substitute(reaction.law, whole) for reaction in network.reactions]
        of_reactions |= _add_slopes(rules, reactions, (p, name), "reaction")
        of_outputs |= _add_slopes(rules, [whole[one] for one in recorded], (p, name), "output")
    parameters = network.parameter_values()
    one = Options(
        times=options.times,
        n=1,
        set={name: np.array([parameters[name]]) for name in names},
        species=(*recorded, *of_reactions, *of_outputs),
        record=Record(trajectories=True),
        seed=options.seed,
        max_steps=options.max_steps,
    )
    task = prepare(replace(extended, rules=rules), one)
    laws = dict(task.lowered.observables)
    lowered = replace(task.lowered, observables=tuple((name, laws[name]) for name in recorded))
    slopes = Slopes(len(names), _listed(of_reactions, laws), _listed(of_outputs, laws))
    return replace(task, lowered=lowered), slopes


def _add_slopes(
    rules: dict[str, Rule], trees: Sequence[Expression], parameter: tuple[int, str], what: str
) -> _Named:
    """Rules for derivatives by a parameter that are not zero: tree and parameter by their names."""
    result: _Named = {}
    p, name = parameter
    for number, tree in enumerate(trees):
        slope = derivative(tree, name)
        if slope is not None:
            called = f"sensitivity_slope_{what}_{number}_{p}"
            rules[called] = Rule(called, slope)
            result[called] = (number, p)
    return result


def _listed(named: _Named, laws: Mapping[str, Law]) -> tuple[tuple[int, int, Law], ...]:
    return tuple((number, p, laws[name]) for name, (number, p) in named.items())


def _moments_of_scores(
    engine: ScorePaths, task: NetworkTask, slopes: Slopes, n: int, comm: Communicator,
    report: Report,
) -> tuple[FloatArray, FloatArray, IntArray]:  # fmt: skip
    """Means and variances ``[time, column]``, and how many trajectories reached each time."""
    times, outputs = len(task.options.times), len(task.lowered.observables)
    centres = np.zeros((times, outputs))
    pilot = min(_PILOT, n)  # so few that every rank runs them all
    piloted = _run_scores(
        engine,
        task,
        slopes,
        centres,
        range(MOST_TRAJECTORIES - pilot, MOST_TRAJECTORIES),
        Communicator(),
        silent,
    )
    mean, _ = moments_of_sums(piloted.totals)
    centres = np.nan_to_num(np.ascontiguousarray(mean[0, :, -outputs:]))
    summing = _run_scores(engine, task, slopes, centres, range(n), comm, report)
    why_nan = (
        "a propensity is negative or not a number, or is 0 where its derivative is not, and then "
        f"{opt('method', 'coupled')} has a difference"
    )
    totals = summed(summing, comm, task.network.name, n, why_nan)
    means, variances = moments_of_sums(totals)
    return means[0], variances[0], totals["obs_n"][0].min(axis=-1).astype(np.int64)


def _run_scores(
    engine: ScorePaths, task: NetworkTask, slopes: Slopes, centres: FloatArray, numbers: range,
    comm: Communicator, report: Report,
) -> Summing:  # fmt: skip
    """The share of this rank of trajectories with these numbers."""
    backend, (times, outputs) = engine.backend, centres.shape
    summing = Summing(backend, 1, times, (2 * slopes.parameters + 1) * outputs)
    uploaded, most = backend.upload(centres), task.options.max_steps
    assert task.options.seed is not None
    start = partial(engine.run, centres=uploaded, seed=task.options.seed, max_steps=most)
    summing.run(numbers, start, comm, report)
    return summing

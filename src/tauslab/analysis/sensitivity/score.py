"""Derivatives of means by likelihood ratios: outputs times scores, without a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tauslab.analysis.sensitivity.certainty import certain, errors_of
from tauslab.analysis.sensitivity.outputs import with_outputs
from tauslab.analysis.sensitivity.result import LIKELIHOOD_RATIO, SensitivityResult
from tauslab.analysis.sensitivity.summing import Report, Summing, portions, silent, summed
from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.backends import Backend
from tauslab.kernels.coupled.codegen import Slopes
from tauslab.kernels.coupled.scores import ScoreInputs, ScorePaths
from tauslab.kernels.ensemble.launch import SampleBuffers
from tauslab.kernels.network.lowering import Law
from tauslab.model.expressions.derivative import derivative
from tauslab.model.expressions.expression import Expression, Number, substitute
from tauslab.model.expressions.unfolding import unfold
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Rule
from tauslab.options.ensemble import MOST_TRAJECTORIES, Options
from tauslab.options.record import Record
from tauslab.runner.ensemble.task import NetworkTask, prepare, with_settings
from tauslab.store.format.statistics import moments_of_sums

# Trajectories that tell what is subtracted from outputs. They have the highest numbers, which no
# run of less than 2^40 has, so that what is subtracted is independent of the others.
_PILOT = 256

_Named = dict[str, tuple[int, int]]


def likelihood_ratios(
    network: Network,
    names: Sequence[str],
    outputs: Sequence[str],
    options: Options,
    backend: Backend,
    comm: Communicator,
    report: Report = silent,
) -> SensitivityResult:
    """Derivatives by all `names` from the same trajectories. Collective.

    Raises
    ------
    ConfigError
        A name is an initial amount, or one depends on it.
    ModelError
        A rate is 0 at these values, and its derivative is not.
    """
    values = _values(network, names)
    task, slopes = _task(network, names, outputs, options)
    engine = ScorePaths(
        backend, task.lowered, options.times.tolist(), slopes,
        ScoreInputs(task.initial, task.constants),
    )  # fmt: skip
    means, variances, valid = _moments(engine, task, slopes, options.n, comm, report)
    products = len(names) * len(outputs)
    shape = (len(options.times), len(names), len(outputs))
    (value, spread), (square, square_spread) = (
        [np.moveaxis(part[:, columns].reshape(shape), 0, 1) for part in (means, variances)]
        for columns in (slice(products), slice(products, 2 * products))
    )
    reached = np.broadcast_to(valid, (len(names), len(valid)))
    known = certain(network, names, outputs, options.times)
    error, informative = errors_of(spread, square, square_spread, reached[..., None], known)
    return SensitivityResult(
        model=network.name,
        method=LIKELIHOOD_RATIO,
        seed=options.seed or 0,
        n=options.n,
        time=options.times,
        parameters=tuple(names),
        outputs=tuple(outputs),
        values=values,
        low=values,
        high=values,
        value=value,
        standard_error=error,
        informative=informative,
        mean=means[:, 2 * products :],
        sides_variance=np.full(value.shape, np.nan),
        valid=reached,
    )


def _values(network: Network, names: Sequence[str]) -> FloatArray:
    """Values of parameters, none of which moves an initial amount."""
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
    return np.array([parameters[name] for name in names])


def _task(
    network: Network, names: Sequence[str], outputs: Sequence[str], options: Options
) -> tuple[NetworkTask, Slopes]:
    """The network with its outputs as observables, and derivatives by `names` as laws."""
    extended, recorded = with_outputs(network, outputs)
    trees = extended.rule_expressions()
    derived = {
        n: tree
        for n, tree in network.parameters.items()
        if not isinstance(tree, Number) and n not in names
    }
    whole = unfold({**trees, **derived}, "quantity")
    reactions = [substitute(reaction.law, whole) for reaction in network.reactions]
    rules = dict(extended.rules)
    of_reactions = _add_slopes(rules, reactions, names, "reaction")
    of_outputs = _add_slopes(rules, [whole[name] for name in recorded], names, "output")
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
    rules: dict[str, Rule], trees: Sequence[Expression], names: Sequence[str], what: str
) -> _Named:
    """Rules for derivatives of trees that are not zero: tree and parameter by the rule's name."""
    found: _Named = {}
    for number, tree in enumerate(trees):
        for p, name in enumerate(names):
            slope = derivative(tree, name)
            if slope is not None:
                called = f"sensitivity_slope_{what}_{number}_{p}"
                rules[called] = Rule(called, slope)
                found[called] = (number, p)
    return found


def _listed(named: _Named, laws: Mapping[str, Law]) -> tuple[tuple[int, int, Law], ...]:
    return tuple((number, p, laws[name]) for name, (number, p) in named.items())


def _moments(
    engine: ScorePaths,
    task: NetworkTask,
    slopes: Slopes,
    n: int,
    comm: Communicator,
    report: Report,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Means and variances ``[time, column]``, and how many trajectories reached each time."""
    times, outputs = len(task.options.times), len(task.lowered.observables)
    centres = np.zeros((times, outputs))
    pilot = min(_PILOT, n)  # so few that every rank runs them all
    piloted = _run(
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
    summing = _run(engine, task, slopes, centres, range(n), comm, report)
    why_nan = (
        "a propensity is negative or not a number, or is 0 where its derivative is not, and then "
        f"{opt('method', 'coupled')} has a difference"
    )
    totals = summed(summing, comm, task.network.name, n, why_nan)
    means, variances = moments_of_sums(totals)
    return means[0], variances[0], totals["obs_n"][0].min(axis=-1).astype(np.int64)


def _run(
    engine: ScorePaths,
    task: NetworkTask,
    slopes: Slopes,
    centres: FloatArray,
    numbers: range,
    comm: Communicator,
    report: Report,
) -> Summing:
    """The share of this rank of trajectories with these numbers."""
    backend = engine.backend
    times, outputs = centres.shape
    columns = (2 * slopes.parameters + 1) * outputs
    summing = Summing(backend, 1, times, columns)
    uploaded, seed = backend.upload(centres), task.options.seed
    assert seed is not None

    def start(first: int, each: int, samples: Any, buffers: SampleBuffers, stream: Any) -> None:
        engine.run(
            first, each, samples, buffers, stream, centres=uploaded, seed=seed,
            max_steps=task.options.max_steps,
        )  # fmt: skip

    for first, each in portions(len(numbers), 1, 8 * times * columns, backend, comm):
        summing.add(numbers.start + first, each, each, start)
        report(each)
    return summing

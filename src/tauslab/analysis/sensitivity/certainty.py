"""Evidence for an error: pairs that differ, and derivatives that are known to be 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tauslab.analysis.sensitivity.result import SensitivityResult
from tauslab.analysis.sensitivity.steps import with_outputs
from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.base.option_names import opt, warn
from tauslab.model.expressions.derivative import STEPS
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    arguments_first,
    substitute,
    symbols,
    walk,
)
from tauslab.model.network.network import Network
from tauslab.store.format.intervals import FEWEST_INFORMATIVE, widening


@dataclass(frozen=True)
class DerivativeEstimates:
    """Derivatives of means, with the fields of `SensitivityResult`.

    Under several conditions each has the conditions as its first axis.
    """

    value: FloatArray
    standard_error: FloatArray
    informative: FloatArray
    mean: FloatArray
    sides_variance: FloatArray
    valid: IntArray

    def under(self, condition: int) -> DerivativeEstimates:
        """The derivatives under the condition of this number."""
        return DerivativeEstimates(*(array[condition] for array in vars(self).values()))


def errors_of(
    variance: FloatArray,
    square: FloatArray,
    square_variance: FloatArray,
    n: IntArray,
    known: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Standard errors of means of `n` differences or products, and how many are informative.

    The square of the sum of squares over the sum of fourth powers: of zeros and h equal differences
    it is h. The error is widened for them. It is NaN where all are equal, for that bounds no error,
    but for what is `known`.

    Parameters
    ----------
    variance
        Of the differences, f64 ``[..., parameter, time, output]``.
    square, square_variance
        Mean and variance of their squares.
    """
    fourth = square_variance * (n - 1) / np.maximum(n, 1) + square * square
    with np.errstate(divide="ignore", invalid="ignore"):
        informative = np.where(fourth > 0, n * square * square / fourth, 0.0)
        error = np.sqrt(variance / np.maximum(n, 1)) * widening(informative)
    return np.where(variance == 0, np.where(known, 0.0, np.nan), error), informative


def certain(
    network: Network, names: Sequence[str], outputs: Sequence[str], times: FloatArray
) -> BoolArray:
    """Places where equal differences are a proof, bool ``[parameter, time, output]``.

    At time 0, where a parameter has no way to an output through rate laws, rules and initial
    amounts, and where no reaction changes what an output is made of.
    """
    extended, recorded = with_outputs(network, outputs)
    used = _uses(extended)
    changed = {
        name
        for reaction in network.reactions
        for name, by in reaction.net_change().items()
        if by and not network.species[name].fixed
    }
    reached = [_reached(used, name) for name in recorded]
    kept = [_conserved(extended, name) for name in recorded]
    proved = [
        [
            name not in all_ or not changed & all_ or same
            for all_, same in zip(reached, kept, strict=True)
        ]
        for name in names
    ]
    return np.asarray(np.array(proved)[:, None, :] | (times == 0)[:, None], bool)


def _conserved(network: Network, name: str) -> bool:
    """Return whether it is a sum of amounts, times numbers, that no reaction changes."""
    weights = _weights(substitute(Symbol(name), network.rule_expressions()))
    return weights is not None and all(
        sum(
            weights.get(one, 0.0) * by
            for one, by in reaction.net_change().items()
            if not network.species[one].fixed
        )
        == 0
        for reaction in network.reactions
    )


def _weights(tree: Expression) -> dict[str, float] | None:
    """Factors of names in a sum of them; None for what is no such sum."""
    result: dict[int, dict[str, float] | None] = {}
    for node in arguments_first(tree):
        parts = [result[id(part)] for part in node.arguments] if isinstance(node, Call) else []
        own: dict[str, float] | None = None
        if isinstance(node, Symbol):
            own = {node.name: 1.0}
        elif (
            isinstance(node, Call)
            and node.function == "mul"
            and isinstance(node.arguments[0], Number)
        ):
            own = parts[1] and {n: node.arguments[0].value * w for n, w in parts[1].items()}
        elif isinstance(node, Call) and node.function in ("add", "sub") and None not in parts:
            sign = -1.0 if node.function == "sub" else 1.0
            own = dict(parts[0] or {})
            for n, w in (parts[1] or {}).items():
                own[n] = own.get(n, 0.0) + sign * w
        result[id(node)] = own
    return result[id(tree)]


def _uses(network: Network) -> dict[str, set[str]]:
    """Names that each name depends on: of a species, names in rate laws that change it."""
    trees: dict[str, Expression] = {**network.parameters, **network.rule_expressions()}
    used = {name: set(symbols(tree)) for name, tree in trees.items()}
    for name, species in network.species.items():
        used[name] = set(symbols(species.initial))
    for reaction in network.reactions:
        needed = symbols(reaction.law) | reaction.reactants.keys()
        for name, by in reaction.net_change().items():
            if by and not network.species[name].fixed:
                used[name] |= needed
    return used


def _reached(used: dict[str, set[str]], start: str) -> set[str]:
    """All names that `start` depends on, itself among them."""
    result, left = {start}, [start]
    while left:
        more = used.get(left.pop(), set()) - result
        result |= more
        left += more
    return result


def warn_of_jumps(network: Network, names: Sequence[str]) -> None:
    """Warn where a rate jumps with a parameter: of counts, means then jump with it too."""
    rules, constant = network.rule_expressions(), set(network.constant_species())
    moved = {name for name in names if name not in network.species or name in constant}
    for reaction in network.reactions:
        for node in walk(substitute(reaction.law, rules)):
            if isinstance(node, Call) and node.function in STEPS and (by := symbols(node) & moved):
                warn(
                    f"{network.name}: the rate of {reaction.name} jumps with {min(by)}: where it "
                    f"does means have no derivative, and the result depends on {opt('step')}"
                )
                return


def warn_of_few(found: SensitivityResult, unit: str) -> None:
    """Warn where an error is not known, or made by a few pairs or trajectories."""
    if found.n < 2:  # all errors are NaN, and one pair was asked for
        return
    unknown = np.isnan(found.standard_error) & (found.valid > 1)[..., None]
    few = (found.standard_error > 0) & (found.informative < FEWEST_INFORMATIVE)
    advice = f"take a larger {opt('n')}"
    if (found.high > found.low).any():
        advice += f" or {opt('step')}"
    for where, what, ends in (
        (unknown, "all {n} {unit} give the same of", "its error is not known"),
        (few, "about {number:.2g} of {n} {unit} determine", "its error is uncertain"),
    ):
        if where.any():
            p, time, o = (int(index[0]) for index in np.nonzero(where))
            number = float(found.informative[p, time, o])
            warn(
                f"{found.model}: {what.format(n=found.n, unit=unit, number=number)} the derivative "
                f"of {found.outputs[o]} by {found.parameters[p]} at t = {found.time[time]:g}, so "
                f"that {ends} ({int(where.sum())} of {where.size} are so): {advice}"
            )

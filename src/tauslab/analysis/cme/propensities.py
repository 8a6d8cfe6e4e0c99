"""Propensities of a lowered network for many states at once, as kernels compute them for one."""

from __future__ import annotations

import numpy as np

from tauslab.base.arrays import FloatArray, Int32Array
from tauslab.kernels.network.lowering import (
    Count,
    Law,
    LoweredNetwork,
    LoweredReaction,
    Operation,
    operations_first,
)
from tauslab.model.expressions.array_math import apply
from tauslab.model.expressions.expression import Number


class Propensities:
    """Propensities of the reactions that change a count.

    Attributes
    ----------
    names
        Of these reactions.
    change
        int64 ``[reaction, species]``: what one firing adds.
    """

    def __init__(self, network: LoweredNetwork) -> None:
        self._moving = [reaction for reaction in network.reactions if reaction.change]
        self._shared = network.shared
        self.names = tuple(reaction.name for reaction in self._moving)
        self.change = np.zeros((len(self._moving), len(network.species)), np.int64)
        for row, reaction in enumerate(self._moving):
            for species, by in reaction.change:
                self.change[row, species] = by

    def __call__(self, states: Int32Array) -> FloatArray:
        """Propensities f64 ``[state, reaction]`` of states ``[state, species]``.

        What is not finite or negative is left as it is.
        """
        counts = states.astype(np.float64)
        known: dict[int, FloatArray] = {}
        for law in self._shared:
            _evaluate(law, counts, known)
        table = np.empty((len(states), len(self._moving)))
        with np.errstate(all="ignore"):
            for column, reaction in enumerate(self._moving):
                table[:, column] = _propensity(reaction, counts, known)
        return table


def _propensity(
    reaction: LoweredReaction, counts: FloatArray, known: dict[int, FloatArray]
) -> FloatArray:
    if reaction.law is not None:
        value = _evaluate(reaction.law, counts, known)
    else:
        assert isinstance(reaction.constant, Number)
        value = np.full(len(counts), reaction.constant.value)
        for species, order in reaction.orders:
            for less in range(order):
                value = value * (counts[:, species] - less)
    enough = np.ones(len(counts), bool)
    for species, least in reaction.needs:
        enough &= counts[:, species] >= least
    for species, order in reaction.orders:
        enough &= counts[:, species] >= order
    return np.where(enough, value, 0.0)


def _evaluate(law: Law, counts: FloatArray, known: dict[int, FloatArray]) -> FloatArray:
    """Value of a lowered rate law for each state; `known` keeps the parts that rate laws share."""
    parts: dict[int, FloatArray] = {}
    for part in operations_first(law, known):
        if isinstance(part, Count):
            value = counts[:, part.index]
        elif isinstance(part, Number):
            value = np.full(len(counts), part.value)
        else:
            assert isinstance(part, Operation)
            inputs = [_evaluated(argument, parts, known) for argument in part.arguments]
            value = apply(part.function, *inputs)
        parts[id(part)] = value
    value = _evaluated(law, parts, known)
    known[id(law)] = value
    return value


def _evaluated(law: Law, parts: dict[int, FloatArray], known: dict[int, FloatArray]) -> FloatArray:
    return parts[id(law)] if id(law) in parts else known[id(law)]


def observables_of(network: LoweredNetwork, states: Int32Array) -> dict[str, FloatArray]:
    """Recorded rules of states ``[state, species]``, each ``[state]``, by name."""
    counts = states.astype(np.float64)
    known: dict[int, FloatArray] = {}
    for law in network.shared:
        _evaluate(law, counts, known)
    return {name: _evaluate(law, counts, known) for name, law in network.observables}

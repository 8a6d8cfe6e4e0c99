"""How far leaps would reach from given states, computed on the host.

The quantities are those of `tauslab.kernels.leap_codegen`: propensities, critical reactions and the
step limit of Cao, Gillespie & Petzold (2006). Every operation is one that IEEE 754 fixes, in a
fixed order, or portable (`tauslab.model.host_math`): the numbers are the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.kernels.leap_codegen import CRITICAL_FIRINGS
from tauslab.kernels.lowering import (
    Constant,
    Count,
    Law,
    LoweredNetwork,
    LoweredReaction,
    Operation,
    counts_in,
)
from tauslab.model.expression import Call, Number, Symbol
from tauslab.model.host_math import evaluate

FloatArray = npt.NDArray[np.float64]

_ELEMENTWISE = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "sqrt": np.sqrt, "abs": np.abs, "min": np.minimum, "max": np.maximum, "floor": np.floor,
    "ceil": np.ceil,
}  # fmt: skip


@dataclass(frozen=True)
class LeapReach:
    """What leaps could do from each state; every array f64 ``[states]``.

    Parameters
    ----------
    total
        Sum of all propensities, events per unit time.
    critical
        Sum of the propensities of critical reactions.
    limit
        Longest leap in which no propensity is expected to change by more than the fraction
        epsilon; infinite where nothing limits it.
    """

    total: FloatArray
    critical: FloatArray
    limit: FloatArray


def leap_reach(
    network: LoweredNetwork, counts: npt.ArrayLike, constants: npt.ArrayLike, epsilon: float
) -> LeapReach:
    """How far leaps would reach.

    Parameters
    ----------
    counts
        States ``[states, species]``, molecules of every species of the network.
    constants
        Constants of the row that each state belongs to, ``[states, constants]``.
    """
    x = np.ascontiguousarray(np.asarray(counts, np.float64).T)
    c = np.ascontiguousarray(np.asarray(constants, np.float64).T)
    with np.errstate(all="ignore"):  # infinities and NaN mean here what they mean in a kernel
        return _Reach(network, x, c).find(epsilon)


class _Reach:
    def __init__(self, network: LoweredNetwork, x: FloatArray, c: FloatArray) -> None:
        self.network, self.x, self.c = network, x, c
        self.propensities = [_propensity(r, x, c) for r in network.reactions]
        self.leaping = [
            self._unless_critical(r, a)
            for r, a in zip(network.reactions, self.propensities, strict=True)
        ]

    def find(self, epsilon: float) -> LeapReach:
        zero = np.zeros(self.x.shape[1])
        total, leaping = zero.copy(), zero.copy()
        for a, own in zip(self.propensities, self.leaping, strict=True):
            total, leaping = total + a, leaping + own
        readers: dict[int, list[int]] = {}
        changes: dict[int, list[tuple[int, int]]] = {}
        for j, reaction in enumerate(self.network.reactions):
            for species in sorted(reaction.depends_on()):
                readers.setdefault(species, []).append(j)
            for species, by in reaction.change:
                changes.setdefault(species, []).append((j, by))
        limit = zero + np.inf
        for species in sorted(readers.keys() & changes.keys()):
            mean, variance = zero, zero
            for j, by in changes[species]:
                mean = mean + by * self.leaping[j]
                variance = variance + by * by * self.leaping[j]
            order = self._order(species, readers[species])
            change = np.maximum(epsilon * self.x[species] / order, 1.0)
            limit = np.minimum(limit, change / np.abs(mean))
            limit = np.minimum(limit, change * change / variance)
        return LeapReach(total, total - leaping, limit)

    def _unless_critical(self, reaction: LoweredReaction, propensity: FloatArray) -> FloatArray:
        critical = np.zeros(len(propensity), bool)
        for species, by in reaction.change:
            if by < 0:
                critical |= self.x[species] < -by * CRITICAL_FIRINGS
        return np.where(critical, 0.0, propensity)

    def _order(self, species: int, readers: list[int]) -> FloatArray:
        """G of the species: the largest over the reactions that read it."""
        count = self.x[species]
        order = np.ones(len(count))
        for j in readers:
            reaction = self.network.reactions[j]
            copies = dict(reaction.orders).get(species, 0)
            if copies:
                whole = sum(k for _, k in reaction.orders)
                terms = float(copies) + sum(m / (count - m) for m in range(1, copies))
                order = _larger(order, whole / copies * terms)
            elif reaction.law is not None and species in counts_in(reaction.law):
                order = _larger(order, self._law_order(species, j))
        return order

    def _law_order(self, species: int, j: int) -> FloatArray:
        now, count = self.propensities[j], self.x[species]
        more = self.x.copy()
        more[species] += 1
        change = np.abs(_propensity(self.network.reactions[j], more, self.c) - now)
        return np.where(now > 0, count * change / now, 1.0)


def _larger(a: FloatArray, b: FloatArray | float) -> FloatArray:
    return np.where(b > a, b, a)


def _propensity(reaction: LoweredReaction, x: FloatArray, c: FloatArray) -> FloatArray:
    """Propensity at every state; 0 where it cannot be told, as where a trajectory would end."""
    if reaction.law is not None:
        value = _law(reaction.law, x, c)
    else:
        assert reaction.constant is not None
        factors = np.ones(x.shape[1])
        for species, order in reaction.orders:
            for taken in range(order):
                factors = factors * (x[species] - taken)
        value = _law(reaction.constant, x, c) * factors
    possible = value >= 0
    for species, count in reaction.needs:
        possible &= x[species] >= count
    return np.where(possible, value, 0.0)


def _law(law: Law, x: FloatArray, c: FloatArray) -> FloatArray:
    if isinstance(law, Number):
        return np.full(x.shape[1], law.value)
    if isinstance(law, Count | Constant):
        column: FloatArray = (x if isinstance(law, Count) else c)[law.index]
        return column
    arguments = [_law(argument, x, c) for argument in law.arguments]
    if law.function in _ELEMENTWISE:
        found: FloatArray = _ELEMENTWISE[law.function](*arguments)
        return found
    return _one_by_one(law, arguments)


def _one_by_one(law: Operation, arguments: list[FloatArray]) -> FloatArray:
    names = [f"a{i}" for i in range(len(arguments))]
    call = Call(law.function, tuple(map(Symbol, names)))
    rows = np.stack(arguments, axis=1).tolist()
    return np.array([evaluate(call, dict(zip(names, row, strict=True))) for row in rows])

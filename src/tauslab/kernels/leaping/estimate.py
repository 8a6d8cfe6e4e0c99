"""The reach of leaps from given states, computed on the host.

The quantities are those of `tauslab.kernels.leaping.codegen`: propensities, critical reactions and
the step limit, whose formula is `bound` of leaping/leaps.h. Every operation is one that IEEE 754
fixes, in a fixed order, or portable (`tauslab.model.expressions.array_math`): the numbers are the
same on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.kernels.leaping.codegen import CRITICAL_FIRINGS
from tauslab.kernels.network.lowering import (
    Constant,
    Count,
    Law,
    LoweredNetwork,
    counts_in,
    operations_first,
)
from tauslab.kernels.network.tables import Pairs
from tauslab.model.expressions.array_math import apply
from tauslab.model.expressions.expression import Number

_NUMBERS_AT_ONCE = 1 << 22  # propensities, of some states, that are in memory together


@dataclass(frozen=True)
class LeapReach:
    """Limits of leaps from each state; every array f64 ``[states]``.

    Parameters
    ----------
    total
        Sum of all propensities, firings per unit time.
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
    """Return how far leaps would reach.

    Parameters
    ----------
    counts
        States ``[states, species]``, molecules of every species of the network.
    constants
        Constants of the row that each state belongs to, ``[states, constants]``.
    """
    x = np.ascontiguousarray(np.asarray(counts, np.float64).T)
    c = np.ascontiguousarray(np.asarray(constants, np.float64).T)
    flat = _Flat(network)
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, len(network.reactions)))
    with np.errstate(all="ignore"):  # infinities and NaN mean what they mean in a kernel
        parts = [
            _Reach(flat, x[:, i : i + at_once], c[:, i : i + at_once]).find(epsilon)
            for i in range(0, x.shape[1], at_once)
        ]
    return LeapReach(*map(np.concatenate, zip(*parts, strict=True)))


def tolerances(epsilon: float) -> tuple[float, float, float]:
    """By what part a species may change: drift, noise, loss: `tolerance_of` of leaping/leaps.h."""
    loss = min(math.sqrt(4.0 / 3.0 * epsilon), 0.8)
    return epsilon, max(epsilon, 0.5 * loss), max(epsilon, loss)


class _Flat:
    """Reactants and changes of all reactions as arrays, so that a network of any size is quick."""

    def __init__(self, network: LoweredNetwork) -> None:
        reactions = network.reactions
        self.network = network
        self.laws = [j for j, r in enumerate(reactions) if r.law is not None]
        self.orders = Pairs.of(r.orders for r in reactions)
        self.changes = Pairs.of(r.change for r in reactions)
        self.needs = Pairs.of(r.needs for r in reactions)
        # Factors of a propensity: molecule k of the reaction, and how many of it came before.
        times = self.orders.number
        self.reaction = np.repeat(self.orders.row, times)
        self.species = np.repeat(self.orders.species, times)
        ends = np.cumsum(times)
        self.taken = np.arange(len(self.species)) - np.repeat(ends - times, times)
        self.molecules = np.bincount(self.reaction, minlength=len(reactions))
        starts = np.cumsum(self.molecules) - self.molecules
        self.place = np.arange(len(self.species)) - starts[self.reaction]
        numbers = [r.constant for r in reactions]
        self.rates = np.array([k.value if isinstance(k, Number) else 0.0 for k in numbers])
        varied = [(j, k.index) for j, k in enumerate(numbers) if isinstance(k, Constant)]
        self.varied = np.array(varied, np.int64).reshape(-1, 2)
        self.limiting = np.zeros(len(network.species), bool)
        read = {i for j in self.laws for i in reactions[j].depends_on()}
        self.limiting[[*self.orders.species, *self.needs.species, *read]] = True
        changed = np.zeros(len(network.species), bool)
        changed[self.changes.species] = True
        self.limiting &= changed
        kind = self.molecules[self.orders.row] * 2**20 + self.orders.number
        self.kinds = [
            (int(key) >> 20, int(key) & 2**20 - 1, np.unique(self.orders.species[kind == key]))
            for key in np.unique(kind)
        ]


class _Reach:
    """The reach from some states: `x` ``[species, states]``, `c` ``[constants, states]``."""

    def __init__(self, flat: _Flat, x: FloatArray, c: FloatArray) -> None:
        self.flat, self.x, self.c = flat, x, c
        self.propensities = self._all_propensities()
        changes, states = flat.changes, range(x.shape[1])
        scarce = x[changes.species] < -changes.number[:, None] * CRITICAL_FIRINGS
        scarce &= (changes.number < 0)[:, None]
        critical = np.zeros(self.propensities.shape, bool)
        for state in states:
            critical[changes.row[scarce[:, state]], state] = True
        self.leaping = np.where(critical, 0.0, self.propensities)

    def find(self, epsilon: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Total, critical part and limit of every state."""
        flat, states = self.flat, self.x.shape[1]
        # One after the other, as NumPy does not everywhere.
        total = np.cumsum(self.propensities, axis=0)[-1]
        leaping = np.cumsum(self.leaping, axis=0)[-1]
        changes, n_species = flat.changes, len(self.x)
        order = self._orders()
        drift, noise, loss = (
            np.maximum(part * self.x / order, 1.0) for part in tolerances(epsilon)
        )
        limit = np.full(states, np.inf)
        for state in range(states):
            flow = changes.number * self.leaping[changes.row, state]
            gain = np.bincount(changes.species, np.maximum(flow, 0.0), n_species)
            lost = np.bincount(changes.species, np.maximum(-flow, 0.0), n_species)
            variance = np.bincount(changes.species, changes.number * flow, n_species)
            for change, speed in (
                (drift[:, state], np.abs(gain - lost)),
                (noise[:, state] * noise[:, state], variance),
                (loss[:, state], lost),
            ):
                bounds = np.where(speed > 0, change / speed, np.inf)[flat.limiting]
                limit[state] = min(limit[state], *bounds.tolist(), np.inf)
        return total, total - leaping, limit

    def _all_propensities(self) -> FloatArray:
        """Every propensity at every state; 0 where it is not known."""
        flat = self.flat
        n, states = len(flat.network.reactions), self.x.shape[1]
        rates = np.repeat(flat.rates[:, None], states, axis=1)
        rates[flat.varied[:, 0]] = self.c[flat.varied[:, 1]]
        factors = np.ones((n, states))
        for place in range(int(flat.molecules.max(initial=0))):
            local = flat.place == place
            counts = self.x[flat.species[local]] - flat.taken[local][:, None]
            factors[flat.reaction[local]] = factors[flat.reaction[local]] * counts
        values = rates * factors
        for j in flat.laws:
            values[j] = _law(self._law_of(j), self.x, self.c)
        possible = values >= 0
        short = self.x[flat.needs.species] < flat.needs.number[:, None]
        for state in range(states):
            possible[flat.needs.row[short[:, state]], state] = False
        return np.where(possible, values, 0.0)

    def _orders(self) -> FloatArray:
        """The order g of every species: the largest over the reactions that read it."""
        order = np.ones(self.x.shape)
        for whole, copies, species in self.flat.kinds:
            count = self.x[species]
            terms = float(copies) + sum(m / (count - m) for m in range(1, copies))
            order[species] = _larger(order[species], whole / copies * terms)
        for j in self.flat.laws:
            for index in sorted(counts_in(self._law_of(j))):
                order[index] = _larger(order[index], self._law_order(index, j))
        return order

    def _law_of(self, j: int) -> Law:
        law = self.flat.network.reactions[j].law
        assert law is not None
        return law

    def _law_order(self, species: int, j: int) -> FloatArray:
        now, count = self.propensities[j], self.x[species]
        more = self.x.copy()
        more[species] += 1
        reaction = self.flat.network.reactions[j]
        value = _law(self._law_of(j), more, self.c)
        possible = value >= 0
        for index, least in reaction.needs:
            possible &= more[index] >= least
        change = np.abs(np.where(possible, value, 0.0) - now)
        return np.where(now > 0, count * change / now, 1.0)


def _larger(a: FloatArray, b: FloatArray | float) -> FloatArray:
    return np.where(b > a, b, a)


def _law(law: Law, x: FloatArray, c: FloatArray) -> FloatArray:
    result: dict[int, FloatArray] = {}
    for part in operations_first(law):
        if isinstance(part, Number):
            value = np.full(x.shape[1], part.value)
        elif isinstance(part, Count | Constant):
            value = (x if isinstance(part, Count) else c)[part.index]
        else:
            value = apply(part.function, *(result[id(inside)] for inside in part.arguments))
        result[id(part)] = value
    return result[id(law)]

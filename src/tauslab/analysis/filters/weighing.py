"""Weights of the particles of filters: on the device, or on the hosts of several ranks.

Both have the same bits, and the same methods. Arrays ``[own]`` are of the particles of this rank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from tauslab.analysis.filters.observing import Constants, Observations, Values
from tauslab.analysis.particles import weights as particle_weights
from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.sums import CutRows
from tauslab.base.arrays import BoolArray, FloatArray, IntArray
from tauslab.kernels.particles.weights import KINDS as DEVICE_KINDS
from tauslab.kernels.particles.weights import OBSERVED, DeviceWeights, Seen

_AT_ONCE = 1 << 22  # numbers of which moments are taken at once


class Weighing(ABC):
    """Weights of the particles of `count` filters of n particles each. All methods are collective.

    Parameters
    ----------
    number
        Number of the first filter.
    """

    def __init__(self, particles: Ensemble, count: int, number: int) -> None:
        self._particles, self._count, self._number = particles, count, number
        self._n = particles.n // count

    @abstractmethod
    def begin(self) -> None:
        """Let all particles weigh the same."""

    @abstractmethod
    def put(self, logs: FloatArray) -> None:
        """Take logarithms of weights ``[own]``."""

    @abstractmethod
    def logs(self) -> FloatArray:
        """Logarithms of weights ``[own]``."""

    @property
    @abstractmethod
    def means(self) -> FloatArray:
        """Logarithms of the means of weights ``[filter]``."""

    @property
    @abstractmethod
    def sizes(self) -> FloatArray:
        """Effective sizes ``[filter]``."""

    @abstractmethod
    def drop(self) -> None:
        """Let particles that have ended weigh nothing."""

    @abstractmethod
    def multiply(self, factors: FloatArray) -> bool:
        """Multiply weights by factors, given as their logarithms ``[own]``.

        Returns
        -------
        Whether all weights are finite numbers.
        """

    @abstractmethod
    def observe(
        self, data: Observations, row: int, values: Values, constants: Constants
    ) -> bool | None:
        """Multiply weights by the densities of a row that no function observes.

        As of `multiply`; None where nothing was seen.
        """

    @abstractmethod
    def ancestors(self, chosen: BoolArray, numbers: IntArray, scheme: str) -> Any:
        """Ancestors ``[particle]`` of all filters; those of filters not chosen stay.

        Particles of chosen filters weigh the same afterwards. ``numbers [filter]`` say how often
        each was resampled.
        """

    @abstractmethod
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Weighted means and variances ``[species, filter]`` of counts."""


class OnDevice(Weighing):
    """Weights on the device of the only rank; the host sees a few numbers a filter."""

    def __init__(self, particles: Ensemble, count: int, number: int) -> None:
        super().__init__(particles, count, number)
        self._weights = DeviceWeights(particles.backend, count, self._n)
        self._means: FloatArray | None = np.zeros(count)

    def begin(self) -> None:
        """Let all particles weigh the same."""
        self._weights.begin()
        self._means = np.zeros(self._count)

    def put(self, logs: FloatArray) -> None:
        """Take logarithms of weights ``[own]``."""
        self._weights.put(logs)
        self._means = None

    def logs(self) -> FloatArray:
        """Logarithms of weights ``[own]``."""
        return self._weights.logs()

    @property
    def means(self) -> FloatArray:
        """Logarithms of the means of weights ``[filter]``."""
        if self._means is None:
            weights = self._weights
            self._means = particle_weights.means_of(weights.totals, self._n, weights.largest)
        return self._means

    @property
    def sizes(self) -> FloatArray:
        """Effective sizes ``[filter]``."""
        return particle_weights.sizes_of(self._weights.totals, self._weights.squares)

    def drop(self) -> None:
        """Let particles that have ended weigh nothing."""
        self._weights.weigh(self._particles.status, None, None)
        self._means = None

    def multiply(self, factors: FloatArray) -> bool:
        """Multiply weights by factors, given as their logarithms ``[own]``."""
        table = np.zeros(1, OBSERVED)
        table["kind"], table["column"] = DEVICE_KINDS.index("given"), -1
        return self._weigh(Seen(table, [factors]), None)

    def observe(
        self, data: Observations, row: int, values: Values, constants: Constants
    ) -> bool | None:
        """Multiply weights by the densities of a row that no function observes."""
        seen = data.seen_of(row, self._particles.species, values, constants)
        return None if seen is None else self._weigh(seen, self._particles.device_counts)

    def _weigh(self, seen: Seen, counts: Any) -> bool:
        particles, self._means = self._particles, None
        return self._weights.weigh(None if particles.none_ended else particles.status, counts, seen)

    def ancestors(self, chosen: BoolArray, numbers: IntArray, scheme: str) -> Any:
        """Ancestors ``[particle]`` of all filters; those of filters not chosen stay."""
        seed, group = self._particles.seed, self._number
        if scheme == "multinomial":
            index, n = np.arange(self._particles.n), self._n
            shares = self._weights.shares()
            for f in np.flatnonzero(chosen).tolist():
                own = slice(f * n, (f + 1) * n)
                found = particle_weights.ancestors_of(
                    shares[own], scheme, seed, int(numbers[f]), group + f
                )
                index[own] = f * n + found
        else:
            index = self._weights.ancestors(
                chosen, numbers, seed=seed, purpose=particle_weights.RESAMPLING, group=group,
                stratified=scheme == "stratified",
            )  # fmt: skip
        self._means = np.where(chosen, 0.0, self.means)
        self._weights.level(chosen)
        return index

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Weighted means and variances ``[species, filter]`` of counts."""
        return self._weights.moments(self._particles.device_counts)


class OnHosts(Weighing):
    """Weights of each rank's particles on its host; a few sums travel."""

    def __init__(self, particles: Ensemble, count: int, number: int) -> None:
        super().__init__(particles, count, number)
        self._rows = CutRows(count, self._n, particles.shares)
        self.begin()

    def begin(self) -> None:
        """Let all particles weigh the same."""
        own = self._particles.own
        self.put(np.zeros(own.stop - own.start))

    def put(self, logs: FloatArray) -> None:
        """Take logarithms of weights ``[own]``."""
        self._weights = _Weights(logs, self._rows)

    def logs(self) -> FloatArray:
        """Logarithms of weights ``[own]``."""
        return self._weights.logs

    @property
    def means(self) -> FloatArray:
        """Logarithms of the means of weights ``[filter]``."""
        return self._weights.means

    @property
    def sizes(self) -> FloatArray:
        """Effective sizes ``[filter]``."""
        return self._weights.sizes

    def drop(self) -> None:
        """Let particles that have ended weigh nothing."""
        alive = self._particles.alive[self._particles.own]
        self.put(np.where(alive, self._weights.logs, -np.inf))

    def multiply(self, factors: FloatArray) -> bool:
        """Multiply weights by factors, given as their logarithms ``[own]``."""
        alive = self._particles.alive
        if not alive.all():
            factors = np.where(alive[self._particles.own], factors, -np.inf)
        with np.errstate(invalid="ignore"):  # an error follows
            self.put(self._weights.logs + factors)
        return bool((self._weights.largest < np.inf).all())

    def observe(
        self, data: Observations, row: int, values: Values, constants: Constants
    ) -> bool | None:
        """Multiply weights by the densities of a row that no function observes."""
        own = self._particles.own
        factors = data.log_density(row, values, constants, own.stop - own.start)
        return None if factors is None else self.multiply(factors)

    def ancestors(self, chosen: BoolArray, numbers: IntArray, scheme: str) -> Any:
        """Ancestors ``[particle]`` of all filters; those of filters not chosen stay."""
        particles, rows = self._particles, self._rows

        def found(f: int, shares: FloatArray, part: slice) -> IntArray:
            return f * self._n + particle_weights.ancestors_of(
                shares, scheme, particles.seed, int(numbers[f]), self._number + f, part
            )

        index = np.arange(particles.own.start, particles.own.stop)
        for f in range(rows.whole.start, rows.whole.stop):
            if chosen[f]:
                place = rows.place(f)
                index[place] = found(f, self._weights.shares[place], slice(0, self._n))
        for f, shares in rows.cut(self._weights.shares, chosen):
            for part in rows.parts:
                if part.row == f:
                    place = rows.place(*part[:3])
                    index[place] = found(f, shares, slice(part.start, part.stop))
        self._weights = self._weights.levelled(chosen)
        return particles.joined(index)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Weighted means and variances ``[species, filter]`` of counts."""
        shares, rows, counts = self._weights.normalised, self._rows, self._particles.own_counts()
        full = shares > 0
        held = full if self._particles.shares.any(not full.all()) else None
        step = max(1, _AT_ONCE // self._particles.n)
        means, variances = [np.zeros((0, self._count))], [np.zeros((0, self._count))]
        for first in range(0, counts.shape[1], step):
            x = np.array(counts[:, first : first + step].T, np.float64, order="C")
            product = shares * x
            means.append(rows.sums(product, held))
            for own, each in zip(x, means[-1], strict=True):
                np.subtract(own, rows.spread(each), out=own)
            np.multiply(x, x, out=x)
            variances.append(rows.sums(np.multiply(shares, x, out=product), held))
        return np.concatenate(means), np.concatenate(variances)


class _Weights:
    """Weights of the particles of all filters; sums of them are computed when they are needed.

    Attributes
    ----------
    logs
        Their logarithms ``[own]``.
    """

    def __init__(self, logs: FloatArray, rows: CutRows) -> None:
        self.logs, self._rows = logs, rows

    @cached_property
    def largest(self) -> FloatArray:
        """The largest logarithm ``[filter]``. Collective."""
        return self._rows.largest(self.logs)

    @cached_property
    def shares(self) -> FloatArray:
        """Weights over the largest of their filter ``[own]``. Collective."""
        return particle_weights.shares_of(self.logs, self._rows.spread(self.largest))

    @cached_property
    def _sums(self) -> FloatArray:
        """Sums of `shares` and of their squares ``[2, filter]``. Collective."""
        return self._rows.sums(np.stack([self.shares, self.shares * self.shares]))

    @property
    def means(self) -> FloatArray:
        """Logarithms of the means of weights ``[filter]``. Collective."""
        return particle_weights.means_of(self._sums[0], self._rows.n, self.largest)

    @property
    def sizes(self) -> FloatArray:
        """Effective sizes ``[filter]``. Collective."""
        return particle_weights.sizes_of(*self._sums)

    @property
    def normalised(self) -> FloatArray:
        """Weights ``[own]`` that sum to 1 in each filter; all 0 where no particle has one."""
        totals = self._sums[0]
        return self.shares / self._rows.spread(np.where(totals > 0, totals, 1.0))

    def levelled(self, chosen: BoolArray) -> _Weights:
        """Weights that are all 1 in filters that are chosen."""
        ones = self._rows.spread(chosen)
        made = _Weights(np.where(ones, 0.0, self.logs), self._rows)
        made.shares = np.where(ones, 1.0, self.shares)
        made.largest = np.where(chosen, 0.0, self.largest)
        made._sums = np.where(chosen, float(self._rows.n), self._sums)
        return made

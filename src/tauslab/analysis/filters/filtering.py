"""Bootstrap particle filters, one or many at once: likelihoods of a time course, and states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.analysis.filters.asking import Asking
from tauslab.analysis.filters.observing import Constants, Observations
from tauslab.analysis.filters.result import FilterResults
from tauslab.analysis.particles import weights as particle_weights
from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.store import StateCheckpoint, read_stored
from tauslab.analysis.particles.sums import CutRows
from tauslab.base.arrays import Array, BoolArray, FloatArray, IntArray
from tauslab.store.state import State

DEFAULT_THRESHOLD = 0.5
_AT_ONCE = 1 << 22  # numbers of which moments are taken at once
_CONSTANT = "constant_"  # before the name of one, in what is kept


class ParticleFilters:
    """Filters on their way through the data: `count` of them, which share an ensemble's particles.

    Filter f has the particles ``f n .. f n + n - 1``, and draws as if it were alone.

    Parameters
    ----------
    number
        Number of the first filter.
    states
        Whether means and standard deviations are wanted.
    """

    def __init__(
        self,
        particles: Ensemble,
        data: Observations,
        *,
        count: int = 1,
        number: int = 0,
        scheme: str = "systematic",
        threshold: float = DEFAULT_THRESHOLD,
        states: bool = True,
    ) -> None:
        self._particles, self._data = particles, data
        self._scheme, self._threshold, self._states = scheme, threshold, states
        self.count, self.number, self.n = count, number, particles.n // count
        self._rows = CutRows(count, self.n, particles.shares)
        self.begin()

    def begin(self) -> None:
        """Forget all rows; the ensemble is at its start."""
        rows, species = len(self._data), len(self._particles.species)
        self.row = 0
        self._constants: dict[str, float | FloatArray] = {}
        self._weigh(np.zeros(self._own))
        self.resamplings: IntArray = np.zeros(self.count, np.int64)
        self.terms = np.zeros((self.count, rows))
        self.sizes = np.zeros((self.count, rows))
        self.mean = np.full((self.count, rows, species), np.nan)
        self.sd = np.full((self.count, rows, species), np.nan)

    @property
    def _own(self) -> int:
        """Particles of this rank."""
        own = self._particles.own
        return int(own.stop - own.start)

    def kept(self) -> dict[str, Array]:
        """Arrays from which the filters go on, beside the ensemble. Collective."""
        logs = self._particles.joined(self._weights.logs).reshape(self.count, self.n)
        names = ("resamplings", "terms", "sizes", "mean", "sd")
        found = {name: getattr(self, name) for name in names}
        if self.count == 1:  # amounts at the start: the ensemble has the present ones alone
            found |= {
                _CONSTANT + name: values
                for name, values in self._constants.items()
                if isinstance(values, np.ndarray) and name not in self._particles.given
            }
        return {"row": np.array(self.row), "logs": logs, **found}

    def go_on(self, kept: State) -> None:
        """Go on from what was kept; the ensemble is where it was then."""
        self.row = kept.whole("row", 0, len(self._data))
        logs = kept.take("logs", np.float64, self.count, self.n)
        self._weigh(logs.reshape(-1)[self._particles.own])
        for name in ("resamplings", "terms", "sizes", "mean", "sd"):
            own, nan = getattr(self, name), name in ("mean", "sd")
            setattr(self, name, kept.take(name, own.dtype, *own.shape, nan=nan))
        for name in kept:
            if name.startswith(_CONSTANT):
                values = kept.take(name, np.float64, self._particles.n)
                self._constants[name.removeprefix(_CONSTANT)] = values

    def run(
        self, constants: Constants, after_row: Callable[[], None] = lambda: None
    ) -> FilterResults:
        """Go through all rows that are left; `after_row` is called after each.

        Constants that differ between particles belong to the particles as they are now; what
        `go_on` took up goes before.
        """
        self._constants = {**constants, **self._constants}
        while self.row < len(self._data) and self._step():
            self.row += 1
            after_row()
        if self.row < len(self._data):
            self.terms[:, self.row :] = -np.inf
            self.row = len(self._data)
            after_row()
        total = np.add.accumulate(self.terms, axis=1)[:, -1]
        return FilterResults(
            total, self.terms, self._data.times, self._particles.species, self.mean, self.sd,
            self.sizes,
        )  # fmt: skip

    def _weigh(self, logs: FloatArray) -> None:
        """Take other logarithms of weights ``[own]``."""
        self._weights = _Weights(logs, self._rows)

    def _step(self) -> bool:
        """One row; False where no filter can go on."""
        particles, row = self._particles, self.row
        if row:
            self.resample(self._going())
        if not particles.alive.any():
            self.terms[self._going(), row] = -np.inf
            return False
        particles.advance(float(self._data.times[row]))
        alive = particles.alive
        if not alive.all():
            self._weigh(np.where(alive[particles.own], self._weights.logs, -np.inf))
        going = self._going()
        looked = _Looked(particles, whole=self._states)
        factors = self._log_density(looked)
        if factors is None:
            some = alive.reshape(self.count, self.n).any(axis=1)
            self.terms[~some, row] = -np.inf
        else:
            if not alive.all():
                factors = np.where(alive[particles.own], factors, -np.inf)
            before = self._weights.means
            with np.errstate(invalid="ignore"):  # an error follows below
                self._weigh(self._weights.logs + factors)
            if not (self._weights.largest < np.inf).all():
                particle_weights.require_log_weights(particles.joined(factors))
            after = self._weights.means
            held = np.isfinite(before)
            self.terms[:, row] = np.where(held, after - np.where(held, before, 0.0), -np.inf)
        self.terms[~going, row] = -np.inf
        going = self._going(row + 1)
        self.sizes[going, row] = self._weights.sizes[going]
        if self._states and going.any():
            self._record(going, looked.counts)
        return bool(going.any())

    def _going(self, rows: int | None = None) -> Any:
        """Filters whose likelihood is above 0 so far, bool ``[filter]``."""
        terms = self.terms[:, : self.row if rows is None else rows]
        return (terms > -np.inf).all(axis=1)

    def resample(self, going: Any) -> None:
        """Copy particles where few carry most of the weight."""
        chosen = going & (self._weights.sizes < self._threshold * self.n)
        if not chosen.any():
            return
        particles, rows = self._particles, self._rows
        index = np.arange(particles.own.start, particles.own.stop)
        for f in range(rows.whole.start, rows.whole.stop):
            if chosen[f]:
                place = rows.place(f)
                shares = self._weights.shares[place]
                index[place] = f * self.n + self._ancestors(f, shares, slice(0, self.n))
        for f, shares in rows.cut(self._weights.shares, chosen):
            for part in rows.parts:
                if part.row == f:
                    found = self._ancestors(f, shares, slice(part.start, part.stop))
                    index[rows.place(*part[:3])] = f * self.n + found
        self.resamplings[chosen] += 1
        ancestors = particles.joined(index)
        particles.copy_rows(ancestors)
        if self.count == 1:  # elsewhere all particles of a filter have the same
            for name, values in self._constants.items():
                if isinstance(values, np.ndarray):
                    self._constants[name] = values[ancestors]
        self._weights = self._weights.levelled(chosen)

    def _ancestors(self, f: int, shares: FloatArray, part: slice) -> IntArray:
        """Ancestors of a part of the particles of a filter, of the weights of all of them."""
        seed, number = self._particles.seed, int(self.resamplings[f])
        return particle_weights.ancestors_of(
            shares, self._scheme, seed, number, self.number + f, part
        )

    def _log_density(self, looked: _Looked) -> FloatArray | None:
        """Log density of the row for each particle, ``[own]``; None where nothing was seen."""
        particles, own = self._particles, self._particles.own
        if self._data.by_function:
            asking = Asking(looked, particles.shares)
            found = asking.answer(
                lambda: self._data.log_density(self.row, asking, self._constants, particles.n)
            )
            return None if found is None else found[own]
        each = {k: v[own] if isinstance(v, np.ndarray) else v for k, v in self._constants.items()}
        return self._data.log_density(self.row, looked, each, self._own)

    def _record(self, going: Any, counts: Array) -> None:
        """Weighted means and standard deviations, of counts ``[own, species]``."""
        shares, rows = self._weights.normalised, self._rows
        full = shares > 0
        held = full if self._particles.shares.any(not full.all()) else None
        step = max(1, _AT_ONCE // self._particles.n)
        for first in range(0, counts.shape[1], step):
            x = np.array(counts[:, first : first + step].T, np.float64, order="C")
            product = shares * x
            mean = rows.sums(product, held)
            for own, each in zip(x, mean, strict=True):
                np.subtract(own, rows.spread(each), out=own)
            np.multiply(x, x, out=x)
            variance = rows.sums(np.multiply(shares, x, out=product), held)
            columns = slice(first, first + step)
            self.mean[going, self.row, columns] = mean[:, going].T
            self.sd[going, self.row, columns] = np.sqrt(variance[:, going].T)


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


class _Looked:
    """Particles of this rank as they are now; the device is asked once for each thing.

    Parameters
    ----------
    whole
        Whether all counts are looked at anyway.
    """

    def __init__(self, particles: Ensemble, *, whole: bool) -> None:
        self._particles, self._whole = particles, whole
        self._known: dict[str, FloatArray] = {}

    @cached_property
    def counts(self) -> Array:
        """Counts ``[own, species]``; what one has that has ended has no meaning."""
        return self._particles.own_counts()

    def __call__(self, name: str) -> FloatArray:
        """A species or an observable ``[own]``; NaN where a particle has ended."""
        if name not in self._known:
            counts = self.counts if self._whole else None
            self._known[name] = self._particles.own_values(name, counts)
        return self._known[name]


class FilterCheckpoint(StateCheckpoint):
    """A file of particles, with the state of their filters.

    `particles` is set as soon as the ensemble is open.
    """

    particles: Ensemble

    def take_up(self) -> State:
        """As of `StateCheckpoint`; puts the ensemble where it was."""
        if kept := super().take_up():
            self.particles.seed = self._stored.seed
            self.particles.go_on(self._file.path, self._stored)
        return kept

    def _read(self) -> State:
        _, self._stored, kept = read_stored(self._file.path)
        return kept

    def _write(self, arrays: Mapping[str, npt.ArrayLike]) -> None:
        self.particles.save_with(self._file.path, arrays)

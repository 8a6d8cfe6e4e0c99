"""Bootstrap particle filters, one or many at once: likelihoods of a time course, and states."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.model.arrays import Array, BoolArray, FloatArray, IntArray
from tauslab.model.errors import ConfigError
from tauslab.model.option_names import assigned
from tauslab.model.pictures.html import card, table
from tauslab.runner.output.state import State
from tauslab.runner.particles import weights as particle_weights
from tauslab.runner.particles.asking import Asking
from tauslab.runner.particles.columns import course_table
from tauslab.runner.particles.ensemble import Ensemble
from tauslab.runner.particles.observing import Constants, Observations
from tauslab.runner.particles.sums import CutRows
from tauslab.runner.results.tables import to_pandas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT_THRESHOLD = 0.5
_AT_ONCE = 1 << 22  # numbers of which moments are taken at once
_CONSTANT = "constant_"  # before the name of one, in what is kept
_MOST_ROWS, _MOST_COLUMNS = 20, 8  # in a notebook


@dataclass(frozen=True)
class FilterResult:
    """What a filter says; made by `tauslab.particle_filter` and `tauslab.exact_filter`.

    Attributes
    ----------
    log_likelihood
        Logarithm of the density of all data; -inf where no particle can explain a row.
    terms
        f64 ``[time]``: of each row, given those before; their sum is `log_likelihood`.
    time
        f64 ``[time]``: times of the rows.
    species
        Names of the columns of `mean` and `sd`.
    mean, sd
        f64 ``[time, species]``: of the state given the data so far; NaN after no particle is left,
        and where they were not asked for.
    effective_size
        f64 ``[time]``: of the weights after each row; 0 for an exact filter.
    bound
        Of an exact filter: `log_likelihood` is too small by this at most; NaN of particles, whose
        error is of chance.
    """

    log_likelihood: float
    terms: FloatArray
    time: FloatArray
    species: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    effective_size: FloatArray
    bound: float = float("nan")

    def __repr__(self) -> str:
        """One line: what was filtered, and its likelihood."""
        return (
            f"<FilterResult: log-likelihood {self.log_likelihood:.6g} of {len(self.time)} rows, "
            f"{len(self.species)} species>"
        )

    def _repr_html_(self) -> str:
        names = self.species[:_MOST_COLUMNS]
        facts = {"log-likelihood": f"{self.log_likelihood:.6g}", "rows": len(self.time)}
        rows = [
            (f"{t:g}", f"{self.terms[row]:.4g}", f"{self.effective_size[row]:.1f}",
             *(f"{self.mean[row, i]:.5g} ± {self.sd[row, i]:.3g}" for i in range(len(names))))
            for row, t in enumerate(self.time[:_MOST_ROWS].tolist())
        ]  # fmt: skip
        header = ("time", "log-likelihood", "effective particles", *names)
        shown = table(header, rows, more=len(self.time) - _MOST_ROWS)
        return card("FilterResult", facts, [shown])

    def plot(
        self, species: Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw mean and two standard deviations of species over time.

        Parameters
        ----------
        species
            Names; by default the first four.
        path
            File to write: PNG, SVG or PDF by its suffix.

        Raises
        ------
        ConfigError
            An unknown name or suffix, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        from tauslab.runner.plots.states import plot_filter

        return plot_filter(self, species, None if path is None else Path(path))

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with a row per time, as `tauslab export` writes it."""
        return to_pandas(course_table(
            self.time, self.terms, self.effective_size, self.species, self.mean, self.sd
        ))  # fmt: skip

    def to_xarray(self) -> Any:
        """All arrays by name as an `xarray.Dataset`."""
        import xarray

        return xarray.Dataset(
            {
                "mean": (("time", "species"), self.mean),
                "sd": (("time", "species"), self.sd),
                "log_likelihood_term": ("time", self.terms),
                "effective_size": ("time", self.effective_size),
            },
            coords={"time": self.time, "species": list(self.species)},
            attrs={"log_likelihood": self.log_likelihood},
        )


@dataclass(frozen=True)
class FilterResults:
    """What many filters say; made by `tauslab.particle_filters`.

    Attributes
    ----------
    log_likelihood
        f64 ``[filter]``; -inf where no particle can explain a row.
    terms, effective_size
        f64 ``[filter, time]``, as of `FilterResult`.
    time, species
        As of `FilterResult`.
    mean, sd
        f64 ``[filter, time, species]``; NaN where they were not asked for.
    """

    log_likelihood: FloatArray
    terms: FloatArray
    time: FloatArray
    species: tuple[str, ...]
    mean: FloatArray
    sd: FloatArray
    effective_size: FloatArray

    def __repr__(self) -> str:
        """One line: how many filters, and their likelihoods."""
        low, high = float(self.log_likelihood.min()), float(self.log_likelihood.max())
        return (
            f"<FilterResults: {len(self)} filters of {len(self.time)} rows, log-likelihoods "
            f"{low:.6g} to {high:.6g}>"
        )

    def __len__(self) -> int:
        """Number of filters."""
        return len(self.log_likelihood)

    def __getitem__(self, number: int) -> FilterResult:
        """What one filter says."""
        return FilterResult(
            float(self.log_likelihood[number]), self.terms[number], self.time, self.species,
            self.mean[number], self.sd[number], self.effective_size[number],
        )  # fmt: skip

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with a row per filter and time."""
        return to_pandas(course_table(
            self.time, self.terms, self.effective_size, self.species, self.mean, self.sd
        ))  # fmt: skip

    def to_xarray(self) -> Any:
        """All arrays by name as an `xarray.Dataset`."""
        import xarray

        return xarray.Dataset(
            {
                "log_likelihood": ("filter", self.log_likelihood),
                "mean": (("filter", "time", "species"), self.mean),
                "sd": (("filter", "time", "species"), self.sd),
                "log_likelihood_term": (("filter", "time"), self.terms),
                "effective_size": (("filter", "time"), self.effective_size),
            },
            coords={"time": self.time, "species": list(self.species)},
        )


def check_threshold(threshold: float) -> None:
    """Refuse what is no part of n."""
    if not (isinstance(threshold, int | float) and 0 <= threshold <= 1):
        raise ConfigError(f"{assigned('threshold')}{threshold!r} is not allowed: from 0 to 1")


class Course:
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
        """All that it goes on from, beside the ensemble. Collective."""
        logs = self._particles.joined(self._weights.logs).reshape(self.count, self.n)
        names = ("resamplings", "terms", "sizes", "mean", "sd")
        found = {name: getattr(self, name) for name in names}
        if self.count == 1:  # amounts at the start: the ensemble has those of now alone
            found |= {
                _CONSTANT + name: values
                for name, values in self._constants.items()
                if isinstance(values, np.ndarray) and name not in self._particles.given
            }
        return {"row": np.array(self.row), "logs": logs, **found}

    def go_on(self, kept: State) -> None:
        """Take up what was kept; the ensemble is where it was then."""
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

        Constants that differ between particles are those of the particles as they are now; what
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
            with np.errstate(invalid="ignore"):  # told below
                self._weigh(self._weights.logs + factors)
            if not (self._weights.largest < np.inf).all():
                self._require_numbers(particles.joined(factors))
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
        draws = 1 if self._scheme == "systematic" else self.n
        uniforms = particle_weights.uniform(
            self._particles.seed, particle_weights.RESAMPLING, int(self.resamplings[f]), draws,
            self.number + f,
        )  # fmt: skip
        return particle_weights.ancestors_of(shares, self.n, self._scheme, uniforms, part)

    def _log_density(self, looked: _Looked) -> FloatArray | None:
        """Of the row in the state of each particle, ``[own]``; None where nothing was seen."""
        particles, own = self._particles, self._particles.own
        if self._data.by_function:
            asking = Asking(looked, particles.shares)
            found = asking.answer(
                lambda: self._data.log_density(self.row, asking, self._constants, particles.n)
            )
            return None if found is None else found[own]
        each = {k: v[own] if isinstance(v, np.ndarray) else v for k, v in self._constants.items()}
        return self._data.log_density(self.row, looked, each, self._own)

    def _require_numbers(self, factors: FloatArray) -> None:
        bad = np.flatnonzero(np.isnan(factors) | (factors == np.inf))
        if len(bad):
            raise ConfigError(
                f"the log-weight of particle {bad[0]} is {factors.flat[bad[0]]}: a number or -inf "
                f"({len(bad)} of {factors.size} are not)"
            )

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
    """Weights of the particles of all filters; what is computed of them is so when it is asked for.

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
        """Sums of those and of their squares ``[2, filter]``. Collective."""
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
        """Others, which are all 1 in filters that are chosen."""
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

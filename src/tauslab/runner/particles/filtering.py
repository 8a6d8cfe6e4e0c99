"""Bootstrap particle filters, one or many at once: likelihoods of a time course, and states."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.model.arrays import Array, FloatArray, IntArray
from tauslab.model.errors import ConfigError
from tauslab.model.option_names import assigned
from tauslab.model.pictures.html import card, table
from tauslab.runner.particles import weights as particle_weights
from tauslab.runner.particles.ensemble import Ensemble
from tauslab.runner.particles.observing import Constants, Observations

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT_THRESHOLD = 0.5
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
        f64 ``[time, species]``: of the state given the data so far; NaN after no particle is left.
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
        self.begin()

    def begin(self) -> None:
        """Forget all rows; the ensemble is at its start."""
        rows, species = len(self._data), len(self._particles.species)
        self.row = 0
        self._weigh(np.zeros((self.count, self.n)))
        self.resamplings: IntArray = np.zeros(self.count, np.int64)
        self.terms = np.zeros((self.count, rows))
        self.sizes = np.zeros((self.count, rows))
        self.mean = np.full((self.count, rows, species), np.nan)
        self.sd = np.full((self.count, rows, species), np.nan)

    def kept(self) -> dict[str, Array]:
        """All that it goes on from, beside the ensemble."""
        names = ("logs", "resamplings", "terms", "sizes", "mean", "sd")
        return {"row": np.array(self.row), **{name: getattr(self, name) for name in names}}

    def go_on(self, kept: dict[str, Array]) -> None:
        """Take up what was kept; the ensemble is where it was then."""
        self.row = int(kept["row"])
        for name, values in kept.items():
            if name == "logs":
                self._weigh(values)
            elif name != "row":
                setattr(self, name, values)

    def run(
        self, constants: Constants, after_row: Callable[[], None] = lambda: None
    ) -> FilterResults:
        """Go through all rows that are left; `after_row` is called after each."""
        while self.row < len(self._data) and self._step(constants):
            self.row += 1
            after_row()
        if self.row < len(self._data):
            self.row = len(self._data)
            after_row()
        total = np.add.accumulate(self.terms, axis=1)[:, -1]
        return FilterResults(
            total, self.terms, self._data.times, self._particles.species, self.mean, self.sd,
            self.sizes,
        )  # fmt: skip

    def _weigh(self, logs: FloatArray) -> None:
        """Take other logarithms of weights ``[filter, particle]``."""
        self.logs = logs
        self._relatives: tuple[FloatArray, FloatArray] | None = None

    def _relative(self) -> tuple[FloatArray, FloatArray]:
        """Weights over the largest of each filter, and the logarithms of those; computed once."""
        if self._relatives is None:
            self._relatives = particle_weights.relatives(self.logs)
        return self._relatives

    def _step(self, constants: Constants) -> bool:
        """One row; False where no filter can go on."""
        particles, row = self._particles, self.row
        if row:
            self.resample(self._going())
        if not particles.alive.any():
            self.terms[self._going(), row] = -np.inf
            return False
        particles.advance(float(self._data.times[row]))
        alive = particles.alive.reshape(self.count, self.n)
        if not alive.all():
            self._weigh(np.where(alive, self.logs, -np.inf))
        going = self._going()
        factors = self._log_density(constants)
        if factors is None:
            self.terms[~alive.any(axis=1), row] = -np.inf
        else:
            factors = np.where(alive, factors.reshape(self.count, self.n), -np.inf)
            self._require_numbers(factors)
            before = particle_weights.means_of(*self._relative())
            self._weigh(self.logs + factors)
            after = particle_weights.means_of(*self._relative())
            held = np.isfinite(before)
            self.terms[:, row] = np.where(held, after - np.where(held, before, 0.0), -np.inf)
        self.terms[~going, row] = -np.inf
        going = self._going(row + 1)
        sizes = particle_weights.sizes_of(self._relative()[0])
        self.sizes[going, row] = sizes[going]
        if self._states and going.any():
            self._record(np.flatnonzero(going))
        return bool(going.any())

    def _going(self, rows: int | None = None) -> Any:
        """Filters whose likelihood is above 0 so far, bool ``[filter]``."""
        terms = self.terms[:, : self.row if rows is None else rows]
        return (terms > -np.inf).all(axis=1)

    def resample(self, going: Any) -> None:
        """Copy particles where few carry most of the weight."""
        sizes = particle_weights.sizes_of(self._relative()[0])
        chosen = np.flatnonzero(going & (sizes < self._threshold * self.n))
        if not len(chosen):
            return
        n = self.n
        index = np.arange(self.count * n)
        shares = self._relative()[0][chosen]
        draws = 1 if self._scheme == "systematic" else n
        for own, f in zip(shares, chosen.tolist(), strict=True):
            uniforms = particle_weights.uniform(
                self._particles.seed, particle_weights.RESAMPLING, int(self.resamplings[f]), draws,
                self.number + f,
            )  # fmt: skip
            found = particle_weights.ancestors_of(own, n, self._scheme, uniforms)
            index[f * n : (f + 1) * n] = f * n + found
        self.resamplings[chosen] += 1
        self._particles.copy_rows(index)
        logs = self.logs.copy()
        logs[chosen] = 0.0
        self._weigh(logs)

    def _log_density(self, constants: Constants) -> FloatArray | None:
        """Of the row in the state of each particle, ``[particle]``; None where nothing was seen."""
        particles = self._particles
        if self._data.by_function:
            return self._data.log_density(self.row, _Once(particles.values), constants, particles.n)
        own = particles.own
        each = {k: v[own] if isinstance(v, np.ndarray) else v for k, v in constants.items()}
        found = self._data.log_density(
            self.row, _Once(particles.own_values), each, own.stop - own.start
        )
        return None if found is None else particles.joined(found)

    def _require_numbers(self, factors: FloatArray) -> None:
        bad = np.flatnonzero(np.isnan(factors) | (factors == np.inf))
        if len(bad):
            raise ConfigError(
                f"the log-weight of particle {bad[0]} is {factors.flat[bad[0]]}: a number or -inf "
                f"({len(bad)} of {factors.size} are not)"
            )

    def _record(self, going: IntArray) -> None:
        """Weighted means and standard deviations."""
        counts = self._particles.counts.reshape(self.count, self.n, -1)
        shares = particle_weights.normalised_of(self._relative()[0][going])
        whole = (shares > 0).all(axis=1)
        self._moments(going[whole], shares[whole], counts[going[whole]])
        for f, own in zip(going[~whole].tolist(), shares[~whole], strict=True):
            held = own > 0
            self._moments(np.array([f]), own[held][None], counts[f, held][None])

    def _moments(self, filters: IntArray, shares: FloatArray, counts: Array) -> None:
        for column in range(counts.shape[2]):
            x = counts[:, :, column].astype(np.float64)
            mean = particle_weights.fixed_sums(shares * x)
            variance = particle_weights.fixed_sums(shares * (x - mean[:, None]) ** 2)
            self.mean[filters, self.row, column] = mean
            self.sd[filters, self.row, column] = np.sqrt(variance)


class _Once:
    """Values of particles by name; the device is asked once."""

    def __init__(self, ask: Callable[[str], FloatArray]) -> None:
        self._ask = ask
        self._known: dict[str, FloatArray] = {}

    def __call__(self, name: str) -> FloatArray:
        if name not in self._known:
            self._known[name] = self._ask(name)
        return self._known[name]

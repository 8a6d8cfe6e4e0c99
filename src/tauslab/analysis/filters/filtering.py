"""Bootstrap particle filters, one or many at once: likelihoods of a time course, and states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tauslab.analysis.filters.observing import Constants, Observations, Values
from tauslab.analysis.filters.result import FilterResults
from tauslab.analysis.filters.weighing import Weighing, part_of
from tauslab.analysis.particles import weights as particle_weights
from tauslab.analysis.particles.ensemble import Ensemble
from tauslab.analysis.particles.shares import Copies, Shares
from tauslab.analysis.particles.store import StateCheckpoint, read_stored
from tauslab.base.arrays import Array, BoolArray, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.store.state import State

T = TypeVar("T")


class Asking:
    """The argument `values` of the function; the device is asked once for each name.

    To give a value is collective. So before each, and at the end, ranks compare how far the
    function is: where one of them failed, or asks for something else, none is left waiting.
    """

    def __init__(self, ask: Callable[[str], FloatArray], shares: Shares) -> None:
        self._request, self._shares = ask, shares
        self._known: dict[str, FloatArray] = {}
        self._broken = False

    def __call__(self, name: str) -> FloatArray:
        """Values of all particles. Collective."""
        if name not in self._known:
            self._compare_states(f"asks for {name!r}")
            self._broken = True  # a failure before all have given their part ends all ranks
            self._known[name] = np.asarray(self._shares.joined(self._request(name)))
            self._broken = False
        return self._known[name]

    def answer(self, function: Callable[[], T]) -> T:
        """The value of `function`, which calls this object; where it fails on a rank, all fail.

        Raises
        ------
        ConfigError
            It failed on another rank, or does not do the same everywhere.
        """
        try:
            result = function()
        except Exception as error:
            if not self._broken:
                self._compare_states("failed", f"{type(error).__name__}: {error}")
            raise
        self._compare_states("is done")
        return result

    def _compare_states(self, state: str, failure: str = "") -> None:
        if self._shares.ranks == 1:
            return
        states = self._shares.all_of((state, failure))
        self._broken = True  # unless nothing is wrong
        for rank, (_, why) in enumerate(states):
            if why and not failure:
                raise ConfigError(f"observe= failed on rank {rank}: {why}")
        for rank, (other, _) in enumerate(states):
            if other != state and not failure:
                raise ConfigError(
                    f"observe= {other} on rank {rank} and {state} on rank {self._shares.rank}: it "
                    "must do the same on all ranks"
                )
        self._broken = False


DEFAULT_THRESHOLD = 0.5
_CONSTANT = "constant_"  # before the name of one, in what is kept


class ParticleFilters:
    """Filters on their way through the data: `count` of them, which share an ensemble's particles.

    Filter f has the particles ``f n .. f n + n - 1``, and draws as if it were alone.

    Parameters
    ----------
    cells
        What was seen of each cell, at equal times as far as each goes; filters are split into as
        many equal parts.
    number
        Number of the first filter.
    states
        Whether means and standard deviations are wanted.
    probabilities
        Probabilities of the recorded quantiles, each between 0 and 1.

    Attributes
    ----------
    ended
        How many particles ended, by status, in all runs so far. From then on each weighs nothing,
        so that the likelihood is too small.
    """

    def __init__(
        self,
        particles: Ensemble,
        cells: Sequence[Observations],
        *,
        count: int = 1,
        number: int = 0,
        scheme: str = "systematic",
        threshold: float = DEFAULT_THRESHOLD,
        states: bool = True,
        probabilities: Sequence[float] = (),
    ) -> None:
        self._particles, self._cells, self._data = particles, cells, max(cells, key=len)
        self._scheme, self._threshold, self._states = scheme, threshold, states
        self._probabilities = probabilities
        self.count, self.number, self.n = count, number, particles.n // count
        self._rows = np.repeat([len(cell) for cell in cells], count // len(cells))
        self._weights = Weighing(particles, count, number, len(cells))
        self._guesses = particles.backend.style.warp > 1  # a CPU has no time to spare for it
        self.ended = Counter[int]()
        self.begin()

    def begin(self) -> None:
        """Forget all rows; the ensemble is at its start."""
        rows, species = len(self._data), len(self._particles.species)
        self.row = 0
        self._moments: Callable[[], Callable[[], None]] | None = None  # of the row before
        self._taking: Callable[[], None] | None = None  # of moments that the device has begun
        self._late: Callable[[], None] | None = None  # which adds terms of the row before
        # Copies launched before it is known whether they are wanted, and what takes them.
        self._ahead: tuple[Copies, Callable[[], None]] | None = None
        self._resampled = False  # in the row before
        self._constants: dict[str, float | FloatArray] = {}
        self._weights.begin()
        self.resamplings: IntArray = np.zeros(self.count, np.int64)
        self.terms = np.zeros((self.count, rows))
        self.sizes = np.zeros((self.count, rows))
        self.mean = np.full((self.count, rows, species), np.nan)
        self.sd = np.full((self.count, rows, species), np.nan)
        self.quantiles = np.full((self.count, rows, species, len(self._probabilities)), np.nan)

    def kept(self) -> dict[str, Array]:
        """Arrays from which the filters go on, beside the ensemble. Collective."""
        self._settle()
        logs = self._particles.joined(self._weights.logs()).reshape(self.count, self.n)
        result = {name: getattr(self, name) for name in self._kept_names()}
        if self.count == 1:  # amounts at the start: the ensemble has the present ones alone
            result |= {
                _CONSTANT + name: values
                for name, values in self._constants.items()
                if isinstance(values, np.ndarray) and name not in self._particles.given
            }
        return {"row": np.array(self.row), "logs": logs, **ended_counts(self.ended), **result}

    def go_on(self, kept: State) -> None:
        """Go on from what was kept; the ensemble is where it was then."""
        self.row = kept.whole("row", 0, len(self._data))
        logs = kept.take("logs", np.float64, self.count, self.n)
        self._weights.put(logs.reshape(-1)[self._particles.own])
        self.ended = ended_before(kept)
        for name in self._kept_names():
            own, nan = getattr(self, name), name in ("mean", "sd", "quantiles")
            setattr(self, name, kept.take(name, own.dtype, *own.shape, nan=nan))
        for name in kept:
            if name.startswith(_CONSTANT):
                values = kept.take(name, np.float64, self._particles.n)
                self._constants[name.removeprefix(_CONSTANT)] = values

    def _kept_names(self) -> list[str]:
        names = ["resamplings", "terms", "sizes", "mean", "sd"]
        return [*names, "quantiles"] if self._probabilities else names

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
        self._settle()
        self.terms[np.arange(self.row) >= self._rows[:, None]] = 0.0
        total = np.add.accumulate(self.terms, axis=1)[:, -1]
        return FilterResults(
            total, self.terms, self._data.times, self._particles.species, self.mean, self.sd,
            self.sizes,
            *((np.array(self._probabilities), self.quantiles) if self._probabilities else ()),
        )  # fmt: skip

    def _step(self) -> bool:
        """One row; False where no filter can go on."""
        particles, row = self._particles, self.row
        if row:
            self.resample(self._going())
        if not (particles.none_ended or particles.alive.any()):
            self.terms[self._going(), row] = -np.inf
            return False
        moved = None if particles.none_ended else particles.alive  # None: all
        looked, begun = _Looked(particles), list[Callable[[], bool] | None]()

        def observe() -> None:
            if moved is None and self._data.by_columns(particles.species):
                begun.append(self._begin_observing(looked))

        def resample_ahead() -> None:
            if self._guesses and self._resampled and row + 1 < len(self._data) and any(begun):
                self._resample_ahead()

        particles.advance_while(
            float(self._data.times[row]), self._catch_up, observe, resample_ahead
        )
        if self._moments or self._late:  # nothing moved
            self._catch_up()
        if not particles.none_ended:
            self._ahead = None
            self._weights.drop()
            ended = ~particles.alive if moved is None else moved & ~particles.alive
            ended &= np.repeat(row < self._rows, self.n)
            self.ended.update(particles.status[ended].tolist())
        going = self._going()
        before = self._weights.means()
        seen = self._observe(looked, begun if particles.none_ended else [])
        if not seen:
            some = particles.alive.reshape(self.count, self.n).any(axis=1)
            self.terms[~some, row] = -np.inf
        else:
            self.terms[self._weights.sizes == 0, row] = -np.inf
            self._late = partial(self._add_terms, row, before, self._weights.means())
        self.terms[~going, row] = -np.inf
        going = self._going(row + 1)
        self.sizes[going, row] = self._weights.sizes[going]
        if self._states and going.any():
            self._moments = self._moments_of(row, going)
        if self._probabilities and going.any():
            values = self._weights.quantiles(self._probabilities)
            self.quantiles[going, row] = values.T[going]
        return bool(going.any())

    def _add_terms(
        self, row: int, before: Callable[[], FloatArray], after: Callable[[], FloatArray]
    ) -> None:
        """Terms of a row that are finite, of logarithms of means of weights."""
        finite = self.terms[:, row] > -np.inf
        self.terms[finite, row] = after()[finite] - before()[finite]

    def _moments_of(self, row: int, going: BoolArray) -> Callable[[], Callable[[], None]]:
        """Means and deviations of a row, which `_catch_up` begins. Collective."""
        begin = self._weights.moments()

        def begun() -> Callable[[], None]:
            moments = begin()

            def take() -> None:
                mean, variance = moments()
                self.mean[going, row] = mean[:, going].T
                self.sd[going, row] = np.sqrt(variance[:, going].T)

            return take

        return begun

    def _catch_up(self) -> None:
        """Begin the moments of a row, take those of the row before it, add terms. Collective.

        The host does so while the device moves particles of the next row.
        """
        add, take, begin = self._late, self._taking, self._moments
        self._late = self._taking = self._moments = None
        if take:
            take()
        if begin:
            self._taking = begin()
        if add:
            add()

    def _settle(self) -> None:
        """Take what the device was still computing when the host went on. Collective."""
        self._catch_up()
        self._catch_up()

    def _going(self, rows: int | None = None) -> Any:
        """Filters whose likelihood is above 0 so far, bool ``[filter]``."""
        terms = self.terms[:, : self.row if rows is None else rows]
        return (terms > -np.inf).all(axis=1)

    def resample(self, going: Any) -> None:
        """Copy particles where few carry most of the weight."""
        chosen = going & (self._weights.sizes < self._threshold * self.n)
        ahead, self._ahead = self._ahead, None
        self._resampled = bool(chosen.all())
        if not chosen.any():
            return
        if ahead is None or not chosen.all():
            copies = self._weights.ancestors(chosen, self.resamplings, self._scheme)
            ahead = copies, self._particles.begin_copy(copies, alike=self.count > 1)
        copies, copy = ahead
        self._weights.level(chosen)
        self.resamplings[chosen] += 1
        copy()
        arrays = {k: v for k, v in self._constants.items() if isinstance(v, np.ndarray)}
        if self.count == 1 and arrays:  # elsewhere all particles of a filter have the same
            index = self._particles.ancestors_on_host(copies)
            self._constants.update({name: values[index] for name, values in arrays.items()})

    def _resample_ahead(self) -> None:
        """Launch copies by the weights of a row before the host knows its effective sizes.

        A GPU then makes them while the host finds out whether they are wanted.
        """
        copies = self._weights.ancestors_ahead(self.resamplings, self._scheme)
        if copies is not None and self._particles.none_ended:
            self._ahead = copies, self._particles.begin_copy(copies, alike=self.count > 1)

    def _begin_observing(self, looked: _Looked) -> Callable[[], bool] | None:
        """Launch what multiplies weights by the densities of the row; None: nothing was seen."""
        own = self._particles.own
        each = {k: v[own] if isinstance(v, np.ndarray) else v for k, v in self._constants.items()}
        return self._weights.begin_observing(self._cells, self.row, looked, each)

    def _observe(self, looked: _Looked, begun: list[Callable[[], bool] | None]) -> bool:
        """Multiply weights by the densities of the row; False where nothing was seen.

        `begun` has what `_begin_observing` gave, if the device was asked before.
        """
        particles, own = self._particles, self._particles.own
        if self._data.by_function:
            asking = Asking(looked, particles.shares)
            result = asking.answer(
                lambda: self._log_density(asking, self._constants, slice(0, particles.n))
            )
            if result is None:
                return False
            if not self._weights.multiply(result[own]):
                particle_weights.require_log_weights(np.where(particles.alive, result, -np.inf))
            return True
        take = begun[0] if begun else self._begin_observing(looked)
        if take is None:
            return False
        if not take():
            each = {
                k: v[own] if isinstance(v, np.ndarray) else v for k, v in self._constants.items()
            }
            result = self._log_density(looked, each, own)
            particle_weights.require_log_weights(particles.joined(np.asarray(result)))
        return True

    def _log_density(self, values: Values, constants: Constants, own: slice) -> FloatArray | None:
        """Logarithms of densities of the row of the particles `own`; None where nothing was seen.

        Values and constants are of these particles.
        """
        if len(self._cells) == 1:
            return self._data.log_density(self.row, values, constants, own.stop - own.start)
        each = self._particles.n // len(self._cells)
        result, none = np.zeros(own.stop - own.start), True
        for number, data in enumerate(self._cells):
            ends = np.clip([number * each, (number + 1) * each], own.start, own.stop) - own.start
            part = slice(*ends.tolist())
            if part.start < part.stop:
                logs = data.log_density(
                    self.row, *part_of(part, values, constants), part.stop - part.start
                )
                result[part], none = (0.0 if logs is None else logs), none and logs is None
        return None if none else result


class _Looked:
    """Particles of this rank as they are now; the device is asked once for each thing."""

    def __init__(self, particles: Ensemble) -> None:
        self._particles = particles
        self._known: dict[str, FloatArray] = {}

    def __call__(self, name: str) -> FloatArray:
        """A species or an observable ``[own]``; NaN where a particle has ended."""
        if name not in self._known:
            self._known[name] = self._particles.own_values(name)
        return self._known[name]


def ended_counts(ended: Mapping[int, int]) -> dict[str, Array]:
    """How many particles ended, by status, as an array to keep."""
    return {"ended": np.array(sorted(ended.items()), np.int64).reshape(-1, 2)}


def ended_before(kept: State) -> Counter[int]:
    """Take `ended_counts`; files of earlier versions do not say."""
    table = kept.take("ended", np.int64, None, 2, low=0) if "ended" in kept else np.zeros((0, 2))
    return Counter(dict(table.astype(np.int64).tolist()))


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

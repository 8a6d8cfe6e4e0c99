"""Result of the master equation: the probability distribution of the state at each time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tauslab.analysis.cme.projection import StateDistribution
from tauslab.base.arrays import Array, FloatArray, Int32Array, IntArray, is_number
from tauslab.base.errors import ConfigError
from tauslab.base.host import require_memory
from tauslab.base.option_names import opt, warn
from tauslab.model.expressions.array_math import evaluate_rows
from tauslab.model.expressions.infix import as_expression
from tauslab.model.network.counts import some
from tauslab.options.python_values import listed
from tauslab.store.checking.opening import CME
from tauslab.store.results.array_result import ArrayResult, named_columns
from tauslab.store.results.tables import ResultTable
from tauslab.store.state import State
from tauslab.views.states import plot_moments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINES = 12
_LEAST_DOUBT = 0.01  # of a log-likelihood
# Observables ``[state]`` by name of the states ``[state, species]`` of the time with a number.
Observed = Callable[[int], Mapping[str, FloatArray]]


class CmeResult(ArrayResult):
    """The distribution of a network's state at given times; made by `tauslab.cme`.

    The probability of any set of states is at most the exact one, and too small by at most
    `bound`. The bound does not apply to means and variances; a mean is at most the exact one.

    Attributes
    ----------
    time
        f64 ``[time]``.
    species
        Names, in the order of the columns of `states`.
    bound
        f64 ``[time]``: error bound, the sum of `lost` and `rounding`.
    lost
        f64 ``[time]``: probability that left the set of states, and error of truncated series.
    rounding
        f64 ``[time]``: bound on rounding errors.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 2)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> exact = ts.cme(net, [0, 1])
    >>> exact.marginal("X", 1).round(4)
    array([0.3996, 0.4651, 0.1353])
    """

    _METHODS = (CME,)
    _AXES: ClassVar = {
        "time": "time", "species": "species", "observable": "observable", "state": "state",
        "mean": "time species", "variance": "time species", "bound": "time", "lost": "time",
        "rounding": "time", "sizes": "time", "states": "state species", "probabilities": "state",
        "observed": "state observable",
    }  # fmt: skip
    _OPTIONAL = ("observable", "observed")

    def __init__(
        self, name: str, times: FloatArray, species: tuple[str, ...],
        snapshots: Sequence[StateDistribution], observables: Sequence[str], observed: Observed,
    ) -> None:  # fmt: skip
        self.name, self.time, self.species = name, times, species
        self._snapshots, self._observables = list(snapshots), tuple(observables)
        self._observed, self._held = observed, set(observables) & set(species)
        self.lost = np.array([one.lost for one in snapshots])
        self.rounding = np.array([one.rounding for one in snapshots])
        self.bound = self.lost + self.rounding

    def __repr__(self) -> str:
        """One line: size and error."""
        return f"<CmeResult of {self.name}: {self._size()}>"

    @property
    def times(self) -> FloatArray:
        """As `time`."""
        return self.time

    def states(self, t: float | None = None) -> Int32Array:
        """Counts ``[state, species]`` of the states at time `t`, by default the last one."""
        return self.snapshot(t).states

    def probabilities(self, t: float | None = None) -> FloatArray:
        """Probability ``[state]`` of each of `states`."""
        return self.snapshot(t).probabilities

    def marginal(self, name: str, t: float | None = None) -> FloatArray:
        """Probability ``[count]`` of 0, 1, ... molecules of a species at time `t`."""
        return self.joint([name], t)

    def joint(self, names: Sequence[str], t: float | None = None) -> FloatArray:
        """Probability of counts of several species: an axis from 0 for each of `names`.

        Raises
        ------
        ConfigError
            A species or time is not in this result, or none is given.
        ModelError
            The array does not fit into memory.
        """
        names = listed(names)
        if not names:
            raise ConfigError("joint takes one species or more")
        at = self.snapshot(t)
        counts = at.states[:, [self._column(name) for name in names]]
        shape = tuple((counts.max(axis=0, initial=0).astype(np.int64) + 1).tolist())
        cells = 1
        for size in shape:
            cells *= size
        require_memory(8 * cells, f"the joint distribution of {', '.join(names)}")
        table = np.zeros(shape)
        np.add.at(table, tuple(counts.T), at.probabilities)
        return table

    def mean(self, name: str) -> FloatArray:
        """Mean ``[time]`` of a species or an observable."""
        return self._means(lambda at: self._values(at, name))

    def variance(self, name: str) -> FloatArray:
        """Variance ``[time]`` of a species or an observable."""
        return self.covariance(name, name)

    def covariance(self, first: str, second: str) -> FloatArray:
        """Covariance ``[time]`` of two species or observables."""

        def product(at: int) -> FloatArray:
            one = self._snapshots[at]
            a, b = self._values(at, first), self._values(at, second)
            return np.asarray((a - _mean(one, a)) * (b - _mean(one, b)))

        return self._means(product)

    def probability(self, condition: str) -> FloatArray:
        """Probability ``[time]`` of a condition such as ``"X > 10"`` or ``"X + Y == 3"``.

        The exact probability is at most `bound` larger.
        """
        return self._means(lambda at: self._evaluate(at, condition) != 0)

    def log_likelihood(self, samples: Mapping[str, npt.ArrayLike], t: float | None = None) -> float:
        """Logarithm of the probability of independent cells, each observed once at time `t`.

        Parameters
        ----------
        samples
            Counts ``[cell]`` by species, for instance by smFISH, or a `pandas.DataFrame`.
            Probabilities are summed over species that were not counted.

        Returns
        -------
        The sum over cells of log P(counts), which is at most the exact value; -inf if counts have
        probability 0 within the error. Warns if the exact value may be larger by 0.01 or more.

        Raises
        ------
        ConfigError
            A name that is no species, columns of different lengths, counts that are not whole.
        """
        if hasattr(samples, "to_dict") and hasattr(samples, "columns"):  # a table of pandas
            samples = {str(name): samples[name] for name in samples.columns}
        if not isinstance(samples, Mapping):
            raise ConfigError(f"samples= maps species to counts, and is a {type(samples).__name__}")
        if not samples:
            raise ConfigError("samples= names no species: there is nothing that was seen")
        cells = _cells(samples)
        at = self.snapshot(t)
        counts = at.states[:, [self._column(name) for name in samples]].astype(np.int64)
        rows, where = np.unique(np.concatenate([counts, cells]), axis=0, return_inverse=True)
        where = where.ravel()
        shares = np.bincount(where[: len(counts)], at.probabilities, minlength=len(rows))
        seen = np.bincount(where[len(counts) :], minlength=len(rows))
        shares, seen = shares[seen > 0], seen[seen > 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            more = float((seen * np.log1p(at.lost / shares))[shares + at.lost > 0].sum())
            logs = np.log(shares)
        if more > _LEAST_DOUBT:
            warn(
                f"the log-likelihood may be too low by up to {more:.2g}: some counts are hardly "
                f"more probable than all states that were left out, {at.lost:.2g}; reduce "
                f"{opt('tolerance')}"
            )
        return float((seen * logs).sum())

    def snapshot(self, t: float | None = None) -> StateDistribution:
        """The distribution at time `t`, by default the last one, with its errors."""
        if t is None:
            return self._snapshots[-1]
        near = np.isclose(self.time, t, rtol=1e-12, atol=0) if is_number(t) else np.zeros(1)
        result = np.flatnonzero(near)
        if not len(result):
            raise ConfigError(
                f"t={t!r:.60} is not one of the {len(self.time)} times of this result, which end "
                f"at {self.time[-1]:g}"
            )
        return self._snapshots[int(result[0])]

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them; states of all times in one row."""
        looks, names = self._snapshots, self._observables
        sizes = np.array([len(one.states) for one in looks])
        result: dict[str, Array] = {
            "time": self.time, "species": np.array(self.species),
            "mean": np.stack([self.mean(name) for name in self.species], axis=1),
            "variance": np.stack([self.variance(name) for name in self.species], axis=1),
            "bound": self.bound, "lost": self.lost, "rounding": self.rounding, "sizes": sizes,
            "state": np.arange(sizes.sum()),
            "states": np.concatenate([one.states for one in looks]),
            "probabilities": np.concatenate([one.probabilities for one in looks]),
        }  # fmt: skip
        if not names:
            return result
        observed = [list(self._observed(at).values()) for at in range(len(looks))]
        result["observed"] = np.concatenate([np.stack(values, axis=1) for values in observed])
        return result | {"observable": np.array(names)}

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON."""
        return {
            "method": CME,
            "model": self.name,
            "time": self.time.tolist(),
            "states": [len(one.states) for one in self._snapshots],
            "bound": self.bound.tolist(),
            "mean": {name: self.mean(name).tolist() for name in self.species},
            "variance": {name: self.variance(name).tolist() for name in self.species},
        }

    def lines(self) -> list[str]:
        """The result in lines of text, as `tauslab info` prints it."""
        end = f"at t = {self.time[-1]:g}"
        return [
            f"{self.name}: {self._size()}",
            *(
                f"{name} {end}: mean {self.mean(name)[-1]:.6g}, sd {self._sd(name)[-1]:.4g}"
                for name in self.species[:_MOST_LINES]
            ),
        ]

    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {"statistics": self._statistics}

    def _statistics(self) -> ResultTable:
        """A row per time: bound, mean and standard deviation."""
        columns = {"time": self.time, "bound": self.bound}
        for name in self.species:
            columns |= {f"{name}_mean": self.mean(name), f"{name}_sd": self._sd(name)}
        return named_columns(columns)

    def plot(self, names: Sequence[str] = (), path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw mean and two standard deviations of species and observables over time.

        The default is the first four species. `path` as of `Chain.plot`.
        """
        known = (*self.species, *(n for n in self._observables if n not in self.species))
        moments = {name: (self.mean(name), self._sd(name)) for name in known}
        return plot_moments(self.time, moments, path, names)

    def _attributes(self) -> dict[str, Any]:
        return {"method": CME, "model": self.name}

    @classmethod
    def _of(cls, stored: State) -> Self:
        if int(stored["sizes"].sum()) != len(stored["state"]):
            raise stored.damaged("its states do not add up")
        ends = [0, *np.cumsum(stored["sizes"]).tolist()]
        rows = [slice(*both) for both in pairwise(ends)]
        looks = [
            StateDistribution(stored["states"][own], stored["probabilities"][own], lost, rounding)
            for own, lost, rounding in zip(
                rows, stored["lost"].tolist(), stored["rounding"].tolist(), strict=True
            )
        ]
        names = stored["observable"].tolist() if "observable" in stored else []
        values = [stored["observed"][own] for own in rows] if names else []
        observed = partial(_columns_at, names, values)  # a function with a name, for pickle
        species = tuple(stored["species"].tolist())
        return cls(stored.text("model"), stored["time"], species, looks, names, observed)

    def _size(self) -> str:
        most = max(len(one.states) for one in self._snapshots)
        return (
            f"{len(self.time)} times, {len(self.species)} species, up to {most} states, error at "
            f"most {self.bound.max():.2g}"
        )

    def _sd(self, name: str) -> FloatArray:
        return np.sqrt(np.maximum(self.variance(name), 0.0))

    def _means(self, values: Callable[[int], Array]) -> FloatArray:
        """Mean ``[time]`` of values ``[state]`` of each time, by its number."""
        return np.array([_mean(one, values(at)) for at, one in enumerate(self._snapshots)])

    def _column(self, name: str) -> int:
        if name not in self.species:
            known = some(dict.fromkeys(self.species))
            raise ConfigError(f"{name!r} is not a species of {self.name}; it has {known}")
        if name in self._held:
            raise ConfigError(f"{name!r} of {self.name} is fixed and not whole: it has no counts")
        return self.species.index(name)

    def _values(self, at: int, name: str) -> FloatArray:
        if name in self.species and name not in self._held:
            return self._snapshots[at].states[:, self._column(name)].astype(np.float64)
        if name not in self._observables:
            known = some(dict.fromkeys([*self.species, *self._observables]))
            raise ConfigError(
                f"{name!r} is neither a species nor an observable of {self.name}; it has {known}"
            )
        return self._observed(at)[name]

    def _evaluate(self, at: int, condition: str) -> FloatArray:
        tree = as_expression(condition)
        rows = len(self._snapshots[at].states)
        return evaluate_rows(tree, rows, lambda name: self._values(at, name))


def _columns_at(names: Sequence[str], values: Sequence[Array], at: int) -> dict[str, FloatArray]:
    return {name: values[at][:, i] for i, name in enumerate(names)}


def _mean(one: StateDistribution, values: Array) -> float:
    held = one.probabilities > 0  # a value may be infinite where no probability is
    return float((one.probabilities[held] * values[held]).sum())


def _cells(samples: Mapping[str, npt.ArrayLike]) -> IntArray:
    try:
        columns = [np.asarray(column, np.float64) for column in samples.values()]
    except (TypeError, ValueError):
        raise ConfigError("samples= holds counts by species, and these are no numbers") from None
    if len({column.shape for column in columns}) > 1 or columns[0].ndim != 1:
        shapes = ", ".join(f"{n} {c.shape}" for n, c in zip(samples, columns, strict=True))
        raise ConfigError(f"samples= holds a count per cell for each species, not {shapes}")
    table = np.stack(columns, axis=1)
    if not (np.isfinite(table) & (table >= 0) & (table == np.rint(table))).all():
        raise ConfigError("samples= holds whole counts of 0 or more; leave out cells without one")
    return table.astype(np.int64)

"""What the master equation gives: the law of the state at each time, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.model.arrays import Array, FloatArray, Int32Array, IntArray
from tauslab.model.errors import ConfigError
from tauslab.model.expressions.expression import as_expression
from tauslab.model.host_memory import require_memory
from tauslab.model.network.counts import some
from tauslab.model.portable.array_math import evaluate_rows
from tauslab.runner.cme.projection import Snapshot
from tauslab.runner.cme.propensities import observables_of
from tauslab.runner.results.tables import ResultTable, to_pandas


class CmeResult:
    """The law of a network's state at given times; made by `tauslab.cme`.

    Every probability is at most that of the exact law. All that is missing, over all states, is at
    most `bound`, so that the probability of any set of states is too small by `bound` at most.

    Attributes
    ----------
    time
        f64 ``[time]``.
    species
        Names, in the order of the columns of `states`.
    bound
        f64 ``[time]``: the sum over all states of the exact less the given probability is at most
        this, `lost` and `rounding` together.
    lost
        f64 ``[time]``: what left the set of states, and what series left out.
    rounding
        f64 ``[time]``: the most that rounding may have changed.

    Examples
    --------
    >>> import tauslab as ts
    >>> net = ts.Network("decay")
    >>> net.add_species("X", 2)
    >>> net.add_reaction("X ->", rate=1.0)
    >>> law = ts.cme(net, [0, 1])
    >>> law.marginal("X", 1).round(4)
    array([0.3996, 0.4651, 0.1353])
    """

    def __init__(
        self, name: str, times: FloatArray, snapshots: Sequence[Snapshot], network: LoweredNetwork
    ) -> None:
        self.name, self.time, self.species = name, times, network.species
        self._snapshots, self._network = list(snapshots), network
        self._held = {name for name, _ in network.observables} & set(network.species)
        self.lost = np.array([one.lost for one in snapshots])
        self.rounding = np.array([one.rounding for one in snapshots])
        self.bound = self.lost + self.rounding

    def __repr__(self) -> str:
        """One line: size and error."""
        most = max(len(one.states) for one in self._snapshots)
        return (
            f"<CmeResult of {self.name}: {len(self.time)} times, {len(self.species)} species, up "
            f"to {most} states, error at most {self.bound.max():.2g}>"
        )

    def states(self, t: float | None = None) -> Int32Array:
        """Counts ``[state, species]`` of the states at time `t`, by default the last one."""
        return self._at(t).states

    def probabilities(self, t: float | None = None) -> FloatArray:
        """Probability ``[state]`` of each of `states`."""
        return self._at(t).probabilities

    def marginal(self, name: str, t: float | None = None) -> FloatArray:
        """Probability ``[count]`` of 0, 1, ... molecules of a species at time `t`."""
        return self.joint([name], t)

    def joint(self, names: Sequence[str], t: float | None = None) -> FloatArray:
        """Probability of counts of several species: an axis from 0 for each of `names`.

        Raises
        ------
        ModelError
            The array does not fit into memory.
        """
        at = self._at(t)
        counts = at.states[:, [self._column(name) for name in names]]
        shape = tuple((counts.max(axis=0, initial=0).astype(np.int64) + 1).tolist())
        cells = 1
        for size in shape:
            cells *= size
        require_memory(8 * cells, f"the joint law of {', '.join(names)}")
        table = np.zeros(shape)
        np.add.at(table, tuple(counts.T), at.probabilities)
        return table

    def mean(self, name: str) -> FloatArray:
        """Mean ``[time]`` of a species or an observable."""
        return np.array([_mean(one, self._values(one, name)) for one in self._snapshots])

    def variance(self, name: str) -> FloatArray:
        """Variance ``[time]`` of a species or an observable."""
        return self.covariance(name, name)

    def covariance(self, first: str, second: str) -> FloatArray:
        """Covariance ``[time]`` of two species or observables."""
        found = []
        for one in self._snapshots:
            a, b = self._values(one, first), self._values(one, second)
            found.append(_mean(one, (a - _mean(one, a)) * (b - _mean(one, b))))
        return np.array(found)

    def probability(self, condition: str) -> FloatArray:
        """Probability ``[time]`` of a condition such as ``"X > 10"`` or ``"X + Y == 3"``.

        That of the exact law is at most `bound` more.
        """
        return np.array(
            [_mean(one, self._evaluate(one, condition) != 0) for one in self._snapshots]
        )

    def log_likelihood(self, samples: Mapping[str, npt.ArrayLike], t: float | None = None) -> float:
        """Logarithm of the probability of independent cells, each seen once at time `t`.

        Parameters
        ----------
        samples
            Counts ``[cell]`` by species, for instance of smFISH; a `pandas.DataFrame` too.
            Species that were not counted are summed over.

        Returns
        -------
        The sum over cells of log P(counts); -inf where a cell has counts that the law does not
        reach within its error.

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
        at = self._at(t)
        counts = at.states[:, [self._column(name) for name in samples]].astype(np.int64)
        rows, where = np.unique(np.concatenate([counts, cells]), axis=0, return_inverse=True)
        where = where.ravel()
        law = np.bincount(where[: len(counts)], at.probabilities, minlength=len(rows))
        seen = np.bincount(where[len(counts) :], minlength=len(rows))
        with np.errstate(divide="ignore"):
            logs = np.log(law[seen > 0])
        return float((seen[seen > 0] * logs).sum())

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with a row per time: bound, mean and standard deviation."""
        names, columns = ["time", "bound"], [self.time, self.bound]
        for name in self.species:
            names += [f"{name}_mean", f"{name}_sd"]
            columns += [self.mean(name), np.sqrt(np.maximum(self.variance(name), 0.0))]
        return to_pandas(ResultTable(tuple(names), iter([list(columns)])))

    def to_xarray(self) -> Any:
        """Mean and variance ``[time, species]`` and the bounds as an `xarray.Dataset`."""
        import xarray

        axes = ("time", "species")
        means = np.stack([self.mean(name) for name in self.species], axis=1)
        variances = np.stack([self.variance(name) for name in self.species], axis=1)
        errors = {name: ("time", getattr(self, name)) for name in ("bound", "lost", "rounding")}
        return xarray.Dataset(
            {"mean": (axes, means), "variance": (axes, variances), **errors},
            coords={"time": self.time, "species": list(self.species)},
        )

    def snapshot(self, t: float | None = None) -> Snapshot:
        """The law at time `t`, with its errors."""
        return self._at(t)

    def _at(self, t: float | None) -> Snapshot:
        if t is None:
            return self._snapshots[-1]
        found = np.flatnonzero(np.isclose(self.time, t, rtol=1e-12, atol=0))
        if not len(found):
            raise ConfigError(
                f"t={t:g} is not one of the {len(self.time)} times of this law, which end at "
                f"{self.time[-1]:g}"
            )
        return self._snapshots[int(found[0])]

    def _column(self, name: str) -> int:
        if name not in self.species:
            known = some(dict.fromkeys(self.species))
            raise ConfigError(f"{name!r} is not a species of {self.name}; it has {known}")
        if name in self._held:
            raise ConfigError(f"{name!r} of {self.name} is fixed and not whole: it has no counts")
        return self.species.index(name)

    def _values(self, one: Snapshot, name: str) -> FloatArray:
        if name in self.species and name not in self._held:
            return one.states[:, self._column(name)].astype(np.float64)
        observables = observables_of(self._network, one.states)
        if name not in observables:
            known = some(dict.fromkeys([*self.species, *observables]))
            raise ConfigError(
                f"{name!r} is neither a species nor an observable of {self.name}; it has {known}"
            )
        return observables[name]

    def _evaluate(self, one: Snapshot, condition: str) -> FloatArray:
        tree = as_expression(condition)
        return evaluate_rows(tree, len(one.states), lambda name: self._values(one, name))


def _mean(one: Snapshot, values: Array) -> float:
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

"""A dynamic Bayesian network: nodes, intervals, and the counts its probabilities come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray, FloatArray, IntArray, UintArray
from tauslab.base.errors import ConfigError
from tauslab.kernels.dbn.count_tables import CountTables
from tauslab.kernels.dbn.entries import Entries, Keys, NodeFamily

BinArray = npt.NDArray[np.uint8]

MOST_DENSE = 1 << 24  # entries of a table that is written out


@dataclass(frozen=True)
class Structure:
    """Nodes of a time point, and the parents of each variable.

    `parents` names for each variable the nodes before the step, variables and parameters.
    """

    variables: tuple[str, ...]
    parameters: tuple[str, ...]
    parents: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """All nodes of a time point: variables, then parameters."""
        return self.variables + self.parameters

    def families(self) -> list[NodeFamily]:
        """Variables with their parents, by number."""
        number = {name: i for i, name in enumerate(self.names)}
        return [
            NodeFamily(name, number[name], tuple(number[p] for p in self.parents[name]))
            for name in self.variables
        ]


@dataclass(frozen=True)
class ProbabilityRows:
    """Rows of a conditional probability table at one step: combinations of parents that occurred.

    `parents` u8 ``[row, parent]`` holds the parents' bins, `probabilities` ``[row, bin]`` are
    of the node after the step.
    """

    parents: BinArray
    probabilities: FloatArray


@dataclass(frozen=True)
class CountTable:
    """Counts of a node, given its parents, at all steps.

    `bins` u8 ``[entry, digit]``: the bins of the parents before the step, then the node's own after
    it; entries are sorted. Entries of step k (from time k to k + 1) are ``offsets[k]`` to
    ``offsets[k + 1]`` - 1. `counts` u64 ``[entry]``.
    """

    offsets: IntArray
    bins: BinArray
    counts: UintArray

    @classmethod
    def of(cls, entries: Entries, keys: Keys, steps: int) -> CountTable:
        """From what a device counted."""
        step, bins = keys.digits(entries.high, entries.low)
        offsets = np.searchsorted(step.astype(np.int64), np.arange(steps + 1))
        return cls(offsets.astype(np.int64), bins, entries.counts)

    def probabilities(self) -> FloatArray:
        """Share of each entry in its parents' configuration ``[entry]``."""
        starts = self._row_starts()
        if not len(starts):
            return np.zeros(0)
        totals = np.add.reduceat(self.counts, starts)
        shares: FloatArray = self.counts / np.repeat(totals, np.diff([*starts, len(self.counts)]))
        return shares

    def _row_starts(self) -> IntArray:
        """First entry of every configuration of parents at every step."""
        first = _begins(self.bins)
        first[self.offsets[:-1][np.diff(self.offsets) > 0]] = True
        return np.flatnonzero(first).astype(np.int64)

    def rows(self, step: int, n_bins: int) -> ProbabilityRows:
        """The rows that occurred at a step."""
        own = slice(self.offsets[step], self.offsets[step + 1])
        bins, counts = self.bins[own], self.counts[own].astype(np.float64)
        first = _begins(bins)
        row = np.cumsum(first) - 1
        result = np.zeros((int(first.sum()), n_bins))
        result[row, bins[:, -1]] = counts
        return ProbabilityRows(
            bins[first, :-1], result / np.maximum(1, result.sum(axis=1, keepdims=True))
        )


def _begins(bins: BinArray) -> BoolArray:
    """Return whether another configuration of parents begins at an entry, bool ``[entry]``."""
    first = np.ones(len(bins), bool)
    first[1:] = (bins[1:, :-1] != bins[:-1, :-1]).any(axis=1)
    return first


@dataclass(eq=False)
class DynamicNetwork:
    """A time-variant dynamic Bayesian network that represents an ensemble of trajectories.

    Its nodes are variables at time points and unknown parameters. A variable after a step depends
    on its parents before it (Liu, Hsu and Thiagarajan 2009; Hagiescu et al. 2013).

    Parameters
    ----------
    times
        Time points ``[time]``, in the model's time unit.
    edges
        Edges of the intervals ``[bins + 1]`` of every variable and parameter. Interval b holds
        edge b <= x < edge b + 1; values outside are in the first and last.
    tables
        Counts of every variable given its parents.
    marginals
        Numbers of trajectories, u64 ``[time, bin]`` of a variable and ``[1, bin]`` of a parameter.
    outside
        Numbers of values below the range, above it, and not finite, u64 ``[time, 3]``.
    nominal
        Time course with the model's own values ``[time, variable]``, if computed.
    attributes
        Seed, settings and digests, as in the file.
    """

    structure: Structure
    times: FloatArray
    edges: Mapping[str, FloatArray]
    tables: Mapping[str, CountTable]
    marginals: Mapping[str, UintArray]
    outside: Mapping[str, UintArray]
    nominal: FloatArray | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, str] = field(default_factory=dict)
    _rows: dict[tuple[str, int], ProbabilityRows] = field(
        default_factory=dict, init=False, repr=False
    )

    def __enter__(self) -> Self:
        """Return the network, for use in a ``with`` statement like other results."""
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: the tables are in memory."""

    def __repr__(self) -> str:
        """One line."""
        return (
            f"DynamicNetwork({len(self.variables)} variables, {len(self.parameters)} unknown "
            f"parameters, {len(self.times)} time points, {self.samples} trajectories)"
        )

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables."""
        return self.structure.variables

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the unknown parameters."""
        return self.structure.parameters

    @property
    def samples(self) -> int:
        """Number of trajectories, including ones that are not finite."""
        name = self.variables[0]
        return int(self.marginals[name][0].sum() + self.outside[name][0, 2])

    def bins(self, name: str) -> int:
        """Number of intervals of a node."""
        return len(self.edges[self.known(name)]) - 1

    def known(self, name: str) -> str:
        """The name itself.

        Raises
        ------
        ConfigError
            No node is called so.
        """
        if name not in self.edges:
            raise ConfigError(
                f"{name!r} is not a node of this network; it has {', '.join(self.structure.names)}"
            )
        return name

    def bin_of(self, name: str, value: float) -> int:
        """Number of the interval of a value; values outside are in the outer intervals."""
        return int(np.searchsorted(self.edges[self.known(name)][1:-1], value, side="right"))

    def midpoints(self, name: str) -> FloatArray:
        """Middle of each interval ``[bin]``."""
        edges = self.edges[self.known(name)]
        return (edges[1:] + edges[:-1]) / 2

    def marginal(self, name: str) -> FloatArray:
        """Fraction of the trajectories in each interval ``[time, bin]``."""
        counts = self.marginals[self.known(name)].astype(np.float64)
        shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
        return np.broadcast_to(shares, (len(self.times), shares.shape[1]))

    def mean(self, name: str) -> FloatArray:
        """Mean of the sampled trajectories ``[time]``, computed from midpoints of intervals."""
        return self.marginal(name) @ self.midpoints(name)

    def rows(self, name: str, step: int) -> ProbabilityRows:
        """Rows of a variable's table at the step from time `step`, for combinations that occurred.

        Raises
        ------
        ConfigError
            `name` is no variable, or there is no such step.
        """
        self._check_step(name, step)
        key = (name, int(step))
        if key not in self._rows:
            self._rows[key] = self.tables[name].rows(step, self.bins(name))
        return self._rows[key]

    def table(self, name: str, step: int) -> FloatArray:
        """Conditional probabilities of a variable at a step, as a full array.

        One axis per parent, then the intervals of the node. If no trajectory had a combination of
        intervals of the parents, its row is the marginal of the node after the step.

        Raises
        ------
        ConfigError
            As `rows`, or the table has more than 2^24 entries.
        """
        self._check_step(name, step)
        sizes = [self.bins(parent) for parent in self.structure.parents[name]]
        sizes.append(self.bins(name))
        if float(np.prod([float(size) for size in sizes])) > MOST_DENSE:
            raise ConfigError(
                f"the table of {name} has {np.prod([float(s) for s in sizes]):.3g} entries, "
                f"and at most {MOST_DENSE} are written out: use its rows"
            )
        rows = self.rows(name, step)
        result = np.empty(sizes)
        result[...] = self.marginal(name)[step + 1]
        result[tuple(rows.parents.T.astype(np.intp))] = rows.probabilities
        return result

    def _check_step(self, name: str, step: int) -> None:
        if self.known(name) not in self.variables:
            raise ConfigError(
                f"{name} is an unknown parameter, which keeps its interval: no step has a table of "
                f"it; variables are {', '.join(self.variables)}"
            )
        steps = len(self.times) - 1
        if not isinstance(step, int | np.integer) or not 0 <= step < steps:
            raise ConfigError(f"step={step!r} is not allowed: a whole number from 0 to {steps - 1}")


def network_of(
    structure: Structure,
    times: FloatArray,
    edges: Sequence[FloatArray],
    entries: Sequence[tuple[Entries, Keys]],
    cells: tuple[UintArray, UintArray],
) -> DynamicNetwork:
    """Put together what devices counted; see `tauslab.kernels.dbn.count_tables.CountTables`."""
    steps = len(times) - 1
    tables = {
        name: CountTable.of(result, keys, steps)
        for name, (result, keys) in zip(structure.variables, entries, strict=True)
    }
    marginals, outside = {}, {}
    first, of = 0, np.atleast_2d(cells[0])
    for index, (name, own) in enumerate(zip(structure.names, edges, strict=True)):
        if index == len(structure.variables):
            first, of = 0, np.atleast_2d(cells[1])
        bins = len(own) - 1
        marginals[name] = of[:, first : first + bins]
        outside[name] = of[:, first + bins : first + bins + 3]
        first += bins + 3
    named = dict(zip(structure.names, edges, strict=True))
    return DynamicNetwork(structure, times, named, tables, marginals, outside)


def from_trajectories(
    structure: Structure,
    times: FloatArray,
    values: FloatArray,
    parameters: FloatArray,
    edges: Mapping[str, FloatArray],
) -> DynamicNetwork:
    """Build a network from given trajectories, on the CPU.

    Parameters
    ----------
    structure
        Variables, parameters and parents.
    times
        Time points ``[time]``.
    values
        ``[trajectory, time, variable]``.
    parameters
        ``[trajectory, parameter]``.
    edges
        Edges of the intervals of every node, increasing.

    Raises
    ------
    ConfigError
        Shapes that do not fit together, or a node without intervals.
    """
    from tauslab.kernels.backends import BackendOptions, get_backend

    shape = (len(values), len(times), len(structure.variables))
    if values.shape != shape or parameters.shape != (len(values), len(structure.parameters)):
        raise ConfigError(
            f"values {values.shape} and parameters {parameters.shape} must be "
            "[trajectory, time, variable] and [trajectory, parameter] of the network"
        )
    if missing := [name for name in structure.names if name not in edges]:
        raise ConfigError(f"{missing[0]} has no intervals")
    ordered = [np.asarray(edges[name], np.float64) for name in structure.names]
    backend = get_backend("cpu", BackendOptions(threads=1))
    try:
        families, rows = structure.families(), len(values)
        counting = CountTables(backend, ordered, len(families), families, len(times), rows)
        stream = backend.stream()
        counting.clear(stream)
        if structure.parameters:
            counting.begin(np.ascontiguousarray(parameters.T), len(values), stream)
        for time in range(len(times)):
            counting.add(np.ascontiguousarray(values[:, time].T), time, len(values), stream)
            counting.make_room(stream)
        entries = list(zip(counting.tables(stream), counting.keys, strict=True))
        return network_of(structure, np.asarray(times), ordered, entries, counting.cells(stream))
    finally:
        backend.close()

"""Values of parameters as columns that kernels read: another value needs no other kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from tauslab.analysis.particles.motions.motion import beside
from tauslab.base.arrays import FloatArray
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    arguments_first,
    symbols,
)
from tauslab.model.network.network import Network
from tauslab.model.network.parts import as_events
from tauslab.options.ensemble import Options
from tauslab.runner.ensemble.task import NetworkTask


@dataclass(frozen=True)
class Given:
    """Values of parameters and amounts, of n particles.

    `table` f64 ``[1 or particle, name]`` has what kernels read, by the columns `names`; `numbers`
    are part of the kernels.
    """

    n: int
    names: tuple[str, ...]
    table: FloatArray
    numbers: Mapping[str, float]

    @classmethod
    def of(cls, rows: Mapping[str, Any], n: int, apart: Mapping[str, float | None]) -> Self:
        """Values by name, one for all or ``[particle]``.

        Those of `apart` are columns also where one is for all. They have there what the model says,
        if it is a number.
        """
        known = {name: value for name, value in apart.items() if value is not None}
        columns = known | {k: row for k, row in rows.items() if k in apart or np.ndim(row)}
        numbers = {k: float(row) for k, row in rows.items() if k not in columns}
        return cls(n, tuple(columns), beside(columns, n), numbers)

    @property
    def columns(self) -> dict[str, FloatArray]:
        """Columns ``[1 or particle]`` by name."""
        return dict(zip(self.names, self.table.T, strict=True))

    def like(self, before: Given | None) -> bool:
        """Return whether the same names have columns of that length, beside the same numbers."""
        return before is not None and (
            (self.n, self.names, self.numbers, self.table.shape)
            == (before.n, before.names, before.numbers, before.table.shape)
        )

    @cached_property
    def places(self) -> dict[str, int]:
        """Column of each name."""
        return {name: place for place, name in enumerate(self.names)}

    def with_columns(self, names: tuple[str, ...], values: FloatArray) -> Given | None:
        """The same with other columns ``[particle, name]``; None where one has no column of n."""
        places = self.places
        if len(self.table) != self.n or any(name not in places for name in names):
            return None
        result = replace(self, table=self.table.copy())
        result.__dict__["places"] = places
        result.table[:, [places[name] for name in names]] = values
        return result

    def changes(self, before: Given) -> dict[str, FloatArray]:
        """Columns with other bits than `before`, which is `like` these."""
        same = (self.table.view(np.uint64) == before.table.view(np.uint64)).all(axis=0)
        each = zip(self.columns.items(), same, strict=True)
        return {name: column for (name, column), kept in each if not kept}

    def options(self, options: Options) -> Options:
        """Options with these values, of one trajectory where all have the same."""
        values: dict[str, float | FloatArray] = {**self.numbers, **self.columns}
        return replace(options, n=len(self.table), set=values)

    def of_all(self, options: Options) -> Options:
        """Options that `options` gave, of all particles."""
        if len(self.table) == self.n:
            return options
        return replace(options, n=self.n, set=self.numbers)


class Following:
    """Constants of rate laws that follow some parameters, whose values change again and again."""

    def __init__(self, lowered: LoweredNetwork, names: tuple[str, ...]) -> None:
        self._lowered, self._names = lowered, names
        places = {name: place for place, name in enumerate(names)}
        each = list(enumerate(lowered.constants))
        alone = [(i, places[c.name]) for i, c in each
                 if isinstance(c, Symbol) and c.name in places]  # fmt: skip
        self._columns = np.array(alone, np.int64).reshape(-1, 2).T
        self._others = [i for i, c in each
                        if not isinstance(c, Symbol) and symbols(c) & places.keys()]  # fmt: skip

    def of(self, lowered: LoweredNetwork, names: tuple[str, ...]) -> bool:
        """Return whether it is of this network and these names."""
        return lowered is self._lowered and names == self._names

    def constants(self, task: NetworkTask, given: Given, values: FloatArray) -> FloatArray:
        """Constants of a task ``[particle, constant]`` with these values ``[particle, name]``."""
        result = task.constants.copy()
        to, by = self._columns
        result[:, to] = values[:, by]
        if self._others:
            rows = {**task.varying, **given.columns}
            result[:, self._others] = self._lowered.constant_rows(rows, len(result), self._others)
        return result


def number_of(network: Network, name: str) -> float | None:
    """The value of a parameter, or of an initial amount, if the model has a number for it."""
    species = network.species.get(name)
    tree = network.parameters.get(name) if species is None else species.initial
    return tree.value if isinstance(tree, Number) else None


def behind_amounts(network: Network) -> frozenset[str]:
    """Names of all species, and of what their initial amounts use."""
    trees = {**network.rule_expressions(), **network.parameters}
    trees |= {name: species.initial for name, species in network.species.items()}
    return _used_by(network.species, trees)


def behind_exponents(network: Network) -> frozenset[str]:
    """Names of what exponents use: a whole one that is a number has other bits than a power."""
    trees = {**network.rule_expressions(), **network.parameters}
    each = [*trees.values(), *network.rates.values(), *(r.law for r in network.reactions)]
    for event in as_events(network.events):
        each += [event.trigger, *event.assignments.values()]
        each += [tree for tree in (event.delay, event.priority) if tree is not None]
    powers = (
        part.arguments[1]
        for tree in each
        for part in arguments_first(tree)
        if isinstance(part, Call) and part.function == "pow"
    )
    return _used_by(set().union(*map(symbols, powers)), trees)


def _used_by(names: Iterable[str], trees: Mapping[str, Expression]) -> frozenset[str]:
    """`names`, and all that their trees use."""
    result, waiting = set(names), set(names)
    while waiting:
        waiting = set().union(*(symbols(trees[name]) for name in waiting if name in trees)) - result
        result |= waiting
    return frozenset(result)

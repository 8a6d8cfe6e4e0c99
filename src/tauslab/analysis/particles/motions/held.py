"""Amounts in states of species that nothing changes: their values may be set at any time.

A whole amount has a column of counts, as in results; any other is a number in propensities and an
observable. No propensity reads a column of such a species: users read it.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tauslab.analysis.particles.motions.motion import own_rows
from tauslab.base.arrays import FloatArray, Int32Array
from tauslab.kernels.network.lowering import Constant
from tauslab.model.expressions.expression import Number
from tauslab.runner.ensemble.task import NetworkTask


def held_alike(before: NetworkTask, now: NetworkTask, names: Collection[str]) -> bool:
    """Return whether each of these species is whole, the same in all particles, and was before."""
    if before.unrounded or now.unrounded:
        return False
    columns = [now.lowered.species.index(name) for name in names]
    first = before.initial[:1, columns]
    return all(bool((task.initial[:, columns] == first).all()) for task in (before, now))


def counts_anew(
    before: NetworkTask, now: NetworkTask, names: Collection[str], own: Int32Array, rows: slice
) -> Int32Array:
    """Counts ``[particle of this rank, species]`` as `now` has columns, from counts of `before`."""
    old, new, species = before.lowered.recorded, now.lowered.recorded, now.lowered.species
    held = own_rows(now.initial, rows)
    counts = np.empty((len(own), len(new)), np.int32)
    for column, number in enumerate(new):
        constant = species[number] in names
        counts[:, column] = held[:, number] if constant else own[:, old.index(number)]
    return counts


def held_amounts(task: NetworkTask, name: str, rows: slice) -> FloatArray:
    """Amounts ``[particle of this rank]``, or one of all, of a species that nothing changes."""
    lowered = task.lowered
    if name not in task.unrounded:
        number = lowered.species.index(name)
        return np.asarray(own_rows(task.initial, rows)[:, number], np.float64)
    tree = dict(lowered.observables)[name]
    if isinstance(tree, Constant):
        return np.asarray(own_rows(task.constants, rows)[:, tree.index], np.float64)
    assert isinstance(tree, Number)
    return np.array([tree.value])

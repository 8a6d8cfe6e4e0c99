"""Sums over groups of walkers, one number after the other: the same bits on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Groups:
    """Members of groups, which follow each other.

    Attributes
    ----------
    group
        int64 ``[member]``: number of its group, from 0 and increasing.
    starts, sizes
        int64 ``[group]``: its first member, and how many there are.
    """

    group: IntArray
    starts: IntArray
    sizes: IntArray

    @classmethod
    def of(cls, labels: IntArray) -> Groups:
        """Groups of equal neighbours."""
        new = np.ones(len(labels), bool)
        new[1:] = np.diff(labels) != 0
        starts = np.flatnonzero(new)
        sizes = np.diff(np.append(starts, len(labels)))
        return cls(np.cumsum(new) - 1, starts, sizes)

    def reduce(self, function: Any, values: FloatArray) -> FloatArray:
        """`np.minimum` or `np.maximum`, whose order does not matter, of each group."""
        return np.asarray(function.reduceat(values, self.starts))

    def running_sums(self, values: FloatArray) -> FloatArray:
        """Sum ``[member]`` of a group up to each member, added in their order."""
        found = np.empty(len(values))
        for rows, table, here in self.tables(values):
            sums = np.add.accumulate(table, axis=1)
            found[self._places(rows, table.shape[1])[here]] = sums[here]
        return found

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum of each group, added in the order of its members."""
        return np.asarray(self.running_sums(values)[self.starts + self.sizes - 1])

    def tables(self, values: FloatArray) -> Iterator[tuple[IntArray, FloatArray, Any]]:
        """Groups of about the same size as rows of a table, with zeros after the last member.

        Yields
        ------
        Numbers of groups ``[row]``, values ``[row, place]``, and which places hold a member.
        """
        kinds = np.frexp(self.sizes.astype(np.float64))[1]
        for kind in np.unique(kinds):
            rows = np.flatnonzero(kinds == kind)
            width = int(self.sizes[rows].max())
            here = np.arange(width) < self.sizes[rows, None]
            places = self._places(rows, width)
            yield rows, np.where(here, values[np.where(here, places, 0)], 0.0), here

    def _places(self, rows: IntArray, width: int) -> IntArray:
        return np.asarray(self.starts[rows, None] + np.arange(width))

"""Splitting and merging of walkers: a fixed number in every bin, without bias.

Sums over groups of walkers add one number after the other: the same bits on every machine.
"""

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


def split_and_merge(
    labels: IntArray, progress: FloatArray, weights: FloatArray, walkers: int, uniforms: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Make `walkers` walkers of equal weight in each bin of the walkers there (Huber and Kim 1996).

    Within a bin of weight w a walker of weight w_i becomes ``walkers w_i / w`` walkers on average,
    the next smaller or the next larger whole number: systematic resampling in the order of
    progress, which has no bias (Aristoff and Zuckerman, Multiscale Model. Simul. 18, 646 (2020)).

    Parameters
    ----------
    labels
        int64 ``[walker]``: run and bin of each, as one number.
    progress, weights
        f64 ``[walker]``; weights above 0.
    uniforms
        In [0, 1), one per label.

    Returns
    -------
    Ancestors and new weights, bin by bin.
    """
    order = np.lexsort((progress, labels))  # stable: equal ones stay in their order
    bins = Groups.of(labels[order])
    ladder = bins.running_sums(weights[order])
    totals = ladder[bins.starts + bins.sizes - 1]
    shifts = uniforms[labels[order][bins.starts]]
    # Places (j + shift) / walkers of the bin's weight, j = 0, 1, ...: how many lie below each rung.
    share = ladder / totals[bins.group] * walkers - shifts[bins.group]
    below = np.clip(np.ceil(share), 0, walkers).astype(np.int64)
    below[bins.starts + bins.sizes - 1] = walkers
    copies = np.diff(below, prepend=0)
    copies[bins.starts] = below[bins.starts]
    return np.repeat(order, copies), np.repeat(totals / walkers, walkers)

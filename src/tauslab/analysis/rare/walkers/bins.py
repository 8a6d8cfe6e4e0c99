"""Bins of walkers along the coordinate, given or adaptive, and a fixed number of walkers in each.

Sums over groups of walkers add one number after the other: the same bits on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.options.values.checks import within

Bins: TypeAlias = int | str | Sequence[float] | FloatArray

DEFAULT_BINS = 25
_MOST = 10_000
_ADAPTIVE = re.compile(r"adaptive(?::(\d+))?\Z")


class Binning(Protocol):
    """The bins of walkers."""

    @property
    def size(self) -> int:
        """Bins of a run at most."""

    def bins_of(self, progress: FloatArray, weights: FloatArray, runs: IntArray) -> IntArray:
        """Numbers ``[walker]`` of bins from 0 to ``size - 1``, within each run."""


@dataclass(frozen=True)
class FixedBins:
    """Bins between `edges` f64 ``[edge]`` of progress, which increase; one more at either end."""

    edges: FloatArray

    @property
    def size(self) -> int:
        """Bins of a run."""
        return len(self.edges) + 1

    def bins_of(self, progress: FloatArray, weights: FloatArray, runs: IntArray) -> IntArray:
        """The bin by the edges at or below the progress of a walker."""
        del weights, runs
        return np.asarray(np.searchsorted(self.edges, progress, side="right"), np.int64)


ONE_BIN = FixedBins(np.zeros(0))


@dataclass(frozen=True)
class AdaptiveBins:
    """Minimal adaptive binning (Torrillo, Bogetti and Chong, J. Phys. Chem. A 125, 1642 (2021)).

    At every resampling `linear` bins of equal width lie between the hindmost and the foremost
    walker of a run. Two places have a bin of their own: the foremost one, and the bottleneck,
    where the weight over that of all walkers further on is largest. Walkers of one place share it,
    for coordinates of counts are discrete.
    """

    linear: int

    @property
    def size(self) -> int:
        """Bins of a run at most."""
        return self.linear + 2

    def bins_of(self, progress: FloatArray, weights: FloatArray, runs: IntArray) -> IntArray:
        """Bins by what the walkers of each run are now, and by nothing else."""
        result = np.zeros(len(progress), np.int64)
        if not len(progress):
            return result
        grouped = Groups.of(runs)
        low = grouped.reduce(np.minimum, progress)[grouped.group]
        high = grouped.reduce(np.maximum, progress)[grouped.group]
        width = np.where(high > low, high - low, 1.0)
        share = np.floor((progress - low) / width * self.linear)
        result = np.clip(share, 0, self.linear - 1).astype(np.int64)
        result[self._bottleneck(progress, weights, runs)] = self.linear + 1
        result[progress == high] = self.linear
        return result

    def _bottleneck(self, progress: FloatArray, weights: FloatArray, runs: IntArray) -> IntArray:
        """Walkers at the place with the largest weight over what is further on."""
        order = np.lexsort((-progress, runs))
        place = np.ones(len(order), bool)  # where another place or run begins
        place[1:] = (np.diff(progress[order]) != 0) | (np.diff(runs[order]) != 0)
        number = np.cumsum(place) - 1  # of the place of each walker, in this order
        held = Groups.of(number).sums(weights[order])
        of_place = runs[order][place]
        by_run = Groups.of(of_place)
        reached = by_run.running_sums(held)  # from the foremost place to this one
        ahead = reached - held
        with np.errstate(divide="ignore"):
            ratio = np.where(ahead > 0, held / np.where(ahead > 0, ahead, 1.0), -1.0)
        most = by_run.reduce(np.maximum, ratio)[by_run.group]
        chosen = (ratio == most) & (ratio > 0)
        return np.asarray(order[chosen[number]], np.int64)


def binning_of(bins: Bins | None, start: float, end: float | None, sign: int) -> Binning:
    """Bins as a user says them.

    Parameters
    ----------
    start, end
        Progress at the start and at the target; `end` is None where it is not known.

    Raises
    ------
    ConfigError
        They are no bins, or equal ones without an end.
    """
    if bins is None:
        bins = DEFAULT_BINS if _between(start, end) else f"adaptive:{DEFAULT_BINS}"
    if isinstance(bins, str):
        result = _ADAPTIVE.match(bins)
        if not result:
            raise ConfigError(
                f'{assigned("bins")}"{bins}" is not allowed: a number of bins, edges, or adaptive:N'
            )
        number = int(result[1] or DEFAULT_BINS)
        within("bins", number, 1, _MOST)
        return AdaptiveBins(number)
    if isinstance(bins, int | np.integer):
        within("bins", bins, 1, _MOST)
        if bins > 1 and not _between(start, end):
            raise ConfigError(
                f"{opt('bins', bins)}: equal bins need a target that bounds the coordinate ahead "
                "of the start; give edges, or adaptive:N"
            )
        if end is None:
            return ONE_BIN
        steps = np.arange(1, int(bins)) / int(bins)
        return FixedBins(np.unique(start + (end - start) * steps))
    try:
        edges = np.asarray(bins, np.float64)
    except (TypeError, ValueError):
        edges = np.full((1, 1), np.nan)
    if edges.ndim != 1 or not np.isfinite(edges).all() or len(edges) >= _MOST:
        raise ConfigError(
            f"{opt('bins')}: edges must be finite numbers in a row, fewer than {_MOST}"
        )
    return FixedBins(np.unique(sign * edges))


def _between(start: float, end: float | None) -> bool:
    return end is not None and np.isfinite(end) and np.isfinite(start) and start < end


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
        result = np.empty(len(values))
        for rows, table, local in self.tables(values):
            sums = np.add.accumulate(table, axis=1)
            result[self._places(rows, table.shape[1])[local]] = sums[local]
        return result

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
            local = np.arange(width) < self.sizes[rows, None]
            places = self._places(rows, width)
            yield rows, np.where(local, values[np.where(local, places, 0)], 0.0), local

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

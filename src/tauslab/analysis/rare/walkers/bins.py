"""Bins of walkers along the coordinate: given ones, or ones that follow the walkers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from tauslab.analysis.rare.walkers.resampling import Groups
from tauslab.base.arrays import FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.options.values.checks import within

Bins: TypeAlias = int | str | Sequence[float] | FloatArray

DEFAULT_BINS = 25
_MOST = 10_000
_ADAPTIVE = re.compile(r"adaptive(?::(\d+))?\Z")


class Binning(Protocol):
    """Which bin each walker is in."""

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
        found = np.zeros(len(progress), np.int64)
        if not len(progress):
            return found
        grouped = Groups.of(runs)
        low = grouped.reduce(np.minimum, progress)[grouped.group]
        high = grouped.reduce(np.maximum, progress)[grouped.group]
        width = np.where(high > low, high - low, 1.0)
        share = np.floor((progress - low) / width * self.linear)
        found = np.clip(share, 0, self.linear - 1).astype(np.int64)
        found[self._bottleneck(progress, weights, runs)] = self.linear + 1
        found[progress == high] = self.linear
        return found

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
        found = _ADAPTIVE.match(bins)
        if not found:
            raise ConfigError(
                f'{assigned("bins")}"{bins}" is not allowed: a number of bins, edges, or adaptive:N'
            )
        number = int(found[1] or DEFAULT_BINS)
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
        return FixedBins(_increasing(start + (end - start) * steps))
    try:
        edges = np.asarray(bins, np.float64)
    except (TypeError, ValueError):
        edges = np.full((1, 1), np.nan)
    if edges.ndim != 1 or not np.isfinite(edges).all() or len(edges) >= _MOST:
        raise ConfigError(
            f"{opt('bins')}: edges must be finite numbers in a row, fewer than {_MOST}"
        )
    return FixedBins(_increasing(sign * edges))


def _between(start: float, end: float | None) -> bool:
    return end is not None and np.isfinite(end) and np.isfinite(start) and start < end


def _increasing(edges: FloatArray) -> FloatArray:
    return np.unique(edges)

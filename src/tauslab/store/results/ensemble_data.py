"""The numbers of an ensemble: samples, statistics, histograms, summaries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray, UintArray
from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.option_names import assigned, warn
from tauslab.kernels.ensemble.sums import POWERS
from tauslab.store.results import pointwise, sums
from tauslab.store.results.columns import quantile_levels
from tauslab.store.results.recorded import Recorded
from tauslab.store.results.samples import (
    dataset_of,
    finished_rows,
    has_samples,
    index_of,
    is_whole,
    missing_error,
    place_of,
    require_known,
    require_some,
    status_of,
    summary_name,
)
from tauslab.store.results.validity import ended_early


class Moments(NamedTuple):
    """Number of trajectories for which a summary is not NaN, and its mean and standard deviation.

    `n`, `mean` and `std` are numbers, or arrays ``[point]`` in a sweep.
    """

    n: npt.NDArray[np.int64]
    mean: FloatArray
    std: FloatArray


def _names(species: str | Sequence[str]) -> list[str]:
    names = [species] if isinstance(species, str) or not isinstance(species, Iterable) else species
    for name in names:
        if not isinstance(name, str):
            raise ConfigError(f"species are named by texts, not {name!r}")
    return list(names)


class EnsembleData(Recorded):
    """Samples and statistics of an ensemble, of a file or in memory; users get a `Result`."""

    def counts(self, species: str | Sequence[str] | None = None) -> npt.NDArray[np.int32]:
        """Recorded counts, in molecules.

        Returns
        -------
        int32 ``[trajectory, time, species]``; ``[trajectory, time]`` for a single name. -1 after a
        trajectory ended early. Of an unfinished run, the finished trajectories.

        Raises
        ------
        ConfigError
            The species is not known, or counts were not recorded.
        InputFileError
            It is an unfinished sweep, or nothing of the run is there yet.
        """
        if self.continuous:
            raise ConfigError(f"{self.name} holds amounts, not counts: use amounts()")
        dataset = dataset_of(self, "counts", "trajectories")
        of_row: tuple[Any, ...] = ()
        if species is not None:
            of_row = slice(None), [index_of(self, name, self.species) for name in _names(species)]
        chosen = finished_rows(self, dataset, of_row)
        self._warn_of_ends()
        return chosen[..., 0] if isinstance(species, str) else chosen

    def amounts(self, species: str | Sequence[str] | None = None) -> FloatArray:
        """Recorded amounts of rate equations or hybrids, in the model's unit.

        Returns
        -------
        f64 ``[trajectory, time, species]``; ``[trajectory, time]`` for a single name. NaN after a
        trajectory ended early, and for unfinished points of a sweep.
        """
        if not self.continuous:
            raise ConfigError(f"{self.name} holds counts, not amounts: use counts()")
        values = finished_rows(self, dataset_of(self, "amounts", "trajectories"), missing=math.nan)
        if species is None:
            return values
        if isinstance(species, str):
            return values[..., index_of(self, species, self.species)]
        return values[..., [index_of(self, name, self.species) for name in _names(species)]]

    def final(self, name: str) -> npt.NDArray[np.int32] | FloatArray:
        """Counts or amounts of a species at the last sample time ``[trajectory]``.

        -1, or NaN for amounts, if a trajectory ended early.

        Raises
        ------
        ConfigError
            The species is not known, or its counts were not recorded.
        InputFileError
            It is an unfinished sweep of counts, or nothing of the run is there yet.
        """
        index = index_of(self, name, self.species)
        stored = "final" if "final" in self.data else place_of(self, name)[0]
        dataset = dataset_of(self, stored, "final")
        place = (index,) if stored == "final" else (-1, index)
        values = finished_rows(self, dataset, place, missing=math.nan if self.continuous else None)
        if not self.continuous:
            self._warn_of_ends()
        return values

    def summary(self, name: str) -> FloatArray:
        """A recorded number per trajectory, f64 ``[trajectory]``.

        Parameters
        ----------
        name
            A name in `summaries`, such as ``amplitude:cAMP:500``, or a unique beginning of it,
            such as ``amplitude``.

        Returns
        -------
        NaN if the summary is undefined for the trajectory (docs/run.md), or if the trajectory
        ended early or is unfinished.

        Raises
        ------
        ConfigError
            No summary, or more than one, has this name.
        """
        dataset = dataset_of(self, f"summary/{summary_name(self, name)}", f"summary:{name}")
        return np.asarray(finished_rows(self, dataset, missing=math.nan), np.float64)

    def summary_moments(self, name: str) -> Moments:
        """Number, mean and standard deviation (n - 1) of the values of a summary that are not NaN.

        In a sweep ``[point]``; NaN for too few values.
        """
        values = self.summary(name)
        valid = np.isfinite(values)
        n = valid.sum(-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(valid, values, 0.0).sum(-1) / n
            spread = np.where(valid, values - mean[..., None], 0.0)
            deviation = np.sqrt((spread**2).sum(-1) / np.where(n > 1, n - 1, np.nan))
        return Moments(n, mean, deviation)

    # --- statistics ---

    def mean(self, name: str) -> FloatArray:
        """Mean over the trajectories that had not ended early, ``[time]``, in `amount_unit`.

        It is the same whether statistics or trajectories were recorded. Samples of an observable
        that are not finite are omitted, with a warning.
        """
        return self._moments(name)[0]

    def variance(self, name: str) -> FloatArray:
        """Variance over the trajectories (divided by n - 1), ``[time]``, in `amount_unit` squared.

        For the same trajectories as `mean`.
        """
        return self._moments(name)[1]

    def std(self, name: str) -> FloatArray:
        """Square root of `variance`, ``[time]``, in `amount_unit`."""
        return np.sqrt(self.variance(name))

    def sem(self, name: str) -> FloatArray:
        """Standard error of `mean`, ``[time]``: `std` over the root of the number of trajectories.

        This is only the sampling error, without errors of leaps or of a time step.
        """
        require_known(self, name)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self.std(name) / np.sqrt(sums.numbers(self, name))
        return np.asarray(values)

    def cv(self, name: str) -> FloatArray:
        """Coefficient of variation, `std` over `mean`, ``[time]``; NaN or inf where that is 0."""
        return self._over_mean(self.std(name), name)

    def fano(self, name: str) -> FloatArray:
        """Fano factor, `variance` over `mean`, ``[time]``; NaN or inf where the mean is 0."""
        return self._over_mean(self.variance(name), name)

    def skewness(self, name: str) -> FloatArray:
        """Skewness of a species' counts over the trajectories, ``[time]``.

        The third central moment divided by the second to the power 3/2, of the same trajectories
        as `mean`; NaN if all counts are equal.

        Raises
        ------
        ConfigError
            The name is not known, or that of a real quantity, of which third powers are not summed.
        InputFileError
            An earlier version recorded the statistics, and there are no samples.
        """
        return self._standardised(name, 3, "skewness")

    def _standardised(self, name: str, order: int, what: str) -> FloatArray:
        require_known(self, name)
        if not is_whole(self, name):
            raise ConfigError(f"{what} of {name}: powers are summed of counts alone")
        require_some(self)
        stored = f"statistics/{POWERS[order - 1].stored[0]}"
        if not (stored in self.data or has_samples(self, name)):
            if "statistics/n" not in self.data:
                raise missing_error(self, "statistics")
            raise InputFileError(
                f"{self.name} has no /{stored}: an earlier version of tauslab wrote it, "
                "which did not sum these powers: run it again"
            )
        values = sums.standardised(self, name, order)
        return values if self.swept else values[0]

    def quantile(self, name: str, q: float | Sequence[float]) -> FloatArray:
        """Quantile over the trajectories, from recorded samples.

        The smallest recorded value x with F(x) >= q.

        Returns
        -------
        ``[time]``, or ``[level, time]`` for several levels; in a sweep with the point first.

        Raises
        ------
        ConfigError
            A level outside 0 to 1, an unknown name, or samples were not recorded.
        """
        values = pointwise.quantiles(self, name, quantile_levels(q))
        values = values if self.swept else values[0]
        return values if np.ndim(q) else values[..., 0, :]

    def histogram(
        self,
        name: str,
        t: float | None = None,
        bins: int | Sequence[float] | FloatArray | None = None,
    ) -> tuple[UintArray, FloatArray]:
        """Numbers of trajectories per bin at sample time `t`, and the edges of the bins.

        Parameters
        ----------
        t
            By default the last sample time.
        bins
            As in `numpy.histogram`. By default a bin for each integer between the smallest and the
            largest count (wider bins if there are more than 4 million); if only histograms were
            recorded, their bins, without the counts below and above the range.

        Raises
        ------
        ConfigError
            `t` is not a sample time, or neither samples nor a histogram of `name` were recorded.
        """
        time = len(self.times) - 1 if t is None else self.time_index(t)
        if not has_samples(self, name):
            cells, edges = self.stored_histogram(name)
            if bins is not None:
                raise ConfigError(
                    f"only a histogram of {name} was recorded, so its bins cannot be chosen"
                )
            return cells[..., time, 1:-1], edges
        numbers, edges = pointwise.histogram(self, name, time, bins)
        return (numbers if self.swept else numbers[0]), edges

    def stored_histogram(self, name: str) -> tuple[UintArray, FloatArray]:
        """Histogram as the run recorded it: cells ``[time, bins + 2]`` and edges ``[bins + 1]``.

        The first cell counts values below the range, the last cell values above it.
        """
        require_known(self, name)
        key = f"statistics/histogram/{name}"
        require_some(self)
        if key not in self.data:
            raise ConfigError(
                f"{self.name}: neither trajectories nor a histogram of {name} were recorded "
                f'({assigned("record")}"trajectories" or "histogram:{name}:LO:HI:BINS")'
            )
        edges = np.asarray(self.data[f"{key}_edges"][()], np.float64)
        cells = np.asarray(self.data[key][()], np.uint64)
        return (cells.sum(axis=0) if "group" in self.attributes else cells), edges

    @property
    def status(self) -> npt.NDArray[np.uint8]:
        """Final status of each trajectory, ``[trajectory]``; of an unfinished run, in done blocks.

        0 done, 1 absorbed, 2 overflow, 3 step_limit, 4 nan, 5 event_queue, 6 event_cascade,
        8 delay_queue, 9 negative_delay, 10 delay_history, 255 unfinished in a sweep.
        """
        return status_of(self)

    # --- house-keeping ---

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._close is not None:
            self._close()

    # --- helpers ---

    def _warn_of_ends(self) -> None:
        """Warn, once, where samples of a file are -1: trajectories that ended early."""
        if self.path is None or self._warned_of_ends:
            return
        self._warned_of_ends = True
        if early := int(ended_early(self.status).sum()):
            warn(
                f"{self.name}: {early} of {self.status.size} trajectories ended early, and their "
                "counts are -1 from then on: leave these out of averages"
            )

    def _over_mean(self, spread: FloatArray, name: str) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(spread / self.mean(name))

    def _moments(self, name: str) -> tuple[FloatArray, FloatArray]:
        require_known(self, name)
        if f"{place_of(self, name)[1]}/n" in self.data:
            require_some(self)
        elif not has_samples(self, name):
            raise missing_error(self, "statistics")
        mean, variance = sums.moments(self, name)
        return (mean, variance) if self.swept else (mean[0], variance[0])

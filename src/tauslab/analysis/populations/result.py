"""A population at each time, its divisions, and statistics of generations."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tauslab.analysis.particles.sums import fixed_sum
from tauslab.analysis.populations.families import Growth, descendants, growth
from tauslab.base.arrays import Array, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import warn
from tauslab.model.network.counts import some
from tauslab.store.checking.opening import POPULATION
from tauslab.store.results.array_result import ArrayResult, named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.store.state import State
from tauslab.views.states import plot_population

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINES = 12
# What a file has of each cell, in the order of `Snapshot`, and of each division: the name there,
# and in `Divisions`.
_OF_CELLS = ("cell", "mother", "founder", "generation", "age")
_OF_DIVISIONS = {
    "division_cell": "cell", "division_mother": "mother", "division_founder": "founder",
    "division_generation": "generation", "born": "born", "divided": "divided",
    "at_birth": "at_birth", "at_division": "at_division", "log_weight": "log_weight",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All cells at one time.

    Attributes
    ----------
    time
        In the model's unit.
    names
        Names of the columns of `values`: species and recorded rules.
    values
        f64 ``[cell, name]``.
    cell, mother, founder, generation
        int64 ``[cell]``: number of each cell, of its mother (-1 of cells at the start), of the
        first cell of its line, and how often its line divided.
    age
        f64 ``[cell]``: time since birth; of cells at the start since then, or since the time before
        0 that is in the one species which the division sets to its time.
    log_size
        Logarithm of the number of cells that there are, with cells that were given up by chance.
    log_pairs
        What thinnings make of pairs of cells: `families.pairs_factor`. NaN where one daughter is
        followed.
    """

    time: float
    names: tuple[str, ...]
    values: FloatArray
    cell: IntArray
    mother: IntArray
    founder: IntArray
    generation: IntArray
    age: FloatArray
    log_size: float
    log_pairs: float = math.nan

    def __getitem__(self, name: str) -> FloatArray:
        """Values ``[cell]`` of a species or rule."""
        if name not in self.names:
            known = some(dict.fromkeys(self.names))
            raise ConfigError(f"{name!r} is not of this population; it has {known}")
        return self.values[:, self.names.index(name)]

    def __len__(self) -> int:
        """Number of cells."""
        return len(self.cell)

    def mean(self, name: str) -> float:
        """Mean over cells."""
        return fixed_sum(self[name]) / len(self)

    def var(self, name: str) -> float:
        """Variance over cells; NaN of one, and where a value is not finite."""
        if len(self) == 1:
            return float("nan")
        with np.errstate(invalid="ignore"):  # of a rule that is infinite in a cell: NaN
            return fixed_sum((self[name] - self.mean(name)) ** 2) / (len(self) - 1)


@dataclass(frozen=True)
class Generation:
    """Cells of one generation that divided.

    Attributes
    ----------
    generation, divisions, undivided
        Its number, how many divided, and how many of this generation or an earlier one are among
        the cells of the last time: above 0, slow divisions are missing, and times too short.
    time_mean, time_sd
        Of the time from birth to division.
    birth_mean, birth_sd, division_mean, division_sd
        Of each species by name, at birth and at division. Deviations of one division are NaN.
    """

    generation: int
    divisions: int
    undivided: int
    time_mean: float
    time_sd: float
    birth_mean: Mapping[str, float]
    birth_sd: Mapping[str, float]
    division_mean: Mapping[str, float]
    division_sd: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Divisions:
    """Cells that divided, in the order of their divisions.

    Attributes
    ----------
    cell, mother, founder, generation
        int64 ``[division]``, as of `Snapshot`.
    born, divided
        f64 ``[division]``: times.
    at_birth, at_division
        f64 ``[division, species]``; at division before the daughters share.
    log_weight
        f64 ``[division]``: logarithm of how many cells of the whole population it stands for.
    names
        Names of species.
    """

    names: tuple[str, ...]
    cell: IntArray
    mother: IntArray
    founder: IntArray
    generation: IntArray
    born: FloatArray
    divided: FloatArray
    at_birth: FloatArray
    at_division: FloatArray
    log_weight: FloatArray

    def __len__(self) -> int:
        """Number of cells."""
        return len(self.cell)

    def to_pandas(self) -> Any:
        """A row per division."""
        import pandas as pd

        names = ("cell", "mother", "founder", "generation", "born", "divided", "log_weight")
        columns = {name: getattr(self, name) for name in names}
        for when in ("birth", "division"):
            for name, values in zip(self.names, getattr(self, f"at_{when}").T, strict=True):
                columns[f"{name} at {when}"] = values
        return pd.DataFrame(columns)


@dataclass(frozen=True, eq=False)
class PopulationResult(ArrayResult):
    """Result of `tauslab.population`.

    Tables of `to_pandas`: ``statistics``, by default: a row per time; ``trajectories``: a row per
    time and cell; ``final``: cells of the last time; ``divisions``: a row per division.

    Attributes
    ----------
    times
        f64 ``[time]``.
    snapshots
        All cells at each time (docs/populations.md).
    divisions
        All cells that divided, without discarded ones.
    ended
        Number of cells that overflowed or became NaN, which are omitted.
    seed
        As given or drawn.
    """

    _METHODS = (POPULATION,)
    _AXES: ClassVar = {
        "time": "time", "name": "name", "mean": "time name", "variance": "time name",
        "cells": "time", "log_size": "time", "log_pairs": "time", "values": "row name",
        **dict.fromkeys((*_OF_CELLS, "row"), "row"), "species": "species",
        "division": "division", **dict.fromkeys(_OF_DIVISIONS, "division"),
        "at_birth": "division species", "at_division": "division species",
    }  # fmt: skip
    _OPTIONAL = ("log_pairs",)

    times: FloatArray
    snapshots: tuple[Snapshot, ...]
    divisions: Divisions
    ended: int
    seed: int

    @property
    def log_size(self) -> FloatArray:
        """Logarithm ``[time]`` of the size of the whole population."""
        return np.array([one.log_size for one in self.snapshots])

    @cached_property
    def growth(self) -> Growth:
        """Growth rate and its error, or why they are unknown."""
        first, last = self.snapshots[0], self.snapshots[-1]
        if len(self.times) == 1:
            return Growth(math.nan, math.nan, math.nan, "of one time: give two or more")
        if len(self.divisions) and last.log_size == first.log_size and math.isnan(last.log_pairs):
            return Growth(math.nan, math.nan, math.nan, "where one daughter is followed")
        known = self.divisions.cell, self.divisions.mother
        cells, mothers = (
            np.concatenate([*(getattr(one, of) for one in self.snapshots), more])
            for of, more in zip(("cell", "mother"), known, strict=True)
        )
        return growth(
            last.log_size - first.log_size, float(self.times[-1] - self.times[0]),
            last.log_pairs - first.log_pairs, descendants(first.cell, last.cell, (cells, mothers)),
        )  # fmt: skip

    @property
    def growth_rate(self) -> float:
        """Slope of the logarithm of the mean number of cells, from the first to the last time.

        The slope of `log_size`, corrected by half its variance. NaN for a single time and for
        lineages, with a warning.
        """
        if math.isnan(self.growth.rate):
            warn(str(self.growth))
        return self.growth.rate

    @property
    def growth_error(self) -> float:
        """Standard error of `growth_rate`, from the spread of the numbers of descendants.

        Widened for few families; a warning appears if there are too few. NaN if all numbers are
        equal.
        """
        if self.growth.unknown or self.growth.doubt:
            warn(str(self.growth))
        return self.growth.error

    def generations(self) -> list[Generation]:
        """Statistics of each generation's divisions, weighted by the cells that each represents.

        A generation with `undivided` cells contains only the early divisions.
        """
        result, all_ = [], self.divisions
        last = np.sort(self.snapshots[-1].generation)
        for number in np.unique(all_.generation).tolist():
            of = all_.generation == number
            logs = all_.log_weight[of]
            weights = np.exp(logs - logs.max())
            weights = weights / fixed_sum(weights)
            time_mean, time_sd = _moments((all_.divided - all_.born)[of][:, None], weights)
            birth, birth_sd = _moments(all_.at_birth[of], weights)
            end, end_sd = _moments(all_.at_division[of], weights)
            named = [
                dict(zip(all_.names, row.tolist(), strict=True))
                for row in (birth, birth_sd, end, end_sd)
            ]
            undivided = int(np.searchsorted(last, number, "right"))
            result.append(
                Generation(
                    number, int(of.sum()), undivided, float(time_mean[0]), float(time_sd[0]), *named
                )
            )
        return result

    def __repr__(self) -> str:
        """One line: how many cells, when, and how they grow."""
        last = self.snapshots[-1]
        return (
            f"<PopulationResult: {len(last)} cells at t = {last.time:g} ({len(self.times)} times), "
            f"{len(self.divisions)} divisions, {self.growth}, "
            f"seed {self.seed}>"
        )

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them; cells of all times in one row."""
        looks, names = self.snapshots, self.snapshots[0].names
        result: dict[str, Array] = {
            "time": self.times,
            "name": np.array(names),
            "mean": np.array([[one.mean(name) for name in names] for one in looks]),
            "variance": np.array([[one.var(name) for name in names] for one in looks]),
            "cells": np.array([len(one) for one in looks], np.int64),
            "log_size": self.log_size,
            "log_pairs": np.array([one.log_pairs for one in looks]),
            "values": np.concatenate([one.values for one in looks]),  # noqa: PD011 - an array
        }
        result |= {of: np.concatenate([getattr(one, of) for one in looks]) for of in _OF_CELLS}
        result["row"] = np.arange(len(result["cell"]))
        result["species"] = np.array(self.divisions.names)
        result["division"] = np.arange(len(self.divisions))
        return result | {n: getattr(self.divisions, of) for n, of in _OF_DIVISIONS.items()}

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON, with None for NaN."""
        arrays = self.arrays()
        names = arrays["name"].tolist()
        return {
            "method": POPULATION,
            "seed": self.seed,
            "time": self.times.tolist(),
            "cells": arrays["cells"].tolist(),
            "log_size": self.log_size.tolist(),
            "growth_rate": numbers_or_none(self.growth.rate),
            "growth_error": numbers_or_none(self.growth.error),
            "divisions": len(self.divisions),
            "ended": self.ended,
            **{
                what: {n: numbers_or_none(arrays[what][:, i]) for i, n in enumerate(names)}
                for what in ("mean", "variance")
            },
        }

    def lines(self) -> list[str]:
        """The result in lines of text, as `tauslab info` prints it."""
        last = self.snapshots[-1]
        whole = math.exp(min(self.log_size[-1], 700.0))
        since = f", from t = {self.times[0]:g} on" if len(self.times) > 1 else ""
        lines = [
            f"{len(last)} cells at t = {last.time:g}, which stand for {whole:.6g}",
            f"{len(self.divisions)} divisions, {self.growth}{since}",
        ]
        for name in last.names[:_MOST_LINES]:
            mean, sd = last.mean(name), np.sqrt(last.var(name))
            lines.append(f"{name} at t = {last.time:g}: mean {mean:.6g}, sd {sd:.4g}")
        if self.ended:
            lines.append(f"{self.ended} cells ended early and are left out")
        return [*lines, f"seed {self.seed}"]

    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        return {
            "statistics": self._statistics, "trajectories": self._cells,
            "final": lambda: self._cells(len(self.snapshots) - 1), "divisions": self._divided,
        }  # fmt: skip

    def _statistics(self) -> ResultTable:
        arrays = self.arrays()
        columns = {name: arrays[name] for name in ("time", "cells", "log_size")}
        for i, name in enumerate(arrays["name"].tolist()):
            columns[f"{name}_mean"] = arrays["mean"][:, i]
            columns[f"{name}_sd"] = np.sqrt(arrays["variance"][:, i])
        return named_columns(columns)

    def _cells(self, since: int = 0) -> ResultTable:
        """Cells of each time from the one with this number on."""
        columns = []
        for one in self.snapshots[since:]:
            own = [getattr(one, name) for name in _OF_CELLS]
            columns.append([np.full(len(one), one.time), *own, *one.values.T])  # noqa: PD011 - an array
        header = ("time", *_OF_CELLS, *self.snapshots[0].names)
        return ResultTable(header, iter([list(map(np.concatenate, zip(*columns, strict=True)))]))

    def _divided(self) -> ResultTable:
        arrays = {name: getattr(self.divisions, of) for name, of in _OF_DIVISIONS.items()}
        columns = {name: array for name, array in arrays.items() if array.ndim == 1}
        for when in ("at_birth", "at_division"):
            names = [f"{name}_{when}" for name in self.divisions.names]
            columns |= dict(zip(names, arrays[when].T, strict=True))
        return named_columns(columns)

    def _attributes(self) -> dict[str, Any]:
        return {
            "method": POPULATION, "seed": np.uint64(self.seed), "ended": np.uint64(self.ended),
        }  # fmt: skip

    @classmethod
    def _of(cls, stored: State) -> Self:
        if int(stored["cells"].sum()) != len(stored["row"]):
            raise stored.damaged("its cells do not add up")
        names, cuts = tuple(stored["name"].tolist()), np.cumsum(stored["cells"])[:-1]
        values, *of_cells = (np.split(stored[name], cuts) for name in ("values", *_OF_CELLS))
        log_pairs = stored.get("log_pairs", np.full(len(stored["time"]), math.nan))
        snapshots = [
            Snapshot(time, names, *rest)
            for time, *rest in zip(
                stored["time"].tolist(), values, *of_cells, stored["log_size"].tolist(),
                log_pairs.tolist(), strict=True,
            )
        ]  # fmt: skip
        divisions = Divisions(
            tuple(stored["species"].tolist()), **{of: stored[n] for n, of in _OF_DIVISIONS.items()}
        )
        seed, ended = stored.whole("seed"), stored.whole("ended")
        return cls(stored["time"], tuple(snapshots), divisions, ended, seed)

    def plot(
        self,
        names: Sequence[str] = (),
        t: float | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> Figure:
        """Draw mean and two standard deviations over time, or with `t` all cells as histograms.

        Draws the first four species and rules by default. `path` as of `Chain.plot`.
        """
        looks = self.snapshots
        columns = {name: [one[name] for one in looks] for name in looks[0].names}
        return plot_population(self.times, columns, self.log_size, names, t, path)


def _moments(table: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted means and standard deviations ``[column]``; these are NaN of one row."""
    means = np.array([fixed_sum(weights * column) for column in table.T])
    squares = [
        fixed_sum(weights * (column - mean) ** 2)
        for column, mean in zip(table.T, means, strict=True)
    ]
    return means, np.sqrt(np.array(squares)) if len(table) > 1 else np.full(len(means), np.nan)

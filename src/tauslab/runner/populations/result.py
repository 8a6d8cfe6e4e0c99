"""What a population was at each time, who divided, and statistics of generations."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.model.arrays import Array, FloatArray, IntArray
from tauslab.model.errors import ConfigError, InputFileError
from tauslab.model.network.counts import some
from tauslab.model.option_names import warn
from tauslab.model.pictures.html import card, table
from tauslab.runner.output.checking.opening import POPULATION
from tauslab.runner.particles.sums import fixed_sum
from tauslab.runner.populations.columns import OF_CELLS, OF_DIVISIONS, population_columns
from tauslab.runner.populations.families import Growth, descendants, growth
from tauslab.runner.results.arrays.file import read_arrays, write_arrays

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_ROWS, _MOST_COLUMNS = 20, 8  # in a notebook


@dataclass(frozen=True)
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
        int64 ``[cell]``: number of each cell, of its mother (-1 of those at the start), of the
        first cell of its line, and how often its line divided.
    age
        f64 ``[cell]``: time since birth; of cells at the start, since then.
    log_size
        Logarithm of the number of cells that there are, those given up by chance with them.
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
    generation, divisions
        Its number, and how many divided.
    time_mean, time_sd
        Of the time from birth to division.
    birth_mean, birth_sd, division_mean, division_sd
        Of each species by name, at birth and at division.
    """

    generation: int
    divisions: int
    time_mean: float
    time_sd: float
    birth_mean: Mapping[str, float]
    birth_sd: Mapping[str, float]
    division_mean: Mapping[str, float]
    division_sd: Mapping[str, float]


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

    def __init__(self, names: tuple[str, ...], arrays: Mapping[str, Array]) -> None:
        self.names = names
        self.cell: IntArray = arrays["cell"]
        self.mother: IntArray = arrays["mother"]
        self.founder: IntArray = arrays["founder"]
        self.generation: IntArray = arrays["generation"]
        self.born: FloatArray = arrays["born"]
        self.divided: FloatArray = arrays["divided"]
        self.at_birth: FloatArray = arrays["at_birth"]
        self.at_division: FloatArray = arrays["at_division"]
        self.log_weight: FloatArray = arrays["log_weight"]

    def __len__(self) -> int:
        """How many."""
        return len(self.cell)

    def to_pandas(self) -> Any:
        """A row per division."""
        import pandas as pd

        names = ("cell", "mother", "founder", "generation", "born", "divided", "log_weight")
        columns = {name: getattr(self, name) for name in names}
        for name, values in zip(self.names, self.at_birth.T, strict=True):
            columns[f"{name} at birth"] = values
        for name, values in zip(self.names, self.at_division.T, strict=True):
            columns[f"{name} at division"] = values
        return pd.DataFrame(columns)


@dataclass(frozen=True)
class PopulationResult:
    """What `tauslab.population` gives.

    Attributes
    ----------
    times
        f64 ``[time]``.
    snapshots
        A `Snapshot` for each time.
    divisions
        All cells that divided and were not given up before.
    ended
        Cells that overflowed or met a NaN, which are left out.
    seed
        As given or drawn.
    """

    times: FloatArray
    snapshots: tuple[Snapshot, ...]
    divisions: Divisions
    ended: int
    seed: int

    @property
    def log_size(self) -> FloatArray:
        """Logarithm ``[time]`` of the number of cells that there are."""
        return np.array([one.log_size for one in self.snapshots])

    @cached_property
    def growth(self) -> Growth:
        """Rate of growth from the first time to the last, its error, or why they are not known."""
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
        """Slope of the logarithm of the mean number of cells, from the first time to the last.

        That of `log_size`, and half its variance, by which a logarithm of few cells is too low. NaN
        of one time and where one daughter is followed, with a warning.
        """
        if math.isnan(self.growth.rate):
            warn(str(self.growth))
        return self.growth.rate

    @property
    def growth_error(self) -> float:
        """Standard error of `growth_rate`, from how unequal the descendants of cells are.

        Widened for few families, so that 1.96 of it hold 95 %; a warning says where they are too
        few for that. NaN where all are equal, for that bounds no error.
        """
        if self.growth.unknown or self.growth.doubt:
            warn(str(self.growth))
        return self.growth.error

    def generations(self) -> list[Generation]:
        """Statistics of each generation's divisions, weighted by what a cell stands for."""
        found, all_ = [], self.divisions
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
            found.append(
                Generation(number, int(of.sum()), float(time_mean[0]), float(time_sd[0]), *named)
            )
        return found

    def __repr__(self) -> str:
        """One line: how many cells, when, and how they grow."""
        last = self.snapshots[-1]
        return (
            f"<PopulationResult: {len(last)} cells at t = {last.time:g} ({len(self.times)} times), "
            f"{len(self.divisions)} divisions, {self.growth}, "
            f"seed {self.seed}>"
        )

    def _repr_html_(self) -> str:
        names = self.snapshots[0].names[:_MOST_COLUMNS]
        facts = {
            "divisions": f"{len(self.divisions):,}",
            "growth rate": str(self.growth).removeprefix("growth rate "),
            "ended early": self.ended, "seed": self.seed,
        }  # fmt: skip
        rows = [
            (f"{one.time:g}", len(one), f"{one.log_size:.5g}",
             *(f"{one.mean(name):.5g}" for name in names))
            for one in self.snapshots[:_MOST_ROWS]
        ]  # fmt: skip
        header = ("time", "cells", "log of their number", *(f"mean of {name}" for name in names))
        return card(
            "PopulationResult", facts, [table(header, rows, more=len(self.times) - _MOST_ROWS)]
        )

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them; cells of all times in one row."""
        looks, names = self.snapshots, self.snapshots[0].names
        found: dict[str, Array] = {
            "time": self.times,
            "name": np.array(names),
            "mean": np.array([[one.mean(name) for name in names] for one in looks]),
            "variance": np.array([[one.var(name) for name in names] for one in looks]),
            "cells": np.array([len(one) for one in looks], np.int64),
            "log_size": self.log_size,
            "log_pairs": np.array([one.log_pairs for one in looks]),
            "values": np.concatenate([one.values for one in looks]),  # noqa: PD011 - an array
        }
        found |= {of: np.concatenate([getattr(one, of) for one in looks]) for of in OF_CELLS}
        found["row"] = np.arange(len(found["cell"]))
        found["species"] = np.array(self.divisions.names)
        found["division"] = np.arange(len(self.divisions))
        return found | {n: getattr(self.divisions, of) for n, of in OF_DIVISIONS.items()}

    def save(self, path: str | os.PathLike[str], settings: Mapping[str, Any] | None = None) -> None:
        """Write an HDF5 file, which `tauslab.open` reads; one that is there is replaced.

        Parameters
        ----------
        settings
            Numbers and texts to note in the file.

        Raises
        ------
        ConfigError
            The name is that of a table or a picture.
        OutputError
            It cannot be written.
        """
        own = {"method": POPULATION, "seed": np.uint64(self.seed), "ended": np.uint64(self.ended)}
        write_arrays(Path(path), own | dict(settings or {}), self.arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PopulationResult:
        """Read what `save` wrote.

        Raises
        ------
        InputFileError
            The file is missing, damaged or of another kind.
        """
        own, arrays = read_arrays(Path(path), POPULATION)
        missing = [name for name in ("seed", "ended") if name not in own]
        if missing or int(arrays["cells"].sum()) != len(arrays["row"]):
            what = f"it has no {missing[0]}" if missing else "its cells do not add up"
            raise InputFileError(f"{path} is damaged: {what}")
        names, ends = tuple(arrays["name"].tolist()), np.cumsum(arrays["cells"]).tolist()
        snapshots, none = [], np.full(len(ends), np.nan)
        for number, end in enumerate(ends):
            rows = slice(end - int(arrays["cells"][number]), end)
            time, log_size = float(arrays["time"][number]), float(arrays["log_size"][number])
            cell, mother, founder, generation, age = (arrays[name][rows] for name in OF_CELLS)
            snapshots.append(
                Snapshot(
                    time,
                    names,
                    arrays["values"][rows],
                    cell,
                    mother,
                    founder,
                    generation,
                    age,
                    log_size,
                    float(arrays.get("log_pairs", none)[number]),
                )
            )
        divisions = Divisions(
            tuple(arrays["species"].tolist()), {of: arrays[n] for n, of in OF_DIVISIONS.items()}
        )
        return cls(arrays["time"], tuple(snapshots), divisions, int(own["ended"]), int(own["seed"]))

    def plot(
        self,
        names: Sequence[str] = (),
        t: float | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> Figure:
        """Draw mean and two standard deviations over time, or with `t` all cells as histograms.

        Parameters
        ----------
        names
            Species and rules; by default the first four.
        path
            File to write: PNG, SVG or PDF by its suffix.

        Raises
        ------
        ConfigError
            An unknown name, time or suffix, or no matplotlib.
        OutputError
            The picture cannot be written.
        """
        from tauslab.runner.plots.states import plot_population

        return plot_population(self, names, t, None if path is None else Path(path))

    def to_pandas(self, what: str | None = None) -> Any:
        """A table as a `pandas.DataFrame`; NaN where there is no number.

        Parameters
        ----------
        what
            ``statistics``, by default: a row per time. ``trajectories``: a row per time and cell;
            ``final``: those of the last time. ``divisions``: a row per division.

        Raises
        ------
        ConfigError
            Another word.
        """
        from tauslab.runner.results.tables import to_pandas

        return to_pandas(population_columns(self.arrays(), what))

    def to_xarray(self) -> Any:
        """Means and variances ``[time, name]``, numbers of cells and `log_size` as a Dataset."""
        import xarray

        names = self.snapshots[0].names
        means = [[one.mean(name) for name in names] for one in self.snapshots]
        variances = [[one.var(name) for name in names] for one in self.snapshots]
        return xarray.Dataset(
            {
                "mean": (("time", "name"), means),
                "variance": (("time", "name"), variances),
                "cells": ("time", [len(one) for one in self.snapshots]),
                "log_size": ("time", self.log_size),
            },
            coords={"time": self.times, "name": list(names)},
            attrs={"seed": np.uint64(self.seed)},
        )


def _moments(table: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted means and standard deviations ``[column]``."""
    means = np.array([fixed_sum(weights * column) for column in table.T])
    squares = [
        fixed_sum(weights * (column - mean) ** 2)
        for column, mean in zip(table.T, means, strict=True)
    ]
    return means, np.sqrt(np.array(squares))

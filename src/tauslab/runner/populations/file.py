"""A population as a file, in lines, as facts and as tables."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.model.arrays import Array
from tauslab.model.errors import ConfigError, InputFileError
from tauslab.runner.output.checking.opening import POPULATION
from tauslab.runner.populations.result import Divisions, PopulationResult, Snapshot
from tauslab.runner.results.arrays.file import read_arrays, write_arrays
from tauslab.runner.results.tables import ResultTable

_OWN = ("seed", "ended")
_WHAT = ("statistics", "trajectories", "final", "divisions")
_OF_CELLS = ("cell", "mother", "founder", "generation", "age")
# Of divisions: the name in the file, and in `Divisions`.
_OF_DIVISIONS = {
    "division_cell": "cell", "division_mother": "mother", "division_founder": "founder",
    "division_generation": "generation", "born": "born", "divided": "divided",
    "at_birth": "at_birth", "at_division": "at_division", "log_weight": "log_weight",
}  # fmt: skip
_MOST_LINES = 12


def save_population(
    found: PopulationResult,
    path: str | os.PathLike[str],
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Write an HDF5 file; one that is there is replaced.

    Raises
    ------
    OutputError
        It cannot be written.
    """
    own = {"method": POPULATION, **{name: np.uint64(getattr(found, name)) for name in _OWN}}
    write_arrays(Path(path), own | dict(settings or {}), population_arrays(found))


def load_population(path: str | os.PathLike[str]) -> PopulationResult:
    """Read what `save_population` wrote.

    Raises
    ------
    InputFileError
        The file is missing, damaged or of another kind.
    """
    own, arrays = read_arrays(Path(path), POPULATION)
    missing = [name for name in _OWN if name not in own]
    if missing or int(arrays["cells"].sum()) != len(arrays["row"]):
        what = f"it has no {missing[0]}" if missing else "its cells do not add up"
        raise InputFileError(f"{path} is damaged: {what}")
    names, ends = tuple(arrays["name"].tolist()), np.cumsum(arrays["cells"])
    snapshots = []
    for number, end in enumerate(ends.tolist()):
        rows = slice(end - int(arrays["cells"][number]), end)
        parts = {name: arrays[name][rows] for name in _OF_CELLS}
        snapshots.append(
            Snapshot(
                time=float(arrays["time"][number]),
                names=names,
                values=arrays["values"][rows],
                log_size=float(arrays["log_size"][number]),
                **parts,
            )
        )
    divisions = Divisions(
        tuple(arrays["species"].tolist()), {of: arrays[n] for n, of in _OF_DIVISIONS.items()}
    )
    return PopulationResult(
        arrays["time"], tuple(snapshots), divisions, int(own["ended"]), int(own["seed"])
    )


def population_arrays(found: PopulationResult) -> dict[str, Array]:
    """All arrays by name, as a file and a digest have them; cells of all times in one row."""
    looks, names = found.snapshots, found.snapshots[0].names
    table: dict[str, Array] = {
        "time": found.times,
        "name": np.array(names),
        "mean": np.array([[one.mean(name) for name in names] for one in looks]),
        "variance": np.array([[one.var(name) for name in names] for one in looks]),
        "cells": np.array([len(one) for one in looks], np.int64),
        "log_size": found.log_size,
        "values": np.concatenate([one.values for one in looks]),
    }
    table |= {of: np.concatenate([getattr(one, of) for one in looks]) for of in _OF_CELLS}
    table["row"] = np.arange(len(table["cell"]))
    table["species"] = np.array(found.divisions.names)
    table["division"] = np.arange(len(found.divisions))
    return table | {n: getattr(found.divisions, of) for n, of in _OF_DIVISIONS.items()}


def population_facts(found: PopulationResult) -> dict[str, Any]:
    """What people and programs want to know, for JSON; None for what is no number."""
    arrays = population_arrays(found)
    names = arrays["name"].tolist()
    return {
        "method": POPULATION,
        "seed": found.seed,
        "time": found.times.tolist(),
        "cells": arrays["cells"].tolist(),
        "log_size": found.log_size.tolist(),
        "growth_rate": _plain(found.growth_rate),
        "divisions": len(found.divisions),
        "ended": found.ended,
        "mean": {name: arrays["mean"][:, i].tolist() for i, name in enumerate(names)},
        "variance": {
            name: [_plain(x) for x in arrays["variance"][:, i].tolist()]
            for i, name in enumerate(names)
        },
    }


def population_lines(found: PopulationResult) -> list[str]:
    """What people want to know, in lines."""
    last = found.snapshots[-1]
    whole = math.exp(min(found.log_size[-1], 700.0))
    lines = [
        f"{len(last)} cells at t = {last.time:g}, which stand for {whole:.6g}",
        f"{len(found.divisions)} divisions",
    ]
    if math.isfinite(found.growth_rate):
        lines[-1] += f", growth rate {found.growth_rate:.6g} from t = {found.times[0]:g} on"
    lines += [
        f"{name} at t = {last.time:g}: mean {last.mean(name):.6g}, sd {_root(last.var(name)):.4g}"
        for name in last.names[:_MOST_LINES]
    ]
    if found.ended:
        lines.append(f"{found.ended} cells ended early and are left out")
    return [*lines, f"seed {found.seed}"]


def population_table(found: PopulationResult, what: str | None = None) -> ResultTable:
    """A table.

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
    what = what or _WHAT[0]
    if what not in _WHAT:
        raise ConfigError(f"--what {what}: of a population there are {', '.join(_WHAT)}")
    arrays = population_arrays(found)
    names = found.snapshots[0].names
    if what == "divisions":
        header = [n for n in _OF_DIVISIONS if arrays[n].ndim == 1]
        columns = [arrays[name] for name in header]
        for when in ("at_birth", "at_division"):
            header += [f"{name}_{when}" for name in found.divisions.names]
            columns += list(arrays[when].T)
        return ResultTable(tuple(header), iter([columns]))
    if what == "statistics":
        columns = [arrays["time"], arrays["cells"], arrays["log_size"]]
        for i in range(len(names)):
            columns += [arrays["mean"][:, i], np.sqrt(arrays["variance"][:, i])]
        both = [f"{name}_{kind}" for name in names for kind in ("mean", "sd")]
        return ResultTable(("time", "cells", "log_size", *both), iter([columns]))
    rows = slice(None)
    if what == "final":
        rows = slice(len(arrays["row"]) - int(arrays["cells"][-1]), None)
    times = np.repeat(arrays["time"], arrays["cells"])
    columns = [times[rows], *(arrays[name][rows] for name in _OF_CELLS)]
    columns += [column[rows] for column in arrays["values"].T]
    return ResultTable(("time", *_OF_CELLS, *names), iter([columns]))


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _root(variance: float) -> float:
    return math.sqrt(variance) if variance >= 0 else math.nan

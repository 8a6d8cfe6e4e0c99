"""Columns of tables of a population, by its arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tauslab.model.arrays import Array
from tauslab.model.errors import ConfigError
from tauslab.model.option_names import opt
from tauslab.runner.results.tables import ResultTable

_WHAT = ("statistics", "trajectories", "final", "divisions")
# What a file has of each cell, in the order of `Snapshot`, and of each division: the name there,
# and in `Divisions`.
OF_CELLS = ("cell", "mother", "founder", "generation", "age")
OF_DIVISIONS = {
    "division_cell": "cell", "division_mother": "mother", "division_founder": "founder",
    "division_generation": "generation", "born": "born", "divided": "divided",
    "at_birth": "at_birth", "at_division": "at_division", "log_weight": "log_weight",
}  # fmt: skip


def population_columns(arrays: Mapping[str, Array], what: str | None = None) -> ResultTable:
    """A table of `PopulationResult.arrays`; `what` as of `tables.population_table`.

    Raises
    ------
    ConfigError
        Another word.
    """
    what = what or _WHAT[0]
    if what not in _WHAT:
        raise ConfigError(f"{opt('what', what)}: of a population there are {', '.join(_WHAT)}")
    names = arrays["name"].tolist()
    if what == "divisions":
        header = [n for n in OF_DIVISIONS if arrays[n].ndim == 1]
        columns = [arrays[name] for name in header]
        for when in ("at_birth", "at_division"):
            header += [f"{name}_{when}" for name in arrays["species"].tolist()]
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
    columns = [times[rows], *(arrays[name][rows] for name in OF_CELLS)]
    columns += [column[rows] for column in arrays["values"].T]
    return ResultTable(("time", *OF_CELLS, *names), iter([columns]))

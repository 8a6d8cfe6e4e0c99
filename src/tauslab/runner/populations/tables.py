"""A population in lines, as facts and as tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tauslab.model.errors import ConfigError
from tauslab.model.option_names import opt
from tauslab.runner.output.checking.opening import POPULATION
from tauslab.runner.populations.result import OF_CELLS, OF_DIVISIONS, PopulationResult
from tauslab.runner.results.tables import ResultTable

_WHAT = ("statistics", "trajectories", "final", "divisions")
_MOST_LINES = 12


def population_facts(found: PopulationResult) -> dict[str, Any]:
    """What people and programs want to know, for JSON; None for what is no number."""
    arrays = found.arrays()
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
        raise ConfigError(f"{opt('what', what)}: of a population there are {', '.join(_WHAT)}")
    arrays = found.arrays()
    names = found.snapshots[0].names
    if what == "divisions":
        header = [n for n in OF_DIVISIONS if arrays[n].ndim == 1]
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
    columns = [times[rows], *(arrays[name][rows] for name in OF_CELLS)]
    columns += [column[rows] for column in arrays["values"].T]
    return ResultTable(("time", *OF_CELLS, *names), iter([columns]))


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _root(variance: float) -> float:
    return math.sqrt(variance) if variance >= 0 else math.nan

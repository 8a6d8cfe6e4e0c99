"""Draws in the groups that ArviZ takes, by name."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.analysis.filters.cells import COLUMN, time_courses
from tauslab.base.arrays import doubles
from tauslab.base.errors import ConfigError

if TYPE_CHECKING:
    import xarray


def inference_data(groups: Mapping[str, xarray.Dataset]) -> Any:
    """An `arviz.InferenceData` of groups.

    Where ArviZ is 1.0 or above, or is not installed, the `xarray.DataTree` that ArviZ 1.0 takes.
    """
    if importlib.util.find_spec("arviz") is not None:
        kind = getattr(importlib.import_module("arviz"), "InferenceData", None)
        if kind is not None:
            return kind(**groups)
    import xarray

    return xarray.DataTree.from_dict(dict(groups))


def observed_data(data: Any) -> dict[str, xarray.Dataset]:
    """The group ``observed_data`` of a time course, or of those of many cells; none without one."""
    import xarray

    if data is None:
        return {}
    solutions = time_courses(data, None, None)
    if not all(hasattr(cell, "keys") and "time" in cell for cell in solutions.values()):
        raise ConfigError("data= must be a table with a column time, as the sampler takes it")
    names = [name for name in next(iter(solutions.values())) if name != "time"]
    columns = {
        name: np.concatenate([doubles(cell[name]) for cell in solutions.values()])
        for name in ("time", *names)
    }
    seen: dict[str, Any] = {name: ("time", columns[name]) for name in names}
    if "" not in solutions:
        rows = [len(cell["time"]) for cell in solutions.values()]
        seen[COLUMN] = ("time", np.repeat(list(solutions), rows))
    return {"observed_data": xarray.Dataset(seen, {"time": columns["time"]})}

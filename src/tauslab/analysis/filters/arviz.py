"""Draws in the groups that ArviZ takes, by name."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tauslab.base.arrays import doubles

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


def observed_data(data: Mapping[str, npt.ArrayLike] | None) -> dict[str, xarray.Dataset]:
    """The group ``observed_data`` of a time course; none without one."""
    import xarray

    if data is None:
        return {}
    seen = {name: ("time", doubles(data[name])) for name in data if name != "time"}
    return {"observed_data": xarray.Dataset(seen, {"time": doubles(data["time"])})}

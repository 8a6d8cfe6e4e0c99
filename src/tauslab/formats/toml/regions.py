"""Regions of a lattice model in TOML: a table per shape, in the order in which they are painted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.errors import ModelError
from tauslab.formats.toml.values import as_boolean, as_number, as_text, only_keys, shown
from tauslab.model.geometry import shapes
from tauslab.model.geometry.labels import paint_labels, read_labels, resample_labels, stored_voxel
from tauslab.model.geometry.obstacles import obstacles
from tauslab.model.geometry.shapes import Mask
from tauslab.model.lattice.lattice import Lattice

Table = dict[str, Any]
_COMMON = ("site_type", "shape", "within")
_LABEL = re.compile(r"-?[0-9]{1,19}")
_OF_LABELS = ("file", "component", "axes", "voxel", "labels")


def add_region(lattice: Lattice, table: Table, where: str, folder: Path) -> None:
    """Paint one region; a site type that is not known yet is added.

    Raises
    ------
    ModelError
        A key is missing, unknown or not allowed, or a value is.
    """
    kind = as_text(table.get("shape"), f"{where}, shape")
    if kind == "labels":
        only_keys(table, ("shape", *_OF_LABELS), where)
        _labels(lattice, table, where, folder)
        return
    if kind not in _SHAPES:
        raise ModelError(
            f"{kind!r} is not a shape; shapes: {', '.join(_SHAPES)}, labels", where=where
        )
    keys, build = _SHAPES[kind]
    only_keys(table, _COMMON + keys, where)
    mask = build(lattice, _Values(table, where))
    if "within" in table:
        mask &= _sites_of(lattice, as_text(table["within"], f"{where}, within"), where)
    name = as_text(table.get("site_type"), f"{where}, site_type")
    if name not in lattice.type_names:
        lattice.add_site_type(name, mask)
    else:
        lattice.paint(name, mask)


class _Values:
    """Values of a region's table, with messages that name it."""

    def __init__(self, table: Table, where: str) -> None:
        self.table, self.where = table, where

    def number(self, key: str, default: float | None = None) -> float:
        if key not in self.table and default is not None:
            return default
        return as_number(self.table.get(key), f"{self.where}, {key}")

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.number(key, default)
        if not value.is_integer() if isinstance(value, float) else False:
            raise ModelError(
                f"{value:g} where a whole number is expected", where=f"{self.where}, {key}"
            )
        return int(value)

    def text(self, key: str, default: str | None = None) -> str:
        return as_text(self.table.get(key, default), f"{self.where}, {key}")

    def flag(self, key: str) -> bool:
        return as_boolean(self.table.get(key, False), f"{self.where}, {key}")

    def point(self, key: str) -> list[float]:
        value = self.table.get(key)
        if not isinstance(value, list) or len(value) != 3:
            raise ModelError(
                f"{shown(value)} where [z, y, x] is expected", where=f"{self.where}, {key}"
            )
        return [as_number(entry, f"{self.where}, {key}") for entry in value]

    def centre(self) -> list[float] | None:
        return self.point("centre") if "centre" in self.table else None


def _sites_of(lattice: Lattice, site_type: str, where: str) -> Mask:
    mask: Mask = lattice.site_array() == lattice.type_number(site_type, where)
    return mask


def _box(lattice: Lattice, values: _Values) -> Mask:
    return shapes.box(lattice, values.point("low"), values.point("high"))


def _sphere(lattice: Lattice, values: _Values) -> Mask:
    return shapes.sphere(lattice, values.number("radius"), values.centre())


def _ellipsoid(lattice: Lattice, values: _Values) -> Mask:
    return shapes.ellipsoid(lattice, values.point("radii"), values.centre())


def _cylinder(lattice: Lattice, values: _Values) -> Mask:
    length, radius = values.number("length"), values.number("radius")
    return shapes.cylinder(lattice, length, radius, values.text("axis", "z"), values.centre())


def _capsule(lattice: Lattice, values: _Values) -> Mask:
    length, radius = values.number("length"), values.number("radius")
    return shapes.capsule(lattice, length, radius, values.text("axis", "z"), values.centre())


def _shell(lattice: Lattice, values: _Values) -> Mask:
    of = _sites_of(lattice, values.text("of"), values.where)
    return shapes.shell(of, values.whole("steps", 1), values.whole("neighbours", 26))


def _membrane(lattice: Lattice, values: _Values) -> Mask:
    of = _sites_of(lattice, values.text("of"), values.where)
    return shapes.membrane(of, values.whole("steps", 1), values.whole("neighbours", 26))


def _obstacles(lattice: Lattice, values: _Values) -> Mask:
    return obstacles(
        lattice,
        _sites_of(lattice, values.text("of"), values.where),
        values.number("radius"),
        values.number("fraction"),
        seed=values.whole("seed"),
        overlap=values.flag("overlap"),
    )


_SHAPES: Mapping[str, tuple[tuple[str, ...], Callable[[Lattice, _Values], Mask]]] = {
    "box": (("low", "high"), _box),
    "sphere": (("radius", "centre"), _sphere),
    "ellipsoid": (("radii", "centre"), _ellipsoid),
    "cylinder": (("length", "radius", "axis", "centre"), _cylinder),
    "capsule": (("length", "radius", "axis", "centre"), _capsule),
    "shell": (("of", "steps", "neighbours"), _shell),
    "membrane": (("of", "steps", "neighbours"), _membrane),
    "obstacles": (("of", "radius", "fraction", "seed", "overlap"), _obstacles),
}


def _labels(lattice: Lattice, table: Table, where: str, folder: Path) -> None:
    names = table.get("labels")
    if not isinstance(names, dict) or not all(_LABEL.fullmatch(key) for key in names):
        raise ModelError(
            f"{shown(names)} where a table label = type is expected", where=f"{where}, labels"
        )
    component = as_text(table["component"], f"{where}, component") if "component" in table else None
    file = folder / as_text(table.get("file"), f"{where}, file")
    axes = as_text(table.get("axes", "zyx"), f"{where}, axes")
    volume = read_labels(file, component, axes)
    voxel = [lattice.spacing] * 3
    if "voxel" in table:
        one = not isinstance(table["voxel"], list)
        values = _Values({"voxel": [table["voxel"]] * 3} if one else table, where)
        voxel = values.point("voxel")
        volume = resample_labels(lattice, volume, voxel)
    types = {int(key): as_text(name, f"{where}, labels.{key}") for key, name in names.items()}
    paint_labels(lattice, volume, types)
    stored = stored_voxel(file)
    if stored is not None and not np.allclose(stored, voxel, rtol=0.01, atol=0):
        lattice.notes.append(
            f"{file.name} says that its voxels have {_nanometres(stored)} along z, y, x; they are "
            f"taken for {_nanometres(voxel)}"
        )


def _nanometres(edges: Sequence[float]) -> str:
    return " x ".join(f"{edge * 1e9:.4g}" for edge in edges) + " nm"

"""Regions of a lattice model in TOML: a table per shape, in the order in which they are painted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tauslab.base.errors import ModelError
from tauslab.formats.toml.values import Table, as_number, as_text, shown
from tauslab.model.geometry import shapes
from tauslab.model.geometry.labels import paint_labels, read_labels, resample_labels, stored_voxel
from tauslab.model.geometry.obstacles import obstacles
from tauslab.model.geometry.shapes import Mask
from tauslab.model.lattice.lattice import Lattice

_COMMON = ("site_type", "shape", "within")
_LABEL = re.compile(r"-?[0-9]{1,19}")
_OF_LABELS = ("file", "component", "axes", "voxel", "labels")


def add_region(lattice: Lattice, table: Table, folder: Path) -> None:
    """Paint one region; a site type that is not known yet is added.

    Raises
    ------
    ModelError
        A key is missing, unknown or not allowed, or a value is.
    """
    kind = table.text("shape")
    if kind == "labels":
        _labels(lattice, table.only(("shape", *_OF_LABELS)), folder)
        return
    if kind not in _SHAPES:
        raise ModelError(
            f"{kind!r} is not a shape; shapes: {', '.join(_SHAPES)}, labels", where=table.where
        )
    keys, build = _SHAPES[kind]
    mask = build(lattice, table.only(_COMMON + keys))
    if "within" in table:
        mask &= _sites_of(lattice, table, "within")
    name = table.text("site_type")
    if name not in lattice.type_names:
        lattice.add_site_type(name, mask)
    else:
        lattice.paint(name, mask)


def _whole(table: Table, key: str, default: int | None = None) -> int:
    """A whole number, which may be written as 2.0."""
    value = table.number(key, default)
    if not value.is_integer():
        raise ModelError(f"{value:g} where a whole number is expected", where=table.place(key))
    return int(value)


def _point(table: Table, key: str) -> list[float]:
    value = table.data.get(key)
    if not isinstance(value, list) or len(value) != 3:
        raise ModelError(f"{shown(value)} where [z, y, x] is expected", where=table.place(key))
    return [as_number(entry, table.place(key)) for entry in value]


def _centre(table: Table) -> list[float] | None:
    return _point(table, "centre") if "centre" in table else None


def _sites_of(lattice: Lattice, table: Table, key: str = "of") -> Mask:
    mask: Mask = lattice.site_array() == lattice.type_number(table.text(key), table.where)
    return mask


def _along(shape: Callable[..., Mask]) -> Callable[[Lattice, Table], Mask]:
    """A shape with a length along an axis."""
    return lambda lattice, table: shape(
        lattice, table.number("length"), table.number("radius"), table.text("axis", "z"),
        _centre(table),
    )  # fmt: skip


def _around(shape: Callable[..., Mask]) -> Callable[[Lattice, Table], Mask]:
    """A shape of sites around those of a type."""
    return lambda lattice, table: shape(
        _sites_of(lattice, table), _whole(table, "steps", 1), _whole(table, "neighbours", 26)
    )


def _obstacles(lattice: Lattice, table: Table) -> Mask:
    return obstacles(
        lattice,
        _sites_of(lattice, table),
        table.number("radius"),
        table.number("fraction"),
        seed=_whole(table, "seed"),
        overlap=table.boolean("overlap"),
    )


_SHAPES: Mapping[str, tuple[tuple[str, ...], Callable[[Lattice, Table], Mask]]] = {
    "box": (("low", "high"), lambda lattice, table: shapes.box(
        lattice, _point(table, "low"), _point(table, "high"))),
    "sphere": (("radius", "centre"), lambda lattice, table: shapes.sphere(
        lattice, table.number("radius"), _centre(table))),
    "ellipsoid": (("radii", "centre"), lambda lattice, table: shapes.ellipsoid(
        lattice, _point(table, "radii"), _centre(table))),
    "cylinder": (("length", "radius", "axis", "centre"), _along(shapes.cylinder)),
    "capsule": (("length", "radius", "axis", "centre"), _along(shapes.capsule)),
    "shell": (("of", "steps", "neighbours"), _around(shapes.shell)),
    "membrane": (("of", "steps", "neighbours"), _around(shapes.membrane)),
    "obstacles": (("of", "radius", "fraction", "seed", "overlap"), _obstacles),
}  # fmt: skip


def _labels(lattice: Lattice, table: Table, folder: Path) -> None:
    names = table.data.get("labels")
    if not isinstance(names, dict) or not all(_LABEL.fullmatch(key) for key in names):
        raise ModelError(
            f"{shown(names)} where a table label = type is expected", where=table.place("labels")
        )
    component, file = table.given(table.text, "component"), folder / table.text("file")
    volume = read_labels(file, component, table.text("axes", "zyx"))
    voxel = [lattice.spacing] * 3
    if "voxel" in table:
        given = table.data["voxel"]
        edges = {"voxel": given if isinstance(given, list) else [given] * 3}
        voxel = _point(Table(edges, table.where), "voxel")
        volume = resample_labels(lattice, volume, voxel)
    types = {int(key): as_text(x, f"{table.place('labels')}.{key}") for key, x in names.items()}
    paint_labels(lattice, volume, types)
    stored = stored_voxel(file)
    if stored is not None and not np.allclose(stored, voxel, rtol=0.01, atol=0):
        lattice.notes.append(
            f"{file.name} says that its voxels have {_nanometres(stored)} along z, y, x; they are "
            f"taken for {_nanometres(voxel)}"
        )


def _nanometres(edges: Sequence[float]) -> str:
    return " x ".join(f"{edge * 1e9:.4g}" for edge in edges) + " nm"

"""Building a lattice's geometry: shapes, obstacles and volumes of labels, under one name."""

from tauslab.model.geometry.labels import paint_labels, read_labels, resample_labels
from tauslab.model.geometry.obstacles import obstacles
from tauslab.model.geometry.shapes import (
    box,
    capsule,
    cylinder,
    difference,
    dilate,
    ellipsoid,
    erode,
    intersection,
    membrane,
    shell,
    sphere,
    union,
)

__all__ = [
    "box", "capsule", "cylinder", "difference", "dilate", "ellipsoid", "erode", "intersection",
    "membrane", "obstacles", "paint_labels", "read_labels", "resample_labels", "shell", "sphere",
    "union",
]  # fmt: skip

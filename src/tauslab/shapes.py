"""Shapes that follow quantities, such as a cell that grows and divides, under one name."""

from tauslab.model.geometry.changing import (
    OverlappingSpheres,
    Shape,
    capsule,
    custom,
    dividing_sphere,
    overlapping_spheres,
    sphere,
)

__all__ = [
    "OverlappingSpheres", "Shape", "capsule", "custom", "dividing_sphere", "overlapping_spheres",
    "sphere",
]  # fmt: skip

"""Shapes that follow quantities: from an area, a volume or any numbers to masks of site types.

Lengths are metres, areas m^2, volumes m^3. Radii are real numbers: the sites of a shape change one
by one as its radius passes their centres.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tauslab.base.arrays import BoolArray, is_number
from tauslab.base.errors import ModelError
from tauslab.base.option_names import warn
from tauslab.model.geometry.shapes import (
    Distances,
    Grid,
    Mask,
    Point,
    along_axis,
    site_centres,
    whole_mask,
)
from tauslab.model.lattice.parts import positive, short

Value = float | str
Masks = dict[str, Mask]
_OF_BALLS = "radius", "area", "volume"
_OF_CAPSULES = "length", "area", "volume"
_TURNS = 60  # halvings of an interval: one in 2^60
_SURFACE = 1e-9  # relative: as of `tauslab.geometry`


@dataclass(frozen=True)
class Shape:
    """Masks of site types as a function of quantities.

    ``shape(grid, area=...)`` returns masks ``[z, y, x]`` by site type, where a later mask replaces
    earlier ones; `grid` is a `tauslab.Lattice` or the view of a hook.

    Attributes
    ----------
    make
        A function of a grid and of values by name.
    quantities
        Numbers or formulas by name, which `Hybrid.shape` evaluates.
    names
        Names that quantities can have; None: any.
    """

    make: Callable[[Grid, Mapping[str, float]], Masks]
    quantities: Mapping[str, Value] = field(default_factory=dict)
    names: tuple[str, ...] | None = None

    def __call__(self, grid: Grid, **values: float) -> Masks:
        """Return the masks for values of the quantities, which replace the shape's own.

        Raises
        ------
        ModelError
            A quantity has no number, or one that no shape has; or there is no such quantity.
        """
        given = {**self.quantities, **values}
        for name, value in given.items():
            if self.names is not None and name not in self.names:
                known = ", ".join(self.names)
                raise ModelError(f"shape: {name!r} is not a quantity of it; it has {known}")
            if isinstance(value, str) or not (is_number(value) and math.isfinite(value)):
                raise ModelError(f"shape: {name} = {short(value)}: a finite number is expected")
        return self.make(grid, {name: float(value) for name, value in given.items()})


class OverlappingSpheres(NamedTuple):
    """Two overlapping balls of one size."""

    radius: float
    """Of each, in metres."""
    offset: float
    """From the middle to the centre of each."""
    neck: float
    """Radius of the circle where they meet."""


def overlapping_spheres(area: float, volume: float) -> OverlappingSpheres:
    """Two overlapping balls that together have an area and a volume.

    With radius R and centres at +H and -H: V = 4/3 pi R^3 + 2 pi H R^2 - 2/3 pi H^3 and
    A = 4 pi R (R + H). A smaller area than that of one ball of this volume gives one ball (H = 0),
    a larger one than that of two separate balls gives balls that touch (H = R).

    Examples
    --------
    >>> [round(1e9 * length, 3) for length in overlapping_spheres(
    ...     1.6 * 4e-18 * 3.141592653589793 * 200**2, 2e-27 * 4 / 3 * 3.141592653589793 * 200**3)]
    [232.652, 42.438, 228.748]
    """
    area, volume = _above_0(area, "area"), _above_0(volume, "volume")
    low, high = 0.0, 1.0  # H / R, with which A^3 / V^2 grows
    for _ in range(_TURNS):
        middle = (low + high) / 2
        one = _volume_of(middle) * (area / (4 * math.pi * (1 + middle))) ** 1.5
        low, high = (middle, high) if one > volume else (low, middle)
    share = (low + high) / 2
    if share < 2.0 ** (2 - _TURNS):
        share = 0.0
    elif share > 1 - 2.0 ** (2 - 52):
        share = 1.0
    radius = (volume / _volume_of(share)) ** (1 / 3)
    return OverlappingSpheres(radius, share * radius, radius * math.sqrt(1 - share * share))


def _volume_of(share: float) -> float:
    """Volume of two overlapping balls of radius 1 with centres at this distance from the middle."""
    return 4 / 3 * math.pi + 2 * math.pi * share - 2 / 3 * math.pi * share**3


def sphere(
    *, radius: Value | None = None, area: Value | None = None, volume: Value | None = None,
    inside: str = "cytoplasm", shells: Mapping[str, int] | None = None, centre: Point | None = None,
) -> Shape:  # fmt: skip
    """A ball, given by one of its radius, area and volume, with shells around it.

    Parameters
    ----------
    radius, area, volume
        A number, a formula for `Hybrid.shape`, or left out and given in the call.
    inside
        Site type of the ball.
    shells
        Site types around it, from the inside outwards, with the thickness of each in sites;
        neighbours share a face, an edge or a corner.
    centre
        (z, y, x) in metres; by default the lattice's middle.
    """

    def make(grid: Grid, values: Mapping[str, float]) -> Masks:
        z, y, x = site_centres(grid, centre)
        ball = _within(z * z + y * y + x * x, _radius(values))
        return _round(whole_mask(grid, ball), inside, shells)

    return Shape(make, _given(radius=radius, area=area, volume=volume), _OF_BALLS)


def dividing_sphere(
    *, area: Value | None = None, volume: Value | None = None, inside: str = "cytoplasm",
    shells: Mapping[str, int] | None = None, axis: str = "z", centre: Point | None = None,
) -> Shape:  # fmt: skip
    """A ball that grows to a volume, then two overlapping balls of this total volume.

    If a ball with the given area has less than the volume, the shape is this ball; otherwise it is
    that of `overlapping_spheres`, up to two balls that touch.

    Parameters
    ----------
    area
        Area of the surface.
    volume
        Volume at which division begins.
    inside, shells, centre
        As of `sphere`.
    axis
        ``z``, ``y`` or ``x``: on which the centres lie.
    """

    def make(grid: Grid, values: Mapping[str, float]) -> Masks:
        largest = _above_0(_needed(values, "volume"), "volume")
        ball = math.sqrt(_above_0(_needed(values, "area"), "area") / (4 * math.pi))
        offset = 0.0
        if 4 / 3 * math.pi * ball**3 > largest:
            ball, offset, _ = overlapping_spheres(values["area"], largest)
        along, across = along_axis(grid, axis, centre)
        mask = _within((np.abs(along) - offset) ** 2 + across, ball)
        return _round(whole_mask(grid, mask), inside, shells)

    return Shape(make, _given(area=area, volume=volume), _OF_BALLS[1:])


def capsule(
    *, radius: Value, length: Value | None = None, area: Value | None = None,
    volume: Value | None = None, inside: str = "cytoplasm", shells: Mapping[str, int] | None = None,
    axis: str = "z", centre: Point | None = None,
) -> Shape:  # fmt: skip
    """A cylinder with round ends, given by its radius and one of length, area and volume.

    Parameters
    ----------
    radius
        Radius of the cylinder and of its ends.
    length, area, volume
        Length from tip to tip, area of the surface, or volume; at least that of a ball.
    inside, shells, axis, centre
        As of `dividing_sphere`.
    """

    def make(grid: Grid, values: Mapping[str, float]) -> Masks:
        r = _above_0(_needed(values, "radius"), "radius")
        of = _one_of(values, _OF_CAPSULES)
        whole = {
            "length": lambda v: v,
            "area": lambda v: v / (2 * math.pi * r),
            "volume": lambda v: v / (math.pi * r * r) + 2 / 3 * r,
        }[of](values[of])
        if whole < 2 * r * (1 - _SURFACE):
            raise ModelError(
                f"shape: {of} = {values[of]:g} is less than that of a ball of radius {r:g}"
            )
        along, across = along_axis(grid, axis, centre)
        beyond = np.maximum(np.abs(along) - max(0.0, whole / 2 - r), 0.0)
        return _round(whole_mask(grid, _within(beyond * beyond + across, r)), inside, shells)

    given = _given(radius=radius, length=length, area=area, volume=volume)
    return Shape(make, given, ("radius", *_OF_CAPSULES))


def custom(
    function: Callable[..., Mapping[str, Any]], *, shells: Mapping[str, int] | None = None,
    **quantities: Value,
) -> Shape:  # fmt: skip
    """A shape of your own.

    Parameters
    ----------
    function
        ``f(z, y, x, **quantities) -> masks`` by site type: z, y and x are coordinates of the
        centres of sites in metres from the lattice's first corner, arrays that broadcast.
    shells
        Site types around the last mask, as of `sphere`.
    quantities
        Numbers, or formulas for `Hybrid.shape`.

    Examples
    --------
    >>> import tauslab as ts
    >>> slab = ts.shapes.custom(lambda z, y, x, h: {"gel": z < h}, h=2e-8)
    >>> int(slab(ts.Lattice(shape=(4, 4, 4), spacing=1e-8))["gel"].sum())
    32
    """

    def make(grid: Grid, values: Mapping[str, float]) -> Masks:
        result = function(*site_centres(grid, (0.0, 0.0, 0.0)), **values)
        masks = {}
        with suppress(AttributeError, ValueError):  # no mapping, or masks of another shape
            masks = {name: whole_mask(grid, np.asarray(mask)) for name, mask in result.items()}
        if not masks or any(mask.dtype != np.bool_ for mask in masks.values()):
            raise ModelError(
                "the function of a shape returns masks, booleans that broadcast to "
                f"{list(grid.shape)}, by site type"
            )
        last = next(reversed(masks))
        around = _with_shells(masks[last], last, shells)
        return {name: mask for name, mask in around.items() if name != last} | masks

    return Shape(make, quantities)


def _with_shells(mask: Mask, inside: str, shells: Mapping[str, int] | None) -> Masks:
    """The mask and what is around it; the innermost last, since it replaces the others."""
    result = {inside: mask}
    for name, thickness in (shells or {}).items():
        if isinstance(thickness, bool) or not isinstance(thickness, int) or thickness < 1:
            raise ModelError(f"shells: {name} has a thickness of {thickness!r}, in sites from 1 on")
        for _ in range(thickness):
            mask = _grown(mask)
        result[name] = mask
    return dict(reversed(result.items()))


def _round(mask: Mask, inside: str, shells: Mapping[str, int] | None) -> Masks:
    """The same of what has a wall all around; a warning where the lattice is too small for it."""
    result = _with_shells(mask, inside, shells)
    if around := sum((shells or {}).values()):
        planes = [np.moveaxis(mask, axis, 0) for axis in range(3)]
        if any(one[:around].any() or one[-around:].any() for one in planes):
            warn(
                f"shape: {inside} is too close to a face of the lattice, which cuts off "
                f"{', '.join(shells or ())}: give the lattice more sites"
            )
    return result


def _grown(mask: Mask) -> Mask:
    """Sites of a mask and their 26 neighbours; nothing goes across the lattice's faces."""
    for axis in range(3):
        wider = mask.copy()
        ahead, behind = [slice(None)] * 3, [slice(None)] * 3
        ahead[axis], behind[axis] = slice(1, None), slice(None, -1)
        wider[tuple(ahead)] |= mask[tuple(behind)]
        wider[tuple(behind)] |= mask[tuple(ahead)]
        mask = wider
    return mask


def _within(squared: Distances, radius: float) -> BoolArray:
    return np.asarray(squared <= radius * radius * (1 + _SURFACE))


def _radius(values: Mapping[str, float]) -> float:
    of = _one_of(values, _OF_BALLS)
    value = _above_0(values[of], of)
    if of == "area":
        return math.sqrt(value / (4 * math.pi))
    return value if of == "radius" else float(np.cbrt(3 * value / (4 * math.pi)))


def _one_of(values: Mapping[str, float], names: tuple[str, ...]) -> str:
    result = [name for name in names if name in values]
    if len(result) != 1:
        raise ModelError(f"shape: give one of {', '.join(names)}, not {len(result)} of them")
    return result[0]


def _needed(values: Mapping[str, float], name: str) -> float:
    if name not in values:
        raise ModelError(f"shape: {name} has no value")
    return values[name]


def _given(**values: Value | None) -> dict[str, Value]:
    return {name: value for name, value in values.items() if value is not None}


def _above_0(value: float, what: str) -> float:
    return positive(value, f"shape: {what}", {"area": "m^2", "volume": "m^3"}.get(what, "metres"))

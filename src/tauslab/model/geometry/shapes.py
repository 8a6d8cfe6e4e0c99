"""Shapes on a lattice: boolean masks ``[z, y, x]`` of the sites whose centres lie inside.

Lengths are in metres, points are (z, y, x) from the lattice's first corner; the centre of site
[k, j, i] is ((k + 1/2) h, (j + 1/2) h, (i + 1/2) h).  A centre on the surface is inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray, is_number
from tauslab.base.errors import ConfigError, ModelError
from tauslab.base.files.extras import installing
from tauslab.base.host import require_memory
from tauslab.base.option_names import warn
from tauslab.model.lattice.parts import positive, short

Mask = BoolArray
Distances = npt.NDArray[np.floating[Any]]
Point = Sequence[float]

AXES = ("z", "y", "x")
_FARTHEST = 1e6  # metres
_FAR_BEYOND = 100  # times the lattice's side, where no corner of a box is meant to be
_BYTES_OF_A_SITE = 12  # distances in doubles, and masks
_SURFACE = 1e-9  # relative: a centre on the surface stays inside, however its distance is rounded


class Grid(Protocol):
    """The grid of a shape; a `tauslab.Lattice` is one."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Sites along z, y and x."""

    @property
    def spacing(self) -> float:
        """Edge of a site in metres."""


def box(grid: Grid, low: Point, high: Point) -> Mask:
    """Sites between two corners, (z, y, x) in metres.

    Examples
    --------
    >>> import tauslab as ts
    >>> grid = ts.Lattice(shape=(4, 4, 4), spacing=1e-8)
    >>> int(ts.geometry.box(grid, (0, 0, 0), (2e-8, 4e-8, 4e-8)).sum())
    32
    """
    low, high = _point(low), _point(high)
    z, y, x = site_centres(grid, (0.0, 0.0, 0.0))
    slack = _SURFACE * grid.spacing
    inside = [
        (at >= a - slack) & (at <= b + slack) for at, a, b in zip((z, y, x), low, high, strict=True)
    ]
    mask = whole_mask(grid, inside[0] & inside[1] & inside[2])
    sides = [n * grid.spacing for n in grid.shape]
    beyond = max(np.abs([*low, *high])) > _FAR_BEYOND * max(sides)
    return _checked(grid, mask, f"box from {_metres(low)} to {_metres(high)}", full=not beyond)


def sphere(grid: Grid, radius: float, centre: Point | None = None) -> Mask:
    """Sites within `radius` (metres) of `centre`, by default the lattice's middle.

    Every shape warns if it contains no site or all sites, or if a round shape in the middle does
    not fit into the lattice.
    """
    radius = positive(radius, "radius", "metres")
    mask = _ellipsoid(grid, (radius, radius, radius), centre)
    halves = (radius,) * 3 if centre is None else None
    return _checked(grid, mask, f"sphere of radius {radius:g} m", halves=halves)


def ellipsoid(grid: Grid, radii: Point, centre: Point | None = None) -> Mask:
    """Sites of an ellipsoid with half-axes `radii` (metres) along z, y and x."""
    radii = [positive(radius, "radius", "metres") for radius in _three(radii)]
    mask = _ellipsoid(grid, radii, centre)
    halves = radii if centre is None else None
    return _checked(grid, mask, f"ellipsoid with half-axes of {_metres(radii)}", halves=halves)


def _ellipsoid(grid: Grid, radii: Point, centre: Point | None) -> Mask:
    offsets = site_centres(grid, centre)
    parts = [(at / r) ** 2 for at, r in zip(offsets, radii, strict=True)]
    return whole_mask(grid, parts[0] + parts[1] + parts[2] <= 1 + _SURFACE)


def cylinder(
    grid: Grid, length: float, radius: float, axis: str = "z", centre: Point | None = None
) -> Mask:
    """Sites of a cylinder of total `length` along an axis, with flat ends.

    Parameters
    ----------
    grid
        The lattice.
    length, radius
        In metres.
    axis
        ``z``, ``y`` or ``x``.
    centre
        By default the lattice's middle.
    """
    length, radius = positive(length, "length", "metres"), positive(radius, "radius", "metres")
    along, across = along_axis(grid, axis, centre)
    flat = np.abs(along) <= length / 2 * (1 + _SURFACE)
    inside = flat & (across <= radius * radius * (1 + _SURFACE))
    what = f"cylinder of length {length:g} m and radius {radius:g} m"
    return _checked(grid, whole_mask(grid, inside), what)


def capsule(
    grid: Grid, length: float, radius: float, axis: str = "z", centre: Point | None = None
) -> Mask:
    """Sites of a cylinder with round ends; `length` is from tip to tip.

    Parameters
    ----------
    grid, length, radius, axis, centre
        As of `tauslab.geometry.cylinder`.

    Raises
    ------
    ModelError
        The length is below twice the radius.
    """
    length, radius = positive(length, "length", "metres"), positive(radius, "radius", "metres")
    if length < 2 * radius:
        raise ModelError(f"capsule: length {length:g} m is less than twice its radius {radius:g} m")
    along, across = along_axis(grid, axis, centre)
    beyond = np.maximum(np.abs(along) - (length / 2 - radius), 0.0)
    inside = beyond * beyond + across <= radius * radius * (1 + _SURFACE)
    what = f"capsule of length {length:g} m and radius {radius:g} m"
    own = [length / 2 if name == axis else radius for name in AXES]
    halves = own if centre is None else None
    return _checked(grid, whole_mask(grid, inside), what, halves=halves)


def union(*masks: Mask) -> Mask:
    """Sites in any of the masks."""
    joined: Mask = np.logical_or.reduce(_of_one_shape(masks))
    return joined


def intersection(*masks: Mask) -> Mask:
    """Sites in all masks."""
    common: Mask = np.logical_and.reduce(_of_one_shape(masks))
    return common


def difference(mask: Mask, *others: Mask) -> Mask:
    """Sites of the first mask that are in no other."""
    first, *more = _of_one_shape((mask, *others))
    return first & ~union(*more) if more else first.copy()


def dilate(mask: Mask, steps: int = 1, neighbours: int = 26) -> Mask:
    """Mask and all sites within some steps of it.

    Steps lead to one of 6, 18 or 26 neighbours.
    """
    return _morphology("binary_dilation", mask, steps, neighbours)


def erode(mask: Mask, steps: int = 1, neighbours: int = 26) -> Mask:
    """Sites from which `steps` do not lead out of the mask; the edge of the lattice is outside.

    A warning appears if no site is left.
    """
    left = _morphology("binary_erosion", mask, steps, neighbours)
    if mask.any() and not left.any():
        warn(
            f"a mask of {int(mask.sum())} sites is so thin that none of them is left when it is "
            f"eroded by {steps} {'step' if steps == 1 else 'steps'}"
        )
    return left


def shell(mask: Mask, steps: int = 1, neighbours: int = 26) -> Mask:
    """The sites just outside of a mask, which `dilate` adds; warns if there are none."""
    around = difference(dilate(mask, steps, neighbours), mask)
    if mask.any() and not around.any():
        warn("the mask fills the lattice, so a shell around it has no site")
    return around


def membrane(mask: Mask, steps: int = 1, neighbours: int = 26) -> Mask:
    """The outermost sites of a mask, which `erode` removes."""
    return difference(mask, erode(mask, steps, neighbours))


def _morphology(name: str, mask: Mask, steps: int, neighbours: int) -> Mask:
    try:
        from scipy import ndimage
    except ImportError:
        raise ConfigError(
            f"growing and shrinking masks needs scipy: {installing('scipy')}"
        ) from None
    if np.ndim(mask) != 3:
        raise ModelError(f"a mask is an array of booleans [z, y, x], not {short(mask)}")
    if neighbours not in (6, 18, 26):
        raise ModelError(f"neighbours = {neighbours}: a site has 6, 18 or 26")
    if not (is_number(steps) and steps >= 1):
        raise ModelError(f"steps = {short(steps)}: a whole number of 1 or more is expected")
    structure = ndimage.generate_binary_structure(3, {6: 1, 18: 2, 26: 3}[neighbours])
    # So many steps lead from any site to any other.
    enough = min(int(steps), sum(np.shape(mask)))
    result: Mask = getattr(ndimage, name)(mask, structure, iterations=enough)
    return result


def site_centres(grid: Grid, centre: Point | None) -> tuple[Distances, Distances, Distances]:
    """Centres of the sites relative to a point, as open arrays that broadcast."""
    require_grid(grid)
    middle = [n * grid.spacing / 2 for n in grid.shape] if centre is None else _point(centre)
    sites = math.prod(grid.shape)
    require_memory(_BYTES_OF_A_SITE * sites, f"a shape on a lattice of {sites} sites")
    z, y, x = (
        (np.arange(n) + 0.5) * grid.spacing - at for n, at in zip(grid.shape, middle, strict=True)
    )
    return z[:, None, None], y[None, :, None], x[None, None, :]


def along_axis(grid: Grid, axis: str, centre: Point | None) -> tuple[Distances, Distances]:
    """Coordinate along an axis, and squared distance from it."""
    if axis not in AXES:
        raise ModelError(f"axis {axis!r}: axes are {', '.join(AXES)}")
    offsets = list(site_centres(grid, centre))
    along = offsets.pop(AXES.index(axis))
    return along, offsets[0] ** 2 + offsets[1] ** 2


def _checked(
    grid: Grid, mask: Mask, what: str, *, full: bool = False, halves: Sequence[float] | None = None
) -> Mask:
    """Return the mask of a shape, with a warning where the shape is not what is meant.

    That is where it holds no site, or all where `full` is not meant, or where a shape with these
    half lengths in the lattice's middle reaches beyond the lattice.
    """
    number = int(mask.sum())
    sides = [n * grid.spacing for n in grid.shape]
    if number == 0 or (number == mask.size > 1 and not full):
        warn(
            f"a {what} holds {f'all {number} sites' if number else 'no site'} of a lattice of "
            f"{_metres(sides)}: lengths are in metres, 200 nm are 200e-9, and a site belongs to a "
            "shape by its centre"
        )
        return mask
    cut = [
        axis
        for axis, half, side, n in zip(AXES, halves or (), sides, grid.shape, strict=False)
        if n > 1 and half > side / 2 + grid.spacing
    ]
    if cut:
        warn(f"a {what} is cut along {', '.join(cut)} by a lattice of {_metres(sides)}")
    return mask


def _metres(lengths: Point) -> str:
    return f"({', '.join(f'{length:g}' for length in lengths)}) m"


def whole_mask(grid: Grid, mask: Any) -> Mask:
    """A mask of all sites of a grid, of what broadcasts to it."""
    return np.array(np.broadcast_to(mask, grid.shape))


def require_grid(grid: object) -> None:
    """Refuse what has no sites, such as a mask in place of its lattice."""
    if not (hasattr(grid, "shape") and hasattr(grid, "spacing")):
        raise ModelError(f"a lattice is expected, not {type(grid).__name__}")


def _of_one_shape(masks: Sequence[Mask]) -> list[Mask]:
    """Masks as arrays, which must have one shape."""
    arrays = [np.asarray(mask) for mask in masks]
    shapes = dict.fromkeys(str(list(array.shape)) for array in arrays)
    if len(shapes) > 1:
        raise ModelError(f"masks must have one shape, not {' and '.join(shapes)}")
    return arrays


def _three(values: Point) -> list[float]:
    try:
        z, y, x = (float(at) for at in values)
    except (TypeError, ValueError, OverflowError):
        raise ModelError(
            f"{short(values)}: three coordinates, z, y, x, are expected in metres"
        ) from None
    return [z, y, x]


def _point(point: Point) -> list[float]:
    coordinates = _three(point)
    if not all(abs(at) <= _FARTHEST for at in coordinates):
        raise ModelError(
            f"{coordinates} is no point: coordinates z, y, x are metres, from -{_FARTHEST:g} to "
            f"{_FARTHEST:g}"
        )
    return coordinates

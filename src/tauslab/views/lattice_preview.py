"""Pictures of a lattice before it is run: planes through its site types."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.model.lattice.data import LatticeData
from tauslab.views.figures import COLOURS, drawing, shown_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AXES = ("z", "y", "x")
_FIRST = "#F2F2F2"  # the type that fills the lattice


def plot_geometry(
    lattice: LatticeData,
    path: Path | None = None,
    axis: str | None = None,
    at: int | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Site types in a plane across each axis, or across one; see `Lattice.plot`."""
    if axis is not None and axis not in _AXES:
        raise ConfigError(f"{axis!r} is not an axis; axes: {', '.join(_AXES)}")
    if at is not None and axis is None:
        raise ConfigError("at= is the number of a plane across axis=: name that too")
    chosen = range(3) if axis is None else [_AXES.index(axis)]
    with drawing(path, [None] * len(chosen), ax) as (figure, panels):
        for across, axes in zip(chosen, panels, strict=True):
            size = lattice.shape[across]
            number = size // 2 if at is None else at
            if not 0 <= number < size:
                raise ConfigError(f"plane {number} is not in the lattice: 0 to {size - 1}")
            _draw_plane(axes, lattice, across, number)
    return figure


def _draw_plane(axes: Axes, lattice: LatticeData, across: int, at: int) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    plane = _plane(lattice, across, at)
    rows, columns = (i for i in range(3) if i != across)
    names = lattice.type_names
    colours = [_FIRST, *(COLOURS[i % len(COLOURS)] for i in range(len(names) - 1))]
    unit = lattice.spacing * 1e6
    axes.imshow(
        plane,
        origin="lower",
        extent=(0, lattice.shape[columns] * unit, 0, lattice.shape[rows] * unit),
        cmap=ListedColormap(colours),
        vmin=-0.5,
        vmax=len(colours) - 0.5,
        interpolation="none",
    )
    for name, colour in zip(names, colours, strict=True):
        axes.add_patch(
            Rectangle((0, 0), 0, 0, facecolor=colour, edgecolor="#B0B0B0", label=shown_name(name))
        )
    axes.set_xlabel(f"{_AXES[columns]} (µm)")
    axes.set_ylabel(f"{_AXES[rows]} (µm)")
    axes.set_title(f"{_AXES[across]} = {(at + 0.5) * unit:.3g} µm")


def _plane(lattice: LatticeData, across: int, at: int) -> npt.NDArray[np.uint8]:
    if across == 0:
        first_plane: npt.NDArray[np.uint8] = lattice.sites.planes(at, at + 1)[0]
        return first_plane
    z = lattice.shape[0]
    step = max(1, (1 << 26) // (lattice.shape[1] * lattice.shape[2]))
    plane: npt.NDArray[np.uint8] = np.concatenate([
        lattice.sites.planes(first, min(z, first + step)).take(at, axis=across)
        for first in range(0, z, step)
    ])  # fmt: skip
    return plane

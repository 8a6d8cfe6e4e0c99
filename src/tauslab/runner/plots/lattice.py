"""Pictures of a lattice run: counts over time, kymographs, slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError
from tauslab.runner.plots.figures import SUFFIXES, new_panels, plot_style, save_figure
from tauslab.runner.results.lattice.result import AXES, LatticeResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito (2008), without yellow, which vanishes on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MOST_LINES = len(_COLOURS)
_MOST_PANELS = 12
_DEFAULT_PANELS = 4


def plot_lattice(
    result: LatticeResult,
    kind: str = "auto",
    species: Sequence[str] | None = None,
    t: float | None = None,
    axis: str | None = None,
    path: Path | None = None,
) -> Figure:
    """Draw a lattice run, and write the picture if `path` is given.

    Parameters
    ----------
    kind
        ``counts``: particles over time, in one panel; ``kymograph``: particles along an axis over
        time; ``slice``: particles in the middle plane across an axis.  ``auto`` is ``counts``.
    species
        Names; by default the first that there is room for.
    t
        Time of a slice; by default the last frame.
    axis
        Of a kymograph, by default the longest; across a slice, by default the shortest.
    path
        File to write, PNG or SVG by its suffix.

    Raises
    ------
    ConfigError
        An unknown kind, name, axis or suffix, no frames, or no matplotlib.
    OutputError
        The picture cannot be written.
    """
    kinds = ("auto", "counts", *_PANELS)
    if kind not in kinds:
        raise ConfigError(f"{kind!r} is not a plot of a lattice; kinds: {', '.join(kinds)}")
    if path is not None and path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: pictures are written as {' or '.join(SUFFIXES)}")
    over_time = kind in ("auto", "counts")
    names = list(species or result.species[: _MOST_LINES if over_time else _DEFAULT_PANELS])
    most = _MOST_LINES if over_time else _MOST_PANELS
    if not 1 <= len(names) <= most:
        raise ConfigError(f"this plot shows 1 to {most} species, not {len(names)}")
    with plot_style():
        if over_time:
            figure, panels = new_panels([None])
            _counts(panels[0], result, names)
        else:
            figure, panels = new_panels([None] * len(names))
            for name, axes in zip(names, panels, strict=True):
                _PANELS[kind](axes, result, name, t, axis)
        if path is not None:
            save_figure(figure, path)
    return figure


def _counts(axes: Axes, result: LatticeResult, names: list[str]) -> None:
    for name, colour in zip(names, _COLOURS, strict=False):
        axes.plot(result.times, result.counts(name), color=colour, linewidth=1.2, label=name)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("particles")
    axes.set_ylim(bottom=0)
    if len(result.times) > 1:
        axes.set_xlim(float(result.times[0]), float(result.times[-1]))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2)


def _kymograph(
    axes: Axes, result: LatticeResult, name: str, t: float | None, axis: str | None
) -> None:
    del t
    lines = result.kymograph(name, axis)
    along = result.axis(axis, longest=True)
    times, length = result.frame_times, result.shape[along] * result.spacing * 1e6
    image = axes.pcolormesh(
        _edges(times),
        np.linspace(0, length, result.shape[along] + 1),
        lines.T,
        cmap="viridis",
        vmin=0,
        vmax=max(1, int(lines.max())),
        rasterized=True,
    )
    axes.figure.colorbar(image, ax=axes, label=f"{name} in a plane")
    axes.set_xlabel("time (s)")
    axes.set_ylabel(f"{AXES[along]} (µm)")
    axes.set_title(name)


def _slice(axes: Axes, result: LatticeResult, name: str, t: float | None, axis: str | None) -> None:
    across = result.axis(axis, longest=False)
    frame = result.frame_at(t)
    middle = result.shape[across] // 2
    density = np.take(result.density(name, frame), middle, axis=across)
    kept = [i for i in range(3) if i != across]
    sites = result.sites(frame)
    types = None if sites is None else np.take(sites, middle, axis=across)
    if result.shape[kept[0]] > result.shape[kept[1]]:  # the longer axis lies flat
        kept.reverse()
        density, types = density.T, None if types is None else types.T
    sizes = [result.shape[i] * result.spacing * 1e6 for i in kept]
    extent = (0, sizes[1], 0, sizes[0])
    image = axes.imshow(
        density,
        origin="lower",
        extent=extent,
        cmap="viridis",
        vmin=0,
        vmax=max(1, int(density.max())),
        interpolation="none",
    )
    if types is not None:
        _borders(axes, types, extent)
    axes.figure.colorbar(image, ax=axes, label="particles in a site", shrink=0.6)
    axes.set_xlabel(f"{AXES[kept[1]]} (µm)")
    axes.set_ylabel(f"{AXES[kept[0]]} (µm)")
    at = (middle + 0.5) * result.spacing * 1e6
    axes.set_title(f"{name}, t = {result.frame_times[frame]:g} s, {AXES[across]} = {at:.3g} µm")


def _borders(
    axes: Axes, sites: npt.NDArray[np.uint8], extent: tuple[float, float, float, float]
) -> None:
    """Lines between sites of unlike types, along the sites' edges."""
    from matplotlib.collections import LineCollection

    across = extent[1] / sites.shape[1], extent[3] / sites.shape[0]
    row, column = np.nonzero(sites[:, 1:] != sites[:, :-1])
    upright = np.stack([[column + 1, row], [column + 1, row + 1]])
    row, column = np.nonzero(sites[1:] != sites[:-1])
    level = np.stack([[column, row + 1], [column + 1, row + 1]])
    lines = np.concatenate([upright, level], axis=2).transpose(2, 0, 1) * across
    axes.add_collection(LineCollection(list(lines), colors="white", linewidths=0.5))


def _edges(times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Edges half-way between times, for a column each."""
    if len(times) == 1:
        return np.array([times[0], times[0] + 1.0])
    middle = (times[1:] + times[:-1]) / 2
    return np.concatenate([times[:1], middle, times[-1:]])


_PANELS: Mapping[str, Callable[[Axes, LatticeResult, str, float | None, str | None], None]] = {
    "kymograph": _kymograph,
    "slice": _slice,
}

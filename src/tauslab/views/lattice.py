"""Pictures of a lattice run: counts over time, kymographs, slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt, warn
from tauslab.store.results.lattice.frames import AXES, axis_number
from tauslab.store.results.lattice.recorded import RecordedLattice
from tauslab.store.results.lattice.tables import ensemble_of
from tauslab.views.distributions import LEVELS
from tauslab.views.ensemble import plot_result
from tauslab.views.figures import (
    colour_bar,
    drawing,
    limit_counts,
    line_style,
    shown_name,
    span_times,
)
from tauslab.views.sweep import KINDS as SWEEP_KINDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_MOST_LINES = 28  # of counts: as many as there are unlike styles
_DEFAULT_LINES = 10
_MOST_PANELS = 12
_DEFAULT_PANELS = 4
_DISTRIBUTED = 50  # replicas at a point from which a distribution says more than a mean


@dataclass(frozen=True)
class Slice:
    """A plane across an axis, laid out for a picture.

    `values` are particles ``[row, column]``, `types` the site types there; `axes` the numbers of
    the axes of rows and columns, `across` that of the axis which the plane cuts, at site `middle`.
    """

    across: int
    middle: int
    axes: tuple[int, int]
    values: npt.NDArray[np.uint8]
    types: npt.NDArray[np.uint8] | None


def plot_lattice(
    result: RecordedLattice, kind: str = "auto", species: Sequence[str] | None = None,
    t: float | None = None, axis: str | None = None, path: Path | None = None,
    ax: Axes | None = None, at: int | None = None,
) -> Figure:  # fmt: skip
    """Draw a lattice run, and write the picture if `path` is given.

    Parameters
    ----------
    kind
        ``counts``: particles over time, in one panel; ``mean``: of all replicas, with the band
        between their 5 and 95 % quantiles; ``kymograph``: particles along an axis over time;
        ``slice``: particles in the middle plane across an axis. ``auto`` is ``mean`` where there
        are several replicas, else ``counts``. Of all points of a sweep ``heatmap``, ``histogram``
        or ``mean``, as `plot_result` draws them, with replicas as trajectories.
    species
        Names; by default as many of the first as are shown well.
    t
        Time of a slice; by default the last frame.
    axis
        Axis of a kymograph, by default the longest; axis across a slice, by default the shortest.
    path
        File to write: PNG, SVG or PDF by its suffix.
    ax
        Axes of another figure to draw a single panel in.
    at
        Number of the plane of a slice across `axis`; by default the middle one.

    Raises
    ------
    ConfigError
        An unknown kind, name, axis or suffix, no frames, or no matplotlib.
    OutputError
        The picture cannot be written.
    """
    over_points = SWEEP_KINDS if result.whole_sweep else ()
    kinds = tuple(dict.fromkeys(("auto", "counts", "mean", *_PANELS, *over_points)))
    if kind not in kinds:
        movie = ", movie"
        raise ConfigError(f"{kind!r} is not a plot of a lattice; kinds: {', '.join(kinds)}{movie}")
    if result.whole_sweep:
        return _sweep(result, kind, species, t, path, ax)
    over_time = kind in ("auto", "counts", "mean")
    require_used(kind, t, axis)
    if at is not None and (kind != "slice" or axis is None):
        raise ConfigError(
            f"at={at} is the number of a plane across axis= in a slice: name the axis, and choose "
            f"{opt('kind', 'slice')}"
        )
    several = kind == "mean" or (kind == "auto" and result.n_replicas > 1)
    shown = _DEFAULT_LINES if over_time else _DEFAULT_PANELS
    names = list(species or result.species[:shown])
    if not species and len(result.species) > shown:
        warn(f"{shown} of {len(result.species)} species are drawn: {opt('species')} chooses others")
    most = _MOST_LINES if over_time else _MOST_PANELS
    if not 1 <= len(names) <= most:
        raise ConfigError(f"this plot shows 1 to {most} species, not {len(names)}")
    projections = [None] * (1 if over_time else len(names))
    with drawing(path, projections, ax, result.unfinished) as (figure, panels):
        if over_time:
            _counts(panels[0], result, names, several=several)
        else:
            for name, axes in zip(names, panels, strict=True):
                _PANELS[kind](axes, result, name, t, axis, at)
    return figure


def require_used(kind: str, t: float | None, axis: str | None) -> None:
    """Refuse a time and an axis where a picture of one run has none.

    Raises
    ------
    ConfigError
        Names what is to be left out.
    """
    if t is not None and kind != "slice":
        raise ConfigError(
            f"{opt('t', f'{t:g}')} is of a slice: leave it out, or choose {opt('kind', 'slice')}"
        )
    if axis is not None and kind in ("auto", "counts", "mean"):
        raise ConfigError(f"{opt('axis', axis)} is of a kymograph or a slice: leave it out")


def _sweep(
    result: RecordedLattice, kind: str, species: Sequence[str] | None, t: float | None,
    path: Path | None, ax: Axes | None,
) -> Figure:  # fmt: skip
    """All points of a sweep, drawn as points of an ensemble."""
    if kind not in ("auto", *SWEEP_KINDS):
        raise ConfigError(
            f"{result.path} is a sweep of {result.n_points} points: a plot of {kind} is of one, "
            f"{opt('point', 0)}; of all there are "
            f"{', '.join(SWEEP_KINDS)}"
        )
    few = kind == "auto" and result.n_replicas < _DISTRIBUTED
    return plot_result(ensemble_of(result), "mean" if few else kind, species, t, path, ax=ax)


def _counts(axes: Axes, result: RecordedLattice, names: list[str], *, several: bool) -> None:
    times = result.times
    dot: dict[str, Any] = {"marker": "o", "markersize": 4} if len(times) == 1 else {}
    for number, name in enumerate(names):
        style = line_style(number)
        values = result.mean(name) if several else result.counts(name)
        axes.plot(times, values, linewidth=1.2, label=shown_name(name), **style, **dot)
        if several and len(times):
            low, high = result.quantile(name, LEVELS)
            axes.fill_between(times, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("particles")
    if several and result.n_replicas > 1:
        axes.set_title(f"mean, and 5 to 95 % of {result.n_replicas} replicas")
    elif result.n_replicas > 1:
        axes.set_title(f"replica {result.replica} of {result.n_replicas}")
    axes.set_ylim(bottom=0)
    limit_counts(axes)
    span_times(axes, times if len(times) else result.all_times)


def _kymograph(
    axes: Axes, result: RecordedLattice, name: str, t: float | None, axis: str | None,
    at: int | None,
) -> None:  # fmt: skip
    del t, at
    lines = result.kymograph(name, axis)
    along = axis_number(axis, result.shape, longest=True)
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
    colour_bar(image, axes, f"{shown_name(name)} in a plane", whole=True)
    axes.set_xlabel("time (s)")
    axes.set_ylabel(f"{AXES[along]} (µm)")
    axes.set_title(shown_name(name))


def slice_of(
    result: RecordedLattice, name: str, frame: int, axis: str | None, at: int | None = None
) -> Slice:
    """The middle plane of a frame, or plane `at`; the longer of its axes lies flat."""
    across = axis_number(axis, result.shape, longest=False)
    middle = result.shape[across] // 2 if at is None else at
    if not 0 <= middle < result.shape[across]:
        raise ConfigError(f"at={at} is not in the lattice: 0 to {result.shape[across] - 1}")
    values = result.frames.plane(name, frame, across, middle)
    sites = result.sites(frame)
    types = None if sites is None else np.take(sites, middle, axis=across)
    kept = [i for i in range(3) if i != across]
    if result.shape[kept[0]] > result.shape[kept[1]]:
        kept.reverse()
        values, types = values.T, None if types is None else types.T
    return Slice(across, middle, (kept[0], kept[1]), values, types)


def draw_slice(
    axes: Axes, result: RecordedLattice, cut: Slice, most: int | None = None
) -> AxesImage:
    """Draw a slice with a colour bar that reaches to `most`, by default to its largest number."""
    rows, columns = (result.shape[i] * result.spacing * 1e6 for i in cut.axes)
    extent = (0.0, columns, 0.0, rows)
    image = axes.imshow(
        cut.values,
        origin="lower",
        extent=extent,
        cmap="viridis",
        vmin=0,
        vmax=max(1, int(cut.values.max()) if most is None else most),
        interpolation="none",
    )
    if cut.types is not None:
        _borders(axes, cut.types, extent)
    colour_bar(image, axes, "particles in a site", whole=True, shrink=0.6)
    axes.set_xlabel(f"{AXES[cut.axes[1]]} (µm)")
    axes.set_ylabel(f"{AXES[cut.axes[0]]} (µm)")
    return image


def slice_title(result: RecordedLattice, name: str, frame: int, cut: Slice) -> str:
    """Title of a slice: species, time and place."""
    at = (cut.middle + 0.5) * result.spacing * 1e6
    where = f"{AXES[cut.across]} = {at:.3g} µm"
    return f"{shown_name(name)}, t = {result.frame_times[frame]:g} s, {where}"


def _slice(
    axes: Axes, result: RecordedLattice, name: str, t: float | None, axis: str | None,
    at: int | None,
) -> None:  # fmt: skip
    frame = result.frames.at(t)
    cut = slice_of(result, name, frame, axis, at)
    draw_slice(axes, result, cut)
    axes.set_title(slice_title(result, name, frame, cut))


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


_PANELS: Mapping[
    str, Callable[[Axes, RecordedLattice, str, float | None, str | None, int | None], None]
] = {
    "kymograph": _kymograph,
    "slice": _slice,
}

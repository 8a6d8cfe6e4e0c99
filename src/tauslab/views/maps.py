"""Pictures of summaries and of modes, over what a sweep varied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.store.results.ensemble_data import EnsembleData
from tauslab.store.results.modes import ALPHA, Modes, modes_at
from tauslab.store.results.samples import summary_name
from tauslab.views.distributions import HISTOGRAM_BINS, LEVELS, amount, at_time, draw_histogram
from tauslab.views.figures import BLUE, VERMILION, colour_bar, shown_name, whole_ticks
from tauslab.views.sweep import colours_of, draw_map, logarithmic, scale_axis, sorted_points, varied

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LARGEST_DOT = 40.0  # area of a mode that holds all trajectories, in points squared


def draw_summary(axes: Axes, result: EnsembleData, name: str) -> None:
    """Mean of a summary over one, two or three swept names; without a sweep, its histogram.

    Points where no trajectory has the number stay blank.

    Raises
    ------
    ConfigError
        The summary is not recorded, or more than three names were swept.
    """
    name, names = summary_name(result, name), varied(result)
    if not result.swept:
        _numbers(axes, result, name)
        return
    means = result.summary_moments(name).mean
    label = shown_name(name) if result.n == 1 else f"mean {shown_name(name)}"
    if len(names) <= 1:
        swept = (names or list(result.points))[0]
        values, points = sorted_points(result, swept)
        mean = means[points]
        axes.plot(values, mean, color=BLUE, marker=".", markersize=4, label="mean")
        if result.n > 1:
            band = _quantiles(result.summary(name)[points])
            axes.fill_between(
                values, *band, color=BLUE, alpha=0.2, linewidth=0, label="5 to 95 % of trajectories"
            )
        axes.set_ylabel(shown_name(name))
        scale_axis(axes, swept, values)
    elif len(names) == 2:
        _over_two(axes, result, means, label)
    else:
        shown = np.isfinite(means)
        _dots(axes, result, names, shown, means[shown], label)
    axes.set_title(_each(result))


def draw_modes(axes: Axes, result: EnsembleData, name: str, t: float) -> None:
    """Modes at sample time `t`, as `Result.modes` gives them.

    Without a sweep they are marked in the histogram. Over one name, positions, with areas as
    weights; over two, how many; over three, the points with several, coloured by the distance
    between the outermost.

    Raises
    ------
    ConfigError
        More than three names were swept, or there is nothing to take modes from.
    """
    modes = modes_at(result, name, t, ALPHA)
    names = varied(result)
    if not result.swept:
        draw_histogram(axes, result, name, t)
        for position in modes.positions[: int(modes.count)]:
            axes.axvline(position, color=VERMILION, linewidth=1.2)
        return
    if len(names) <= 1:
        _positions(axes, result, name, modes)
    elif len(names) == 2:
        counted = modes.count.astype(np.float64)
        _over_two(axes, result, counted, f"modes of {shown_name(name)}", whole=True)
    else:
        several = modes.count > 1
        apart = np.nanmax(modes.positions[several], 1, initial=-np.inf)
        apart -= np.nanmin(modes.positions[several], 1, initial=np.inf)
        _dots(axes, result, names, several, apart, f"distance of modes, {amount(result, name)}")
    several_at = int((modes.count > 1).sum())
    axes.set_title(
        f"{at_time(result, t)}, several modes at {several_at} of {result.n_points} points"
    )


def _each(result: EnsembleData) -> str:
    plural = "y" if result.n == 1 else "ies"
    return f"{result.n:,} trajector{plural} at each point"


def _numbers(axes: Axes, result: EnsembleData, name: str) -> None:
    """Histogram of the numbers of all trajectories."""
    values = result.summary(name)
    valid = values[np.isfinite(values)]
    if not valid.size:
        raise ConfigError(f"{name} is not a number for any trajectory of {result.name}")
    bins = int(np.clip(2 * np.sqrt(valid.size), *HISTOGRAM_BINS))
    axes.hist(valid, bins=bins, color=BLUE, alpha=0.85)
    axes.set_xlabel(shown_name(name))
    axes.set_ylabel("trajectories")
    whole_ticks(axes.yaxis)
    part = f"{valid.size:,} of " if valid.size < values.size else ""
    axes.set_title(f"{part}{values.size:,} trajectories{', the others have NaN' if part else ''}")


def _positions(axes: Axes, result: EnsembleData, name: str, modes: Modes) -> None:
    swept = (varied(result) or list(result.points))[0]
    values, points = sorted_points(result, swept)
    positions, weights = modes.positions[points], modes.weights[points]
    across = np.broadcast_to(values[:, None], positions.shape)
    axes.scatter(across, positions, s=_LARGEST_DOT * np.nan_to_num(weights), color=BLUE)
    axes.set_ylabel(f"modes of {amount(result, name)}")
    scale_axis(axes, swept, values)


def _quantiles(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Quantiles ``[point]`` of the numbers among values ``[point, trajectory]``."""
    numbers = [row[np.isfinite(row)] for row in values]
    low, high = (
        np.array([np.quantile(row, level) if row.size else np.nan for row in numbers])
        for level in LEVELS
    )
    return low, high


def _over_two(
    axes: Axes, result: EnsembleData, values: FloatArray, label: str, *, whole: bool = False
) -> None:
    """A map: cells of a grid, or triangles between points that are none."""
    if "grid" in result.attributes:
        draw_map(axes, result, values, label, whole=whole)
    else:
        _triangles(axes, result, values, label, whole=whole)


def _triangles(
    axes: Axes, result: EnsembleData, values: FloatArray, label: str, *, whole: bool
) -> None:
    """Each triangle has the mean of its corners; it is blank where a corner has no value.

    Triangles are made in the units of the picture, with logarithms where the axis has them.
    """
    from matplotlib.tri import Triangulation

    (down, across), plane = varied(result), list[FloatArray]()
    for swept in (across, down):
        given = result.points[swept]
        place = np.log(given) if logarithmic(np.sort(given)) else given
        plane.append((place - place.min()) / (place.max() - place.min()))
    try:
        triangles = Triangulation(*plane).triangles
    except (RuntimeError, ValueError):
        raise ConfigError(f"the points of {down} and {across} lie on a line: no map") from None
    shown = triangles[np.isfinite(values[triangles]).all(axis=1)]
    if not len(shown):
        raise ConfigError(f"{label} is not a number at any three neighbouring points")
    corners = Triangulation(result.points[across], result.points[down], shown)
    # The number of a triangle is one that occurs at a corner: a mean of counts is none.
    colours: Any = np.median(values[shown], axis=1) if whole else values[shown].mean(axis=1)
    mesh = axes.tripcolor(
        corners, facecolors=colours, rasterized=True, **colours_of(colours, whole=whole)
    )
    scale_axis(axes, across, np.sort(result.points[across]))
    axes.set_ylabel(down)
    if logarithmic(np.sort(result.points[down])):
        axes.set_yscale("log")
    colour_bar(mesh, axes, label, whole=whole)


def _dots(
    axes: Any, result: EnsembleData, names: list[str], shown: npt.NDArray[np.bool_],
    colours: FloatArray, label: str,
) -> None:  # fmt: skip
    """Points in the space of three swept names; axes span all points of the sweep."""
    from matplotlib.ticker import MaxNLocator

    if len(names) != 3:
        raise ConfigError(f"a plot shows a sweep over up to three names, not {', '.join(names)}")
    places = []
    for swept in names:
        values = result.points[swept]
        # matplotlib has no logarithmic axes in three dimensions, and no space for small numbers
        log = logarithmic(np.sort(values))
        power = int(np.floor(np.log10(np.abs(values).max() or 1.0)))
        places.append(np.log10(values) if log else values / 10.0**power)
        axis = "xyz"[len(places) - 1]
        unit = f"{swept} (1e{power})" if power else swept
        getattr(axes, f"set_{axis}label")(f"log10 {swept}" if log else unit)
        getattr(axes, f"set_{axis}lim")(places[-1].min(), places[-1].max())
        getattr(axes, f"{axis}axis").set_major_locator(MaxNLocator(5))
    dots = axes.scatter(*(place[shown] for place in places), c=colours, cmap="viridis", s=10)
    axes.figure.colorbar(dots, ax=axes, shrink=0.7, pad=0.12).set_label(label)

"""Pictures of a sweep at one sample time: distributions and means over what was varied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.store.results.ensemble_data import EnsembleData
from tauslab.store.results.samples import has_samples, is_whole
from tauslab.views.distributions import (
    HEATMAP_BINS,
    HISTOGRAM_BINS,
    amount,
    at_time,
    band_of,
    binned,
    density_map,
    draw_share,
    is_switch,
    middle_edges,
    probability_label,
    runs_of,
)
from tauslab.views.figures import BLUE, colour_bar, limit_counts, shown_name, whole_ticks, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("heatmap", "histogram", "mean")
_MOST_CURVES = 12
_WIDE, _UNEVEN = 50, 5  # ratios of the ends: of two values, and of more, whose middle decides
_MOST_POINTS = 4096  # beyond, a picture has more columns than pixels


def varied(result: EnsembleData) -> list[str]:
    """Names that have more than one value."""
    return [name for name, values in result.points.items() if len(np.unique(values)) > 1]


def automatic_kind(result: EnsembleData, name: str) -> str:
    """A distribution over one name where samples or a histogram of them are there, else means."""
    counted = has_samples(result, name) or f"statistics/histogram/{name}" in result.data
    counted = counted and result.n > 1
    return "heatmap" if counted and len(varied(result)) < 2 else "mean"


def draw_sweep(
    axes: Axes, result: EnsembleData, name: str, kind: str, t: float, colour: str = "auto"
) -> None:
    """Draw a species or observable at sample time `t` over one swept name, or over two.

    Raises
    ------
    ConfigError
        A kind that a sweep does not have, or too many swept names.
    """
    names = varied(result) or list(result.points)[:1]
    if kind not in KINDS:
        raise ConfigError(f"a sweep has no plot of {kind}; kinds: {', '.join(KINDS)}")
    if len(names) == 2 and kind == "mean":
        _mean_map(axes, result, name, t)
    elif len(names) > 1:
        allowed = "one" if kind != "mean" else "one or two"
        map_of = f"; {opt('kind', 'mean')} draws a map" if len(names) == 2 else ""
        raise ConfigError(
            f"a {kind} plot shows a sweep over {allowed} of its names, not "
            f"{', '.join(names)}{map_of}"
        )
    elif kind == "mean":
        _mean(axes, result, name, names[0], t)
    elif kind == "histogram":
        _histograms(axes, result, name, names[0], t)
    else:
        _heatmap(axes, result, name, names[0], t, colour)
    axes.set_title(f"{at_time(result, t)}, {result.n:,} {runs_of(result, result.n)} at each point")


def sorted_points(result: EnsembleData, swept: str) -> tuple[FloatArray, list[int]]:
    """Values in increasing order, and their points; the first of points that repeat a value."""
    values, first = np.unique(result.points[swept], return_index=True)
    if len(values) > _MOST_POINTS:
        raise ConfigError(f"a plot shows up to {_MOST_POINTS} values of {swept}: {len(values)}")
    return values, first.tolist()


def scale_axis(axes: Axes, swept: str, values: FloatArray) -> None:
    """Label the first axis with a swept name, and make it logarithmic where its values are."""
    axes.set_xlabel(shown_name(swept))
    if logarithmic(values):
        axes.set_xscale("log")


def logarithmic(values: FloatArray) -> bool:
    """Return whether sorted values span orders of magnitude, with the geometric mean as middle."""
    low, high, middle = float(values[0]), float(values[-1]), float(np.median(values))
    if not (low > 0 and high / low > (_WIDE if len(values) == 2 else _UNEVEN)):
        return False
    geometric, arithmetic = np.sqrt(low) * np.sqrt(high), (low + high) / 2
    off = abs(np.log(middle / geometric)), abs(np.log(middle / arithmetic))
    return len(values) == 2 or bool(off[0] < off[1])


def _mean(axes: Axes, result: EnsembleData, name: str, swept: str, t: float) -> None:
    """Mean and the band between the 5 and 95 % quantiles against the swept value."""
    values, points = sorted_points(result, swept)
    time = result.time_index(t)
    mean = result.mean(name)[points, time]
    if is_switch(result, name):
        draw_share(axes, values, mean, result.n, name)
    else:
        axes.plot(values, mean, color=BLUE, marker=".", markersize=4, label="mean")
        if result.n > 1:
            band, label = band_of(result, name)
            low, high = (edge[points, time] for edge in band)
            axes.fill_between(values, low, high, color=BLUE, alpha=0.2, linewidth=0, label=label)
        axes.set_ylabel(amount(result, name))
        limit_counts(axes, whole=is_whole(result, name))
    scale_axis(axes, swept, values)


def _mean_map(axes: Axes, result: EnsembleData, name: str, t: float) -> None:
    means = result.mean(name)[:, result.time_index(t)]
    unit = result.amount_unit if name in result.species else ""
    draw_map(axes, result, means, with_unit(f"mean {shown_name(name)}", unit))


def draw_map(
    axes: Axes, result: EnsembleData, values_at: npt.ArrayLike, label: str, *, whole: bool = False
) -> None:
    """Values ``[point]`` over two swept names of a full grid; NaN stays blank."""
    names, ends = varied(result), []
    means = result.grid(values_at).squeeze()
    for axis, swept in enumerate(names):
        values = result.grid(result.points[swept]).squeeze().take(0, axis=1 - axis)
        order = np.argsort(values)
        if means.ndim > 2 or not np.all(np.diff(values[order]) > 0):
            raise ConfigError(f"a map of {' and '.join(names)} cannot show values that repeat")
        means = means.take(order, axis=axis)
        ends.append(values[order])
    mesh = axes.pcolormesh(
        _edges(ends[1]), _edges(ends[0]), means, rasterized=True, **colours_of(means, whole=whole)
    )
    scale_axis(axes, names[1], ends[1])
    axes.set_ylabel(shown_name(names[0]))
    if logarithmic(ends[0]):
        axes.set_yscale("log")
    colour_bar(mesh, axes, label, whole=whole)


def colours_of(values: FloatArray, *, whole: bool) -> dict[str, Any]:
    """Colours of values; of a few whole numbers, one colour for each."""
    if not whole:
        return {"cmap": "viridis"}
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm, ListedColormap

    low, high = int(np.nanmin(values)), int(np.nanmax(values))
    if high - low > _MOST_CURVES:
        return {"cmap": "viridis"}
    count = high - low + 1
    colours = colormaps["viridis"](np.linspace(0, 1, count))
    edges = np.arange(low, high + 2) - 0.5
    return {"cmap": ListedColormap(colours), "norm": BoundaryNorm(edges, count)}


def _edges(values: FloatArray) -> FloatArray:
    """Edges of cells around increasing values, half-way between neighbours."""
    if logarithmic(values):
        edges: FloatArray = np.exp(_edges_of(np.log(values)))
        return edges
    return _edges_of(values)


def _edges_of(values: FloatArray) -> FloatArray:
    if len(values) == 1:
        return middle_edges(values)
    middle = (values[1:] + values[:-1]) / 2
    ends = 2 * values[0] - middle[0], 2 * values[-1] - middle[-1]
    return np.concatenate([[ends[0]], middle, [ends[1]]])


def _densities(
    result: EnsembleData, name: str, points: list[int], t: float, most: int
) -> tuple[FloatArray, FloatArray]:
    """Probability density ``[point, bin]`` at `t`, and the edges of the bins."""
    numbers, edges, whole = binned(result, name, t, most)
    total = np.maximum(1, numbers.sum(1))
    if not has_samples(result, name):
        total = np.maximum(1, result.stored_histogram(name)[0][:, result.time_index(t)].sum(1))
    density = numbers / total[:, None] / np.diff(edges)
    return density[points], edges - 0.5 if whole else edges


def _histograms(axes: Axes, result: EnsembleData, name: str, swept: str, t: float) -> None:
    """A curve per value, up to a dozen."""
    from matplotlib import colormaps

    values, points = sorted_points(result, swept)
    chosen = np.unique(np.linspace(0, len(points) - 1, _MOST_CURVES).round()).astype(int)
    shown = [points[i] for i in chosen]
    most = int(np.clip(2 * np.sqrt(result.n), *HISTOGRAM_BINS))
    densities, edges = _densities(result, name, shown, t, most)
    colours = colormaps["viridis"](np.linspace(0, 0.92, len(shown)))
    for density, value, colour in zip(densities, values[chosen], colours, strict=True):
        axes.stairs(
            density, edges, color=colour, linewidth=1.0, label=f"{shown_name(swept)} = {value:.4g}"
        )
    axes.set_xlabel(amount(result, name))
    axes.set_ylabel(probability_label(result, name, edges))
    axes.set_ylim(bottom=0)
    if is_whole(result, name):
        whole_ticks(axes.xaxis)


def _heatmap(
    axes: Axes, result: EnsembleData, name: str, swept: str, t: float, colour: str
) -> None:
    """A column of colours per value."""
    values, points = sorted_points(result, swept)
    most = int(np.clip(4 * np.sqrt(result.n), *HEATMAP_BINS))
    densities, edges = _densities(result, name, points, t, most)
    density_map(axes, result, name, _edges(values), densities, edges, colour)
    scale_axis(axes, swept, values)

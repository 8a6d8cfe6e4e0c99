"""Pictures of a result: trajectories, mean with bands, histogram at a time, heat map over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError, OutputError
from tauslab.runner.results import columns
from tauslab.runner.results.columns import FloatArray
from tauslab.runner.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue and vermilion of Okabe and Ito (2008), told apart under every common colour blindness.
BLUE, VERMILION, _GREY = "#0072B2", "#D55E00", "#8A8A8A"
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "savefig.dpi": 200,
    "svg.hashsalt": "tauslab",  # the same result draws the same file
}
SUFFIXES = (".png", ".svg")
_MOST_LINES = 30
_MOST_PANELS = 24
_DEFAULT_PANELS = 4
_LOOKED_AT = 64  # trajectories that tell which quantities are constant
HISTOGRAM_BINS = (20, 100)  # fewest and most; between them, as many as the samples can fill
HEATMAP_BINS = (40, 240)
_MANY = 200  # from this many trajectories on, "auto" draws a distribution


def plot_result(
    result: Result,
    kind: str = "auto",
    species: Sequence[str] | None = None,
    t: float | None = None,
    path: Path | None = None,
    colour: str = "auto",
) -> Figure:
    """Draw a panel per species, observable or summary; write the picture if `path` is given.

    Parameters
    ----------
    kind
        ``trajectories``, ``mean``, ``histogram``, ``heatmap``, ``modes``; ``auto`` takes what suits
        the data. A summary is drawn in one way only: over what was swept, else as a histogram.
    species
        Names; by default the first four of `Result.foremost` that ever change, or the summaries
        where there is nothing else.
    t
        Sample time of a histogram; by default the last.
    path
        File to write, PNG or SVG by its suffix.
    colour
        Colour scale of a heat map: ``linear``, ``log``, or ``auto`` (log where the probabilities
        span more than a factor of 300).

    Raises
    ------
    ConfigError
        An unknown kind, name, time or suffix, data that was not recorded, or no matplotlib.
    OutputError
        The picture cannot be written.
    """
    names = list(species or _default_names(result))
    _check(kind, names, path, colour)
    kinds = [_kind_of(result, name, kind, t) for name in names]
    at = float(result.times[-1]) if t is None else t
    with plot_style():
        figure, panels = new_panels([_projection(result, drawn) for drawn in kinds])
        for name, drawn, axes in zip(names, kinds, panels, strict=True):
            if drawn in ("summary", "modes"):
                from tauslab.runner.plots import maps as plot_maps

                draw = plot_maps.draw_summary if drawn == "summary" else plot_maps.draw_modes
                draw(axes, result, name, at)
            elif result.swept:
                from tauslab.runner.plots.sweep import draw_sweep

                draw_sweep(axes, result, name, drawn, at, colour)
            elif drawn == "heatmap":
                _heatmap(axes, result, name, colour)
            elif drawn == "histogram":
                draw_histogram(axes, result, name, at)
            else:
                _LINES[drawn](axes, result, name)
        if path is not None:
            save_figure(figure, path)
    return figure


def plot_style() -> AbstractContextManager[None]:
    """Our style, for the figures made in its context; a `ConfigError` without matplotlib."""
    try:
        from matplotlib import rc_context
    except ImportError:
        raise ConfigError("plots need matplotlib: pip install tauslab[plot]") from None
    return rc_context(_STYLE)


def _check(kind: str, names: list[str], path: Path | None, colour: str) -> None:
    kinds = ("auto", "heatmap", "histogram", "modes", *_LINES)
    if kind not in kinds:
        raise ConfigError(f"{kind!r} is not a kind of plot; kinds: {', '.join(kinds)}")
    if colour not in ("auto", "linear", "log"):
        raise ConfigError(f"{colour!r} is not a colour scale; scales: auto, linear, log")
    if not 1 <= len(names) <= _MOST_PANELS:
        raise ConfigError(f"a plot shows 1 to {_MOST_PANELS} species, not {len(names)}")
    if path is not None and path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: pictures are written as {' or '.join(SUFFIXES)}")


def _default_names(result: Result) -> tuple[str, ...]:
    """The first few of what there is something to draw of."""
    sampled = any(
        key in result.data for key in ("counts", "amounts", "observables", "statistics/n")
    )
    histograms = any(key.startswith("statistics/histogram/") for key in result.data)
    quantities = result.foremost
    if not (sampled or histograms):
        return (result.summaries or quantities)[:_DEFAULT_PANELS]
    moving = islice((name for name in quantities if _moves(result, name)), _DEFAULT_PANELS)
    return tuple(moving) or quantities[:_DEFAULT_PANELS]


def _moves(result: Result, name: str) -> bool:
    """Whether a quantity ever changes, as far as the first trajectories or the sums tell."""
    stored, group, names = result.place_of(name)
    if stored in result.data:
        first = result.flat(stored)[slice(_LOOKED_AT)][:, :, names.index(name)]
        return bool((first != first.flat[0]).any())
    if f"{group}/n" in result.data:
        return bool(np.ptp(result.mean(name)) > 0 or (result.variance(name) > 0).any())
    return True


def _kind_of(result: Result, name: str, kind: str, t: float | None) -> str:
    if name not in result.species + result.observables and result.summaries:
        return "summary"
    return _automatic(result, name, t) if kind == "auto" else kind


def _projection(result: Result, kind: str) -> str | None:
    """Three dimensions for what is drawn over three swept names."""
    from tauslab.runner.plots.sweep import varied

    return "3d" if kind in ("summary", "modes") and len(varied(result)) == 3 else None


def _automatic(result: Result, name: str, t: float | None) -> str:
    if result.swept:
        from tauslab.runner.plots.sweep import automatic_kind

        return automatic_kind(result, name)
    if t is not None or len(result.times) == 1:
        return "histogram"
    if result.has_samples(name):
        return "heatmap" if result.n >= _MANY else "trajectories"
    return "heatmap" if f"statistics/histogram/{name}" in result.data else "mean"


def new_panels(projections: Sequence[str | None]) -> tuple[Figure, list[Axes]]:
    """A figure of its own, apart from pyplot's: nothing global changes, no window opens."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = len(projections)
    across = min(count, 1 if count == 1 else 2 if count <= 4 else 3)
    down = -(-count // across)
    size = (5.6, 3.6) if count == 1 else (3.9 * across, 2.7 * down)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [
        figure.add_subplot(down, across, index + 1, projection=projection)
        for index, projection in enumerate(projections)
    ]


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture, the same bytes for the same picture; an `OutputError` if it cannot be."""
    # A date in the file would make every picture a new one.
    metadata: Mapping[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
    try:
        figure.savefig(path, metadata=dict(metadata))
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from None


def amount(result: Result, name: str) -> str:
    """Label of an axis with values of a species or observable."""
    return f"{name} (molecules)" if name in result.species else name


def _time_axes(axes: Axes, result: Result, name: str) -> None:
    axes.set_xlabel("time")
    axes.set_ylabel(amount(result, name))
    if len(result.times) > 1:
        axes.set_xlim(float(result.times[0]), float(result.times[-1]))


def _trajectories(axes: Axes, result: Result, name: str) -> None:
    """Up to `_MOST_LINES` trajectories as steps, since a state holds until the next event."""
    column = result.column(name)
    piece: npt.NDArray[Any] = next(column.pieces(), np.zeros((0, len(result.times))))
    shown = piece[:_MOST_LINES].astype(np.float64)
    if column.whole:
        shown[shown < 0] = np.nan
    alone = result.n == 1
    for index, line in enumerate(shown):
        label = f"{len(shown)} of {result.n:,} trajectories" if index == 0 and not alone else None
        axes.step(
            result.times,
            line,
            where="post",
            color=BLUE if alone else _GREY,
            linewidth=1.0 if alone else 0.6,
            alpha=1.0 if alone else 0.65,
            label=label,
        )
    if not alone:
        axes.plot(result.times, result.mean(name), color=VERMILION, linewidth=1.8, label="mean")
        _legend_above(axes)
    _time_axes(axes, result, name)


def _mean(axes: Axes, result: Result, name: str) -> None:
    """Mean, a band of one standard deviation, and 5 and 95 % quantiles where samples are there."""
    times, mean, deviation = result.times, result.mean(name), result.std(name)
    axes.fill_between(
        times,
        mean - deviation,
        mean + deviation,
        color=BLUE,
        alpha=0.25,
        linewidth=0,
        label="mean ± standard deviation",
    )
    axes.plot(times, mean, color=BLUE, linewidth=1.8, label="mean")
    if result.has_samples(name):
        for level, values in zip((5, 95), result.quantile(name, (0.05, 0.95)), strict=True):
            label = "5 and 95 % quantiles" if level == 5 else None
            axes.plot(times, values, color=VERMILION, linewidth=0.9, linestyle="--", label=label)
    _time_axes(axes, result, name)
    _legend_above(axes)


def _legend_above(axes: Axes) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)


_LINES: Mapping[str, Callable[[Axes, Result, str], None]] = {
    "trajectories": _trajectories,
    "mean": _mean,
}


def draw_histogram(axes: Axes, result: Result, name: str, t: float) -> None:
    """Distribution of a species or observable at a sample time."""
    numbers, edges = result.histogram(name, t)
    sampled = result.has_samples(name)
    whole = sampled and result.column(name).whole
    most = int(np.clip(2 * np.sqrt(result.n), *HISTOGRAM_BINS))
    if sampled and len(numbers) > most:
        high = float(edges[-1]) - (1 if whole else 0)
        numbers, edges = result.histogram(
            name, t, round_edges(float(edges[0]), high, most, whole=whole)
        )
    total = max(1, int(numbers.sum()))
    density = numbers / (total * np.diff(edges))
    unit = " density" + (" (1/molecule)" if name in result.species else "")
    axes.set_ylabel("probability" + ("" if np.all(np.diff(edges) == 1) else unit))
    if whole:
        edges = edges - 0.5  # bars are centred on their whole numbers
    axes.stairs(density, edges, fill=True, color=BLUE, alpha=0.85)
    axes.set_xlim(float(edges[0]), float(edges[-1]))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(amount(result, name))
    axes.set_title(f"t = {t:g}, {total:,} trajectories")


def round_edges(low: float, high: float, most: int, *, whole: bool) -> FloatArray:
    """Edges of at most `most` equal bins from `low` to `high`."""
    if whole or low == high:
        return columns.whole_edges(low, high, most)
    return np.linspace(low, high, most + 1)


def _heatmap(axes: Axes, result: Result, name: str, colour: str) -> None:
    """Distribution over time: a column per sample time, which reaches half-way to the next."""
    probability, edges = _distribution(result, name)
    density_map(axes, result, name, middle_edges(result.times), probability, edges, colour)
    axes.set_xlabel("time")


def density_map(
    axes: Axes,
    result: Result,
    name: str,
    columns_at: FloatArray,
    probability: FloatArray,
    edges: FloatArray,
    colour: str,
) -> None:
    """Colours for probabilities ``[column, bin]``; `columns_at` and `edges` bound the cells."""
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    positive = probability[probability > 0]
    if not positive.size:
        raise ConfigError(f"there is no sample of {name} to draw")
    # A start from one state has all its probability in one cell: it must not set the scale.
    spread = probability[(probability > 0).sum(1) > 1]
    low = float(positive.min())
    high = float(np.quantile(spread[spread > 0], 0.995) if spread.size else positive.max())
    high = max(high, low * 1.001)
    logarithmic = colour == "log" or (colour == "auto" and high / low > 300)
    norm = LogNorm(low, high) if logarithmic else Normalize(0, high)
    shown = np.ma.masked_equal(probability, 0) if logarithmic else probability
    colours = colormaps["viridis"].copy()
    axes.set_facecolor(colours(0.0))
    mesh = axes.pcolormesh(columns_at, edges, shown.T, cmap=colours, norm=norm, rasterized=True)
    axes.set_ylim(float(edges[0]), float(edges[-1]))
    axes.set_ylabel(amount(result, name))
    whole = bool(np.all(np.diff(edges) == 1))
    unit = "" if whole else " per molecule" if name in result.species else " density"
    bar = axes.figure.colorbar(
        mesh, ax=axes, pad=0.02, extend="max" if positive.max() > high else "neither"
    )
    bar.set_label(f"P({name}, t){unit}")
    bar.outline.set_linewidth(0.7)


def _distribution(result: Result, name: str) -> tuple[FloatArray, FloatArray]:
    """Probability density ``[time, bin]`` and edges ``[bins + 1]``."""
    if result.has_samples(name):
        column = result.column(name)
        most = int(np.clip(4 * np.sqrt(result.n), *HEATMAP_BINS))
        edges = round_edges(*columns.extremes(column), most, whole=column.whole)
        numbers = columns.table(column, edges)
        total = numbers.sum(1)
    else:
        cells, edges = result.stored_histogram(name)
        numbers, total = cells[:, 1:-1], cells.sum(1)
    density = numbers / np.maximum(total, 1)[:, None] / np.diff(edges)
    whole = result.has_samples(name) and name in result.species
    return density, edges - 0.5 if whole else edges  # cells are centred on their whole numbers


def middle_edges(times: FloatArray) -> FloatArray:
    """Edges of cells that begin and end half-way between neighbours, or at the ends."""
    if len(times) == 1:
        return np.array([times[0] - 0.5, times[0] + 0.5])
    middle = (times[1:] + times[:-1]) / 2
    return np.concatenate([times[:1], middle, times[-1:]])

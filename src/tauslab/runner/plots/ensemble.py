"""Pictures of a result: trajectories, mean with bands, histogram at a time, heat map over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError
from tauslab.runner.plots.distributions import (
    HEATMAP_BINS,
    amount,
    density_map,
    draw_histogram,
    middle_edges,
    round_edges,
)
from tauslab.runner.plots.figures import (
    BLUE,
    GREY,
    SUFFIXES,
    VERMILION,
    new_panels,
    plot_style,
    save_figure,
)
from tauslab.runner.plots.maps import draw_modes, draw_summary
from tauslab.runner.plots.sweep import automatic_kind, draw_sweep, varied
from tauslab.runner.results import columns
from tauslab.runner.results.columns import FloatArray
from tauslab.runner.results.ensemble_data import EnsembleData

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LINES = 30
_MOST_PANELS = 24
_DEFAULT_PANELS = 4
_LOOKED_AT = 64  # trajectories that tell which quantities are constant
_MANY = 200  # from this many trajectories on, "auto" draws a distribution


def plot_result(
    result: EnsembleData,
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
                draw = draw_summary if drawn == "summary" else draw_modes
                draw(axes, result, name, at)
            elif result.swept:
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


def _default_names(result: EnsembleData) -> tuple[str, ...]:
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


def _moves(result: EnsembleData, name: str) -> bool:
    """Whether a quantity ever changes, as far as the first trajectories or the sums tell."""
    stored, group, names = result.place_of(name)
    if stored in result.data:
        first = result.flat(stored)[slice(_LOOKED_AT)][:, :, names.index(name)]
        return bool((first != first.flat[0]).any())
    if f"{group}/n" in result.data:
        return bool(np.ptp(result.mean(name)) > 0 or (result.variance(name) > 0).any())
    return True


def _kind_of(result: EnsembleData, name: str, kind: str, t: float | None) -> str:
    if name not in result.species + result.observables and result.summaries:
        return "summary"
    return _automatic(result, name, t) if kind == "auto" else kind


def _projection(result: EnsembleData, kind: str) -> str | None:
    """Three dimensions for what is drawn over three swept names."""
    return "3d" if kind in ("summary", "modes") and len(varied(result)) == 3 else None


def _automatic(result: EnsembleData, name: str, t: float | None) -> str:
    if result.swept:
        return automatic_kind(result, name)
    if t is not None or len(result.times) == 1:
        return "histogram"
    if result.has_samples(name):
        return "heatmap" if result.n >= _MANY else "trajectories"
    return "heatmap" if f"statistics/histogram/{name}" in result.data else "mean"


def _time_axes(axes: Axes, result: EnsembleData, name: str) -> None:
    axes.set_xlabel("time")
    axes.set_ylabel(amount(result, name))
    if len(result.times) > 1:
        axes.set_xlim(float(result.times[0]), float(result.times[-1]))


def _trajectories(axes: Axes, result: EnsembleData, name: str) -> None:
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
            color=BLUE if alone else GREY,
            linewidth=1.0 if alone else 0.6,
            alpha=1.0 if alone else 0.65,
            label=label,
        )
    if not alone:
        axes.plot(result.times, result.mean(name), color=VERMILION, linewidth=1.8, label="mean")
        _legend_above(axes)
    _time_axes(axes, result, name)


def _mean(axes: Axes, result: EnsembleData, name: str) -> None:
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


_LINES: Mapping[str, Callable[[Axes, EnsembleData, str], None]] = {
    "trajectories": _trajectories,
    "mean": _mean,
}


def _heatmap(axes: Axes, result: EnsembleData, name: str, colour: str) -> None:
    """Distribution over time: a column per sample time, which reaches half-way to the next."""
    probability, edges = _distribution(result, name)
    density_map(axes, result, name, middle_edges(result.times), probability, edges, colour)
    axes.set_xlabel("time")


def _distribution(result: EnsembleData, name: str) -> tuple[FloatArray, FloatArray]:
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

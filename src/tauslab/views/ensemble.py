"""Pictures of a result: trajectories, mean with a band, histogram at a time, heat map over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError, meant_word
from tauslab.base.option_names import opt
from tauslab.store.results import columns
from tauslab.store.results.ensemble_data import EnsembleData
from tauslab.store.results.samples import (
    column_of,
    flat_rows,
    has_samples,
    is_whole,
    main_quantities,
    place_of,
)
from tauslab.views.distributions import (
    HEATMAP_BINS,
    amount,
    band_of,
    density_map,
    draw_histogram,
    draw_share,
    is_switch,
    middle_edges,
    round_edges,
    time_label,
)
from tauslab.views.figures import (
    BLUE,
    GREY,
    VERMILION,
    drawing,
    limit_counts,
    line_style,
    shown_name,
    span_times,
    with_unit,
)
from tauslab.views.maps import draw_modes, draw_summary
from tauslab.views.sweep import automatic_kind, draw_sweep, varied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OF_LATTICES = ("counts", "kymograph", "slice", "movie")
_OVER_TIME = {"trajectories", "mean", "heatmap", "share"}
_MOST_LINES = 30
_MOST_PANELS = 36
_DEFAULT_PANELS = 4
_DEFAULT_LINES = 10  # of differential equations, which share a panel
_LOOKED_AT = 64  # trajectories that are looked at for what is constant
_MANY = 200  # from this many trajectories on, "auto" draws a distribution


def plot_result(
    result: EnsembleData, kind: str = "auto", species: Sequence[str] | None = None,
    t: float | None = None, path: Path | None = None, colour: str = "auto", ax: Axes | None = None,
) -> Figure:  # fmt: skip
    """Draw a panel per species, observable or summary; write the picture if `path` is given.

    Trajectories of differential equations share one panel. Of a species that is only ever 0 or 1,
    the share of trajectories with 1 is drawn in place of trajectories, means and heat maps.

    Parameters
    ----------
    kind
        ``trajectories``, ``mean``, ``histogram``, ``heatmap``, ``modes``; ``auto`` takes what suits
        the data. A summary is drawn in one way only: over what was swept, else as a histogram.
    species
        Names; by default the first four (of equations ten) of `main_quantities` that ever change,
        or the summaries where there is nothing else.
    t
        Sample time of a histogram, or of a sweep; by default the last.
    path
        File to write: PNG, SVG or PDF by its suffix.
    colour
        Colour scale of a heat map: ``linear``, ``log``, or ``auto`` (log where the probabilities
        span more than a factor of 300).
    ax
        Axes of another figure to draw a single panel in.

    Raises
    ------
    ConfigError
        An unknown kind, name, time or suffix, data that was not recorded, several panels for one
        `ax`, or no matplotlib.
    OutputError
        The picture cannot be written.
    """
    together = _share_a_panel(result, kind, t)
    names = list(species or _default_names(result, together=together))
    _check(kind, names, colour)
    together = together and all(name in main_quantities(result) for name in names)
    kinds = [] if together else [_kind_of(result, name, kind, t) for name in names]
    if t is not None and not result.swept and {*kinds} <= _OVER_TIME:
        raise ConfigError(
            f"{opt('t', f'{t:g}')}: a plot of {kind} shows all times: leave it out, or "
            f"choose {opt('kind', 'histogram')}"
        )
    if t is not None and {*kinds} == {"summary"}:
        raise ConfigError(f"{opt('t', f'{t:g}')}: a summary is of a whole trajectory: leave it out")
    projections = [_projection(result, drawn) for drawn in kinds] or [None]
    with drawing(path, projections, ax, result.unfinished) as (figure, panels):
        if together:
            _time_courses(panels[0], result, names)
            return figure
        at = float(result.times[-1]) if t is None else t
        for name, drawn, axes in zip(names, kinds, panels, strict=True):
            _panel(axes, result, name, drawn, at, colour)
    return figure


def _panel(axes: Axes, result: EnsembleData, name: str, drawn: str, t: float, colour: str) -> None:
    if drawn in ("summary", "modes"):
        if drawn == "summary":
            draw_summary(axes, result, name)
        else:
            draw_modes(axes, result, name, t)
    elif result.swept:
        draw_sweep(axes, result, name, drawn, t, colour)
    elif drawn == "heatmap":
        _heatmap(axes, result, name, colour)
    elif drawn == "histogram":
        draw_histogram(axes, result, name, t)
    else:
        _LINES[drawn](axes, result, name)


def _check(kind: str, names: list[str], colour: str) -> None:
    kinds = ("auto", "heatmap", "histogram", "modes", "trajectories", "mean")
    if kind not in kinds and kind in _OF_LATTICES:
        raise ConfigError(
            f"a plot of {kind} is of a lattice; of an ensemble kinds are {', '.join(kinds)}"
        )
    if kind not in kinds:
        near = f" (is {meant} meant?)" if (meant := meant_word(kind, kinds)) else ""
        raise ConfigError(f"{kind!r} is not a kind of plot{near}; kinds: {', '.join(kinds)}")
    if colour not in ("auto", "linear", "log"):
        raise ConfigError(f"{colour!r} is not a colour scale; scales: auto, linear, log")
    if not 1 <= len(names) <= _MOST_PANELS:
        raise ConfigError(f"a plot shows 1 to {_MOST_PANELS} species, not {len(names)}")


def _share_a_panel(result: EnsembleData, kind: str, t: float | None) -> bool:
    """Return whether all names are lines in one panel: one trajectory of differential equations."""
    alone = result.continuous and result.n == 1 and not result.swept and t is None
    return alone and kind in ("auto", "trajectories", "mean")


def _default_names(result: EnsembleData, *, together: bool) -> tuple[str, ...]:
    """The first few of what there is something to draw of."""
    sampled = any(
        key in result.data for key in ("counts", "amounts", "observables", "statistics/n")
    )
    histograms = any(key.startswith("statistics/histogram/") for key in result.data)
    quantities, most = main_quantities(result), _DEFAULT_LINES if together else _DEFAULT_PANELS
    if not (sampled or histograms):
        return (result.summaries or quantities)[:most]
    moving = islice((name for name in quantities if _moves(result, name)), most)
    return tuple(moving) or quantities[:most]


def _moves(result: EnsembleData, name: str) -> bool:
    """Return whether a quantity ever changes in the first trajectories, or in the sums."""
    stored, group, names = place_of(result, name)
    if stored in result.data:
        first = flat_rows(result, stored)[slice(_LOOKED_AT)][:, :, names.index(name)]
        return bool((first != first.flat[0]).any())
    if f"{group}/n" in result.data:
        return bool(np.ptp(result.mean(name)) > 0 or (result.variance(name) > 0).any())
    return True


def _kind_of(result: EnsembleData, name: str, kind: str, t: float | None) -> str:
    if name not in result.species + result.observables and result.summaries:
        return "summary"
    chosen = _automatic(result, name, t) if kind == "auto" else kind
    over_time = chosen in ("trajectories", "mean") or (kind == "auto" and chosen == "heatmap")
    if over_time and is_switch(result, name):
        return "share" if not result.swept else "mean"
    return chosen


def _projection(result: EnsembleData, kind: str) -> str | None:
    """Three dimensions for what is drawn over three swept names."""
    return "3d" if kind in ("summary", "modes") and len(varied(result)) == 3 else None


def _automatic(result: EnsembleData, name: str, t: float | None) -> str:
    if result.swept:
        return automatic_kind(result, name)
    if t is not None or len(result.times) == 1:
        return "histogram"
    if has_samples(result, name):
        return "heatmap" if result.n >= _MANY else "trajectories"
    return "heatmap" if f"statistics/histogram/{name}" in result.data else "mean"


def _time_axes(axes: Axes, result: EnsembleData, name: str) -> None:
    axes.set_xlabel(time_label(result))
    axes.set_ylabel(amount(result, name))
    span_times(axes, result.times)
    limit_counts(axes, whole=is_whole(result, name))


def _time_courses(axes: Axes, result: EnsembleData, names: list[str]) -> None:
    """The only trajectory of differential equations: a line per quantity, in one panel."""
    times = result.times
    dot: dict[str, Any] = {"marker": "o", "markersize": 4} if len(times) == 1 else {}
    for number, name in enumerate(names):
        values = result.mean(name)  # of one trajectory
        axes.plot(times, values, label=shown_name(name), linewidth=1.6, **line_style(number), **dot)
    units = {result.amount_unit if name in result.species else "" for name in names}
    axes.set_xlabel(time_label(result))
    axes.set_ylabel(with_unit("amount", units.pop() if len(units) == 1 else ""))
    span_times(axes, times)
    limit_counts(axes, whole=False)


def _trajectories(axes: Axes, result: EnsembleData, name: str) -> None:
    """Up to `_MOST_LINES` trajectories: counts as steps, since a state holds until an event."""
    column = column_of(result, name)
    piece: npt.NDArray[Any] = next(column.pieces(), np.zeros((0, len(result.times))))
    shown = piece[:_MOST_LINES].astype(np.float64)
    if column.whole:
        shown[shown < 0] = np.nan
    alone = result.n == 1
    style: dict[str, Any] = {"drawstyle": "default" if result.continuous else "steps-post"}
    dot: dict[str, Any] = {"marker": "o", "markersize": 4} if len(result.times) == 1 else {}
    for index, line in enumerate(shown):
        label = f"{len(shown)} of {result.n:,} trajectories" if index == 0 and not alone else None
        axes.plot(
            result.times, line, color=BLUE if alone else GREY, linewidth=1.2 if alone else 0.6,
            alpha=1.0 if alone else 0.65, label=label, **style, **dot,
        )  # fmt: skip
    if not alone:
        mean = result.mean(name)
        axes.plot(result.times, mean, color=VERMILION, linewidth=1.8, label="mean", **dot)
    _time_axes(axes, result, name)


def _mean(axes: Axes, result: EnsembleData, name: str) -> None:
    """Mean and the band between the 5 and 95 % quantiles, or of the deviation that sums give."""
    times, mean = result.times, result.mean(name)
    band, label = band_of(result, name)
    dot: dict[str, Any] = {"marker": "o", "markersize": 4} if len(times) == 1 else {}
    if result.n > 1:
        if len(times) == 1:
            axes.vlines(times, band[0], band[1], color=BLUE, alpha=0.35, linewidth=5, label=label)
        else:
            axes.fill_between(times, *band, color=BLUE, alpha=0.22, linewidth=0, label=label)
    axes.plot(times, mean, color=BLUE, linewidth=1.8, label="mean", **dot)
    _time_axes(axes, result, name)


def _share(axes: Axes, result: EnsembleData, name: str) -> None:
    draw_share(axes, result.times, result.mean(name), int((result.status <= 1).sum()), name)
    axes.set_xlabel(time_label(result))
    span_times(axes, result.times)


_LINES: Mapping[str, Callable[[Axes, EnsembleData, str], None]] = {
    "trajectories": _trajectories,
    "mean": _mean,
    "share": _share,
}


def _heatmap(axes: Axes, result: EnsembleData, name: str, colour: str) -> None:
    """Distribution over time: a column per sample time, which reaches half-way to the next."""
    probability, edges = _distribution(result, name)
    density_map(axes, result, name, middle_edges(result.times), probability, edges, colour)
    axes.set_xlabel(time_label(result))


def _distribution(result: EnsembleData, name: str) -> tuple[FloatArray, FloatArray]:
    """Probability density ``[time, bin]`` and edges ``[bins + 1]``."""
    if has_samples(result, name):
        column = column_of(result, name)
        most = int(np.clip(4 * np.sqrt(result.n), *HEATMAP_BINS))
        edges = round_edges(*columns.extremes(column), most, whole=column.whole)
        numbers = columns.table(column, edges)
        total = numbers.sum(1)
    else:
        cells, edges = result.stored_histogram(name)
        numbers, total = cells[:, 1:-1], cells.sum(1)
    density = numbers / np.maximum(total, 1)[:, None] / np.diff(edges)
    whole = has_samples(result, name) and name in result.species
    return density, edges - 0.5 if whole else edges  # cells are centred on their whole numbers

"""Pictures of states over time: estimates of a filter, and cells that divide.

An unknown name, time or suffix, too many names, or no matplotlib is a `ConfigError`; a picture that
cannot be written is an `OutputError`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned
from tauslab.options.values.texts import some
from tauslab.views.figures import BLUE, GREY, chosen_panels, drawing, shown_name, span_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 40
_ALIKE = 1e-3  # of a value: less is one bar, whose place can be read


class Profile(NamedTuple):
    """Values of a surface over one coordinate.

    Attributes
    ----------
    best, bounds
        The coordinate at the top, and what holds it; NaN where nothing does.
    places, values
        Of points ``[m]``.
    line, heights
        Of the profile, ``[n]``.
    """

    best: float
    bounds: tuple[float, float]
    places: FloatArray
    values: FloatArray
    line: FloatArray
    heights: FloatArray


def plot_moments(
    times: FloatArray,
    moments: Mapping[str, tuple[FloatArray, FloatArray]],
    path: str | os.PathLike[str] | None = None,
    names: Sequence[str] = (),
    particles: FloatArray | None = None,
) -> Figure:
    """Draw means ``[time]`` by name, with two standard deviations, the first four by default.

    A last panel has the effective number of `particles`, where there are some.
    """
    chosen = chosen_panels(names, list(moments))
    count = len(chosen) + (particles is not None)
    with drawing(path, [None] * count) as (figure, panels):
        for name, axes in zip(chosen, panels, strict=False):
            mean, deviation = moments[name]
            least = 0.0 if np.nanmin(mean, initial=0.0) >= 0 else -np.inf
            _band(axes, times, mean, deviation, least)
            axes.set_ylabel(shown_name(name))
        if particles is not None:
            axes = panels[-1]
            axes.plot(times, particles, color=GREY)
            axes.set_ylabel("effective particles")
            axes.set_ylim(bottom=0)
            axes.set_xlabel("time")
            span_times(axes, times)
    return figure


def plot_traces(
    rows: Mapping[str, FloatArray], over: str, names: Sequence[str] = (),
    path: str | os.PathLike[str] | None = None,
) -> Figure:  # fmt: skip
    """Draw a panel for each name: rows ``[line, number]`` over the number, which is of `over`."""

    def draw(axes: Axes, name: str) -> None:
        axes.plot(np.where(np.isfinite(rows[name]), rows[name], np.nan).T, linewidth=0.8)
        axes.set_ylabel(shown_name(name))
        axes.set_xlabel(over)

    return _panels(draw, rows, names, path)


def plot_weighted(
    rows: Mapping[str, FloatArray], weights: FloatArray, names: Sequence[str] = (),
    path: str | os.PathLike[str] | None = None,
) -> Figure:  # fmt: skip
    """Draw a histogram for each name, of its row with weights, both ``[particle]``."""

    def draw(axes: Axes, name: str) -> None:
        edges = np.linspace(rows[name].min(), rows[name].max(), _BINS + 1)
        axes.hist(rows[name], edges.tolist(), color=BLUE, density=True, weights=weights)
        axes.set_xlabel(shown_name(name))
        axes.set_ylabel("density")

    return _panels(draw, rows, names, path)


def plot_profiles(
    profiles: Mapping[str, Profile], names: Sequence[str] = (),
    path: str | os.PathLike[str] | None = None,
) -> Figure:  # fmt: skip
    """Draw a panel for each name: its profile, the points that it goes through, and its bounds."""

    def draw(axes: Axes, name: str) -> None:
        one = profiles[name]
        axes.plot(one.places, one.values, ".", color=GREY, markersize=2)
        axes.plot(one.line, one.heights, color=BLUE)
        if np.isfinite(one.bounds).all():
            axes.axvspan(*one.bounds, color=BLUE, alpha=0.25, linewidth=0)
        axes.axvline(one.best, color=BLUE, linewidth=0.8)
        axes.set_xlabel(shown_name(name))
        axes.set_ylabel("log-likelihood")

    return _panels(draw, profiles, names, path)


def _panels(
    draw: Callable[[Axes, str], None], known: Iterable[str], names: Sequence[str],
    path: str | os.PathLike[str] | None,
) -> Figure:  # fmt: skip
    chosen = chosen_panels(names, list(known))
    with drawing(path, [None] * len(chosen)) as (figure, panels):
        for name, axes in zip(chosen, panels, strict=True):
            draw(axes, name)
    return figure


def plot_population(
    times: FloatArray, columns: Mapping[str, Sequence[FloatArray]], log_size: FloatArray,
    names: Sequence[str] = (), t: float | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Figure:  # fmt: skip
    """Draw how many cells there are, and of each name mean and two standard deviations over cells.

    With a time `t`, or where there is one time alone, draw the cells of that time as histograms.

    Parameters
    ----------
    columns
        Values ``[cell]`` at each time, by name.
    log_size
        f64 ``[time]``.
    """
    chosen = chosen_panels(names, list(columns))
    at = _time_of(times, t)
    with drawing(path, [None] * (len(chosen) + (at is None))) as (figure, panels):
        for name, axes in zip(chosen, panels, strict=False):
            if at is None:
                means = np.array([column.mean() for column in columns[name]])
                deviations = np.array([column.std() for column in columns[name]])
                least = 0.0 if min(column.min() for column in columns[name]) >= 0 else -np.inf
                _band(axes, times, means, deviations, least)
                axes.set_ylabel(shown_name(name))
            else:
                cells = columns[name][at]
                axes.hist(cells, _edges(cells).tolist(), color=BLUE, density=True)
                axes.set_xlabel(f"{shown_name(name)} at t = {times[at]:g}")
                axes.set_ylabel("density")
        if at is None:
            axes = panels[-1]
            axes.plot(times, log_size / np.log(10), "o-", color=GREY, markersize=3)
            axes.set_ylabel("log10 of the number of cells")
            axes.set_xlabel("time")
            span_times(axes, times)
    return figure


def _time_of(times: FloatArray, t: float | None) -> int | None:
    """Number of the time that histograms are of; None where all times are drawn."""
    if t is None:
        return 0 if len(times) == 1 else None
    at = np.flatnonzero(times == t)
    if not len(at):
        raise ConfigError(
            f"{assigned('t')}{t:g} is no time of this result: {some(f'{x:g}' for x in times)}"
        )
    return int(at[0])


def _edges(values: FloatArray) -> FloatArray:
    """Edges of about 40 bins: between whole numbers for counts, wide for what is all alike."""
    low, high = float(values.min()), float(values.max())
    if (values == np.floor(values)).all():
        step = max(1.0, np.ceil((high - low) / _BINS))
        return np.asarray(np.arange(low - 0.5, high + step + 0.5, step), np.float64)
    if high - low < _ALIKE * max(abs(low), abs(high)):
        low, high = low * (1 - _BINS * _ALIKE), high * (1 + _BINS * _ALIKE)
    return np.linspace(low, high, _BINS + 1)


def _band(
    axes: Axes, time: FloatArray, mean: FloatArray, deviation: FloatArray, least: float
) -> None:
    """A mean over time with two standard deviations on both sides, down to `least`: 0 of counts."""
    style: dict[str, Any] = {"color": BLUE, "alpha": 0.25, "linewidth": 0}
    low = np.maximum(mean - 2 * deviation, least)
    axes.fill_between(time, low, mean + 2 * deviation, **style)
    axes.plot(time, mean, color=BLUE, marker="o" if len(time) == 1 else None)
    axes.set_xlabel("time")
    span_times(axes, time)

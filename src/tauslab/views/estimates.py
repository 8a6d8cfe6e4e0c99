"""Pictures of estimates: a rare event by time and by run, derivatives by time or side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.store.format.intervals import unequal_runs
from tauslab.views.figures import (
    BLUE,
    GREY,
    VERMILION,
    chosen_panels,
    drawing,
    line_style,
    plain_text,
    shown_name,
    span_times,
    whole_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LINES = 50
_BY_LOG = "d mean / d log parameter"
_DECADES = 12  # below the largest value, which a logarithmic axis shows at most


class Rare(Protocol):
    """Fields of `tauslab.RareResult` that a picture reads."""

    @property
    def quantity(self) -> str: ...  # noqa: D102
    @property
    def runs(self) -> FloatArray: ...  # noqa: D102
    @property
    def time(self) -> FloatArray: ...  # noqa: D102
    @property
    def reached(self) -> FloatArray: ...  # noqa: D102
    @property
    def estimate(self) -> float: ...  # noqa: D102
    @property
    def bounds(self) -> tuple[float, float]: ...  # noqa: D102
    @property
    def settings(self) -> dict[str, Any]: ...  # noqa: D102


class Derivatives(Protocol):
    """Fields of `tauslab.SensitivityResult` that a picture reads."""

    @property
    def time(self) -> FloatArray: ...  # noqa: D102
    @property
    def parameters(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def outputs(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def values(self) -> FloatArray: ...  # noqa: D102
    @property
    def value(self) -> FloatArray: ...  # noqa: D102
    @property
    def standard_error(self) -> FloatArray: ...  # noqa: D102


def plot_rare(result: Rare, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draw what each run gave, and where it is known the probability, or the flux, over time.

    Raises
    ------
    ConfigError
        Another suffix than that of a picture, or no matplotlib.
    OutputError
        The picture cannot be written.
    """
    with drawing(path, [None] * (2 if result.reached.size else 1)) as (figure, panels):
        if result.reached.size:
            _by_time(panels[0], result)
        _by_run(panels[-1], result)
    return figure


def plot_derivatives(
    result: Derivatives, outputs: Sequence[str] = (), path: str | os.PathLike[str] | None = None
) -> Figure:
    """Draw a panel for each output: its derivatives with two standard errors, over time.

    They are by the logarithm of each parameter, so that they have the unit of the output and can
    be compared; by a parameter that is 0, as they are. A single time is drawn as bars.

    Raises
    ------
    ConfigError
        An unknown output or suffix, too many outputs, or no matplotlib.
    OutputError
        The picture cannot be written.
    """
    chosen = chosen_panels(outputs, result.outputs)
    scale = np.where(result.values != 0, np.abs(result.values), 1.0)[:, None]
    with drawing(path, [None] * len(chosen)) as (figure, panels):
        for name, axes in zip(chosen, panels, strict=True):
            number = result.outputs.index(name)
            value = result.value[:, :, number] * scale
            error = result.standard_error[:, :, number] * scale
            if len(result.time) > 1:
                _time_courses(axes, result, value, error)
            else:
                _bars(axes, result, value[:, 0], error[:, 0])
            axes.set_title(shown_name(name))
    return figure


def _by_time(axes: Axes, result: Rare) -> None:
    """All runs, their mean, and two standard errors of it."""
    time, reached = result.time, result.reached
    mean = reached.mean(axis=0)
    for number, row in enumerate(reached[:_MOST_LINES]):
        label = "runs" if number == 0 else None
        axes.plot(time, row, color=GREY, linewidth=0.5, alpha=0.6, label=label)
    if len(reached) > 1:
        low, high = np.array([unequal_runs(column) for column in reached.T]).T
        known = np.isfinite(high)
        axes.fill_between(time, low, high, where=known, color=BLUE, alpha=0.25, linewidth=0)
    axes.plot(time, mean, color=BLUE, label="mean of runs")
    axes.set_xlabel("time")
    if result.quantity == "rate":
        used = time[-1] - float(result.settings.get("kept", 0.0))
        axes.axvspan(float(used), float(time[-1]), color=GREY, alpha=0.12, linewidth=0)
        axes.set_ylabel("weight per time into the target")
        axes.axhline(result.estimate, color=VERMILION, linestyle="--", label="rate")
    else:
        axes.set_ylabel("probability by then")
    _logarithmic(axes.set_yscale, axes.set_ylim, mean)
    span_times(axes, np.concatenate([[0.0], time]))


def _by_run(axes: Axes, result: Rare) -> None:
    """A point for each run, the estimate with its interval of 95 %."""
    low, high = result.bounds
    axes.plot(np.arange(len(result.runs)), result.runs, "o", markersize=3, color=GREY, label="runs")
    axes.axhline(result.estimate, color=VERMILION, linestyle="--", label=result.quantity)
    if np.isfinite(high):
        axes.axhspan(low, high, color=VERMILION, alpha=0.15, linewidth=0, label="95 %")
    axes.set_xlabel("run")
    axes.set_ylabel(f"{result.quantity} of {plain_text(str(result.settings.get('target', '')))}")
    axes.set_ylim(bottom=0)
    whole_ticks(axes.xaxis)


def _logarithmic(scale: Any, limit: Any, values: FloatArray) -> None:
    above = values[values > 0]
    if len(above) and above.max() > 30 * above.min():
        scale("log")
        limit(max(above.min() / 3, above.max() / 10**_DECADES), above.max() * 3)


def _time_courses(axes: Axes, result: Derivatives, value: FloatArray, error: FloatArray) -> None:
    axes.axhline(0, color=GREY, linewidth=0.7)
    for number, name in enumerate(result.parameters[:_MOST_LINES]):
        style = line_style(number)
        axes.plot(result.time, value[number], label=f"by {shown_name(name)}", **style)
        low, high = value[number] - 2 * error[number], value[number] + 2 * error[number]
        axes.fill_between(result.time, low, high, color=style["color"], alpha=0.2, linewidth=0)
    span_times(axes, result.time)
    axes.set_xlabel("time")
    axes.set_ylabel(_BY_LOG)


def _bars(axes: Axes, result: Derivatives, value: FloatArray, error: FloatArray) -> None:
    shown = min(len(value), _MOST_LINES)
    places = np.arange(shown)
    axes.axvline(0, color=GREY, linewidth=0.7)
    axes.barh(places, value[:shown], xerr=2 * error[:shown], color=BLUE, ecolor=VERMILION)
    unknown = np.where(np.isnan(error[:shown]), " (error not known)", "")
    names = [shown_name(name) for name in result.parameters[:shown]]
    axes.set_yticks(places, [name + more for name, more in zip(names, unknown, strict=True)])
    axes.invert_yaxis()
    axes.set_xlabel(f"{_BY_LOG}, t = {result.time[0]:g}")

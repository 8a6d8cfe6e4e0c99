"""Distributions of a quantity in one panel: bars, or colours over time or over a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.arrays import FloatArray, UintArray
from tauslab.base.errors import ConfigError
from tauslab.store.format import intervals
from tauslab.store.results import columns
from tauslab.store.results.ensemble_data import EnsembleData
from tauslab.store.results.samples import (
    column_of,
    flat_rows,
    has_samples,
    is_whole,
    numbered,
    place_of,
    require_samples,
)
from tauslab.views.figures import BLUE, colour_bar, plain_text, shown_name, whole_ticks, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTOGRAM_BINS = (20, 100)  # fewest and most; between them, as many as the samples can fill
HEATMAP_BINS = (40, 240)


LEVELS = (0.05, 0.95)  # quantiles between which a band lies
_LOOKED_AT = 64  # trajectories that may show a species to be more than 0 and 1


def amount(result: EnsembleData, name: str) -> str:
    """Label of an axis with values of a species or observable, in the unit of the model."""
    return with_unit(shown_name(name), result.amount_unit if name in result.species else "")


def runs_of(result: EnsembleData, n: int = 2) -> str:
    """A name for `n` trajectories: of a lattice they are its replicas."""
    if result.method == "rdme":
        return "replica" if n == 1 else "replicas"
    return "trajectory" if n == 1 else "trajectories"


def time_label(result: EnsembleData) -> str:
    """Label of an axis of time, in the unit of the model where it has one."""
    return with_unit("time", result.time_unit)


def band_of(result: EnsembleData, name: str) -> tuple[tuple[FloatArray, FloatArray], str]:
    """Lower and upper edge of the band around a mean ``[(point,) time]``, and its label.

    5 and 95 % quantiles where samples are there, else the standard deviation to both sides; of a
    count the band ends at 0, and the label says so.
    """
    if has_samples(result, name):
        levels = result.quantile(name, LEVELS)
        return (levels[..., 0, :], levels[..., 1, :]), f"5 to 95 % of {runs_of(result)}"
    mean, deviation = result.mean(name), np.nan_to_num(result.std(name))
    low, label = mean - deviation, "mean ± standard deviation"
    if is_whole(result, name) and (low < 0).any():
        low, label = np.maximum(low, 0), f"{label}, cut at 0"
    return (low, mean + deviation), label


def is_switch(result: EnsembleData, name: str) -> bool:
    """Return whether a species is 0 or 1 in all trajectories at all times, and sometimes 1."""
    if not is_whole(result, name) or result.n < 2:
        return False
    stored, group, names = place_of(result, name)
    if stored in result.data:
        require_samples(result)
        first = flat_rows(result, stored)[slice(_LOOKED_AT)][:, :, names.index(name)]
        if (first > 1).any():
            return False
        highest = 0
        for _, piece in numbered(result, name):
            highest = max(highest, int(piece.max(initial=0)))
            if highest > 1:
                return False
        return highest == 1
    return f"{group}/n" in result.data and _sums_of_switch(result, name, group)


def _sums_of_switch(result: EnsembleData, name: str, group: str) -> bool:
    """Return whether all counts are 0 or 1: then the mean of squares equals the mean."""
    n = np.asarray(result.data[f"{group}/n"][()], np.float64)
    mean, variance = result.mean(name), result.variance(name)
    if n.shape != mean.shape:  # sums of groups of trajectories
        return False
    some = n > 1
    n, mean, variance = n[some], mean[some], variance[some]
    squares = variance * (n - 1) / n + mean * mean
    return bool(mean.size and mean.max() > 0 and np.allclose(squares, mean, rtol=1e-9, atol=1e-12))


def draw_share(axes: Axes, at: FloatArray, share: FloatArray, n: int, name: str) -> None:
    """The share of `n` trajectories with 1, with its confidence interval."""
    dot: dict[str, Any] = {"marker": "o", "markersize": 4} if len(at) == 1 else {}
    if n > 0:
        axes.fill_between(
            at, *intervals.share(share, n), color=BLUE, alpha=0.22, linewidth=0,
            label="95 % confidence interval of a share",
        )  # fmt: skip
    axes.plot(at, share, color=BLUE, linewidth=1.8, label="share of trajectories", **dot)
    axes.set_ylabel(f"share with {shown_name(name, 16)} = 1")
    axes.set_ylim(0, 1.02)


def draw_histogram(axes: Axes, result: EnsembleData, name: str, t: float) -> None:
    """Distribution of a species or observable at a sample time."""
    most = int(np.clip(2 * np.sqrt(result.n), *HISTOGRAM_BINS))
    numbers, edges, whole = binned(result, name, t, most)
    total = max(1, int(numbers.sum()))
    density = numbers / (total * np.diff(edges))
    axes.set_ylabel(probability_label(result, name, edges))
    if whole:
        edges = edges - 0.5  # bars are centred on their whole numbers
    axes.stairs(density, edges, fill=True, color=BLUE, alpha=0.85)
    axes.set_xlim(float(edges[0]), float(edges[-1]))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(amount(result, name))
    if whole:
        whole_ticks(axes.xaxis)
    axes.set_title(f"{at_time(result, t)}, {total:,} {runs_of(result, total)}")


def binned(
    result: EnsembleData, name: str, t: float, most: int
) -> tuple[UintArray, FloatArray, bool]:
    """Numbers in bins, at most so many where samples allow it; their edges; whether of counts."""
    numbers, edges = result.histogram(name, t)
    sampled = has_samples(result, name)
    whole = sampled and column_of(result, name).whole
    if sampled and len(edges) - 1 > most:
        high = float(edges[-1]) - (1 if whole else 0)
        numbers, edges = result.histogram(
            name, t, round_edges(float(edges[0]), high, most, whole=whole)
        )
    return numbers, edges, whole


def at_time(result: EnsembleData, t: float) -> str:
    """A time in a title."""
    return plain_text(f"t = {t:g} {result.time_unit}".rstrip())


def probability_label(result: EnsembleData, name: str, edges: FloatArray) -> str:
    """Label of an axis of probabilities: of a bin of whole width, or per unit."""
    if np.all(np.diff(edges) == 1):
        return "probability"
    unit = result.amount_unit if name in result.species else ""
    one = "molecule" if unit == "molecules" else unit
    return with_unit("probability density", f"1/{one}" if one else "")


def round_edges(low: float, high: float, most: int, *, whole: bool) -> FloatArray:
    """Edges of at most `most` equal bins from `low` to `high`."""
    if whole or low == high:
        return columns.whole_edges(low, high, most)
    return np.linspace(low, high, most + 1)


def density_map(
    axes: Axes, result: EnsembleData, name: str, columns_at: FloatArray, probability: FloatArray,
    edges: FloatArray, colour: str,
) -> None:  # fmt: skip
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
    if is_whole(result, name) and has_samples(result, name):
        whole_ticks(axes.yaxis)
    in_molecules = name in result.species and result.amount_unit == "molecules"
    unit = "" if whole else " per molecule" if in_molecules else " density"
    colour_bar(
        mesh,
        axes,
        f"P({shown_name(name, 16)}, t){unit}",
        extend="max" if positive.max() > high else "neither",
    )


def middle_edges(times: FloatArray) -> FloatArray:
    """Edges of cells that begin and end half-way between neighbours, or at the ends."""
    if len(times) == 1:
        return np.array([times[0] - 0.5, times[0] + 0.5])
    middle = (times[1:] + times[:-1]) / 2
    return np.concatenate([times[:1], middle, times[-1:]])

"""Distributions of a quantity in one panel: bars, or colours over time or over a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tauslab.model.errors import ConfigError
from tauslab.runner.plots.figures import BLUE
from tauslab.runner.results import columns
from tauslab.runner.results.columns import FloatArray
from tauslab.runner.results.ensemble_data import EnsembleData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HISTOGRAM_BINS = (20, 100)  # fewest and most; between them, as many as the samples can fill
HEATMAP_BINS = (40, 240)


def amount(result: EnsembleData, name: str) -> str:
    """Label of an axis with values of a species or observable."""
    return f"{name} (molecules)" if name in result.species else name


def draw_histogram(axes: Axes, result: EnsembleData, name: str, t: float) -> None:
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


def density_map(
    axes: Axes,
    result: EnsembleData,
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


def middle_edges(times: FloatArray) -> FloatArray:
    """Edges of cells that begin and end half-way between neighbours, or at the ends."""
    if len(times) == 1:
        return np.array([times[0] - 0.5, times[0] + 0.5])
    middle = (times[1:] + times[:-1]) / 2
    return np.concatenate([times[:1], middle, times[-1:]])

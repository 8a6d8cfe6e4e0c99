"""Pictures of a dynamic Bayesian network: marginals over time, with the nominal values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tauslab.analysis.dbn.results.inference import factored_frontier
from tauslab.analysis.dbn.results.network import DynamicNetwork
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.views.distributions import middle_edges
from tauslab.views.figures import BLUE, VERMILION, drawing, shown_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DEFAULT_PANELS, _MOST_PANELS = 4, 24


def plot_network(
    network: DynamicNetwork, names: Sequence[str] | None = None, path: Path | None = None
) -> Figure:
    """Draw a panel per node: probabilities of its intervals over time, as sampled.

    For a variable also the mean of the samples, the mean by the factored frontier, and the
    solution with the model's own values. A parameter is drawn as bars.

    Raises
    ------
    ConfigError
        An unknown name or suffix, too many names, or no matplotlib.
    OutputError
        The picture cannot be written.
    """
    chosen = list(names or network.variables[:_DEFAULT_PANELS])
    for name in chosen:
        network.known(name)
    if len(chosen) > _MOST_PANELS:
        raise ConfigError(f"a plot shows 1 to {_MOST_PANELS} nodes, not {len(chosen)}")
    with drawing(path, [None] * len(chosen)) as (figure, panels):
        beliefs = factored_frontier(network)
        for name, axes in zip(chosen, panels, strict=True):
            if name in network.parameters:
                _bars(axes, network, name)
            else:
                _over_time(axes, network, name, beliefs.mean(name))
    return figure


def _over_time(axes: Axes, network: DynamicNetwork, name: str, frontier: FloatArray) -> None:
    edges, times = network.edges[name], network.times
    if edges[0] < edges[-1]:
        shares = network.marginal(name).T
        axes.pcolormesh(middle_edges(times), edges, shares, cmap="Greys", vmin=0, vmax=1)
    axes.plot(times, network.mean(name), color=BLUE, label="mean of samples")
    axes.plot(times, frontier, color=BLUE, linestyle=":", label="factored frontier")
    if network.nominal is not None:
        time_course = network.nominal[:, network.variables.index(name)]
        axes.plot(times, time_course, color=VERMILION, label="nominal solution")
    axes.set_xlim(float(times[0]), float(times[-1]))
    axes.set_xlabel("time")
    axes.set_ylabel(shown_name(name))


def _bars(axes: Axes, network: DynamicNetwork, name: str) -> None:
    edges = network.edges[name]
    shares = network.marginal(name)[0]
    axes.bar(edges[:-1], shares, np.diff(edges), align="edge", color=BLUE, edgecolor="white")
    axes.set_xlabel(name)
    axes.set_ylabel("probability as sampled")

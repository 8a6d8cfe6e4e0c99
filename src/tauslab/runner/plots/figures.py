"""Figures of all pictures: their style, their panels, how they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tauslab.model.errors import ConfigError, OutputError
from tauslab.model.files.extras import installing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue and vermilion of Okabe and Ito (2008), told apart under every common colour blindness.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#8A8A8A"
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


def plot_style() -> AbstractContextManager[None]:
    """Our style, for the figures made in its context; a `ConfigError` without matplotlib."""
    try:
        from matplotlib import rc_context
    except ImportError:
        raise ConfigError(f"plots need matplotlib: {installing('plot')}") from None
    return rc_context(_STYLE)


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

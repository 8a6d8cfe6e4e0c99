"""Figures of all pictures: their style, their panels, their legend, how they are written."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import replacing
from tauslab.base.files.extras import installing
from tauslab.base.files.opening import at_home
from tauslab.options.python_values import listed
from tauslab.options.values.texts import some

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Blue and vermilion of Okabe and Ito (2008), distinct under every common colour blindness.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#8A8A8A"
# All of theirs, without yellow, which vanishes on white.
COLOURS = (BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LINES = ("-", "--", ":", "-.")
_DEFAULT_PANELS, _MOST_PANELS = 4, 24
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 6),
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "savefig.dpi": 200,
    "svg.hashsalt": "tauslab",  # the same result draws the same file
}
SUFFIXES = (".png", ".svg", ".pdf")
SUFFIXES_TEXT = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
_OF_NOTEBOOKS = ("nbagg", "ipympl", "widget")  # backends that show a figure when it is made
_LONGEST = 20  # letters of a name on an axis or in a legend
_LONG_NUMBERS = 1e5  # whose ticks need space
_SINGLE_TICKS = 12  # of a colour bar, at most, where each whole number has one
_LETTER = 0.068  # inches that a letter of a legend takes, about
_HANDLE = 0.55  # and its line, with the space behind it
_SCREEN_DPI = 192  # of a notebook's picture, which is shown at half its pixels: sharp on any screen


@cache
def picture_class() -> type[Figure]:
    """The class `Picture`; made when it is first used, so that matplotlib is loaded then."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A matplotlib `Figure` that a notebook shows as the last value of a cell."""

        def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
            return _picture_of(self)

        def _ipython_display_(self) -> None:
            _show_once(self)

    Picture.__qualname__ = "Picture"  # a pickled figure finds its class by `__getattr__` below
    return Picture


def __getattr__(name: str) -> Any:
    if name == "Picture":
        return picture_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _picture_of(figure: Figure, **options: Any) -> tuple[bytes, dict[str, int]]:
    """PNG of a figure, and the pixels in which a notebook shows it."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=_SCREEN_DPI, **options)
    content = buffer.getvalue()
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    return content, {"width": width * 96 // _SCREEN_DPI, "height": height * 96 // _SCREEN_DPI}


def _show_once(figure: Figure) -> None:
    """Show a figure in a notebook, and close it, since the notebook shows all that are open."""
    from IPython.display import display
    from matplotlib import get_backend
    from matplotlib._pylab_helpers import Gcf

    managed = figure.canvas.manager in Gcf.get_all_fig_managers()
    if managed and any(one in get_backend().lower() for one in _OF_NOTEBOOKS):
        return
    own: Any = {} if isinstance(figure, picture_class()) else {"bbox_inches": "tight"}
    content, size = _picture_of(figure, **own)
    display({"image/png": content}, metadata={"image/png": size}, raw=True)
    _close(figure)


def _close(figure: Figure) -> None:
    """Remove a figure from those of pyplot, if it is one of them."""
    from matplotlib._pylab_helpers import Gcf

    Gcf.destroy_fig(figure)


def chosen_panels(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names to draw, by default the first four; a `ConfigError` for unknown or too many ones."""
    chosen = listed(names or ()) or [*known[:_DEFAULT_PANELS]]
    for name in chosen:
        if name not in known:
            raise ConfigError(f"{name!r} is not in this result; it has {some(known)}")
    if len(chosen) > _MOST_PANELS:
        raise ConfigError(f"a plot shows 1 to {_MOST_PANELS} names, not {len(chosen)}")
    return chosen


@contextmanager
def drawing(
    path: str | os.PathLike[str] | None,
    projections: Sequence[str | None],
    ax: Axes | None = None,
    unfinished: str = "",
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Panels to draw in within a `with` statement: new ones, or the axes that a user gave.

    New ones that are not written are of a figure of pyplot. In the end they have one legend, new
    ones a title that says how much of an unfinished run there is, and the picture is written to
    `path`, if there is one.

    Raises
    ------
    ConfigError
        The suffix is not that of a picture, `ax` cannot take the panels, or there is no matplotlib.
    OutputError
        The picture cannot be written.
    """
    path = None if path is None else at_home(path)
    require_suffix(path)
    managed = path is None and ax is None and _begin_pyplot()
    with plot_style():
        figure, panels = panels_for(projections, ax, managed=managed)
        try:
            yield figure, panels
        except BaseException:
            if ax is None:
                _close(figure)
            raise
        one_legend(figure, panels, ax)
        if ax is None:
            headline(figure, unfinished)
        if path is not None:
            save_figure(figure, path)


def plot_style() -> AbstractContextManager[None]:
    """Our style, for the figures made in its context; a `ConfigError` without matplotlib."""
    try:
        from matplotlib import rc_context
    except ImportError:
        raise ConfigError(f"plots need matplotlib: {installing('matplotlib')}") from None
    return rc_context(_STYLE)


def require_suffix(path: Path | None) -> None:
    """Refuse a file that a picture cannot be written to."""
    if path is not None and path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: pictures are written as {SUFFIXES_TEXT}")


def _begin_pyplot() -> bool:
    """Let pyplot choose its backend, before `plot_style`, which restores settings at its end.

    False outside the main thread, and if the backend that the user chose needs a screen.
    """
    if current_thread() is not main_thread():
        return False
    try:
        import matplotlib.pyplot as plt

        plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    except ImportError:  # also of matplotlib, which `plot_style` says
        return False
    return True


def new_panels(
    projections: Sequence[str | None], *, managed: bool = False
) -> tuple[Figure, list[Axes]]:
    """A new figure; a `managed` one is of pyplot: ``plt.show`` and ``plt.title`` find it."""
    count = len(projections)
    across = 1 if count == 1 else 2 if count <= 4 else min(6, math.ceil(math.sqrt(count)))
    down = -(-count // across)
    width, height = (5.6, 3.6) if count == 1 else (4.6, 3.3) if across <= 3 else (3.8, 2.9)
    given: Any = {"figsize": (width * across, height * down), "layout": "constrained"}
    if managed:
        import matplotlib.pyplot as plt

        figure: Figure = plt.figure(FigureClass=picture_class(), **given)
    else:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = picture_class()(**given)
        FigureCanvasAgg(figure)
    return figure, [
        figure.add_subplot(down, across, index + 1, projection=projection)
        for index, projection in enumerate(projections)
    ]


def panels_for(
    projections: Sequence[str | None], axes: Axes | None, *, managed: bool = False
) -> tuple[Figure, list[Axes]]:
    """New panels, or the axes that a user gave, whose figure a notebook then shows once.

    Raises
    ------
    ConfigError
        There are several panels to draw, or one in three dimensions, and one axes.
    """
    if axes is None:
        return new_panels(projections, managed=managed)
    if len(projections) != 1:
        raise ConfigError(f"ax= takes one panel, and there are {len(projections)}: choose one name")
    if not hasattr(axes, "name"):
        raise ConfigError(f"ax= takes the axes of one matplotlib panel, not {type(axes).__name__}")
    if projections[0] != (None if axes.name == "rectilinear" else axes.name):
        raise ConfigError(f"ax= has to be axes with projection={projections[0]!r} for this picture")
    figure: Any = axes.figure.figure  # of a figure within a figure the outer one
    if not isinstance(figure, picture_class()):
        figure._ipython_display_ = partial(_show_once, figure)
    return figure, [axes]


def one_legend(figure: Figure, panels: Iterable[Axes], given: Axes | None = None) -> None:
    """One legend above all panels, with each label once; within the axes that a user gave."""
    entries: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            entries.setdefault(label, handle)
    if not entries:
        return
    if given is not None:
        given.legend(list(entries.values()), list(entries))
        return
    widest = max(map(len, entries)) * _LETTER + _HANDLE
    columns = max(1, min(len(entries), int(figure.get_figwidth() / widest)))
    figure.legend(
        list(entries.values()),
        list(entries),
        loc="outside upper left",
        ncols=columns,
        borderaxespad=0.2,
        borderpad=0.2,
    )


def headline(figure: Figure, unfinished: str) -> None:
    """A title over all panels that says how much of an unfinished run is there."""
    if unfinished:
        figure.suptitle(plain_text(f"unfinished: {unfinished}"), fontsize=10)


def remark(figure: Figure, text: str) -> None:
    """A line in small grey letters under all panels, such as which frames a movie shows."""
    if text:
        figure.supxlabel(plain_text(text), fontsize=8, color=GREY, x=0.01, ha="left")


def line_style(number: int) -> dict[str, Any]:
    """Colour and dashes of the line with this number, unlike 27 others."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": _LINES[number // len(COLOURS) % len(_LINES)],
    }


def shown_name(name: str, most: int = _LONGEST) -> str:
    """A name for an axis or a legend: without its middle where it is long, never hidden.

    >>> shown_name("a_species_with_a_name_that_is_far_too_long")
    'a_species_w…too_long'
    """
    if len(name) > most:
        head = (most - 1) - (most - 1) * 9 // 20
        name = f"{name[:head]}…{name[head + 1 - most :]}"
    # matplotlib leaves what begins with an underscore out of legends.
    return plain_text(f"\N{THIN SPACE}{name}" if name.startswith("_") else name)


def plain_text(text: str) -> str:
    """Text that matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def with_unit(name: str, unit: str) -> str:
    """Label of an axis: a quantity with its unit, where there is one."""
    return f"{name} ({plain_text(unit)})" if unit else name


def whole_ticks(axis: Axis) -> None:
    """Ticks at whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    low, high = axis.get_view_interval()
    flat = getattr(axis, "axis_name", "") == "x"  # where long numbers would run together
    bins: Any = 4 if flat and max(abs(low), abs(high)) >= _LONG_NUMBERS else "auto"
    axis.set_major_locator(
        MaxNLocator(nbins=bins, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
    )


def limit_counts(axes: Axes, *, whole: bool = True) -> None:
    """Begin an axis at 0 if nothing drawn is below; span a whole number and the next at least."""
    low, high = axes.get_ylim()
    if axes.dataLim.y0 >= -1e-9 * axes.dataLim.height:  # as rounding of equations leaves
        low = max(0.0, low)
    if whole:
        whole_ticks(axes.yaxis)
        if high - low < 1:
            low = math.floor(low)
            high = max(low + 1.0, math.ceil(high))
    axes.set_ylim(low, high if high > low else low + 1.0)


def span_times(axes: Axes, times: Sequence[float] | np.ndarray[Any, Any]) -> None:
    """Let the axis of time reach from the first to the last; a single time stands in the middle."""
    if len(times) > 1:
        axes.set_xlim(float(times[0]), float(times[-1]))
    elif len(times):
        middle = float(times[0])
        axes.set_xlim(middle - 0.5, middle + 0.5)


def colour_bar(mesh: Any, axes: Axes, label: str, *, whole: bool = False, **options: Any) -> None:
    """A colour bar beside a panel; `whole`: with ticks at whole numbers alone."""
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02, **options)
    bar.set_label(label)
    bar.outline.set_linewidth(0.7)
    if whole and mesh.norm.vmax - mesh.norm.vmin <= _SINGLE_TICKS:  # a colour for each number
        bar.set_ticks(range(math.ceil(mesh.norm.vmin), math.floor(mesh.norm.vmax) + 1))
        bar.ax.minorticks_off()
    elif whole:
        whole_ticks(bar.ax.yaxis)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture, the same bytes for the same picture; an `OutputError` if it cannot be."""
    # A date in the file would make every picture a new one.
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    metadata: Mapping[str, Any] = dates.get(path.suffix.lower(), {})
    with replacing(path) as draft:
        figure.savefig(draft, format=path.suffix.lower().removeprefix("."), metadata=dict(metadata))

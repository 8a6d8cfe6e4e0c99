"""The figure that all our plots return: matplotlib's, which a notebook shows without magic."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SCREEN_DPI = 192  # of a notebook's picture, which is shown at half its pixels: sharp on any screen


@cache
def picture_class() -> type[Figure]:
    """The class `Picture`; made when it is first used, so that matplotlib is loaded then."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A matplotlib `Figure`, apart from pyplot's: nothing global changes, no window opens.

        As the last value of a notebook's cell it is shown.
        """

        def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
            buffer = BytesIO()
            self.savefig(buffer, format="png", dpi=_SCREEN_DPI)
            width, height = (round(96 * inches) for inches in self.get_size_inches())
            return buffer.getvalue(), {"width": width, "height": height}

    Picture.__qualname__ = "Picture"  # a pickled figure finds its class by `__getattr__` below
    return Picture


def __getattr__(name: str) -> Any:
    if name == "Picture":
        return picture_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

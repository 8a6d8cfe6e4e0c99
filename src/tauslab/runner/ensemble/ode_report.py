"""Reports how a run uses a device with warps for its equations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tauslab.kernels.ode.layouts import Layout


def tell_choice(engine: object) -> None:
    """Print how a device with warps is used."""
    choice = _choice(engine)
    if choice is not None:
        print(f"layout {choice}", flush=True)


def layout_row(engine: object) -> dict[str, float | str]:
    """The layout, for a rank's row of /profile."""
    choice = _choice(engine)
    return {} if choice is None else {"layout": str(choice)}


def _choice(engine: object) -> Layout | None:
    """The layout of an engine of equations; None of other engines."""
    chosen: Layout | None = getattr(engine, "choice", None)
    return chosen

"""Reports how a run used a device with warps for its equations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tauslab.kernels.backends.base import Backend

if TYPE_CHECKING:
    from tauslab.kernels.ode.layouts.layout_choice import LayoutChoice


def tell_choice(engine: object) -> None:
    """Print how a device with warps is used, and what that was predicted to cost."""
    choice = _choice(engine)
    if choice is not None:
        print(choice, flush=True)


def layout_row(engine: object, backend: Backend) -> dict[str, float | str]:
    """The layout, and clock cycles a second, for a rank's row of /profile."""
    choice = _choice(engine)
    if choice is None:
        return {}
    return {"layout": choice.short, "cycles": backend.multiprocessors * backend.clock}


def _choice(engine: object) -> LayoutChoice | None:
    """The layout that an engine of equations chose; None of other engines."""
    chosen: LayoutChoice | None = getattr(engine, "choice", None)
    return chosen


def with_measured(row: Mapping[str, float | str]) -> dict[str, float | str]:
    """The row with what a step took beside what was predicted, where that can be told."""
    cycles, steps = (float(row.get(name, 0)) for name in ("cycles", "events"))
    if not cycles or not steps:
        return dict(row)
    measured = float(row["compute"]) * cycles / steps
    return {**row, "layout": f"{row['layout']}, measured {measured:.3g}"}

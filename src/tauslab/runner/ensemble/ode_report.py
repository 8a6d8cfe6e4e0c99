"""Reports how a run used a device with warps for its equations."""

from __future__ import annotations

from collections.abc import Mapping

from tauslab.kernels.backends.base import Backend
from tauslab.kernels.ode.engine import Ode


def tell_choice(engine: Ode) -> None:
    """Print how a device with warps is used, and what that was predicted to cost."""
    if engine.choice is not None:
        print(engine.choice, flush=True)


def layout_row(engine: object, backend: Backend) -> dict[str, float | str]:
    """The layout, and clock cycles a second, for a rank's row of /profile."""
    if not isinstance(engine, Ode) or engine.choice is None:
        return {}
    return {"layout": engine.choice.short, "cycles": backend.multiprocessors * backend.clock}


def with_measured(row: Mapping[str, float | str]) -> dict[str, float | str]:
    """The row with what a step took beside what was predicted, where that can be told."""
    cycles, steps = (float(row.get(name, 0)) for name in ("cycles", "events"))
    if not cycles or not steps:
        return dict(row)
    measured = float(row["compute"]) * cycles / steps
    return {**row, "layout": f"{row['layout']}, measured {measured:.3g}"}

"""The pilot of a hybrid: what half the interval changes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tauslab.analysis.hybrids.driver import HybridRun
from tauslab.analysis.hybrids.hybrid import Hybrid
from tauslab.analysis.hybrids.result import Pilot
from tauslab.base.arrays import FloatArray
from tauslab.model.lattice.lattice import Lattice

_CELLS, _MOST_OUTPUTS = 32, 512


def pilot_of(hybrid: Hybrid, intervals: int, n: int, t_end: float, **how: Any) -> Pilot:
    """Run some intervals as they are, and with half the tick, and compare means at their end."""
    names = outputs_of(hybrid)
    if not intervals or not names:
        return Pilot()
    by_chance = not all(made.real for made in hybrid.parts.values())
    cells = _cells(hybrid, n, by_chance=by_chance)
    first, result = hybrid.of_links(cells), []
    steps = [one.step for one in first.intervals().values()]
    together = math.lcm(*steps)  # half ticks after which all parts are at the end of a step
    rounds = max(1, -(-intervals * max(steps) // together))
    end = min(t_end, rounds * together * first.tick / 2)
    for halvings in (0, 1):
        run = HybridRun(first, n=cells, t_end=end, halvings=halvings, **how)
        try:
            run.run()
            result.append(_now(run, names))
        finally:
            run.close()
    alive = np.isfinite(result[0]).all(axis=0) & np.isfinite(result[1]).all(axis=0)
    ends = [one[:, alive] for one in result]
    error = np.zeros(len(names))
    if by_chance and alive.sum() < 2:
        error[:] = np.nan
    elif by_chance:
        error = np.sqrt(sum(one.var(axis=1, ddof=1) for one in ends) / alive.sum())
    if not alive.any():
        return Pilot()
    return Pilot(tuple(names), ends[0].mean(axis=1), ends[1].mean(axis=1), error)


def _now(run: HybridRun, names: list[str]) -> FloatArray:
    """Quantities ``[name, cell]`` now."""
    tables = {part: run.table(part) for part in run.parts}
    columns = [name.partition(".")[::2] for name in names]
    return np.stack([tables[part][:, run.recorded[part].index(one)] for part, one in columns])


def _cells(hybrid: Hybrid, n: int, *, by_chance: bool) -> int:
    """Cells of the pilot: of chance enough to know an error, but as many lattices as are run."""
    each = any(made.of_cells or isinstance(made.model, Lattice) for made in hybrid.parts.values())
    return min(n, _CELLS) if each or not by_chance else _CELLS


def outputs_of(hybrid: Hybrid) -> list[str]:
    """Quantities of parts with links that are recorded, and are compared."""
    linked = [name for name in hybrid.parts if name in hybrid.linked]
    return [f"{name}.{one}" for name in linked for one in hybrid.record[name]][:_MOST_OUTPUTS]

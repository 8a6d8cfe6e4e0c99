"""The pilot of a hybrid: what half the interval changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tauslab.analysis.hybrids.driver import HybridRun
from tauslab.analysis.hybrids.hybrid import Hybrid
from tauslab.analysis.hybrids.result import Pilot

_CELLS, _MOST_OUTPUTS = 32, 512


def pilot_of(hybrid: Hybrid, intervals: int, n: int, t_end: float, **how: Any) -> Pilot:
    """Run some intervals as they are, and with half the tick, and compare means at their end."""
    steps = hybrid.intervals()
    longest = max(one.step for one in steps.values()) * hybrid.tick / 2
    samples = max(one.sample for one in steps.values()) * hybrid.tick / 2
    end = min(t_end, samples * max(1, round(intervals * longest / samples)))
    names = outputs_of(hybrid)
    if not intervals or not names:
        return Pilot()
    found = []
    for halvings in (0, 1):
        run = HybridRun(hybrid, n=min(n, _CELLS), t_end=end, halvings=halvings, **how)
        try:
            run.run()
            found.append(np.stack([run.last(*name.split(".", 1)) for name in names]))
        finally:
            run.close()
    cells = found[0].shape[1]
    error = np.zeros(len(names))
    if cells > 1:
        error = np.sqrt(sum(np.nanvar(one, axis=1, ddof=1) for one in found) / cells)
    return Pilot(tuple(names), found[0].mean(axis=1), found[1].mean(axis=1), error)


def outputs_of(hybrid: Hybrid) -> list[str]:
    """Quantities of parts with links that are recorded, and are compared."""
    linked = [name for name in hybrid.parts if name in hybrid.linked]
    return [f"{name}.{one}" for name in linked for one in hybrid.record[name]][:_MOST_OUTPUTS]

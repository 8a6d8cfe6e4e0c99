"""Results about rare events as tables."""

from __future__ import annotations

from tauslab.runner.rare.estimate import RareResult
from tauslab.runner.results.tables import ResultTable


def rare_table(result: RareResult) -> ResultTable:
    """What each run gave, a row per run."""
    arrays = result.arrays()
    names = ("run", "estimate", "lost")
    return ResultTable(names, iter([[arrays[name] for name in names]]))

"""A population in lines, as facts and as tables."""

from __future__ import annotations

import math
from typing import Any

from tauslab.runner.output.checking.opening import POPULATION
from tauslab.runner.populations.columns import population_columns
from tauslab.runner.populations.result import PopulationResult
from tauslab.runner.results.tables import ResultTable

_MOST_LINES = 12


def population_facts(found: PopulationResult) -> dict[str, Any]:
    """What people and programs want to know, for JSON; None for what is no number."""
    arrays = found.arrays()
    names = arrays["name"].tolist()
    return {
        "method": POPULATION,
        "seed": found.seed,
        "time": found.times.tolist(),
        "cells": arrays["cells"].tolist(),
        "log_size": found.log_size.tolist(),
        "growth_rate": _plain(found.growth.rate),
        "growth_error": _plain(found.growth.error),
        "divisions": len(found.divisions),
        "ended": found.ended,
        **{
            what: {
                name: [_plain(x) for x in arrays[what][:, i].tolist()]
                for i, name in enumerate(names)
            }
            for what in ("mean", "variance")
        },
    }


def population_lines(found: PopulationResult) -> list[str]:
    """What people want to know, in lines."""
    last = found.snapshots[-1]
    whole = math.exp(min(found.log_size[-1], 700.0))
    lines = [
        f"{len(last)} cells at t = {last.time:g}, which stand for {whole:.6g}",
        f"{len(found.divisions)} divisions, {found.growth}",
    ]
    if len(found.times) > 1:
        lines[-1] += f", from t = {found.times[0]:g} on"
    lines += [
        f"{name} at t = {last.time:g}: mean {last.mean(name):.6g}, sd {_root(last.var(name)):.4g}"
        for name in last.names[:_MOST_LINES]
    ]
    if found.ended:
        lines.append(f"{found.ended} cells ended early and are left out")
    return [*lines, f"seed {found.seed}"]


def population_table(found: PopulationResult, what: str | None = None) -> ResultTable:
    """A table.

    Parameters
    ----------
    what
        ``statistics``, by default: a row per time. ``trajectories``: a row per time and cell;
        ``final``: those of the last time. ``divisions``: a row per division.

    Raises
    ------
    ConfigError
        Another word.
    """
    return population_columns(found.arrays(), what)


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _root(variance: float) -> float:
    return math.sqrt(variance) if variance >= 0 else math.nan

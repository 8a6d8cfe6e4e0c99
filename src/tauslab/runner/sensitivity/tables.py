"""Derivatives in lines, as facts and as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.model.arrays import Array, FloatArray
from tauslab.runner.output.checking.opening import SENSITIVITY
from tauslab.runner.results.tables import ResultTable
from tauslab.runner.sensitivity.result import SensitivityResult

_MOST_LINES = 50


def sensitivity_facts(found: SensitivityResult) -> dict[str, Any]:
    """All of it for JSON; None for what is no number.

    Derivatives are lists ``[time]`` by output, and by parameter.
    """
    elasticity = found.elasticity
    derivatives = {
        output: {
            parameter: {
                "value": _plain(found.value[p, :, o]),
                "standard_error": _plain(found.standard_error[p, :, o]),
                "elasticity": _plain(elasticity[p, :, o]),
            }
            for p, parameter in enumerate(found.parameters)
        }
        for o, output in enumerate(found.outputs)
    }
    return {
        "method": SENSITIVITY,
        "estimator": found.method,
        "model": found.model,
        "n": found.n,
        "seed": found.seed,
        "time": found.time.tolist(),
        "parameters": dict(zip(found.parameters, found.values.tolist(), strict=True)),
        "mean": {name: _plain(found.mean[:, o]) for o, name in enumerate(found.outputs)},
        "derivatives": derivatives,
    }


def sensitivity_lines(found: SensitivityResult, outputs: Sequence[str] = ()) -> list[str]:
    """What people want to know, in lines: at the last time, for each output the mean first."""
    elasticity = found.elasticity[:, -1]
    lines = []
    for o, output in enumerate(found.outputs):
        if outputs and output not in outputs:
            continue
        lines.append(f"mean of {output} at t = {found.time[-1]:g}: {found.mean[-1, o]:.6g}")
        for p, parameter in enumerate(found.parameters):
            line = f"  by {parameter}: {found.value[p, -1, o]:.6g} +- "
            line += f"{found.standard_error[p, -1, o]:.2g}"
            if found.standard_error[p, -1, o] == 0:
                line += ", exact"
            elif found.n > 1 and math.isnan(found.standard_error[p, -1, o]):
                line += ", no two differ: a larger n or step may tell"
            elif math.isfinite(elasticity[p, o]) and found.values[p] != 0:
                line += f", elasticity {elasticity[p, o]:.4g}"
            lines.append(line)
    more = [f"and {len(lines) - _MOST_LINES} lines more"] if len(lines) > _MOST_LINES else []
    lost = int((found.n - found.valid).max())
    early = (
        [f"{lost} of {found.n} ended early, or are not finite, and are left out"]
        if lost > 0
        else []
    )
    times = f", {len(found.time)} times" if len(found.time) > 1 else ""
    told = f"{found.model}: {found.method}, n {found.n}, seed {found.seed}{times}"
    return [*lines[:_MOST_LINES], *more, *early, told]


def sensitivity_table(found: SensitivityResult) -> ResultTable:
    """A row for each parameter, time and output."""
    parameters, times, outputs = found.value.shape
    rows: list[Array] = [
        np.repeat(np.array(found.parameters), times * outputs),
        np.tile(np.repeat(found.time, outputs), parameters),
        np.tile(np.array(found.outputs), parameters * times),
        found.value.ravel(),
        found.standard_error.ravel(),
        found.elasticity.ravel(),
    ]
    header = ("parameter", "time", "output", "value", "standard_error", "elasticity")
    return ResultTable(header, iter([rows]))


def _plain(values: FloatArray) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]

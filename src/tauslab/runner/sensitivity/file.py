"""Derivatives as a file, in lines, as facts and as a table."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.model.arrays import Array, FloatArray
from tauslab.model.errors import InputFileError
from tauslab.runner.output.checking.opening import SENSITIVITY
from tauslab.runner.results.arrays.file import read_arrays, write_arrays
from tauslab.runner.results.tables import ResultTable
from tauslab.runner.sensitivity.result import SensitivityResult

_OWN = ("model", "estimator", "seed", "n")
_MOST_LINES = 50


def save_sensitivity(found: SensitivityResult, path: str | os.PathLike[str]) -> None:
    """Write an HDF5 file; one that is there is replaced.

    Raises
    ------
    OutputError
        It cannot be written.
    """
    own = {
        "method": SENSITIVITY, "model": found.model, "estimator": found.method,
        "seed": np.uint64(found.seed), "n": np.uint64(found.n),
    }  # fmt: skip
    write_arrays(Path(path), own, sensitivity_arrays(found))


def load_sensitivity(path: str | os.PathLike[str]) -> SensitivityResult:
    """Read what `save_sensitivity` wrote.

    Raises
    ------
    InputFileError
        The file is missing, damaged or of another kind.
    """
    own, arrays = read_arrays(Path(path), SENSITIVITY)
    missing = [name for name in _OWN if name not in own]
    if missing:
        raise InputFileError(f"{path} is damaged: it has no {missing[0]}")
    return SensitivityResult(
        model=own["model"], method=own["estimator"], seed=int(own["seed"]), n=int(own["n"]),
        time=arrays["time"], parameters=tuple(arrays["parameter"].tolist()),
        outputs=tuple(arrays["output"].tolist()), values=arrays["parameter_value"],
        low=arrays["low"], high=arrays["high"], value=arrays["value"],
        standard_error=arrays["standard_error"], mean=arrays["mean"],
        sides_variance=arrays["sides_variance"], valid=arrays["valid"],
    )  # fmt: skip


def sensitivity_arrays(found: SensitivityResult) -> dict[str, Array]:
    """All arrays by name, as a file and a digest have them."""
    return {
        "time": found.time,
        "parameter": np.array(found.parameters),
        "output": np.array(found.outputs),
        "value": found.value,
        "standard_error": found.standard_error,
        "mean": found.mean,
        "sides_variance": found.sides_variance,
        "valid": found.valid,
        "parameter_value": found.values,
        "low": found.low,
        "high": found.high,
    }


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
            if math.isfinite(elasticity[p, o]) and found.values[p] != 0:
                line += f", elasticity {elasticity[p, o]:.4g}"
            lines.append(line)
    more = [f"and {len(lines) - _MOST_LINES} lines more"] if len(lines) > _MOST_LINES else []
    lost = int((found.n - found.valid).max())
    early = [f"{lost} of {found.n} ended early and are left out"] if lost > 0 else []
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

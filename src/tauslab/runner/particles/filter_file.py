"""The result of a filter as a file, in lines and as a table."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.model.arrays import Array
from tauslab.model.errors import InputFileError
from tauslab.runner.output.checking.opening import FILTER
from tauslab.runner.particles.columns import course_table
from tauslab.runner.particles.filtering import FilterResult
from tauslab.runner.results.arrays.file import read_arrays, write_arrays
from tauslab.runner.results.tables import ResultTable


def save_filter(found: FilterResult, path: Path, settings: dict[str, Any]) -> None:
    """Write what a filter found, and what it was asked.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    own = {"method": FILTER, "log_likelihood": found.log_likelihood}
    write_arrays(path, own | settings, filter_arrays(found))


def load_filter(path: str | os.PathLike[str]) -> FilterResult:
    """Read what `save_filter` wrote.

    Raises
    ------
    InputFileError
        The file is missing, damaged or of another kind.
    """
    attributes, arrays = read_arrays(Path(path), FILTER)
    if "log_likelihood" not in attributes:
        raise InputFileError(f"{path} is damaged: it has no log_likelihood")
    return FilterResult(
        float(attributes["log_likelihood"]), arrays["log_likelihood_term"], arrays["time"],
        tuple(arrays["species"].tolist()), arrays["mean"], arrays["sd"], arrays["effective_size"],
    )  # fmt: skip


def filter_arrays(found: FilterResult) -> dict[str, Array]:
    """All arrays by name, as a file and a digest have them."""
    return {
        "time": found.time,
        "species": np.array(found.species),
        "log_likelihood_term": found.terms,
        "mean": found.mean,
        "sd": found.sd,
        "effective_size": found.effective_size,
    }


def filter_facts(found: FilterResult) -> dict[str, Any]:
    """What a filter found, for JSON; None for what is no number."""
    return {
        "method": FILTER,
        "log_likelihood": _plain(found.log_likelihood),
        "time": found.time.tolist(),
        "terms": [_plain(x) for x in found.terms.tolist()],
        "effective_size": found.effective_size.tolist(),
        "mean": {
            name: [_plain(x) for x in found.mean[:, i].tolist()]
            for i, name in enumerate(found.species)
        },
        "sd": {
            name: [_plain(x) for x in found.sd[:, i].tolist()]
            for i, name in enumerate(found.species)
        },
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def filter_lines(found: FilterResult) -> list[str]:
    """What people want to know, in lines."""
    lines = [f"log-likelihood {found.log_likelihood:.6g} of {len(found.time)} rows"]
    if found.log_likelihood == -math.inf:
        row = int(np.flatnonzero(np.isneginf(found.terms))[0])
        return [*lines, f"no particle can explain the row at t = {found.time[row]:g}"]
    least = int(found.effective_size.argmin())
    fewest = f"{found.effective_size[least]:.1f} at t = {found.time[least]:g}"
    return [
        *lines,
        f"fewest effective particles: {fewest}",
        *(
            f"{name} at t = {found.time[-1]:g}: mean {found.mean[-1, i]:.6g}, sd "
            f"{found.sd[-1, i]:.4g}"
            for i, name in enumerate(found.species[:8])
        ),
    ]


def filter_table(found: FilterResult) -> ResultTable:
    """A row per time: terms, effective numbers, means and standard deviations."""
    return course_table(
        found.time, found.terms, found.effective_size, found.species, found.mean, found.sd
    )

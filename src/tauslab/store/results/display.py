"""What a notebook shows of a result, and samples by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.base.html import card, escape, folded, table
from tauslab.base.option_names import opt
from tauslab.store.results import columns
from tauslab.store.results.ensemble_data import EnsembleData
from tauslab.store.results.samples import dataset_of, foremost, rows_there

_SHOWN = 12  # quantities in a notebook
_READ_AGAIN = 64 << 20  # bytes of samples: of more, no means are computed for a look
_HIDDEN = ("format", "format_version", "storage", "run", "block", "record")


def names_of_keys(result: EnsembleData) -> tuple[str, ...]:
    """Names of species and observables beside ``time``, which are the sample times."""
    return columns.apart(foremost(result), ("time",), "species")


def samples_by_name(result: EnsembleData, name: str) -> npt.NDArray[Any]:
    """See `Result.__getitem__`."""
    if name == "time":
        return result.times
    name = dict(zip(names_of_keys(result), foremost(result), strict=True)).get(name, name)
    if name in result.species:
        return result.amounts(name) if result.continuous else result.counts(name)
    if name in result.observables:
        dataset = dataset_of(result, "observables", "trajectories")
        of_row = slice(None), result.observables.index(name)
        return rows_there(result, dataset, of_row, missing=math.nan)
    if result.summaries and name not in foremost(result):
        return result.summary(name)
    raise ConfigError(
        f"{name!r} is not recorded in {result.name}; it has "
        f"{', '.join(('time', *names_of_keys(result), *result.summaries)[:20])}"
    )


def result_html(result: EnsembleData, short: str) -> str:
    """A table of what was run, with means at the end where they cost nothing; all escaped."""
    if getattr(result.data, "closed", False):
        return f"<code>{escape(short)}</code>"
    at = f"{len(result.times)} from {result.times[0]:g} to {result.times[-1]:g} {result.time_unit}"
    facts = {
        "file": "in memory" if result.path is None else result.path,
        "method": result.method,
        "approximate": result.approximate,
        "trajectories": f"{result.n:,}"
        + (f" at each of {result.n_points:,} points" if result.swept else ""),
        "swept": ", ".join(result.points),
        "times": at.rstrip(),
        "seed": result.seed,
        "state": "complete"
        if result.complete
        else f"unfinished: {result.unfinished}; {opt('resume')} completes it",
    }
    settings = [(k, v) for k, v in sorted(result.attributes.items()) if k not in _HIDDEN]
    parts = [_means(result), folded("settings", table(("name", "value"), settings))]
    return card("Result", facts, parts)


def _means(result: EnsembleData) -> str:
    """Mean and standard deviation of the first quantities at the last sample time."""
    stored = "amounts" if result.continuous else "counts"
    small = stored in result.data and result.data[stored].nbytes <= _READ_AGAIN
    held = result.complete or result.completed_blocks.any()
    if not (small or "statistics/n" in result.data) or not held:
        return ""
    rows = []
    for name in foremost(result)[:_SHOWN]:
        mean, sd = (np.atleast_2d(v)[:, -1] for v in (result.mean(name), result.std(name)))
        rows.append((name, span_text(mean), span_text(sd) if result.n > 1 else ""))
    last = f"mean at t = {result.times[-1]:g} {result.time_unit}".rstrip()
    last += f" ({result.unfinished})" if result.unfinished else ""
    header = ("quantity", last, "standard deviation")
    return table(header, rows, more=len(foremost(result)) - _SHOWN)


def span_text(values: npt.NDArray[np.float64]) -> str:
    """A number, or the smallest and largest over the points of a sweep."""
    known = values[np.isfinite(values)]
    if len(values) == 1 or not len(known):
        return f"{values[0]:.6g}"
    return f"{known.min():.6g} to {known.max():.6g}"

"""Descriptions of an ensemble: lines for people, facts for programs, a card in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.files.text import plain
from tauslab.base.html import card, escape, folded, table
from tauslab.base.option_names import opt
from tauslab.options.record import STATE
from tauslab.options.sweep import OF_ALL_POINTS, POINTS_HELD, Share, span_of
from tauslab.store.format.schema import PROFILE_COLUMNS
from tauslab.store.format.versions import BITS, writers_of
from tauslab.store.results.columns import texts
from tauslab.store.results.ensemble_data import EnsembleData
from tauslab.store.results.samples import main_quantities
from tauslab.store.results.validity import numbers_of_ends
from tauslab.store.targets import parts_folder

# Root attributes that have a line of their own, or that only programs need.
_SAID = {
    "format", "format_version", "tauslab_version", "method", "seed", "model_sha256", "command",
    "created", "approximate", "n", "block", "record", "storage", "run", "sweep", "grid",
    "amount_unit", "time_unit", BITS, *OF_ALL_POINTS,
}  # fmt: skip
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_MOST_RUNS = 8
_SHOWN = 12  # quantities in a notebook
_READ_AGAIN = 64 << 20  # bytes of samples: of more, no means are computed for a look
_HIDDEN = ("format", "format_version", "storage", "run", "block", "record")


def describe(result: EnsembleData) -> list[str]:
    """Lines about a result: what was run and how, what was recorded, how it went."""
    return [f"{label}: {text}" if text else label for label, text in described(result)]


def described(result: EnsembleData) -> Iterator[tuple[str, str]]:
    """Labels of the lines of `describe`, each with what follows it, which may be nothing."""
    attributes = result.attributes
    yield _of_file(result)
    yield "model", _of_model(result)
    yield "method", f"{result.method}, seed {result.seed}"
    if result.approximate:
        yield "approximate", result.approximate
    where = f" at each of {result.n_points} points" if result.swept else ""
    yield "trajectories", f"{result.n}{where} in blocks of {result.block}"
    if result.swept:
        yield "sweep", _of_sweep(result)
    yield "times", _of_times(result)
    yield "species", f"{len(result.species)} ({_listed(result.species)})"
    if result.observables:
        yield "observables", f"{len(result.observables)} ({_listed(result.observables)})"
    if result.amount_unit.startswith("counts of "):  # chosen by --amounts
        yield "amounts", result.amount_unit
    yield "recorded", ", ".join(_recorded(result)) or "nothing"
    if result.complete:
        yield "status", _statuses(result)
    choices = [f"{k} = {v}" for k, v in sorted(attributes.items()) if k not in _SAID]
    if choices:
        yield "choices", ", ".join(choices)
    if "command" in attributes:
        yield "command", str(attributes["command"])
    yield _completeness(result)
    if (share := Share.of_file(attributes)) is not None and result.n_points < share.points:
        held = attributes.get(POINTS_HELD)
        span = f"points {held}" if held else span_of("point", share.first, result.n_points)
        local = f"{span} of {share.points}"
        yield "incomplete array", f"{local}; tauslab merge joins the files of its tasks"
    yield from _profile(result)


def facts(result: EnsembleData) -> dict[str, Any]:
    """The facts of `describe`, for programs."""
    return {
        "approximate": result.approximate or None,
        "path": None if result.path is None else str(result.path),
        "complete": result.complete,
        "written_by": list(writers_of(result.data)),
        "trajectories": result.n,
        "times": result.times.tolist(),
        "species": list(result.species),
        "observables": list(result.observables),
        "summaries": list(result.summaries),
        "points": {name: values.tolist() for name, values in result.points.items()},
        "blocks": {"size": result.block, "complete": int(result.completed_blocks.sum())},
        "attributes": result.attributes,
        "datasets": sorted(result.data),
    }


def _of_file(result: EnsembleData) -> tuple[str, str]:
    if result.path is None:
        return "result in memory", ""
    version = ", ".join(writers_of(result.data)) or result.attributes.get("tauslab_version", "?")
    created = result.attributes.get("created", "an unknown time")
    size = _size(result.path.stat().st_size)
    if parts := parts_of(result):
        size += f" and {parts}"
    return str(result.path), f"{size}, written by tauslab {version}, {created}"


def parts_of(result: EnsembleData) -> str:
    """The number, size and folder of the parts that hold a result's rows; empty without parts."""
    if result.path is None:
        return ""
    folder = parts_folder(result.path)
    sizes = [part.stat().st_size for part in folder.glob("*.h5")]
    return f"{len(sizes)} parts of {_size(sum(sizes))} in {folder.name}" if sizes else ""


def _of_model(result: EnsembleData) -> str:
    sha256 = str(result.attributes.get("model_sha256", "unknown"))[:16]
    source = result.data.get("model/source")
    name = plain(getattr(source, "attrs", {}).get("name", ""))  # arrays in memory have none
    return f"{name or 'unnamed'} (sha256 {sha256})"


def _of_times(result: EnsembleData) -> str:
    times = result.times
    if len(times) == 1:
        return f"1, at {times[0]:g}"
    steps = np.diff(times)
    even = np.allclose(steps, steps[0], rtol=1e-6)
    spacing = f"every {steps[0]:g}" if even else "unevenly spaced"
    return f"{len(times)} from {times[0]:g} to {times[-1]:g}, {spacing}"


def _of_sweep(result: EnsembleData) -> str:
    ranges = []
    for name, values in result.points.items():
        distinct = len(np.unique(values))
        ranges.append(f"{name} {distinct} values from {values.min():g} to {values.max():g}")
    grid = str(result.attributes.get("grid", "")).replace(",", " x ")
    return f"{f'grid {grid}, ' if grid else ''}{_listed(ranges)}"


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _recorded(result: EnsembleData) -> list[str]:
    known = (
        ("counts", "trajectories"),
        ("amounts", "trajectories"),
        ("observables", "trajectories"),
        ("final", "final"),
        ("statistics/n", "statistics"),
    )
    listed = list(dict.fromkeys(option for name, option in known if name in result.data))
    prefix = "statistics/histogram/"
    names = [key.removeprefix(prefix) for key in result.data if key.startswith(prefix)]
    listed += [f"histogram of {name}" for name in names if f"{name}_edges" in names]
    listed += [STATE] if result.states else []
    return listed + [f"summary {name}" for name in result.summaries]


def _statuses(result: EnsembleData) -> str:
    ends = numbers_of_ends(result.status)
    return ", ".join(f"{count} {name}" for name, count in ends.items() if count)


def _completeness(result: EnsembleData) -> tuple[str, str]:
    done = result.completed_blocks
    if result.complete:
        return "complete", ""
    missing = np.flatnonzero(~done)
    if not missing.size:
        ended = f"all blocks are there, the end of the run is not; {opt('resume')} completes it"
        return "unfinished", ended
    cuts = np.flatnonzero(np.diff(missing) > 1) + 1
    runs = [
        f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in np.split(missing, cuts)
    ]
    return "unfinished", (
        f"{result.unfinished} are there, missing "
        f"{_listed(runs, _MOST_RUNS)}; {opt('resume')} completes it"
    )


def _profile(result: EnsembleData) -> list[tuple[str, str]]:
    """The profile, a line per rank."""
    names = [name for name in PROFILE_COLUMNS if f"profile/{name}" in result.data]
    columns = {name: result.data[f"profile/{name}"] for name in names}
    devices = texts(columns.pop("device")) if "device" in columns else ()
    layouts = texts(columns.pop("layout")) if "layout" in columns else ("",) * len(devices)
    values = {name: np.atleast_1d(column[()]) for name, column in columns.items()}
    if {len(layouts), *(len(column) for column in values.values())} != {len(devices)}:
        return []  # of an unfinished run, whose profile nobody vouches for
    return [
        (
            f"rank {rank} on {device}",
            ", ".join(_spent(name, v[rank]) for name, v in values.items())
            + (layouts[rank] and f"; layout {layouts[rank]}"),
        )
        for rank, device in enumerate(devices)
        if device
    ]


def _spent(name: str, value: np.number[Any]) -> str:
    """A number of the profile: seconds are floating-point, what is counted is whole."""
    return f"{name} {value:.3g} s" if value.dtype.kind == "f" else f"{value:,} {name}"


def _size(size: float) -> str:
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.3g} {unit}"


# ---------------------------------------------------------------- in a notebook


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
        "state": result.state,
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
    for name in main_quantities(result)[:_SHOWN]:
        mean, sd = (np.atleast_2d(v)[:, -1] for v in (result.mean(name), result.std(name)))
        rows.append((name, span_text(mean), span_text(sd) if result.n > 1 else ""))
    last = f"mean at t = {result.times[-1]:g} {result.time_unit}".rstrip()
    last += f" ({result.unfinished})" if result.unfinished else ""
    header = ("quantity", last, "standard deviation")
    return table(header, rows, more=len(main_quantities(result)) - _SHOWN)


def span_text(values: npt.NDArray[np.float64]) -> str:
    """A number, or the smallest and largest over the points of a sweep."""
    known = values[~np.isnan(values)]
    if len(values) == 1 or not len(known):
        return f"{values[0]:.6g}"
    return f"{known.min():.6g} to {known.max():.6g}"

"""The output of ``tauslab run``: for people, and for programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tauslab.store.results.array_result import numbers_or_none
from tauslab.store.results.info import facts, parts_of, span_text
from tauslab.store.results.result import Result
from tauslab.store.results.samples import main_quantities
from tauslab.store.results.validity import numbers_of_ends

_READ_AGAIN = 64 << 20  # bytes of samples
_READ_POINTS = 256


def facts_of_run(result: Result) -> dict[str, Any]:
    """Facts of ``tauslab info --json``, and those of a run alone: speed, ends, last means."""
    profile = {k: result.data[f"profile/{k}"][()] for k in ("events", "wall", "device", "compile")}
    return facts(result) | {
        "events": int(profile["events"].sum()),
        "seconds": float(profile["wall"].max()),
        "compile_seconds": float(profile["compile"].max()),
        "devices": [name.decode() for name in profile["device"]],
        "status": numbers_of_ends(result.status),
        "last": {name: _last(result, name) for name in _cheap_names(result)},
    }


def _last(result: Result, name: str) -> dict[str, Any]:
    """Mean and standard deviation at the last sample time; of a sweep, a list of them."""
    means, sds = (v[..., -1] for v in (result.mean(name), result.std(name)))
    return {"mean": numbers_or_none(means), "sd": numbers_or_none(sds)}


def summary(result: Result, *, verbose: bool = False) -> list[str]:
    """Lines for the user after a run: what was done, how fast, what came out."""
    profile = {k: result.data[f"profile/{k}"][()] for k in ("events", "wall", "device", "compile")}
    events, wall = int(profile["events"].sum()), float(profile["wall"].max())
    devices = sorted({d.decode() for d in profile["device"]})
    n_ranks = len(profile["device"])
    steps = "steps" if result.continuous else "events"
    on = f"{n_ranks} ranks, {', '.join(devices)}" if n_ranks > 1 else devices[0]
    rate = f"{events / wall:.3g} {steps}/s" if wall > 0 else "nothing left to do"
    ready = f"kernels ready after {profile['compile'].max():.2f} s"
    where = f" at each of {result.n_points} points" if result.swept else ""
    many = "trajectory" if result.n == 1 else "trajectories"
    what = f"{result.path}: {result.n} {many}{where}, seed {result.seed}, {events:.4g} {steps}"
    lines = [f"{what} in {wall:.2f} s ({rate}; {on}; {ready})"]
    if result.continuous:
        # A file of an earlier version, which --resume finds complete, has none.
        known = verbose and "profile/layout" in result.data
        reported = result.data["profile/layout"][()] if known else ()
        lines += [f"  layout {layout}" for layout in sorted({t.decode() for t in reported} - {""})]
    if result.method == "tau":
        lines += [f"  {_leaps(result)}", f"  approximate: {result.approximate}"]
    for name, count in numbers_of_ends(result.status).items():
        if count and name not in ("done", "absorbed"):
            of_all = f"{count} of {result.n * result.n_points}"
            lines.append(f"  {of_all} trajectories ended early: {name}")
    if result.path is not None and (parts := parts_of(result)):
        lines.append(
            f"  its trajectories are {parts}: move the folder with the file, or join both by "
            f"`tauslab merge {result.path.name}`"
        )
    return lines + _last_values(result) + _summaries(result)


def _summaries(result: Result, most: int = 8) -> list[str]:
    """Means of the recorded summaries, and for how many trajectories they are numbers."""
    lines = []
    for name in result.summaries[:most]:
        if result.data[f"summary/{name}"].nbytes > _READ_AGAIN:
            return []
        n, mean, std = result.summary_moments(name)
        shares = np.atleast_1d(100.0 * n / result.n)
        lines.append(
            f"  {name}: mean {span_text(np.atleast_1d(mean))}, sd {span_text(np.atleast_1d(std))}, "
            f"of {span_text(shares)} % of trajectories (the others have NaN)"
        )
    more = len(result.summaries) - most
    return lines + ([f"  and {more} more summaries"] if more > 0 else [])


def _leaps(result: Result) -> str:
    """Shares of the steps of tau-leaping, which show a model for which it is useless."""
    checked = "post_leap_check" in result.attributes
    names = ("leaps", "exact_events", "rejected" if checked else "halved")
    leaps, exact, again = (int(result.data[f"profile/{name}"][()].sum()) for name in names)
    share = 100 * exact / max(1, leaps + exact)
    exactly = f"{exact:.4g} exact events ({share:.1f} % of steps)"
    return f"{leaps:.4g} leaps ({again:.3g} {names[2]}), {exactly}"


def _cheap_names(result: Result) -> tuple[str, ...]:
    """Species whose means cost nothing: a large file is not read again for them."""
    samples = "amounts" if result.continuous else "counts"
    samples = samples if result.species else "observables"
    small = samples in result.data and result.data[samples].nbytes <= _READ_AGAIN
    small = small and result.n_points <= _READ_POINTS
    return main_quantities(result) if small or "statistics/sum" in result.data else ()


def _last_values(result: Result, most: int = 8) -> list[str]:
    """Means at the end."""
    if not _cheap_names(result):
        return []
    lines = []
    for name in main_quantities(result)[:most]:
        means, sds = (np.atleast_2d(v)[:, -1] for v in (result.mean(name), result.std(name)))
        collected = (
            f"mean {span_text(means)}, sd {span_text(sds)}" if result.n > 1 else span_text(means)
        )
        lines.append(f"  {name} at t = {result.times[-1]:g}: {collected}")
    more = len(main_quantities(result)) - most
    return lines + ([f"  and {more} more"] if more > 0 else [])

"""Species and observables of .net files by tauslab, compared with BioNetGen's run_network.

Two comparisons per file, each from 0 to t_end (of the file, or ``--t-end``) at ``--points`` times:

- ``ode``: CVODE and the solver `rosenbrock`, with the first of ``TOLERANCES`` that CVODE can
  meet. The difference is the largest over times, relative to the largest amount of the species or observable
  (at least 1e-6 of the largest amount of all). It must be at most ``ODE_TOLERANCE``.
- ``ssa``: means of ``--exact`` runs of run_network and ``--n`` of tauslab, in standard errors. A correct
  program fails in one of 1,000 comparisons of all values of all files (Bonferroni). Files with amounts that
  are not integers, and runs that take more than ``--seconds``, are skipped with a note.

Files with rate laws that use the time are skipped: run_network 3.0 evaluates them at the time of an earlier step.
"""

from __future__ import annotations

import math
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from outcome import FAIL, Outcome, cells, say

import tauslab as ts
from tauslab.base.errors import TauslabError
from tauslab.formats.read import read_network
from tauslab.model.network.network import Network

FloatArray = npt.NDArray[np.float64]

ODE_TOLERANCE = 1e-6
TOLERANCES = (1e-11, 1e-9, 1e-7)  # relative and absolute
FALSE_ALARMS = 1e-3  # of all comparisons of means together
FEWEST_EVENTS = 20.0  # a mean is compared where it has this variance, times the number of runs


@dataclass(frozen=True)
class Row:
    """One comparison: how many values, the worst difference, where; or why there was none."""

    model: str
    species: int
    reactions: int
    groups: int
    kind: str
    values: int
    worst: float
    where: str
    note: str = ""


class LeftOutError(Exception):
    """Why a comparison was not made."""


def _compare(path: Path, kind: str, arguments: Any) -> Row:
    try:
        network = read_network(path)
    except TauslabError as error:
        return Row(path.stem, 0, 0, 0, kind, 0, math.nan, "", f"refused: {error}")
    groups = sum(rule.recorded for rule in network.rules.values())
    size = (path.stem, len(network.species), len(network.reactions), groups)
    t_end = network.t_end or arguments.t_end or 10.0
    if any(feature.kind == "time" for feature in network.features):
        return Row(
            *size, kind, 0, math.nan, "", "skipped: run_network uses the time of an earlier step"
        )
    try:
        return Row(*size, kind, *_KINDS[kind](path, network, t_end, arguments))
    except (LeftOutError, TauslabError) as error:
        return Row(*size, kind, 0, math.nan, "", f"skipped: {error}")


def _ode(path: Path, network: Network, t_end: float, arguments: Any) -> tuple[int, float, str]:
    for tolerance in TOLERANCES:
        options = ["-p", "cvode", "-a", repr(tolerance), "-r", repr(tolerance)]
        try:
            theirs = _run_network(path, options, t_end, arguments, arguments.seconds)
            break
        except LeftOutError:
            if tolerance == TOLERANCES[-1]:
                raise
    result = ts.run(
        network,
        n=1,
        method=ts.ODE(solver="rosenbrock", rtol=tolerance, atol=tolerance),
        times=np.linspace(0, t_end, arguments.points + 1),
        seed=1,
        device="cpu",
        max_steps=10_000_000,
        record="trajectories",
    )
    ours = np.column_stack([_mean(result, name) for name in _names(network)])
    largest = np.abs(theirs).max(axis=0)
    scale = np.maximum(largest, 1e-6 * largest.max())
    difference = np.abs(ours - theirs) / np.where(scale == 0, 1.0, scale)
    return (ours.size, *_worst(difference, network))


def _ssa(path: Path, network: Network, t_end: float, arguments: Any) -> tuple[int, float, str]:
    if any(amount != round(amount) for amount in network.initial_amounts().values()):
        raise LeftOutError("initial amounts that are not whole")
    begin, runs = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        safe = Path(folder, path.name)
        safe.write_text(_without_edges(path.read_text(encoding="utf-8"), network), encoding="utf-8")
        for seed in range(1, arguments.exact + 1):
            left = arguments.seconds - (time.monotonic() - begin)
            runs.append(
                _run_network(safe, ["-p", "ssa", "-h", str(7919 * seed)], t_end, arguments, left)
            )
    theirs = np.stack(runs)
    times = np.linspace(0, t_end, arguments.points + 1)
    result = ts.run(
        network,
        n=arguments.n,
        method="ssa",
        times=times,
        seed=1,
        device="cpu",
        record="statistics",
    )
    names = _names(network)
    mean = np.column_stack([_mean(result, name) for name in names])
    variance = np.column_stack([np.asarray(result.variance(name)) for name in names])
    # With few runs a rare event may be missing from their sample variance: ours is the better one,
    # and where fewer than so many events are expected in all, a mean is not normal.
    error = np.sqrt(variance / len(theirs) + variance / arguments.n)
    compared = variance * len(theirs) >= FEWEST_EVENTS
    z = np.abs(theirs.mean(axis=0) - mean) / np.where(compared, error, np.inf)
    off = np.abs(theirs.mean(axis=0) - mean) * len(theirs) >= FEWEST_EVENTS
    z = np.where(off & ~compared, np.inf, z)  # ours hardly varies, and theirs is elsewhere
    return (int(compared.sum()), *_worst(z, network))


def _without_edges(text: str, network: Network) -> str:
    """Give every species that nothing consumes a reaction into itself.

    run_network takes such a species for the edge of a network that is still growing, and crashes
    when the first molecule of it appears.
    """
    consumed = {name for reaction in network.reactions for name in reaction.reactants}
    first = max(int(reaction.name[1:]) for reaction in network.reactions) + 1
    edges = [i for i, name in enumerate(network.species, start=1) if name not in consumed]
    rows = "".join(f"{first + k} {i} {i} null_rate\n" for k, i in enumerate(edges))
    constant = f"{len(network.parameters) + 1} null_rate 1e-3\n"
    text = text.replace("end parameters", f"{constant}end parameters")
    return text.replace("end reactions", f"{rows}end reactions")


_KINDS = {"ode": _ode, "ssa": _ssa}


def _names(network: Network) -> list[str]:
    """Species, then groups, in the order of the file."""
    return [*network.species, *(name for name, rule in network.rules.items() if rule.recorded)]


def _mean(result: ts.Result, name: str) -> FloatArray:
    return np.asarray(result.mean(name), dtype=np.float64)


def _worst(difference: FloatArray, network: Network) -> tuple[float, str]:
    difference = np.where(np.isfinite(difference), difference, np.inf)
    step, column = np.unravel_index(int(difference.argmax()), difference.shape)
    return float(difference.max()), f"{_names(network)[int(column)]} at sample {step}"


def _run_network(
    path: Path, options: list[str], t_end: float, arguments: Any, limit: float
) -> FloatArray:
    """Species and groups ``[time, species + groups]`` as run_network writes them."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder) / "out"
        command = [arguments.run_network.resolve(), "-o", prefix, "-g", path.resolve(), *options]
        command += [path.resolve(), repr(t_end / arguments.points), str(arguments.points)]
        try:
            done = subprocess.run(
                [str(word) for word in command],
                capture_output=True,
                text=True,
                timeout=max(limit, 0.01),
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise LeftOutError(f"run_network takes more than {arguments.seconds:g} s") from None
        if done.returncode or not prefix.with_suffix(".cdat").is_file():
            message = (done.stdout + done.stderr).strip().splitlines() or [""]
            raise LeftOutError(f"run_network failed: {message[-1]}")
        tables = [np.loadtxt(prefix.with_suffix(".cdat"), ndmin=2)[:, 1:]]
        if prefix.with_suffix(".gdat").is_file():
            tables.append(np.loadtxt(prefix.with_suffix(".gdat"), ndmin=2)[:, 1:])
        return np.hstack(tables)


def run(given: Any) -> Outcome:
    """Compare all files."""
    if given.run_network is None or not given.files:
        raise SystemExit("validate net needs --run-network PROGRAM and --files FILES.net")
    rows: list[Row] = []
    for path in given.files:
        for kind in _KINDS:
            rows.append(_compare(path, kind, given))
            say(*cells(rows[-1], 3))
    values = {kind: sum(row.values for row in rows if row.kind == kind) for kind in _KINDS}
    allowed = {"ode": ODE_TOLERANCE,
               "ssa": NormalDist().inv_cdf(1 - FALSE_ALARMS / max(1, values["ssa"]) / 2)}  # fmt: skip
    about = "; ".join(
        f"{k}: {n} values, largest difference allowed {allowed[k]:.2e}" for k, n in values.items()
    )
    table = [[*cells(r, 3), FAIL if not r.note and r.worst > allowed[r.kind] else ""] for r in rows]
    columns = {
        "model": "file",
        "species": "number of species",
        "reactions": "number of reactions",
        "groups": "number of observables",
        "kind": "`ode` or `ssa`",
        "values": "values compared",
        "worst": "largest difference: relative (`ode`), in standard errors (`ssa`)",
        "where": "species or observable of the largest difference",
        "note": "why the file was not compared",
        "verdict": "empty, or FAIL",
    }
    return Outcome("Networks compared with run_network", about, columns, table)

"""Models with events: which methods run them, and their courses against other programs.

FOLDER holds SBML models, ``models.csv`` with their horizons (columns model, t_end), ``ode.json``
with courses by libRoadRunner (columns and values ``[time][column]`` at 11 times, species as
amounts), and ``ssa.json`` with means and standard errors of exact SSA by bngsim.

    python scripts/validation/validate_events.py FOLDER -o docs/validation/events.csv

writes a row for each model and a summary beside it (.md). Of a model that ``ssa`` takes, as it is
or converted to numbers of molecules, two trajectories are run, of 10,000 reactions at most. The
course of ``ode`` (rtol 1e-9, atol 1e-12 of the largest amount or of 1) is compared with libRoadRunner's: `ode_worst` is the largest
difference in units of 1e-3 of the value and 1e-6 of the largest value of the quantity. Where means
are known, `ssa_worst` is the largest difference from them in standard errors of both.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import warnings
from collections import Counter
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import tauslab as ts
from tauslab.model.errors import NoValidTrajectory
from tauslab.model.network.check import check_facts, refusing
from tauslab.model.readers.read import read_network

MOST_STEPS = 10_000
TRAJECTORIES = 4000
LARGEST_Z = 5.0


@dataclass
class Row:
    """A row of the table."""

    model: str
    ssa: str = ""
    ssa_worst: str = ""
    ode: str = ""
    ode_worst: str = ""
    message: str = ""


def accepted(network: ts.Network) -> bool:
    """Whether ``ssa`` takes the model."""
    return "ssa" in check_facts(network)["methods"]  # type: ignore[operator]


def for_ssa(network: ts.Network) -> tuple[str, ts.Network]:
    """How ``ssa`` takes it: ``as it is``, ``molecules`` or ``refused``."""
    if accepted(network):
        return "as it is", network
    try:
        converted = ts.in_molecules(network)
    except ts.ModelError:
        return "refused", network
    return ("molecules", converted) if accepted(converted) else ("refused", network)


def run_ssa(row: Row, network: ts.Network, t_end: float, means: dict[str, Any] | None) -> None:
    """Run it, and compare means where they are known."""
    row.ssa, network = for_ssa(network)
    if row.ssa == "refused":
        kinds = {f.kind for f in network.features if refusing(f, ["ssa"])}
        row.message = "; ".join(sorted(kinds)) or "no reactions"
        return
    try:
        result = ts.run(
            network, n=2, max_steps=MOST_STEPS, seed=1, device="cpu", times=[0.0, t_end],
            record="trajectories",
        )  # fmt: skip
    except NoValidTrajectory as error:  # too many reactions, or too many molecules
        row.message = str(error).split("; ")[0].split(": ")[-1]
        return
    except ts.TauslabError as error:
        row.ssa, row.message = "failed", str(error)
        if "above 2147483647" in row.message:
            row.ssa, row.message = "refused", "more than 2147483647 molecules of a species"
        return
    row.message = ", ".join(f"status {s}" for s in sorted(set(result.status.tolist()) - {0, 1}))
    if means is not None:
        times = np.linspace(0, means["t_end"], len(means["mean"]))
        found = ts.run(
            network, n=TRAJECTORIES, times=times, seed=1, device="cpu", record="statistics"
        )
        worst = 0.0
        for k, name in enumerate(means["species"]):
            mean, spread = (np.array(means[key])[:, k] for key in ("mean", "stderr"))
            own = np.sqrt(np.asarray(found.variance(name)) / TRAJECTORIES)
            both = np.sqrt(own**2 + spread**2)
            off = np.abs(np.asarray(found.mean(name)) - mean)
            with np.errstate(all="ignore"):
                z = np.where(off <= 2e-6 * np.abs(mean), 0.0, off / both)  # the file's digits
            worst = max(worst, float(z.max()))
        row.ssa_worst = f"{worst:.2f}"


def atol_of(network: ts.Network) -> float:
    """1e-12, or as many times the largest amount at the start, where all are less than 1."""
    amounts = network.initial_amounts(network.parameter_values(), negative=True)
    moved = {n for n, species in network.species.items() if not species.fixed}
    largest = max((abs(amounts[name]) for name in moved), default=0.0)
    return 1e-12 * min(1.0, largest or 1.0)


def run_ode(row: Row, network: ts.Network, course: dict[str, Any] | None) -> None:
    """Compare the course of ``ode`` with libRoadRunner's."""
    if course is None:
        row.ode = "no course"
        return
    expected = np.array(course["values"])
    times = np.linspace(0, course["t_end"], len(expected))
    try:
        result = ts.run(
            network, n=1, times=times, method=ts.ODE(rtol=1e-9, atol=atol_of(network)),
            device="cpu", seed=1, record="trajectories", max_steps=3_000_000,
        )  # fmt: skip
    except ts.TauslabError as error:
        row.ode = "refused" if isinstance(error, ts.ModelError) else "failed"
        row.message = f"{row.message}; ode: {error}"[:300]
        return
    worst = ("", 0.0)
    for k, name in enumerate(course["columns"]):
        if name not in network.species and name not in network.rules:
            continue
        found, want = np.asarray(result.mean(name)), expected[:, k]
        allowed = 1e-3 * np.abs(want) + 1e-6 * np.abs(want).max() + 1e-12
        worst = max(
            worst, (name, float((np.abs(found - want) / allowed).max())), key=lambda w: w[1]
        )
    row.ode, row.ode_worst = (
        ("agrees" if worst[1] <= 1 else f"differs: {worst[0]}"),
        f"{worst[1]:.2g}",
    )


def summary(rows: list[Row]) -> str:
    """Counts and names of what is refused, as Markdown."""
    ssa, ode = Counter(row.ssa for row in rows), Counter(row.ode.split(":")[0] for row in rows)
    runs = ssa["as it is"] + ssa["molecules"]
    counts = (
        f"{len(rows)} models of BioModels with events: `ssa` runs {runs} ({100 * runs / len(rows):.0f} %), "
        f"{ssa['as it is']} as they are and {ssa['molecules']} with `--molecules`. `ode` agrees with "
        f"libRoadRunner in {ode['agrees']}, differs in {ode['differs']}, and is refused or fails in "
        f"{ode['refused'] + ode['failed']}; of {ode['no course']} there is no course. "
        "(`scripts/validation/validate_events.py`, which states the rule.)"
    )
    lines = [
        "# Models with events",
        "",
        counts,
        "",
        "| `ssa` refuses for | models |",
        "|---|---|",
    ]
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.ssa not in ("as it is", "molecules"):
            reasons.setdefault(row.message.split("; ode:")[0], []).append(row.model)
    lines += [f"| {why} | {', '.join(names)} |" for why, names in sorted(reasons.items())]
    known = [row for row in rows if row.ssa_worst]
    lines += [
        "",
        "| mean by `ssa` against bngsim | largest difference, standard errors |",
        "|---|---|",
    ]
    lines += [f"| {row.model} | {row.ssa_worst} |" for row in known]
    differ = [row for row in rows if row.ode.startswith("differs") or row.ode == "failed"]
    if differ:
        lines += ["", "| `ode` against libRoadRunner | units of what is allowed |", "|---|---|"]
        lines += [f"| {row.model}: {row.ode} | {row.ode_worst} |" for row in differ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Validate all models; 1 if means disagree."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", nargs="+", default=(), help="only these")
    parser.add_argument("-o", "--output", type=Path, default=Path("events.csv"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with (options.folder / "models.csv").open(encoding="utf-8") as file:
        horizons = {row["model"]: float(row["t_end"]) for row in csv.DictReader(file)}
    courses, means = (
        json.loads((options.folder / f"{name}.json").read_text(encoding="utf-8"))["models"]
        for name in ("ode", "ssa")
    )
    rows = []
    for name in options.models or horizons:
        row = Row(name)
        try:
            network = read_network(options.folder / f"{name}.xml")
        except ts.ModelError as error:
            row.ssa = row.ode = "refused"
            row.message = str(error).split(": ", 1)[-1]
        else:
            run_ssa(row, network, horizons[name], means.get(name))
            run_ode(row, network, courses.get(name))
        rows.append(row)
        print(*astuple(row), sep=" | ", flush=True)
    with options.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Row))
        writer.writerows(astuple(row) for row in rows)
    options.output.with_suffix(".md").write_text(summary(rows), encoding="utf-8")
    return int(any(float(row.ssa_worst or 0) > LARGEST_Z for row in rows))


if __name__ == "__main__":
    sys.exit(main())

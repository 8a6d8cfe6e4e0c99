"""Models with events: which methods run them, and their courses against other programs.

FOLDER holds SBML models, ``models.csv`` with their horizons (columns model, t_end), ``ode.json``
with courses by libRoadRunner (columns and values ``[time][column]`` at 11 times, species as
amounts), and ``ssa.json`` with means and standard errors of exact SSA by bngsim.

    python scripts/validation/validate_events.py FOLDER -o docs/validation/events.csv

writes a row for each model and a summary beside it (.md). Of a model that ``ssa`` takes, as it is,
converted to numbers of molecules, or with amounts counted as ``--amounts`` says, two trajectories
are run, of 10,000 reactions at most. The course of ``ode`` (rtol 1e-9, atol 1e-12 of the largest
amount or of 1) is compared with libRoadRunner's: `ode_worst` is the largest
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
from tauslab.kernels.network.lowering import real_species
from tauslab.model.errors import NoValidTrajectory
from tauslab.model.network.check import check_facts, refusing
from tauslab.model.readers.read import read_network

MOST_STEPS = 10_000
TRAJECTORIES = 4000
WAYS = ("as it is", "molecules", "counts", "scaled")
LARGEST = 1e6  # counts at the start, where the size of the system is chosen
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
    """How ``ssa`` takes it: ``as it is``, ``molecules``, ``counts``, ``scaled`` or ``refused``.

    Of the last two `--amounts` is 1, and what makes LARGEST of the amount that is largest at the
    start; they are tried where there are too many molecules, and where a file has no one unit.
    """
    for how in WAYS:
        converted = counted(network, how)
        if converted is not None and accepted(converted) and fits(converted):
            return how, converted
    return "refused", network


def counted(network: ts.Network, how: str) -> ts.Network | None:
    """The network counted so; None where its unit is not known."""
    if how == "as it is":
        return network
    try:
        if how == "molecules":
            return ts.in_molecules(network)
        amounts = network.initial_amounts(network.parameter_values())
    except ts.TauslabError:
        return None
    real = real_species(network)
    largest = max((a for name, a in amounts.items() if name not in real), default=0.0)
    if how == "scaled" and not largest > 0:
        return None
    return ts.in_molecules(network, 1.0 if how == "counts" else LARGEST / largest)


def fits(network: ts.Network) -> bool:
    """Whether there is a molecule at the start, and no species has more than a count takes."""
    try:
        amounts = network.initial_amounts(network.parameter_values())
    except ts.TauslabError:
        return False
    real = real_species(network)
    counts = [amount for name, amount in amounts.items() if name not in real]
    largest = max(counts, default=1.0)
    return 0.5 < largest < 2**31 or largest == 0


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
    if means is not None and row.ssa in WAYS[:2]:
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
    runs = sum(ssa[how] for how in WAYS)
    counts = (
        f"{len(rows)} models of BioModels with events: `ssa` runs {runs} ({100 * runs / len(rows):.0f} %), "
        f"{ssa['as it is']} as they are, {ssa['molecules']} with `--molecules`, {ssa['counts']} with "
        f"`--amounts counts` and {ssa['scaled']} with `--amounts F`, a size that the user chooses. `ode` agrees with "
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
        if row.ssa not in WAYS:
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

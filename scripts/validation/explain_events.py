"""Why means of some models with events differ from their equations: `validate_events.py` beside a third witness.

    python scripts/validation/explain_events.py FOLDER -o docs/validation/events-explained.csv

runs each model of `REASONS` by ``ssa``, by the equations from the file's amounts and from the whole counts that
trajectories begin with, and by `plain_gillespie.py`, which shares nothing with tauslab. Columns:

- ``rounding``: how far the equations move, in percent of a quantity's largest value, when amounts are rounded to counts;
- ``gap``: what then remains between ``ssa`` and the equations, by the rules of `validate_events.py`;
- ``plain``: the largest difference of means of all species at 10 times from those of the plain loop, in standard
  errors of both, and of how many trajectories of each;
- ``larger``: the same gap in a system that is so many times larger;
- ``divisions``: where an event halves the mass when a count falls through a threshold, how often that happens to a
  trajectory of a system 10,000 times larger, in the mean, and to the equations; and where the threshold has to be passed by a
  quarter before the event can come again.

A few trajectories tell little of a skewed law: BIOMD0000000794 had ``--seconds 220``, others 25.
`validate_events.py` puts the table on its page.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tarfile
import tempfile
import time
import warnings
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
import validate_events as validation
from plain_gillespie import NegativeLawError, PlainModel
from validate_events import Array, Ours

import tauslab as ts
from tauslab.formats.read import read_network
from tauslab.model.expressions.expression import as_expression, call
from tauslab.model.network.network import Event

ROUNDED = "amounts of about one unit or less, rounded to counts"
FEW = f"{ROUNDED}; then molecules of mRNA that are there seldom, with feedback"
CROSSED = f"{ROUNDED}; and noise passes the threshold of a division several times"
RARE = "a quantity of molecules that are there seldom: few trajectories show none"
LACKING = (
    "few molecules; a reaction takes some at a rate that does not read their number, and lacks them"
)
SWITCHED = (
    "few molecules, in laws x / (c + x) and of pairs: at t = 1 transcription of Not is 0.22 in the mean of "
    "all trajectories, and 0.51 with the mean of its activator, of which 69 % have none (a fifth of the "
    "horizon)"
)
# Of each: counts to a unit in the larger system, and the reason.
REASONS = {
    "BIOMD0000000088": (
        100.0,
        f"{ROUNDED}; fixed species were rounded too, a fault that is mended",
    ),
    "BIOMD0000000149": (1000.0, ROUNDED),
    "BIOMD0000000235": (10.0, SWITCHED),
    "BIOMD0000000256": (1e5, ROUNDED),
    "BIOMD0000000297": (1000.0, CROSSED),
    "BIOMD0000000794": (100.0, FEW),
    "BIOMD0000001028": (100.0, LACKING),
    "BIOMD0000001039": (10.0, RARE),
    "BIOMD0000001044": (1000.0, CROSSED),
    "MODEL1510190004": (10.0, ROUNDED),
}
THRESHOLDS = {"BIOMD0000000297": ("Clb", 0.2), "BIOMD0000001044": ("CycB", 0.2)}
MANY, FEW_RUN, LARGE = 1000, 8, 1e4
# Part of the horizon, where the plain loop takes minutes for a trajectory.
PART = {"BIOMD0000000235": 0.2}
OURS_SECONDS, MOST_STEPS = 8.0, 100_000_000


@dataclass
class Explained:
    """A row of the table."""

    model: str
    t_end: str = ""
    rounding: str = ""
    gap: str = ""
    plain: str = ""
    larger: str = ""
    divisions: str = ""
    reason: str = ""


def plain_means(path: Path, times: Array, seconds: float) -> tuple[list[str], Array]:
    """Counts ``[trajectory, time, species]`` of the plain loop."""
    model = PlainModel(path, 1.0)
    found: list[list[list[int]]] = []
    start = time.monotonic()
    while len(found) < FEW_RUN or (time.monotonic() - start < seconds and len(found) < MANY):
        found.append(model.run(times.tolist(), len(found)))
    return model.moved, np.array(found, float)


def largest_z(ours: Ours, names: list[str], plain: Array) -> tuple[float, str]:
    """The largest difference in standard errors of a common variance, and of a molecule in one trajectory."""
    n, m = ours.trajectories, len(plain)
    worst = (0.0, "")
    for k, name in enumerate(names):
        own = ours.errors[name] ** 2 * n * (n - 1)
        both = (own + plain[:, :, k].var(axis=0) * m) / (n + m - 2) * (1 / n + 1 / m)
        off = np.abs(ours.means[name] - plain[:, :, k].mean(axis=0))
        worst = max(worst, (float((off / np.sqrt(both + 1 / min(n, m) ** 2)).max()), name))
    return worst


def larger(network: ts.Network, times: Array, factor: float) -> str:
    """The gap in a larger system, with net laws where a law is negative."""
    for net_laws in (False, True):
        system = ts.in_molecules(network, factor)
        system = ts.with_net_laws(system) if net_laws else system
        try:
            ours = validation.means_of(system, times, validation.FEWEST_RUN)
        except ts.TauslabError:
            continue
        gap, _ = validation.gap_of(system, times, ours)
        return f"{gap} at {factor:g} times" + ", net laws" * net_laws
    return "a law is negative"


def counted_divisions(network: ts.Network, name: str, *, rearmed: bool) -> ts.Network:
    """A larger system that counts divisions; `rearmed`: each needs the threshold passed by a quarter before."""
    network = ts.in_molecules(network, LARGE)
    species, threshold = THRESHOLDS[name]
    events, network.events[:] = list(network.events), []
    network.add_species("divisions", 0, fixed=True)
    network.add_species("armed", 0 if rearmed else 1, fixed=True)
    for event in events:
        assert isinstance(event, Event)
        if {"Mass", "mass"} & event.assignments.keys():
            more = {"divisions": as_expression("divisions + 1")}
            more |= {"armed": as_expression("0")} if rearmed else {}
            network.add_event(
                event.name, trigger=call("and", event.trigger, as_expression("armed > 0.5")),
                assignments={**event.assignments, **more}, persistent=event.persistent,
                initial=event.initial, early=event.early,
            )  # fmt: skip
        else:
            network.events.append(event)
    if rearmed:
        network.add_event(
            "arm", trigger=f"{species} > {1.25 * threshold * LARGE}", assignments={"armed": 1}
        )
    return network


def divisions(network: ts.Network, name: str, times: Array) -> str:
    """Mean number of divisions of trajectories and of equations, as it is and re-armed."""
    told = []
    for rearmed in (False, True):
        system = counted_divisions(network, name, rearmed=rearmed)
        found = ts.run(
            system, n=FEW_RUN, times=times, seed=1, device="cpu", record="trajectories",
            max_steps=MOST_STEPS,
        )  # fmt: skip
        course = validation.equations(system, times)
        mean, want = (float(np.asarray(r.mean("divisions"))[-1]) for r in (found, course))
        told.append(f"{mean:.3g} by ssa, {want:.0f} by ode")
    return f"{told[0]}; re-armed {told[1]}"


def explained(name: str, path: Path, t_end: float, seconds: float) -> Explained:
    """The row of a model."""
    factor, reason = REASONS[name]
    row = Explained(name, reason=reason)
    network = read_network(path)
    counts = ts.in_molecules(network, 1.0)
    t_end, each = validation.shortened(counts, t_end)
    t_end *= PART.get(name, 1.0)
    times = np.linspace(0, t_end, 11)
    n = int(np.clip(OURS_SECONDS / max(each, 1e-6), 4 * validation.FEWEST_RUN, 4000))
    ours = validation.means_of(counts, times, n)
    row.t_end = f"{t_end:g}"
    row.gap, row.rounding = validation.gap_of(counts, times, ours)
    try:
        names, plain = plain_means(path, times, seconds)
        z, worst = largest_z(ours, names, plain)
        row.plain = f"{z:.2f} ({worst}), {ours.trajectories} and {len(plain)}"
    except NegativeLawError as error:
        row.plain = str(error)
    row.larger = larger(network, times, factor)
    if name in THRESHOLDS:
        row.divisions = divisions(network, name, times)
    return row


def write(rows: list[Explained], output: Path) -> None:
    """Write the table."""
    with output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Explained))
        writer.writerows(astuple(row) for row in rows)


def main() -> int:
    """Write the table; 1 if the plain loop has other means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--models",
        nargs="+",
        default=list(REASONS),
        help="only these; other rows of the output stay",
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="for the plain loop")
    parser.add_argument("-o", "--output", type=Path, default=Path("events-explained.csv"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with (options.folder / "models.csv").open(encoding="utf-8") as file:
        horizons = {row["model"]: float(row["t_end"]) for row in csv.DictReader(file)}
    known: dict[str, Explained] = {}
    if options.output.exists():
        with options.output.open(encoding="utf-8") as file:
            known = {row["model"]: Explained(**row) for row in csv.DictReader(file)}
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(options.folder / "models.tar.xz") as archive:
            archive.extractall(folder, filter="data")
        for name in options.models:
            path = Path(folder) / f"{name}.xml"
            known[name] = explained(name, path, horizons[name], options.seconds)
            print(*astuple(known[name]), sep=" | ", flush=True)
            rows = [known[one] for one in REASONS if one in known]
            write(rows, options.output)
    return int(any(float(row.plain.split()[0]) > validation.LARGEST_Z for row in rows))


if __name__ == "__main__":
    sys.exit(main())

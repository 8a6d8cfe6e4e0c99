"""Models with events: which methods run them, and their courses against other programs.

FOLDER holds SBML models, or ``models.tar.xz`` with them, ``models.csv`` with their horizons (columns model, t_end), ``ode.json``
with courses by libRoadRunner (columns and values ``[time][column]`` at 11 times, species as
amounts), and ``ssa.json`` with means and standard errors of exact SSA by bngsim.

    python scripts/validation/validate_events.py FOLDER -o docs/validation/events.csv --copasi

writes a row for each model and a summary beside it (.md). A model is counted in the first way in
which ``ssa`` takes it: as it is, in numbers of molecules, with ``--amounts counts``, or with
``--amounts F``, where F makes 10,000 counts of what is largest at the start; ``--net-laws`` where it
takes none of these without. The horizon is the model's, divided by 10 until a trajectory has at
most 1,000,000 steps. As many trajectories are run as ``--seconds`` allow, 16 to 4,000, and all
means are looked at:

- ``gap``: the largest difference from ``ode`` of the same counts, which begins with the whole numbers that
  amounts are rounded to, in percent of the quantity's
  largest value, of what differs by more than noise; 0 if nothing does. Where molecules are few and
  laws are not linear, means and equations do differ. Equations may also take amounts below 0,
  which counts never are. The first ends as counts grow:
- ``rounding``: how far that rounding alone moves the equations, in percent of the largest value;
- ``larger``: where the gap is above 2 %, the gap of a system that is so many times larger, up to
  1,000 times and 1,000,000 steps, of as many trajectories as the seconds allow; with net laws where a law is
  negative there;
- ``copasi``: the largest difference from means by COPASI's direct method, in standard errors, with
  ``--copasi`` (needs basico); empty where COPASI refuses the model or is too slow, and where all
  amounts are below 20 at the start, since COPASI does not round what events set;
- ``ssa_worst``: the same of means by bngsim, where they are known.

The course of ``ode`` (rtol 1e-9, atol 1e-12 of the largest amount or of 1) is compared with
libRoadRunner's: `ode_worst` is the largest difference in units of 1e-3 of the value and 1e-6 of the
largest value of the quantity.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tarfile
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Collection
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from copasi_means import FEWEST, Means, copasi_means

import tauslab as ts
from tauslab.formats.read import read_network
from tauslab.kernels.network.lowering import real_species
from tauslab.model.expressions.expression import Expression, Number, substitute, symbols
from tauslab.model.expressions.unfolding import unfold
from tauslab.model.network.check import check_facts, refusing
from tauslab.model.portable.host_math import evaluate

MOST_STEPS = 200_000
FIRST_STEPS = 10_000
LARGER, MOST_STEPS_LARGER = 1000.0, 1_000_000
TRAJECTORIES = 4000
FEWEST_RUN = 16
WAYS = ("as it is", "molecules", "counts", "scaled")
LARGEST = 1e4  # counts at the start, where the size of the system is chosen
LARGEST_Z = 5.0
NOISE = 4.5  # standard errors that are no difference, and 8 / n of it more of n trajectories:
# of 25,000 means, one is beyond in every sixth table where all are right
PERCENT = 2.0
FEW = 20.0
SLOWEST = 30  # times the seconds that a larger system may take
SHORTENED = 6  # times that a horizon may be divided by 10
ABSORBED, OVERFLOWED, STEP_LIMIT, NOT_A_NUMBER = 1, 2, 3, 4  # statuses of trajectories
EXPLAINED = (
    "`scripts/validation/explain_events.py` runs them with `--amounts counts`, and beside them a plain "
    "loop in Python that shares nothing with tauslab (`plain_gillespie.py`): the largest difference of all means, "
    "in standard errors, of so many trajectories of `ssa` and of the loop. Other columns: how far the equations "
    "move when amounts are rounded to counts, and the difference of `ssa` from these, in percent."
)
INSTANTS = (
    "Triggers such as `time == 20` are true for an instant. All methods here execute them, libRoadRunner 2.10.0 passes "
    "over them. BIOMD0000000570, 620, 817, 1043 and 1059 have such triggers."
)
Array = npt.NDArray[np.float64]


@dataclass
class Row:
    """A row of the table."""

    model: str
    ssa: str = ""
    t_end: str = ""
    events: str = ""
    trajectories: str = ""
    gap: str = ""
    rounding: str = ""
    larger: str = ""
    copasi: str = ""
    ssa_worst: str = ""
    ode: str = ""
    ode_worst: str = ""
    message: str = ""


def accepted(network: ts.Network) -> bool:
    """Whether ``ssa`` takes the model."""
    return "ssa" in check_facts(network)["methods"]  # type: ignore[operator]


def for_ssa(network: ts.Network, t_end: float) -> tuple[str, ts.Network]:
    """How ``ssa`` takes it: one of `WAYS`, and whether with net laws; else ``refused``.

    Of the last two ways `--amounts` is 1, and what makes LARGEST of the amount that is largest at
    the start; they are tried where there are too many molecules, and where a file has no one unit.
    """
    for laws in ("", ", net laws"):
        for how in WAYS:
            converted = counted(network, how)
            if converted is None:
                continue
            converted = ts.with_net_laws(converted) if laws else converted
            if accepted(converted) and fits(converted) and starts(converted, t_end):
                return how + laws, converted
    return "refused", network


def starts(network: ts.Network, t_end: float) -> bool:
    """Whether laws are propensities and amounts are counts in the first steps."""
    try:
        tried = trial(network, t_end, FIRST_STEPS)
    except ts.TauslabError:
        return False
    return not np.isin(tried.status, (OVERFLOWED, NOT_A_NUMBER)).any()


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


def trial(network: ts.Network, t_end: float, steps: int = MOST_STEPS, n: int = 2) -> ts.Result:
    """A few trajectories with a limit on their steps."""
    return ts.run(
        network, n=n, max_steps=steps, seed=1, device="cpu", times=[0.0, t_end],
        record="trajectories",
    )  # fmt: skip


def shortened(network: ts.Network, t_end: float) -> tuple[float, float]:
    """Horizon, and seconds that a trajectory takes until then."""
    for _ in range(SHORTENED + 1):
        if (trial(network, t_end).status != STEP_LIMIT).all():
            break
        t_end /= 10
    seconds = []
    for n in (2, FEWEST_RUN + 2):  # the kernel is compiled by now
        start = time.monotonic()
        trial(network, t_end, n=n)
        seconds.append(time.monotonic() - start)
    return t_end, max(0.0, seconds[1] - seconds[0]) / FEWEST_RUN


@dataclass(frozen=True)
class Ours:
    """Means and standard errors of species and observables, of valid trajectories."""

    means: dict[str, Array]
    errors: dict[str, Array]
    trajectories: int
    events: float  # of each
    invalid: str  # how many trajectories ended how


def means_of(network: ts.Network, times: Array, n: int) -> Ours:
    """Run `n` trajectories by ``ssa``."""
    found = ts.run(network, n=n, times=times, seed=1, device="cpu", record="trajectories")
    status = np.asarray(found.status)
    good = status <= ABSORBED
    if not good.any():
        raise ts.TauslabError(f"all trajectories end by status {status[0]}")
    courses = {name: np.asarray(found.counts(name), float)[good] for name in found.species}
    reals = np.asarray(found.data["observables"]) if found.observables else np.empty(0)
    courses |= {name: reals[good, :, k] for k, name in enumerate(found.observables)}
    count = int(good.sum())
    ended = Counter(status[~good].tolist())
    return Ours(
        {k: v.mean(axis=0) for k, v in courses.items()},
        {k: v.std(axis=0, ddof=min(1, count - 1)) / np.sqrt(count) for k, v in courses.items()},
        count,
        float(found.data["profile/events"][()].sum()) / n,
        ", ".join(f"{k} of {n} ended by status {s}" for s, k in ended.items()),
    )


def equations(network: ts.Network, times: Array) -> ts.Result:
    """Their course."""
    return ts.run(
        network, n=1, times=times, method=ts.ODE(rtol=1e-8, atol=1e-9), device="cpu", seed=1,
        record="trajectories", max_steps=1_000_000,
    )  # fmt: skip


def begun_whole(network: ts.Network) -> ts.Network:
    """The network that begins with whole counts, as trajectories do; parameters keep their values."""
    values = network.parameter_values()
    amounts, free = network.initial_amounts(values, negative=True), set(real_species(network))
    free |= {name for name, one in network.species.items() if one.fixed}
    species = {
        name: one if name in free else replace(one, initial=Number(float(round(amounts[name]))))
        for name, one in network.species.items()
    }
    parameters: dict[str, Expression] = {n: Number(float(value)) for n, value in values.items()}
    return replace(network, species=species, parameters=parameters)


def resolution(network: ts.Network, result: ts.Result, name: str) -> float:
    """By how much one molecule more changes an observable, at most, at the times of a course."""
    rule = network.rule_expressions().get(name)
    if rule is None:
        return 0.0
    rules = network.rule_expressions()
    tree = substitute(rule, unfold(rules, "rule"))
    names = symbols(tree) & (network.species.keys() - set(real_species(network)))
    fixed: dict[str, float] = {**network.parameter_values(), "time": 0.0}
    most = 0.0
    for k in range(len(np.asarray(result.times))):
        at = fixed | {
            n: float(np.asarray(result.mean(n))[k]) for n in symbols(tree) & network.species.keys()
        }
        here = value_of(tree, at)
        found = (abs(value_of(tree, at | {n: at[n] + 1.0}) - here) for n in names)
        most = max([most, *(one for one in found if np.isfinite(one))])
    return most


def value_of(tree: Expression, values: dict[str, float]) -> float:
    """Of an expression; not a number where it has none."""
    try:
        return evaluate(tree, values)
    except (ts.TauslabError, ArithmeticError, KeyError):
        return float("nan")


def gap_of(network: ts.Network, times: Array, ours: Ours) -> tuple[str, str]:
    """The largest difference from ``ode`` that is no noise, and of what; and that of rounding."""
    try:
        result = equations(begun_whole(network), times)
        exact = equations(network, times)
    except ts.TauslabError as error:
        return f"no course: {error}"[:80], ""
    worst = rounding = (0.0, "")
    counts = network.species.keys() - set(real_species(network))
    for name, mean in ours.means.items():
        want = np.asarray(result.mean(name))
        least = 1.0 if name in counts else resolution(network, result, name)
        if name in counts and want.min() < -0.5:
            return f"equations take {name} below 0", ""
        scale = max(float(np.abs([want, mean]).max()), 1.0 if name in counts else 1e-9)
        moved = np.abs(want - np.asarray(exact.mean(name))).max()
        rounding = max(rounding, (100 * float(moved) / max(scale, float(least)), name))
        off = np.abs(mean - want) - 1e-6 * scale
        noise = np.maximum(ours.errors[name], least / ours.trajectories)
        away = off[off > NOISE * (1 + 8 / ours.trajectories) * noise]
        if away.size:
            worst = max(worst, (100 * float(away.max()) / scale, name))
    told = f"{rounding[0]:.2g} ({rounding[1]})" if rounding[0] >= 0.005 else "0"
    return (f"{worst[0]:.2g} ({worst[1]})" if worst[1] else "0"), told


def largest_count(network: ts.Network) -> float:
    """Of the species at the start."""
    amounts = network.initial_amounts(network.parameter_values(), negative=True)
    return max((amounts[n] for n in amounts.keys() - set(real_species(network))), default=0.0)


def below(means: Means, network: ts.Network) -> bool:
    """Whether means of counts are below 0."""
    counts = network.species.keys() - set(real_species(network))
    return any(means.means[name].min() < 0 for name in means.means.keys() & counts)


def percent(gap: str) -> float:
    """The number of a gap; 0 where there is none, or nothing to compare with."""
    try:
        return float(gap.split(" ", maxsplit=1)[0])
    except ValueError:
        return 0.0


def gap_of_larger(
    row: Row, original: ts.Network, network: ts.Network, times: Array, seconds: float
) -> str:
    """The gap of a system of more counts, and how many times more."""
    unit = float(network.parameter_values().get("molecules_per_unit", 1.0))
    told = "too many steps"
    for factor in (LARGER, LARGER / 10, LARGER / 100):
        for net_laws in (False, True):
            if row.ssa.endswith("net laws") and not net_laws:
                continue
            try:
                larger = ts.in_molecules(original, factor * unit)
                larger = ts.with_net_laws(larger) if net_laws else larger
                found = gap_in_time(larger, times, seconds)
            except ts.TauslabError as error:
                told = str(error)[:80]
                continue
            if found:
                return f"{found} at {factor:g} times" + ", net laws" * net_laws
            break
    return told


def gap_in_time(network: ts.Network, times: Array, seconds: float) -> str:
    """The gap, if a few trajectories take at most `SLOWEST` times the seconds; else ``""``."""
    each = 0.0
    for _ in range(2):  # the first compiles the kernel
        start = time.monotonic()
        trial(network, float(times[-1]), FIRST_STEPS)
        each = time.monotonic() - start
    steps = min(MOST_STEPS_LARGER, int(FIRST_STEPS * max(1.0, SLOWEST * seconds / 8 / each)))
    start = time.monotonic()
    tried = trial(network, float(times[-1]), steps)
    each = (time.monotonic() - start) / 2
    if (tried.status == STEP_LIMIT).any() or each * FEWEST_RUN > SLOWEST * seconds:
        return ""
    n = int(np.clip(seconds / each, FEWEST_RUN, TRAJECTORIES))
    return gap_of(network, times, means_of(network, times, n))[0]


def largest_z(ours: Ours, other: Means, counts: Collection[str]) -> float:
    """The largest difference of two tables of means, in standard errors of both.

    Of counts the variance is that of all trajectories together, and one molecule in one of them is no
    difference: what is there seldom may be in none of the fewer.
    """
    worst = 0.0
    n, m = ours.trajectories, other.trajectories
    for name in other.means.keys() & ours.means.keys():
        off = np.abs(ours.means[name] - other.means[name])
        both = np.hypot(ours.errors[name], other.errors[name])
        if m > 0 and name in counts:
            all_ = ours.errors[name] ** 2 * n * (n - 1) + other.errors[name] ** 2 * m * (m - 1)
            both = np.sqrt(all_ / (n + m - 2) * (1 / n + 1 / m) + (all_ > 0) / min(n, m) ** 2)
        same = off <= 2e-6 * np.abs(other.means[name]) + 1e-9
        same |= (both <= 1e-9 * off) & (off <= 0.5)  # what is not whole is rounded here
        with np.errstate(all="ignore"):
            z = np.where(same, 0.0, off / both)
        worst = max(worst, float(z.max()))
    return worst


def run_ssa(
    row: Row, network: ts.Network, t_end: float, known: dict[str, Any] | None, options: Any
) -> None:
    """Run it, and compare means with equations and with other programs."""
    original = network
    moved = {name for name, one in network.species.items() if not one.fixed}
    moved -= set(real_species(network))
    row.ssa, network = for_ssa(network, t_end)
    if row.ssa == "refused":
        kinds = {f.kind for f in network.features if refusing(f, ["ssa"])}
        row.message = "; ".join(sorted(kinds)) or "amounts"
        return
    try:
        t_end, seconds = shortened(network, t_end)
        n = int(np.clip(options.seconds / max(seconds, 1e-6), FEWEST_RUN, TRAJECTORIES))
        if network.counts_nothing():
            n = 2  # both are the same
        times = np.linspace(0, t_end, 11)
        ours = means_of(network, times, n)
    except ts.TauslabError as error:
        row.ssa, row.message = "failed", str(error)[:200]
        return
    row.t_end, row.events, row.trajectories = f"{t_end:g}", f"{ours.events:.3g}", str(n)
    (row.gap, row.rounding), row.message = gap_of(network, times, ours), ours.invalid
    if percent(row.gap) > PERCENT:
        row.larger = gap_of_larger(row, original, network, times, options.seconds)
    if options.copasi and not network.counts_nothing() and largest_count(network) >= FEW:
        # COPASI rounds down what is not whole: it begins with the counts that trajectories have here
        other = copasi_means(begun_whole(network), times.tolist(), n, 2 * options.seconds)
        if isinstance(other, Means) and below(other, network):
            row.message = f"{row.message}; COPASI takes counts below 0".removeprefix("; ")
        elif isinstance(other, Means) and other.trajectories >= FEWEST:
            row.copasi = f"{largest_z(ours, other, moved):.2f}"
        elif isinstance(other, str):
            row.message = f"{row.message}; COPASI: {other}".removeprefix("; ")[:100]
    if known is not None and row.ssa in WAYS[:2]:
        times = np.linspace(0, known["t_end"], len(known["mean"]))
        ours = means_of(network, times, TRAJECTORIES)
        columns = {
            key: {n: np.array(known[key])[:, k] for k, n in enumerate(known["species"])}
            for key in ("mean", "stderr")
        }
        row.ssa_worst = (
            f"{largest_z(ours, Means(columns['mean'], columns['stderr'], 0), moved):.2f}"
        )


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
        row.message = f"{row.message}; ode: {str(error).split(': ', 1)[-1]}"[:300]
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


def runs(row: Row) -> bool:
    """Whether ``ssa`` runs the model."""
    return row.ssa.removesuffix(", net laws") in WAYS


def summary(rows: list[Row], output: Path) -> str:
    """Counts and names of what is refused, as Markdown."""
    taken, ode = Counter(row.ssa for row in rows), Counter(row.ode.split(":")[0] for row in rows)
    good = [row for row in rows if runs(row)]
    ways = {how: sum(n for key, n in taken.items() if key.startswith(how)) for how in WAYS}
    net = sum(row.ssa.endswith("net laws") for row in good)
    short = [row for row in good if 0 < percent(row.gap) <= PERCENT]
    far = [row for row in good if percent(row.gap) > PERCENT]
    told = [row for row in good if row.copasi or row.ssa_worst]
    moved = sum(percent(row.rounding) > PERCENT for row in good)
    first = (
        f"{len(rows)} models of BioModels with events: `ssa` runs {len(good)} "
        f"({100 * len(good) / len(rows):.0f} %), {ways['as it is']} as they are, "
        f"{ways['molecules']} with `--molecules`, {ways['counts']} with `--amounts counts` and "
        f"{ways['scaled']} with `--amounts F`, a size that the user chooses; {net} of them need "
        f"`--net-laws`. `ode` agrees with libRoadRunner in {ode['agrees']}, differs in "
        f"{ode['differs']}, and is refused or fails in {ode['refused'] + ode['failed']}; of "
        f"{ode['no course']} there is no course. This page and [the table](events.csv) are written "
        "by `scripts/validation/validate_events.py --copasi --seconds 1.5`, which states all rules; `--models` "
        "computes rows again, as was done for those that had few trajectories."
    )
    second = (
        f"Means of `ssa`, of {FEWEST_RUN} to {TRAJECTORIES} trajectories, beside the equations of the "
        f"same counts: {len(good) - len(short) - len(far)} models show no difference beyond noise, "
        f"{len(short)} one of at most {PERCENT:g} % of a quantity's largest value, and {len(far)} a "
        "larger one. The equations begin with the whole counts that trajectories begin with: "
        f"that rounding moves the equations of {moved} models by more than {PERCENT:g} %, since their files give "
        "amounts of about one unit. Means of few molecules with laws that are not linear do differ from the "
        "equations: that ends in a larger system, unless noise lets an event come more often, and COPASI has the same means."
    )
    lines = [
        "# Models with events",
        "",
        first,
        "",
        second,
        "",
        "| `ssa` refuses for | models |",
        "|---|---|",
    ]
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if not runs(row):
            reasons.setdefault(row.message.split("; ode:")[0], []).append(row.model)
    lines += [f"| {why} | {', '.join(names)} |" for why, names in sorted(reasons.items())]
    lines += [
        "",
        "| means by `ssa`: largest difference in standard errors | COPASI | bngsim |",
        "|---|---|---|",
    ]
    lines += [f"| {row.model} | {row.copasi} | {row.ssa_worst} |" for row in told]
    if far:
        lines += [
            "",
            "| means that differ from the equations | by, percent | of a larger system | COPASI |",
            "|---|---|---|---|",
        ]
        lines += [f"| {r.model} | {r.gap} | {r.larger} | {r.copasi} |" for r in far]
    lines += explanation(output.with_name("events-explained.csv"))
    ended = [row for row in good if "ended by status" in row.message]
    if ended:
        lines += ["", "| trajectories that end early | how |", "|---|---|"]
        lines += [f"| {row.model} | {row.message.split('; COPASI')[0]} |" for row in ended]
    differ = [row for row in rows if row.ode.startswith("differs") or row.ode == "failed"]
    if differ:
        lines += ["", "| `ode` against libRoadRunner | units of what is allowed |", "|---|---|"]
        lines += [f"| {row.model}: {row.ode} | {row.ode_worst} |" for row in differ]
        lines += ["", INSTANTS]
    return "\n".join(lines) + "\n"


_NUMBERS = {9: "Nine", 10: "Ten", 11: "Eleven", 12: "Twelve"}


def explanation(path: Path) -> list[str]:
    """The table of `explain_events.py`, if it is there."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    lines = [
        "",
        f"## {_NUMBERS[len(rows)]} models, and why their means differ from the equations",
        "",
        EXPLAINED,
        "",
        "| model | rounding alone, % | `ssa`, % | plain loop | in a larger system, % | reason |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['model']} | {r['rounding']} | {r['gap']} | {r['plain']} trajectories | {r['larger']} | {r['reason']} |"
        for r in rows
    ]
    lines += [""]
    lines += [f"Divisions of {r['model']}: {r['divisions']}." for r in rows if r["divisions"]]
    return lines


def main() -> int:
    """Validate all models; 1 if means disagree."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--models", nargs="+", default=(), help="only these; other rows of the output stay"
    )
    parser.add_argument("--copasi", action="store_true", help="compare means with COPASI's")
    parser.add_argument("--seconds", type=float, default=5.0, help="for the means of a model")
    parser.add_argument("-o", "--output", type=Path, default=Path("events.csv"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as unpacked:
        models = options.folder
        if (models / "models.tar.xz").exists():
            with tarfile.open(models / "models.tar.xz") as archive:
                archive.extractall(unpacked, filter="data")
            models = Path(unpacked)
        return validate(options, models)


def validate(options: argparse.Namespace, models: Path) -> int:
    """Write the table and its summary."""
    with (options.folder / "models.csv").open(encoding="utf-8") as file:
        horizons = {row["model"]: float(row["t_end"]) for row in csv.DictReader(file)}
    courses, means = (
        json.loads((options.folder / f"{name}.json").read_text(encoding="utf-8"))["models"]
        for name in ("ode", "ssa")
    )
    rows = table_of(options.output) if options.models else {}
    for name in options.models or horizons:
        row = Row(name)
        try:
            network = read_network(models / f"{name}.xml")
        except ts.ModelError as error:
            row.ssa = row.ode = "refused"
            row.message = str(error).split(": ", 1)[-1]
        else:
            run_ssa(row, network, horizons[name], means.get(name), options)
            run_ode(row, network, courses.get(name))
        rows[name] = row
        print(*astuple(row), sep=" | ", flush=True)
        write([rows[name] for name in horizons if name in rows], options.output)
    worst = max(float(z or 0) for row in rows.values() for z in (row.ssa_worst, row.copasi))
    return int(worst > LARGEST_Z)


def table_of(path: Path) -> dict[str, Row]:
    """Rows of a table that is there already."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as file:
        return {row["model"]: Row(**row) for row in csv.DictReader(file)}


def write(rows: list[Row], output: Path) -> None:
    """Write the table and its summary."""
    with output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Row))
        writer.writerows(astuple(row) for row in rows)
    output.with_suffix(".md").write_text(summary(rows, output), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

"""The galactose switch of yeast (examples/galactose_switch.py), compared with an independent program.

As a hybrid of two parts (`galactose`), and as one network with transport by rate equations and all
other reactions by jumps (`galactose-network`).

Ten totals at 1 to 60 minutes are compared, at 11.1 and at 0.055 mM external galactose: means by a z-test with
the pooled variance, distributions by the Kolmogorov-Smirnov test. Totals, because the equations have no
noise for their single states. A p-value below 0.001 divided by the number of comparisons of a
concentration fails: a correct program fails in at most one of 250 seeds.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from outcome import FAIL, Outcome, cells, say
from scipy import stats

import tauslab as ts

ROOT = Path(__file__).resolve().parents[2]
PROMOTERS = ("DG1", "DG2", "DG3", "DGrep", "DG80")
MINUTES = (1, 2, 5, 10, 20, 30, 45, 60)
CHANCE = 1e-3  # of a false alarm, of all comparisons of a kind at one concentration
COLUMNS = {
    "mM": "external galactose",
    "minute": "time",
    "total": "molecules that are summed, in `totals` of `validate_galactose.py`",
    "mean": "mean of all cells",
    "reference": "mean of the cells of the independent program",
    "z": "difference in standard errors",
    "p of KS": "p-value of the Kolmogorov-Smirnov test",
    "verdict": "empty, or FAIL",
}
Totals = Mapping[str, npt.NDArray[np.float64]]


def example() -> Any:
    """The module of the example."""
    path = ROOT / "examples" / "galactose_switch.py"
    spec = importlib.util.spec_from_file_location("galactose_switch", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference(outside: str) -> dict[tuple[int, str], npt.NDArray[np.float64]]:
    """Totals ``[cell]`` by minute and name."""
    path = ROOT / "tests" / "data" / "hybrid" / f"galactose_{outside}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in ("cell", "minute")]
    result: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        for name in names:
            result.setdefault((int(row["minute"]), name), []).append(float(row[name]))
    return {key: np.array(values) for key, values in result.items()}


def totals(values: Callable[[str, str], npt.NDArray[np.float64]]) -> Totals:
    """Totals ``[cell, minute]`` by name, of values of a part's species.

    Whole numbers where all of a total are molecules.
    """

    def sums(part: str, weights: Mapping[str, int]) -> npt.NDArray[np.float64]:
        result = sum(w * values(part, name) for name, w in weights.items())
        return np.round(np.asarray(result), 6)

    gal80 = {"G80": 1, "G80C": 1, "G80d": 2, "G80Cd": 2, "G80G3i": 2}
    silent = {f"{gene}_G4d_G80d": 2 for gene in PROMOTERS}
    bound = {f"{gene}_G4d{more}": 1 for gene in PROMOTERS for more in ("", "_G80d")}
    return {
        "G1_total": sums("transport", dict.fromkeys(("G1", "G1GAI"), 1)),
        "G2_total": sums("transport", dict.fromkeys(("G2", "G2GAI", "G2GAE"), 1)),
        "GAI": values("transport", "GAI"),
        "G80_total": sums("genes", gal80 | silent),
        "promoters": sums("genes", bound),
        **{name: values("genes", name) for name in ("G3", "G3i", "G80G3i", "G4d", "reporter")},
    }


def totals_of_hybrid(result: Any) -> Totals:
    """Totals of the hybrid of two parts."""
    return totals(lambda part, name: result.values(f"{part}.{name}"))


def totals_of_network(result: Any) -> Totals:
    """Totals of the hybrid of one network."""
    return totals(lambda _, name: result.amounts(name))


def compared(found: Totals, outside: str, minutes: Sequence[int]) -> list[list[str]]:
    """Rows of all totals at all minutes."""
    wanted, lines = reference(outside), []
    tests = len(found) * len(minutes)
    for minute in minutes:
        for name, values in found.items():
            ours, theirs = values[:, minute], np.round(wanted[minute, name], 6)
            n, m = len(ours), len(theirs)
            pooled = ((n - 1) * ours.var(ddof=1) + (m - 1) * theirs.var(ddof=1)) / (n + m - 2)
            error = np.sqrt(pooled * (1 / n + 1 / m))
            z = float((ours.mean() - theirs.mean()) / error) if error else 0.0
            p = float(stats.ks_2samp(ours, theirs).pvalue)
            wrong = abs(z) > stats.norm.isf(CHANCE / 2 / tests) or p < CHANCE / tests
            numbers = cells([ours.mean(), theirs.mean(), z, p], 4)
            lines.append([outside, str(minute), name, *numbers, FAIL if wrong else ""])
    return lines


def run(given: Any) -> Outcome:
    """Run the hybrid of two parts, and compare."""

    def simulate(outside: float, **options: Any) -> Totals:
        return totals_of_hybrid(ts.run(example().switch(outside), pilot=0, **options))

    return outcome("The galactose switch as a hybrid", simulate, given)


def run_network(given: Any) -> Outcome:
    """Run the hybrid of one network, and compare."""
    method = ts.Partitioned(ode="transport_*", jump="*", pilot=0)

    def simulate(outside: float, **options: Any) -> Totals:
        options["times"] = np.arange(0, options.pop("t_end") + 1, 60.0)
        net = example().one_network(outside)
        return totals_of_network(ts.run(net, method=method, quiet=True, **options))

    return outcome("The galactose switch as one network", simulate, given)


def outcome(title: str, simulate: Callable[..., Totals], given: Any) -> Outcome:
    """Simulate both cases, and compare."""
    lines, speeds = [], []
    t_end = given.t_end or 3600.0
    minutes = [minute for minute in MINUTES if 60 * minute <= t_end]
    place = ts.CPU(threads=given.threads) if given.device == "cpu" else given.device
    for outside in given.cases or ("11.1", "0.055"):
        began, used = time.perf_counter(), time.process_time()
        result = simulate(float(outside), t_end=t_end, n=given.n, seed=given.seed, device=place)
        took, used = time.perf_counter() - began, time.process_time() - used
        speeds.append(f"{outside} mM: {took:.0f} s, {used:.0f} s of CPU time.")
        lines += compared(result, outside, minutes)
        say(outside, speeds[-1])
    about = (
        f"{given.n} cells to {minutes[-1]} minutes, {given.device}, seed {given.seed}, compared with 373 "
        "(11.1 mM) and 35 (0.055 mM) cells of the independent program."
    )
    return Outcome(title, about, COLUMNS, lines, speeds)

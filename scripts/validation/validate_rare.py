"""Rare events compared with exact values of tests/data/ensembles, and with the cost of `ssa`.

An estimate must be within three standard errors; a correct program exceeds them once in 370 estimates.
`ssa` needs n = (1 - p) / (p error^2) trajectories for the same relative error of the probability p.
Steady rates are compared with the inverse of the mean first-passage time. `--scale` multiplies the
number of walkers.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outcome import Outcome, say, verdict

import tauslab as ts

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "ensembles"
LIMIT = 3.0
CASES = ("futile_cycle", "immigration_death_tail", "schlogl_switch")
METHODS: dict[str, dict[str, Any]] = {
    "weighted ensemble": {},
    "adaptive bins": {"bins": "adaptive"},
}
# Simulated time and rounds of steady rates: much longer than a transition.
STEADY = {"immigration_death_tail": (80.0, 800), "schlogl_switch": (20.0, 200)}


@dataclass(frozen=True)
class Comparison:
    """One estimate beside the exact value; `plain` are events of plain runs of the same error."""

    case: str
    method: str
    exact: float
    found: ts.RareResult
    plain: float
    seconds: float

    @property
    def z(self) -> float:
        """Standard errors between both."""
        return (self.found.estimate - self.exact) / self.found.standard_error

    def row(self) -> list[str]:
        """A row of the table."""
        result = self.found
        relative = 100 * result.standard_error / result.estimate
        return [
            self.case, self.method, f"{self.exact:.6g}", f"{result.estimate:.4g}", f"{relative:.1f} %",
            f"{self.z:+.2f}", f"{result.events:.2g}", f"{self.plain / result.events:.1g}",
            f"{self.seconds:.1f}", verdict(good=abs(self.z) <= LIMIT),
        ]  # fmt: skip


def model(found: dict[str, Any], name: str) -> ts.Network:
    """The network of a case."""
    net = ts.Network(name)
    for species, count in found["model"]["species"].items():
        net.add_species(species, count)
    for parameter, value in found["model"]["parameters"].items():
        net.add_parameter(parameter, value)
    for reaction in found["model"]["reactions"]:
        net.add_reaction(reaction["equation"], rate=reaction["rate"])
    return net


def events_of_one(net: ts.Network, t_end: float, device: str) -> float:
    """Mean number of events of a plain trajectory."""
    chosen: Any = device
    result = ts.run(net, n=2000, times=[t_end], seed=1, device=chosen, record="final")
    return float(result.data["profile/events"][()].sum()) / 2000


def compare(name: str, runs: int, walkers: float, device: str, seed: int) -> list[Comparison]:
    """Run all methods on one case; `walkers` multiplies their default numbers."""
    case = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    net = model(case, name)
    given = {"target": case["target"], "runs": runs, "seed": seed, "device": device}
    each = events_of_one(net, case["t_end"], device)
    collected = []
    for label, own in METHODS.items():
        options = {**given, **own, "t_end": case["t_end"], "walkers": round(100 * walkers)}
        ts.weighted_ensemble(net, **{**options, "runs": 2, "walkers": 4, "rounds": 10})  # compiles
        began = time.perf_counter()
        result = ts.weighted_ensemble(net, **options)
        seconds = time.perf_counter() - began
        exact, error = case["exact"], result.standard_error / result.estimate
        plain = (1 - exact) / exact / error**2 * each
        collected.append(Comparison(name, label, exact, result, plain, seconds))
    if name in STEADY:
        t_end, rounds = STEADY[name]
        began = time.perf_counter()
        result = ts.weighted_ensemble(
            net, **given, t_end=t_end, rounds=rounds, steady=True, walkers=round(100 * walkers)
        )
        seconds = time.perf_counter() - began
        exact, error = 1 / case["mean_first_passage_time"], result.standard_error / result.estimate
        # A plain run sees one event of rate k in a time 1 / k.
        plain = each / case["t_end"] / exact / error**2
        collected.append(Comparison(name, "steady rate", exact, result, plain, seconds))
    return collected


COLUMNS = {
    "case": "model and target, in tests/data/ensembles",
    "method": "fixed bins, adaptive bins, or the rate at steady state",
    "exact": "exact probability, or rate per unit time",
    "estimate": "mean of all runs",
    "error": "standard error in percent of the estimate",
    "z": "difference in standard errors",
    "events": "reaction events simulated",
    "gain": "reaction events that `ssa` needs for the same error, divided by `events`",
    "s": "seconds without compilation",
    "verdict": "pass or FAIL",
}


def run(given: Any) -> Outcome:
    """Compare all."""
    rows = []
    for name in given.cases or CASES:
        for one in compare(name, given.runs, given.scale, given.device, given.seed):
            rows.append(one.row())
            say(*rows[-1])
    about = f"{given.runs} runs each, seed {given.seed}, {given.device}. A row passes with abs(z) <= {LIMIT:g}."
    return Outcome("Rare events", about, COLUMNS, rows)

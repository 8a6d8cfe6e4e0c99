"""`ts.Partitioned` on models that are difficult for it, compared with as many exact trajectories.

Species at the threshold between jumps and Langevin reactions, balanced flows, extinction, growth,
bursts, high orders, steep rate laws, genes of one copy. A mean fails if it is off by more than 1 % and a
standard deviation by more than 3 %, each with a p-value below 0.001 divided by the number of comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from outcome import FAIL, Outcome, cells, say
from scipy import stats
from validate_leaps import DEVIATION_TARGET, MEAN_TARGET

import tauslab as ts

CHANCE = 1e-3  # that of all comparisons together one fails
COLUMNS = {
    "model": "network, in `validate_partitions.py`",
    "choice": "how the kinds of reactions are assigned",
    "species": "species that is compared",
    "time": "sample time",
    "steps": "steps and events per trajectory",
    "events": "reaction events per exact trajectory",
    "mean": "mean of the exact trajectories, molecules",
    "mean, %": "difference of the means",
    "z": "the same in standard errors",
    "deviation, %": "difference of the standard deviations",
    "z ": "the same in standard errors",
    "verdict": "empty, or FAIL",
}
AUTO = ts.Partitioned(pilot=0)


@dataclass(frozen=True)
class Case:
    """Reactions with rate constants or propensities; their names are r0, r1, ..."""

    initial: Mapping[str, int]
    reactions: Mapping[str, float | str]
    times: Sequence[float]
    methods: Mapping[str, ts.Partitioned]

    def network(self) -> ts.Network:
        """The network."""
        net = ts.Network("case")
        for name, count in self.initial.items():
            net.add_species(name, count)
        for k, (equation, rate) in enumerate(self.reactions.items()):
            how = {"law": rate} if isinstance(rate, str) else {"rate": rate}
            net.add_reaction(equation, name=f"r{k}", **how)
        return net


def noisy(*names: str) -> ts.Partitioned:
    """Some reactions by the Langevin equation, all others as jumps."""
    return ts.Partitioned(langevin=list(names), jump="*", pilot=0)


few = partial(ts.Partitioned, pilot=0)
CASES = {
    "at the threshold": Case(
        {"X": 100, "P": 0}, {"-> X": 100.0, "X ->": 1.0, "X -> X + P": 0.05}, [10],
        {"auto": AUTO, "many 50": few(many=50)},
    ),
    "jumps in each step": Case(
        {"X": 200, "P": 0}, {"-> X": 200.0, "X ->": 1.0, "X -> X + P": 0.05}, [3],
        {"langevin": noisy("r0", "r1")},
    ),
    "balance of many": Case(
        {"A": 5000, "B": 5000, "C": 0}, {"A -> B": 10.0, "B -> A": 10.0, "B -> C": 0.002}, [3],
        {"auto": AUTO},
    ),
    "balance of few": Case(
        {"A": 20000, "B": 60, "C": 0}, {"A -> B": 0.3, "B -> A": 100.0, "B -> C": 0.05}, [3],
        {"auto": AUTO, "many 20": few(many=20)},
    ),
    "extinction": Case({"X": 500}, {"X -> 2 X": 1.0, "X ->": 2.0}, [2, 6], {"auto": AUTO}),
    "growth from ten": Case({"X": 10}, {"X -> 2 X": 1.0}, [6], {"auto": AUTO}),
    "orders 3 and 4": Case(
        {"X": 600, "Y": 0},
        {"-> 5 X": 200.0, "4 X -> 3 Y": 2.4e-8, "X ->": 1.0, "3 Y -> X": 1.2e-5, "Y ->": 0.5}, [5],
        {"auto": AUTO},
    ),
    "steep switch": Case(
        {"X": 400, "on": 1, "off": 0},
        {"-> X": 300.0, "on -> on + X": 200.0, "X ->": 1.0, "on -> off": "on * 2 * (X / 450) ^ 10",
         "off -> on": 0.5}, [8], {"auto": AUTO, "langevin": noisy("r0", "r1", "r2")},
    ),
    "steep law of many": Case(
        {"X": 2000}, {"-> X": "20 + 3000 * (X / 1000) ^ 8 / (1 + (X / 1000) ^ 8)", "X ->": 1.5}, [4],
        {"auto": AUTO},
    ),
    "law of few and many": Case(
        {"A": 3, "B": 3000, "C": 0},
        {"A + B -> C + B": "A * B ^ 3 * 1e-11", "-> A": 1.0, "A -> A + B": 400.0, "B ->": 0.5,
         "C ->": 0.2}, [8], {"auto": AUTO},
    ),
    "drained by one enzyme": Case(
        {"X": 1000, "E": 1, "F": 0, "Y": 0},
        {"X + E -> Y + E": "E * 400 * X / (X + 5)", "E -> F": 0.5, "F -> E": 0.5}, [2, 5],
        {"auto": AUTO, "langevin": noisy("r0")},
    ),
    "toggle": Case(
        {"A": 800, "B": 0},
        {"-> A": "900 / (1 + (B / 150) ^ 3)", "-> B": "900 / (1 + (A / 150) ^ 3)", "A ->": 1.0,
         "B ->": 1.0}, [15], {"auto": AUTO},
    ),
    "bursts of 300": Case(
        {"X": 3000}, {"-> 300 X": 10.0, "X ->": 1.0}, [4], {"auto": AUTO, "langevin": noisy("r*")}
    ),
    "epidemic of five": Case(
        {"S": 2000, "I": 5, "R": 0}, {"S + I -> 2 I": 0.001, "I -> R": 1.0}, [5, 12], {"auto": AUTO}
    ),
    "predators": Case(
        {"X": 1000, "Y": 1000}, {"X -> 2 X": 10.0, "X + Y -> 2 Y": 0.01, "Y ->": 10.0}, [1, 2],
        {"auto": AUTO},
    ),
    "cascade": Case(
        {"G": 1, "M": 0, "P": 0, "D": 0},
        {"G -> G + M": 5.0, "M ->": 0.5, "M -> M + P": 50.0, "P ->": 0.5, "2 P -> D": 0.0005,
         "D ->": 2.0}, [8], {"auto": AUTO},
    ),
}  # fmt: skip


def compared(name: str, case: Case, given: Any, limit: float) -> list[list[str]]:
    """Rows of a model."""

    def run(method: Any, seed: int) -> ts.Result:
        return ts.run(case.network(), n=given.n, times=case.times, method=method, seed=seed,
                      device=given.device, quiet=True)  # fmt: skip

    def work(result: ts.Result) -> float:
        return float(result.data["profile/events"][()].sum() / given.n)

    exact, lines = run("ssa", given.seed + 1000), []
    for choice, method in case.methods.items():
        collected = run(method, given.seed)
        steps = work(collected)
        for species in case.initial:
            for k, time in enumerate(case.times):
                ours, theirs = collected.amounts(species)[:, k], exact.counts(species)[:, k]
                off = ours.mean() / theirs.mean() - 1 if theirs.any() else 0.0
                z = off * theirs.mean() / (_error(ours - 0.0, theirs) or 1.0)
                spread = ours.std() / theirs.std() - 1 if theirs.std() else 0.0
                squares = [(x - x.mean()) ** 2 for x in (ours, theirs)]
                zs = (squares[0].mean() - squares[1].mean()) / (_error(*squares) or 1.0)
                wrong = abs(off) > MEAN_TARGET and abs(z) > limit
                wrong |= abs(spread) > DEVIATION_TARGET and abs(zs) > limit
                wrong |= ours.min() < 0
                numbers = [steps, work(exact), theirs.mean(), 100 * off, z, 100 * spread, zs]
                row = [name, choice, species, f"{time:g}", *cells([float(x) for x in numbers], 3)]
                lines.append([*row, FAIL if wrong else ""])
                say(*lines[-1])
    return lines


def _error(first: Any, second: Any) -> float:
    """Standard error of the difference of two means."""
    return float(np.hypot(first.std(), second.std()) / np.sqrt(len(first)))


def run(given: Any) -> Outcome:
    """Run all models."""
    given.device = "cuda" if given.device == "cuda" else ts.CPU(threads=given.threads)
    chosen = {n: c for n, c in CASES.items() if not given.cases or n in given.cases}
    rows = sum(len(c.methods) * len(c.initial) * len(c.times) for c in CASES.values())
    limit = float(stats.norm.isf(CHANCE / 2 / (2 * rows)))
    lines = [line for name, case in chosen.items() for line in compared(name, case, given, limit)]
    about = (
        f"{given.n} trajectories by `method=ts.Partitioned(...)` and as many exact ones, seed {given.seed}. "
        f"A row fails beyond {limit:.2f} standard errors if a mean also differs by more than 1 %, or a "
        "standard deviation by more than 3 %."
    )
    return Outcome("ts.Partitioned on models that are difficult for it", about, COLUMNS, lines)

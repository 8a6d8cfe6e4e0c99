"""`ssa` and `ts.cme` compared with solutions of the chemical master equation (tests/data/exact).

Each species at each time is one chi-square test of the sampled counts, with neighbouring counts
merged until a bin expects at least 10. The smallest p-value must be at least 1e-3 divided by the
number of tests (Bonferroni), so a correct program fails at most once in 1,000 seeds.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from outcome import Goodness, Outcome, cells, goodness, say, verdict

import tauslab as ts
from tauslab.formats.read import read_network

FloatArray = npt.NDArray[np.float64]

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
FEWEST_EXPECTED = 10.0
FALSE_ALARMS = 1e-3  # of all tests together


@dataclass(frozen=True)
class Problem:
    """A model with an exact solution.

    `columns` maps the species of the solution to species of the model; `values` replaces parameters
    and initial amounts of the model by those of the solution.
    """

    name: str
    model: Callable[[], ts.Network]
    columns: Mapping[str, str]
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Test:
    """One chi-square test."""

    problem: str
    species: str
    time: float
    bins: int
    chi_square: float
    p_value: float


def sbml(name: str) -> Callable[[], ts.Network]:
    """Reader of a model under tests/data/sbml."""
    return lambda: read_network(DATA / "sbml" / f"{name}.xml")


def dsmts(case: str) -> Callable[[], ts.Network]:
    """Reader of a case of the SBML Test Suite."""
    return lambda: read_network(DATA / "dsmts" / case / f"{case}-sbml-l3v1.xml")


def telegraph() -> ts.Network:
    """One gene that switches, and its mRNA."""
    net = ts.Network("telegraph")
    net.add_species("OFF", 1)
    net.add_species("ON", 0)
    net.add_species("M", 0)
    net.add_reaction("OFF -> ON", rate=0.05)
    net.add_reaction("ON -> OFF", rate=0.1)
    net.add_reaction("ON -> ON + M", rate=5.0)
    net.add_reaction("M ->", rate=0.2)
    return net


PROBLEMS = (
    Problem("schlogl", sbml("schlogl"), {"X": "X"}),
    Problem("dimerisation", dsmts("00030"), {"P2": "P2"}),
    Problem(
        "michaelis_menten_small",
        sbml("michaelis_menten"),
        {"ES": "C", "P": "D"},
        values={"rate1": 0.01, "rate2": 0.1, "rate3": 0.5, "A": 50, "B": 10},
    ),
    Problem("toggle_small", sbml("toggle_switch"), {"A": "A", "B": "B"}),
    Problem("telegraph", telegraph, {"M": "M"}),
    Problem("birth_death", dsmts("00001"), {"X": "X"}),
    Problem("immigration_death", dsmts("00020"), {"X": "X"}),
    Problem(
        "bimolecular_100",
        sbml("bimolecular"),
        {"C": "C"},
        values={"c1": 1.78e-3, "A": 100, "B": 100},
    ),
)


def exact_distribution(problem: str, species: str) -> tuple[FloatArray, FloatArray]:
    """Times ``[time]`` and P(count) ``[time, count]``, counts from 0."""
    with (DATA / "exact" / f"{problem}.dist_{species}.csv").open(encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    times = np.array([float(name.removeprefix("t=")) for name in header[1:]])
    table = np.array(rows, np.float64)
    if not np.array_equal(table[:, 0], np.arange(len(table))):
        raise SystemExit(f"{problem}.dist_{species}.csv: counts must run from 0 without a gap")
    return times, table[:, 1:].T


def compared(counts: npt.NDArray[np.int32], probability: FloatArray) -> Goodness:
    """Samples ``[trajectory]`` against P(count); the last cell is all counts beyond the table."""
    states = len(probability)
    if counts.min() < 0:
        raise SystemExit("a trajectory ended early (overflow, NaN or step limit)")
    observed = np.bincount(np.minimum(counts, states), minlength=states + 1)
    beyond = max(0.0, 1.0 - float(probability.sum()))
    return goodness(observed, np.append(probability, beyond), FEWEST_EXPECTED)


def validate(
    problem: Problem,
    *,
    n: int,
    seed: int,
    device: Any,
    threads: int = 0,
    selector: Any = None,
    team: int = 0,
) -> tuple[list[Test], str]:
    """Run a model and test every distribution; also the name of the device it ran on."""
    exact = {species: exact_distribution(problem.name, species) for species in problem.columns}
    times = next(iter(exact.values()))[0]
    result = ts.run(
        problem.model(),
        n=n,
        times=times,
        method=ts.SSA(selector=selector, team=team),
        seed=seed,
        set=problem.values,
        species=list(problem.columns.values()),
        record="trajectories",
        device=ts.CPU(threads=threads) if device == "cpu" else device,
    )
    tests = []
    for species, (_, probability) in exact.items():
        samples = result.counts(problem.columns[species])
        for k, t in enumerate(times.tolist()):
            collected = compared(np.ascontiguousarray(samples[:, k]), probability[k])
            tests.append(Test(problem.name, species, t, *collected))
    return tests, result.data["profile/device"][()][0].decode()


def smallest_p(n_tests: int) -> float:
    """Least p-value that each of `n_tests` must reach."""
    return FALSE_ALARMS / n_tests


COLUMNS = {
    "model": "network, in `validate_cme.py`",
    "species": "species whose distribution is tested",
    "time": "sample time, in the unit of the model",
    "bins": "bins of the chi-square test",
    "chi_square": "sum over bins of (observed - expected)² / expected",
    "p_value": "probability of a chi-square at least as large, if the distribution is exact",
    "verdict": "pass, or FAIL if the p-value is too small",
}


def run(given: Any) -> Outcome:
    """Test every distribution."""
    tests: list[Test] = []
    device = given.device
    for problem in PROBLEMS:
        if given.cases and problem.name not in given.cases:
            continue
        done, device = validate(
            problem, n=given.n, seed=given.seed, device=given.device, threads=given.threads
        )
        tests += done
        say(problem.name, f"smallest p {min(test.p_value for test in done):.3g}")
    level = smallest_p(len(tests))
    return Outcome(
        "Distributions by exact simulation",
        f"{given.n} trajectories of each model, seed {given.seed}, {device}. Chi-square tests against "
        f"the master equation; a test passes with p >= {level:.2g}, so that a correct program fails at "
        f"most once in {1 / FALSE_ALARMS:g} seeds.",
        COLUMNS,
        [[*cells(test, 3), verdict(good=test.p_value >= level)] for test in tests],
    )


# ---------------------------------------------------------------- `ts.cme`

# A distribution fails if it differs by more than its bound and the rounding error of the stored
# table: it has 12 digits, and omits counts with a total probability below 1e-9, mostly 1e-12.
TABLE = 5e-12


@dataclass(frozen=True)
class Comparison:
    """One marginal distribution at one time; `error` sums absolute differences over counts."""

    problem: str
    species: str
    time: float
    states: int
    error: float
    bound: float

    @property
    def holds(self) -> bool:
        """Return whether the difference is within the bound and the digits of the table."""
        return self.error <= self.bound + TABLE


def projected(problem: Problem, tolerance: float = 1e-8) -> list[Comparison]:
    """Compare every distribution of a problem."""
    exact = {name: exact_distribution(problem.name, name) for name in problem.columns}
    times = next(iter(exact.values()))[0]
    law = ts.cme(problem.model(), times, set=problem.values, tolerance=tolerance)
    result = []
    for name, (_, table) in exact.items():
        for k, t in enumerate(times.tolist()):
            own = law.marginal(problem.columns[name], t)
            size = max(len(own), len(table[k]))
            difference = np.zeros(size)
            difference[: len(own)] += own
            difference[: len(table[k])] -= table[k]
            error = float(np.abs(difference).sum())
            states = len(law.states(t))
            result.append(Comparison(problem.name, name, t, states, error, float(law.bound[k])))
    return result


def run_projection(given: Any) -> Outcome:
    """Compare all."""
    del given
    result = [one for problem in PROBLEMS for one in projected(problem)]
    return Outcome(
        "Distributions by the finite state projection",
        f"`ts.cme` with tolerance 1e-8, compared with {len(result)} stored distributions. A row passes if "
        f"`difference` is at most `bound` plus {TABLE:g}, the rounding error of the stored tables.",
        {
            "model": "network",
            "species": "species whose marginal distribution is compared",
            "time": "in the unit of the model",
            "states": "states of the projection",
            "difference": "sum over counts of the absolute differences of the probabilities",
            "bound": "error bound that `ts.cme` returns",
            "verdict": "pass or FAIL",
        },
        [[*cells(one, 2), verdict(good=one.holds)] for one in result],
    )

"""Exact SSA against solutions of the chemical master equation (tests/data/exact).

    python scripts/validation/validate_cme.py --n 1000000 --device cuda --seed 1 -o table.csv

writes the table, a summary beside it (table.md), and exits 1 if a distribution differs.

Every (model, species, time) is one chi-square test of the sampled counts against n P(count), with
neighbouring counts merged until each bin expects at least 10. All tests together raise a false
alarm with a probability of at most 1e-3 (Bonferroni: each p-value must reach 1e-3 / tests).
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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


def chi_square(counts: npt.NDArray[np.int32], probability: FloatArray) -> tuple[int, float]:
    """Bins and chi-square of samples ``[trajectory]`` against P(count).

    Bins are runs of neighbouring counts, filled from below until they expect `FEWEST_EXPECTED`; the
    last also holds all counts beyond the table.
    """
    states = len(probability)
    if counts.min() < 0:
        raise SystemExit("a trajectory ended early (overflow, NaN or step limit)")
    observed = np.bincount(np.minimum(counts, states), minlength=states + 1).astype(np.float64)
    beyond = max(0.0, 1.0 - float(probability.sum()))
    expected = len(counts) * np.append(probability, beyond)
    starts, filled = [0], 0.0
    for state, weight in enumerate(expected.tolist()):
        if filled >= FEWEST_EXPECTED:
            starts.append(state)
            filled = 0.0
        filled += weight
    if filled < FEWEST_EXPECTED and len(starts) > 1:
        starts.pop()
    bins_expected = np.add.reduceat(expected, starts)
    bins_observed = np.add.reduceat(observed, starts)
    return len(starts), float((((bins_observed - bins_expected) ** 2) / bins_expected).sum())


def chi_square_tail(x: float, freedom: int) -> float:
    """P(chi-square of `freedom` degrees > x), from the finite sums for whole degrees.

    With h = x / 2: exp(-h) sum h^i / i! for even degrees; for odd ones erfc(sqrt(h)) plus the same
    sum over half-integers (Abramowitz and Stegun 26.4.4 and 26.4.5).
    """
    if x <= 0:
        return 1.0
    half, odd = x / 2, freedom % 2
    first = math.erfc(math.sqrt(half)) if odd else 0.0
    powers = np.arange(freedom // 2) + odd / 2
    logs = [power * math.log(half) - half - math.lgamma(power + 1) for power in powers.tolist()]
    return min(1.0, first + math.fsum(math.exp(value) for value in logs))


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
            bins, statistic = chi_square(np.ascontiguousarray(samples[:, k]), probability[k])
            p_value = chi_square_tail(statistic, bins - 1)
            tests.append(Test(problem.name, species, t, bins, statistic, p_value))
    return tests, result.data["profile/device"][()][0].decode()


def smallest_p(n_tests: int) -> float:
    """What each of `n_tests` p-values must reach."""
    return FALSE_ALARMS / n_tests


def main() -> int:
    """Run all models; 1 if a distribution differs."""
    options = _arguments()
    chosen = options.models or [problem.name for problem in PROBLEMS]
    tests: list[Test] = []
    device, begin = options.device, time.perf_counter()
    for problem in PROBLEMS:
        if problem.name not in chosen:
            continue
        done, device = validate(
            problem, n=options.n, seed=options.seed, device=options.device, threads=options.threads
        )
        tests += done
        print(*(f"{t.problem} {t.species} t={t.time:g} p={t.p_value:.3g}" for t in done), sep="\n")
    seconds = time.perf_counter() - begin
    level = smallest_p(len(tests))
    lines = [_line(test, level) for test in tests]
    with options.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(lines)
    options.output.with_suffix(".md").write_text(
        _summary(options, device, seconds, lines, level), encoding="utf-8"
    )
    failed = [test for test in tests if test.p_value < level]
    print(f"{len(tests)} tests, p >= {level:.2g} wanted, {len(failed)} failed; {seconds:.0f} s")
    return 1 if failed else 0


COLUMNS = ("model", "species", "time", "bins", "chi_square", "p_value", "verdict")


def _line(test: Test, level: float) -> list[str]:
    verdict = "FAIL" if test.p_value < level else "pass"
    return [
        test.problem, test.species, f"{test.time:g}", str(test.bins), f"{test.chi_square:.1f}",
        f"{test.p_value:.3g}", verdict,
    ]  # fmt: skip


def _summary(
    options: argparse.Namespace,
    device: Any,
    seconds: float,
    lines: Iterable[Sequence[str]],
    level: float,
) -> str:
    rows = list(lines)
    passed = sum(row[-1] == "pass" for row in rows)
    about = (
        f"{passed} of {len(rows)} distributions agree with the chemical master equation: "
        f"chi-square, {options.n} trajectories per model, seed {options.seed}, {device}, "
        f"{seconds:.0f} s in all. A test passes with p >= {level:.2g}, so that all of them "
        f"together raise a false alarm at most once in {1 / FALSE_ALARMS:g} runs "
        "(`scripts/validation/validate_cme.py`).\n"
    )
    text = [
        "# Exact distributions\n",
        about,
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return "\n".join(text) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=1_000_000, help="trajectories per model")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=0, help="CPU threads (0: all allowed)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="only these",
                        choices=[problem.name for problem in PROBLEMS])  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, default=Path("cme.csv"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

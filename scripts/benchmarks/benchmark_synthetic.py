"""Run times of random synthetic models: the eight tests of cuTauLeaping's Table 2.

    python scripts/benchmarks/benchmark_synthetic.py --device cuda -o synthetic.json

A test is a size, an initial amount of every species and a range of rate constants (Nobile et al.,
PLoS ONE 9:e91963, 2014): `--models` random consistent networks, 2^10 trajectories of each to
t = 150, here with statistics at 100 times. A row gives mean and standard deviation over the models
of the seconds in which the device computed, and of the whole call less compiling; the mean of the
seconds of compiling; the part of the models for which leaps were taken (`--method auto`); and how
many trajectories were given up after `--max-steps`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tauslab as ts

T_END = 150.0
POINTS = 100
DONE, ABSORBED = 0, 1


@dataclass(frozen=True)
class SyntheticTest:
    """One row of Table 2, with the paper's seconds and their spread (GeForce GTX 590)."""

    number: int
    reactions: int
    species: int
    initial: int
    rates: str | tuple[float, float]
    paper: tuple[float, float]


NARROW, WIDE = (1e-6, 10.0), (1e-9, 1e4)
TESTS = (
    SyntheticTest(1, 35, 33, 10**3, "uniform", (1.906, 1.396)),
    SyntheticTest(2, 35, 33, 10**4, "uniform", (8.149, 7.866)),
    SyntheticTest(3, 35, 33, 10**3, NARROW, (1.436, 0.7)),
    SyntheticTest(4, 35, 33, 10**4, NARROW, (8.263, 6.053)),
    SyntheticTest(5, 35, 33, 10**3, WIDE, (1.247, 0.543)),
    SyntheticTest(6, 35, 33, 10**4, WIDE, (18.509, 91.976)),
    SyntheticTest(7, 80, 80, 10**3, NARROW, (13.242, 10.623)),
    SyntheticTest(8, 80, 80, 10**4, WIDE, (96.133, 302.05)),
)


def run_model(test: SyntheticTest, seed: int, n: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Simulate one model: seconds, work, trajectories that were given up."""
    network = ts.random_network(
        species=test.species,
        reactions=test.reactions,
        initial=test.initial,
        rates=test.rates,
        seed=seed,
    )
    began = time.perf_counter()
    result = ts.run(network, n=n, points=POINTS, seed=seed, record="statistics", **options)
    call = time.perf_counter() - began
    profile = {k: float(result.data[f"profile/{k}"][()].max()) for k in ("compute", "compile")}
    return {
        "compute": profile["compute"],
        "wall": call - profile["compile"],
        "compile": profile["compile"],
        "leaped": result.method == "tau",
        "given_up": int((result.status > ABSORBED).sum()),
        "device": result.data["profile/device"][0].decode(),
    }


def run_test(
    test: SyntheticTest, models: int, n: int, options: Mapping[str, Any]
) -> dict[str, Any]:
    """All models of a test; those of tests of one size have the same reactions."""
    runs = [run_model(test, seed, n, options) for seed in range(1, models + 1)]

    def spread(key: str) -> list[float]:
        values = [run[key] for run in runs]
        return [statistics.fmean(values), statistics.stdev(values) if models > 1 else 0.0]

    return {
        "test": test.number,
        "size": f"{test.reactions} x {test.species}",
        "initial": test.initial,
        "rates": test.rates,
        "models": models,
        "trajectories": n,
        "compute": spread("compute"),
        "wall": spread("wall"),
        "compile": spread("compile")[0],
        "leaped": sum(run["leaped"] for run in runs) / models,
        "given_up": sum(run["given_up"] for run in runs),
        "paper": list(test.paper),
        "device": runs[-1]["device"],
    }


def line(row: Mapping[str, Any]) -> str:
    """A row of a Markdown table."""
    rates = row["rates"] if isinstance(row["rates"], str) else "{:g} to {:g}".format(*row["rates"])
    seconds = ["{:.3g} ({:.2g})".format(*row[key]) for key in ("compute", "wall", "paper")]
    cells = [row["test"], row["size"], row["initial"], rates, *seconds[:2], f"{row['compile']:.2g}",
             f"{row['leaped']:.0%}", row["given_up"], seconds[2]]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main(argv: list[str] | None = None) -> int:
    """Run the tests, print a table, write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--test", type=int, action="append", help="1 to 8 (all)")
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("-n", type=int, default=2**10)
    parser.add_argument("--t-end", type=float, default=T_END)
    parser.add_argument("--method", choices=("auto", "ssa", "tau"), default="tau")
    parser.add_argument("--max-steps", type=int, default=10**7)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args(argv)
    options = {k: getattr(arguments, k) for k in ("t_end", "method", "max_steps", "device")}
    if arguments.device == "cpu":
        options["device"] = ts.CPU(threads=arguments.threads)
    chosen = [t for t in TESTS if arguments.test is None or t.number in arguments.test]
    heading = ("test", "reactions x species", "initial", "rates", "kernels, s (sd)", "wall, s (sd)",
               "compile, s", "leaped", "given up", "paper, s (sd)")  # fmt: skip
    print(f"| {' | '.join(heading)} |\n|{'---|' * len(heading)}")
    rows = []
    for test in chosen:
        rows.append(run_test(test, arguments.models, arguments.n, options))
        print(line(rows[-1]), flush=True)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

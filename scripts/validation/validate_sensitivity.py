"""Derivatives of means by three methods against exact ones (tests/data/ensembles).

    python scripts/validation/validate_sensitivity.py --n 100000 --device cuda --seed 1 -o table.csv

writes the table, a summary beside it (table.md), and exits 1 if an estimate is more than three
standard errors from the exact value, or if a coupled difference varies too much.

`exact` is the derivative; differences are compared with the exact difference at the same two sides,
so that the bias of the step, which the last column tells, is no error of the estimate. `less` is how
many times less an estimate varies than a difference of two independent trajectories at the value
plus and minus 2 %, whose variance is exact too. With 23 estimates and three standard errors a right
program fails in one run of 17: another seed then passes.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

import tauslab as ts

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "ensembles"
CASES = ("dimerisation_sens", "gene_expression_sens")
Method: TypeAlias = Literal["coupled", "common", "likelihood-ratio"]
METHODS: tuple[Method, ...] = ("coupled", "common", "likelihood-ratio")
MOST_ERRORS = 3.0
LEAST_GAIN = 20.0  # of coupled differences, against independent ones
MOLECULES = 100  # of the decay, whose derivatives have a closed form


@dataclass(frozen=True)
class Row:
    """One derivative by one method."""

    case: str
    derivative: str
    method: str
    exact: float
    value: float
    standard_error: float
    errors: float
    less: float
    bias: float


@dataclass(frozen=True)
class Exact:
    """What is known of a derivative."""

    value: float
    difference: float  # over the sides that are compared
    independent: float  # variance of one difference of independent trajectories


@dataclass(frozen=True)
class Case:
    """A model, an output and its derivatives by parameter."""

    name: str
    network: ts.Network
    output: str
    time: float
    exact: dict[str, Exact]


def main() -> int:
    """Write the tables; 1 if an estimate is not right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("sensitivity.csv"))
    given = parser.parse_args()
    began = time.perf_counter()
    rows = [row for case in cases() for row in estimated(case, given)]
    seconds = time.perf_counter() - began
    with given.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows(
            [f"{v:.6g}" if isinstance(v, float) else v for v in astuple(r)] for r in rows
        )
    bad = list(wrong(rows))
    given.output.with_suffix(".md").write_text(summary(rows, bad, given, seconds), encoding="utf-8")
    print(*bad or [f"{len(rows)} estimates agree"], sep="\n")
    return int(bool(bad))


def cases() -> Iterator[Case]:
    """The cases of the reference, and the decay of a number of molecules."""
    for name in CASES:
        found = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
        output = next(iter(found["exact"].values()))["output"]
        exact = {
            one["parameter"]: Exact(
                one["value"],
                one["central_difference_2_percent"],
                one["variance_of_one_independent_difference_2_percent"],
            )
            for one in found["exact"].values()
        }
        yield Case(name.removesuffix("_sens"), network_of(found), output, found["t"], exact)
    yield decay()


def network_of(found: dict[str, Any]) -> ts.Network:
    """The model of a case."""
    net, model = ts.Network("case"), found["model"]
    for species, count in model["species"].items():
        net.add_species(species, count)
    for parameter, value in model["parameters"].items():
        net.add_parameter(parameter, value)
    for reaction in model["reactions"]:
        net.add_reaction(reaction["equation"], rate=reaction["rate"])
    return net


def decay() -> Case:
    """Molecules that decay: binomial, with derivatives by the rate and by their number."""
    net = ts.Network("decay")
    net.add_species("X", MOLECULES)
    net.add_parameter("k", 0.7)
    net.add_reaction("X ->", rate="k")

    def left(k: float) -> float:
        return math.exp(-k)

    sides = left(0.7 * 1.02), left(0.7 * 0.98)
    spread = MOLECULES * sum(p * (1 - p) for p in sides)
    by_rate = Exact(
        -MOLECULES * left(0.7), MOLECULES * (sides[0] - sides[1]) / 0.028, spread / 0.028**2
    )
    p = left(0.7)
    by_number = Exact(p, p, 2 * MOLECULES * p * (1 - p) / 16)  # sides 98 and 102
    return Case("decay", net, "X", 1.0, {"k": by_rate, "X": by_number})


def estimated(case: Case, given: argparse.Namespace) -> Iterator[Row]:
    """All derivatives of a case by each method."""
    for method in METHODS:
        ratio = method == "likelihood-ratio"
        names = [name for name in case.exact if not ratio or name in case.network.parameters]
        found = ts.sensitivity(
            case.network, names, [case.output], times=case.time, n=given.n, method=method,
            seed=given.seed, device=given.device,
        )  # fmt: skip
        for name in names:
            exact = case.exact[name]
            value, error = found[name, case.output][0], found.error(name, case.output)[0]
            expected = exact.value if ratio else exact.difference
            yield Row(
                case.name, f"d{case.output}/d{name}", method, exact.value, float(value),
                float(error), float((value - expected) / error),
                float(exact.independent / (error**2 * given.n)),
                0.0 if ratio else exact.difference / exact.value - 1,
            )  # fmt: skip


def wrong(rows: Sequence[Row]) -> Iterator[str]:
    """What is not as it should be."""
    for row in rows:
        what = f"{row.case}, {row.derivative}, {row.method}"
        if not abs(row.errors) <= MOST_ERRORS:
            yield f"{what}: {row.errors:.2f} standard errors from the exact value"
        if row.method == "coupled" and not row.less >= LEAST_GAIN:
            yield f"{what}: varies only {row.less:.1f} times less than independent trajectories"


def summary(
    rows: Sequence[Row], bad: Sequence[str], given: argparse.Namespace, seconds: float
) -> str:
    """The page: one line for each derivative."""
    from tauslab.kernels.backends import BackendOptions, choose_backend, get_backend

    backend = get_backend(choose_backend(given.device), BackendOptions())
    device = backend.describe()
    backend.close()
    right = f"{len(rows) - len(bad)} of {len(rows)} estimates are within {MOST_ERRORS:g}"
    told = (
        f"{right} standard errors of the exact value: {given.n} pairs or trajectories, seed "
        f"{given.seed}, {device}, {seconds:.0f} s in all "
        "(`scripts/validation/validate_sensitivity.py`). A cell holds the estimate, its distance "
        "from the exact value in standard errors, and how many times less it varies than a "
        "difference of independent trajectories with 2 %.\n"
    )
    lines = [
        f"# Sensitivities, {given.device}\n",
        told,
        f"| case | derivative | exact | {' | '.join(METHODS)} | bias of 2 % |",
        f"|---|---|---|{'---|' * len(METHODS)}---|",
    ]
    for key in dict.fromkeys((row.case, row.derivative) for row in rows):
        own = {row.method: row for row in rows if (row.case, row.derivative) == key}
        first = next(iter(own.values()))
        cells = [
            f"{own[m].value:.5g} ({own[m].errors:+.1f}; {own[m].less:.3g})" if m in own else "none"
            for m in METHODS
        ]
        lines.append(
            f"| {key[0]} | {key[1]} | {first.exact:.5g} | {' | '.join(cells)} | {first.bias:.1e} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

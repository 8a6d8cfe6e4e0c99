"""Derivatives of means by two methods compared with exact ones (tests/data/ensembles).

An estimate must be within three standard errors, and the variance of a coupled difference at least 20
times smaller than that of a difference of two independent trajectories, at the value plus and minus 2 %,
which is known exactly. Coupled differences are compared with the exact difference at the same two
values, so the error of the finite step is not part of the comparison. With 15 estimates a correct program
fails in one of 25 seeds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from outcome import Outcome, cells, verdict
from validate_rare import DATA, model

import tauslab as ts

CASES = ("dimerisation_sens", "gene_expression_sens")
Method: TypeAlias = Literal["coupled", "likelihood-ratio"]
METHODS: tuple[Method, ...] = ("coupled", "likelihood-ratio")
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
    """Exact value of a derivative."""

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


def cases() -> Iterator[Case]:
    """The cases of the reference, and the decay of a number of molecules."""
    for name in CASES:
        result = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
        output = next(iter(result["exact"].values()))["output"]
        exact = {
            one["parameter"]: Exact(
                one["value"],
                one["central_difference_2_percent"],
                one["variance_of_one_independent_difference_2_percent"],
            )
            for one in result["exact"].values()
        }
        yield Case(name.removesuffix("_sens"), model(result, "case"), output, result["t"], exact)
    yield decay()


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


def estimated(case: Case, given: Any) -> Iterator[Row]:
    """Estimate all derivatives of a case by each method."""
    for method in METHODS:
        ratio = method == "likelihood-ratio"
        names = [name for name in case.exact if not ratio or name in case.network.parameters]
        result = ts.sensitivity(
            case.network, names, [case.output], times=case.time, n=given.n, method=method,
            seed=given.seed, device=given.device,
        )  # fmt: skip
        for name in names:
            exact = case.exact[name]
            value, error = result[name, case.output][0], result.error(name, case.output)[0]
            expected = exact.value if ratio else exact.difference
            yield Row(
                case.name, f"d{case.output}/d{name}", method, exact.value, float(value),
                float(error), float((value - expected) / error),
                float(exact.independent / (error**2 * given.n)),
                0.0 if ratio else exact.difference / exact.value - 1,
            )  # fmt: skip


COLUMNS = {
    "case": "model",
    "derivative": "of the mean of a species by a parameter or an initial amount",
    "method": "method of `ts.sensitivity`",
    "exact": "exact derivative",
    "value": "estimate",
    "standard_error": "that `ts.sensitivity` states",
    "errors": "difference in standard errors",
    "less": "variance of a difference of independent trajectories, divided by that of the estimate",
    "bias": "relative error of the finite step (`coupled`)",
    "verdict": "pass or FAIL",
}


def right(row: Row) -> bool:
    """Return whether a row passes."""
    varies_less = row.method != "coupled" or row.less >= LEAST_GAIN
    return abs(row.errors) <= MOST_ERRORS and varies_less


def run(given: Any) -> Outcome:
    """Estimate all derivatives."""
    rows = [row for case in cases() for row in estimated(case, given)]
    about = (
        f"{given.n} pairs or trajectories, seed {given.seed}, {given.device}. A row passes within three "
        "standard errors, and with `less` >= 20 for `coupled`."
    )
    table = [[*cells(row, 5), verdict(good=right(row))] for row in rows]
    return Outcome("Sensitivities", about, COLUMNS, table)

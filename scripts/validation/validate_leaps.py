"""Leaps against exact laws on models chosen to break them: errors, and time beside exact events.

    python scripts/validation/validate_leaps.py -o docs/validation/leaps-cpu
    python scripts/validation/validate_leaps.py --device cuda -n 100000 -o docs/validation/leaps-cuda
    python scripts/validation/validate_leaps.py --label before --source OLD/src -o OUT/leaps-before-cpu

For every model of `leap_models.py`, with the last time alone (1 sample) and 101 times, and every
epsilon: relative errors of mean and standard deviation at the last time with their standard errors,
the Kolmogorov-Smirnov distance from the law, leaps and exact events a trajectory, and microseconds
a trajectory of the processor that computes (of a CPU; on a GPU the seconds of kernels), compiling
excluded; `--timed` exact trajectories give the time of exact simulation. Where no law is known,
`--exact` of them stand for it, and their sampling is part of the standard errors.

Writes a CSV file and a Markdown table. With `--source` the simulations run by another source tree,
in a process of its own. A CSV file of such a run, `leaps-before-NAME.csv` beside `leaps-NAME`, is
shown in the table.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from leap_models import CASES, Case, Law

import tauslab as ts

FloatArray = npt.NDArray[np.float64]
DEFAULT = 0.03
MEAN_TARGET, DEVIATION_TARGET = 0.01, 0.03
MANY_EVENTS = 1e5
DENSE = 101
TIMED_EVENTS = 1e7


@dataclass(frozen=True)
class Row:
    """One run. Errors are relative, `ks` is -1 where no law is known, `us` are microseconds."""

    label: str
    model: str
    method: Any
    samples: int
    epsilon: float
    n: int
    mean: float
    mean_se: float
    deviation: float
    deviation_se: float
    ks: float
    events: float
    leaps: float
    exact: float
    us: float

    @property
    def by_leaps(self) -> float:
        """The part of the events that leaps carry."""
        return 1 - self.exact / self.events if self.events else 0.0


@dataclass(frozen=True)
class Sample:
    """Counts of the species at the last time, work a trajectory, and microseconds."""

    values: FloatArray
    events: float
    leaps: float
    exact: float
    us: float


def simulate(
    case: Case, method: Any, epsilon: float, samples: int, n: int,
    args: argparse.Namespace, seed: int,
) -> Sample:  # fmt: skip
    """Run a model; a short run before it compiles."""
    network = case.network()
    times = [case.t_end] if samples == 1 else np.linspace(0.0, case.t_end, samples)
    chosen = ts.TauLeaping(epsilon=epsilon) if method == "tau" else method

    def run(n: int) -> ts.Result:
        return ts.run(
            network, n=n, times=times, method=chosen, seed=seed, device=args.device,
            record="final", species=[case.species], quiet=True,
        )  # fmt: skip

    run(2)
    before = time.process_time()
    result = run(n)
    seconds = time.process_time() - before
    if args.device == "cuda":
        seconds = float(result.data["profile/compute"][()].sum())
    work = {
        name: float(result.data[f"profile/{name}"][()].sum()) / n
        for name in ("events", "leaps", "exact_events")
    }
    values = np.asarray(result.data["final"][()], np.float64)[:, 0]
    exact = work["exact_events"] if method == "tau" else work["events"]
    return Sample(values, work["events"], work["leaps"], exact, seconds / n * 1e6)


def enough(noise: float, least: int, args: argparse.Namespace) -> int:
    """Trajectories by which sampling leaves no larger error of the mean than `--sampling`."""
    needed: float = (noise / args.sampling) ** 2
    return max(least, math.ceil(needed))


def errors_of_moments(values: FloatArray) -> tuple[float, float]:
    """Relative standard errors of the mean and of the standard deviation of a sample."""
    n, mean, deviation = len(values), values.mean(), values.std(ddof=1)
    kurtosis = float(((values - mean) ** 4).mean() / deviation**4)
    return deviation / mean / math.sqrt(n), math.sqrt(max(kurtosis - 1.0, 0.0) / (4.0 * n))


def distance(values: FloatArray, law: Law) -> float:
    """Kolmogorov-Smirnov distance of a sample from a law of counts; -1 where there is none."""
    if law.probabilities is None:
        return -1.0
    counted = np.bincount(values.astype(np.int64), minlength=len(law.probabilities))
    expected = np.zeros(len(counted))
    expected[: len(law.probabilities)] = law.probabilities
    return float(np.abs(np.cumsum(counted) / len(values) - np.cumsum(expected)).max())


def row_of(label: str, case: Case, method: Any, samples: int, epsilon: float, found: Sample,
           law: Law, law_se: tuple[float, float]) -> Row:  # fmt: skip
    """Compare a sample with the law, whose own standard errors are `law_se`."""
    mean_se, deviation_se = errors_of_moments(found.values)
    return Row(
        label, case.name, method, samples, epsilon, len(found.values),
        float(found.values.mean()) / law.mean - 1, math.hypot(mean_se, law_se[0]),
        float(found.values.std(ddof=1)) / law.deviation - 1, math.hypot(deviation_se, law_se[1]),
        distance(found.values, law), found.events, found.leaps, found.exact, found.us,
    )  # fmt: skip


def measure(case: Case, args: argparse.Namespace) -> list[Row]:
    """All rows of a model."""
    exact = simulate(case, "ssa", DEFAULT, 1, args.timed, args, seed=3)
    if exact.events * args.timed < TIMED_EVENTS:  # what a run takes in any case would count
        more = min(20_000, math.ceil(TIMED_EVENTS / exact.events))
        exact = simulate(case, "ssa", DEFAULT, 1, more, args, seed=3)
    if case.law is None:
        known = exact.values
        n = enough(known.std(ddof=1) / known.mean(), args.exact, args)
        known = simulate(case, "ssa", DEFAULT, 1, n, args, seed=2).values
        law = Law(float(known.mean()), float(known.std(ddof=1)))
        law_se = errors_of_moments(known)
    else:
        law, law_se = case.law(), (0.0, 0.0)
    n = enough(law.deviation / law.mean, args.n, args)
    rows = [row_of(args.label, case, "ssa", 1, 0.0, exact, law, law_se)]
    for samples in args.samples:
        for epsilon in args.epsilons:
            leaped = simulate(case, "tau", epsilon, samples, n, args, seed=1)
            rows.append(row_of(args.label, case, "tau", samples, epsilon, leaped, law, law_se))
            if not args.quiet:
                print(told(rows[-1]), flush=True)
    return rows


def told(row: Row) -> str:
    """A row on one line."""
    return (
        f"{row.model:26} {row.samples:4d} {row.epsilon:5.2f} mean {100 * row.mean:+7.3f} "
        f"(se {100 * row.mean_se:.3f}) % sd {100 * row.deviation:+7.2f} "
        f"(se {100 * row.deviation_se:.2f}) % ks {row.ks:.4f} events {row.events:.4g} "
        f"leaps {row.leaps:.4g} exact {row.exact:.4g} us {row.us:.4g}"
    )


# ---------------------------------------------------------------------------------------- the table


def read_rows(path: Path) -> list[Row]:
    """Rows of a CSV file that this script wrote."""
    kinds = {f.name: f.type for f in fields(Row)}
    convert = {"str": str, "int": int, "float": float}
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Row(**{name: convert[str(kinds[name])](value) for name, value in line.items()})
            for line in csv.DictReader(file)
        ]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as CSV, real numbers with six digits."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            values = asdict(row)
            writer.writerow(
                {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in values.items()}
            )


def _percent(value: float, error: float, digits: int) -> str:
    return f"{100 * value:+.{digits}f} ± {100 * error:.{digits}f}"


def _main_table(rows: list[Row], before: dict[tuple[str, int, float], Row]) -> list[str]:
    lines = [
        (
            "| model | samples | mean, % | sd, % | KS | events | leaps | exact events "
            "| by leaps, % | µs | exact µs | exact / tau | before: mean, % | sd, % | µs |"
        ),
        "|---|" + "---|" * 14,
    ]
    timed = {row.model: row for row in rows if row.method == "ssa"}
    for row in rows:
        if row.method != "tau" or row.epsilon != DEFAULT:
            continue
        old = before.get((row.model, row.samples, row.epsilon))
        past = (
            f"{100 * old.mean:+.2f} | {100 * old.deviation:+.1f} | {old.us:.3g}" if old else " | |"
        )
        exact = timed[row.model].us
        ks = f"{row.ks:.4f}" if row.ks >= 0 else ""
        lines.append(
            f"| {row.model} | {row.samples} | {_percent(row.mean, row.mean_se, 2)} "
            f"| {_percent(row.deviation, row.deviation_se, 1)} | {ks} | {row.events:.3g} "
            f"| {row.leaps:.3g} | {row.exact:.3g} | {100 * row.by_leaps:.1f} | {row.us:.3g} "
            f"| {exact:.3g} | {exact / row.us:.1f} | {past} |"
        )
    return lines


def _over_epsilon(rows: list[Row], before: dict[tuple[str, int, float], Row]) -> list[str]:
    lines = [
        "| model | epsilon | mean, % | sd, % | leaps | µs | before: mean, % | sd, % | µs |",
        "|---|" + "---|" * 8,
    ]
    for row in rows:
        if row.method != "tau" or row.samples != 1:
            continue
        old = before.get((row.model, row.samples, row.epsilon))
        past = (
            f"{100 * old.mean:+.2f} | {100 * old.deviation:+.1f} | {old.us:.3g}" if old else " | |"
        )
        lines.append(
            f"| {row.model} | {row.epsilon:g} | {100 * row.mean:+.2f} | {100 * row.deviation:+.1f} "
            f"| {row.leaps:.3g} | {row.us:.3g} | {past} |"
        )
    return lines


def summary(rows: list[Row]) -> list[str]:
    """What the table says of the targets, at the default epsilon."""
    main = [row for row in rows if row.method == "tau" and row.epsilon == DEFAULT]
    timed = {row.model: row for row in rows if row.method == "ssa"}
    off = [
        f"{row.model} ({row.samples} samples): mean {100 * row.mean:+.2f} %, "
        f"sd {100 * row.deviation:+.1f} %"
        for row in main
        if abs(row.mean) > MEAN_TARGET or abs(row.deviation) > DEVIATION_TARGET
    ]
    large = [row for row in main if row.samples == 1 and row.events > MANY_EVENTS]
    leaping = [
        row.model for row in large if row.by_leaps > 0.9 and 3 * row.us <= timed[row.model].us
    ]
    return [
        f"- Means within {100 * MEAN_TARGET:g} % and standard deviations within "
        f"{100 * DEVIATION_TARGET:g} %: {len(main) - len(off)} of {len(main)} rows"
        + (". Not: " + "; ".join(off) if off else "")
        + ".",
        f"- More than {MANY_EVENTS:g} events a trajectory: {len(large)} models. Leaps carry more "
        "than 90 % of the events, and tau takes at most a third of exact's time, on "
        f"{len(leaping)}: " + ", ".join(leaping) + ".",
    ]


def write_page(path: Path, rows: list[Row], before: list[Row], device: Any) -> None:
    """Write the Markdown page."""
    past = {(r.model, r.samples, r.epsilon): r for r in before if r.method == "tau"}
    n = min(row.n for row in rows if row.method == "tau")
    lines = [
        "# Errors of tau-leaping",
        "",
        (
            f"`scripts/validation/validate_leaps.py` on {device}: relative errors at the last time of {n:,} "
            "trajectories or more, ± a standard error of sampling. Events, leaps and µs are those "
            "of one trajectory; compiling is excluded. Before: explicit leaps of first order, "
            "bound by the net change."
        ),
        "",
        f"## At the default epsilon, {DEFAULT:g}",
        "",
        *summary(rows),
        "",
        *_main_table(rows, past),
        "",
        (
            "KS: the largest distance of the distribution function from the law; sampling alone "
            f"gives {1.95 / math.sqrt(n):.4f} once in a thousand. Where it is empty, moments "
            "alone are known, or those of exact trajectories stand for the law, whose sampling is "
            "then part of the errors."
        ),
        "",
        "## Over epsilon, last time alone",
        "",
        *_over_epsilon(rows, past),
        "",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def by_other_source(args: argparse.Namespace) -> int:
    """Run this script again with another tree of sources before all others."""
    kept = [
        a
        for previous, a in zip(sys.argv, sys.argv[1:], strict=False)
        if not a.startswith("--source") and previous != "--source"
    ]
    packages = os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": f"{args.source}:{packages}"}
    return subprocess.call([sys.executable, __file__, *kept], env=environment)


def main() -> int:
    """Measure, and write CSV and Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--models", help="names or parts of names, with commas between")
    parser.add_argument("-n", type=int, default=20_000, help="trajectories of each run, at least")
    parser.add_argument(
        "--sampling", type=float, default=0.004, help="largest error of means by it"
    )
    parser.add_argument("--exact", type=int, default=20_000, help="where they stand for the law")
    parser.add_argument("--timed", type=int, default=200, help="exact ones where the law is known")
    parser.add_argument("--epsilons", type=json.loads, default=[0.1, 0.03, 0.01], metavar="[0.03]")
    parser.add_argument("--samples", type=json.loads, default=[1, DENSE], metavar="[1, 101]")
    parser.add_argument("--label", default="now")
    parser.add_argument("--source", type=Path, help="another tree's src, to measure instead")
    parser.add_argument("--from-csv", action="store_true", help="only write the page again")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("-o", "--output", type=Path, help="path without suffix")
    args = parser.parse_args()
    if args.source is not None:
        return by_other_source(args)
    chosen = [
        case
        for case in CASES
        if not args.models or any(part in case.name for part in args.models.split(","))
    ]
    table = args.output.with_suffix(".csv") if args.output else None
    rows: list[Row] = read_rows(table) if args.from_csv and table else []
    for case in [] if args.from_csv else chosen:
        rows += measure(case, args)
        if table:
            write_rows(table, rows)
    print("\n".join(summary(rows)))
    if args.output and args.label == "now":
        past = args.output.with_name("leaps-before-" + args.output.name.rpartition("-")[2] + ".csv")
        before = read_rows(past) if past.exists() else []
        write_page(args.output.with_suffix(".md"), rows, before, args.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Time of tau-leaping to an error of 1 % on the models of `benchmark_tau.py`, old beside new.

    python scripts/benchmarks/benchmark_leap_error.py --device cuda -n 262144 --source OTHER/src -o OUT

For each model and epsilon: the worst relative errors of mean and standard deviation, over the
species with a mean of at least `--least` and five times, against exact simulation of as many
trajectories, and the seconds in which the device computed (the least of `--repeat` runs after one
that compiles). The time to an error is the least of those whose two errors, less two standard
errors of sampling, are below it. With `--source` the same by another source tree, in a process of
its own. Writes JSON and a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmark_tau import MODELS, Model

import tauslab as ts

FloatArray = npt.NDArray[np.float64]
EPSILONS = (0.3, 0.2, 0.1, 0.06, 0.03, 0.01, 0.003)
GOAL = 0.01
_T_END = {"Ras/cAMP/PKA, t = 150": 5.0}  # exact simulation of the whole would take hours


def moments(model: Model, method: str, args: argparse.Namespace, epsilon: float = 0.0
            ) -> tuple[FloatArray, FloatArray, float]:  # fmt: skip
    """Means and standard deviations ``[time, species]``, and seconds."""
    t_end = _T_END.get(model.name, model.t_end)
    chosen: Any = ts.TauLeaping(epsilon=epsilon) if method == "tau" else method
    repeat = args.repeat if method == "tau" else 0
    n, seconds = min(args.n, model.largest), math.inf
    for _ in range(repeat + 1):
        result = ts.run(
            model.network(), n=n, times=np.linspace(0.0, t_end, 6)[1:], method=chosen,
            set=model.values, seed=2 if method == "ssa" else 1, device=args.device,
            record="statistics", quiet=True,
        )  # fmt: skip
        seconds = min(seconds, float(result.data["profile/compute"][()].sum()))
    species = list(result.species)
    mean = np.stack([np.asarray(result.mean(s), np.float64) for s in species], axis=1)
    spread = np.stack([np.asarray(result.std(s), np.float64) for s in species], axis=1)
    return mean, spread, seconds


def worst(found: FloatArray, exact: FloatArray, error: FloatArray, counted: npt.NDArray[np.bool_]
          ) -> float:  # fmt: skip
    """The largest relative error less two standard errors of sampling, not below 0."""
    off = (np.abs(found - exact) - 2 * math.sqrt(2.0) * error) / exact
    return float(max(0.0, off[counted].max(initial=0.0)))


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Errors and seconds of every model and epsilon, by the tree that is imported."""
    rows = []
    for model in MODELS:
        if args.models and not any(part in model.name for part in args.models.split(",")):
            continue
        n = min(args.n, model.largest)
        mean, spread, seconds = moments(model, "ssa", args)
        counted = mean >= args.least
        varies = counted & (spread > 0.01 * np.sqrt(mean))
        rows.append({"model": model.name, "method": "ssa", "epsilon": 0.0, "seconds": seconds})
        for epsilon in args.epsilons:
            m, s, seconds = moments(model, "tau", args, epsilon)
            with np.errstate(divide="ignore", invalid="ignore"):
                of_mean = worst(m, mean, spread / math.sqrt(n), counted)
                of_spread = worst(s, spread, spread / math.sqrt(2 * n), varies)
            rows.append(
                {"model": model.name, "method": "tau", "epsilon": epsilon, "seconds": seconds,
                 "mean": of_mean, "deviation": of_spread}
            )  # fmt: skip
            if not args.quiet:
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def seconds_to(rows: list[dict[str, Any]], model: str, goal: float) -> tuple[float, float] | None:
    """Seconds and epsilon of the cheapest run whose errors are below the goal."""
    good = [
        (row["seconds"], row["epsilon"])
        for row in rows
        if row["model"] == model and row["method"] == "tau"
        and max(row["mean"], row["deviation"]) <= goal
    ]  # fmt: skip
    return min(good) if good else None


def by_source(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows by another source tree."""
    command = [sys.executable, __file__, "--rows", "--device", args.device, "-n", str(args.n)]
    command += ["--repeat", str(args.repeat), "--least", str(args.least)]
    command += ["--epsilons", json.dumps(list(args.epsilons)), "--models", args.models]
    packages = os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": f"{args.source}:{packages}"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def page(now: list[dict[str, Any]], before: list[dict[str, Any]], args: argparse.Namespace) -> str:
    """The Markdown page."""

    def cell(rows: list[dict[str, Any]], model: str) -> str:
        found = seconds_to(rows, model, GOAL)
        return f"{found[0]:.3g} | {found[1]:g}" if found else "not reached | "

    lines = [
        f"# Time of tau-leaping to an error of {100 * GOAL:g} %",
        "",
        (
            f"`scripts/benchmarks/benchmark_leap_error.py --device {args.device} -n {args.n}`: the least "
            "seconds of computing of the epsilons whose means and standard deviations, of all "
            f"species with a mean of at least {args.least:g} at five times, are that close to "
            "exact simulation."
        ),
        "",
        "| model | now, s | epsilon | before, s | epsilon | exact, s |",
        "|---|---|---|---|---|---|",
    ]
    for row in now:
        if row["method"] == "ssa":
            name = row["model"]
            end = f" (here to {_T_END[name]:g})" if name in _T_END else ""
            past = cell(before, name) if before else " | "
            lines.append(f"| {name}{end} | {cell(now, name)} | {past} | {row['seconds']:.3g} |")
    lines += ["", "## Over epsilon", "",
              "| model | epsilon | now: mean, % | sd, % | s | before: mean, % | sd, % | s |",
              "|---|" + "---|" * 7]  # fmt: skip
    past_rows = {(row["model"], row["epsilon"]): row for row in before if row["method"] == "tau"}
    for row in now:
        if row["method"] != "tau":
            continue
        cells = [
            f"{100 * one['mean']:.2f} | {100 * one['deviation']:.2f} | {one['seconds']:.3g}"
            if one
            else " | | "
            for one in (row, past_rows.get((row["model"], row["epsilon"])))
        ]
        lines.append(f"| {row['model']} | {row['epsilon']:g} | {cells[0]} | {cells[1]} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Measure, and write JSON and Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("-n", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--least", type=float, default=10.0)
    parser.add_argument("--epsilons", type=json.loads, default=list(EPSILONS), metavar="[0.03]")
    parser.add_argument("--models", default="", help="parts of names, with commas between")
    parser.add_argument("--source", type=Path, help="another tree's src, measured too")
    parser.add_argument("--rows", action="store_true", help="only print the rows as JSON")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("-o", "--output", type=Path, help="path without suffix")
    args = parser.parse_args()
    rows = measure(args)
    if args.rows:
        print(json.dumps(rows))
        return 0
    before = by_source(args) if args.source else []
    text = page(rows, before, args)
    if args.output:
        found = {"now": rows, "before": before}
        args.output.with_suffix(".json").write_text(json.dumps(found, indent=1), encoding="utf-8")
        args.output.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What libRoadRunner makes of the SBML Test Suite's semantic cases, by the rule of validate_semantic.

    pip install --target /tmp/roadrunner libroadrunner
    PYTHONPATH=/tmp/roadrunner python scripts/validation/semantic_roadrunner.py FOLDER \
        -o docs/validation/semantic-roadrunner.csv

writes a row for each case: ``pass``, ``wrong``, ``error`` (it says that it cannot, or stops with an
error) or ``crash``. Each case is run by CVODE with relative tolerance 1e-9 and absolute 1e-12; where
that fails, with libRoadRunner's own tolerances. A process takes case after case; the one in
which it dies, or stays for a minute, counts as a crash.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from validate_semantic import Case, FloatArray, difference, folders_of, read_case

SECONDS = 60


def simulated(case: Case, roadrunner: Any, *, strict: bool) -> FloatArray:
    """Course of every quantity, f64 ``[time, quantity]``."""
    model = roadrunner.RoadRunner(str(case.model))
    if strict:
        model.integrator.relative_tolerance, model.integrator.absolute_tolerance = 1e-9, 1e-12
    model.integrator.maximum_num_steps = 1_000_000
    names = [f"[{name}]" if name in case.concentrations else name for name in case.quantities]
    model.selections = ["time", *names]
    found = np.asarray(model.simulate(times=list(case.times)))
    return found[:, 1:]


def verdict_of(folder: Path, roadrunner: Any) -> tuple[str, str]:
    """Verdict and message."""
    case = read_case(folder)
    message = ""
    for strict in (True, False):
        try:
            found = simulated(case, roadrunner, strict=strict)
        except Exception as error:  # noqa: BLE001 - of any kind, from a library
            message = " ".join(str(error).split())[:120]
            continue
        pairs = zip(found.T, case.expected.T, strict=True)
        worst = max((difference(case, one, other) for one, other in pairs), default=0.0)
        if worst <= 1:
            return "pass", ""
        message = f"outside by {worst:.2g} of what is allowed"
    return ("wrong" if message.startswith("outside") else "error"), message


def work(folder: Path, names: list[str]) -> None:
    """Run cases one after another; a line for each."""
    roadrunner = importlib.import_module("roadrunner")
    roadrunner.Logger.setLevel(roadrunner.Logger.LOG_FATAL)
    for name in names:
        print("\t".join((name, *verdict_of(folder / name, roadrunner))), flush=True)


def rows(folder: Path, names: list[str]) -> list[list[str]]:
    """Rows of all cases, by as many processes as crashes need."""
    found: list[list[str]] = []
    while left := names[len(found) :]:
        command = [sys.executable, __file__, str(folder), "--work", *left[:100]]
        try:
            limit = SECONDS + len(left[:100])
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=limit
            )
            lines, died = done.stdout.splitlines(), done.returncode != 0
        except subprocess.TimeoutExpired as late:
            lines, died = (late.stdout or b"").decode().splitlines(), True
        new = [line.split("\t") for line in lines if line.count("\t") == 2]
        found += new
        if died and len(new) < len(left[:100]):
            found.append([left[len(new)], "crash", ""])
        print(f"{len(found)} of {len(names)}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path, default=Path("semantic-roadrunner.csv"))
    options = parser.parse_args()
    if options.work:
        work(options.folder, options.work)
        return
    version = importlib.import_module("roadrunner").__version__
    found = rows(options.folder, [path.name for path in folders_of(options.folder)])
    with options.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["case", f"libroadrunner {version}", "message"])
        writer.writerows(found)


if __name__ == "__main__":
    main()

"""Time of the start of the program: seconds of CPU and of the clock, medians.

    python scripts/benchmarks/benchmark_start.py
    python scripts/benchmarks/benchmark_start.py --against OTHER/src --repeat 21 -o start.csv
    python scripts/benchmarks/benchmark_start.py --device cuda --only "tauslab run -n 1000"

Each command runs in a process of its own; those of two trees of source take turns, and each is run
once before, so that byte code and kernels are in their caches.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN = ("--t-end", "1", "--seed", "1", "--quiet", "--overwrite", "-o", "out.h5")
PROGRAM = ("-m", "tauslab")
Command = tuple[str, ...]


def commands(examples: Path, device: str) -> dict[str, Command]:
    """What is timed, by name."""
    run = ("--device", device, *RUN)
    sbml, toml = str(examples / "schlogl.xml"), str(examples / "schlogl.toml")
    return {
        "import tauslab": ("-c", "import tauslab"),
        "ts.run, not called": ("-c", "import tauslab as ts; ts.run"),
        "tauslab --help": (*PROGRAM, "--help"),
        "tauslab check": (*PROGRAM, "check", toml),
        "tauslab run -n 10": (*PROGRAM, "run", toml, "-n", "10", *run),
        "tauslab run -n 1000": (*PROGRAM, "run", toml, "-n", "1000", *run),
        "tauslab run -n 1000, SBML": (*PROGRAM, "run", sbml, "-n", "1000", *run),
    }


def timed(command: Command, source: Path | None, folder: str, byte_code: Path) -> tuple[float, ...]:
    """Seconds of CPU, of user and system, and of the clock."""
    found = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    found["PYTHONPYCACHEPREFIX"] = str(byte_code)
    if source is not None:
        found["PYTHONPATH"] = str(source)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, *command], env=found, cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime, wall


def measured(
    cases: Sequence[tuple[str, str, Command, Path | None]], repeat: int
) -> list[dict[str, str | float]]:
    """A row for each case: medians of all rounds but the first."""
    seconds: list[list[tuple[float, ...]]] = [[] for _ in cases]
    with tempfile.TemporaryDirectory() as folder:
        byte_code = Path(folder) / "byte-code"
        for turn in range(repeat + 1):
            for row, (_, _, command, source) in zip(seconds, cases, strict=True):
                found = timed(command, source, folder, byte_code)
                if turn:
                    row.append(found)
    rows: list[dict[str, str | float]] = []
    for (tree, name, _, _), row in zip(cases, seconds, strict=True):
        user, system, wall = (
            round(statistics.median(column), 3) for column in zip(*row, strict=True)
        )
        rows.append({"command": name, "source": tree, "user": user, "system": system, "wall": wall})
    return rows


def main() -> None:
    """Measure, print, and write a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="src of another tree, to take turns with")
    parser.add_argument("--repeat", type=int, default=11, help="timed rounds (11)")
    parser.add_argument("-o", "--output", type=Path, help=".csv")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of runs (cpu)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of the commands (all)")
    given = parser.parse_args()
    trees = {"this": ROOT / "src"} | ({"other": given.against.resolve()} if given.against else {})
    cases: list[tuple[str, str, Command, Path | None]] = [
        ("none", "import numpy, h5py", ("-c", "import numpy, h5py"), None)
    ]
    if given.device == "cuda":
        opened = "import cupy; cupy.cuda.Device(0).use(); cupy.empty(1)"
        cases.append(("none", "import cupy, open a GPU", ("-c", opened), None))
    for name, command in commands(ROOT / "examples", given.device).items():
        if given.only and name not in given.only:
            continue
        cases += [(tree, name, command, source) for tree, source in trees.items()]
    rows = measured(cases, given.repeat)
    for row in rows:
        print(
            f"{row['command']:28} {row['source']:6} user {row['user']:.3f} s, "
            f"system {row['system']:.3f} s, wall {row['wall']:.3f} s"
        )
    if given.output:
        with given.output.open("w", newline="", encoding="utf-8") as table:
            writer = csv.DictWriter(table, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()

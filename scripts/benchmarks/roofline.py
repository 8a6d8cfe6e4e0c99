#!/usr/bin/env python3
"""How near kernels come to the limits of a GPU: issue slots, lanes, memory, FP64, by Nsight Compute.

    python scripts/benchmarks/roofline.py -o docs/benchmarks/h200-roofline
    python scripts/benchmarks/roofline.py --case ssa-schlogl --case lattice-256

Needs `ncu` and the right to read a GPU's counters. A case runs twice: the first run takes the times of
all launches of the kernel, the second counts the one that took longest. (Ensembles and equations begin
with pilots, which are launches of the same kernel.) Times are without the profiler's fixed clocks, but
launches are repeated for their counters with nothing beside them, so they are not those of a run.

    issue slots   share of the cycles in which a scheduler issued an instruction
    lanes         threads of 32 that took part in an instruction, on average
    ALU, FP64     share of the cycles in which these units were busy; ALU: shifts, logic, comparisons
    memory        share of the device memory's bandwidth; L2: of that of the second cache
    warps         of those that a multiprocessor has room for
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PER_CENT = "pct_of_peak_sustained"
TIME = "gpu__time_duration.sum"
METRICS = {
    TIME: "ms",
    f"smsp__issue_active.avg.{PER_CENT}_active": "issue slots",
    "smsp__thread_inst_executed_per_inst_executed.ratio": "lanes",
    f"sm__inst_executed_pipe_alu.avg.{PER_CENT}_active": "ALU",
    f"sm__inst_executed_pipe_fp64.avg.{PER_CENT}_active": "FP64",
    f"dram__throughput.avg.{PER_CENT}_elapsed": "memory",
    f"lts__t_sectors.avg.{PER_CENT}_elapsed": "L2",
    f"sm__warps_active.avg.{PER_CENT}_active": "warps",
    "launch__registers_per_thread": "registers",
    "smsp__inst_executed.sum": "instructions",
}
COLUMNS = ("issue slots", "lanes", "ALU", "FP64", "memory", "L2", "warps", "registers")
MILLISECONDS = {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1.0, "msecond": 1.0,
                "s": 1e3, "second": 1e3}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A program and a kernel of it, by a regular expression."""

    kernel: str
    command: tuple[str, ...]


def bench(name: str, kernel: str, scale: float = 1.0) -> Case:
    """A case of `tauslab bench`, of a share of its trajectories."""
    command = ("-m", "tauslab", "bench", "--device", "cuda", "--repeat", "1", "--case", name)
    return Case(kernel, (*command, "--scale", str(scale)))


def rdme(name: str, kernel: str, *more: str) -> Case:
    """A case of the lattice's benchmark, in which launches are alike."""
    command = ("scripts/lattice/benchmark_rdme.py", "--device", "cuda", "--case", name)
    steps = ("--warm", "10", "--steps", "20", "--repeat", "1")
    return Case(kernel, (*command, *steps, *more))


RUN = (
    "import tauslab as ts; "
    "ts.run({model!r}, n={n}, t_end={t_end}, points=10, seed=1, method={method}, device='cuda', "
    "record='statistics')"
)


def run(model: str, kernel: str, n: int, t_end: float, method: str = "'ssa'") -> Case:
    """A run of a file."""
    text = RUN.format(model=f"tests/data/{model}", n=n, t_end=t_end, method=method)
    return Case(kernel, ("-c", text))


CASES = {
    "ssa-schlogl": bench("schlogl_statistics", "^ssa$", 0.25),
    "ssa-birth-death": bench("birth_death", "^ssa$"),
    "ssa-michaelis-menten": bench("michaelis_menten", "^ssa$"),
    "ssa-vilar": bench("vilar_oscillator", "^ssa$"),
    "ssa-chain": bench("chain_ssa", "^ssa$", 0.25),
    "tau-enzyme": bench("enzyme_tau", "^tau_leap.*"),
    "tau-schlogl": bench("schlogl_tau", "^tau_leap.*"),
    "tau-chain": bench("chain_tau", "^tau_leap.*"),
    "statistics": bench("schlogl_statistics", "^count_statistics$", 0.25),
    "lattice-256-xy": rdme("256-frequent", "^rdme_xy$"),
    "lattice-256-z": rdme("256-frequent", "^rdme_z$"),
    "lattice-256-2%-xy": rdme("256-fill2", "^rdme_xy$"),
    "lattice-256-2%-z": rdme("256-fill2", "^rdme_z$"),
    "lattice-256-30%-xy": rdme("256-fill30", "^rdme_xy$"),
    "lattice-256-30%-z": rdme("256-fill30", "^rdme_z$"),
    "lattice-256-few": rdme("256-few", "^rdme_sparse_steps$"),
    "lattice-minde": rdme("minde", "^rdme_sparse_sections$"),
    "lattice-cell": rdme("cell", "^rdme_(line_)?steps$"),
    "lattice-64": rdme("64", "^rdme_(line_)?steps$"),
    "tables-egfr": run("net/egfr_net.net", "^ssa_(table|rejection)$", 4096, 1.0),
    "fine-tau": Case("^fine_tau$", ("scripts/benchmarks/benchmark_fine_tau.py", "--device", "cuda",
                                    "--sizes", "100000", "--trajectories", "1", "--steps", "20",
                                    "--repeat", "1")),
    "ode-egf-ngf": Case("^ode_.*", ("scripts/ode/benchmark_ode.py", "models", "--case", "EGF-NGF",
                                    "--scale", "0.02", "--device", "cuda")),
}  # fmt: skip


def counted(case: Case, metrics: Iterable[str], *chosen: str) -> list[dict[str, str]]:
    """Rows of launches, of which the first has the units; `chosen` says which launches."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise SystemExit("roofline: no ncu (Nsight Compute) on the path")
    command = [
        ncu, "--csv", "--page", "raw", "--clock-control", "none", "--target-processes", "all",
        "--kernel-name", f"regex:{case.kernel}", *chosen, "--metrics", ",".join(metrics),
        sys.executable, *case.command,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=90
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if len(lines) < 3:
        raise RuntimeError((done.stdout + done.stderr)[-2000:])
    return list(csv.DictReader(io.StringIO("\n".join(lines))))


def number(row: dict[str, str], units: dict[str, str], metric: str) -> float:
    """A counter of a launch; times in ms."""
    value = float(row[metric].replace(",", ""))
    return value * MILLISECONDS[units[metric]] if METRICS[metric] == "ms" else value


def measured(case: Case) -> dict[str, float | str]:
    """The counters of the launch that takes longest."""
    units, *launches = counted(case, [TIME])
    times = [number(row, units, TIME) for row in launches]
    longest = times.index(max(times))
    units, row = counted(case, METRICS, "--launch-skip", str(longest), "--launch-count", "1")
    found: dict[str, float | str] = {
        "kernel": row["Kernel Name"].split("(")[0], "launches": len(launches),
    }  # fmt: skip
    return found | {name: round(number(row, units, metric), 4) for metric, name in METRICS.items()}


def table(rows: dict[str, dict[str, float | str]]) -> str:
    """Rows for a page, in per cent but lanes and registers."""
    lines = [
        f"| case | kernel | ms | {' | '.join(COLUMNS)} |",
        "|---|---|---|" + "---|" * len(COLUMNS),
    ]
    for name, row in rows.items():
        values = [
            f"{row[column]:.1f}" if column == "lanes" else f"{row[column]:.0f}"
            for column in COLUMNS
        ]
        lines.append(f"| {name} | `{row['kernel']}` | {row['ms']:.3g} | {' | '.join(values)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("-o", "--output", type=Path, help="OUTPUT.json and OUTPUT.md")
    options = parser.parse_args()
    rows: dict[str, dict[str, float | str]] = {}
    for name in options.case or CASES:
        try:
            rows[name] = measured(CASES[name])
        except (RuntimeError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(name, rows[name], file=sys.stderr, flush=True)
        if options.output:  # after each case, so that a run that is cut off leaves what it has
            options.output.with_suffix(".json").write_text(
                json.dumps(rows, indent=1) + "\n", encoding="utf-8"
            )
            options.output.with_suffix(".md").write_text(table(rows), encoding="utf-8")
    if not options.output:
        print(table(rows))


if __name__ == "__main__":
    main()

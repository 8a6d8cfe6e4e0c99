#!/usr/bin/env python3
"""Kernels against the limits of a GPU: issue slots, lanes, memory, FP64, by Nsight Compute.

    python scripts/benchmarks/roofline.py -o docs/benchmarks/h200-roofline
    python scripts/benchmarks/roofline.py --case ssa-schlogl --case lattice-256
    python scripts/benchmarks/roofline.py --limits -o docs/benchmarks/h200-limits

Needs `ncu` and the right to read a GPU's counters. A case runs twice: the first run takes the times of
all launches of the kernel, the second counts the one that took longest. (Ensembles and equations begin
with pilots, which are launches of the same kernel.) Times are without the profiler's fixed clocks, but
launches are repeated for their counters with nothing beside them, so they are not those of a run.

    issue slots   share of the cycles in which a scheduler issued an instruction
    lanes         threads of 32 that took part in an instruction, on average
    ALU, FP64     share of the cycles in which these units were busy; ALU: shifts, logic, comparisons
    memory        share of the device memory's bandwidth; L2: of that of the second cache
    warps         of those that a multiprocessor has room for
    warp states   what a warp spends its cycles on, the three largest shares

`--limits` counts all launches of exact simulations and sets them against the events of the run:

    slots         issue slots of a lane for an event: instructions of warps, times 32
    limit         events a second of launches alone if what is busiest were never idle, with the
                  instructions and the lanes at work of now
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
# States of a warp by the counters' names; of each, cycles between two of its instructions.
WAITS = {
    f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio": name
    for reason, name in {
        "long_scoreboard": "global memory", "short_scoreboard": "shared memory", "wait": "previous result",
        "math_pipe_throttle": "busy unit", "not_selected": "not selected", "selected": "issuing",
        "barrier": "barrier", "membar": "memory fence", "branch_resolving": "branch",
        "no_instruction": "instruction fetch", "dispatch_stall": "dispatch", "lg_throttle": "load queue",
        "mio_throttle": "shared memory queue", "imc_miss": "constants", "sleeping": "sleep",
    }.items()
}  # fmt: skip
COLUMNS = ("issue slots", "lanes", "ALU", "FP64", "memory", "L2", "warps", "registers")
MILLISECONDS = {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1.0, "msecond": 1.0,
                "s": 1e3, "second": 1e3}  # fmt: skip


ONCE = """
import sys
sys.path[:0] = [f"scripts/{folder}" for folder in ("benchmarks", "lattice")]
from benchmark_cases import CASES
from machine import Machine
from tauslab.runner.ensemble.driver import EnsembleRun
run = EnsembleRun.run
def recorded(self):
    tally = run(self)
    print("events", tally.work["events"], flush=True)
    return tally
EnsembleRun.run = recorded
CASES[sys.argv[1]].work(Machine("cuda", scale=float(sys.argv[2])))
"""
# Shares of what the device can do over a whole launch.
SHARES = {
    f"smsp__issue_active.avg.{PER_CENT}_elapsed": "issue slots",
    f"sm__inst_executed_pipe_alu.avg.{PER_CENT}_elapsed": "ALU",
    f"sm__inst_executed_pipe_fp64.avg.{PER_CENT}_elapsed": "FP64",
    f"sm__inst_executed_pipe_fma.avg.{PER_CENT}_elapsed": "FP32",
    f"sm__inst_executed_pipe_fmaheavy.avg.{PER_CENT}_elapsed": "64-bit products",
    f"l1tex__data_pipe_lsu_wavefronts.avg.{PER_CENT}_elapsed": "L1 and shared memory",
    f"lts__t_sectors.avg.{PER_CENT}_elapsed": "L2",
    f"dram__throughput.avg.{PER_CENT}_elapsed": "memory",
}
LIMITED = ("ssa-schlogl", "ssa-birth-death", "ssa-michaelis-menten", "ssa-vilar", "tau-prokaryotic",
           "tau-ras", "tables-bcr", "tables-chain", "tables-colloidal", "ode-egf-ngf",
           "lattice-replicas", "whole-cell")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A kernel by a regular expression, a case of `scripts/benchmark.py` and a part of its work."""

    kernel: str
    name: str
    scale: float = 1.0

    @property
    def command(self) -> tuple[str, ...]:
        """The case once, in one process."""
        return ("-c", ONCE, self.name, str(self.scale))


TABLES = "^ssa_(table|rejection)$"
STEPS = "^(planes_steps|rdme_replicas|rdme_.*(steps|sections))$"
CASES = {
    "ssa-schlogl": Case("^ssa$", "schlogl", 0.25),
    "ssa-birth-death": Case("^ssa$", "birth-death"),
    "ssa-michaelis-menten": Case("^ssa$", "michaelis-menten"),
    "ssa-vilar": Case("^ssa$", "vilar", 0.125),
    "ssa-chain": Case("^ssa$", "chain", 0.25),
    "tau-enzyme": Case("^tau_leap.*", "tau-enzyme"),
    "tau-schlogl": Case("^tau_leap.*", "tau-schlogl"),
    "tau-chain": Case("^tau_leap.*", "tau-chain"),
    "tau-prokaryotic": Case("^tau_leap.*", "tau-prokaryotic"),
    "tau-ras": Case("^tau_leap.*", "tau-ras"),
    "statistics": Case("^count_statistics$", "schlogl", 0.25),
    "lattice-256": Case("^planes_steps$", "256-frequent"),
    "lattice-256-rare": Case("^planes_steps$", "256-rare"),
    "lattice-256-none": Case("^planes_steps$", "256-none"),
    "lattice-256-slots8": Case("^planes_steps$", "256-slots8"),
    "lattice-256-2%": Case("^planes_steps$", "256-fill2"),
    "lattice-256-30%": Case("^planes_steps$", "256-fill30"),
    "lattice-256-few": Case("^rdme_sparse_steps$", "lattice-256-few"),
    "lattice-minde": Case("^planes_steps$", "minde", 0.1),
    "lattice-cell": Case("^rdme_.*(steps|sections)$", "cell"),
    "lattice-replicas": Case(STEPS, "minde-8", 0.2),
    "whole-cell": Case(STEPS, "hybrid-cell", 0.01),
    "lattice-64": Case("^planes_steps$", "64"),
    "tables-egfr": Case(TABLES, "egfr"),
    "tables-bcr": Case(TABLES, "bcr"),
    "tables-chain": Case(TABLES, "chain-10000"),
    "tables-colloidal": Case(TABLES, "colloidal"),
    "fine-tau": Case("^fine_tau$", "100000 reactions and species", 0.1),
    "ode-egf-ngf": Case("^ode_.*", "egf-ngf"),
}


def counted(
    case: Case, metrics: Iterable[str], *chosen: str
) -> tuple[list[dict[str, str]], list[int]]:
    """Rows of launches, of which the first has the units, and events of the runs.

    `chosen` says which launches.
    """
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
    reported = [
        int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("events ")
    ]
    return list(csv.DictReader(io.StringIO("\n".join(lines)))), reported


def number(row: dict[str, str], units: dict[str, str], metric: str) -> float:
    """A counter of a launch; times in ms."""
    value = float(row[metric].replace(",", ""))
    return value * MILLISECONDS[units[metric]] if metric == TIME else value


def measured(case: Case) -> dict[str, float | str]:
    """The counters of the launch that takes longest."""
    (units, *launches), _ = counted(case, [TIME])
    times = [number(row, units, TIME) for row in launches]
    longest = times.index(max(times))
    (units, row), _ = counted(
        case, (*METRICS, *WAITS), "--launch-skip", str(longest), "--launch-count", "1"
    )
    result: dict[str, float | str] = {
        "kernel": row["Kernel Name"].split("(")[0], "launches": len(launches),
    }  # fmt: skip
    result |= {name: round(number(row, units, metric), 4) for metric, name in METRICS.items()}
    return result | {f"waits for {name}": float(row[metric]) for metric, name in WAITS.items()}


def limits(case: Case) -> dict[str, float | str]:
    """What an event takes, and shares of the time in which something was busy, without pilots."""
    grid, warps = "launch__grid_size", "smsp__inst_executed.sum"
    lanes = "smsp__thread_inst_executed_per_inst_executed.ratio"
    (units, *rows), reported = counted(case, (TIME, grid, warps, lanes, *SHARES))
    result = [
        {m: number(row, units, m) for m in (TIME, grid, warps, lanes, *SHARES)} for row in rows
    ]
    most = max(one[grid] for one in result)
    result = [one for one in result if 10 * one[grid] > most]  # a pilot is one block
    seconds, issued = (sum(one[m] for one in result) for m in (TIME, warps))
    seconds *= 1e-3
    made: dict[str, float | str] = {
        "launches": len(result), "seconds": seconds, "instructions": issued,
        "lanes": sum(one[warps] * one[lanes] for one in result) / issued,
    }  # fmt: skip
    for metric, name in SHARES.items():
        made[name] = 1e-3 * sum(one[TIME] * one[metric] for one in result) / seconds
    if reported:
        events = sum(reported)
        made |= {"events": events, "slots": 32 * issued / events, "alone": events / seconds}
    return made


def limits_table(rows: dict[str, dict[str, float | str]]) -> str:
    """Rows for a page, in per cent but slots, lanes and limits."""
    names = list(SHARES.values())
    lines = [
        f"| case | slots | lanes | {' | '.join(names)} | limit |",
        "|---|---|---|" + "---|" * (len(names) + 1),
    ]
    for name, row in rows.items():
        share = max(float(row[one]) for one in names) / 100
        limit = (
            f"{float(row['alone']) / share:.3g}" if "alone" in row else f"{share:.2f} of the time"
        )
        slots = f"{row['slots']:.0f}" if "slots" in row else ""
        values = " | ".join(f"{row[one]:.0f}" for one in names)
        lines.append(f"| {name} | {slots} | {row['lanes']:.1f} | {values} | {limit} |")
    return "\n".join(lines) + "\n"


def waits(row: dict[str, float | str]) -> str:
    """The three largest shares of a warp's cycles between two of its instructions."""
    cycles = {k.partition(" for ")[2]: float(v) for k, v in row.items() if k.startswith("waits ")}
    largest = sorted(cycles, key=lambda name: -cycles[name])[:3]
    return ", ".join(f"{name} {100 * cycles[name] / sum(cycles.values()):.0f}" for name in largest)


def table(rows: dict[str, dict[str, float | str]]) -> str:
    """Rows for a page, in per cent but lanes and registers."""
    lines = [
        f"| case | kernel | ms | {' | '.join(COLUMNS)} | warp states |",
        "|---|---|---|" + "---|" * (len(COLUMNS) + 1),
    ]
    for name, row in rows.items():
        values = [
            f"{row[column]:.1f}" if column == "lanes" else f"{row[column]:.0f}"
            for column in COLUMNS
        ]
        lines.append(
            f"| {name} | `{row['kernel']}` | {row['ms']:.3g} | {' | '.join(values)} | {waits(row)} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--limits", action="store_true", help="events against what binds them")
    parser.add_argument("-o", "--output", type=Path, help="stem of the JSON file")
    options = parser.parse_args()
    one, page = (limits, limits_table) if options.limits else (measured, table)
    rows: dict[str, dict[str, float | str]] = {}
    for name in options.case or (LIMITED if options.limits else CASES):
        try:
            rows[name] = one(CASES[name])
        except (RuntimeError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(name, rows[name], file=sys.stderr, flush=True)
        if options.output:  # after each case, so that a run that is cut off leaves what it has
            options.output.with_suffix(".json").write_text(
                json.dumps(rows, indent=1) + "\n", encoding="utf-8"
            )
    print(page(rows))


if __name__ == "__main__":
    main()

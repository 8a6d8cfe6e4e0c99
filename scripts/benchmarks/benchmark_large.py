"""Exact simulation of large networks: time per update by size, trajectories, team, selector.

    python scripts/benchmarks/benchmark_large.py --device cuda -o large.csv  # the lot: 7 minutes
    python scripts/benchmarks/benchmark_large.py --device cuda --quick chain egfr  # a first look at two
    python scripts/benchmarks/benchmark_large.py --list  # cases, seconds each
    python scripts/figures/plot_large.py large.csv -o docs/figures  # figures 7 to 9

Time per update is T_up = seconds / (trajectories x updates), seconds on the device without start
and compilation (Komarov & D'Souza, PLoS ONE 7:e46693, 2012, figures 7 to 9). Of the synthetic
networks every trajectory makes the same number of updates. `egfr` and `bcr` run to their end times
on one CPU core, a few trajectories, and on the device, both after a pilot: by the selector that it
chooses, whose row has a 1 in the column `chosen`, and by every other that took less than twice the
time of the fastest in short runs (what is fastest at the start of a trajectory need not be so
later). The column `times_one_core` is the ratio of trajectories a second to those of the core by
its fastest selector.

Two cases measure starts: `load` of four networks of files (reading, tables, compiling with an empty
cache, memory of a trajectory), `start` of a generated network of 58,276 reactions of 3,744 species.
`memory` asks for 131,072 trajectories with states of 1.2 MB, more than the device has: `in_flight`
says how many ran at a time.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from large_cases import CASES, ENDLESS, FILES, Work, network_of, tabled

import tauslab as ts
from tauslab.kernels.backends import BackendOptions, choose_backend, get_backend
from tauslab.kernels.ensemble.launch import LAUNCHES_IN_FLIGHT, MAX_STEPS
from tauslab.kernels.exact.selectors import PILOT_EVENTS, selector_of
from tauslab.kernels.exact.ssa import TableSsa
from tauslab.kernels.exact.table_network import Expected
from tauslab.kernels.network.lowering import lower

# Of a trajectory of the short runs that choose a selector, on a core and on a device.
CORE_UPDATES, DEVICE_UPDATES = 300_000, 5_000
CONTENDS = 2.0  # times what the fastest took in short runs: a selector that is run to the end
CORES = "cpu"


@dataclass(frozen=True)
class Row:
    """What a run or a start took; empty where it does not apply."""

    case: str
    network: str
    size: int
    reactions: int
    trajectories: int
    selector: Any
    team: int
    presimulation: int
    device: Any
    events: int = 0
    seconds: float | None = None
    ns_per_update: float | None = None
    start_seconds: float | None = None
    trajectories_per_second: float | None = None
    times_one_core: float | None = None
    read_seconds: float | None = None
    tables_seconds: float | None = None
    compile_seconds: float | None = None
    bytes_per_trajectory: int | None = None
    in_flight: int | None = None
    chosen: int | None = None


def run(work: Work, device: Any) -> ts.Result:
    """One run of a network, recording next to nothing."""
    network = work.network()
    warnings.filterwarnings("ignore", ".*ended by step_limit")  # by which the work is measured out
    return ts.run(
        network,
        n=work.trajectories,
        times=[0.0, work.t_end],
        seed=1,
        method=ts.SSA(selector=work.selector, team=work.team, presimulation=work.presimulation),
        species=next(iter(network.species)),
        record="final",
        device=ts.CPU(threads=1) if device == "cpu" else device,
        max_steps=work.updates or MAX_STEPS,
    )


def compute_seconds(result: ts.Result) -> float:
    """Seconds on the device."""
    return float(result.data["profile/compute"][0])


def measure(work: Work, device: Any, repeats: int = 1) -> Row:
    """Run; of several runs the one in the middle counts."""
    reactions = len(work.network().reactions)
    began = time.perf_counter()
    results = [run(work, device) for _ in range(repeats)]
    wall = time.perf_counter() - began
    results.sort(key=compute_seconds)
    result = results[len(results) // 2]
    seconds, events = compute_seconds(result), int(result.data["profile/events"][0])
    return Row(
        work.case,
        work.kind,
        work.size,
        reactions,
        work.trajectories,
        str(result.attributes["selector"]),
        work.team,
        int(result.attributes.get("presimulation", 0)),
        result.data["profile/device"][0].decode(),
        events,
        round(seconds, 5),
        round(seconds / max(1, events) * 1e9, 4),
        round((wall - sum(map(compute_seconds, results))) / repeats, 2),
        round(work.trajectories / seconds, 3),
    )


def by_the_fastest(work: Work, short: Work, device: Any, repeats: int = 1) -> list[Row]:
    """`short` by every selector, then `work`; the fastest last.

    `work` is run by the selector that its pilot chooses, and by the others that may be fastest.
    """
    tried = [measure(replace(short, selector=selector), device) for selector in tabled()]
    most = CONTENDS * min(row.ns_per_update or 0.0 for row in tried)
    chosen = replace(measure(work, device, repeats), chosen=1)
    whole = [chosen] + [
        measure(replace(work, selector=row.selector), device, repeats)
        for row in tried
        if (row.ns_per_update or 0.0) < most and row.selector != chosen.selector
    ]
    return tried + sorted(whole, key=lambda row: row.trajectories_per_second or 0.0)


def beside_a_core(work: Work, device: Any, repeats: int) -> Iterator[Row]:
    """Rows of a core and of the device, both after a pilot, as chosen and by what is fastest."""
    work = replace(work, presimulation=PILOT_EVENTS)
    alone = replace(work, trajectories=work.core, team=0)
    short = replace(alone, case=f"{work.case}-core", trajectories=1, updates=CORE_UPDATES)
    core = by_the_fastest(alone, short, CORES)
    yield from core
    short = replace(work, case=f"{work.case}-device", updates=DEVICE_UPDATES)
    for row in by_the_fastest(work, short, device, repeats):
        whole = row.case == work.case
        ratio = (row.trajectories_per_second or 0.0) / (core[-1].trajectories_per_second or 1.0)
        yield replace(row, times_one_core=round(ratio, 1)) if whole else row


def prepared(case: str, kind: str, size: int, rows: int, device: Any, team: int = 0) -> Row:
    """Read, write tables, compile with an empty cache of kernels; what a trajectory takes."""
    clock = [time.perf_counter()]
    network = network_of.__wrapped__(kind, size)
    clock.append(time.perf_counter())
    values = network.parameter_values()
    counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
    lowered = lower(network, parameters=values, counts=counts)
    backend = get_backend(choose_backend(device), BackendOptions(threads=1))
    clock.append(time.perf_counter())
    expected = Expected(rows, np.array(list(counts.values())))
    engines: dict[str, TableSsa] = {}
    with tempfile.TemporaryDirectory() as cache, patch.dict(os.environ, TAUSLAB_CACHE_DIR=cache):
        for when in ("compiled", "cached"):
            engines[when] = TableSsa(
                backend, lowered, [ENDLESS], selector_of(lowered), team=team, expected=expected
            )
            clock.append(time.perf_counter())
    engine = engines["cached"]
    read, lowering, cold, warm = (b - a for a, b in pairwise(clock))
    row = Row(
        case, kind, size, len(network.reactions), rows, engine.selector, engine.team, 0,
        backend.name, read_seconds=round(read, 2), tables_seconds=round(lowering + warm, 2),
        compile_seconds=round(max(0.0, cold - warm), 2),
        bytes_per_trajectory=engine.bytes_per_trajectory,
        in_flight=engine.trajectories_in_flight(LAUNCHES_IN_FLIGHT),
    )  # fmt: skip
    backend.close()
    return row


def load(device: Any, *, quick: bool) -> Iterator[Row]:
    """Four networks of files."""
    del quick
    for name, reactions in FILES.items():
        yield prepared("load", name, reactions, 1024, device)


def start(device: Any, *, quick: bool) -> Iterator[Row]:
    """A generated network, from nothing to 1,000 updates of one trajectory."""
    del quick
    began = time.perf_counter()
    network_of.cache_clear()
    row = measure(Work("start", "start", 58_276, 1, 1000), device)
    yield replace(row, start_seconds=round(time.perf_counter() - began, 2))


def memory(device: Any, *, quick: bool) -> Iterator[Row]:
    """More trajectories than a device has room for; updates few, as starts count."""
    n, rows = (1000, 1024) if quick else (100_000, 131_072)
    work = Work("memory", "chain", n, rows, 10, team=1, presimulation=0)
    room = prepared("memory", "chain", n, rows, device, team=1)
    row = measure(work, device)
    yield replace(
        row, bytes_per_trajectory=room.bytes_per_trajectory, in_flight=room.in_flight, team=1
    )


STARTS = {"load": (load, 15, "read, tables, compilation, memory of four networks"),
          "start": (start, 10, "58,276 reactions of 3,744 species, generated"),
          "memory": (memory, 20, "more trajectories than fit")}  # fmt: skip


def rows_of(name: str, options: argparse.Namespace) -> Iterator[Row]:
    """All rows of a case."""
    if name in STARTS:
        yield from STARTS[name][0](options.device, quick=options.quick)
        return
    for planned in CASES[name].works(quick=options.quick):
        scaled = max(1, round(planned.trajectories * options.scale))
        work = replace(planned, trajectories=scaled)
        if work.core:
            yield from beside_a_core(work, options.device, options.repeats)
        else:
            yield measure(work, options.device, options.repeats)


def listed() -> str:
    """Cases with their seconds; those that the lot leaves out in brackets."""
    lines = [f"{n:14} {c.seconds:4} s  {c.about}" + " (by name only)" * (not c.lot)
             for n, c in CASES.items()]  # fmt: skip
    lines += [f"{name:14} {seconds:4} s  {about}" for name, (_, seconds, about) in STARTS.items()]
    lot = sum(c.seconds for c in CASES.values() if c.lot) + sum(s for _, s, _ in STARTS.values())
    return "\n".join([*lines, f"{'the lot':14} {lot:4} s on one H200"])


def main() -> int:
    """Measure the cases, print rows as they come, write CSV or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = [*CASES, *STARTS]
    parser.add_argument("cases", nargs="*", choices=[[], *names], help="default: the lot")
    parser.add_argument("--list", action="store_true", help="say what there is and how long")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--quick", action="store_true", help="few sizes, short runs")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of trajectories")
    parser.add_argument("-o", "--output", type=Path, help="CSV, or JSON by its suffix")
    options = parser.parse_args()
    if options.list:
        print(listed())
        return 0
    rows: list[dict[str, object]] = []
    lot = [*(name for name, case in CASES.items() if case.lot), *STARTS]
    for name in options.cases or lot:
        began = time.perf_counter()
        for row in rows_of(name, options):
            rows.append(asdict(row))
            print(json.dumps({k: v for k, v in rows[-1].items() if v is not None}), flush=True)
            if options.output:
                write(rows, options.output)
        print(f"# {name}: {time.perf_counter() - began:.1f} s", flush=True)
    return 0


def write(rows: list[dict[str, object]], path: Path) -> None:
    """Everything so far, so that a run that is cut off leaves what it measured."""
    if path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, [field.name for field in fields(Row)])
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())

"""ODE ensembles of the dynamic Bayesian network paper: layouts and seconds.

    python scripts/ode/benchmark_ode.py all -o docs/benchmarks/h200-ode --figures docs/figures
    python scripts/ode/benchmark_ode.py models synthetic --scale 0.05
    python scripts/ode/benchmark_ode.py table3 --case thrombin
    python scripts/ode/benchmark_ode.py all --merge a.json --merge b.json -o docs/benchmarks/h200-ode

Hagiescu et al., ACM TACO 10(4):55 (2013), on three published models and five synthetic systems, of
as many trajectories and with as many parameters unknown as there, in single precision; samples of
every variable are left in device memory. `--scale` is the share of each trajectory's steps that is
run, 5,000 at most: fewer points, and fewer steps to a point only where two points are too many. All
trajectories are run, so the device is as full as in the whole run, whose seconds are in proportion.

| mode | shows |
|---|---|
| models, synthetic | seconds of whole runs with the layout that ``auto`` takes (table III) |
| figure5 | trajectories per second against C, the warps of a trajectory, and in global memory |
| table3 | each layout: thread, warps, global |
| choice | what ``auto`` takes against the fastest of all, with a fiftieth of the steps at most |
| others | the same for systems that the paper has not |
| unfitted | and for more of those |
| peak | counted operations per second against what the device can do |

All layouts of a system must give the same bits, else it exits 1. Trajectories that end in a NaN are
told: a table with any measures less than it says. Writes one JSON file with every measurement, a
Markdown table a mode, and figures. With `--merge` it measures nothing, but takes what such files
hold, as parts of one run may have measured several systems on several devices.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ode_cases import (
    CASES,
    MODELS,
    OTHERS,
    PAPER,
    SYNTHETIC_CASES,
    UNFITTED,
    Case,
    equations,
    work_of_a_step,
)
from ode_measure import Bench, Layout, Measured, Run, compile_all
from ode_tables import TABLES, draw_figure5

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.model.errors import TauslabError

OF_MODES = {
    "models": MODELS, "synthetic": SYNTHETIC_CASES, "others": OTHERS, "unfitted": UNFITTED,
}  # fmt: skip
SEARCHES = ("choice", "others", "unfitted")
MODES = (
    "models", "synthetic", "figure5", "table3", *SEARCHES, "peak",
)  # fmt: skip
WARPS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16)
THREAD, GLOBAL = Layout("thread"), Layout("global")
SETTINGS = ("scale", "precision", "device", "peak_flops", "unknown")
SEARCH_SCALE = 1 / 50  # of the exhaustive search: as much work as a fiftieth of the trajectories


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    arguments = parser().parse_args(argv)
    modes = MODES if "all" in arguments.modes else tuple(arguments.modes)
    began = time.perf_counter()
    measured = merged(arguments) if arguments.merge else measure(modes, arguments)
    texts = []
    for mode in modes:
        rows = TABLES[mode](measured, arguments.peak_flops)
        texts.append(f"## {mode}\n\n{rows}\n")
        print(texts[-1], flush=True)
    print(f"{time.perf_counter() - began:.0f} s, with {arguments.scale:g} of the steps")
    if arguments.output is not None:
        write(measured, texts, arguments)
    if arguments.figures is not None:
        draw_figure5(measured, arguments.figures / "ode-fig5.png")
    if different := of_different_bits(measured):
        print(f"layouts differ in their bits: {', '.join(different)}", file=sys.stderr)
    return 1 if different else 0


def parser() -> argparse.ArgumentParser:
    """Options."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("modes", nargs="*", choices=(*MODES, "all"), default=["models"])
    made.add_argument("--device", default="cuda")
    made.add_argument("--threads", type=int, default=0)
    made.add_argument("--case", choices=CASES, action="append", help="only these systems")
    made.add_argument("--scale", type=float, default=0.02, help="share of the steps")
    made.add_argument("--trajectories", type=int, help="in place of the paper's")
    made.add_argument("--unknown", type=int, help="parameters that are drawn, if not the paper's")
    made.add_argument("--precision", choices=("single", "double"), default="single")
    made.add_argument("--warps", type=int, nargs="+", default=WARPS, help="C of figure5 and choice")
    made.add_argument("--peak-flops", type=float, help="of the device, if it is not a CUDA one")
    made.add_argument(
        "--merge", type=Path, action="append", help="JSON of an earlier run, in place of measuring"
    )
    made.add_argument("-o", "--output", type=Path, help="stem of the JSON file and the tables")
    made.add_argument("--figures", type=Path, help="folder of the figures")
    return made


def layouts(mode: str, warps: Iterable[int]) -> list[Layout]:
    """What a mode compares."""
    spread = [Layout("warps", count) for count in warps]
    return {
        "figure5": [Layout(), THREAD, *spread, GLOBAL],
        "choice": [Layout(), THREAD, *spread, GLOBAL],
        "others": [Layout(), THREAD, *spread],
        "unfitted": [Layout(), THREAD, *spread],
        "table3": [GLOBAL, THREAD, Layout("warps")],
    }.get(mode, [Layout()])  # fmt: skip


def wanted(modes: Sequence[str], arguments: argparse.Namespace) -> list[tuple[Case, Layout, Run]]:
    """Every measurement that the modes need, once."""
    found: dict[tuple[Case, Layout, Run], None] = {}
    for mode in modes:
        scale = SEARCH_SCALE if mode in SEARCHES else arguments.scale
        for case in OF_MODES.get(mode, PAPER):
            if arguments.case and case.name not in arguments.case:
                continue
            run = Run.of(case, scale, arguments.trajectories)
            for layout in layouts(mode, arguments.warps):
                found[case, layout, run] = None
    return list(found)


def measure(modes: Sequence[str], arguments: argparse.Namespace) -> list[Measured]:
    """Compile everything, then measure one by one."""
    jobs = wanted(modes, arguments)
    how = (arguments.precision, arguments.unknown)
    if arguments.device == "cuda":
        compile_all(jobs, arguments.device, how)
    backend = get_backend(arguments.device, BackendOptions(threads=arguments.threads))
    if arguments.peak_flops is None and arguments.device == "cuda":
        arguments.peak_flops = device_peak()
    bench = Bench(backend, *how)
    found = []
    for case, layout, run in jobs:
        try:
            one = bench.measure(case, layout, run)
        except TauslabError as error:  # a layout that the device has no memory for
            print(f"{case.name} {layout.options()}: {error}", file=sys.stderr)
            continue
        print(f"{case.name} {layout.options()} {one.told or one.layout}: {one.seconds:.4g} s",
              file=sys.stderr, flush=True)  # fmt: skip
        found.append(one)
    backend.close()
    return found


def merged(arguments: argparse.Namespace) -> list[Measured]:
    """What files hold; of what was measured twice, the later file's. They set the peak too.

    Raises
    ------
    SystemExit
        Files are of different settings: their seconds cannot stand in one table.
    """
    found: dict[tuple[str, Layout, Run], Measured] = {}
    settings: dict[str, Any] = {}
    for path in arguments.merge:
        told = json.loads(path.read_text(encoding="utf-8"))
        own = {name: told["settings"][name] for name in SETTINGS}
        if settings and own != settings:
            raise SystemExit(f"{path} was measured with {own}, not {settings}")
        settings = own
        for row in told["measured"]:
            del row["work"]
            row |= {"asked": Layout(**row["asked"]), "run": Run(**row["run"])}
            one = Measured(**row)
            found[one.case, one.asked, one.run] = one
    for name, value in settings.items():
        setattr(arguments, name, value)
    return list(found.values())


def of_different_bits(measured: Iterable[Measured]) -> list[str]:
    """Systems whose layouts do not agree."""
    digests: dict[tuple[str, Run], set[str]] = {}
    for one in measured:
        digests.setdefault((one.case, one.run), set()).add(one.digest)
    return [case for (case, _), own in digests.items() if len(own) > 1]


def device_peak() -> float:
    """Single-precision operations per second: multiply-adds on all lanes at the highest clock."""
    import cupy

    attributes = cupy.cuda.Device().attributes
    lanes = 128  # of a multiprocessor, compute capability 8.6 to 9.0
    return float(2 * lanes * attributes["MultiProcessorCount"] * attributes["ClockRate"] * 1e3)


def write(
    measured: Sequence[Measured], texts: Sequence[str], arguments: argparse.Namespace
) -> None:
    """Every measurement as JSON, the tables as Markdown."""
    rows: list[dict[str, Any]] = []
    for one in measured:
        work = work_of_a_step(equations(one.case, arguments.unknown)[0])
        rows.append({**asdict(one), "work": asdict(work)})
    settings = {name: getattr(arguments, name) for name in SETTINGS}
    found = json.dumps({"settings": settings, "measured": rows}, indent=1)
    arguments.output.with_suffix(".json").write_text(found + "\n", encoding="utf-8")
    arguments.output.with_suffix(".md").write_text("\n".join(texts), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

"""Compare `rssa` with the selector of a network's size, by how large counts are.

    python scripts/benchmarks/compare_selectors.py --device cuda -n 2048 --updates 10000 -o choice.csv
    python scripts/benchmarks/compare_selectors.py --device cpu --threads 1 -n 4 --updates 100000

For each network and factor that all initial counts are multiplied with: candidates and bounds of an
event in a pilot, from which `kernels/exact/selectors.py` chooses, and nanoseconds per update by
both.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from large_cases import ENDLESS, network_of

import tauslab as ts
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.exact.selectors import (
    FEWEST_PILOTED,
    PILOT_EVENTS,
    mean_dependents,
    selector_of,
)
from tauslab.runner.ensemble.choices.presimulation import piloted
from tauslab.runner.ensemble.task import prepare
from tauslab.runner.options.ensemble import Options

CASES: dict[tuple[str, int], tuple[float, ...]] = {
    ("multisite2", 0): (1, 10),
    ("egfr_net", 0): (1, 0.1, 0.01),
    ("BCR_ssa", 0): (1, 0.1, 0.01),
    ("chain", 1000): (5, 20, 1000),
    ("chain", 10_000): (20, 1000),
    ("random8", 1000): (1, 0.1, 0.01),
    ("random16", 10_000): (1, 0.1),
    ("colloidal", 64): (1000,),
}
HEADER = (
    "network", "size", "scale_of_counts", "reactions", "dependents", "candidates_per_event",
    "bounds_per_event", "other", "other_ns", "rssa_ns",
)  # fmt: skip
Cell = str | float


def scaled(network: ts.Network, factor: float) -> dict[str, float]:
    """Initial amounts times the factor, rounded."""
    amounts = network.initial_amounts(network.parameter_values())
    return {name: float(round(amounts[name] * factor)) for name in network.species}


def nanoseconds(
    network: ts.Network, selector: Any, given: argparse.Namespace, initial: dict[str, float]
) -> float:
    """Per update, of the device, after a run that compiles."""
    result = ts.run(
        network, n=given.n, times=[0.0, ENDLESS], seed=1,
        method=ts.SSA(selector=selector, presimulation=PILOT_EVENTS), max_steps=given.updates,
        record="final", species=next(iter(network.species)), quiet=True, set=initial,
        device=ts.CPU(threads=given.threads) if given.device == "cpu" else given.device,
    )  # fmt: skip
    seconds, events = (result.data[f"profile/{name}"] for name in ("compute", "events"))
    return 1e9 * float(seconds[0]) / max(1, int(events[0]))


def row(kind: str, size: int, factor: float, given: argparse.Namespace) -> list[Cell]:
    """One network with one factor."""
    network = network_of(kind, size)
    initial = scaled(network, factor)
    options = Options(np.array([ENDLESS]), n=FEWEST_PILOTED, seed=1, set=initial)
    task = prepare(network, options)
    backend = get_backend("cpu", BackendOptions(threads=1))
    pilot = piloted(task, backend)
    backend.close()
    candidates, bounds = (0.0, 0.0) if pilot is None else pilot.work
    other = selector_of(task.lowered)
    by_each = [nanoseconds(network, s, given, initial) for s in (other, "rssa")]
    return [
        kind, size, factor, len(task.lowered.reactions), round(mean_dependents(task.lowered), 1),
        *(float(f"{number:.3g}") for number in (candidates, bounds)), other,
        *(round(time, 3) for time in by_each),
    ]  # fmt: skip


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=0, help="of a CPU; 0 for all")
    parser.add_argument("-n", type=int, default=64, help="trajectories")
    parser.add_argument("--updates", type=int, default=10_000, help="of each trajectory")
    parser.add_argument("-o", "--output", help="a CSV file")
    given = parser.parse_args()
    rows: list[list[Cell]] = []
    for (kind, size), factors in CASES.items():
        for factor in factors:
            rows.append(row(kind, size, factor, given))
            print(*rows[-1], flush=True)
    if given.output:
        with Path(given.output).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])


if __name__ == "__main__":
    main()

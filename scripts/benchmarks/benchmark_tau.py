"""Tau-leaping of the cuTauLeaping models against their number of trajectories.

    python scripts/benchmarks/benchmark_tau.py --device cuda -o docs/benchmarks/h200-tau

For each model, 2^6 to 2^18 trajectories with 100 samples at epsilon 0.03: the seconds in which the
device computed, and those from the first launch to the closed result (medians of `--repeat` runs
after one that warms up); beside them the seconds of one CPU core. It runs as many trajectories as
it can in about five seconds; with more trajectories its time grows in proportion. The break-even is
the least number of trajectories for which the device is done first. Writes a CSV file
and a Markdown table, with the seconds of cuTauLeaping as published (Nobile et al., PLoS ONE
9:e91963, 2014, Table 1, GeForce GTX 590) and as measured on an H200.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tauslab as ts
from tauslab.runner.cli.bench import chain, michaelis_menten, schlogl

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "sbml"
EPSILON = 0.03
POINTS = 100
CORE_SECONDS = 5.0
SIZES = tuple(2**k for k in range(6, 19, 2))


@dataclass(frozen=True)
class Model:
    """A model of the comparison; published kernel seconds by number of trajectories.

    `paper`: Table 1 of Nobile et al. `peer`: cuTauLeaping, built unchanged, on an H200.
    """

    name: str
    network: Callable[[], ts.Network]
    t_end: float
    values: dict[str, float] = field(default_factory=dict)
    largest: int = 2**18
    paper: dict[int, float] = field(default_factory=dict)
    peer: dict[int, float] = field(default_factory=dict)


def _read(name: str) -> Callable[[], ts.Network]:
    def network() -> ts.Network:
        model = ts.read(DATA / f"{name}.xml")
        assert isinstance(model, ts.Network)
        return model

    return network


def _by_size(first: int, *seconds: float) -> dict[int, float]:
    return {2 ** (first + 2 * i): value for i, value in enumerate(seconds)}


MODELS = (
    Model(
        "Michaelis-Menten (E 750, S 1000), t = 5",
        michaelis_menten,
        5.0,
        {"E": 750.0, "S": 1000.0},
        paper=_by_size(6, 0.038, 0.046, 0.047, 0.051, 0.073, 0.172, 0.530),
        peer={2**12: 0.014, 2**16: 0.017, 2**18: 0.030},
    ),
    Model(
        "Prokaryotic gene network, t = 50",
        _read("prokaryotic_gene_network"),
        50.0,
        paper=_by_size(6, 0.120, 0.121, 0.124, 0.128, 0.175, 0.591, 2.18),
    ),
    Model(
        "Schlögl, t = 10",
        schlogl,
        10.0,
        paper=_by_size(6, 0.723, 0.875, 0.979, 1.156, 1.578, 3.534, 10.163),
        peer={2**12: 0.28, 2**16: 0.39, 2**18: 0.62},
    ),
    Model(
        "Ras/cAMP/PKA, t = 150",
        _read("ras_camp_pka"),
        150.0,
        largest=2**16,
        paper=_by_size(6, 320.1, 322.4, 372.4, 551.4, 1530.1, 5482.0),
    ),
    Model(
        "Chain of 20 species, t = 10",
        chain,
        10.0,
        peer={2**12: 0.014, 2**16: 0.033, 2**18: 0.097},
    ),
)


@dataclass(frozen=True)
class Seconds:
    """Of one run: computing, and from the first launch to the closed result."""

    compute: float
    wall: float
    device: Any


def run_once(model: Model, n: int, device: Any, threads: int) -> Seconds:
    """Statistics at 100 times."""
    result = ts.run(
        model.network(),
        n=n,
        times=np.linspace(0.0, model.t_end, POINTS),
        method=ts.TauLeaping(epsilon=EPSILON),
        set=model.values,
        seed=1,
        record="statistics",
        device=ts.CPU(threads=threads) if device == "cpu" else device,
    )
    profile = {k: float(result.data[f"profile/{k}"][()].max()) for k in ("compute", "wall")}
    name = result.data["profile/device"][0].decode()
    return Seconds(profile["compute"], profile["wall"], name)


def measure(model: Model, n: int, device: Any, repeat: int) -> Seconds:
    """Medians of `repeat` runs after one that warms up; long ones are timed once."""
    runs = [run_once(model, n, device, 0)]
    if runs[0].wall < CORE_SECONDS:
        runs = [run_once(model, n, device, 0) for _ in range(repeat)]
    return Seconds(
        statistics.median(r.compute for r in runs),
        statistics.median(r.wall for r in runs),
        runs[0].device,
    )


def core_seconds_each(model: Model) -> tuple[float, str]:
    """Seconds per trajectory of one CPU core, and its name."""
    n = 1
    while True:
        run_once(model, n, "cpu", 1)
        timed = run_once(model, n, "cpu", 1)
        if timed.compute > CORE_SECONDS / 4 or n >= 2**18:
            return timed.compute / n, timed.device
        n = max(2 * n, min(int(n * CORE_SECONDS / 2 / max(timed.compute, 1e-4)), 16 * n, 2**18))


def compare(model: Model, device: Any, repeat: int, sizes: list[int]) -> list[dict[str, object]]:
    """Rows of the table, and the break-even in each."""
    each, core = core_seconds_each(model)
    rows: list[dict[str, object]] = []
    for n in sizes:
        if n > model.largest:
            continue
        found = measure(model, n, device, repeat)
        rows.append(
            {
                "model": model.name,
                "trajectories": n,
                "compute": f"{found.compute:.5f}",
                "wall": f"{found.wall:.4f}",
                "core": f"{each * n:.4f}",
                "core_over_wall": f"{each * n / found.wall:.1f}",
                "paper": model.paper.get(n, ""),
                "cutauleaping": model.peer.get(n, ""),
                "device": found.device,
                "cpu": core,
            }
        )
        print(model.name, n, rows[-1]["compute"], rows[-1]["wall"], rows[-1]["core"], flush=True)
    return rows


def markdown(rows: list[dict[str, object]]) -> str:
    """The rows as a table, and a line per model with its break-even."""
    first = rows[0]
    lines = [
        "# Tau-leaping against the number of trajectories",
        "",
        (
            f"`scripts/benchmarks/benchmark_tau.py`: epsilon {EPSILON}, {POINTS} samples, statistics; "
            f"seconds. Device: {first['device']}; wall is from the first launch to the closed "
            f"result. One core: {first['cpu']}, from its seconds per trajectory. cuTauLeaping on "
            "a GTX 590 as published (Nobile et al. 2014, Table 1), and its kernels on an H200 as "
            "built unchanged and measured."
        ),
        "",
        "| model | trajectories | kernels | wall | one core | core / wall | GTX 590 | its H200 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        "| {model} | {trajectories} | {compute} | {wall} | {core} | {core_over_wall} | {paper} | "
        "{cutauleaping} |".format(**row)
        for row in rows
    ]
    lines += ["", "## Break-even", ""]
    for name in dict.fromkeys(str(row["model"]) for row in rows):
        ahead = [
            int(str(row["trajectories"]))
            for row in rows
            if row["model"] == name and float(str(row["core_over_wall"])) > 1
        ]
        least = min(ahead) if ahead else None
        smallest = min(int(str(r["trajectories"])) for r in rows if r["model"] == name)
        where = "beyond what was measured" if least is None else f"at {least} trajectories"
        if least == smallest:
            where += " or fewer"
        lines.append(f"- {name}: {where}.")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--largest", type=int, default=max(SIZES), help="most trajectories")
    parser.add_argument("-o", "--output", type=Path, required=True, help="without a suffix")
    options = parser.parse_args()
    sizes = [n for n in SIZES if n <= options.largest]
    rows = [
        row for model in MODELS for row in compare(model, options.device, options.repeat, sizes)
    ]
    with options.output.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    options.output.with_suffix(".md").write_text(markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()

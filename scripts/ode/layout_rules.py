"""What the prediction of an ODE layout gains over simpler rules, by seconds that were measured.

    python scripts/ode/layout_rules.py docs/benchmarks/h200-ode.json

A rule takes a thread for each trajectory, or so many warps where a thread would like more registers
than a limit. Its loss is its time divided by the least of all layouts measured.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

from ode_cases import equations

from tauslab.kernels.ode.layouts.layout_choice import Wishes, chosen, wanted_registers

MULTIPROCESSORS = 132
ENOUGH = 3  # layouts of a system, to compare
LIMITS = (400, 550, 700)  # registers
SPLITS = (2, 4)  # warps in place of a thread
Seconds = dict[int, float]  # by warps of a trajectory


def measured(rows: list[dict[str, Any]]) -> dict[tuple[str, int], Seconds]:
    """Seconds of each system, by warps, with its number of trajectories."""
    found: dict[tuple[str, int], Seconds] = defaultdict(dict)
    for row in rows:
        asked = row["asked"]
        plain = asked["balance"] == "cost" and asked["memory_warps"] != "on" and not row["memory"]
        if plain and row["layout"] in ("thread", "warps"):
            own = found[row["case"], row["run"]["trajectories"]]
            own[row["warps"]] = min(own.get(row["warps"], math.inf), row["seconds"])
    return {key: own for key, own in found.items() if len(own) >= ENOUGH}


def losses(name: str, trajectories: int, seconds: Seconds) -> dict[str, float]:
    """Loss of each rule."""
    system, least = equations(name)[0], min(seconds.values())
    wishes = Wishes("single", crowd=-(-trajectories // MULTIPROCESSORS))
    registers = wanted_registers(system, wishes)
    found = {"predicted": chosen(system, wishes).warps, "a thread each": 1}
    for limit in LIMITS:
        for warps in SPLITS:
            found[f"{warps} warps from {limit} registers"] = warps if registers > limit else 1
    return {rule: seconds[warps] / least for rule, warps in found.items()}


def main() -> None:
    """Print the losses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measured", type=Path, help="docs/benchmarks/h200-ode.json")
    given = parser.parse_args()
    rows = json.loads(given.measured.read_text(encoding="utf-8"))["measured"]
    every: dict[str, list[float]] = defaultdict(list)
    for (name, trajectories), seconds in sorted(measured(rows).items()):
        found = losses(name, trajectories, seconds)
        print(f"{name:20} {trajectories:8} " + " ".join(f"{loss:6.2f}" for loss in found.values()))
        for rule, loss in found.items():
            every[rule].append(loss)
    for rule, own in every.items():
        mean = math.exp(sum(map(math.log, own)) / len(own))
        over = sum(loss > 1.03 for loss in own)
        print(f"{rule:28} {len(own)} systems: geometric mean {mean:.3f}, largest {max(own):.2f}, "
              f"{over} above 1.03")  # fmt: skip


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Predict milliseconds a step of a lattice over 1 to 4096 GPUs; compare with what was measured.

The model is `tauslab.decomposition.halo.depth.step_seconds`, by which runs choose how deep halos
are, and the launches of a step (docs/halo.md tells where it comes from)::

    compute  c = s (p + e + d - 1) A + o   per step, e = 0 on one GPU
    message  m = L + d B / W               every d steps
    hidden   h = s (p - e) A + o           from one message's sending to its use
    step     t = c + (k + max(0, m - h)) / d

with p planes of A sites and B bytes in a slab, s seconds a site, e planes that being cut costs, o
for launches, k for those of a message, L and W the latency and bandwidth of the slowest link:
neighbours wait for each other, so a chain of slabs goes at the pace of its slowest link.

``python scripts/halo/predict_halo.py`` prints tables; ``--measured halo.json``, a file of
`benchmark_halo.py`, fits s, e, o and k to its rows of `peer` (those without sending, and those with
deep halos) and L and W to its messages, and prints what it predicts beside what was measured. With
``--measured slabs.json halo.json`` steps are those of the first, a file of `benchmark_slab.py`, and
messages those of the second. The network between machines stays as assumed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.decomposition.halo import depth as halo_depth
from tauslab.decomposition.halo.depth import EDGE_PLANES, WAYS, Planes, Way

STRONG_SHAPES = ((256, 256, 256), (512, 512, 512), (2048, 1024, 1024), (8192, 1024, 1024))
WEAK_SLAB = (128, 256, 256)
Matrix = npt.NDArray[np.float64]
GPUS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
BETWEEN = Way(3e-5, 1.2e10, WAYS["host"].launches)  # by pinned memory and InfiniBand
STEPS = {"strong", "weak", "slots8"}


@dataclass(frozen=True)
class Machine:
    """What the model knows of one; the numbers here are starting points, see docs/halo.md."""

    site_seconds: float = 1.10e-3 / 256**3  # 16 slots 10 % full, frequent reactions, one H200
    edge_planes: float = EDGE_PLANES
    overhead: float = 2e-5
    gpus_of_a_node: int = 8
    inside: Way = WAYS["peer"]
    between: Way = BETWEEN


def step_seconds(
    machine: Machine, shape: tuple[int, int, int], gpus: int, *, slots: int = 16, depth: int = 1
) -> float:
    """Seconds a step of the slowest slab.

    >>> round(1e3 * step_seconds(Machine(overhead=0), (256, 256, 256), 1), 2)
    1.1
    """
    nz, ny, nx = shape
    plane = ny * nx
    planes = Planes(-(-nz // gpus), plane * machine.site_seconds, plane * slots, machine.overhead)
    if gpus == 1:
        return planes.number * planes.seconds + machine.overhead
    way = machine.inside if gpus <= machine.gpus_of_a_node else machine.between
    return halo_depth.step_seconds(planes, way, depth, machine.edge_planes)


def best_depth(machine: Machine, shape: tuple[int, int, int], gpus: int) -> int:
    """Depth of the halo with the shortest step, of those that a slab is thick enough for."""
    thin = shape[0] // gpus
    return min(range(1, max(1, min(8, thin)) + 1),
               key=lambda depth: step_seconds(machine, shape, gpus, depth=depth))  # fmt: skip


def joined(steps: dict[str, Any], *others: dict[str, Any]) -> dict[str, Any]:
    """The rows of a file, and the messages of others."""
    links = [row for other in others for row in other["rows"] if row["part"] == "links"]
    return {**steps, "rows": steps["rows"] + links}


def fitted(found: dict[str, Any], machine: Machine) -> tuple[Machine, dict[str, Way]]:
    """The machine as a file of `benchmark_halo.py` shows it, and its ways to send messages."""
    rows = []
    for row in found["rows"]:
        if row["part"] not in STEPS | {"depths"} or row["slots"] != 16:
            continue
        if row["transport"] not in {"self", "none", "peer"}:  # with others nothing is recorded
            continue
        nz, ny, nx = row["shape"]
        bare = row.get("ms_without_sending", row["ms_per_step"]) / 1e3
        cut, depth = row["ranks"] > 1, row["depth"]
        sites = (-(-nz // row["ranks"]) + depth - 1) * ny * nx
        # Relative errors count, so that small lattices are fitted too.
        rows.append(np.array([sites, cut * ny * nx, 1.0, cut / depth]) / bare)
    launches = machine.inside.launches
    if len(rows) >= 4:
        site, edge, overhead, launches = _not_negative(np.array(rows), np.ones(len(rows)))
        machine = replace(machine, site_seconds=site, overhead=overhead, edge_planes=edge / site)
    links = [row for row in found["rows"] if row["part"] == "links"]
    ways = {}
    for name in sorted({row["transport"] for row in links}):
        way = fitted_link([row for row in links if row["transport"] == name])
        ways[name] = replace(way or WAYS[name], launches=launches)
    inside = ways.get("peer", machine.inside)
    return replace(machine, inside=inside, between=replace(BETWEEN, launches=launches)), ways


def _not_negative(matrix: Matrix, wanted: Matrix) -> list[float]:
    """Least squares; what would be below 0 is left out."""
    kept = list(range(matrix.shape[1]))
    while True:
        found = np.linalg.lstsq(matrix[:, kept], wanted, rcond=None)[0]
        if (found >= 0).all():
            values = np.zeros(matrix.shape[1])
            values[kept] = found
            return [float(value) for value in values]
        kept.pop(int(np.argmin(found)))


def fitted_link(rows: list[dict[str, Any]]) -> Way | None:
    """Latency and bandwidth of messages ``bytes``, ``microseconds``."""
    if len(rows) < 2:
        return None
    size = np.array([row["bytes"] for row in rows], float)
    seconds = np.array([row["microseconds"] for row in rows]) / 1e6
    matrix = np.stack([np.ones_like(size), size], axis=1) / seconds[:, None]
    latency, inverse = _not_negative(matrix, np.ones_like(size))
    return Way(latency, 1 / max(1e-15, inverse))


def compare(found: dict[str, Any], machine: Machine, ways: dict[str, Way]) -> None:
    """Print what is predicted beside what was measured."""
    print("lattice | GPUs | transport | planes | measured ms | predicted ms")
    for row in found["rows"]:
        if row["part"] not in STEPS | {"depths"}:
            continue
        here = replace(machine, inside=ways.get(row["transport"], machine.inside))
        z, y, x = row["shape"]
        predicted = step_seconds(here, (z, y, x), row["ranks"], slots=row["slots"],
                                 depth=row["depth"])  # fmt: skip
        print(f"{z} x {y} x {x} | {row['ranks']} | {row['transport']} | {row['depth']} | "
              f"{row['ms_per_step']:.3f} | {1e3 * predicted:.3f}")  # fmt: skip


def tables(machine: Machine) -> None:
    """Print predictions from 8 to 4096 GPUs, with the best depth of the halo."""
    print("GPUs | " + " | ".join(" x ".join(map(str, shape)) for shape in STRONG_SHAPES)
          + " | weak, " + " x ".join(map(str, WEAK_SLAB)) + " each")  # fmt: skip
    for gpus in GPUS:
        cells = []
        for shape in (*STRONG_SHAPES, (WEAK_SLAB[0] * gpus, *WEAK_SLAB[1:])):
            if shape[0] < gpus:
                cells.append("-")
                continue
            depth = best_depth(machine, shape, gpus)
            one = step_seconds(machine, shape, gpus)
            best = step_seconds(machine, shape, gpus, depth=depth)
            cells.append(
                f"{1e3 * one:.3f}" + f" ({1e3 * best:.3f} at {depth})" * (best < 0.95 * one)
            )
        print(f"{gpus} | " + " | ".join(cells))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--measured", type=Path, nargs="+",
                        help="files of benchmark_halo.py or benchmark_slab.py")  # fmt: skip
    options = parser.parse_args()
    machine = Machine()
    if options.measured:
        files = [json.loads(path.read_text(encoding="utf-8")) for path in options.measured]
        found = joined(files[0], *files[1:])
        machine, ways = fitted(found, machine)
        print(machine, *(f"{name}: {way}" for name, way in ways.items()), sep="\n")
        compare(found, machine, ways)
    tables(machine)


if __name__ == "__main__":
    main()

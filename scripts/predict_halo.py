#!/usr/bin/env python3
"""Predict milliseconds a step of a lattice over 1 to 4096 GPUs; compare with what was measured.

The model (docs/halo.md tells where it comes from)::

    compute  c = s (p + e) A + o          per step, e = 0 and o = o_1 on one GPU
    message  m = L + d B / W              every d steps
    hidden   h = s (p - e) A              from one message's sending to its use
    step     t = c + s (d - 1) A + max(0, m - h) / d

with p planes of A sites and B bytes in a slab, s seconds a site, e planes that being cut costs, L
and W the latency and bandwidth of the slowest link: neighbours wait for each other, so a chain
of slabs goes at the pace of its slowest link.

``python scripts/predict_halo.py`` prints tables; ``--measured halo.json``, a file of
`benchmark_halo.py`, fits s, e and o to its rows without sending and L and W to its messages, and
prints what it predicts beside what was measured. The network between machines stays as assumed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

STRONG_SHAPES = ((512, 512, 512), (2048, 1024, 1024), (8192, 1024, 1024))
WEAK_SLAB = (128, 256, 256)
GPUS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class Link:
    """Latency in seconds, and bytes a second of a message that travels beside others."""

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Machine:
    """What the model knows of one; the numbers here are starting points, see docs/halo.md."""

    site_seconds: float = 1.10e-3 / 256**3  # 16 slots 10 % full, frequent reactions, one H200
    edge_planes: float = 3.0
    overhead: float = 2e-5
    gpus_of_a_node: int = 8
    inside: Link = Link(5e-6, 2.0e11)  # NVLink
    between: Link = Link(3e-5, 1.2e10)  # through pinned memory and InfiniBand


def step_seconds(
    machine: Machine, shape: tuple[int, int, int], gpus: int, *, slots: int = 16, depth: int = 1
) -> float:
    """Seconds a step of the slowest slab.

    >>> round(1e3 * step_seconds(Machine(overhead=0), (256, 256, 256), 1), 2)
    1.1
    """
    nz, ny, nx = shape
    planes, plane = -(-nz // gpus), ny * nx * machine.site_seconds
    if gpus == 1:
        return planes * plane + machine.overhead
    link = machine.inside if gpus <= machine.gpus_of_a_node else machine.between
    message = link.latency + depth * ny * nx * slots / link.bandwidth
    hidden = max(0.0, planes - machine.edge_planes) * plane
    compute = (planes + machine.edge_planes + depth - 1) * plane + machine.overhead
    return compute + max(0.0, message - hidden) / depth


def best_depth(machine: Machine, shape: tuple[int, int, int], gpus: int) -> int:
    """Depth of the halo with the shortest step, of those that a slab is thick enough for."""
    thin = shape[0] // gpus
    return min(range(1, max(1, min(8, thin)) + 1),
               key=lambda depth: step_seconds(machine, shape, gpus, depth=depth))  # fmt: skip


def fitted(found: dict[str, Any], machine: Machine) -> Machine:
    """The machine as a file of `benchmark_halo.py` shows it."""
    steps = [row for row in found["rows"] if row["part"] in {"strong", "weak"}]
    rows, seconds = [], []
    for row in steps:
        nz, ny, nx = row["shape"]
        bare = row.get("ms_without_sending", row["ms_per_step"]) / 1e3
        cut = row["ranks"] > 1
        # Relative errors count, so that small lattices are fitted too.
        rows.append(np.array([-(-nz // row["ranks"]) * ny * nx, cut * ny * nx, 1.0]) / bare)
        seconds.append(1.0)
    if len(rows) >= 3:
        site, edge, overhead = np.linalg.lstsq(np.array(rows), np.array(seconds), rcond=None)[0]
        machine = replace(machine, site_seconds=float(site), overhead=max(0.0, float(overhead)),
                          edge_planes=max(0.0, float(edge / site)))  # fmt: skip
    links = [row for row in found["rows"] if row["part"] == "links"]
    inside = fitted_link([row for row in links if row["transport"] == "peer"])
    between = fitted_link([row for row in links if row["transport"] == "host"])
    return replace(machine, inside=inside or machine.inside, between=between or machine.between)


def fitted_link(rows: list[dict[str, Any]]) -> Link | None:
    """Latency and bandwidth of messages ``bytes``, ``microseconds``."""
    if len(rows) < 2:
        return None
    size = np.array([row["bytes"] for row in rows], float)
    seconds = np.array([row["microseconds"] for row in rows]) / 1e6
    matrix = np.stack([np.ones_like(size), size], axis=1) / seconds[:, None]
    latency, inverse = np.linalg.lstsq(matrix, np.ones_like(size), rcond=None)[0]
    return Link(max(0.0, float(latency)), 1 / max(1e-15, float(inverse)))


def compare(found: dict[str, Any], machine: Machine) -> None:
    """Print what is predicted beside what was measured."""
    print("lattice | GPUs | transport | measured ms | predicted ms")
    for row in found["rows"]:
        if row["part"] not in {"strong", "weak"}:
            continue
        host = row["transport"] == "host"
        here = replace(machine, inside=machine.between) if host else machine
        z, y, x = row["shape"]
        predicted = step_seconds(here, (z, y, x), row["ranks"], slots=row["slots"],
                                 depth=row["depth"])  # fmt: skip
        shape = " x ".join(map(str, row["shape"]))
        print(f"{shape} | {row['ranks']} | {row['transport']} | {row['ms_per_step']:.3f} | "
              f"{1e3 * predicted:.3f}")  # fmt: skip


def tables(machine: Machine) -> None:
    """Print predictions from 16 to 4096 GPUs, with the best depth of the halo."""
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
            cells.append(f"{1e3 * one:.3f}" + f" ({1e3 * best:.3f} at {depth})" * (depth > 1))
        print(f"{gpus} | " + " | ".join(cells))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--measured", type=Path, help="a file of benchmark_halo.py")
    options = parser.parse_args()
    machine = Machine()
    if options.measured:
        found = json.loads(options.measured.read_text())
        machine = fitted(found, machine)
        print(machine)
        compare(found, machine)
        # Messages through the host of one machine tell nothing of the network between machines.
        machine = replace(machine, between=Machine.between)
    tables(machine)


if __name__ == "__main__":
    main()

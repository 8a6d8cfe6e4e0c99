"""Leaps of large networks: time per step by size, against one CPU core in the same run.

    python scripts/benchmarks/benchmark_fine_tau.py --device cuda -o fine_tau.csv  # 1e3 .. 1e6 reactions
    python scripts/benchmarks/benchmark_fine_tau.py --device cuda --sizes 1e6 --layouts 512x2,256x4,1024x1

Random consistent networks with as many species as reactions, rates uniform in [0, 1) and 1,000
molecules of each species, as in Komarov, D'Souza & Tapia, PLoS ONE 7:e37370 (2012), figures 2
and 3. One trajectory takes the given number of steps; seconds are those of the device between the
start and the end of the kernel, without the network's tables and compilation. A second launch with
profiling gives the shares of the parts of a step. The break-even size is where one trajectory takes
as long on the device as on one core, between two sizes on a straight line of logarithms.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import tauslab as ts
from tauslab.kernels.backends import Backend, BackendOptions, choose_backend, get_backend
from tauslab.kernels.ensemble.launch import CONTROL_WORDS, Launch, SampleBuffers
from tauslab.kernels.leaping.fine_tau import LAYOUT, PARTS, FineTau
from tauslab.kernels.network.lowering import LoweredNetwork, lower

ENDLESS = 1e9  # end time of runs that a number of steps ends
CORE_SECONDS = 3.0  # about so long a core is measured
EPSILON = 0.03


@dataclass(frozen=True)
class Row:
    """A network on a device, per trajectory and step; `ratio` is that of a core's time to it."""

    device: str
    reactions: int
    trajectories: int
    blocks: int
    layout: str
    steps: int
    leaps: int
    exact_events: int
    halved: int
    firings: int
    prepare_seconds: float
    milliseconds_per_step: float
    nanoseconds_per_reaction: float
    ratio: float
    shares: dict[str, float]


def random_network(size: int) -> tuple[LoweredNetwork, Any]:
    """The network, lowered, and its initial counts."""
    net = ts.random_network(species=size, reactions=size, rates="uniform", initial=1000, seed=1)
    counts = dict.fromkeys(net.species, 1000)
    return lower(net, parameters={}, counts=counts), np.full((1, size), 1000, np.int32)


def launched(
    engine: FineTau, initial: Any, steps: int, trajectories: int, seed: int
) -> tuple[float, Any, SampleBuffers]:
    """Seconds on the device, work, and the buffers of one launch."""
    backend = engine.backend
    empty = backend.empty
    buffers = SampleBuffers(
        None, None, None, empty((trajectories,), np.uint8), empty((CONTROL_WORDS,), np.uint64),
        empty((4,), np.uint64), engine.scratch(trajectories),
    )  # fmt: skip
    stream = backend.stream()
    constants = backend.upload(np.zeros((1, 1)))
    launch = Launch(0, trajectories, backend.upload(initial), constants)
    work = backend.mirror(buffers.work)
    begun = stream.record()
    engine.start(launch, buffers, stream, seed=seed, max_steps=steps)
    ended = stream.record()
    backend.download(buffers.work, work, len(work), stream)
    stream.record().wait()
    return ended.seconds_since(begun), work.copy(), buffers


def measure(
    backend: Backend, network: LoweredNetwork, initial: Any, options: argparse.Namespace,
    layout: tuple[int, int], steps: int, trajectories: int, core: float,
) -> Row:  # fmt: skip
    """The best of the repeats, and the shares of a profiled run."""
    began = time.perf_counter()
    choice = {"layout": layout, "blocks": options.blocks}
    engine = FineTau(backend, network, [ENDLESS], EPSILON, **choice)
    prepared = time.perf_counter() - began
    launched(engine, initial, 2, trajectories, 1)
    runs = [launched(engine, initial, steps, trajectories, 1) for _ in range(options.repeat)]
    seconds, work, _ = min(runs, key=lambda run: run[0])
    profiled = FineTau(backend, network, [ENDLESS], EPSILON, **choice, profiled=True)
    ticks = profiled.part_ticks(launched(profiled, initial, steps, trajectories, 1)[2].scratch)
    shares = (ticks / max(1.0, ticks.sum())).round(3).tolist()
    each = seconds / (steps * trajectories)
    size = len(network.reactions)
    firings, leaps, exact, halved = (int(count) for count in work)
    return Row(
        device=backend.describe(),
        reactions=size,
        trajectories=trajectories,
        blocks=engine.blocks(trajectories),
        layout=f"{layout[0]}x{layout[1]}",
        steps=steps,
        leaps=leaps,
        exact_events=exact,
        halved=halved,
        firings=firings,
        prepare_seconds=round(prepared, 3),
        milliseconds_per_step=1e3 * each,
        nanoseconds_per_reaction=1e9 * each / size,
        ratio=core / each if core else 1.0,
        shares=dict(zip(PARTS, shares, strict=True)),
    )


def of_size(size: int, device: str, options: argparse.Namespace) -> list[Row]:
    """One core, then the device with one trajectory and with several."""
    network, initial = random_network(size)
    core = get_backend("cpu", BackendOptions(threads=1))
    steps = max(2, min(500, round(CORE_SECONDS / (1.5e-7 * size))))
    rows = [measure(core, network, initial, options, LAYOUT, steps, 1, 0.0)]
    core.close()
    if device == "cpu":
        return rows
    each = rows[0].milliseconds_per_step / 1e3
    backend = get_backend(device, BackendOptions())
    rows += [
        measure(backend, network, initial, options, layout, options.steps, trajectories, each)
        for layout in options.layouts
        for trajectories in options.trajectories
    ]
    backend.close()
    return rows


def break_even(rows: list[Row]) -> float | None:
    """Reactions at which one trajectory is as fast on the device as on a core."""
    alone = [r for r in rows if r.trajectories == 1 and r.device != rows[0].device]
    points = sorted({r.reactions: r.ratio for r in alone}.items())
    for (size, ratio), (next_size, next_ratio) in pairwise(points):
        if ratio < 1 <= next_ratio:
            part = -math.log(ratio) / (math.log(next_ratio) - math.log(ratio))
            return float(size * (next_size / size) ** part)
    return None


def _layouts(text: str) -> list[tuple[int, int]]:
    pairs = [part.split("x") for part in text.split(",")]
    return [(int(threads), int(blocks)) for threads, blocks in pairs]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"))
    parser.add_argument(
        "--sizes", default="1e3,3e3,1e4,3e4,1e5,3e5,1e6", metavar="LIST", help="reactions"
    )
    parser.add_argument("--trajectories", default="1", metavar="LIST", help="at a time")
    parser.add_argument("--steps", type=int, default=300, help="of a trajectory on the device")
    parser.add_argument("--repeat", type=int, default=3, help="best of so many")
    parser.add_argument("--blocks", type=int, default=0, help="that run a trajectory")
    parser.add_argument("--layouts", type=_layouts, default=[LAYOUT], metavar="512x2,...")
    parser.add_argument("-o", "--output", type=Path, help="a .csv or .json file")
    found = parser.parse_args()
    found.sizes = [round(float(size)) for size in found.sizes.split(",")]
    found.trajectories = [int(n) for n in found.trajectories.split(",")]
    return found


def main() -> int:
    """Measure, print and write."""
    options = arguments()
    device = choose_backend(options.device)
    rows: list[Row] = []
    for size in options.sizes:
        found = of_size(size, device, options)
        rows += found
        for row in found:
            print(json.dumps(asdict(row)), flush=True)
    even = break_even(rows)
    if even is not None:
        print(f"break-even with one core: {even:.0f} reactions")
    if options.output is not None:
        _write(options.output, rows, even)
    return 0


def _write(path: Path, rows: list[Row], even: float | None) -> None:
    if path.suffix == ".json":
        found = {"rows": [asdict(row) for row in rows], "break_even_reactions": even}
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return
    flat = []
    for row in rows:
        values = asdict(row)
        shares = values.pop("shares")
        flat.append(values | {f"share_{part}": share for part, share in shares.items()})
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, flat[0])
        writer.writeheader()
        writer.writerows(flat)


if __name__ == "__main__":
    sys.exit(main())

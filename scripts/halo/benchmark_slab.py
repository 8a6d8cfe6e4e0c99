#!/usr/bin/env python3
"""Time the slab of one rank of many on one GPU: what a step costs without its neighbours.

    python scripts/halo/benchmark_slab.py -o docs/benchmarks/h200-slabs.json

For each lattice and number of ranks this process has one of the slabs, with messages that stay on
the device: all kernels of a step run, those that pack and take in messages too, and nothing is
waited for. (The particles that come in are the slab's own of the other side, so that the lattice is
not a right one, but as full.) `scripts/halo/predict_halo.py --measured` fits its formula to these
rows. What a rank sends, and what waits for it, is measured by `benchmark_halo.py` on more GPUs.

With `--planes 8 16 24 30` instead: milliseconds a step with blocks that march through so many
planes (0: as chosen). To such times the constants of `kernels/lattice/segments.py` are fitted.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, cast

from benchmark_halo import SMALL, STRONG, WEAK, Loopback
from halo_bench import Bench, Row, Shape, fill, pairs

from tauslab.decomposition.halo.messages import Halo, Ranks
from tauslab.decomposition.slab import cut_planes
from tauslab.decomposition.slab_run import HaloOptions, SlabEngine
from tauslab.kernels.lattice.halo_messages import HaloKernels

RANKS = (1, 2, 4, 8, 16, 32)
LARGE = (1024, 1024, 1024)
MIDDLE = ((192, 192, 192), (128, 128, 128), (128, 64, 64))
_LEAST_PLANES = 8
_MOST_SITES = 1 << 28  # of a slab


class OneOfMany:
    """A communicator's rank and size; there are no others to talk to."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


class LonelySlab(SlabEngine):
    """A slab whose messages stay on its device."""

    def _open_halo(self, comm: Ranks, room: int) -> None:  # noqa: ARG002 - as of the base
        kernels = HaloKernels(self.engine, self.depth, room)
        backend = self.engine.backend
        self.halo = Halo(kernels, [Loopback(backend, kernels.message_words) for _ in range(2)])


def time_slab(bench: Bench, part: str, shape: Shape, ranks: int, kind: Row, depth: int = 1) -> None:
    """Milliseconds a step of a slab from the middle of a lattice over `ranks` ranks."""
    lattice, bounds = pairs(shape, kind["slots"]), cut_planes(shape[0], ranks)
    comm = cast("Ranks", OneOfMany(ranks // 2, ranks))
    slab = LonelySlab(
        bench.backend, lattice, comm, bounds, seed=1, options=HaloOptions(depth=depth)
    )
    fill(slab.engine, kind["fill"])
    for planes in (0, *bench.options.planes):
        slab.engine.planes_each = planes
        slab.forget_recordings()
        steps = bench.steps_for(bench.world, slab)
        milliseconds = 1e3 * bench.slowest(bench.world, slab, steps)
        bench.keep({
            "part": part, "shape": list(shape), "ranks": ranks, **kind, "depth": depth,
            "steps": steps, "transport": "self" if ranks == 1 else "none",
            **({"planes": planes} if bench.options.planes else {}), "ms_per_step": milliseconds,
        })  # fmt: skip
    slab.close()


def time_planes(bench: Bench) -> None:
    """Large and small slabs by the planes of a block."""
    for slots, share in ((16, 0.1), (8, 0.04)):
        for shape, ranks in (*product(STRONG[:2], (1, 2, 4, 8)), *product(MIDDLE, (1, 2, 4))):
            if ranks > 1 or prod(shape) > bench.backend.sites_together:
                kind = {"slots": slots, "fill": share}
                time_slab(bench, "planes", shape, ranks, kind)


def time_all(bench: Bench) -> None:
    """Large lattices, those of 8 slots, equal slabs, and small ones with deeper halos."""
    sixteen: dict[str, Any] = {"slots": 16, "fill": 0.1}
    eight: dict[str, Any] = {"slots": 8, "fill": 0.04}
    for shape in (*STRONG, LARGE):
        for ranks in RANKS:
            planes = shape[0] // ranks
            if planes >= _LEAST_PLANES and planes * shape[1] * shape[2] <= _MOST_SITES:
                time_slab(bench, "strong", shape, ranks, sixteen)
                if shape == STRONG[1]:
                    time_slab(bench, "slots8", shape, ranks, eight)
    for ranks in (1, 8):
        time_slab(bench, "weak", (WEAK[0] * ranks, *WEAK[1:]), ranks, sixteen)
    for shape in SMALL:
        for depth in (1, 2, 4):
            time_slab(bench, "depths", shape, 4, sixteen, depth)


def main() -> None:
    """Time all slabs; write what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.05, help="of a timed run")
    parser.add_argument("--repeat", type=int, default=3, help="timed runs, of which the median")
    parser.add_argument("--planes", nargs="*", type=int, default=(), help="of a block, to be tried")
    bench = Bench(parser.parse_args())
    if bench.options.planes:
        time_planes(bench)
    else:
        time_all(bench)
    text = json.dumps(
        {"device": bench.backend.describe(), "ranks": 1, "rows": bench.rows}, indent=1
    )
    bench.options.output.write_text(text + "\n", encoding="utf-8")
    bench.backend.close()


if __name__ == "__main__":
    main()

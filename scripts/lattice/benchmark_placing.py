#!/usr/bin/env python3
"""Seconds until the particles of a large lattice stand on the device: by the host, and by it.

    python scripts/lattice/benchmark_placing.py --device cuda --size 512 --fill 0.1 0.25
    python scripts/lattice/benchmark_placing.py --device cpu --threads 16 --size 256 --repeat 3

The lattice is that of `benchmark_rdme.py`, A + B <-> C with 16 slots. The host's seconds are those
of placing and of copying; both ways are compared particle by particle, and take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from benchmark_rdme import Case, pairs_model

from tauslab.kernels.backends import Backend, BackendOptions, get_backend
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.lowering import LoweredLattice, lower_lattice
from tauslab.kernels.lattice.state import LatticeState
from tauslab.kernels.lattice.waiting import WAITING

SEED = 1


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def by_host(engine: LatticeEngine, lattice: LoweredLattice) -> None:
    """Place particles in memory of the host, and copy them."""
    particles = lattice.particles(0, lattice.shape[0], SEED)
    fired = np.zeros(len(lattice.reactions), np.int64)
    engine.load(LatticeState(particles, np.zeros(0, WAITING), 0, fired, 0))


def measured(backend: Backend, size: int, fill: float, repeat: int) -> dict[str, float | bool]:
    """Medians of both ways for a cube of `size` sites each way."""
    model = pairs_model(Case(shape=(size, size, size), fill=fill))
    lattice = lower_lattice(model, reaction_substeps=1)
    engine = LatticeEngine(backend, lattice, seed=SEED)
    engine.load_start()  # compiles
    host, device, equal = [], [], True
    for _ in range(repeat):
        host.append(seconds(lambda: by_host(engine, lattice)))
        placed = engine.host(engine.particles)
        device.append(seconds(engine.load_start))
        equal = equal and np.array_equal(placed, engine.host(engine.particles))
    return {
        "size": size,
        "fill": fill,
        "particles": lattice.start.spread,
        "host": round(statistics.median(host), 4),
        "device": round(statistics.median(device), 4),
        "equal": equal,
    }


def main() -> None:
    """Print a line of JSON for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--threads", type=int, default=0, help="of a CPU (all)")
    parser.add_argument("--size", type=int, nargs="+", default=[256], help="sites of an edge")
    parser.add_argument("--fill", type=float, nargs="+", default=[0.1], help="part of the slots")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    backend = get_backend(given.device, BackendOptions(threads=given.threads))
    for size in given.size:
        for fill in given.fill:
            row = measured(backend, size, fill, given.repeat)
            print(json.dumps({"device_name": backend.describe(), **row}), flush=True)
    backend.close()


if __name__ == "__main__":
    main()

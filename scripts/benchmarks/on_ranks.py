"""Time of a step of a lattice and of a large particle filter, on one rank or under `mpirun -n 2`.

mpirun -n 2 python scripts/benchmarks/on_ranks.py lattice --shape 256 256 256 --device cuda
mpirun -n 2 python scripts/benchmarks/on_ranks.py filter --particles 10000000 --device cuda
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lattice"))

from measure_lattices import STEP, Site
from measure_networks import INITIAL, OBSERVE, course

import tauslab as ts
from tauslab.api.api import ranks


def least(work: Callable[[], object], rounds: int) -> float:
    """Least seconds of all ranks together."""
    comm, found = ranks(), []
    for _ in range(rounds):
        comm.barrier()
        began = time.perf_counter()
        work()
        comm.barrier()
        found.append(time.perf_counter() - began)
    return min(found)


def of_lattice(given: Any) -> str:
    """Milliseconds of a step: the difference of two runs."""
    model = Site(shape=tuple(given.shape), fill=given.fill).model()

    def run(steps: int) -> float:
        return least(lambda: ts.run(
            model, t_end=steps * STEP, count_every=steps, seed=1, device=given.device, quiet=True
        ), given.rounds)  # fmt: skip

    run(given.steps // 10)
    few, many = run(given.steps // 10), run(given.steps)
    return f"{1e3 * (many - few) / (0.9 * given.steps):.4f} ms a step; the shorter run {few:.2f} s"


def of_filter(given: Any) -> str:
    """Particle steps a second."""
    net, data = course()

    def run(n: int) -> Any:
        return ts.particle_filter(
            net, data, observe=OBSERVE, initial=INITIAL, n=n, seed=1, device=given.device
        )

    rows = len(run(1000).time)
    seconds = least(lambda: run(given.particles), given.rounds)
    return f"{seconds:.3f} s, {given.particles * rows / seconds:.3g} particle steps/s"


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("lattice", "filter"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--shape", type=int, nargs=3, default=[256, 256, 256])
    parser.add_argument("--fill", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--particles", type=int, default=10**6)
    given = parser.parse_args()
    told = (of_lattice if given.what == "lattice" else of_filter)(given)
    if ranks().rank == 0:
        print(f"{ranks().size} ranks: {told}")


if __name__ == "__main__":
    main()

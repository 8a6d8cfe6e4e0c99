"""Time of a step of a lattice and of a large particle filter, on one rank or under `mpirun -n 2`.

`slabs` compares one rank alone with all of them, in turns: by one lattice cut into slabs, and by a
lattice as large for each rank. On one rank it compares a whole lattice with the same one as a slab
whose messages return to it.

mpirun -n 2 python scripts/benchmarks/on_ranks.py lattice --shape 256 256 256 --device cuda
mpirun -n 2 python scripts/benchmarks/on_ranks.py slabs --shape 256 256 256 --device cuda
mpirun -n 2 python scripts/benchmarks/on_ranks.py filter --particles 10000000 --device cuda
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lattice"))

from measure_halo import LoopedSlab
from measure_lattices import STEP, Site
from measure_networks import INITIAL, OBSERVE, course

import tauslab as ts
from tauslab.api.api import ranks
from tauslab.decomposition.planes_run import PlanesSlab
from tauslab.decomposition.ranks.job import open_backend
from tauslab.decomposition.slab import cut_planes


def least(work: Callable[[], object], rounds: int) -> float:
    """Least seconds of all ranks together."""
    comm, result = ranks(), []
    for _ in range(rounds):
        comm.barrier()
        began = time.perf_counter()
        work()
        comm.barrier()
        result.append(time.perf_counter() - began)
    return min(result)


def of_lattice(given: Any) -> str:
    """Milliseconds of a step by `ts.run`, of the slowest rank; the least of rounds, after one."""
    model = Site(shape=tuple(given.shape), fill=given.fill).model()

    def run(steps: int) -> float:
        result = ts.run(model, t_end=steps * STEP, count_every=steps, seed=1, device=given.device,
                        quiet=True)  # fmt: skip
        with result:
            return max(float(row["ms_per_step"]) for row in result.profile)

    run(given.steps // 10)
    return f"{min(run(given.steps) for _ in range(given.rounds)):.4f} ms a step"


def of_slabs(given: Any) -> str:
    """Microseconds of a step, medians of rounds in turns: one rank alone, and all ranks."""
    comm, site = ranks(), Site(shape=tuple(given.shape), fill=given.fill)
    backend = open_backend(given.device, 0, comm)
    deep = replace(site, shape=(comm.size * site.shape[0], *site.shape[1:]))
    alone = PlanesSlab(backend, site.lowered(), None, (0, site.shape[0]), seed=1)
    slabs: list[PlanesSlab | LoopedSlab] = (
        [PlanesSlab(backend, one.lowered(), comm.native, cut_planes(one.shape[0], comm.size),
                    seed=1) for one in (site, deep)]
        if comm.size > 1 else [LoopedSlab(backend, site.lowered(), seed=1)]
    )  # fmt: skip

    def seconds(slab: PlanesSlab | LoopedSlab, *, works: bool = True) -> float:
        slab.engine.synchronize()
        comm.barrier()
        began = time.perf_counter()
        if works:
            slab.run(given.steps)
            slab.engine.synchronize()
        return float(max(comm.allgather(time.perf_counter() - began)))

    for slab in (alone, *slabs):
        slab.engine.load_start()
        seconds(slab)
    rounds = [
        [seconds(alone, works=comm.rank == 0), *map(seconds, slabs)] for _ in range(given.rounds)
    ]
    one, cut, *both = (
        1e6 / given.steps * statistics.median(row) for row in zip(*rounds, strict=True)
    )
    for slab in (alone, *slabs):
        slab.close()
    if not both:
        return f"{one:.1f} us whole; as a slab {cut:.1f} us, {one / cut:.1%}"
    return (f"{one:.1f} us alone; cut {cut:.1f} us, {one / cut:.3f} times as fast; as much for each "
            f"{both[0]:.1f} us, {one / both[0]:.1%}")  # fmt: skip


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
    parser.add_argument("what", choices=("lattice", "slabs", "filter"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--shape", type=int, nargs=3, default=[256, 256, 256])
    parser.add_argument("--fill", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--particles", type=int, default=10**6)
    given = parser.parse_args()
    reported = {"lattice": of_lattice, "slabs": of_slabs, "filter": of_filter}[given.what](given)
    if ranks().rank == 0:
        print(f"{ranks().size} ranks: {reported}")


if __name__ == "__main__":
    main()

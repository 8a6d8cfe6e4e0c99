#!/usr/bin/env python3
"""T14 over ranks: a lattice's digest does not depend on ranks, cuts, transports and halos.

    mpirun -n 4 --oversubscribe python scripts/lattice/validate_halo.py

A + B <-> C on 96 x 64 x 64 periodic sites, 10 and 40 % full, 10,000 steps, on 1, 2, ... of the
ranks, by all transports that the device has, cut evenly and not, with halos of one and three
planes. Rank 0 prints a line for every way, with the digest of particles and of those that wait, and
at the end whether all were the same; if not, the script ends with 1. Milliseconds a step include
the gathering of counts.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from pathlib import Path

import numpy as np

from tauslab.decomposition.ranks.job import open_backend
from tauslab.decomposition.ranks.mpi import Communicator, world
from tauslab.decomposition.slab import cut_planes
from tauslab.decomposition.slab_run import HaloOptions, SlabEngine
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.state import LatticeState

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from measure_lattices import Site

SEED = 5
_BATCH = 1000  # steps that are done again where a list was too short


def digest(states: list[LatticeState]) -> str:
    """Of the slabs' particles and waiting particles, together."""
    sha = hashlib.sha256(np.concatenate([s.particles for s in states]).tobytes())
    sha.update(np.concatenate([s.waiting for s in states]).tobytes())
    return sha.hexdigest()[:16]


def ways(
    planes: int, ranks: int, transports: tuple[str, ...]
) -> list[tuple[tuple[int, ...], HaloOptions]]:
    """For every transport an even cut, edges first or not, and one with thin slabs, deep halos."""
    even = cut_planes(planes, ranks)
    if ranks == 1:
        return [(even, HaloOptions())]
    thin = (0, *(5 + i * (planes - 6) // (ranks - 1) for i in range(ranks - 1)), planes)
    return [
        (bounds, HaloOptions(transport, depth, early))
        for transport in transports
        for bounds, depth, early in ((even, 1, True), (even, 1, False), (thin, 3, None))
    ]


def advanced(
    backend: Backend,
    lattice: LoweredLattice,
    comm: Communicator,
    way: tuple[tuple[int, ...], HaloOptions],
    steps: int,
) -> str:
    """Digest after all steps, told by the first rank."""
    bounds, options = way
    slab = SlabEngine(backend, lattice, comm.native, bounds, seed=SEED, options=options)
    slab.engine.load_start()
    began, spills = time.perf_counter(), 0
    for done in range(0, steps, _BATCH):
        spills = int(slab.run_sampled([min(_BATCH, steps - done)]).spills[0])
    seconds = max(comm.allgather(time.perf_counter() - began))
    spills = sum(comm.allgather(spills))
    found = digest(comm.allgather(slab.engine.save()))
    if comm.rank == 0:
        way_there = f"{slab.transports}, depth {options.depth}, early {options.early}, {bounds}"
        print(f"{found} on {comm.size} by {way_there}: {spills} waited, "
              f"{1e3 * seconds / steps:.4f} ms a step", flush=True)  # fmt: skip
    slab.close()
    return found


def main() -> int:
    """Run all ways; 1 if one gave other bits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--shape", type=int, nargs=3, default=(96, 64, 64), metavar=("Z", "Y", "X"))
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--fill", type=float, nargs="+", default=(0.1, 0.4))
    parser.add_argument("--ranks", type=int, nargs="+", help="by default 1, 2, 4, ... of all")
    parser.add_argument("--transports", nargs="+", help="by default peer, shared, host on GPUs")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    everyone = world()
    backend = open_backend(options.device, 1, everyone, share=True)
    usual = ("peer", "shared", "host") if backend.waits_aside else ("host",)
    transports = tuple(options.transports or usual)
    counts = options.ranks or [n for n in (1, 2, 4, 8, 16) if n <= everyone.size]
    same = True
    for fill in options.fill:
        lattice = Site(shape=tuple(options.shape), fill=fill).lowered()
        digests: set[str] = set()
        for ranks in counts:
            comm = everyone.split(int(everyone.rank >= ranks))
            if everyone.rank < ranks:
                for way in ways(options.shape[0], ranks, transports):
                    digests.add(advanced(backend, lattice, comm, way, options.steps))
            comm.free()
        same = same and len(set().union(*everyone.allgather(digests))) == 1
        if everyone.rank == 0:
            verdict = "the same bits" if same else "DIFFERENT BITS"
            print(f"{100 * fill:g} % full, {options.steps} steps: {verdict}", flush=True)
    backend.close()
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""T14 over ranks: a lattice's digest does not depend on ranks, cuts, transports and halos.

    python scripts/validate_halo.py
    mpirun -n 4 --oversubscribe python scripts/validate_halo.py

A + B <-> C on 96 x 64 x 64 periodic sites, 10 and 40 % full, 10,000 steps; rank 0 prints a line for
every way, with the digest of particles and of those that wait. Lines of both commands for the same
fill must show one digest. Milliseconds a step include the gathering of counts.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from typing import Any

import numpy as np
from benchmark_rdme import Case, lowered

from tauslab.decomposition.slab import cut_planes
from tauslab.decomposition.slab_engine import HaloOptions, SlabEngine
from tauslab.kernels.backends import BackendOptions, choose_backend, device_count, get_backend
from tauslab.kernels.lattice_state import LatticeState


def digest(states: list[LatticeState]) -> str:
    """Of the slabs' particles and waiting particles, together."""
    sha = hashlib.sha256(np.concatenate([s.particles for s in states]).tobytes())
    sha.update(np.concatenate([s.waiting for s in states]).tobytes())
    return sha.hexdigest()[:16]


def cuts(planes: int, ranks: int) -> list[list[int]]:
    """An even cut, and one with a thin first slab."""
    even = list(cut_planes(planes, ranks))
    thin = [0] + [5 + i * (planes - 6) // (ranks - 1) for i in range(ranks - 1)] + [planes]
    return [even, thin] if ranks > 1 else [even]


def main() -> None:
    """Run all ways that this number of ranks has."""
    from mpi4py import MPI

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--shape", type=int, nargs=3, default=(96, 64, 64), metavar=("Z", "Y", "X"))
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--fill", type=float, nargs="+", default=(0.1, 0.4))
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    device = choose_backend(options.device)
    index = comm.rank % device_count(device)
    backend = get_backend(device, BackendOptions(index=index, threads=1))
    ways: list[dict[str, Any]] = [{}] if comm.size == 1 else [
        {"transport": transport, "depth": depth}
        for transport in (("peer", "host") if device == "cuda" else ("host",))
        for depth in (1, 3)
    ]  # fmt: skip
    for fill in options.fill:
        lattice = lowered(Case(shape=tuple(options.shape), fill=fill))
        for way in ways:
            for bounds in cuts(options.shape[0], comm.size):
                engine = SlabEngine(
                    backend, lattice, comm, bounds, seed=5, options=HaloOptions(**way)
                )
                engine.load_start()
                began = time.perf_counter()
                samples = engine.run_sampled([options.steps])
                seconds = comm.allreduce(time.perf_counter() - began, MPI.MAX)
                spills = comm.allreduce(int(samples.spills[0]))
                found = digest(comm.allgather(engine.save()))
                if comm.rank == 0:
                    print(f"fill {fill:g} ranks {comm.size} {way} {bounds} {engine.transports}: "
                          f"{found}, {spills} spills, {1e3 * seconds / options.steps:.4f} ms",
                          flush=True)  # fmt: skip
                engine.close()
    backend.close()


if __name__ == "__main__":
    main()

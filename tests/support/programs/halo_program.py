"""Run a lattice over the ranks of this launch; rank 0 prints its digest, counts and transports."""

from __future__ import annotations

import hashlib
import itertools
import json
import sys

import numpy as np
from halo_models import MODELS
from mpi4py import MPI

from tauslab.decomposition import planes_run
from tauslab.decomposition.halo import links as halo_links
from tauslab.decomposition.planes_run import PlanesSlab
from tauslab.decomposition.slab import cut_planes
from tauslab.decomposition.slab_run import HaloOptions, SlabEngine
from tauslab.kernels.backends import BackendOptions, device_count, get_backend
from tauslab.kernels.lattice import planes


def digest(states):
    """Of the slabs' states together."""
    sha = hashlib.sha256(np.concatenate([s.particles for s in states]).tobytes())
    sha.update(np.concatenate([s.waiting for s in states]).tobytes())
    fired = np.sum([s.fired for s in states], axis=0).tolist()
    sha.update(f"{states[0].step} {fired} {sum(s.spills for s in states)}".encode())
    return sha.hexdigest()[:16]


def run(case, backend, comm):
    """One case: what rank 0 tells of it."""
    lattice = MODELS[case["model"]]()
    if case.get("pretend"):  # an MPI that sends device memory, as any does of a CPU device
        usual, halo_links.mpi_takes_device_memory = halo_links.mpi_takes_device_memory, lambda: True
        try:
            return run({**case, "pretend": False}, backend, comm)
        finally:
            halo_links.mpi_takes_device_memory = usual
    options = HaloOptions(**case.get("options", {}))
    bounds = case.get("bounds") or cut_planes(lattice.shape[0], comm.size)
    if case.get("wait"):  # kernels wait for each other, though ranks may share a device
        planes_run.kernels_may_wait = lambda *_, **__: True
    if case.get("large"):  # for the rest of the program
        planes.FEW_WORDS = 0
    made = PlanesSlab if case.get("planes") else SlabEngine
    slab = made(backend, lattice, comm, bounds, seed=5, options=options)
    slab.engine.load_start()
    samples = [slab.run_sampled([mark]) for mark in case["marks"]]
    counts = [sum(comm.allgather(s.counts)).tolist() for s in samples]
    rows = [s.spills + s.waiting for s in samples]
    message = {
        "digest": digest(comm.allgather(slab.engine.save())),
        "counts": list(itertools.chain(*counts)),
        "spills": [int(sum(comm.allgather(row[0]))) for row in rows],
        "transports": comm.allgather(slab.transports),
        "capacities": comm.allgather(slab.engine.capacity),
    }
    slab.close()
    return message


def main():
    """Cases from the command line, one after another."""
    comm = MPI.COMM_WORLD
    device = sys.argv[2]
    index = comm.rank % device_count(device)  # of those there are, also where ranks must share
    backend = get_backend(device, BackendOptions(index=index, threads=1))
    message = [run(case, backend, comm) for case in json.loads(sys.argv[1])]
    if comm.rank == 0:
        print("told", json.dumps(message))
    backend.close()


if __name__ == "__main__":
    main()

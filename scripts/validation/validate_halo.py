"""A lattice on many ranks: its digest does not depend on ranks, cuts, transports and halos.

    mpirun -n 4 --oversubscribe python scripts/validate.py halo

A + B <-> C on 96 x 64 x 64 periodic sites, 10 and 40 % full, 10,000 steps, on 1, 2, 4, ... of the
ranks, by all transports of the device, with equal and unequal slabs, and with halos of one and three
planes. Rank 0 prints a row for each combination.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np
from measure_lattices import Site
from outcome import Outcome, verdict

from tauslab.decomposition.ranks.job import open_backend
from tauslab.decomposition.ranks.mpi import Communicator, world
from tauslab.decomposition.slab import cut_planes
from tauslab.decomposition.slab_run import HaloOptions, SlabEngine
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.state import LatticeState

SEED = 5
_BATCH = 1000  # steps that are done again where a list was too short


def digest(states: list[LatticeState]) -> str:
    """Digest of the slabs' particles and waiting particles, together."""
    sha = hashlib.sha256(np.concatenate([s.particles for s in states]).tobytes())
    sha.update(np.concatenate([s.waiting for s in states]).tobytes())
    return sha.hexdigest()[:16]


def ways(
    planes: int, ranks: int, transports: tuple[str, ...]
) -> list[tuple[tuple[int, ...], HaloOptions]]:
    """List for every transport an even cut, edges first or not, and thin slabs with deep halos."""
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
) -> list[str]:
    """Digest after all steps, how, who waited, and milliseconds a step."""
    bounds, options = way
    slab = SlabEngine(backend, lattice, comm.native, bounds, seed=SEED, options=options)
    slab.engine.load_start()
    began, spills = time.perf_counter(), 0
    for done in range(0, steps, _BATCH):
        spills = int(slab.run_sampled([min(_BATCH, steps - done)]).spills[0])
    seconds = max(comm.allgather(time.perf_counter() - began))
    spills = sum(comm.allgather(spills))
    result = digest(comm.allgather(slab.engine.save()))
    how = f"{slab.transports}, depth {options.depth}, early {options.early}, {bounds}"
    slab.close()
    return [result, str(comm.size), how, str(spills), f"{1e3 * seconds / steps:.4f}"]


def run(given: Any) -> Outcome | None:
    """Run all ways; the table on rank 0."""
    everyone = world()
    backend = open_backend(given.device, 1, everyone, share=True)
    usual = ("peer", "shared", "host") if backend.waiting_is_free else ("host",)
    transports = tuple(given.transports or usual)
    rows: list[list[str]] = []
    for fill in given.fill:
        lattice = Site(shape=tuple(given.shape), fill=fill).lowered()
        result: list[list[str]] = []
        for ranks in (n for n in (1, 2, 4, 8, 16) if n <= everyone.size):
            comm = everyone.split(int(everyone.rank >= ranks))
            if everyone.rank < ranks:
                every = ways(given.shape[0], ranks, transports)
                result += [advanced(backend, lattice, comm, way, given.steps) for way in every]
            comm.free()
        rows += [
            [f"{100 * fill:g} %", *row, verdict(good=row[0] == result[0][0])] for row in result
        ]
    backend.close()
    if everyone.rank:
        return None
    columns = {
        "full": "filled fraction of the slots",
        "digest": "of particles and waiting particles",
        "ranks": "number of ranks",
        "by": "transports, depth of the halo, whether edges are computed first, first planes of slabs",
        "waited": "particles that waited for a slot",
        "ms per step": "includes the collection of counts",
        "verdict": "pass, or FAIL if the digest differs from that of one rank",
    }
    return Outcome("One lattice on many ranks", f"{given.steps} steps.", columns, rows)

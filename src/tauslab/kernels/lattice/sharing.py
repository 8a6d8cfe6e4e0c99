"""How many replicas of a lattice take steps at the same time on one device."""

from __future__ import annotations

import numpy as np

from tauslab.kernels.backends.base import Backend
from tauslab.kernels.lattice.codegen import may_be_sparse
from tauslab.kernels.lattice.filling import Filling, filling_of
from tauslab.kernels.lattice.lines import sharing_in_lines
from tauslab.kernels.lattice.lowering import LoweredLattice

_COPIES = 4  # of the particles: before and after hops, of the start of a batch, and tables


def replicas_at_a_time(backend: Backend, lattice: LoweredLattice, runs: int) -> int:
    """As many of `runs` lattices as gain speed and find room.

    On a GPU a small lattice waits for its slowest block twice in a step, and others use that time:
    `examples/minde.toml` 7.3 us a step alone, 2.5 with seven others on an H200. On a CPU each
    has a thread, and none waits. Where blocks keep lines of sites (kernels/lattice/lines.py), as
    many as find room: 64^3 sites, 10 % full, take 20 us a step alone, and 28 eight at a time with
    lists of tiles.
    """
    nz, ny, nx = lattice.shape
    sites = nz * ny * nx
    most = min(runs, backend.lattices_together) if sites <= backend.sites_beside else 1
    if filling_of(lattice.start.density) == Filling.MANY or not may_be_sparse(lattice):
        most = sharing_in_lines(backend, lattice, most) or most
    each = _COPIES * sites * (lattice.slots * np.dtype(lattice.particle_type).itemsize + 1)
    most = max(1, min(most, backend.free_memory() // 2 // each))
    rounds = -(-runs // most)
    return max(1, -(-runs // rounds))

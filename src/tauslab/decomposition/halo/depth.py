"""Depth of a halo: few messages against planes that are computed twice.

With a depth of d a message of d planes serves d steps, and in each step d - 1 planes more are
computed than with a depth of 1. `docs/halo.md` says where the formula comes from and how it was
checked; no choice of it changes a result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tauslab.decomposition.halo.peer import DeviceMemory, HostMemory, WindowMemory
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.lowering import LoweredLattice

MOST_DEPTH = 8
EDGE_PLANES = 3.0  # that being cut costs: two beside the slab are hopped in, edges are read twice
_WORTH = 0.95  # of the time with one plane: a deeper halo must promise this or less
_ALIKE = 1.01  # depths whose times differ by less are; the lesser is taken
_PARTS = 4  # a slab has at least so many times the depth, so that it can be cut anew
_HOPS = 0.2  # of a plane's seconds, those of its hops along x and y alone, with some to spare
_BESIDE = 2.5e-5  # seconds for hops in the planes that a message brings


@dataclass(frozen=True)
class Transport:
    """A transport, and the cost of a message by it in both directions at the same time.

    Attributes
    ----------
    latency
        Seconds for a message to be packed, sent and taken in, whatever its size.
    bandwidth
        Bytes a second to each side.
    launches
        Seconds that its kernels take from others.
    memory
        The memory that neighbours' kernels write into; None where messages go through MPI.
    """

    latency: float
    bandwidth: float
    launches: float = 0.0
    memory: Callable[[Backend], WindowMemory] | None = None


# Every transport. Between two of four H200 of a node; `host` and `mpi` between nodes, where they
# are needed.
WAYS = {
    "peer": Transport(2.3e-5, 5e10, 1e-5, DeviceMemory),
    "shared": Transport(4e-5, 1e10, 1e-5, HostMemory),
    "host": Transport(1e-4, 5e9, 1e-5),
    "mpi": Transport(3e-5, 1.2e10, 1e-5),
}


@dataclass(frozen=True)
class Planes:
    """A slab: its planes, seconds that a device takes for one of them, and their bytes.

    `least` is what a step takes that has no planes.
    """

    number: float
    seconds: float
    size: float
    least: float = 0.0


def slab_planes(backend: Backend, lattice: LoweredLattice, number: float) -> Planes:
    """A slab of so many planes, by what the device takes for a site."""
    _, ny, nx = lattice.shape
    seconds = ny * nx * backend.site_seconds / backend.multiprocessors
    site_bytes = lattice.slots * np.dtype(lattice.particle_type).itemsize
    return Planes(number, seconds, ny * nx * site_bytes, backend.step_seconds)


def step_seconds(planes: Planes, way: Transport, depth: int = 1) -> float:
    """Seconds a step of a slab between neighbours.

    >>> slab = Planes(64, 1e-6, 2.0**18, 1e-5)
    >>> round(1e6 * step_seconds(slab, Transport(1e-4, 1e11)), 2)  # 71 us of 103 hide
    108.62
    >>> round(1e6 * step_seconds(slab, Transport(1e-4, 1e11), depth=4), 2)
    89.87
    """
    work = planes.least + planes.seconds * (planes.number + EDGE_PLANES + depth - 1)
    hidden = planes.least + planes.seconds * max(0.0, planes.number - EDGE_PLANES)
    message = way.latency + depth * planes.size / way.bandwidth
    return work + (way.launches + max(0.0, message - hidden)) / depth


def choose_depth(planes: Planes, way: Transport) -> int:
    """The depth with the shortest step, of those that the slab is thick enough for.

    >>> choose_depth(Planes(64, 4e-6, 2.0**20, 3.5e-5), WAYS["peer"])  # 256^3 on four GPUs
    1
    >>> choose_depth(Planes(16, 2.5e-7, 2.0**16, 3.5e-5), WAYS["peer"])  # 64^3
    4
    """
    deepest = max(1, min(MOST_DEPTH, int(planes.number) // _PARTS))
    times = {depth: step_seconds(planes, way, depth) for depth in range(1, deepest + 1)}
    best = min(times.values())
    if best > _WORTH * times[1]:
        return 1
    return min(depth for depth, time in times.items() if time <= _ALIKE * best)


def overlaps_hops(planes: Planes, way: Transport) -> bool:
    """Return whether a message sent at the end of a step comes while the next step's hops last.

    Then the planes at a slab's edges need not be finished before the others, which costs as much
    as some planes.

    >>> overlaps_hops(Planes(128, 4e-6, 2.0**20), WAYS["peer"])  # 256^3 on two GPUs
    True
    >>> overlaps_hops(Planes(64, 4e-6, 2.0**20), WAYS["peer"])
    False
    """
    message = way.latency + planes.size / way.bandwidth
    return message + _BESIDE <= _HOPS * planes.number * planes.seconds

"""How much of a trajectory's state in tables is in the shared memory of a GPU's blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tauslab.kernels.backends.base import Backend
from tauslab.kernels.network.tables import padded

THREADS_OF_A_BLOCK = 128
# That run at the same time: csrc/team/team.h gives a thread 64 registers.
WARPS_OF_A_MULTIPROCESSOR = 32
# Threads of the smallest team whose state may be in shared memory; threads of a multiprocessor.
FEWEST_FAST = 32
THREADS_OF_A_MULTIPROCESSOR = 32 * WARPS_OF_A_MULTIPROCESSOR


def fast_parts(
    parts: Sequence[int], team: int, trajectories: int, backend: Backend, least: int = 0
) -> int:
    """How many parts of a state, of so many bytes each, are in shared memory, first ones first.

    There must be room for them as `fast_room` has it. No result depends on it.
    """
    room = fast_room(team, trajectories, backend, least)
    return int((np.cumsum(parts) <= room).sum()) if room else 0


def fast_room(team: int, trajectories: int, backend: Backend, least: int = 0) -> int:
    """Bytes of shared memory for a trajectory.

    There must be room in every multiprocessor for all `trajectories` that run at the same time, 0
    for as many as can, or for `least` of them.
    """
    if team < FEWEST_FAST or not backend.fast_memory:
        return 0
    return room_of_team(team, trajectories, backend, least)


def room_of_team(team: int, trajectories: int, backend: Backend, least: int = 0) -> int:
    """The same for teams of any size."""
    together = THREADS_OF_A_MULTIPROCESSOR // team
    if trajectories:
        together = min(together, -(-trajectories // backend.multiprocessors))
    together = min(together, least or together)
    return backend.fast_memory // padded(together, max(1, THREADS_OF_A_BLOCK // team))

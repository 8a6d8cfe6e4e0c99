"""All ranks of this launch, for the command line and the Python interface."""

from __future__ import annotations

from functools import cache

from tauslab.runner.ranks.launcher import under_launcher
from tauslab.runner.ranks.mpi import Communicator, SerialCommunicator, world


@cache
def ranks() -> Communicator:
    """All ranks of this launch; MPI starts at the first call, if a launcher started us."""
    return world()


def ranks_for(executor: str) -> Communicator:
    """The ranks that run, or of which one leads Dask workers, which needs no MPI."""
    return SerialCommunicator() if executor == "dask" and not under_launcher() else ranks()

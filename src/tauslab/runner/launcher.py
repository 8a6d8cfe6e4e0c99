"""What the program that starts ranks tells them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from tauslab.model.errors import ConfigError

# Variables that launchers set for every rank: hydra and slurm's pmi2, Open MPI, PMIx.
_LAUNCHER_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_FD", "MPI_LOCALRANKID")


def under_launcher(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether mpirun or srun started this process as one of several ranks."""
    if any(name in environment for name in _LAUNCHER_VARIABLES):
        return True
    return "SLURM_STEP_ID" in environment and "SLURM_PROCID" in environment


def check_slurm(size: int, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse a world of fewer ranks than SLURM was asked for.

    A wrong ``srun --mpi=...`` starts N lone ranks that each do all the work, in silence.  More
    ranks than tasks are right: an mpiexec that goes through srun has one task on each node.
    """
    tasks = environment.get("SLURM_NTASKS")
    if tasks is not None and tasks.isdigit() and int(tasks) > size:
        raise ConfigError(
            f"found {size} MPI rank(s) but SLURM_NTASKS is {tasks}: start tauslab with srun and "
            "the --mpi type of your MPI (srun --mpi=list shows them), or with that MPI's mpirun"
        )


def mpich_settings(library: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables with which this MPI starts on several nodes under ``srun --mpi=pmi2``.

    MPICH 5 over UCX tells other nodes 4,096 bytes for an address, in pieces of up to 1,022 digits
    and a key; runs of zeros are shortened, and what lies behind the address is whatever the heap
    has there.  SLURM's pmi2 reads 1,024 characters of a message at a time (MAX_READLINE in
    its src/plugins/mpi/pmi2/pmi1.c) and takes the rest for another message, so some runs do not
    start.  Over OFI, which the same MPICH has, addresses are short.

    >>> mpich_settings("MPICH Device: ch4:ucx ofi", {"SLURM_MPI_TYPE": "pmi2", "SLURM_NNODES": "2"})
    {'MPIR_CVAR_CH4_NETMOD': 'ofi'}
    """
    several = environment.get("SLURM_STEP_NUM_NODES", environment.get("SLURM_NNODES", "1")) != "1"
    chosen = "MPIR_CVAR_CH4_NETMOD" in environment
    if environment.get("SLURM_MPI_TYPE") != "pmi2" or not several or chosen:
        return {}
    return {"MPIR_CVAR_CH4_NETMOD": "ofi"} if re.search(r"ch4:ucx\b.*\bofi\b", library) else {}

"""Reads what the program that starts ranks puts into their environment."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import socket
from collections.abc import Mapping
from itertools import count

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import said

# Variables that launchers set for every rank: hydra and slurm's pmi2, Open MPI, PMIx, MVAPICH.
_RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")
_LAUNCHER_VARIABLES = (*_RANK_VARIABLES, "PMI_FD", "MPI_LOCALRANKID")
# Number among the ranks of a node, and how many these are.
_PLACE_VARIABLES = (
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
)
_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")

_HOW = (
    "start tauslab with the mpirun of the MPI that mpi4py was built for (tauslab doctor names it), "
    "or install mpi4py anew with this one"
)


def under_launcher(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether mpirun or srun started this process as one of several ranks."""
    if any(name in environment for name in _LAUNCHER_VARIABLES):
        return True
    return "SLURM_STEP_ID" in environment and "SLURM_PROCID" in environment


def launched_rank(environment: Mapping[str, str] = os.environ) -> int:
    """The number that the launcher gave this process, whether or not MPI knows it; else 0.

    >>> launched_rank({"OMPI_COMM_WORLD_RANK": "3"}), launched_rank({})
    (3, 0)
    """
    for name in (*_RANK_VARIABLES, "SLURM_PROCID"):
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return 0


def launched_ranks(environment: Mapping[str, str] = os.environ) -> int:
    """Number of ranks that the launcher started, if it says so; else 1.

    >>> launched_ranks({"PMI_RANK": "0", "PMI_SIZE": "4"}), launched_ranks({"PMI_SIZE": "4"})
    (4, 1)
    """
    if not under_launcher(environment):
        return 1
    sizes = (environment.get(name, "") for name in (*_SIZE_VARIABLES, "SLURM_NTASKS"))
    return max((int(size) for size in sizes if size.isdigit()), default=1)


def launched_place(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """The number of this process among those of its node, and how many these are.

    >>> launched_place({"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}), launched_place({})
    ((1, 4), (0, 1))
    >>> launched_place({"SLURM_LOCALID": "2", "SLURM_NODEID": "1", "SLURM_TASKS_PER_NODE": "4,3"})
    (2, 3)
    """
    for names in _PLACE_VARIABLES:
        number, size = (environment.get(name, "") for name in names)
        if number.isdigit() and size.isdigit():
            return int(number), max(int(size), int(number) + 1)
    number, node = (environment.get(name, "") for name in ("SLURM_LOCALID", "SLURM_NODEID"))
    if not (number.isdigit() and node.isdigit()):
        return 0, 1
    sizes: list[int] = []
    text = environment.get("SLURM_STEP_TASKS_PER_NODE", environment.get("SLURM_TASKS_PER_NODE", ""))
    for size, _, times in re.findall(r"(\d+)(\(x(\d+)\))?", text):
        sizes += [int(size)] * int(times or 1)
    own = sizes[int(node)] if int(node) < len(sizes) else 1
    return int(number), max(own, int(number) + 1)


def check_library(library: str, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse, before it starts, an MPI that cannot talk to the launcher and would end the process.

    MPICH and its kin find each other through PMI; of a launcher that offers PMIx they know nothing
    unless they were built for it, which the options of their build say.
    """
    kin = re.search(r"MPICH|MVAPICH|Intel", library)
    if kin is None or "PMI_RANK" in environment or "pmix" in library.lower():
        return
    ranks = environment.get("OMPI_COMM_WORLD_SIZE", "0")
    # Even one rank ends: MPICH finds PMIx in these variables. Intel's can be set to use it.
    pmix = "PMIX_RANK" in environment and library.startswith("MPICH")
    if int(ranks) > 1 or (pmix and ranks != "0"):
        raise _alike(f"the launcher is Open MPI's but mpi4py uses {kin[0]}: {_HOW}", int(ranks))
    if pmix:
        raise _alike(
            f"the launcher offers PMIx, which the {kin[0]} of mpi4py does not know: start tauslab "
            "with srun --mpi=pmi2, or with the mpirun of that MPI",
            int(environment.get("SLURM_NTASKS", "1")),
        )


def check_launcher(
    size: int, library: str = "", environment: Mapping[str, str] = os.environ
) -> None:
    """Refuse a world of fewer ranks than the launcher started.

    The launcher of another MPI than that of mpi4py starts N lone ranks that each do all the work
    and write the same file, in silence.

    Parameters
    ----------
    library
        The version that the MPI of mpi4py gives.
    """
    for name in _SIZE_VARIABLES:
        started = environment.get(name, "")
        if started.isdigit() and int(started) > size:
            uses = f" and mpi4py uses {' '.join(library.split()[:3]).rstrip(',')}" * bool(library)
            raise _alike(
                f"{size} MPI rank(s) run but the launcher started {started} ({name}){uses}: {_HOW}",
                int(started),
            )
    check_slurm(size, environment)


def _alike(message: str, ranks: int) -> ConfigError:
    """An error that all `ranks` processes meet, though they cannot agree on it."""
    error = ConfigError(message)
    error.raised_by = ranks
    return error


def check_slurm(size: int, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse a world of fewer ranks than SLURM was asked for.

    A wrong ``srun --mpi=...`` starts N lone ranks that each do all the work, in silence.  More
    ranks than tasks are right: an mpiexec that goes through srun has one task on each node.
    """
    tasks = environment.get("SLURM_NTASKS")
    if tasks is not None and tasks.isdigit() and int(tasks) > size:
        alone = said("unset SLURM_NTASKS", 'give comm="self"')
        raise _alike(
            f"{size} MPI rank(s) run but SLURM_NTASKS is {tasks}: start tauslab with srun and "
            "the --mpi type of your MPI (srun --mpi=list shows them), or with that MPI's mpirun; "
            f"to compute in this process alone {alone}",
            int(tasks) if "SLURM_PROCID" in environment else 1,
        )


def mpich_settings(library: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables with which this MPI starts on several nodes under ``srun --mpi=pmi2``.

    MPICH 5 over UCX sends other nodes 4,096 bytes for an address, in pieces of up to 1,022 digits
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


# Held until the process ends, however it ends: a later process then takes the number. Numbers of
# open sockets, for the interpreter warns at its end of sockets that nobody closed.
_HELD: dict[str, tuple[int, int]] = {}


def node_group(scheduler: str, environment: Mapping[str, str] = os.environ) -> str:
    """A name shared by the processes of a machine that share GPUs and are numbered together.

    The workers of one scheduler. Jobs of SLURM on one node see GPUs of their own, each from index
    0 on, and so do processes that were shown different ones.
    """
    seen = [environment.get(name, "") for name in ("SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES")]
    text = "\0".join([scheduler, *seen])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def local_rank(group: str) -> int:
    """The lowest number from 0 on that no other living process of `group` has taken.

    A name in the kernel's abstract socket space stands for a number: it takes no file, and the
    kernel frees it at the end of the process, whatever ended it.
    """
    if group not in _HELD:
        _HELD[group] = _take(group)
    return _HELD[group][0]


def _take(group: str) -> tuple[int, int]:
    for number in count():
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind(f"\0tauslab-{os.getuid()}-{group}-{number}")
        except OSError as error:
            held.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return number, held.detach()
    raise AssertionError
